"""Predictors of other packages are found by entry point and checked, and cannot replace those of holdfast."""

import sys
import textwrap

import pytest

from holdfast import entry_points
from holdfast.errors import HoldfastError
from holdfast.prediction import installed_predictors, make_predictor


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that installs a package of predictors like pip: a module and its metadata."""

    def install(points, code):
        (tmp_path / "oracles.py").write_text(textwrap.dedent(code))
        metadata = tmp_path / "oracles-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: oracles\nVersion: 1.0\n")
        lines = "\n".join(f"{name} = oracles:{factory}" for name, factory in points.items())
        (metadata / "entry_points.txt").write_text(f"[holdfast.predictors]\n{lines}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        entry_points._all_entry_points.cache_clear()

    yield install
    entry_points._all_entry_points.cache_clear()
    sys.modules.pop("oracles", None)


ORACLE = """
    import numpy as np

    class Always:
        least = 1
        def __init__(self, value=42.0, name="always"):
            self.value, self.name = value, name
        def train(self, history):
            return np.empty((len(history), 0))
        def forecast(self, history, learned, *, steps):
            return np.full((len(history), steps), float(self.value))

    def misnamed():
        return Always(name="never")

    def nothing():
        return object()

    class Mute(Always):
        def forecast(self, history, learned):
            return history

    def lost():
        raise RuntimeError("no crystal")
"""


def test_installed_package_adds_a_predictor(package):
    package({"always": "Always"}, ORACLE)
    assert list(installed_predictors())[-1] == "always"
    assert make_predictor("always", value=7).value == 7


def test_package_cannot_replace_a_predictor_of_holdfast(package):
    package({"stride": "Always"}, ORACLE)
    assert type(make_predictor("stride")).__name__ == "Stride"


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("misnamed", "predictor 'x' calls itself 'never'; the two must be the same"),
        ("nothing", "predictor 'x' is not a predictor: it lacks name, least, train, forecast"),
        ("lost", "predictor 'x' cannot be created: RuntimeError: no crystal"),
        ("absent", "predictor 'x' cannot be created: AttributeError"),
    ],
)
def test_invalid_predictor_is_refused(package, factory, message):
    package({"x": factory}, ORACLE)
    with pytest.raises(HoldfastError, match=message):
        make_predictor("x")


def test_forecast_without_steps_is_refused(package):
    package({"always": "Mute"}, ORACLE)
    with pytest.raises(HoldfastError, match="predictor 'always': forecast takes no keyword 'steps'"):
        make_predictor("always")
