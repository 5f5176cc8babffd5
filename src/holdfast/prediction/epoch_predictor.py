"""Learns from a PE's output, epoch by epoch, and predicts the epochs that the PE is late with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast.prediction.column_roles import SEQ, ColumnRoles
from holdfast.prediction.from_input.echo import NAME as ECHO
from holdfast.prediction.from_input.input_predictor import InputPredictor
from holdfast.prediction.key_statistics import ExpectedRows, KeyStatistics
from holdfast.prediction.prediction import Prediction
from holdfast.prediction.predictors import guarded_calls
from holdfast.prediction.predictors.predictor import Bools, Floats, Ints, Predictor
from holdfast.prediction.predictors.registry import default_predictors
from holdfast.prediction.predictors.value_range import plausible_range
from holdfast.prediction.ranking.algorithm_rank import PRIOR, AlgorithmRank
from holdfast.prediction.ranking.hot_swap import NONE, Cost, assign_predictors
from holdfast.prediction.ranking.model_builder import Clock, PredictorState, TrainingResult, TrainingRound
from holdfast.prediction.ranking.pending_prediction import PendingPrediction
from holdfast.prediction.series_rows import build_rows, number_matrix, row_keys, sort_rows, spread_seqs
from holdfast.prediction.settings import PredictorSettings
from holdfast.prediction.value_cache import ValueCache

LAST = "last-outcome"
UNJUDGED = -1e300  # the accuracy of an algorithm without outcomes: worse than that of any algorithm with outcomes


class EpochPredictor:
    """The prediction agent's core (ISORC'16, section IV-B) without its process: data cache, model builder, rank and hot-swap.

    `observe` takes each exact epoch and judges the predictions of it. `train` trains all algorithms and predicts with each of them.
    `predict` answers within the time it gets. To keep training from delaying the other two, call `training_round().run()` in
    another thread and give its result to `accept`. `input_predictor.echo.add_input` takes an epoch's input, which `predict` may
    then use. Errors of an algorithm are never raised here.
    """

    def __init__(
        self,
        columns: ColumnRoles,
        predictors: Sequence[Predictor] | None = None,
        *,
        settings: PredictorSettings | None = None,
        inputs: Sequence[str] = (),
        clock: Clock = time.perf_counter,
    ) -> None:
        self.columns, self.settings, self._clock = columns, settings or PredictorSettings(), clock
        self._keys = KeyStatistics(columns, most_keys=self.settings.most_keys, forget_after=self.settings.forget_after)
        self._cache = ValueCache(len(columns.numbers), depth=self.settings.depth)
        self._states: tuple[PredictorState, ...] = ()
        self._next_rank = self._new_rank()
        # The outcomes of one path resemble each other, so the whole column weighs more.
        self._later_rank = self._new_rank(prior=PRIOR * (self.settings.reach - 1))
        self._next_pending: PendingPrediction | None = None
        self._later_pending: PendingPrediction | None = None
        self._input_predictor = InputPredictor(columns, inputs, self._new_rank)
        self._generation = 0
        self._assembly_s = 0.0
        self.epoch: int | None = None
        self.predictions = 0
        self.train_s = 0.0
        self.last_used: dict[str, int] = {}
        self.use_predictors(default_predictors() if predictors is None else predictors)

    @property
    def states(self) -> tuple[PredictorState, ...]:
        """The algorithms in use, in order."""
        return self._states

    @property
    def ranks(self) -> tuple[AlgorithmRank, AlgorithmRank]:
        """The accuracy of predicting the next epoch, and of predicting later ones."""
        return self._next_rank, self._later_rank

    @property
    def input_predictor(self) -> InputPredictor:
        """The predictor that uses the input of a late epoch."""
        return self._input_predictor

    @property
    def statistics(self) -> KeyStatistics:
        """The keys, and which rows to expect of them."""
        return self._keys

    @property
    def cache(self) -> ValueCache:
        """The data cache."""
        return self._cache

    @property
    def keys(self) -> int:
        """How many keys are remembered."""
        return len(self._keys)

    @property
    def epochs_observed(self) -> int:
        return self._keys.epochs_observed

    def use_predictors(self, predictors: Sequence[Predictor]) -> None:
        """Replace the algorithms. Those that stay keep their models and their accuracy."""
        names = [predictor.name for predictor in predictors]
        if len(set(names)) < len(names) or not names:
            raise HoldfastError(f"expected at least one predictor, each once, got: {', '.join(names) or 'none'}")
        former = [state.predictor for state in self._states]
        numbers = [former.index(predictor) if predictor in former else -1 for predictor in predictors]
        for rank in (self._next_rank, self._later_rank):
            rank.carry_over(numbers)
        self._states = tuple(
            self._states[number] if number >= 0 else PredictorState(predictor)
            for predictor, number in zip(predictors, numbers, strict=True)
        )
        self._discard_pending()

    def change_settings(self, settings: PredictorSettings) -> None:
        """Replace the settings. Depth, tolerance and the limits on keys stay as they were."""
        self.settings = settings
        self._next_rank.measure = self._later_rank.measure = settings.measure
        self._input_predictor.use_measure(settings.measure)

    def observe(self, epoch: int, rows: pa.Table) -> None:
        """Learn from an exact epoch and judge what was predicted of it. Raises HoldfastError if a later one was observed."""
        if self.epoch is not None and epoch <= self.epoch:
            raise HoldfastError(f"epoch {epoch} was observed after epoch {self.epoch}; observe each epoch once, in ascending order")
        distance = 1 if self.epoch is None else epoch - self.epoch
        table = sort_rows(self.columns, rows)
        truth = number_matrix(self.columns, table)
        keys = row_keys(self.columns.keys, table)
        slots = self._keys.observe(table, keys, epochs=distance)
        self.epoch = epoch
        if distance > 1:  # how many steps the keys made in the missing epochs is unknown
            self._next_pending = self._later_pending = None
        for rank in (self._next_rank, self._later_rank):
            rank.make_room(len(self._keys))
        if self._next_pending is not None:
            self._next_pending.judge(self._next_rank, self._later_rank, slots=slots, truth=truth, skip_next=False)
        if self._later_pending is not None:
            self._later_pending.judge(self._next_rank, self._later_rank, slots=slots, truth=truth, skip_next=True)
        self._input_predictor.observe(epoch, keys=keys, slots=slots, truth=truth, key_count=len(self._keys))
        self._cache.append(slots, truth, keys=len(self._keys))
        slots_to_keep = self._keys.slots_to_keep()
        if slots_to_keep is not None:
            self._forget_keys(slots_to_keep)

    def train(self, *, limit_s: float | None = None) -> None:
        """Run a training round in this thread. Wait at most `limit_s` for an algorithm of another package."""
        self.accept(self.training_round(limit_s=limit_s).run())

    def training_round(self, *, limit_s: float | None = None) -> TrainingRound:
        """Return a training round, which may run in any thread."""
        later = self._later_pending is None or self._later_pending.spent
        return TrainingRound(
            generation=self._generation,
            epochs_observed=self._keys.epochs_observed,
            every=self.settings.train_every,
            whole=self.columns.whole,
            history=self._cache.history.copy(),
            counts=self._cache.usable,
            row_counts=self._keys.row_counts.copy(),
            states=self._states,
            next_steps=self._steps(1),
            later_steps=self._steps(self.settings.reach) if later else None,
            slow_s=self.settings.slow_s,
            penalty=self.settings.penalty,
            limit_s=limit_s,
            clock=self._clock,
        )

    def accept(self, result: TrainingResult) -> None:
        """Take over the result of a training round. Ignore it if the keys or algorithms were renumbered since the round began."""
        if result.round.generation != self._generation:
            return
        self._states = tuple(
            trained
            if now is before or trained.hung
            else replace(trained, faults=now.faults, excluded_until=now.excluded_until, reason=now.reason)
            for trained, now, before in zip(result.states, self._states, result.round.states, strict=True)
        )
        self.train_s = result.took_s
        steps = self._keys.row_counts[: len(result.round.row_counts)] - result.round.row_counts
        epochs = self._keys.epochs_observed - result.round.epochs_observed
        self._next_pending = PendingPrediction(result.next_paths, steps.copy(), epochs, reach=1)
        if result.later_paths is not None:
            self._later_pending = PendingPrediction(result.later_paths, steps.copy(), epochs, reach=self.settings.reach)

    def predict(self, epoch: int, time_left_s: float, *, seqs: tuple[int, int] | None = None) -> Prediction:
        """Predict an epoch within the time left before its deadline.

        Algorithm 1 chooses, for each series, the best ranked of the algorithms that can answer in time. The last outcome replaces
        an algorithm that fails or for which no time is left. The seqs of the rows are spread over `seqs`, the epoch's range of
        seqs, if it is known.
        """
        began = self._clock()
        if self.epoch is None or not len(self._keys):
            need = self.settings.least_outputs
            return Prediction(epoch, None, {}, 0, f"no output was observed yet; a prediction needs {need} per key", 0.0)
        if epoch <= self.epoch:
            raise HoldfastError(f"epoch {epoch} cannot be predicted: epoch {self.epoch} was observed; predict a later one")
        ahead = epoch - self.epoch
        expected, short, why = self._drop_short_keys(self._keys.expected_rows(ahead))
        values, used = self._forecast(epoch, expected, began=began, time_left_s=time_left_s)
        assembling = self._clock()
        if self.settings.short == "abstain" and short and not len(expected.slots):
            return Prediction(epoch, None, {}, short, why, self._clock() - began)
        advanced = self._keys.advanced(expected, ahead)
        if seqs is not None and SEQ in self.columns.advancing:
            spread_seqs(advanced[:, self.columns.advancing.index(SEQ)], seqs)
        last_rows, ever_valued = self._keys.last_rows(expected.slots), self._keys.ever_valued
        rows = build_rows(self.columns, last_rows, epoch=epoch, numbers=values, advancing=advanced, ever_valued=ever_valued)
        self.predictions += 1
        self.last_used = used
        ended = self._clock()
        if ended - assembling <= self.settings.slow_s:  # otherwise the process was stopped meanwhile
            self._assembly_s = max(ended - assembling, 0.9 * self._assembly_s)
        return Prediction(epoch, rows, used, short, why, ended - began)

    def _drop_short_keys(self, expected: ExpectedRows) -> tuple[ExpectedRows, int, str]:
        """Return the rows to predict, how many keys have too little history, and what is done about those."""
        need, row_counts = self.settings.least_outputs, self._keys.row_counts
        slots = np.unique(expected.slots)
        short = int(np.count_nonzero(row_counts[slots] < need))
        if not short:
            return expected, 0, ""
        why = f"{short} of {len(slots)} keys have had fewer than {need} outputs; a prediction needs {need}: "
        if self.settings.short == LAST:
            return expected, short, why + "they repeat their last outcome"
        enough = row_counts[expected.slots] >= need
        rest = ExpectedRows(expected.slots[enough], expected.step[enough], expected.share[enough])
        return rest, short, why + "they are left out"

    def _forecast(self, epoch: int, expected: ExpectedRows, *, began: float, time_left_s: float) -> tuple[Floats, dict[str, int]]:
        """Return the predicted numbers of the expected rows, and how many series each algorithm predicted."""
        assert self.epoch is not None
        numbers, ahead = len(self.columns.numbers), epoch - self.epoch
        slots, rows_per_key = np.unique(expected.slots, return_counts=True)
        series = self._series_of(slots)
        history = self._cache.history[series]
        steps = int(expected.step.max(initial=1))
        paths = np.repeat(history[:, -1:] if self.settings.replace else np.full((len(series), 1), np.nan), steps, axis=1)

        def left_s() -> float:
            return time_left_s - self._assembly_s - (self._clock() - began)

        hot_swap_left_s = left_s()
        accuracy, costs = self._accuracies(slots, series, history, ahead=ahead, steps=steps)
        echo_values, echoed = self._echo(epoch, slots, rows_per_key, best=accuracy.max(axis=1, initial=-np.inf))
        accuracy[echoed] = -np.inf
        names = [state.name for state in self._states]
        assigned = assign_predictors(accuracy, costs, names, time_left_s=hot_swap_left_s).predictors
        used: dict[str, int] = {ECHO: int(np.count_nonzero(echoed))} if echoed.any() else {}
        for number in sorted(set(assigned.tolist()) - {NONE}, key=lambda n: (-np.count_nonzero(assigned == n), n)):
            own = np.flatnonzero(assigned == number)
            limit_s = left_s()
            if costs[number].of(len(own)) > limit_s:
                continue  # the algorithms before it took longer than usual
            answer = self._call_predictor(number, history[own], series[own], steps, limit_s=limit_s)
            if answer is not None:
                paths[own] = answer
                used[self._states[number].name] = len(own)
        rest = len(series) - sum(used.values())
        if rest and self.settings.replace:
            used[LAST] = used.get(LAST, 0) + rest
        paths = plausible_range(history, self.columns.whole).clip(paths)
        paths[echoed] = echo_values[echoed, np.newaxis]
        row = np.searchsorted(slots, expected.slots)
        values = paths.reshape(len(slots), numbers, steps)[row, :, expected.step - 1]
        return np.where(self._cache.mostly_null[expected.slots], np.nan, values), used

    def _echo(self, epoch: int, slots: Ints, rows_per_key: Ints, *, best: Floats) -> tuple[Floats, Bools]:
        """Return the values that the epoch's input suggests, and for which series they are more accurate than `best`."""
        if not self.settings.from_input or not self._input_predictor.echo.has_input(epoch):
            return np.full(len(best), np.nan), np.zeros(len(best), dtype=np.bool_)
        keys = self._keys.keys_at(slots)
        values, accuracy = self._input_predictor.predict(epoch, keys=keys, slots=slots, key_count=len(self._keys))
        single = (rows_per_key == 1) & (self._keys.row_counts[slots] >= self.settings.least_outputs)
        usable = np.isfinite(values) & single[:, np.newaxis]
        return values.ravel(), np.asarray(usable.ravel() & (accuracy.ravel() > best))

    def _accuracies(self, slots: Ints, series: Ints, history: Floats, *, ahead: int, steps: int) -> tuple[Floats, list[Cost]]:
        """Return the accuracy of each algorithm on each series, and the cost of each algorithm.

        An algorithm without outcomes ranks behind those with outcomes. -inf: the algorithm cannot predict the series.
        """
        is_next, counts = ahead == 1, self._cache.usable[series]
        shape = (len(series), len(self._states))
        accuracy = self._next_rank.accuracies()[slots].reshape(shape)
        if not is_next:
            later = self._later_rank.accuracies()[slots].reshape(shape)
            judged = ~np.isneginf(later).all(axis=1, keepdims=True)
            accuracy = np.where(judged, later, accuracy)
        factor = max(1.0, steps / self._steps(1 if is_next else self.settings.reach))  # costs were measured on so many steps
        costs = []
        for number, state in enumerate(self._states):
            cost = state.next_cost if is_next else state.later_cost or state.next_cost
            if state.excluded_until > self._keys.epochs_observed or cost is None:
                ready = np.zeros(len(series), dtype=np.bool_)
            else:
                ready = replace(state, model=state.model_for(len(self._cache.history))[series]).ready(counts, history)
            unjudged = UNJUDGED if state.name == LAST else 2 * UNJUDGED
            accuracy[:, number] = np.where(ready, np.maximum(accuracy[:, number], unjudged), -np.inf)
            costs.append(Cost(0.0, 0.0) if cost is None else Cost(cost.call_s * factor, cost.series_s * factor))
        enough = np.repeat(self._keys.row_counts[slots] >= self.settings.least_outputs, len(self.columns.numbers))
        accuracy[~enough] = -np.inf  # too little history: the last outcome
        return accuracy, costs

    def _call_predictor(self, number: int, history: Floats, series: Ints, steps: int, *, limit_s: float) -> Floats | None:
        """Return the forecast of one algorithm; None, and exclude it for a while, if it fails or takes too long."""
        state = self._states[number]
        model = state.model_for(len(self._cache.history))[series]
        ready = np.ones(len(series), dtype=np.bool_)
        try:
            guarded = guarded_calls.GuardedPredictor(state.predictor, limit_s=limit_s)
            return guarded.forecast(history, model, steps=steps, ready=ready)
        except guarded_calls.PredictorError as error:
            excluded = state.excluded(str(error), now=self._keys.epochs_observed, penalty=self.settings.penalty)
            self._states = (*self._states[:number], excluded, *self._states[number + 1 :])
            return None

    def _steps(self, epochs: int) -> int:
        """Return how many steps the busiest key makes in so many epochs, at most four per epoch."""
        if not len(self._keys):
            return epochs
        return int(np.clip(max(epochs, self._keys.most_steps(epochs)), 1, 4 * epochs))

    def _series_of(self, slots: Ints) -> Ints:
        """Return the row numbers, in the cache's history, of all series of these keys."""
        numbers = len(self.columns.numbers)
        return np.asarray((slots[:, np.newaxis] * numbers + np.arange(numbers)).ravel())

    def _forget_keys(self, slots_to_keep: Ints) -> None:
        series, total = self._series_of(slots_to_keep), len(self._cache.history)
        self._states = tuple(
            state if state.model is None else replace(state, model=state.model_for(total)[series]) for state in self._states
        )
        for part in (self._keys, self._cache, self._next_rank, self._later_rank, self._input_predictor):
            part.keep(slots_to_keep)
        self._discard_pending()

    def _discard_pending(self) -> None:
        """Discard pending predictions and running training rounds, because keys or algorithms have new numbers."""
        self._generation += 1
        self._next_pending = self._later_pending = None

    def _new_rank(self, *, prior: float = PRIOR) -> AlgorithmRank:
        measure, tolerance = self.settings.measure, self.settings.tolerance
        return AlgorithmRank(len(self.columns.numbers), 0, measure=measure, tolerance=tolerance, prior=prior)
