"""Stands in for a PE: learns from its output, epoch by epoch, and predicts the epochs that it is late with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast.prediction import guarded_calls
from holdfast.prediction.column_roles import SEQ, Columns
from holdfast.prediction.echo import NAME as ECHO
from holdfast.prediction.from_input import FromInput
from holdfast.prediction.key_census import Census, Expected
from holdfast.prediction.prediction import Prediction
from holdfast.prediction.predictors.predictor import Bools, Floats, Ints, Predictor
from holdfast.prediction.predictors.registry import default_predictors
from holdfast.prediction.predictors.value_range import plausible
from holdfast.prediction.ranking.hot_swap import NONE, Cost, assign
from holdfast.prediction.ranking.model_builder import Clock, Done, Standing, Work
from holdfast.prediction.ranking.pending_predictions import PendingPrediction
from holdfast.prediction.ranking.rank import PRIOR, Rank
from holdfast.prediction.series_rows import keys_of, numbers_of, ordered, spread, written
from holdfast.prediction.settings import PredictorSettings
from holdfast.prediction.value_cache import Cache

LAST = "last-outcome"
UNTRIED = -1e300  # the accuracy of an algorithm that was never judged: behind all that were


class EpochPredictor:
    """The prediction agent's core (ISORC'16, section IV-B) without its process: cache, model builder, rank and hot-swap.

    `observe` takes each exact epoch and judges what was predicted of it; `learn` trains and tries all algorithms; `predict` answers
    within the time it is given. Where learning must not hold up the other two, run `work().done()` in another thread and give
    what comes out to `accept`. An epoch's input may be told to `from_input.echo` before either: what it says of the output is then
    taken from there. Nothing that an algorithm does wrong is raised here.
    """

    def __init__(
        self,
        columns: Columns,
        predictors: Sequence[Predictor] | None = None,
        *,
        settings: PredictorSettings | None = None,
        inputs: Sequence[str] = (),
        clock: Clock = time.perf_counter,
    ) -> None:
        self.columns, self.settings, self._clock = columns, settings or PredictorSettings(), clock
        self._census = Census(columns, most_keys=self.settings.most_keys, forget_after=self.settings.forget_after)
        self._cache = Cache(len(columns.numbers), depth=self.settings.depth)
        self._standings: tuple[Standing, ...] = ()
        self._near = self._new_rank()
        self._far = self._new_rank(prior=PRIOR * (self.settings.reach - 1))  # of one path, all outcomes say much the same
        self._near_trial: PendingPrediction | None = None
        self._far_trial: PendingPrediction | None = None
        self._from_input = FromInput(columns, inputs, self._new_rank)
        self._generation = 0
        self._assembly_s = 0.0
        self.epoch: int | None = None
        self.predictions = 0
        self.learn_s = 0.0
        self.last_used: dict[str, int] = {}
        self.use(default_predictors() if predictors is None else predictors)

    @property
    def standings(self) -> tuple[Standing, ...]:
        """The algorithms in use, in their order."""
        return self._standings

    @property
    def ranks(self) -> tuple[Rank, Rank]:
        """How well the next epoch is predicted, and how well going on for longer is."""
        return self._near, self._far

    @property
    def from_input(self) -> FromInput:
        """What the inputs say of the output, and how often that was right."""
        return self._from_input

    @property
    def keys(self) -> int:
        """How many keys are remembered."""
        return len(self._census)

    @property
    def turns(self) -> int:
        """How many epochs were observed."""
        return self._census.turns

    def use(self, predictors: Sequence[Predictor]) -> None:
        """Go on with these algorithms; those that stay as they were keep what they learned and how they are ranked."""
        names = [predictor.name for predictor in predictors]
        if len(set(names)) < len(names) or not names:
            raise HoldfastError(f"wanted at least one predictor, each once, got: {', '.join(names) or 'none'}")
        former = [standing.predictor for standing in self._standings]
        places = [former.index(predictor) if predictor in former else -1 for predictor in predictors]
        for rank in (self._near, self._far):
            rank.carry_over(places)
        self._standings = tuple(
            self._standings[place] if place >= 0 else Standing(predictor)
            for predictor, place in zip(predictors, places, strict=True)
        )
        self._start_over()

    def change(self, settings: PredictorSettings) -> None:
        """Go on with these settings; how deep the cache is, what counts as accurate and whom it forgets stay as they were."""
        self.settings = settings
        self._near.measure = self._far.measure = settings.measure
        self._from_input.use(settings.measure)

    def observe(self, epoch: int, rows: pa.Table) -> None:
        """Take in an exact epoch. Epochs ascend; one that never came may be left out. Raises HoldfastError otherwise."""
        if self.epoch is not None and epoch <= self.epoch:
            raise HoldfastError(f"epoch {epoch} was observed after epoch {self.epoch}; epochs are observed once, in their order")
        passed = 1 if self.epoch is None else epoch - self.epoch
        table = ordered(self.columns, rows)
        truth = numbers_of(self.columns, table)
        keys = keys_of(self.columns.keys, table)
        slots = self._census.take(table, keys, epochs=passed)
        self.epoch = epoch
        if passed > 1:  # what was predicted of the missing epochs cannot be told from what came after
            self._near_trial = self._far_trial = None
        for rank in (self._near, self._far):
            rank.make_room(len(self._census))
        if self._near_trial is not None:
            self._near_trial.judge(self._near, self._far, slots=slots, truth=truth, skip_next=False)
        if self._far_trial is not None:
            self._far_trial.judge(self._near, self._far, slots=slots, truth=truth, skip_next=True)
        self._from_input.observe(epoch, keys=keys, slots=slots, truth=truth, known=len(self._census))
        self._cache.append(slots, truth, keys=len(self._census))
        kept = self._census.forgettable()
        if kept is not None:
            self._forget(kept)

    def learn(self, *, limit_s: float | None = None) -> None:
        """Train what is due and try every algorithm on what comes next; wait no longer than `limit_s` for one that is not ours."""
        self.accept(self.work(limit_s=limit_s).done())

    def work(self, *, limit_s: float | None = None) -> Work:
        """A round of learning, to be done in any thread."""
        history = self._cache.history.copy()
        far = self._far_trial is None or self._far_trial.spent
        return Work(
            generation=self._generation,
            turn=self._census.turns,
            every=self.settings.train_every,
            whole=self.columns.whole,
            history=history,
            counts=self._cache.usable,
            rows=self._census.rows.copy(),
            standings=self._standings,
            near_steps=self._steps(1),
            far_steps=self._steps(self.settings.reach) if far else None,
            slow_s=self.settings.slow_s,
            penalty=self.settings.penalty,
            limit_s=limit_s,
            clock=self._clock,
        )

    def accept(self, done: Done) -> None:
        """Take in what learning came to; of a round that began before keys or algorithms changed places, nothing."""
        if done.work.generation != self._generation:
            return
        self._standings = tuple(
            standing
            if now is before or standing.hung
            else replace(standing, faults=now.faults, out_until=now.out_until, reason=now.reason)
            for standing, now, before in zip(done.standings, self._standings, done.work.standings, strict=True)
        )
        self.learn_s = done.took_s
        seen = self._census.rows[: len(done.work.rows)] - done.work.rows
        late = self._census.turns - done.work.turn
        self._near_trial = PendingPrediction(done.near, seen.copy(), late, reach=1)
        if done.far is not None:
            self._far_trial = PendingPrediction(done.far, seen.copy(), late, reach=self.settings.reach)

    def predict(self, epoch: int, time_left_s: float, *, seqs: tuple[int, int] | None = None) -> Prediction:
        """The epoch as it will probably be, within the time left before its deadline.

        By Algorithm 1, for every series on its own: of the algorithms that can answer in what is left, the best ranked; an
        algorithm that fails, or for which no time is left, is stood in for by the last outcome. `seqs`, where known, is the
        range of the epoch's seqs, over which the rows are spread.
        """
        began = self._clock()
        if self.epoch is None or not len(self._census):
            need = self.settings.least_outputs
            return Prediction(epoch, None, {}, 0, f"no output was observed yet; a prediction needs {need} per key", 0.0)
        if epoch <= self.epoch:
            raise HoldfastError(f"epoch {epoch} is to be predicted, but epoch {self.epoch} was observed; predict a later one")
        ahead = epoch - self.epoch
        expected, short, why = self._within_contract(self._census.expected(ahead))
        values, used = self._forecast(epoch, expected, began=began, time_left_s=time_left_s)
        assembling = self._clock()
        if self.settings.short == "abstain" and short and not len(expected.slots):
            return Prediction(epoch, None, {}, short, why, self._clock() - began)
        advanced = self._census.advanced(expected, ahead)
        if seqs is not None and SEQ in self.columns.advancing:
            spread(advanced[:, self.columns.advancing.index(SEQ)], seqs)
        last, told = self._census.last_rows(expected.slots), self._census.told
        rows = written(self.columns, last, epoch=epoch, numbers=values, advancing=advanced, told=told)
        self.predictions += 1
        self.last_used = used
        ended = self._clock()
        if ended - assembling <= self.settings.slow_s:  # else we were held up
            self._assembly_s = max(ended - assembling, 0.9 * self._assembly_s)
        return Prediction(epoch, rows, used, short, why, ended - began)

    def _within_contract(self, expected: Expected) -> tuple[Expected, int, str]:
        """The rows to predict, how many keys have too little history, and what is done about them."""
        need, had = self.settings.least_outputs, self._census.rows
        slots = np.unique(expected.slots)
        short = int(np.count_nonzero(had[slots] < need))
        if not short:
            return expected, 0, ""
        why = f"{short} of {len(slots)} keys have had fewer than {need} outputs; a prediction needs {need}: "
        if self.settings.short == LAST:
            return expected, short, why + "standing in with their last outcome"
        enough = had[expected.slots] >= need
        left = Expected(expected.slots[enough], expected.step[enough], expected.share[enough])
        return left, short, why + "they are left out"

    def _forecast(self, epoch: int, expected: Expected, *, began: float, time_left_s: float) -> tuple[Floats, dict[str, int]]:
        """The predicted numbers of the expected rows, and who answered for how many series."""
        assert self.epoch is not None
        numbers, ahead = len(self.columns.numbers), epoch - self.epoch
        keys, rows = np.unique(expected.slots, return_counts=True)
        series = (keys[:, np.newaxis] * numbers + np.arange(numbers)).ravel()
        history = self._cache.history[series]
        steps = int(expected.step.max(initial=1))
        paths = np.repeat(history[:, -1:], steps, axis=1)
        left_s = time_left_s - self._assembly_s - (self._clock() - began)
        accuracy, costs = self._ranked(keys, series, self._cache.usable[series], ahead=ahead, steps=steps)
        told, said = self._told(epoch, keys, rows, best=accuracy.max(axis=1, initial=-np.inf))
        accuracy[said] = -np.inf
        names = [standing.name for standing in self._standings]
        chosen = assign(accuracy, costs, names, time_left_s=left_s).chosen
        used: dict[str, int] = {ECHO: int(np.count_nonzero(said))} if said.any() else {}
        for number in sorted(set(chosen.tolist()) - {NONE}, key=lambda n: (-np.count_nonzero(chosen == n), n)):
            own = np.flatnonzero(chosen == number)
            left_s = time_left_s - self._assembly_s - (self._clock() - began)
            if costs[number].of(len(own)) > left_s:
                continue  # the ones before took longer than they used to
            answer = self._answer(number, history[own], series[own], steps, limit_s=left_s)
            if answer is not None:
                paths[own] = answer
                used[self._standings[number].name] = len(own)
        rest = len(series) - sum(used.values())
        if rest:
            used[LAST] = used.get(LAST, 0) + rest
        paths = plausible(history, self.columns.whole).hold(paths)
        paths[said] = told[said, np.newaxis]
        row = np.searchsorted(keys, expected.slots)
        values = paths.reshape(len(keys), numbers, steps)[row, :, expected.step - 1]
        return np.where(self._cache.mostly_null[expected.slots], np.nan, values), used

    def _told(self, epoch: int, keys: Ints, rows: Ints, *, best: Floats) -> tuple[Floats, Bools]:
        """What the epoch's input says of each series, and of which that is more accurate than the `best` that history can say."""
        nothing = np.full(len(best), np.nan), np.zeros(len(best), dtype=np.bool_)
        if not self.settings.from_input or not self._from_input.echo.knows(epoch):
            return nothing
        values, accuracy = self._from_input.answer(epoch, keys=self._census.named(keys), slots=keys, known=len(self._census))
        usable = np.isfinite(values) & ((rows == 1) & (self._census.rows[keys] >= self.settings.least_outputs))[:, np.newaxis]
        return values.ravel(), np.asarray(usable.ravel() & (accuracy.ravel() > best))

    def _ranked(self, keys: Ints, series: Ints, had: Ints, *, ahead: int, steps: int) -> tuple[Floats, list[Cost]]:
        """How accurate each algorithm is on each series, and what each costs. One never judged stands behind all that were."""
        near = ahead == 1
        shape = (len(series), len(self._standings))
        accuracy = self._near.accuracies()[keys].reshape(shape)
        if not near:
            later = self._far.accuracies()[keys].reshape(shape)
            judged = ~np.isneginf(later).all(axis=1, keepdims=True)
            accuracy = np.where(judged, later, accuracy)
        more = max(1.0, steps / self._steps(1 if near else self.settings.reach))  # times were measured on so many steps
        costs = []
        for number, standing in enumerate(self._standings):
            cost = standing.near if near else standing.far or standing.near
            out = standing.out_until > self._census.turns or cost is None
            ready = np.zeros(len(series), dtype=np.bool_) if out else self._ready(standing, series, had)
            untried = UNTRIED if standing.name == LAST else 2 * UNTRIED
            accuracy[:, number] = np.where(ready, np.maximum(accuracy[:, number], untried), -np.inf)
            costs.append(Cost(0.0, 0.0) if cost is None else Cost(cost.call_s * more, cost.series_s * more))
        enough = np.repeat(self._census.rows[keys] >= self.settings.least_outputs, len(self.columns.numbers))
        accuracy[~enough] = -np.inf  # too little history: the last outcome
        return accuracy, costs

    def _ready(self, standing: Standing, series: Ints, had: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        learned = standing.learned_for(len(self._cache.history))[series]
        return replace(standing, learned=learned).ready(had)

    def _answer(self, number: int, history: Floats, series: Ints, steps: int, *, limit_s: float) -> Floats | None:
        """The forecast of one algorithm; None if it misbehaved or was not there in time, for which it is demoted."""
        standing = self._standings[number]
        learned = standing.learned_for(len(self._cache.history))[series]
        ready = np.ones(len(series), dtype=np.bool_)
        try:
            return guarded_calls.Caller(standing.predictor, limit_s=limit_s).forecast(history, learned, steps=steps, ready=ready)
        except guarded_calls.Misbehaved as fault:
            demoted = standing.demoted(str(fault), turn=self._census.turns, penalty=self.settings.penalty)
            self._standings = (*self._standings[:number], demoted, *self._standings[number + 1 :])
            return None

    def _steps(self, epochs: int) -> int:
        """How many steps the busiest key makes in so many epochs, within reason."""
        if not len(self._census):
            return epochs
        step = self._census.expected(epochs).step
        return int(np.clip(step.max(initial=epochs), 1, 4 * epochs))

    def _forget(self, kept: Ints) -> None:
        numbers = len(self.columns.numbers)
        series = (kept[:, np.newaxis] * numbers + np.arange(numbers)).ravel()
        total = len(self._cache.history)
        self._standings = tuple(
            standing if standing.learned is None else replace(standing, learned=standing.learned_for(total)[series])
            for standing in self._standings
        )
        for part in (self._census, self._cache, self._near, self._far, self._from_input):
            part.keep(kept)
        self._start_over()

    def _start_over(self) -> None:
        """Keys or algorithms changed places: what is on trial or being learned no longer fits."""
        self._generation += 1
        self._near_trial = self._far_trial = None

    def _new_rank(self, *, prior: float = PRIOR) -> Rank:
        measure, tolerance = self.settings.measure, self.settings.tolerance
        return Rank(len(self.columns.numbers), 0, measure=measure, tolerance=tolerance, prior=prior)
