"""holdfast submit: all errors of a job are shown at once, with line numbers."""

import json

import httpx
import pytest
from click.testing import CliRunner

from holdfast.cli.submit import submit as command
from holdfast.errors import DocumentError
from holdfast.protocol.client import Client

ANSWER = {"id": 3, "name": "b", "state": "submitted"}


@pytest.fixture
def submit(tmp_path, monkeypatch):
    """Run the command on a text, against an orchestrator with scripted answers. Returns the output and what was sent."""

    def run(text, *options, status=201, answer=ANSWER, state=ANSWER):
        document = tmp_path / "job.yaml"
        document.write_text(text)
        sent = []

        def respond(request):
            if request.method == "POST":
                sent.append(json.loads(request.content))
                return httpx.Response(status, json=answer)
            return httpx.Response(200, json={"events": [], "last": 0, "newest": 0, **state})

        client = Client("http://orchestrator", "secret")
        client._http = httpx.Client(transport=httpx.MockTransport(respond))
        monkeypatch.setattr("holdfast.protocol.client.find_client", lambda *where, **how: client)
        return CliRunner().invoke(command, [str(document), *options]), sent

    return run


def test_orchestrators_errors_are_shown_with_line_numbers(submit):
    errors = [
        {"place": ["type"], "text": "there is no type 'forever'"},
        {"place": ["pes", "x", "lives_s"], "text": 'wanted a number, got "NaN"'},
        {"place": ["log"], "text": "is missing"},
    ]
    text = "job: a b\ntype: forever\npes:\n  x: {lives_s: .nan}\n"
    done, sent = submit(text, status=422, answer={"error": "job has 3 errors", "errors": errors})
    assert sent == [{"job": "a b", "type": "forever", "pes": {"x": {"lives_s": "NaN"}}}]
    assert isinstance(done.exception, DocumentError)
    assert done.exception.thing.endswith("job.yaml")
    assert done.exception.errors == (
        "type (line 2): there is no type 'forever'",
        'pes.x.lives_s (line 4): wanted a number, got "NaN"',
        "log (line 1): is missing",
    )


def test_name_option_replaces_the_documents_name(submit):
    done, sent = submit("job: a\npes: {x: {}}\n", "--name", "b")
    assert (done.exit_code, done.stdout) == (0, "3\n")
    assert sent == [{"job": "b", "pes": {"x": {}}}]
    assert "job 3 (b) is submitted" in done.stderr


@pytest.mark.parametrize(("state", "code"), [("completed", 0), ("canceled", 0), ("failed", 1)])
def test_watched_job_that_fails_gives_exit_code_1(submit, state, code):
    done, _ = submit("job: a\npes: {x: {}}\n", "--watch", state={**ANSWER, "state": state, "ended": True})
    assert (done.exit_code, done.stdout) == (code, "3\n")


def test_wait_and_watch_exclude_each_other(submit):
    done, sent = submit("job: a\npes: {x: {}}\n", "--watch", "--wait", "5")
    assert (str(done.exception).partition(";")[0], sent) == ("--watch continues until the job has ended", [])


def test_invalid_yaml_is_refused_before_any_call(submit):
    done, sent = submit("job: [a\n")
    assert isinstance(done.exception, DocumentError)
    assert ("not YAML" in str(done.exception), sent) == (True, [])
