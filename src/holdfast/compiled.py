"""Compile functions to machine code with numba and cache the code on disk until a module that it came from changes."""

import ast
import hashlib
import pickle
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.extending import register_jitable

F = TypeVar("F", bound=Callable[..., object])
HOLDFAST = Path(__file__).parents[1]
"""The folder that holds the package holdfast."""


def compiled(function: F) -> F:
    """Compile a function to machine code that runs without the interpreter's lock."""
    return _compile_cached(function)


def compilable(function: F) -> F:
    """Return the function itself; compiled functions can call it, too."""
    register_jitable(error_model="numpy")(function)
    return function


def compiled_step(function: F) -> F:
    """Compile a function that only compiled functions call.

    It gets no wrapper for Python, because the wrapper takes longer to compile than the function. A call from Python raises
    TypeError; without this check it would crash the process.
    """
    dispatcher: Any = _compile_cached(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    dispatcher.__class__ = type("Step", (type(dispatcher),), {"__call__": _refuse_call})
    return cast(F, dispatcher)


def _refuse_call(step: Any, *arguments: object) -> None:
    raise TypeError(f"only compiled functions can call {step.__name__}; it has no wrapper for Python")


def _compile_cached(function: F, **options: Any) -> F:
    """Compile a function and cache its machine code on disk.

    numba reuses cached code while the function's own file is unchanged. But the code also contains the functions and constants
    that the file imports. So the cache's stamp includes the content of the imported modules.
    """
    try:
        dispatcher: Any = njit(nogil=True, cache=True, error_model="numpy", **options)(function)
    except RuntimeError:  # no folder for the cache is writable, as on a read-only disk
        dispatcher = None
    cache_file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if not (hasattr(cache_file, "_source_stamp") and hasattr(cache_file, "_load_index")):
        # There is no cache, or this numba's cache works differently: compile every time rather than run old code.
        return cast(F, njit(nogil=True, error_model="numpy", **options)(function))
    root = Path(function.__code__.co_filename).parents[function.__module__.count(".")]
    cache_file._source_stamp = cache_file._source_stamp, _digest_imports(Path(function.__code__.co_filename), root)
    cache_file._load_index = _ignoring_stale_pickles(cache_file._load_index)
    return cast(F, dispatcher)


def _ignoring_stale_pickles(load_index: Callable[[], dict[Any, str]]) -> Callable[[], dict[Any, str]]:
    """Wrap numba's loader of a cache index: an index that cannot be unpickled counts as empty.

    The index pickles the argument types before numba compares the stamp. If such a class was renamed since, unpickling fails.
    """

    def load() -> dict[Any, str]:
        try:
            return load_index()
        except (AttributeError, ImportError, EOFError, pickle.UnpicklingError):
            return {}

    return load


@cache
def _digest_imports(file: Path, root: Path) -> str:
    """Return a digest of a module and of every module of its package or of holdfast that it imports, directly or not.

    `root` is the folder that holds the package.
    """
    contents: dict[Path, bytes] = {}
    pending = [file]
    while pending:
        module = pending.pop()
        if module not in contents:
            contents[module] = module.read_bytes()
            pending += _imported_files(contents[module], root, file.relative_to(root).parts[0])
    digest = hashlib.sha256()
    for module in sorted(contents):
        name = module.relative_to(root if module.is_relative_to(root) else HOLDFAST)
        digest.update(str(name).encode() + b"\0" + contents[module] + b"\0")
    return digest.hexdigest()


def _imported_files(source: bytes, root: Path, package: str) -> Iterator[Path]:
    """Yield the files that a module imports: those of its package and of holdfast, and single-file modules under `root`."""
    for name in _imported_names(source):
        top = name.partition(".")[0]
        if top in (package, "holdfast"):
            path = (root if top == package else HOLDFAST).joinpath(*name.split("."))
            candidates = [path.with_name(f"{path.name}.py"), path / "__init__.py"]
        else:
            candidates = [root / f"{name}.py"]
        yield from filter(Path.is_file, candidates)


def _imported_names(source: bytes) -> Iterator[str]:
    """Yield the dotted names that a module's import statements may load; some of them are no modules."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
