"""Plots as inline SVG, in colours that the page decides: readable in light and dark, offline, at any size."""

import io
import re
import textwrap
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

WIDTH, HEIGHT = 5.2, 3.0
SHORT = 36  # letters of a name that fits beside another
INK, FAINT = "#010203", "#040506"
SERIES = ("#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04", "#0a0b05", "#0a0b06")
"""Colours that stand for the page's own: replaced by style variables when the plot is written."""

QUALITY = {"exact": "#0c0d01", "tentative": "#0c0d02", "predicted": "#0c0d03", "absent": "#0c0d04"}
"""The colours of qualities, which are those of the dashboard."""

LIGHT = {
    "--ink": "#1c2024",
    "--faint": "#9aa3ab",
    "--s0": "#2563a8",
    "--s1": "#c2571a",
    "--s2": "#2e8b57",
    "--s3": "#8e44ad",
    "--s4": "#b8860b",
    "--s5": "#5f6b73",
}
"""The page's light colours, for pictures that stand alone."""

LINES = ("-", "--", ":")
"""Styles that tell lines apart when there are more of them than colours."""

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "holdfast",
    "font.family": ["sans-serif"],
    "font.size": 9,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "text.parse_math": False,  # a $ in a name is a $
    "grid.color": FAINT,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
    "axes.grid": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
}
_ONE_AT_A_TIME = threading.Lock()


def draw_svg(draw: Callable[[Axes], None], *, label: str, width: float = WIDTH, height: float = HEIGHT) -> str:
    """An SVG element of what `draw` puts on a pair of axes; `label` says what it shows to those who cannot see it."""
    with _ONE_AT_A_TIME, matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the reader's browser may have it
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        axes.set_title(_in_lines(axes.get_title()))
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() in ("log", "symlog"):
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))  # by itself it writes formulas
                axis.set_minor_formatter(NullFormatter())
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(text.getvalue(), label)


def standalone_svg(svg: str) -> str:
    """A drawn element as a picture of its own, in the page's light colours.

    >>> standalone_svg('<path stroke="var(--s0)"/>')
    '<path stroke="#2563a8"/>'
    """
    for name, colour in LIGHT.items():
        svg = svg.replace(f"var({name})", colour)
    return svg


def _in_lines(title: str) -> str:
    """A title that leaves room for what it stands over: a group of operators may have a name of many.

    >>> print(_in_lines("market+trade_quote+quote_filter+trade_filter+aggregator+vwap, offset 5"))
    market+trade_quote+quote_filter+trade_filter+aggregator+
    vwap, offset 5
    """
    lines = [line.replace("+ ", "+") for line in textwrap.wrap(title.replace("+", "+ "), 64)]
    return "\n".join(lines[:3]) + (" ..." if len(lines) > 3 else "")


def line_plot(
    lines: Sequence[tuple[str, Sequence[float], Sequence[float]]], *, x: str, y: str, title: str = "", level: float | None = 1.0
) -> str:
    """Lines with markers, one per name, and a faint level to compare them with."""
    names = [_in_lines(name) for name, _, _ in lines]
    columns = 2 if all(len(name) <= SHORT for name in names) else 1

    def draw(axes: Axes) -> None:
        if level is not None:
            axes.axhline(level, color=FAINT, linewidth=1)
        for number, (name, (_, xs, ys)) in enumerate(zip(names, lines, strict=True)):
            style = LINES[number // len(SERIES) % len(LINES)]
            axes.plot(xs, ys, marker="o", linestyle=style, color=SERIES[number % len(SERIES)], label=name)
        axes.set(xlabel=x, ylabel=y, title=title)
        if len(lines) > 1:
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=columns)  # below, where no line passes

    rows = sum(name.count("\n") + 1 for name in names)
    return draw_svg(draw, label=title or f"{y} against {x}", height=HEIGHT + 0.25 * rows)


def _inline(svg: str, label: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg)
    safe = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{safe}" class="plot" ', 1)
    names = {INK: "var(--ink)", FAINT: "var(--faint)"} | {c: f"var(--s{n})" for n, c in enumerate(SERIES)}
    names |= {colour: f"var(--{quality})" for quality, colour in QUALITY.items()}
    for colour, name in names.items():
        svg = svg.replace(colour, name)
    salt = f"p{abs(hash_of(svg)):x}"
    svg = re.sub(r'id="([^"]+)"', rf'id="{salt}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{salt}-\1)", svg)
    return re.sub(r'href="#([^"]+)"', rf'href="#{salt}-\1"', svg)


def hash_of(text: str) -> int:
    """A number that is the same for the same text in every process."""
    value = 0
    for letter in text[:4000] + str(len(text)):
        value = (value * 131 + ord(letter)) % (1 << 40)
    return value
