"""Reports and the built documentation in Chromium: on a desktop, a phone and in the dark, with no network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.inspection.tables import packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from playwright.sync_api import Browser, Page

# A busy machine is no failure.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
SECONDS = 150

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"
# Decisions, which look alike, are for those who carry the project on.
PAGES = sorted(
    str(page.relative_to(ROOT / "docs").with_suffix(".html"))
    for page in (ROOT / "docs").rglob("*.md")
    if page.parent.name != "decisions"
)
SHORT = bool(os.environ.get("SHORT"))
FIGURE = re.compile(r"^(!\[|```mermaid)", re.MULTILINE)


def look_different(pages: list[str]) -> list[str]:
    """Return one page of each folder, and those that have figures."""
    firsts = {str(Path(page).parent): page for page in reversed(pages)}
    return [
        page
        for page in pages
        if page in firsts.values() or FIGURE.search((ROOT / "docs" / page).with_suffix(".md").read_text())
    ]


DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
VIEWS: dict[str, dict[str, Any]] = {
    "desktop": DESKTOP,
    "phone": {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True},
    "dark": {**DESKTOP, "color_scheme": "dark"},
}
# What a view has that the desktop has not: its colours, or its layout. Contrasts take most of the time.
RULES: dict[str, dict[str, Any]] = {
    "desktop": {},
    "phone": {"rules": {"color-contrast": {"enabled": False}}},
    "dark": {"runOnly": ["color-contrast"]},
}
AXE = """async rules => {
  const found = await axe.run(document, {preload: false, resultTypes: ["violations"], ...rules});
  return found.violations.filter(each => ["serious", "critical"].includes(each.impact)).map(
    each => `${each.id}: ${each.nodes[0].html.slice(0, 200)}: ${each.nodes[0].failureSummary}`);
}"""
TOO_WIDE = """() => {
  const root = document.documentElement, [has, wants] = [root.clientWidth, root.scrollWidth];
  return wants > has ? [`it scrolls sideways: ${wants} of ${has} pixels`] : [];
}"""
IN_ITSELF = ("file:", "data:", "blob:", "about:")


class View:
    """A window of the browser, and what its page has requested and complained of."""

    def __init__(self, browser: Browser, name: str) -> None:
        self.name = name
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page: Page = browser.new_page(**VIEWS[name])
        self.page.set_default_timeout(SECONDS * 1000)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console", lambda message: self.errors.append(message.text) if message.type == "error" else None
        )

    def open(self, file: Path) -> Page:
        self.requests.clear()
        self.errors.clear()
        self.page.goto(file.as_uri())
        return self.page

    def troubles(self, file: Path, axe: str) -> list[str]:
        page = self.open(file)
        page.evaluate(axe)
        found = [*page.evaluate(TOO_WIDE), *page.evaluate(AXE, RULES[self.name]), *self.errors]
        found += [f"it requests {url}" for url in self.requests if not url.startswith(IN_ITSELF)]
        return [f"{self.name}: {each}" for each in found]


@pytest.fixture(scope="session")
def views() -> Iterator[dict[str, View]]:
    """Open a window for each view, once a test process."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # A container's root has no sandbox; what is opened is this project's own.
        browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=["--no-sandbox"])
        yield {name: View(browser, name) for name in VIEWS}
        browser.close()


@pytest.fixture(scope="session")
def look(views: Mapping[str, View]) -> Callable[[Path], list[str]]:
    """Give what is wrong with a page, in all views."""
    axe = (files("axe_playwright_python") / "axe.min.js").read_text()
    return lambda file: [each for view in views.values() for each in view.troubles(file, axe)]


@pytest.mark.parametrize("name", look_different(PAGES) if SHORT else PAGES)
def test_a_page_of_the_documentation_is_well_on_every_screen(
    name: str, look: Callable[[Path], list[str]]
) -> None:
    assert look(SITE / name) == []


