"""Names that a package exports without importing their modules: each is imported when it is first used.

The orchestrator, nodes and `holdfast --help` import modules of packages such as `holdfast.documents`. They must not pay for
pyspark, numba or scipy because another module of the same package needs them.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_exports(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that exports these names, listed by the module that defines them.

    A name must differ from the package's modules: importing a module sets the attribute of that name.
    """
    module_of = {name: module for module, exported in names.items() for name in exported}

    def get_attribute(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get_attribute
