"""Export names from a package without importing their modules: each name is imported when it is first used.

The orchestrator, nodes and `holdfast --help` import modules of packages such as `holdfast.documents`. They must not pay for
pyspark, numba or scipy because another module of the same package needs them.

    if TYPE_CHECKING:
        from holdfast.documents.job import Job
    else:
        __getattr__ = lazy_exports(__name__)
"""

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_exports(package: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package that exports the names which its `__init__.py` imports under TYPE_CHECKING.

    A name must differ from the package's modules: importing a module sets the attribute of that name.
    """

    def get_attribute(name: str) -> Any:
        module = exported_names(package).get(name)
        if module is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return get_attribute


@cache
def exported_names(package: str) -> dict[str, str]:
    """Return the names that the package's `__init__.py` imports from modules of holdfast, each with its module."""
    tree = ast.parse(Path(str(sys.modules[package].__file__)).read_bytes())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast.")]
    return {alias.name: str(node.module) for node in imports for alias in node.names if node.module != __name__}
