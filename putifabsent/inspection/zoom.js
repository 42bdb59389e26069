for (const figure of document.querySelectorAll(".timeline")) {
  const svg = figure.querySelector("svg"), bars = svg.querySelector(".bars");
  const full = UNITS, height = bars.viewBox.baseVal.height, ticks = [...svg.querySelectorAll(".tick")];
  const from = +svg.dataset.from, to = +svg.dataset.to;
  let left = 0, width = full;
  const show = () => {
    width = Math.min(full, Math.max(full / 1e5, width));
    left = Math.min(full - width, Math.max(0, left));
    bars.setAttribute("viewBox", `${left} 0 ${width} ${height}`);
    const seen = (to - from) * width / full;
    ticks.forEach((tick, number) => {
      const at = from + (to - from) * (left + width * number / (ticks.length - 1)) / full;
      const text = new Date(at).toISOString();
      tick.textContent = seen > DAYS ? text.slice(0, 10) : seen > 36e5 ? text.slice(5, 16).replace("T", " ")
        : seen > 6e4 ? text.slice(11, 19) : text.slice(11, 23);
    });
  };
  const zoom = (factor, at = .5) => {
    const middle = left + width * at;
    width = Math.min(full, width * factor);
    left = middle - width * at;
    show();
  };
  const keys = {"+": () => zoom(.5), "-": () => zoom(2), "ArrowLeft": () => { left -= width / 4; show(); },
    "ArrowRight": () => { left += width / 4; show(); }, "0": () => zoom(full) };
  figure.querySelector("figcaption")?.remove();
  figure.insertAdjacentHTML("beforeend", `<figcaption><button value="+" aria-label="zoom in">+</button>
    <button value="-" aria-label="zoom out">&minus;</button>
    <button value="ArrowLeft" aria-label="earlier">&larr;</button>
    <button value="ArrowRight" aria-label="later">&rarr;</button> <button value="0">all</button>
    <span class="about">or drag, Ctrl and the wheel, + - 0 and arrows; a bar says what it is</span>
    </figcaption>`);
  for (const button of figure.querySelectorAll("button")) button.onclick = () => keys[button.value]();
  figure.onkeydown = event => { if (keys[event.key]) { keys[event.key](); event.preventDefault(); } };
  bars.onwheel = event => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const box = bars.getBoundingClientRect();
    zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : .8, (event.clientX - box.left) / box.width);
  };
  let held = null;
  bars.onpointerdown = event => { held = event.clientX; bars.setPointerCapture(event.pointerId); };
  bars.onpointermove = event => {
    if (held === null) return;
    left -= (event.clientX - held) / bars.getBoundingClientRect().width * width;
    held = event.clientX;
    show();
  };
  bars.onpointerup = () => { held = null; };
}
