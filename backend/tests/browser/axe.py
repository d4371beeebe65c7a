"""What axe-core finds wrong with a page."""

from pathlib import Path

from playwright.sync_api import Page

SOURCE = Path(__file__).with_name("axe") / "axe.min.js"
GRAVE = ("serious", "critical")
_RUN = "() => axe.run(document, {resultTypes: ['violations']})"


def grave_problems(page: Page) -> list[str]:
    """Each serious or critical violation, with the first elements that it is about."""
    page.evaluate(SOURCE.read_text(encoding="utf-8"))
    found = page.evaluate(_RUN)
    return [
        f"{each['id']}: {each['help']}: " + "; ".join(str(node["html"])[:200] for node in each["nodes"][:5])
        for each in found["violations"]
        if each["impact"] in GRAVE
    ]
