"""One notebook in the browser: open it, run it, find what stands in it."""

from __future__ import annotations

from typing import Any

START_MS = 60_000
KERNEL_IS_IDLE = """() => {
    const shown = window.jupyterapp?.shell.currentWidget;
    return shown?.sessionContext?.session?.kernel?.status === "idle";
}"""
USE_THEME = """theme =>
    window.jupyterapp.commands.execute("apputils:change-theme", { theme })"""
ALL_CELLS_RAN = """() => {
    const cells = [...window.jupyterapp.shell.currentWidget.content.model.cells];
    return cells.every(cell => cell.type !== "code" || cell.executionCount);
}"""
SCROLL_TO = """async words => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    const index = notebook.widgets.findIndex(cell => cell.model.type === "code"
        && cell.model.sharedModel.getSource().includes(words));
    notebook.activeCellIndex = index;
    await notebook.scrollToItem(index, "start");
}"""
COLOURS = """element => {
    const parse = text => text.match(/[\\d.]+/g).map(Number);
    const ink = parse(getComputedStyle(element).color);
    for (let at = element; at; at = at.parentElement) {
        const paper = parse(getComputedStyle(at).backgroundColor);
        if (paper.length === 3 || paper[3] > 0) return [ink, paper];
    }
    return [ink, [255, 255, 255]];
}"""


class Notebook:
    """One notebook open in the browser; only what stands in the notebook itself is looked at."""

    def __init__(self, lab: Any, page: Any, name: str):
        self.page, self.name = page, name
        page.goto(f"{lab.url}/doc/tree/{name}?token={lab.token}")
        self.area = page.locator(".jp-Notebook")
        self.area.locator(".jp-CodeCell").first.wait_for(timeout=START_MS)
        page.wait_for_function(KERNEL_IS_IDLE, timeout=START_MS)

    def run_all(self) -> None:
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()

    def wait_for_the_end(self, timeout_ms: int) -> None:
        self.page.wait_for_function(ALL_CELLS_RAN, timeout=timeout_ms)

    def scroll_to(self, words: str) -> None:
        """Bring the first code cell with these words to the top: others may not be drawn at all."""
        self.page.evaluate(SCROLL_TO, words)

    def button(self, name: str) -> Any:
        return self.area.get_by_role("button", name=name, exact=True)

    @property
    def cards(self) -> Any:
        return self.area.locator(".memlab-card")

    def focused(self, script: str) -> Any:
        """Ask the element that has the focus, for example for its `textContent`."""
        return self.page.evaluate(f"document.activeElement.{script}")

    def tab_to(self, name: str, title: str = "", most: int = 80) -> None:
        """Press Tab until the button or field of that name has the focus."""
        for _ in range(most):
            self.page.keyboard.press("Tab")
            named = self.focused("textContent") == name
            if named and title in (self.focused("title") or ""):
                return
        raise AssertionError(f"{most} times Tab did not lead to {name!r} ({title!r})")

    def use_theme(self, name: str) -> None:
        self.page.evaluate(USE_THEME, name)
        dark = "false" if "Dark" in name else "true"
        self.page.locator(f"body[data-jp-theme-light='{dark}']").wait_for(state="attached")
        self.page.wait_for_timeout(500)  # the colours fade over


def contrast(element: Any) -> float:
    """Return the contrast of an element's text against what is behind it, as WCAG 2 defines it."""
    ink, paper = (_luminance(colour) for colour in element.evaluate(COLOURS))
    return (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)


def _luminance(colour: list[float]) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in colour[:3])
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
