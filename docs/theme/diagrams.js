// Before the theme looks for it, and only where there is something to draw: it has 3 MB.
if (document.querySelector("pre.mermaid")) {
  const script = new URL("../scripts/mermaid.js", document.currentScript.src);
  document.write(`<script src="${script}" onload="heads()"></` + "script>");
}
// The theme colours arrowheads by an id that has a prefix by now: in the dark they were not to be seen.
function heads() {
  const { initialize } = mermaid;
  const colour = "[id$=-arrowhead] path { fill: var(--md-mermaid-sequence-message-line-color); stroke: none }";
  mermaid.initialize = config => initialize({ ...config, themeCSS: `${config.themeCSS ?? ""} ${colour}` });
}
