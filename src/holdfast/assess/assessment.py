"""From outcomes to verdicts: the metrics of every case, a ranking, and what to do about it. Pure: reads results, runs nothing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.assess import metrics
from holdfast.assess.campaign import Campaign
from holdfast.assess.case import Pace, Trial
from holdfast.assess.keyed import Floats
from holdfast.assess.outcome import Outcome
from holdfast.assess.score import OutputScore, score_of
from holdfast.errors import HoldfastError

Parts = Mapping[str, Floats]


@dataclass(frozen=True)
class OffsetView:
    """What one offset shows of a case: quality over outages, and local quality after the longest of them."""

    offset: int
    quality: tuple[float, ...]
    local_faulty: Floats
    local_golden: Floats
    begin: int
    errors: Floats
    recovery: int
    impact: float

    @property
    def local_quality(self) -> Floats:
        """Faulty over golden score of each section; 1 where golden has none and nothing differs."""
        same = self.local_faulty == self.local_golden
        ratio = np.divide(self.local_faulty, self.local_golden, out=np.full(len(same), np.nan), where=self.local_golden != 0)
        return np.where(same, 1.0, ratio)


@dataclass(frozen=True)
class CaseView:
    """A case's four metrics under one score, with what they were computed from."""

    case: str
    outages: tuple[tuple[float, Pace], ...]
    tuples: tuple[int, ...]
    outage_impact: float
    dependency: metrics.Dependency
    recovery: int
    impact: float
    offsets: tuple[OffsetView, ...]
    repeated: tuple[tuple[float, ...], ...]
    """QS_{i,k}: for each offset the quality of each repetition under the longest outage."""
    outage_sections: int
    """How many sections the longest outage touches: recovery within them is recovery at once."""

    @property
    def worst(self) -> OffsetView:
        """The offset with the largest impact."""
        return max(self.offsets, key=lambda view: (view.impact, -view.offset))

    @property
    def changes_sign(self) -> bool:
        """Whether at some offset short outages overestimate and long ones underestimate, or the other way round."""
        for view in self.offsets:
            quality = np.array(view.quality)[np.argsort(self.tuples, kind="stable")]
            above, below = quality > 1 + 1e-9, quality < 1 - 1e-9
            if above.any() and below.any():
                return True
        return False


@dataclass(frozen=True)
class Assessment:
    """Everything a report says of a campaign under one score."""

    score: OutputScore
    cases: tuple[CaseView, ...]
    golden: tuple[float, ...]
    spread: float
    spread_warning: bool

    @property
    def ranking(self) -> tuple[CaseView, ...]:
        """Cases from the most critical to the least: by quality impact, then recovery time, then name."""
        return tuple(sorted(self.cases, key=lambda view: (-view.impact, -view.recovery, view.case)))

    def case(self, name: str) -> CaseView:
        return next(view for view in self.cases if view.case == name)


def assess(
    campaign: Campaign, facts: Mapping[str, Any], golden: Mapping[str, Any], outcomes: Mapping[Trial, Outcome]
) -> list[Assessment]:
    """The assessment of a finished campaign under each of its scores; HoldfastError while trials are missing."""
    missing = [trial for trial in campaign.trials() if trial not in outcomes]
    if missing:
        raise HoldfastError(
            f"{len(missing)} of {campaign.size} trials have no outcome yet, such as {missing[0].name}; resume first"
        )
    runs = [{part: np.array(values, np.float64) for part, values in run.items()} for run in golden["runs"]]
    return [_Assessor(campaign, facts, runs, outcomes, score_of(campaign.sink, text)).assessment() for text in campaign.scores]


