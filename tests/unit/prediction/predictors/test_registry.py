"""Algorithms of other packages: found by entry point, checked, never in the way of ours."""

import sys
import textwrap

import pytest

from holdfast import entry_points
from holdfast.errors import HoldfastError
from holdfast.prediction import installed, make


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs a package of predictors, as pip would leave it: a module, and its metadata beside it."""

    def install(points, code):
        (tmp_path / "oracles.py").write_text(textwrap.dedent(code))
        metadata = tmp_path / "oracles-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: oracles\nVersion: 1.0\n")
        lines = "\n".join(f"{name} = oracles:{what}" for name, what in points.items())
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


def test_an_installed_package_adds_an_algorithm(package):
    package({"always": "Always"}, ORACLE)
    assert list(installed())[-1] == "always"
    assert make("always", value=7).value == 7


def test_a_package_cannot_replace_ours(package):
    package({"stride": "Always"}, ORACLE)
    assert type(make("stride")).__name__ == "Stride"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("misnamed", "predictor 'x' calls itself 'never'; the two must be the same"),
        ("nothing", "predictor 'x' is no predictor: it lacks name, least, train, forecast"),
        ("lost", "predictor 'x' cannot be made: RuntimeError: no crystal"),
        ("absent", "predictor 'x' cannot be made: AttributeError"),
    ],
)
def test_what_is_no_predictor_is_told(package, what, said):
    package({"x": what}, ORACLE)
    with pytest.raises(HoldfastError, match=said):
        make("x")


def test_a_forecast_without_steps_is_told(package):
    package({"always": "Mute"}, ORACLE)
    with pytest.raises(HoldfastError, match="predictor 'always': forecast takes no keyword 'steps'"):
        make("always")
