"""holdfast init writes a valid application and never overwrites anything."""

import csv
import io

import pytest
from click.testing import CliRunner

from holdfast.app.load import load_app
from holdfast.cli.init import init, trace_text
from holdfast.errors import HoldfastError


def test_writes_an_application_with_a_trace(tmp_path):
    result = CliRunner().invoke(init, [str(tmp_path / "hot-sensors")], catch_exceptions=False)
    assert result.exit_code == 0
    app = load_app(tmp_path / "hot-sensors" / "app.py")
    assert app.name == "hot-sensors"
    assert app.graph().order == ("readings", "plausible", "usual", "warm", "warnings")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "hot-sensors" / "readings.csv").read_text())))
    assert [int(row["seq"]) for row in rows] == list(range(1, len(rows) + 1))


def test_current_folder_is_accepted(tmp_path, monkeypatch):
    (tmp_path / "hot-sensors").mkdir()
    monkeypatch.chdir(tmp_path / "hot-sensors")
    CliRunner().invoke(init, ["."], catch_exceptions=False)
    assert load_app(tmp_path / "hot-sensors" / "app.py").name == "hot-sensors"


def test_trace_is_deterministic():
    assert trace_text() == trace_text()


def test_folder_with_files_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(HoldfastError, match="exists and is not an empty folder; give another name"):
        CliRunner().invoke(init, [str(tmp_path)], catch_exceptions=False)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_invalid_application_name_is_refused(tmp_path):
    with pytest.raises(HoldfastError, match="wanted a folder name of at most 100 letters"):
        CliRunner().invoke(init, [str(tmp_path / "hot sensors!")], catch_exceptions=False)
