"""The applications that commands bring with them, in a checkout and where holdfast is installed."""

import tomllib
from pathlib import Path

from holdfast.cli import demo, isorc16_runs
from holdfast.cli.demo import APPLICATION, example
from holdfast.cli.reproduce_objectives import APPLICATIONS

ROOT = Path(__file__).parents[3]


def test_a_checkout_has_the_examples_themselves():
    assert example() == ROOT / "examples" / "bargain_discovery.py"


def test_a_wheel_has_every_example_where_an_installed_command_looks_for_it(tmp_path, monkeypatch):
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    (shipped,) = (ROOT / here for here, there in wheel["force-include"].items() if there == "holdfast/examples")
    package = tmp_path / "lib" / "python3" / "site-packages" / "holdfast"
    monkeypatch.setattr(demo, "__file__", str(package / "cli" / "demo.py"))
    monkeypatch.setattr(isorc16_runs, "__file__", str(package / "cli" / "isorc16_runs.py"))
    monkeypatch.setattr(demo, "files", lambda name: package)
    monkeypatch.setattr(isorc16_runs, "files", lambda name: package)
    wanted = [example(), isorc16_runs._example(), *(example(f"{name}.py") for name in APPLICATIONS)]
    assert wanted[0] == package / "examples" / APPLICATION
    assert all((shipped / path.relative_to(package / "examples")).is_file() for path in wanted)
