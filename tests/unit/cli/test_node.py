"""holdfast node, nodes and drain: errors of options and addresses."""

import pytest
from click.testing import CliRunner

from holdfast.cli.cancel import cancel
from holdfast.cli.drain import drain
from holdfast.cli.node import node
from holdfast.cli.nodes import nodes
from holdfast.cli.serve import serve
from holdfast.cli.submit import submit
from holdfast.errors import HoldfastError
from holdfast_papers.system_s.command import system_s


def refused(command, *arguments: str) -> str:
    done = CliRunner().invoke(command, arguments)
    assert isinstance(done.exception, HoldfastError), done.output
    return str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--name", "a b"], "--name: wanted letters, digits, '_', '.', '-' (at most 100), got 'a b'"),
        (["--memory", "much"], "--memory: wanted a size such as 512m or 4g, got 'much'"),
        (["--label", "rack"], "--label: wanted KEY=VALUE such as rack=r1, got 'rack'"),
        (["--host-kind", "none"], "PE host 'none' is not known; kinds are: light, spark"),
    ],
)
def test_invalid_node_options_are_reported(tmp_path, arguments, text):
    assert refused(node, "--orchestrator", str(tmp_path), "--name", "n1", "--work", str(tmp_path / "n1"), *arguments) == text


def test_url_needs_a_token(tmp_path):
    assert "needs a token: give --token-file with its node.token" in refused(node, "--orchestrator", "http://127.0.0.1:1")


def test_commands_without_an_orchestrator_say_how_to_start_one(tmp_path):
    for command, arguments in ((nodes, []), (drain, ["n1"])):
        assert "start one with 'holdfast serve" in refused(command, *arguments, "--orchestrator", str(tmp_path))


def test_invalid_node_name_does_not_exist(tmp_path):
    for name in ("", "../x", "a b"):
        assert refused(drain, name, "--orchestrator", str(tmp_path)) == f"node '{name}' does not exist; 'holdfast nodes' lists them"


def test_conflicting_options_are_reported(tmp_path):
    assert "leave out --watch" in refused(nodes, "--watch", "--json")
    assert "leave it out with --undo" in refused(drain, "n1", "--undo", "--wait", "3")


def test_unknown_row_of_the_paper_is_reported():
    assert refused(system_s, "--rows", "7") == "--rows: there is no row 7; rows are: 1, 2, 3, 4, 5, 6, 300, 1000, dispatch"


def test_invalid_token_file_is_reported_before_the_node_starts(tmp_path):
    (tmp_path / "empty").touch()
    message = refused(
        node, "--orchestrator", "http://127.0.0.1:1", "--token-file", str(tmp_path / "empty"), "--work", str(tmp_path / "n")
    )
    assert "empty': wanted a token, which is one line of ASCII, got nothing" in message
    assert not (tmp_path / "n").exists()


def test_orchestrator_url_must_be_http(tmp_path):
    (tmp_path / "token").write_text("secret")
    message = refused(node, "--orchestrator", "ftp://127.0.0.1", "--token-file", str(tmp_path / "token"))
    assert "wanted http://HOST:PORT, https://HOST:PORT, several of these separated by commas, or its --work folder" in message


@pytest.mark.parametrize("number", ["nan", "inf"])
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (node, ["--orchestrator", "o", "--cores"]),
        (node, ["--orchestrator", "o", "--hung-after"]),
        (drain, ["n1", "--wait"]),
        (cancel, ["1", "--wait"]),
        (submit, ["job.yaml", "--wait"]),
        (serve, ["--beat"]),
        (serve, ["--lost-after"]),
        (serve, ["--replicas-per-core"]),
    ],
)
def test_nan_and_infinity_are_refused_as_option_values(command, arguments, number):
    done = CliRunner().invoke(command, [*arguments, number])
    assert done.exit_code == 2
    assert f"wanted a finite number, got {number}" in done.output
