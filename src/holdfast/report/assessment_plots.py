"""The plots of an assessment: quality by outage, by offset and by section (DEBS'11, Figures 8 to 11)."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from holdfast.assess.assessment import Assessment, CaseView, OffsetView, unprotected_ranking
from holdfast.assess.campaign import Campaign
from holdfast.assess.case import outage_name
from holdfast.assess.metrics import fitted_line
from holdfast.report.plot import FAINT, INK, SERIES, draw_svg, line_plot


def outage_plot(view: CaseView) -> str:
    """Plot quality against outage with a fitted line, at the offset with the largest impact (Figure 8)."""
    worst = view.worst
    slope, intercept = fitted_line(view.tuples, worst.quality)

    def draw(axes: Axes) -> None:
        ends = np.array([min(view.tuples), max(view.tuples)])
        axes.axhline(1.0, color=FAINT, linewidth=1)
        if math.isfinite(intercept):  # there is no quality if the golden score is zero
            axes.plot(ends, slope * ends + intercept, color=SERIES[1], label=f"f(x) = {slope:.2e} x + {intercept:.2f}")
            axes.legend()
        axes.plot(view.tuples, worst.quality, "o", color=SERIES[0])
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set(xlabel="outage (tuples)", ylabel="quality score", title=f"{view.case}, offset {worst.offset:,}")

    return draw_svg(draw, label=f"quality score of {view.case} against outage")


def offset_plot(assessment: Assessment) -> str:
    """Plot quality of every case against offset, for the longest outage (Figure 9)."""
    lines = []
    for view in assessment.cases:
        longest = int(np.argmax(view.tuples))
        lines.append((view.case, [o.offset for o in view.offsets], [o.quality[longest] for o in view.offsets]))
    return line_plot(lines, x="offset (source tuples)", y="quality score")


def local_plot(view: CaseView, campaign: Campaign) -> str:
    """Plot local quality after the fault, with a mark at recovery (Figures 10 and 11)."""
    return _local(view.worst, campaign, name=view.case)


def growth_plots(assessment: Assessment, campaign: Campaign) -> list[str]:
    """Plot local quality of the most critical case for a short, a medium and the longest outage (Figure 11)."""
    name, last = unprotected_ranking(campaign, assessment)[0].case, len(assessment.growth) - 1
    chosen = sorted({(last + 1) // 3, 2 * (last + 1) // 3, last})
    views = [assessment.growth[at] for at in chosen]
    return [_local(view, campaign, name=f"{name}, {outage_name(outage_s)} s") for outage_s, view in views]


def _local(worst: OffsetView, campaign: Campaign, *, name: str) -> str:
    length = min(len(worst.errors), max(20, int(worst.recovery * 1.4) + 5))
    sections = np.arange(worst.begin, worst.begin + length)
    quality = worst.local_quality[:length]

    def draw(axes: Axes) -> None:
        axes.axhspan(1 - campaign.threshold, 1 + campaign.threshold, color=FAINT, alpha=0.3, linewidth=0)
        axes.axhline(1.0, color=FAINT, linewidth=1)
        axes.plot(sections, quality, color=SERIES[0], marker="o" if length <= 60 else "", markersize=3)
        if worst.recovery:
            at = worst.begin + worst.recovery - 1
            axes.axvline(at, color=SERIES[1], linestyle="--")
            axes.annotate(
                f"R = {worst.recovery}",
                (at, 0.98),
                (5, 0) if at <= sections[-1] - 0.12 * length else (-5, 0),  # on the side of the line with more space
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="left" if at <= sections[-1] - 0.12 * length else "right",
                va="top",
                color=INK,
            )
        axes.margins(y=0.15)  # space for the label of the mark
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel=f"section ({campaign.section:,} seqs)", ylabel="local quality score")
        axes.set_title(f"{name}, offset {worst.offset:,}: I\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{worst.impact:.2f}")

    return draw_svg(draw, label=f"local quality score after a fault of {name}")
