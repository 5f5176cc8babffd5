"""Compute the metrics and the ranking of all cases from a campaign's outcomes. Runs no trials."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast.assess import metrics
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_folder import Results
from holdfast.assess.case import Pace, Trial
from holdfast.assess.damage import CRITICAL, SMALL, Damage, output_lost
from holdfast.assess.keyed_seqs import Floats
from holdfast.assess.output_score import OutputScore, score_of
from holdfast.assess.trial_scores import Outcomes, Parts, TrialGrid, TrialScores, collect_scores, sections_of

ENDING = 0.05
"""The share of the sections after a fault that counts as the end of the trace."""


@dataclass(frozen=True)
class OffsetView:
    """The results of a case at one offset: quality by outage, and local quality after the longest outage."""

    offset: int
    quality: tuple[float, ...]
    local_faulty: Floats
    local_golden: Floats
    begin: int
    errors: Floats
    recovery: int
    impact: float
    lasting: bool = False
    """Whether errors still occur when the trace ends, so that the end of recovery is unknown."""

    @property
    def local_quality(self) -> Floats:
        """Faulty score divided by golden score of each section; 1 if both are equal."""
        same = self.local_faulty == self.local_golden
        ratio = np.divide(self.local_faulty, self.local_golden, out=np.full(len(same), np.nan), where=self.local_golden != 0)
        return np.where(same, 1.0, ratio)


@dataclass(frozen=True)
class CaseView:
    """The four metrics of a case under one score, with the values that they are computed from."""

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
    """The number of sections that the longest outage touches. Recovery within them is immediate."""
    shares: tuple[float, ...]
    """For each offset, the share of the golden output that the longest outage can change."""
    section_s: float = 1.0
    threshold: float = metrics.THRESHOLD

    @property
    def damage(self) -> Damage:
        """The cost of the longest outage in seconds, at each offset."""
        lost = (
            output_lost(v.local_faulty, v.local_golden, v.errors, threshold=self.threshold, section_s=self.section_s)
            for v in self.offsets
        )
        return Damage(
            affected_s=tuple(float((view.errors > self.threshold).sum()) * self.section_s for view in self.offsets),
            output_s=tuple(lost),
            recovery_s=tuple(view.recovery * self.section_s for view in self.offsets),
        )

    @property
    def longest_s(self) -> float:
        """The longest outage."""
        return max(outage_s for outage_s, _ in self.outages)

    @property
    def worst(self) -> OffsetView:
        """The offset with the largest impact."""
        return max(self.offsets, key=lambda view: (view.impact, -view.offset))

    def lost(self) -> float:
        """Return the most output that a repetition of the longest outage lost or added, as a share of the golden output."""
        apart = [abs(each - 1) * share for scores, share in zip(self.repeated, self.shares, strict=True) for each in scores]
        return max((each for each in apart if not math.isnan(each)), default=0.0)

    @property
    def lasting(self) -> OffsetView | None:
        """The first offset with errors that last until the end of the trace; None if there is none.

        Offsets where the trace ends with the outage are ignored.
        """
        lasting = [view for view in self.offsets if view.lasting and len(view.errors) > self.outage_sections]
        return min(lasting, key=lambda view: view.offset, default=None)

    @property
    def turning(self) -> OffsetView | None:
        """An offset where short outages raise the score and long ones lower it, or else one with the reverse; else None."""
        turns = [view for view in self.offsets if {1.0, -1.0} <= set(np.sign(self._apart(view)))]
        return min(turns, key=lambda view: (-self._sign_of_shortest(view), view.offset), default=None)

    @property
    def changes_sign(self) -> bool:
        return self.turning is not None

    def by_outage(self, view: OffsetView) -> list[float]:
        """Return the quality at an offset, from the shortest outage to the longest."""
        return [view.quality[at] for at in np.argsort(self.tuples, kind="stable")]

    def _apart(self, view: OffsetView) -> Floats:
        apart = np.nan_to_num(np.array(self.by_outage(view)) - 1)
        return np.where(np.abs(apart) > 1e-9, apart, 0.0)

    def _sign_of_shortest(self, view: OffsetView) -> float:
        apart = self._apart(view)
        return float(np.sign(apart[np.flatnonzero(apart)[0]]))


@dataclass(frozen=True)
class Assessment:
    """All results of a campaign under one score."""

    score: OutputScore
    cases: tuple[CaseView, ...]
    golden: tuple[float, ...]
    spread: float
    spread_warning: bool
    growth: tuple[tuple[float, OffsetView], ...] = ()
    """Only for the first score: every outage of the most critical case at its worst offset, in seconds, with its results."""
    critical: float = CRITICAL
    small: float = SMALL

    @property
    def ranking(self) -> tuple[CaseView, ...]:
        """The cases from most to least critical: by the output lost, then quality impact, then name."""
        return tuple(sorted(self.cases, key=lambda view: (-view.damage.output.mean, -view.impact, view.case)))

    def case(self, name: str) -> CaseView:
        return next(view for view in self.cases if view.case == name)


def unprotected_ranking(campaign: Campaign, assessment: Assessment) -> list[CaseView]:
    """Return the ranking without the cases that have a replica."""
    return [view for view in assessment.ranking if campaign.case(view.case).failover_s is None]


def assess_results(results: Results) -> list[Assessment]:
    """Return the assessment of the campaign in a results folder under each of its scores; HoldfastError if trials are missing."""
    return assess(results.campaign, results.read("facts") or {}, results.read("golden") or {}, results.outcomes)


def assess(campaign: Campaign, facts: Mapping[str, Any], golden: Mapping[str, Any], outcomes: Outcomes) -> list[Assessment]:
    """Return the assessment of a finished campaign under each of its scores; HoldfastError if trials are missing."""
    runs = [{part: np.array(values, np.float64) for part, values in run.items()} for run in golden["runs"]]
    scores = [score_of(campaign.sink, text) for text in campaign.scores]
    grid, score_tables = collect_scores(campaign, facts, runs, outcomes, scores=scores)
    assessors = [
        _Assessor(campaign, facts, runs, grid=grid, trial_scores=of_score, score=score)
        for score, of_score in zip(scores, score_tables, strict=True)
    ]
    first, *others = [assessor.assessment() for assessor in assessors]
    return [replace(first, growth=assessors[0].growth(first, outcomes)), *others]


class _Assessor:
    def __init__(
        self,
        campaign: Campaign,
        facts: Mapping[str, Any],
        golden: Sequence[Parts],
        *,
        grid: TrialGrid,
        trial_scores: TrialScores,
        score: OutputScore,
    ) -> None:
        self._campaign, self._facts, self._golden, self._grid, self._scores, self._score = (
            campaign,
            facts,
            golden,
            grid,
            trial_scores,
            score,
        )
        self._sections = sections_of(campaign, facts)
        self._limits = {"threshold": campaign.threshold, "percentile": campaign.percentile}
        self._local_golden = np.mean([score.local(run) for run in golden], axis=0)

    def assessment(self) -> Assessment:
        totals = tuple(self._score.over(run) for run in self._golden)
        spread = metrics.spread(totals)
        cases = tuple(self._case(case.name) for case in self._campaign.cases)
        return Assessment(
            self._score,
            cases,
            totals,
            spread,
            spread > self._campaign.threshold,
            critical=self._campaign.critical,
            small=self._campaign.small,
        )

    def _case(self, name: str) -> CaseView:
        tuples, longest = self._grid.tuples[name], self._grid.longest[name]
        offsets = tuple(self._offset(name, offset) for offset in self._campaign.offsets)
        repeated = tuple(self._qualities(name, offset, longest) for offset in self._campaign.offsets)
        errors = [view.errors for view in offsets]
        return CaseView(
            case=name,
            outages=self._grid.outages,
            tuples=tuples,
            outage_impact=metrics.outage_impact(tuples, [view.quality for view in offsets]),
            dependency=metrics.data_dependency(repeated),
            recovery=metrics.recovery_time(errors, **self._limits),
            impact=metrics.quality_impact(errors, **self._limits),
            offsets=offsets,
            repeated=repeated,
            outage_sections=self._touched(name, longest),
            shares=tuple(self._scores.share(name, offset) for offset in self._campaign.offsets),
            section_s=self._campaign.section / (self._gap * float(self._facts["source"]["average"])),
            threshold=self._campaign.threshold,
        )

    def _touched(self, name: str, at: int) -> int:
        outage_s, pace = self._grid.outages[at]
        tuples = self._campaign.case(name).outage(outage_s) * float(self._facts["source"][pace])
        return math.ceil(tuples * self._gap / self._campaign.section) + 1

    @property
    def _gap(self) -> float:
        """The mean distance of consecutive seqs. Sections are cut by seq, and seqs may have gaps."""
        source = self._facts["source"]
        return float(source.get("seqs", source["tuples"]) / source["tuples"])

    def _offset(self, name: str, offset: int) -> OffsetView:
        golden = self._scores.golden(name, offset)
        quality = tuple(
            metrics.quality_score(self._scores.faulty(name, offset, at), golden) for at in range(len(self._grid.outages))
        )
        return self._view(offset, quality, self._scores.local(name, offset))

    def _view(self, offset: int, quality: tuple[float, ...], local: Floats) -> OffsetView:
        """Return the view of an offset, given the mean local score under a fault there."""
        begin = self._sections.of(self._facts["firsts"][str(offset)])
        golden = self._local_golden[begin:]
        errors = metrics.local_errors(local[begin:], golden)
        recovery = metrics.recovery_index(errors, **self._limits)
        ending = errors[len(errors) - math.ceil(ENDING * len(errors)) :]
        return OffsetView(
            offset=offset,
            quality=quality,
            local_faulty=local[begin:],
            local_golden=golden,
            begin=begin,
            errors=errors,
            recovery=recovery,
            impact=metrics.squared_errors(errors, **self._limits),
            lasting=recovery >= self._campaign.percentile * len(errors) and bool((ending > self._campaign.threshold).any()),
        )

    def growth(self, assessment: Assessment, outcomes: Outcomes) -> tuple[tuple[float, OffsetView], ...]:
        """Return the view of the most critical case at its worst offset for every outage, shortest first (Figure 11)."""
        view = next(iter(unprotected_ranking(self._campaign, assessment)), None)
        if view is None:
            return ()
        worst, pace = view.worst, self._grid.outages[self._grid.longest[view.case]][1]
        counted: set[Trial] = set()
        sums = {outage_s: np.zeros(self._sections.count) for outage_s in sorted(self._campaign.outages_s)}
        for trial, outcome in outcomes():
            if (trial.case, trial.offset, trial.pace) == (view.case, worst.offset, pace) and trial not in counted:
                counted.add(trial)
                sums[trial.outage_s] += self._scores.faulty_local(trial, outcome)
        means = {outage_s: total / self._campaign.repetitions for outage_s, total in sums.items()}
        return tuple((outage_s, self._view(worst.offset, worst.quality, mean)) for outage_s, mean in means.items())

    def _qualities(self, name: str, offset: int, at: int) -> tuple[float, ...]:
        """Return QS_{i,k} of Eq. 4."""
        golden = self._scores.golden(name, offset)
        return tuple(metrics.quality_score([faulty], golden) for faulty in self._scores.faulty(name, offset, at))
