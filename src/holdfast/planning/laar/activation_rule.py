"""The rule by which runtime and simulator choose a configuration from measured rates (LAAR section 4.6).

The paper takes the nearest configuration whose rates are all at least the measured ones. Measured rates vary by chance, so the rule
compares the sums of the newest 1, 2, 3, 5 and more measurements with the configurations. It leaves a configuration at once for a
heavier one if the rates exceed it by more than chance explains: one measurement shows a large difference, many show a small one. It
steps down if the rates are below the present configuration by more than chance explains, for at least `steady` measurements and for
at least as many as led it up. How much chance explains follows from the differences between successive measurements.

Square roots of counts have about the same variance, whatever the rate: a quarter of the counts' variance over their mean.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.compiled import compilable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOLERANCE = 0.05
"""A rate exceeds a configuration's rate if it is more than this share above it."""
STEADY = 3
"""How many measurements at least must be lighter before the rule steps down."""
WINDOWS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233)
"""Over how many of the newest measurements the rule compares the rates with the configurations."""

UP, DOWN = 2.0, 1.5  # half of the standard deviations that chance explains
PRIOR, MEMORY, OUTLIER = 10.0, 0.98, 8.0
CURRENT, LENGTH, LED_UP, OVER = range(4)  # indices of RuleState.numbers


class RuleState(NamedTuple):
    """What the rule remembers. `counts[0]` is the newest measurement; `numbers` has the present configuration, the number of
    measurements since the last change that count, how many of them led up to it, and over how many the rates exceed every
    configuration (0 if they do not). `noise` and `level` are weighted sums of the counts' variance and mean per source."""

    counts: Floats
    numbers: Ints
    noise: Floats
    level: Floats


def initial_state(expected: Floats, current: int) -> RuleState:
    """Return the state in configuration `current`. Counts are assumed to vary as those of a Poisson process at first.

    `expected[configuration, source]` are the tuples of one measurement.
    """
    level = PRIOR * expected.max(axis=0)
    return RuleState(
        np.zeros((WINDOWS[-1], expected.shape[1])),
        np.array([current, 0, 0, 0], dtype=np.int64),
        level.copy(),
        np.maximum(level, 1e-9),
    )


@compilable
def choose_configuration(state: RuleState, expected: Floats, measured: Floats, tolerance: float, steady: int) -> int:
    """Add a measurement, in tuples, and return the configuration from now on."""
    counts, numbers = state.counts, state.numbers
    spread = np.sqrt(state.noise / state.level)
    length = min(numbers[LENGTH] + 1, counts.shape[0])
    counts[1:length] = counts[: length - 1].copy()
    counts[0] = measured
    if length > 1:
        for s in range(len(measured)):
            mean = (counts[0, s] + counts[1, s]) / 2
            most = OUTLIER * max(1.0, spread[s] ** 2) * mean  # a change of the load is not noise
            state.noise[s] = MEMORY * state.noise[s] + min(most, (counts[0, s] - counts[1, s]) ** 2 / 2)
            state.level[s] = max(1e-9, MEMORY * state.level[s] + mean)
    numbers[LENGTH], numbers[OVER] = length, 0
    current, configurations = numbers[CURRENT], expected.shape[0]
    total = np.zeros(len(measured))
    dominates = np.ones(configurations, dtype=np.bool_)
    summed = 0
    for w in WINDOWS:
        if w > length:
            break
        for newer in range(summed, w):
            total += counts[newer]
        summed = w
        for c in range(configurations):
            for s in range(len(measured)):
                chance = UP * spread[s] if c == current else DOWN * spread[s]
                if sqrt(total[s]) > sqrt(expected[c, s] * w * (1 + tolerance)) + chance:
                    dominates[c] = False
        rises = not dominates[current]
        if not rises and (w < steady or w < numbers[LED_UP]):
            continue
        target = nearest(expected, total / w, tolerance)
        if target == current:
            if rises and numbers[OVER] == 0:
                numbers[OVER] = w
            continue
        if not rises:
            falls = False
            for s in range(len(measured)):
                if expected[target, s] < expected[current, s]:
                    falls = falls or sqrt(total[s]) < sqrt(expected[current, s] * w) - UP * spread[s]
            if not falls or not dominates[target]:
                continue
        numbers[CURRENT], numbers[LENGTH], numbers[LED_UP] = target, w, w if rises else 0
        numbers[OVER] = 0
        return int(target)
    return int(current)


@compilable
def nearest(expected: Floats, measured: Floats, tolerance: float) -> int:
    """Return the nearest configuration that dominates the measured tuples, or else the one that falls short least."""
    best, best_short, best_far = 0, -1.0, 0.0
    for c in range(expected.shape[0]):
        short, far = 0.0, 0.0
        for s in range(expected.shape[1]):
            short += max(0.0, measured[s] / (1.0 + tolerance) - expected[c, s]) ** 2
            far += (measured[s] - expected[c, s]) ** 2
        if best_short < 0 or short < best_short or (short == best_short and far < best_far):
            best, best_short, best_far = c, short, far
    return best
