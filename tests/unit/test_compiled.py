"""Tests for holdfast.compiled: cached machine code follows every module that it was compiled from."""

import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import caching

from holdfast.compiled import _digest_imports, compiled, compiled_step

CALLER = """
from typing import NamedTuple

from holdfast.compiled import compiled
from {callee} import scaled


class {point}(NamedTuple):
    x: float


@compiled
def length(point):
    return scaled(point.x) + 1


def main():
    print(length({point}(3.0)))
"""
CALLEE = """
from holdfast.compiled import compiled


@compiled
def scaled(x):
    return {factor} * x
"""


def write_modules(folder: Path, callee: str, *, factor: float = 2.0, point: str = "Point") -> None:
    (folder / "kernels" / "inner").mkdir(parents=True, exist_ok=True)
    (folder / "kernels" / "caller.py").write_text(CALLER.format(callee=callee, point=point))
    (folder / f"{callee.replace('.', '/')}.py").write_text(CALLEE.format(factor=factor))


def run(folder: Path) -> str:
    command = [sys.executable, "-c", "from kernels.caller import main; main()"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize("callee", ["kernels.callee", "kernels.inner.callee"])
def test_changed_callee_is_compiled_again(tmp_path, callee):
    write_modules(tmp_path, callee, factor=2.0)
    assert run(tmp_path) == "7.0"
    assert list(tmp_path.rglob("*.nbi")), "numba cached nothing, so this test cannot fail"
    write_modules(tmp_path, callee, factor=5.0)
    assert run(tmp_path) == "16.0"


def test_stamp_covers_modules_of_holdfast_that_another_package_imports(tmp_path, monkeypatch):
    (tmp_path / "holdfast").mkdir()
    callee, caller = tmp_path / "holdfast" / "callee.py", tmp_path / "papers" / "kernels" / "caller.py"
    caller.parent.mkdir(parents=True)
    caller.write_text("from holdfast.callee import scaled")
    monkeypatch.setattr("holdfast.compiled.HOLDFAST", tmp_path)
    digests = set()
    for content in ("factor = 2", "factor = 5"):
        callee.write_text(content)
        _digest_imports.cache_clear()
        digests.add(_digest_imports(caller, tmp_path / "papers"))
    assert len(digests) == 2


def test_cache_that_names_a_renamed_class_counts_as_empty(tmp_path):
    write_modules(tmp_path, "kernels.callee", point="Point")
    assert run(tmp_path) == "7.0"
    write_modules(tmp_path, "kernels.callee", point="Position")
    assert run(tmp_path) == "7.0"


@compiled_step
def step(x):
    return x + 1.0


@compiled
def two_steps(x):
    return step(step(x))


def test_only_compiled_functions_can_call_a_step():
    assert two_steps(3.0) == 5.0
    with pytest.raises(TypeError, match="only compiled functions can call step"):
        step(3.0)


def test_function_compiles_where_nothing_can_be_cached(monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])  # as if no folder were writable

    @compiled
    def tripled(x):
        return 3.0 * x

    assert tripled(2.0) == 6.0
