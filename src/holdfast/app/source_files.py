"""Find the files of an application: its own file and the user's modules that it imports."""

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

INSTALLED = ("site-packages", "dist-packages")


def own_files(path: Path) -> list[Path]:
    """Return the application's file, then every module of the user that it imports, directly or not, sorted by name.

    Installed modules, the standard library and holdfast are left out. Only import statements are read; no code runs.
    """
    modules: dict[str, Path] = {}
    pending = [("", path)]
    while pending:
        name, file = pending.pop()
        for imported in _imported(file, name):
            spec = _own_spec(imported) if imported not in modules else None
            if spec is not None and spec.origin:
                modules[imported] = Path(spec.origin)
                pending.append((imported if spec.submodule_search_locations else imported.rpartition(".")[0], modules[imported]))
    return [path, *(modules[name] for name in sorted(modules))]


def application_hash(path: Path) -> str:
    """Return a hash that changes with any file of the application."""
    digest = hashlib.sha256()
    for file in own_files(path):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _imported(file: Path, package: str) -> Iterator[str]:
    """Yield the names of modules that a file in `package` may import. Some of the names may not be modules."""
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _prefixes(alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level and package else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from _prefixes(base)
            yield from (f"{base}.{alias.name}" for alias in node.names if base and alias.name != "*")


def _prefixes(name: str) -> Iterator[str]:
    """Yield a module and the packages that are imported with it."""
    parts = name.split(".") if name else []
    yield from (".".join(parts[: n + 1]) for n in range(len(parts)))


def _own_spec(name: str) -> ModuleSpec | None:
    """Return the spec of a module of the user, or None for another module. Searches like an import, but imports nothing."""
    top, *below = name.split(".")
    if top == "holdfast" or top in sys.stdlib_module_names:
        return None
    spec = PathFinder.find_spec(top)
    if spec is None or not all(_is_own(location) for location in _locations(spec)):
        return None
    for part in below:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    return spec if spec is not None and (spec.origin or "").endswith(".py") else None


def _locations(spec: ModuleSpec) -> list[str]:
    return [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location and spec.origin else [])]


def _is_own(location: str) -> bool:
    path = Path(location).resolve()
    return not set(INSTALLED) & set(path.parts) and not path.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve())
