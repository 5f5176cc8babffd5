"""Draws Figure 9: the seconds to start all jobs and to recover, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.report import SERIES, draw_svg, standalone_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GROUPS = (
    ("start", "start_s", 1.0),
    ("recover", "recover_s", 1.0),
    ("start, paper", "paper_start_s", 0.4),
    ("recover, paper", "paper_recover_s", 0.4),
)
"""The bars of a row: their name, the column with their seconds, and their opacity."""
WIDTH = 0.2


def figure_9(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return Figure 9 as an SVG picture, on a logarithmic scale. The paper has no bars for rows beyond its scale."""

    def draw(axes: Axes) -> None:
        for number, (name, column, opacity) in enumerate(GROUPS):
            bars = [(at + WIDTH * (number - 1.5), row[column]) for at, row in enumerate(rows) if row[column] is not None]
            if bars:
                positions, seconds = zip(*bars, strict=True)
                axes.bar(positions, seconds, width=WIDTH, color=SERIES[number % 2], alpha=opacity, label=name)
        axes.set_xticks(range(len(rows)), [f"{row['row']}\n{row['pes']:,} PEs\n{row['nodes']:,} nodes" for row in rows])
        axes.set_yscale("log")
        axes.set(title="Figure 9: starting all jobs against recovering them", ylabel="seconds")
        axes.legend()

    return standalone_svg(draw_svg(draw, label="Seconds to start and to recover", width=max(5.2, 1.2 * len(rows))))
