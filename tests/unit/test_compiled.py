"""Machine code kept on disk follows every module that it was made of."""

import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import caching

from holdfast.compiled import compiled, compiled_step

CALLER = """
from callee import doubled
from holdfast.compiled import compiled


@compiled
def twice(x):
    return doubled(x) + 1


print(twice(3.0))
"""
CALLEE = """
from holdfast.compiled import compiled


@compiled
def doubled(x):
    return {factor} * x
"""


def said(folder: Path) -> str:
    return subprocess.run([sys.executable, "caller.py"], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_a_change_in_a_module_that_is_called_is_not_answered_by_old_machine_code(tmp_path):
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "callee.py").write_text(CALLEE.format(factor=2.0))
    assert said(tmp_path) == "7.0"
    assert list(tmp_path.rglob("*.nbi")), "nothing was kept, so that this test cannot fail"
    (tmp_path / "callee.py").write_text(CALLEE.format(factor=5.0))
    assert said(tmp_path) == "16.0"


@compiled_step
def step(x):
    return x + 1.0


@compiled
def two_steps(x):
    return step(step(x))


def test_a_step_is_called_by_compiled_functions_and_from_python_it_says_so():
    assert two_steps(3.0) == 5.0
    with pytest.raises(TypeError, match="step has no way in from Python: only compiled functions call it"):
        step(3.0)


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same(monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])  # as where no folder may be written to

    @compiled
    def tripled(x):
        return 3.0 * x

    assert tripled(2.0) == 6.0
