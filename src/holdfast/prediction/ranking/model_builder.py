"""The prediction model builder: trains and tries every algorithm on the cache, off the data path."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from holdfast.prediction import guarded_calls
from holdfast.prediction.predictors.predictor import Bools, Floats, Ints, Predictor
from holdfast.prediction.predictors.value_range import Range, plausible
from holdfast.prediction.ranking.hot_swap import Cost

Clock = Callable[[], float]
HUNG = 10.0  # as many times as long as a round may take, an algorithm that has not returned is given up
FOR_GOOD = 2**62  # a turn that never comes
FALL = 0.9  # a cost that was measured once is forgotten by a tenth a round: quick to rise, slow to fall
CLEAN = 10  # times the first penalty: an algorithm that has done well for so many turns has had no fault


@dataclass(frozen=True)
class Standing:
    """One algorithm in use: what it has learned, what it costs, and whether it is out for misbehaving, until which turn and why.
    One that hung is out for good: each further try would leave another thread behind.

    `near` is the cost of forecasting the next epoch, `far` of going on for several.
    """

    predictor: Predictor
    learned: Floats | None = None
    train_s: float = 0.0
    near: Cost | None = None
    far: Cost | None = None
    faults: int = 0
    out_until: int = 0
    reason: str = ""

    @property
    def name(self) -> str:
        return self.predictor.name

    def ready(self, counts: Ints) -> Bools:
        """Which series it can speak about."""
        if self.learned is None:
            return np.zeros(len(counts), dtype=np.bool_)
        if self.learned.shape[1] == 0:
            return np.asarray(counts >= self.predictor.least)
        known = np.zeros(len(counts), dtype=np.bool_)
        known[: len(self.learned)] = ~np.isnan(self.learned[:, 0])
        return np.asarray(known & (counts >= self.predictor.least))

    def learned_for(self, series: int) -> Floats:
        """What it has learned, with nothing learned about series that came since."""
        assert self.learned is not None
        missing = series - len(self.learned)
        if missing <= 0:
            return self.learned
        return np.concatenate([self.learned, np.full((missing, self.learned.shape[1]), np.nan)])

    @property
    def hung(self) -> bool:
        return self.out_until >= FOR_GOOD

    def demoted(self, reason: str, *, turn: int, penalty: int, hung: bool = False) -> Standing:
        """The same, out for `penalty` turns, doubled with every fault; or for good."""
        if hung:
            return replace(self, faults=self.faults + 1, out_until=FOR_GOOD, reason=reason)
        rounds = penalty * 2 ** min(self.faults, 10)
        return replace(self, faults=self.faults + 1, out_until=turn + rounds, reason=reason)

    def forgiven(self, *, turn: int, penalty: int) -> Standing:
        """The same without its faults, where it has done well for long enough since."""
        clean = self.faults > 0 and turn - self.out_until >= CLEAN * penalty
        return replace(self, faults=0, reason="") if clean else self


@dataclass(frozen=True)
class Work:
    """One round of the builder: the cache as it was, and who is to be trained on it. `done` may run in any thread.

    An algorithm of another package is waited for as long as `limit_s`; None: so long that it hangs if it has not returned.
    Every series is trained again once in `every` turns, an `every`-th of them each turn, so that no epoch pays for all.
    """

    generation: int
    turn: int
    every: int
    whole: tuple[bool, ...]
    history: Floats
    counts: Ints
    rows: Ints
    standings: Sequence[Standing]
    near_steps: int
    far_steps: int | None
    slow_s: float
    penalty: int
    limit_s: float | None = None
    clock: Clock = field(default=time.perf_counter, compare=False)

    def done(self) -> Done:
        """All algorithms trained and tried."""
        began = self.clock()
        standings, near, far = [], [], []
        for standing in self.standings:
            after, next_path, later_path = self._tried(standing)
            standings.append(after)
            near.append(next_path)
            far.append(later_path)
        return Done(self, tuple(standings), _paths(near), None if self.far_steps is None else _paths(far), self.clock() - began)

    @property
    def _limit_s(self) -> float:
        return HUNG * self.slow_s if self.limit_s is None else self.limit_s

    @cached_property
    def _range(self) -> Range:
        return plausible(self.history, self.whole)

    def _tried(self, standing: Standing) -> tuple[Standing, Floats, Floats]:
        silent_near = np.full((len(self.rows), len(self.whole), self.near_steps), np.nan)
        silent_far = np.full((len(self.rows), len(self.whole), self.far_steps or 0), np.nan)
        if standing.out_until > self.turn or not len(self.history):
            return standing, silent_near, silent_far
        caller, began = guarded_calls.Caller(standing.predictor, limit_s=self._limit_s), self.clock()
        try:
            after = self._trained(standing, caller)
            near, cost = self._forecast(after, caller, self.near_steps, after.near)
            after = replace(after, near=cost)
            if self.far_steps is not None:
                far, cost = self._forecast(after, caller, self.far_steps, after.far)
                after = replace(after, far=cost)
            else:
                far = silent_far
        except guarded_calls.Misbehaved as fault:
            hung = isinstance(fault, guarded_calls.Hung) and self.limit_s is None
            return standing.demoted(str(fault), turn=self.turn, penalty=self.penalty, hung=hung), silent_near, silent_far
        if caller.took_s > self.slow_s:
            reason = f"took {caller.took_s:.2f} s for {len(self.history)} series; wanted at most {self.slow_s:g} s a round"
            return after.demoted(reason, turn=self.turn, penalty=self.penalty), silent_near, silent_far
        if self.clock() - began > self.slow_s:  # we were held up, not it: such a round does not tell what it costs
            after = replace(after, near=standing.near or after.near, far=standing.far or after.far)
        return after.forgiven(turn=self.turn, penalty=self.penalty), near, far

    def _trained(self, standing: Standing, caller: guarded_calls.Caller) -> Standing:
        """The standing after its share of the training: series whose turn it is, and those it knows nothing about yet."""
        series = len(self.history)
        began = self.clock()
        if standing.learned is None:
            learned = caller.train(self.history)
            learned = np.where((self.counts == 0)[:, np.newaxis], np.nan, learned)  # of no value, or too large ones, nothing comes
            return replace(standing, learned=learned, train_s=(self.clock() - began) / series)
        learned = standing.learned_for(series)
        if learned.shape[1] == 0:
            return replace(standing, learned=learned)
        turn = np.arange(series) % self.every == self.turn % self.every
        due = np.flatnonzero((turn | np.isnan(learned[:, 0])) & (self.counts >= standing.predictor.least))
        if not len(due):
            return replace(standing, learned=learned)
        fresh = caller.train(self.history[due])
        if fresh.shape[1] != learned.shape[1]:
            raise guarded_calls.Misbehaved(f"train gave {fresh.shape[1]} numbers per series, and {learned.shape[1]} before")
        learned = learned.copy()
        learned[due] = fresh
        return replace(standing, learned=learned, train_s=(self.clock() - began) / len(due))

    def _forecast(self, standing: Standing, caller: guarded_calls.Caller, steps: int, before: Cost | None) -> tuple[Floats, Cost]:
        """The paths of all series, and what they cost."""
        learned, ready = standing.learned_for(len(self.history)), standing.ready(self.counts)
        began = self.clock()
        caller.forecast(self.history[:1], learned[:1], steps=steps, ready=ready[:1])
        called = self.clock()
        paths = caller.forecast(self.history, learned, steps=steps, ready=ready)
        call_s, all_s = called - began, self.clock() - called
        cost = Cost(call_s, max(0.0, all_s - call_s) / len(self.history))
        if before is not None:
            cost = Cost(max(cost.call_s, FALL * before.call_s), max(cost.series_s, FALL * before.series_s))
        paths = np.where(ready[:, np.newaxis], paths, np.nan)
        paths = self._range.hold(paths)
        return paths.reshape(len(self.rows), len(self.whole), steps), cost


@dataclass(frozen=True)
class Done:
    """What a round of the builder came to. Paths: algorithm, key, number, step."""

    work: Work
    standings: tuple[Standing, ...]
    near: Floats
    far: Floats | None
    took_s: float


def _paths(paths: Sequence[Floats]) -> Floats:
    return np.ascontiguousarray(np.stack(paths)) if paths else np.empty((0, 0, 0, 0))
