"""Outcomes folded into what an assessment needs of them, one after the other: memory holds a few numbers of each trial."""

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
"""Gives every trial with its outcome, as often as it is called."""


def sections_of(campaign: Campaign, facts: Mapping[str, Any]) -> Sections:
    """The sections that a campaign's outcomes speak of."""
    return Sections(campaign.section, facts.get("origin", 0), facts["sections"])


class TrialGrid:
    """Where a campaign's trials stand: cases, offsets, outages (at each rate) and repetitions, each counted from 0."""

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
    """Of one score: what every trial scores over its affected section, and the mean local score after the longest outage."""

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
        known = self._known(trial.case, trial.offset)
        whole = outcome.applied(self._golden[run]) if not known or self._grid.is_longest(trial) else None
        if known:
            totals = {part: known[run][part] + outcome.total(part) for part in self._score.parts}
            self._faulty[self._grid.place(trial)] = self._score.over(totals)
        elif whole is not None:
            stretch = self._stretch(trial.case, trial.offset)
            self._faulty[self._grid.place(trial)] = self._score.over({part: whole[part][stretch] for part in self._score.parts})
        if whole is not None and self._grid.is_longest(trial):
            local = self._score.local(whole)
            place = (trial.case, trial.offset)
            self._local[place] = self._local[place] + local if place in self._local else local

    def faulty_local(self, trial: Trial, outcome: TrialOutcome) -> Floats:
        """LO_{i,k,t}: the local score of every section of one trial."""
        return self._score.local(outcome.applied(self._golden[self._run(trial.repetition)]))

    def faulty(self, case: str, offset: int, at: int) -> Floats:
        """FO_{i,j,k}: the score of every repetition over the affected section."""
        scores: Floats = self._faulty[self._grid.cases[case], self._grid.offsets[offset], at]
        return scores

    def golden(self, case: str, offset: int) -> list[float]:
        """GO_{i,l}: golden's scores over what the longest outage can change."""
        return [self._score.over(parts) for parts in self._affected(case, offset)]

    def share(self, case: str, offset: int) -> float:
        """How much of golden's output the longest outage can change, as a share of all of it; 0 where there is none."""
        whole = np.mean([self._score.weight(run) for run in self._golden])
        affected = np.mean([self._score.weight(parts) for parts in self._affected(case, offset)])
        return float(affected / whole) if whole else 0.0

    def local(self, case: str, offset: int) -> Floats:
        """The mean of LO_{i,k,t} over repetitions, under the longest outage."""
        return self._local[case, offset] / self._campaign.repetitions

    def _affected(self, case: str, offset: int) -> Sequence[Mapping[str, float] | Parts]:
        """Of every golden run the parts of the score over what the longest outage can change."""
        known = self._known(case, offset)
        if known:
            return known
        stretch = self._stretch(case, offset)
        return [{part: run[part][stretch] for part in self._score.parts} for run in self._golden]

    def _run(self, repetition: int) -> int:
        return 0 if len(self._golden) == 1 else repetition

    def _known(self, case: str, offset: int) -> list[dict[str, float]] | None:
        """Golden's parts over the outputs that can differ, row by row, where the runner could tell them."""
        affected = self._facts["affected"]
        return affected[case].get(str(offset)) if affected and self._score.additive else None

    def _stretch(self, case: str, offset: int) -> slice:
        """Elsewhere: the sections from the fault to the last that the longest outage changed, or as many tuples as were given."""
        begin = self._sections.of(self._facts["firsts"][str(offset)])
        if self._campaign.affected is not None:
            return slice(begin, self._sections.of(self._facts["lasts"][str(offset)]) + 1)
        return slice(begin, int(self._ends[self._grid.cases[case], self._grid.offsets[offset]]) + 1)


def collect_scores(
    campaign: Campaign, facts: Mapping[str, Any], golden: Sequence[Parts], outcomes: Outcomes, *, scores: Sequence[OutputScore]
) -> tuple[TrialGrid, list[TrialScores]]:
    """A trial_scores for each score; HoldfastError while trials are missing. Reads the outcomes twice, and holds one at a time."""
    grid = TrialGrid(campaign, facts)
    cut = sections_of(campaign, facts)
    begins = [cut.of(facts["firsts"][str(offset)]) for offset in campaign.offsets]
    ends = np.tile(np.array(begins, np.int64), (len(grid.cases), 1))
    seen = np.zeros(grid.shape, bool)
    for trial, outcome in outcomes():
        place = grid.place(trial)
        seen[place] = True
        if grid.is_longest(trial):
            ends[place[:2]] = max(ends[place[:2]], outcome.sections.max(initial=0))
    if not seen.all():
        first = next(trial for trial in campaign.trials() if not seen[grid.place(trial)])
        raise HoldfastError(
            f"{int((~seen).sum())} of {campaign.size} trials have no outcome yet, such as {first.name}; resume first"
        )
    score_tables = [TrialScores(campaign, facts, golden, score, grid=grid, ends=ends) for score in scores]
    for trial, outcome in outcomes():
        place = grid.place(trial)
        if seen[place]:  # an outcome that is there twice counts once
            seen[place] = False
            for trial_scores in score_tables:
                trial_scores.add(trial, outcome)
    return grid, score_tables
