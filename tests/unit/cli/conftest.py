"""Running the command line as a user does, in this process."""

import sys
from dataclasses import dataclass

import pytest

from holdfast.cli.main import main


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def holdfast(monkeypatch, capsys):
    """Runs `holdfast` with the given words; nothing but SystemExit may come out of it."""

    def run(*words: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["holdfast", *map(str, words)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as done:
            code = done.code or 0
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return Ran(code, said.out, said.err)

    return run


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
