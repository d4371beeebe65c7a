"""Lines over time as an SVG, written by hand: one panel below the other, each with its own scale from zero up."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 150
LEFT, TOP, GAP = 90, 50, 50
COLOURS = ("#1f6feb", "#d1570c")

Panels = Mapping[str, Mapping[str, Sequence[float]]]
"""By title the lines that share a scale: by name, one value a moment."""


def write_plot(path: Path, heading: str, seconds: Sequence[float], panels: Panels) -> None:
    height = TOP + len(panels) * (HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}">',
        '<style>text { font: 12px sans-serif } .end { text-anchor: end }</style><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20">{escape(heading)}</text>',
    ]
    for number, (title, lines) in enumerate(panels.items()):
        parts += _panel(title, lines, seconds, TOP + number * (HEIGHT + GAP))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>\n"]), encoding="utf-8")


def _panel(title: str, lines: Mapping[str, Sequence[float]], seconds: Sequence[float], top: int) -> list[str]:
    highest, end = max(map(max, lines.values())) or 1.0, max(seconds)
    right, bottom = LEFT + WIDTH, top + HEIGHT
    parts = [
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>',
        f'<text x="{LEFT}" y="{top - 5}">{escape(title)}, up to {highest:,.0f}</text>',
        f'<text class="end" x="{right}" y="{bottom + 15}">{end:.0f} s</text>',
    ]
    for place, ((name, line), colour) in enumerate(zip(lines.items(), COLOURS, strict=False)):
        points = " ".join(
            f"{LEFT + WIDTH * moment / end:.1f},{bottom - HEIGHT * value / highest:.1f}"
            for moment, value in zip(seconds, line, strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(
            f'<text class="end" x="{right - 90 * place}" y="{top - 5}" fill="{colour}">{escape(name)}</text>'
        )
    return parts
