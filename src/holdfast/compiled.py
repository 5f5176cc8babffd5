"""Functions in machine code, kept on disk until a module beside theirs changes."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """The function in machine code, which does not hold the interpreter's lock.

    numba takes kept code for new as long as the function's own file is unchanged; but what it calls in other modules is linked
    into it. So the kept code here also names the content of every module in the function's folder.
    """
    made = njit(nogil=True, cache=True, error_model="numpy")(function)
    kept: Any = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if kept is None or not hasattr(kept, "_source_stamp"):
        # A numba whose cache looks different: rather slow than wrong.
        return cast(F, njit(nogil=True, error_model="numpy")(function))
    kept._source_stamp = kept._source_stamp, _content(Path(function.__code__.co_filename).parent)
    return cast(F, made)


@cache
def _content(folder: Path) -> str:
    """A digest of all Python files of a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