def reported(report: Path, *command: str | Path) -> Path:
    """Run a command that writes a report, whatever it says of what it has looked at."""
    done = subprocess.run(
        [Path(sys.executable).with_name("putifabsent"), *map(str, command), "--report", report],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert report.exists(), done.stderr
    return report


def hurt(folder: Path) -> Path:
    """Unpack a Hudi table, and take the bytes of a completed instant and a file of data."""
    table = Path(packed("raced_hudi", folder))
    _, second, *_ = sorted((table / ".hoodie" / "timeline").glob("*.commit"))
    second.write_bytes(b"")
    max(table.rglob("*.parquet")).unlink()
    return table


def inspected(folder: Path) -> Path:
    return reported(folder / "report.html", "inspect", hurt(folder))


def inspected_long(folder: Path) -> Path:
    """Inspect a log of 10,000 commits, one of which is torn."""
    log = folder / "table" / "_delta_log"
    log.mkdir(parents=True)
    for number in range(10_000):
        info = {"operation": "WRITE", "timestamp": 1_700_000_000_000 + 60_000 * number}
        (log / f"{number:020}.json").write_text(json.dumps({"commitInfo": info}))
    (log / f"{7_000:020}.json").write_text('{"commitInf')
    return reported(folder / "report.html", "inspect", log.parent)


def inspected_all(folder: Path) -> Path:
    lake = folder / "lake"
    lake.mkdir()
    hurt(lake)
    for name in ("raced_delta", "raced_paimon"):
        packed(name, lake)
    return reported(folder / "report.html", "inspect", lake)


def simulated(folder: Path) -> Path:
    cells = ("--writers", "2-4", "--interval", "5m", "--runs", "20", "--processes", "1")
    return reported(folder / "report.html", "simulate", *cells)


def stressed(folder: Path) -> Path:
    short = ("--writers", "2", "--duration", "2s", "--format", "delta", "--without", "lost", "--stock")
    return reported(folder / "report.html", "stress", folder, *short)


@pytest.mark.parametrize(
    "made", [inspected, *([] if SHORT else [inspected_long]), inspected_all, simulated, stressed]
)
def test_a_report_is_well_on_every_screen(
    made: Callable[[Path], Path], look: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    assert look(made(tmp_path)) == []


def test_a_timeline_is_zoomed_and_moved_by_its_buttons(views: Mapping[str, View], tmp_path: Path) -> None:
    page = views["phone"].open(inspected(tmp_path))

    def shown() -> list[float]:
        return [float(each) for each in (page.get_attribute("svg.bars", "viewBox") or "").split()]

    _, _, whole, _ = shown()
    page.get_by_role("button", name="zoom in").tap()
    left, _, width, _ = shown()
    assert width == whole / 2
    page.get_by_role("button", name="later").tap()
    assert shown()[0] > left
    page.get_by_role("button", name="all").tap()
    assert shown()[:3] == [0, 0, whole]


def test_a_finding_leads_to_its_row_of_the_timeline(views: Mapping[str, View], tmp_path: Path) -> None:
    page = views["desktop"].open(inspected(tmp_path))
    link = page.locator("div.damage a").first
    link.click()
    row = page.locator(f"[id='{(link.get_attribute('href') or '').removeprefix('#')}']")
    assert "damage" in (row.get_attribute("class") or "")
    assert row.evaluate("row => row.getBoundingClientRect().top >= 0")
    assert row.evaluate("row => row.getBoundingClientRect().bottom <= innerHeight")


def test_diagrams_are_drawn_without_a_network(views: Mapping[str, View]) -> None:
    pages = [page for page in PAGES if 'class="mermaid"' in (SITE / page).read_text()]
    assert pages
    for name in pages:
        page = views["desktop"].open(SITE / name)
        page.wait_for_function("() => document.querySelector('div.mermaid')?.clientHeight > 50")
        assert [url for url in views["desktop"].requests if not url.startswith(IN_ITSELF)] == []


def test_a_folder_of_pages_is_searched_without_a_network(views: Mapping[str, View]) -> None:
    page = views["desktop"].open(SITE / "index.html")
    page.get_by_role("textbox", name="Search").fill("OutcomeUnknown")
    page.get_by_role("link", name=re.compile("unknown", re.IGNORECASE)).first.wait_for()
    assert [url for url in views["desktop"].requests if not url.startswith(IN_ITSELF)] == []
