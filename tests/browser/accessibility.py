"""What axe-core, the usual checker of accessibility, finds in a part of a page."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

CARRIER = "axe_playwright_python"  # the package that brings axe-core; only that file of it is used
GRAVE = ("serious", "critical")
CHECK = """async selector => {
    const { violations } = await axe.run(
        { include: [[selector]] }, { resultTypes: ["violations"], iframes: false });
    return violations.flatMap(({ id, impact, help, nodes }) => nodes.map(
        ({ target, html, impact: here }) =>
            [here ?? impact, `${id}: ${help} at ${target.join(" ")}: ${html.slice(0, 200)}`]));
}"""


def serious_findings(page: Any, selector: str) -> list[str]:
    """Return what axe-core calls serious or critical inside the elements that `selector` names.

        assert serious_findings(page, ".memlab-panel") == []

    Only what is drawn is looked at: scroll a long notebook there first. A selector that matches
    nothing is an error, never an empty list.
    """
    if page.locator(selector).count() == 0:
        raise AssertionError(f"nothing on the page matches {selector!r}")
    if not page.evaluate("() => typeof window.axe?.run === 'function'"):
        page.evaluate(_axe())
    return [text for impact, text in page.evaluate(CHECK, selector) if impact in GRAVE]


def _axe() -> str:
    found = importlib.util.find_spec(CARRIER)
    if found is None or found.origin is None:
        missing = 'axe-core is not installed; run: pip install "memlab[test]"'
        if os.environ.get("MEMLAB_REQUIRE_BROWSER") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    return Path(found.origin).with_name("axe.min.js").read_text(encoding="utf-8")