class _Assessor:
    def __init__(
        self,
        campaign: Campaign,
        facts: Mapping[str, Any],
        golden: Sequence[Parts],
        outcomes: Mapping[Trial, Outcome],
        score: OutputScore,
    ) -> None:
        self._campaign, self._facts, self._golden, self._outcomes, self._score = campaign, facts, golden, outcomes, score
        self._outages = tuple((outage_s, pace) for pace in campaign.paces for outage_s in campaign.outages_s)
        self._local_golden = np.mean([score.local(run) for run in golden], axis=0)

    def assessment(self) -> Assessment:
        totals = tuple(self._score.over(run) for run in self._golden)
        spread = metrics.spread(totals)
        cases = tuple(self._case(case.name) for case in self._campaign.cases)
        return Assessment(self._score, cases, totals, spread, spread > self._campaign.threshold)

    def _case(self, name: str) -> CaseView:
        counts = self._facts["tuples"][name]
        tuples = tuple(int(counts[f"{outage_s:g} {pace}"]) for outage_s, pace in self._outages)
        longest = int(np.argmax(tuples))
        offsets = tuple(self._offset(name, offset, longest) for offset in self._campaign.offsets)
        repeated = tuple(tuple(self._qualities(name, offset, longest, longest)) for offset in self._campaign.offsets)
        errors = [view.errors for view in offsets]
        limits = {"threshold": self._campaign.threshold, "percentile": self._campaign.percentile}
        return CaseView(
            case=name,
            outages=self._outages,
            tuples=tuples,
            outage_impact=metrics.outage_impact(tuples, [view.quality for view in offsets]),
            dependency=metrics.data_dependency(repeated),
            recovery=metrics.recovery_time(errors, **limits),
            impact=metrics.quality_impact(errors, **limits),
            offsets=offsets,
            repeated=repeated,
            outage_sections=self._touched(name, longest),
        )

    def _touched(self, name: str, at: int) -> int:
        outage_s, pace = self._outages[at]
        tuples = self._campaign.case(name).outage(outage_s) * float(self._facts["source"][pace])
        return math.ceil(tuples / self._campaign.section) + 1

    def _offset(self, name: str, offset: int, longest: int) -> OffsetView:
        quality = tuple(
            metrics.quality_score(self._affected(name, offset, at, longest), self._golden_affected(name, offset, longest))
            for at in range(len(self._outages))
        )
        begin = self._facts["firsts"][str(offset)] // self._campaign.section
        local = np.mean([self._score.local(self._faulty(name, offset, longest, k)) for k in self._repetitions], axis=0)
        errors = metrics.local_errors(local[begin:], self._local_golden[begin:])
        limits = {"threshold": self._campaign.threshold, "percentile": self._campaign.percentile}
        return OffsetView(
            offset=offset,
            quality=quality,
            local_faulty=local[begin:],
            local_golden=self._local_golden[begin:],
            begin=begin,
            errors=errors,
            recovery=metrics.recovery_index(errors, **limits),
            impact=metrics.squared_errors(errors, **limits),
        )

    @property
    def _repetitions(self) -> range:
        return range(self._campaign.repetitions)

    def _outcome(self, name: str, offset: int, at: int, repetition: int) -> Outcome:
        outage_s, pace = self._outages[at]
        return self._outcomes[Trial(name, offset, outage_s, pace, repetition)]

    def _run(self, repetition: int) -> int:
        return 0 if len(self._golden) == 1 else repetition

    def _faulty(self, name: str, offset: int, at: int, repetition: int) -> Parts:
        return self._outcome(name, offset, at, repetition).applied(self._golden[self._run(repetition)])

    def _golden_affected(self, name: str, offset: int, longest: int) -> list[float]:
        """GO_{i,l}: golden's scores over what the longest outage can change."""
        known = self._known(name, offset)
        if known:
            return [self._score.over(totals) for totals in known]
        stretch = self._stretch(name, offset, longest)
        return [self._score.over({part: run[part][stretch] for part in self._score.parts}) for run in self._golden]

    def _affected(self, name: str, offset: int, at: int, longest: int) -> list[float]:
        """FO_{i,j,k}: the faulty scores over the same."""
        known = self._known(name, offset)
        if known:
            return [
                self._score.over(
                    {part: known[self._run(k)][part] + self._outcome(name, offset, at, k).total(part) for part in self._score.parts}
                )
                for k in self._repetitions
            ]
        stretch = self._stretch(name, offset, longest)
        faulty = [self._faulty(name, offset, at, k) for k in self._repetitions]
        return [self._score.over({part: run[part][stretch] for part in self._score.parts}) for run in faulty]

    def _known(self, name: str, offset: int) -> list[dict[str, float]] | None:
        """Golden's parts over the outputs that can differ, row by row, where the runner could tell them."""
        affected = self._facts["affected"]
        return affected[name].get(str(offset)) if affected and self._score.additive else None

    def _stretch(self, name: str, offset: int, longest: int) -> slice:
        """Elsewhere: the sections from the fault to the last that the longest outage changed, or as many tuples as were given."""
        first = self._facts["firsts"][str(offset)]
        begin = first // self._campaign.section
        if self._campaign.affected is not None:
            return slice(begin, (first + self._campaign.affected) // self._campaign.section + 1)
        ends = [self._outcome(name, offset, longest, k).sections.max(initial=begin) for k in self._repetitions]
        return slice(begin, int(max(ends)) + 1)

    def _qualities(self, name: str, offset: int, at: int, longest: int) -> list[float]:
        """QS_{i,k} of Eq. 4."""
        golden = self._golden_affected(name, offset, longest)
        return [metrics.quality_score([faulty], golden) for faulty in self._affected(name, offset, at, longest)]
