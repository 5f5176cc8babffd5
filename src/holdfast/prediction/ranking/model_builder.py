"""The prediction model builder (ISORC'16, section IV-B): trains all predictors and predicts with each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from holdfast.prediction.predictors import guarded_calls
from holdfast.prediction.predictors.predictor import Bools, Floats, Ints, Predictor, is_selective
from holdfast.prediction.predictors.value_range import ValueRange, plausible_range
from holdfast.prediction.ranking.hot_swap import Cost

Clock = Callable[[], float]
HUNG = 10.0  # times `slow_s` after which a predictor that has not returned is abandoned
FOR_EVER = 2**62  # an epoch that never comes
FALL = 0.9  # the most by which a measured cost may fall per round; it rises at once
CLEAN = 10  # times the first penalty after which a predictor's faults are forgotten


@dataclass(frozen=True)
class PredictorState:
    """A predictor in use: its model, its costs, and until when and why it is excluded.

    `next_cost` is the cost of predicting the next epoch, `later_cost` that of predicting several. `excluded_until` counts observed
    epochs. A predictor that hung is excluded forever, because each further call might leave another thread behind.
    """

    predictor: Predictor
    model: Floats | None = None
    train_s: float = 0.0
    next_cost: Cost | None = None
    later_cost: Cost | None = None
    faults: int = 0
    excluded_until: int = 0
    reason: str = ""

    @property
    def name(self) -> str:
        return self.predictor.name

    def ready(self, counts: Ints, history: Floats) -> Bools:
        """Return which series it can predict. `counts` states how many values each has."""
        if self.model is None:
            return np.zeros(len(counts), dtype=np.bool_)
        ready = counts >= self.predictor.least
        if is_selective(self.predictor):
            ready &= self.predictor.predictable(history)
        if self.model.shape[1]:
            ready[len(self.model) :] = False
            ready[: len(self.model)] &= ~np.isnan(self.model[:, 0])
        return ready

    def model_for(self, series: int) -> Floats:
        """Return the model with rows of NaN for series that were added after the training."""
        assert self.model is not None
        missing = series - len(self.model)
        if missing <= 0:
            return self.model
        return np.concatenate([self.model, np.full((missing, self.model.shape[1]), np.nan)])

    @property
    def hung(self) -> bool:
        return self.excluded_until >= FOR_EVER

    def excluded(self, reason: str, *, now: int, penalty: int, hung: bool = False) -> PredictorState:
        """Return it excluded for `penalty` epochs, doubled with every earlier fault; forever if it hung."""
        until = FOR_EVER if hung else now + penalty * 2 ** min(self.faults, 10)
        return replace(self, faults=self.faults + 1, excluded_until=until, reason=reason)

    def without_old_faults(self, *, now: int, penalty: int) -> PredictorState:
        """Return it without its faults if the last one is long ago."""
        clean = self.faults > 0 and now - self.excluded_until >= CLEAN * penalty
        return replace(self, faults=0, reason="") if clean else self


@dataclass(frozen=True)
class TrainingRound:
    """A training round: a copy of the cache, and the predictors to train on it. `run` may be called in any thread.

    The round waits at most `limit_s` for a predictor of another package; None: until it counts as hung. Each round trains one in
    `every` of the series, so that no epoch pays for all of them.
    """

    generation: int
    epochs_observed: int
    every: int
    whole: tuple[bool, ...]
    history: Floats
    counts: Ints
    row_counts: Ints
    states: Sequence[PredictorState]
    next_steps: int
    later_steps: int | None
    slow_s: float
    penalty: int
    limit_s: float | None = None
    clock: Clock = field(default=time.perf_counter, compare=False)

    def run(self) -> TrainingResult:
        """Train all predictors and predict with each."""
        began = self.clock()
        states, next_paths, later_paths = zip(*(self._train_and_predict(state) for state in self.states), strict=True)
        later = None if self.later_steps is None else np.stack(later_paths)
        return TrainingResult(self, states, np.stack(next_paths), later, self.clock() - began)

    @property
    def _limit_s(self) -> float:
        return HUNG * self.slow_s if self.limit_s is None else self.limit_s

    @cached_property
    def _range(self) -> ValueRange:
        return plausible_range(self.history, self.whole)

    def _train_and_predict(self, state: PredictorState) -> tuple[PredictorState, Floats, Floats]:
        """Return a predictor's new state, and its paths for the next epoch and for later ones; NaN where it predicts nothing."""
        no_next = np.full((len(self.row_counts), len(self.whole), self.next_steps), np.nan)
        no_later = np.full((len(self.row_counts), len(self.whole), self.later_steps or 0), np.nan)
        now, penalty = self.epochs_observed, self.penalty
        if state.excluded_until > now or not len(self.history):
            return state, no_next, no_later
        guarded, began = guarded_calls.GuardedPredictor(state.predictor, limit_s=self._limit_s), self.clock()
        try:
            trained = self._train(state, guarded)
            next_paths, cost = self._forecast(trained, guarded, self.next_steps, trained.next_cost)
            trained = replace(trained, next_cost=cost)
            later_paths = no_later
            if self.later_steps is not None:
                later_paths, cost = self._forecast(trained, guarded, self.later_steps, trained.later_cost)
                trained = replace(trained, later_cost=cost)
        except guarded_calls.PredictorError as error:
            hung = isinstance(error, guarded_calls.PredictorHung) and self.limit_s is None
            return state.excluded(str(error), now=now, penalty=penalty, hung=hung), no_next, no_later
        if guarded.took_s > self.slow_s:
            reason = f"took {guarded.took_s:.2f} s for {len(self.history)} series; at most {self.slow_s:g} s per round are allowed"
            return trained.excluded(reason, now=now, penalty=penalty), no_next, no_later
        if self.clock() - began > self.slow_s:  # this process was stopped meanwhile, so the measured costs are not the predictor's
            next_cost, later_cost = state.next_cost or trained.next_cost, state.later_cost or trained.later_cost
            trained = replace(trained, next_cost=next_cost, later_cost=later_cost)
        return trained.without_old_faults(now=now, penalty=penalty), next_paths, later_paths

    def _train(self, state: PredictorState, guarded: guarded_calls.GuardedPredictor) -> PredictorState:
        """Train the series whose turn it is and those without a model, and return the new state."""
        series = len(self.history)
        began = self.clock()
        if state.model is None:
            model = guarded.train(self.history)
            model = np.where((self.counts == 0)[:, np.newaxis], np.nan, model)  # a series without usable values has no model
            return replace(state, model=model, train_s=(self.clock() - began) / series)
        model = state.model_for(series)
        if model.shape[1] == 0:
            return replace(state, model=model)
        in_turn = np.arange(series) % self.every == self.epochs_observed % self.every
        due = np.flatnonzero((in_turn | np.isnan(model[:, 0])) & (self.counts >= state.predictor.least))
        if not len(due):
            return replace(state, model=model)
        trained = guarded.train(self.history[due])
        if trained.shape[1] != model.shape[1]:
            raise guarded_calls.PredictorError(
                f"train returned {trained.shape[1]} numbers per series, and {model.shape[1]} the time before"
            )
        model = model.copy()
        model[due] = trained
        return replace(state, model=model, train_s=(self.clock() - began) / len(due))

    def _forecast(
        self, state: PredictorState, guarded: guarded_calls.GuardedPredictor, steps: int, before: Cost | None
    ) -> tuple[Floats, Cost]:
        """Return the paths of all series, and their cost."""
        model, ready = state.model_for(len(self.history)), state.ready(self.counts, self.history)
        began = self.clock()
        if before is None or self.epochs_observed % self.every == 0:  # a call's own cost hardly changes
            guarded.forecast(self.history[:1], model[:1], steps=steps, ready=ready[:1])
            call_s = self.clock() - began
        else:
            call_s = before.call_s
        called = self.clock()
        paths = guarded.forecast(self.history, model, steps=steps, ready=ready)
        all_s = self.clock() - called
        cost = Cost(call_s, max(0.0, all_s - call_s) / len(self.history))
        if before is not None:
            cost = Cost(max(cost.call_s, FALL * before.call_s), max(cost.series_s, FALL * before.series_s))
        paths = self._range.clip(np.where(ready[:, np.newaxis], paths, np.nan))
        return paths.reshape(len(self.row_counts), len(self.whole), steps), cost


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training round. Paths have the dimensions algorithm, key, number and step."""

    round: TrainingRound
    states: tuple[PredictorState, ...]
    next_paths: Floats
    later_paths: Floats | None
    took_s: float
