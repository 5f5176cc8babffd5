"""The command `holdfast` itself: help, examples, error messages and exit codes."""

import os
import re
import subprocess
import sys

import click
import pytest

from holdfast.cli.main import COMMANDS, SECTIONS, root
from holdfast.errors import HoldfastError


def commands(group: click.Group = root, *path: str):
    """Yield every command with its path of names."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


def test_help_lists_every_command_with_its_summary(holdfast):
    ran = holdfast("--help")
    assert ran.code == 0
    for name, (_, summary) in COMMANDS.items():
        assert name in ran.out
        assert summary.split()[0] in ran.out


def test_every_command_is_in_one_section_of_the_help():
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)


def test_help_of_every_command_has_a_valid_example():
    for path, command in commands():
        example = re.split("Examples?:", command.help or "")[-1]
        name = f"holdfast {' '.join(path)}"
        assert name in example, f"the help of '{name}' has no example"
        options = {option for param in command.params for option in param.opts}
        for line in example.splitlines():
            if not isinstance(command, click.Group) and name in line:
                assert {word for word in line.split() if word.startswith("--")} <= options, line


def test_help_needs_neither_spark_nor_java():
    code = "\n".join(
        [
            "import sys",
            "from holdfast.cli.main import root",
            "root.main(['--help'], standalone_mode=False)",
            "sys.exit('pyspark' in sys.modules)",
        ]
    )
    assert subprocess.run([sys.executable, "-c", code], env={"PATH": ""}, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    "words", [["nonsense"], ["replay"], ["replay", "app.py"], ["check", "--rows", "many", "app.py"], ["doctor", "--x"]]
)
def test_invalid_arguments_end_with_code_2(holdfast, words):
    ran = holdfast(*words)
    assert ran.code == 2
    assert ran.out == ""
    assert "Error" in ran.err


@pytest.mark.parametrize("command", [["check"], ["replay", "--trace", "t"], ["profile", "--trace", "t", "--out", "never.yaml"]])
def test_missing_application_ends_with_code_2_before_spark_starts(holdfast, no_java, command):
    ran = holdfast(*command, "gone.py")
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("holdfast: application file 'gone.py' does not exist; give the path of a Python file")


def test_error_is_printed_without_traceback_with_code_2(holdfast, monkeypatch):
    def fail() -> None:
        raise HoldfastError("the moon is no host; name one of: earth")

    monkeypatch.setattr("holdfast.cli.doctor.examine", fail)
    ran = holdfast("doctor")
    assert (ran.code, ran.out, ran.err) == (2, "", "holdfast: the moon is no host; name one of: earth\n")


def test_interrupt_ends_with_code_130(holdfast, monkeypatch):
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.cli.doctor.examine", interrupt)
    assert holdfast("doctor").code == 130


@pytest.mark.parametrize("words", [("--help",), ("plan", "--help"), ("doctor",)])
def test_closed_output_ends_with_the_code_of_sigpipe(words):
    """If the reader closes the pipe before the first line, the command ends with the code of SIGPIPE and prints nothing."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "holdfast.cli.main", *words]
    ran = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write_end)
    assert (ran.returncode, ran.stderr) == (141, "")
