"""holdfast inject: unknown names are errors, because a run without tests must not pass."""

import pytest
from click.testing import CliRunner

from holdfast.errors import HoldfastError
from holdfast_papers.system_s.injection.command import inject


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--state", "runing"], "--state: there is no state 'runing'; states are: canceling, dispatching, "),
        (["--transition", "stop"], "--transition: there is no transition 'stop'; transitions are: activate, cancel, "),
        (["--fault", "crash"], "--fault: there is no fault 'crash'; faults are: crash-controller, "),
        (["--state", "submitted", "--transition", "started"], "there is no test to run: no transition matches all options"),
        (["--state", "completed"], "--state: there is no state 'completed'; states are: canceling, "),
    ],
)
def test_unknown_names_are_errors(arguments, text):
    for further in ([], ["--list"]):
        done = CliRunner().invoke(inject, [*arguments, *further])
        assert isinstance(done.exception, HoldfastError), done.output
        assert text in str(done.exception)


def test_tests_of_one_transition_are_listed():
    done = CliRunner().invoke(inject, ["--machine", "finite", "--state", "running", "--transition", "finished", "--list"])
    assert done.exit_code == 0
    assert done.output.count("transition: finished") == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tests: []", "there is no test in it; 'holdfast inject --list' lists some"),
        ("tests: [{state: running, transition: cancel, fault: cut-node, node: n9}]", "tests: there is no node 'n9'; nodes are: "),
    ],
)
def test_document_with_an_unknown_node_is_refused(tmp_path, text, message):
    path = tmp_path / "tests.yaml"
    path.write_text(text)
    done = CliRunner().invoke(inject, [str(path)])
    assert isinstance(done.exception, HoldfastError), done.output
    assert message in str(done.exception)
