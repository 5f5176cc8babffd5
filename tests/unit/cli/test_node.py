"""The commands of nodes: their mistakes in words."""

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
def test_a_mistake_of_a_node_is_told(tmp_path, arguments, text):
    assert refused(node, "--orchestrator", str(tmp_path), "--name", "n1", "--work", str(tmp_path / "n1"), *arguments) == text


def test_a_url_needs_a_token(tmp_path):
    assert "needs a token: give --token-file with its node.token" in refused(node, "--orchestrator", "http://127.0.0.1:1")


def test_commands_without_an_orchestrator_say_how_to_start_one(tmp_path):
    for command, arguments in ((nodes, []), (drain, ["n1"])):
        assert "start one with 'holdfast serve" in refused(command, *arguments, "--orchestrator", str(tmp_path))


def test_what_can_be_no_node_is_told_as_one_that_is_not_there(tmp_path):
    for name in ("", "../x", "a b"):
        assert refused(drain, name, "--orchestrator", str(tmp_path)) == f"node '{name}' does not exist; 'holdfast nodes' lists them"


def test_options_that_exclude_one_another_are_told(tmp_path):
    assert "leave out --watch" in refused(nodes, "--watch", "--json")
    assert "leave it out with --undo" in refused(drain, "n1", "--undo", "--wait", "3")


def test_a_row_that_the_paper_does_not_have_is_told():
    assert refused(system_s, "--rows", "7") == "--rows: there is no row 7; rows are: 1, 2, 3, 4, 5, 6, 300, 1000, dispatch"


def test_a_token_file_that_holds_no_token_is_told_before_the_node_starts(tmp_path):
    (tmp_path / "empty").touch()
    said = refused(
        node, "--orchestrator", "http://127.0.0.1:1", "--token-file", str(tmp_path / "empty"), "--work", str(tmp_path / "n")
    )
    assert "empty': wanted a token, which is one line of ASCII, got nothing" in said
    assert not (tmp_path / "n").exists()


def test_an_orchestrator_is_called_by_http_and_nothing_else(tmp_path):
    (tmp_path / "token").write_text("secret")
    said = refused(node, "--orchestrator", "ftp://127.0.0.1", "--token-file", str(tmp_path / "token"))
    assert said == "orchestrator 'ftp://127.0.0.1': wanted http://HOST:PORT, https://HOST:PORT or its --work folder"


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
def test_what_is_no_number_is_refused_where_one_is_wanted(command, arguments, number):
    done = CliRunner().invoke(command, [*arguments, number])
    assert done.exit_code == 2
    assert f"wanted a finite number, got {number}" in done.output
