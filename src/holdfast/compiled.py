"""Functions in machine code, kept on disk until a module that they are made of changes."""

import ast
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """The function in machine code, which does not hold the interpreter's lock."""
    return _kept(function)


def compiled_step(function: F) -> F:
    """The same for a function that only compiled ones call, without a way in from Python: that would take longer to compile than
    the function. Called from Python it raises TypeError, where machine code without a way in would end the process."""
    made: Any = _kept(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    made.__class__ = type("Step", (type(made),), {"__call__": _refuse})
    return cast(F, made)


def _refuse(step: Any, *arguments: object) -> None:
    raise TypeError(f"{step.__name__} has no way in from Python: only compiled functions call it")


def _kept(function: F, **options: Any) -> F:
    """The function in machine code that is kept on disk.

    numba takes kept code for good as long as the function's own file is unchanged; but what it calls in other modules is linked
    into it, and their constants are written into it. So the kept code also names the content of the modules of its folder that
    its own imports, and those that they import.
    """
    try:
        made: Any = njit(nogil=True, cache=True, error_model="numpy", **options)(function)
    except RuntimeError:  # neither the installation nor the user's own cache may be written to, as on a read-only disk
        made = None
    kept: Any = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if kept is None or not hasattr(kept, "_source_stamp"):
        # Nowhere to keep it, or a numba whose cache looks different: rather slow than wrong.
        return cast(F, njit(nogil=True, error_model="numpy", **options)(function))
    kept._source_stamp = kept._source_stamp, _content(Path(function.__code__.co_filename))
    return cast(F, made)


@cache
def _content(path: Path) -> str:
    """A digest of a module and of all in its folder that it leads to."""
    seen: dict[Path, bytes] = {}
    waiting = [path]
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen[module] = module.read_bytes()
            waiting += _imported(module, seen[module])
    digest = hashlib.sha256()
    for module in sorted(seen):
        digest.update(module.name.encode() + b"\0" + seen[module] + b"\0")
    return digest.hexdigest()


def _imported(module: Path, text: bytes) -> list[Path]:
    """The modules of the same folder that a module imports names from."""
    names = [node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.module]
    files = {module.with_name(f"{name.rpartition('.')[2]}.py") for name in names}
    return sorted(file for file in files if file.is_file())
