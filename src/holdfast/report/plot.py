"""Draw plots as inline SVG. The page defines their colours, so that they suit light and dark mode."""

import io
import re
import textwrap
import threading
import warnings
from collections.abc import Callable, Sequence
from hashlib import sha256
from html import escape
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

WIDTH, HEIGHT = 5.2, 3.0
SHORT = 36  # most letters of a name in a legend of two columns
INK, FAINT = "#010203", "#040506"
SERIES = ("#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04", "#0a0b05", "#0a0b06")
"""Placeholder colours. They are replaced by the style variables of the page when the plot is written."""

QUALITY = {"exact": "#0c0d01", "tentative": "#0c0d02", "predicted": "#0c0d03", "absent": "#0c0d04"}
"""Placeholder colours of the qualities, which have the same colours as in the web page of the orchestrator."""

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
"""The light colours of the page, for pictures outside a page."""

LINES = ("-", "--", ":")
"""Line styles, to distinguish lines if there are more of them than colours."""

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
    "text.parse_math": False,  # show a $ in a name literally
    "grid.color": FAINT,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
    "axes.grid": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
}
_RC_LOCK = threading.Lock()


def draw_svg(draw: Callable[[Axes], None], *, label: str, width: float = WIDTH, height: float = HEIGHT) -> str:
    """Return an SVG element of what `draw` draws on the axes. `label` describes it for screen readers."""
    with _RC_LOCK, matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the browser may have the glyph
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        axes.set_title(_wrap(axes.get_title()))
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() in ("log", "symlog"):
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))  # the default writes formulas
                axis.set_minor_formatter(NullFormatter())
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(text.getvalue(), label)


def standalone_svg(svg: str) -> str:
    """Return an SVG element as a picture that needs no page, in light colours.

    >>> standalone_svg('<path stroke="var(--s0)"/>')
    '<path stroke="#2563a8"/>'
    """
    for name, colour in LIGHT.items():
        svg = svg.replace(f"var({name})", colour)
    return svg


def _wrap(title: str) -> str:
    """Wrap a title to at most three lines: the name of a group of operators can be long.

    >>> print(_wrap("market+trade_quote+quote_filter+trade_filter+aggregator+vwap, offset 5"))
    market+trade_quote+quote_filter+trade_filter+aggregator+
    vwap, offset 5
    """
    lines = [line.replace("+ ", "+") for line in textwrap.wrap(title.replace("+", "+ "), 64)]
    return "\n".join(lines[:3]) + (" ..." if len(lines) > 3 else "")


def line_plot(
    lines: Sequence[tuple[str, Sequence[float], Sequence[float]]], *, x: str, y: str, title: str = "", level: float | None = 1.0
) -> str:
    """Return a plot of named lines with markers, and a faint horizontal line at `level` to compare with."""
    names = [_wrap(name) for name, _, _ in lines]
    columns = 2 if all(len(name) <= SHORT for name in names) else 1

    def draw(axes: Axes) -> None:
        if level is not None:
            axes.axhline(level, color=FAINT, linewidth=1)
        for number, (name, (_, xs, ys)) in enumerate(zip(names, lines, strict=True)):
            style = LINES[number // len(SERIES) % len(LINES)]
            axes.plot(xs, ys, marker="o", linestyle=style, color=SERIES[number % len(SERIES)], label=name)
        axes.set(xlabel=x, ylabel=y, title=title)
        if len(lines) > 1:
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=columns)  # below the axes, where it hides no line

    rows = sum(name.count("\n") + 1 for name in names)
    return draw_svg(draw, label=title or f"{y} against {x}", height=HEIGHT + 0.25 * rows)


def _inline(svg: str, label: str) -> str:
    svg = svg[svg.index("<svg") :]
    for _ in range(2):  # one size each time
        svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" class="plot" ', 1)
    names = {INK: "var(--ink)", FAINT: "var(--faint)"} | {c: f"var(--s{n})" for n, c in enumerate(SERIES)}
    names |= {colour: f"var(--{quality})" for quality, colour in QUALITY.items()}
    for colour, name in names.items():
        svg = svg.replace(colour, name)
    salt = f"p{sha256(svg.encode()).hexdigest()[:10]}"  # keeps the ids of all plots of a page apart
    svg = re.sub(r'id="([^"]+)"', rf'id="{salt}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{salt}-\1)", svg)
    return re.sub(r'href="#([^"]+)"', rf'href="#{salt}-\1"', svg)
