"""Kernels that go through the series one by one, in machine code."""

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

from holdfast.predict.predictor import Floats

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """The function in machine code, which does not hold the interpreter's lock: the monitor goes on while it works."""
    return cast(F, njit(nogil=True, cache=True, error_model="numpy")(function))


@compiled
def first_value(row: Floats) -> int:
    """The place of a series' first value; the length of the row if it has none."""
    for i in range(len(row)):
        if row[i] == row[i]:  # NaN alone differs from itself
            return i
    return len(row)
