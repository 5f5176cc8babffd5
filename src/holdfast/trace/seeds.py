"""Random streams, one per part of a generator and block, all children of one seed."""

import zlib

import numpy as np

from holdfast.errors import TraceError


def child(seed: int, part: str, block: int = 0) -> np.random.Generator:
    """The random stream of `part` in block number `block`.

    A block's stream depends on nothing but these three, so the first rows of a long trace are the rows of a short one,
    and a part that draws more leaves the other parts as they were.

    >>> bool(child(7, "prices", 3).integers(1000) == child(7, "prices", 3).integers(1000))
    True
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(part.encode()), block)))


def check_seed(seed: int) -> int:
    """The seed itself, if numpy can take it."""
    if seed < 0:
        raise TraceError(f"the seed of a trace is a whole number from 0, not {seed}")
    return seed
