"""The plots of an assessment: quality against outage and offset, and section by section (DEBS'11, Figures 8 to 11)."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from holdfast.assess.assessment import Assessment, CaseView, OffsetView, unprotected_ranking
from holdfast.assess.campaign import Campaign
from holdfast.assess.case import outage_name
from holdfast.assess.metrics import fitted_line
from holdfast.report.plot import FAINT, INK, SERIES, drawn, line_plot


def outage_plot(view: CaseView) -> str:
    """Quality score against outage with its fitted line, at the offset of the largest impact (Figure 8)."""
    worst = view.worst
    slope, intercept = fitted_line(view.tuples, worst.quality)

    def draw(axes: Axes) -> None:
        ends = np.array([min(view.tuples), max(view.tuples)])
        axes.axhline(1.0, color=FAINT, linewidth=1)
        if math.isfinite(intercept):  # where golden scores zero there is no quality to fit a line to
            axes.plot(ends, slope * ends + intercept, color=SERIES[1], label=f"f(x) = {slope:.2e} x + {intercept:.2f}")
            axes.legend()
        axes.plot(view.tuples, worst.quality, "o", color=SERIES[0])
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set(xlabel="outage (tuples)", ylabel="quality score", title=f"{view.case}, offset {worst.offset:,}")

    return drawn(draw, label=f"quality score of {view.case} against outage")


def offset_plot(assessment: Assessment) -> str:
    """Quality score of every case against offset, under the longest outage (Figure 9)."""
    lines = []
    for view in assessment.cases:
        longest = int(np.argmax(view.tuples))
        lines.append((view.case, [o.offset for o in view.offsets], [o.quality[longest] for o in view.offsets]))
    return line_plot(lines, x="offset (source tuples)", y="quality score")


def local_plot(view: CaseView, campaign: Campaign) -> str:
    """Local quality score after the fault, with the recovery mark (Figures 10 and 11)."""
    return _local(view.worst, campaign, name=view.case)


def growth_plots(assessment: Assessment, campaign: Campaign) -> list[str]:
    """Local quality score of the most critical case under a shorter, a longer and the longest outage (Figure 11)."""
    name, last = unprotected_ranking(campaign, assessment)[0].case, len(assessment.growth) - 1
    chosen = sorted({(last + 1) // 3, 2 * (last + 1) // 3, last})
    shown = [assessment.growth[at] for at in chosen]
    return [_local(view, campaign, name=f"{name}, {outage_name(outage_s)} s") for outage_s, view in shown]


def _local(worst: OffsetView, campaign: Campaign, *, name: str) -> str:
    shown = min(len(worst.errors), max(20, int(worst.recovery * 1.4) + 5))
    sections = np.arange(worst.begin, worst.begin + shown)
    quality = worst.local_quality[:shown]

    def draw(axes: Axes) -> None:
        axes.axhspan(1 - campaign.threshold, 1 + campaign.threshold, color=FAINT, alpha=0.3, linewidth=0)
        axes.axhline(1.0, color=FAINT, linewidth=1)
        axes.plot(sections, quality, color=SERIES[0], marker="o" if shown <= 60 else "", markersize=3)
        if worst.recovery:
            at = worst.begin + worst.recovery - 1
            axes.axvline(at, color=SERIES[1], linestyle="--")
            axes.annotate(
                f"R = {worst.recovery}",
                (at, 0.98),
                (5, 0) if at <= sections[-1] - 0.12 * shown else (-5, 0),  # points beside the line, on the side with room
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="left" if at <= sections[-1] - 0.12 * shown else "right",
                va="top",
                color=INK,
            )
        axes.margins(y=0.15)  # room above the line for the mark's figure
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel=f"section ({campaign.section:,} keys)", ylabel="local quality score")
        axes.set_title(f"{name}, offset {worst.offset:,}: I\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{worst.impact:.2f}")

    return drawn(draw, label=f"local quality score after a fault of {name}")
