"""The studies use only the public interface of holdfast: what its packages export."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import holdfast_papers
from holdfast.lazy_exports import exported_names

SOURCES = Path(holdfast_papers.__file__).parent
PUBLIC_MODULES = (
    "holdfast.errors",
    "holdfast.compiled",
    "holdfast.terminal",
    "holdfast.cli.command_group",
    "holdfast.planning.laar.activation_rule",  # compiled code of the simulator calls it, and numba's cache follows modules
)


def imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each module of holdfast that a file imports from, with the name; the name is empty for a plain import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.partition(".")[0] == "holdfast")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "holdfast":
            yield from ((node.module or "", alias.name) for alias in node.names)


def violations(text: str) -> list[str]:
    """Return what a file imports that is not public."""
    private = []
    for module, name in imports(ast.parse(text)):
        if module in PUBLIC_MODULES:
            continue
        loaded = import_module(module)
        if not name or not hasattr(loaded, "__path__"):
            private.append(f"{module} is not a package that exports names")
        elif name not in {*exported_names(module), *getattr(loaded, "__all__", ())}:
            private.append(f"{module} does not export {name}")
    return private


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCES)))
def test_study_imports_only_exported_names(path):
    assert violations(path.read_text()) == []


@pytest.mark.parametrize(
    ("text", "violation"),
    [
        ("from holdfast.assess.campaign import Campaign", "holdfast.assess.campaign is not a package that exports names"),
        ("def f():\n    from holdfast.assess import _Private", "holdfast.assess does not export _Private"),
        ("import holdfast.assess", "holdfast.assess is not a package that exports names"),
    ],
)
def test_private_import_is_found(text, violation):
    assert violations(text) == [violation]
