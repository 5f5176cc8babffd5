"""Arrays of what was learned, to be saved and restored with a check of every type and shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]


class SavedArrays:
    """A component whose state is arrays: those in `PER_KEY` have a row per key, those in `FIXED` do not grow with the keys.

    Arrays in `WITH_NAN` may have NaN; all others must be finite.
    """

    PER_KEY: ClassVar[tuple[str, ...]] = ()
    FIXED: ClassVar[tuple[str, ...]] = ()
    WITH_NAN: ClassVar[tuple[str, ...]] = ()

    def saved_arrays(self, keys: int) -> dict[str, npt.NDArray[Any]]:
        """Return copies of the arrays, without the spare rows."""
        own = vars(self)
        return {name: own[name][:keys].copy() for name in self.PER_KEY} | {name: own[name].copy() for name in self.FIXED}

    def restore_arrays(self, arrays: Arrays, keys: int) -> None:
        """Replace the arrays. Raises ValueError, and changes nothing, if one of them does not fit."""
        for name in (*self.PER_KEY, *self.FIXED):
            present = vars(self)[name]
            expected = (keys, *present.shape[1:]) if name in self.PER_KEY else present.shape
            array = arrays.get(name)
            if array is None or array.shape != expected or array.dtype != present.dtype:
                actual = "nothing" if array is None else f"{array.dtype} of shape {array.shape}"
                raise ValueError(f"array '{name}' must be {present.dtype} of shape {expected}, got {actual}")
            if np.isinf(array).any() or (name not in self.WITH_NAN and np.isnan(array).any()):
                raise ValueError(f"array '{name}' has numbers that are not finite")
        for name in (*self.PER_KEY, *self.FIXED):
            setattr(self, name, np.array(arrays[name]))
