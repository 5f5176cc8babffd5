"""Scores of all trials, collected from the outcomes one by one, so that memory holds only a few numbers per trial."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.assess.campaign import Campaign
from holdfast.assess.case import Pace, Trial, outage_name
from holdfast.assess.keyed_seqs import Floats
from holdfast.assess.outcome import TrialOutcome
from holdfast.assess.output_score import OutputScore
from holdfast.assess.sections import Sections
from holdfast.errors import HoldfastError

Parts = Mapping[str, Floats]
Outcomes = Callable[[], Iterable[tuple[Trial, TrialOutcome]]]
"""Returns all trials with their outcomes; can be called several times."""


def sections_of(campaign: Campaign, facts: Mapping[str, Any]) -> Sections:
    """Return the sections of a campaign's outcomes."""
    return Sections(campaign.section, facts.get("origin", 0), facts["sections"])


class TrialGrid:
    """Numbers a campaign's trials by case, offset, outage (at each rate) and repetition, each from 0."""

    def __init__(self, campaign: Campaign, facts: Mapping[str, Any]) -> None:
        self.outages: tuple[tuple[float, Pace], ...] = tuple((o, pace) for pace in campaign.paces for o in campaign.outages_s)
        self.cases = {case.name: n for n, case in enumerate(campaign.cases)}
        self.offsets = {offset: n for n, offset in enumerate(campaign.offsets)}
        self.shape = (len(self.cases), len(self.offsets), len(self.outages), campaign.repetitions)
        self.tuples = {
            name: tuple(int(facts["tuples"][name][outage_name(outage_s, pace)]) for outage_s, pace in self.outages)
            for name in self.cases
        }
        self.longest = {name: int(np.argmax(tuples)) for name, tuples in self.tuples.items()}
        self._at = {outage: n for n, outage in enumerate(self.outages)}

    def place(self, trial: Trial) -> tuple[int, int, int, int]:
        return (
            self.cases[trial.case],
            self.offsets[trial.offset],
            self._at[trial.outage_s, trial.pace],
            trial.repetition,
        )

    def is_longest(self, trial: Trial) -> bool:
        return self._at[trial.outage_s, trial.pace] == self.longest[trial.case]


