"""Packages that import their exported names on first use."""

from importlib import import_module

import pytest

from holdfast.lazy_exports import exported_names, lazy_exports

PACKAGES = ("advise", "app", "assess", "cli", "control", "documents", "engine", "planning", "protocol", "report", "trial")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_exported_name_can_be_imported(name):
    package = import_module(f"holdfast.{name}")
    for exported in exported_names(f"holdfast.{name}"):
        value = getattr(package, exported)
        assert getattr(value, "__name__", exported) != f"holdfast.{name}.{exported}", "a module hides the exported name"


def test_unknown_name_raises_attribute_error():
    get_attribute = lazy_exports("holdfast.documents")
    assert get_attribute("Job").__name__ == "Job"
    with pytest.raises(AttributeError, match=r"module 'holdfast\.documents' has no attribute 'Jib'"):
        get_attribute("Jib")
