"""holdfast inject: what is asked for is there, or it is told; no test at all is not a test passed."""

import pytest
from click.testing import CliRunner

from holdfast.cli.inject import inject
from holdfast.errors import HoldfastError


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--state", "runing"], "--state: there is no state 'runing'; states are: canceling, dispatching, "),
        (["--transition", "stop"], "--transition: there is no transition 'stop'; transitions are: activate, cancel, "),
        (["--fault", "crash"], "--fault: there is no fault 'crash'; faults are: crash-controller, "),
        (["--state", "submitted", "--transition", "started"], "there is no test to run: no transition has all that was asked for"),
        (["--state", "completed"], "--state: there is no state 'completed'; states are: canceling, "),
    ],
)
def test_tests_that_do_not_exist_are_told_and_do_not_pass(arguments, text):
    for further in ([], ["--list"]):
        done = CliRunner().invoke(inject, [*arguments, *further])
        assert isinstance(done.exception, HoldfastError), done.output
        assert text in str(done.exception)


def test_the_tests_of_one_transition_are_listed():
    done = CliRunner().invoke(inject, ["--machine", "finite", "--state", "running", "--transition", "finished", "--list"])
    assert done.exit_code == 0
    assert done.output.count("transition: finished") == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tests: []", "there is no test in it; 'holdfast inject --list' lists some"),
        ("tests: [{state: running, transition: cancel, fault: cut-node, node: n9}]", "tests: there is no node 'n9'; nodes are: "),
    ],
)
def test_tests_of_a_document_that_can_strike_nobody_are_told(tmp_path, text, said):
    path = tmp_path / "tests.yaml"
    path.write_text(text)
    done = CliRunner().invoke(inject, [str(path)])
    assert isinstance(done.exception, HoldfastError), done.output
    assert said in str(done.exception)
