"""The files that an application is made of: its own, and the modules beside it that it imports."""

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

INSTALLED = ("site-packages", "dist-packages")


def own_files(path: Path) -> list[Path]:
    """The application's file, then every module of the user's own that it imports, directly or not, by name.

    Modules that are installed, Python's own and holdfast's are not among them. Read off the import statements: nothing is
    run.
    """
    found: dict[str, Path] = {}
    waiting = [("", path)]
    while waiting:
        name, file = waiting.pop()
        for imported in _imported(file, name):
            spec = _own_spec(imported) if imported not in found else None
            if spec is not None and spec.origin:
                found[imported] = Path(spec.origin)
                waiting.append((imported if spec.submodule_search_locations else imported.rpartition(".")[0], found[imported]))
    return [path, *(found[name] for name in sorted(found))]


def application_hash(path: Path) -> str:
    """A number that changes with any file that an application is made of."""
    digest = hashlib.sha256()
    for file in own_files(path):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _imported(file: Path, package: str) -> Iterator[str]:
    """The names of the modules that a file may import; a name that is no module is no harm. `package` is the one it is in."""
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
    """A module and the packages that are imported with it."""
    parts = name.split(".") if name else []
    yield from (".".join(parts[: n + 1]) for n in range(len(parts)))


def _own_spec(name: str) -> ModuleSpec | None:
    """Where a module of the user's own is; None for any other. Looks for it as an import would, and imports nothing."""
    top, *below = name.split(".")
    if top == "holdfast" or top in sys.stdlib_module_names:
        return None
    spec = PathFinder.find_spec(top)
    if spec is None or not all(_is_own(place) for place in _places(spec)):
        return None
    for part in below:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    return spec if spec is not None and (spec.origin or "").endswith(".py") else None


def _places(spec: ModuleSpec) -> list[str]:
    return [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location and spec.origin else [])]


def _is_own(place: str) -> bool:
    path = Path(place).resolve()
    return not set(INSTALLED) & set(path.parts) and not path.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve())
