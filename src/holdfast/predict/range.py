"""What a series can plausibly do."""

import numpy as np

from holdfast.predict.predictor import Bools, Floats


def within(paths: Floats, history: Floats, *, whole: Bools) -> Floats:
    """The paths as they would be written: in the plausible range of each series, and whole where its column is.

    A series goes at most its whole range beyond what it was, and not below zero if it never was.

    >>> within(np.array([[9.0, 99.0], [-3.0, 2.4]]), np.array([[4.0, 8.0], [1.0, 3.0]]), whole=np.array([False, True])).tolist()
    [[9.0, 12.0], [0.0, 2.0]]
    """
    low, high = np.fmin.reduce(history, axis=1), np.fmax.reduce(history, axis=1)
    reach = high - low
    floor = np.where(low >= 0, np.maximum(low - reach, 0.0), low - reach)
    bounded = np.clip(paths, floor[:, np.newaxis], (high + reach)[:, np.newaxis])
    return np.where(whole[:, np.newaxis], np.rint(bounded), bounded) if whole.any() else bounded
