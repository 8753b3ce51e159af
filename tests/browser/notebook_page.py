"""One notebook in the browser: open it, run it, find what stands in it."""

from __future__ import annotations

from typing import Any

START_MS = 60_000
KERNEL_IS_IDLE = """() => {
    const shown = window.jupyterapp?.shell.currentWidget;
    return shown?.sessionContext?.session?.kernel?.status === "idle";
}"""


class Notebook:
    """One notebook open in the browser; looked for is only what stands in the notebook itself."""

    def __init__(self, lab: Any, page: Any, name: str):
        self.page, self.name = page, name
        page.goto(f"{lab.url}/doc/tree/{name}?token={lab.token}")
        self.area = page.locator(".jp-Notebook")
        self.area.locator(".jp-CodeCell").first.wait_for(timeout=START_MS)
        page.wait_for_function(KERNEL_IS_IDLE, timeout=START_MS)

    def run_all(self) -> None:
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()

    def button(self, name: str) -> Any:
        return self.area.get_by_role("button", name=name, exact=True)

    @property
    def cards(self) -> Any:
        return self.area.locator(".memlab-card")

    def focused(self, script: str) -> Any:
        return self.page.evaluate(f"document.activeElement.{script}")
