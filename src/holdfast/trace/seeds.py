"""Random generators derived from one seed, one for each part of a trace and each block."""

import zlib

import numpy as np

from holdfast.errors import TraceError


def child(seed: int, part: str, block: int = 0) -> np.random.Generator:
    """Return the random generator of `part` in block number `block`.

    It depends only on these three values. So a long trace begins with the rows of a short one, and the draws of one part do not
    change the other parts.

    >>> bool(child(7, "prices", 3).integers(1000) == child(7, "prices", 3).integers(1000))
    True
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(part.encode()), block)))


def check_seed(seed: int) -> int:
    """Return the seed if it is not negative. Raises TraceError otherwise."""
    if seed < 0:
        raise TraceError(f"the seed of a trace is a whole number from 0, not {seed}")
    return seed
