"""How important it is to protect each operator, and which metrics say so. `holdfast advise` decides within a budget."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from holdfast.assess.assessment import Assessment, CaseView
from holdfast.assess.metrics import THIN, correlation, fitted_line

DEPENDENT = 0.1
"""A standard deviation of the quality score above this is more than noise."""
MONOTONE = 0.8
"""With a correlation of at least this size, shorter outages help."""
MOST = 0.5
"""The share of an impact that counts as most of it."""

Verdict = Literal["protect", "candidate", "candidate with care", "nothing to protect"]


@dataclass(frozen=True)
class OperatorAdvice:
    case: str
    verdict: Verdict
    reasons: tuple[str, ...]

    @property
    def importance(self) -> str:
        """How large the loss is, in the words that assessments and advice share."""
        return {"protect": "critical", "nothing to protect": "small"}.get(self.verdict, "moderate")

    @property
    def action(self) -> str:
        """The verdict in words."""
        return {
            "protect": "Its loss is critical, so protect it first",
            "candidate": "Its loss is moderate, so protect it if the budget allows, or let it restart",
            "candidate with care": "Its loss is moderate but varies, so protect it if the budget allows, or let it restart",
            "nothing to protect": "Its loss is small, so a restart is enough",
        }[self.verdict]

    @property
    def because(self) -> str:
        return "; ".join(self.reasons)

    def __str__(self) -> str:
        return f"{self.action}: {self.because}."


def advise(assessment: Assessment, view: CaseView) -> OperatorAdvice:
    """Return the advice for one case, compared with the other cases of the assessment."""
    losses = {other.case: other.damage.output.mean for other in assessment.cases}
    most = max(losses.values())
    longest = max(other.recovery for other in assessment.cases)
    if view.impact == 0:
        return OperatorAdvice(
            view.case, "nothing to protect", ("the output stayed within the threshold in every section", *_too_long(view))
        )
    share = losses[view.case] / most if most else 0.0
    equals = [name for name, loss in losses.items() if loss == most and name != view.case]
    at_once = view.recovery <= view.outage_sections and view.lasting is None
    if view.lasting is not None:
        recovered = (
            f"the output had not settled when the trace ended, {_sections(len(view.lasting.errors))} after the fault at offset "
            f"{view.lasting.offset:,}"
        )
    elif at_once:
        recovered = f"the output is correct as soon as it resumes (after {_seconds(view, view.recovery)})"
    else:
        worst = ", the longest of all" if view.recovery == longest and len(assessment.cases) > 1 else ""
        recovered = f"the output is correct again after {_seconds(view, view.recovery)}{worst}"
    reasons = [
        f"an outage of {view.longest_s:g} s costs as much as {view.damage.output} s of output, {_share(share, equals)}",
        *_thin(view),
        recovered,
    ]
    unpredictable = not view.dependency.accepted and view.dependency.deviation > DEPENDENT
    if unpredictable:
        reasons.append(f"the effect of its failure depends on when it happens (standard deviation {view.dependency.deviation:.2f})")
    reasons.append(_about_outages(view))
    if losses[view.case] < assessment.small * view.longest_s:
        return OperatorAdvice(view.case, "nothing to protect", tuple(reasons))
    no_worse_than_silence = at_once and view.impact <= view.outage_sections  # missing output is an error of 1 per section
    if share >= assessment.critical and not no_worse_than_silence:
        return OperatorAdvice(view.case, "protect", tuple(reasons))
    return OperatorAdvice(view.case, "candidate with care" if unpredictable else "candidate", tuple(reasons))


def _share(share: float, equals: Sequence[str]) -> str:
    if share == 1:
        return f"the largest, as is that of {', '.join(equals)}" if equals else "the largest"
    return "less than 1% of the largest" if share < 0.01 else f"{share:.0%} of the largest"


def _thin(view: CaseView) -> tuple[str, ...]:
    """Return a reason if most of the impact comes from sections with nearly no golden output."""
    worst = view.worst
    golden = np.abs(worst.local_golden)
    squares = np.where(golden < THIN * golden.mean(), worst.errors, 0.0)[: worst.recovery] ** 2
    part = float(squares.sum()) / worst.impact
    if part < MOST:
        return ()
    thin = _sections(int(np.count_nonzero(squares)))
    return (f"{part:.0%} of its quality impact is {thin} with almost no golden output: longer sections (--section) give them less",)


def _too_long(view: CaseView) -> tuple[str, ...]:
    """Return a reason if sections are too long to show the effect of an outage."""
    if view.outage_sections > 2:
        return ()
    return ("but a section is longer than the longest outage: shorter sections (--section) may show more",)


def _seconds(view: CaseView, sections: int) -> str:
    return f"{sections * view.section_s:.3g} s, which are {_sections(sections)}"


def _sections(count: int) -> str:
    return "1 section" if count == 1 else f"{count} sections"


def _about_outages(view: CaseView) -> str:
    worst = view.worst
    slope, _ = fitted_line(view.tuples, worst.quality)
    grows = correlation(view.tuples, np.abs(np.array(worst.quality) - 1)) > 0
    if abs(view.outage_impact) >= MONOTONE and grows:
        direction = "falls" if slope < 0 else "rises above the truth"
        return (
            f"the longer the outage, the more quality {direction} (correlation {view.outage_impact:.2f}), "
            "so a quicker restart helps"
        )
    if view.changes_sign:
        return (
            f"short and long outages change the output in opposite directions (correlation {view.outage_impact:.2f}), "
            "so a quicker restart may not help"
        )
    return f"its damage does not grow steadily with the outage (correlation {view.outage_impact:.2f})"
