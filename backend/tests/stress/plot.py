"""Lines over time as an SVG, written by hand: one panel below the other, each with its own scale from zero up."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 150
LEFT, TOP, GAP = 90, 30, 50
COLOURS = ("#1f6feb", "#d1570c")


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines that share one scale."""

    title: str
    lines: dict[str, Sequence[float]]
    """By name; one value a moment."""


def write_plot(path: Path, heading: str, seconds: Sequence[float], panels: Sequence[Panel]) -> None:
    height = TOP + len(panels) * (HEIGHT + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}">',
        "<style>text { font: 12px sans-serif }</style>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20">{escape(heading)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, seconds, TOP + number * (HEIGHT + GAP) + 20)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>\n"]), encoding="utf-8")


def _panel(panel: Panel, seconds: Sequence[float], top: int) -> list[str]:
    highest = max([value for line in panel.lines.values() for value in line] or [0.0]) or 1.0
    end = max(seconds, default=0.0) or 1.0
    bottom = top + HEIGHT
    parts = [
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>',
        f'<text x="{LEFT}" y="{top - 5}">{escape(panel.title)}</text>',
        f'<text x="{LEFT - 8}" y="{top + 10}" text-anchor="end">{highest:,.0f}</text>',
        f'<text x="{LEFT - 8}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{LEFT + WIDTH}" y="{bottom + 15}" text-anchor="end">{end:.0f} s</text>',
    ]
    for (name, line), colour, place in zip(panel.lines.items(), COLOURS, range(2), strict=False):
        points = " ".join(
            f"{LEFT + WIDTH * moment / end:.1f},{bottom - HEIGHT * value / highest:.1f}"
            for moment, value in zip(seconds, line, strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(
            f'<text x="{LEFT + WIDTH - 90 * place}" y="{top - 5}" text-anchor="end" fill="{colour}">{escape(name)}</text>'
        )
    return parts