class TrialScores:
    """For one score: the score of every trial over its affected section, and the mean local scores after the longest outage."""

    def __init__(
        self,
        campaign: Campaign,
        facts: Mapping[str, Any],
        golden: Sequence[Parts],
        score: OutputScore,
        *,
        grid: TrialGrid,
        ends: Any,
    ) -> None:
        self._campaign, self._facts, self._golden, self._score, self._grid, self._ends = campaign, facts, golden, score, grid, ends
        self._sections = sections_of(campaign, facts)
        self._faulty = np.zeros(grid.shape)
        self._local: dict[tuple[str, int], Floats] = {}

    def add(self, trial: Trial, outcome: TrialOutcome) -> None:
        run = self._run(trial.repetition)
        affected = self._recorded_parts(trial.case, trial.offset)
        whole = outcome.applied(self._golden[run]) if not affected or self._grid.is_longest(trial) else None
        if affected:
            totals = {part: affected[run][part] + outcome.total(part) for part in self._score.parts}
            self._faulty[self._grid.place(trial)] = self._score.over(totals)
        elif whole is not None:
            stretch = self._stretch(trial.case, trial.offset)
            self._faulty[self._grid.place(trial)] = self._score.over({part: whole[part][stretch] for part in self._score.parts})
        if whole is not None and self._grid.is_longest(trial):
            local = self._score.local(whole)
            place = (trial.case, trial.offset)
            self._local[place] = self._local[place] + local if place in self._local else local

    def faulty_local(self, trial: Trial, outcome: TrialOutcome) -> Floats:
        """Return LO_{i,k,t}: the local score of every section of one trial."""
        return self._score.local(outcome.applied(self._golden[self._run(trial.repetition)]))

    def faulty(self, case: str, offset: int, at: int) -> Floats:
        """Return FO_{i,j,k}: the score of every repetition over the affected section."""
        scores: Floats = self._faulty[self._grid.cases[case], self._grid.offsets[offset], at]
        return scores

    def golden(self, case: str, offset: int) -> list[float]:
        """Return GO_{i,l}: the golden runs' scores over the output that the longest outage can change."""
        return [self._score.over(parts) for parts in self._affected(case, offset)]

    def share(self, case: str, offset: int) -> float:
        """Return the share of the golden output that the longest outage can change; 0 if there is no output."""
        whole = np.mean([self._score.weight(run) for run in self._golden])
        affected = np.mean([self._score.weight(parts) for parts in self._affected(case, offset)])
        return float(affected / whole) if whole else 0.0

    def local(self, case: str, offset: int) -> Floats:
        """Return the mean of LO_{i,k,t} over repetitions, under the longest outage."""
        return self._local[case, offset] / self._campaign.repetitions

    def _affected(self, case: str, offset: int) -> Sequence[Mapping[str, float] | Parts]:
        """Return, for every golden run, the score parts over the output that the longest outage can change."""
        recorded = self._recorded_parts(case, offset)
        if recorded:
            return recorded
        stretch = self._stretch(case, offset)
        return [{part: run[part][stretch] for part in self._score.parts} for run in self._golden]

    def _run(self, repetition: int) -> int:
        return 0 if len(self._golden) == 1 else repetition

    def _recorded_parts(self, case: str, offset: int) -> list[dict[str, float]] | None:
        """Return the golden parts over the rows that can differ, if the runner computed them; else None."""
        affected = self._facts["affected"]
        return affected[case].get(str(offset)) if affected and self._score.additive else None

    def _stretch(self, case: str, offset: int) -> slice:
        """Return the affected sections: from the fault to the last section that the longest outage changed, or as many tuples as
        the campaign gives."""
        begin = self._sections.of(self._facts["firsts"][str(offset)])
        if self._campaign.affected is not None:
            return slice(begin, self._sections.of(self._facts["lasts"][str(offset)]) + 1)
        return slice(begin, int(self._ends[self._grid.cases[case], self._grid.offsets[offset]]) + 1)


def collect_scores(
    campaign: Campaign, facts: Mapping[str, Any], golden: Sequence[Parts], outcomes: Outcomes, *, scores: Sequence[OutputScore]
) -> tuple[TrialGrid, list[TrialScores]]:
    """Return the grid and the trial scores for each score; HoldfastError if trials are missing. Reads the outcomes twice."""
    grid = TrialGrid(campaign, facts)
    sections = sections_of(campaign, facts)
    begins = [sections.of(facts["firsts"][str(offset)]) for offset in campaign.offsets]
    ends = np.tile(np.array(begins, np.int64), (len(grid.cases), 1))
    has_outcome = np.zeros(grid.shape, bool)
    for trial, outcome in outcomes():
        place = grid.place(trial)
        has_outcome[place] = True
        if grid.is_longest(trial):
            ends[place[:2]] = max(ends[place[:2]], outcome.sections.max(initial=0))
    if not has_outcome.all():
        first = next(trial for trial in campaign.trials() if not has_outcome[grid.place(trial)])
        raise HoldfastError(
            f"{int((~has_outcome).sum())} of {campaign.size} trials have no outcome yet, such as {first.name}; resume first"
        )
    uncounted = has_outcome.copy()
    score_tables = [TrialScores(campaign, facts, golden, score, grid=grid, ends=ends) for score in scores]
    for trial, outcome in outcomes():
        place = grid.place(trial)
        if uncounted[place]:  # a duplicate outcome counts once
            uncounted[place] = False
            for trial_scores in score_tables:
                trial_scores.add(trial, outcome)
    return grid, score_tables
