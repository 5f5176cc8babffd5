"""Where commands find the example applications: in a checkout and in an installed wheel."""

import tomllib
from pathlib import Path

from holdfast.app import examples
from holdfast.app.examples import example_path

ROOT = Path(__file__).parents[3]


def test_checkout_uses_its_own_examples():
    assert example_path("bargain_discovery.py") == ROOT / "examples" / "bargain_discovery.py"


def test_wheel_contains_every_example(tmp_path, monkeypatch):
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    (shipped,) = (ROOT / source for source, target in wheel["force-include"].items() if target == "holdfast/examples")
    package = tmp_path / "lib" / "python3" / "site-packages" / "holdfast"
    monkeypatch.setattr(examples, "__file__", str(package / "app" / "examples.py"))
    monkeypatch.setattr(examples, "files", lambda name: package)
    names = [path.name for path in (ROOT / "examples").glob("*.py")]
    assert "bargain_discovery.py" in names
    for name in names:
        path = example_path(name)
        assert path == package / "examples" / name
        assert (shipped / path.relative_to(package / "examples")).is_file()
