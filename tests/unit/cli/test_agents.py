"""holdfast agents: the table of agents, and the changes that it sends to the orchestrator."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner

from holdfast.cli.agents import agents
from holdfast.errors import HoldfastError

AGENT = {
    "task": "racks/0",
    "node": "n2",
    "alive": True,
    "error": None,
    "about": {
        "state": "predicting",
        "deadline_s": 1.0,
        "usual_s": 0.25,
        "outputs": 40,
        "misses": 3,
        "predicted": 3,
        "corrected": 2,
        "streams": {"racks": {"accuracy": 0.875, "last_used": {"stride": 4, "last-outcome": 9}}},
    },
}


class Orchestrator(HTTPServer):
    """An orchestrator that records the requested changes."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.has, self.changed = [AGENT], []


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self._answer(200, {"agents": self.server.has})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.changed.append((self.path, self.headers["authorization"], body))
        self._answer(202, AGENT)

    def log_message(self, *_):
        pass

    def _answer(self, status, document):
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def orchestrator():
    with Orchestrator() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def ask(orchestrator, tmp_path):
    """Run the command against the orchestrator."""
    token = tmp_path / "user.token"
    token.write_text("secret")

    def run(*words):
        where = ["--orchestrator", f"http://127.0.0.1:{orchestrator.server_port}", "--token-file", str(token)]
        return CliRunner().invoke(agents, ["3", *where, *words], env={"COLUMNS": "200"})

    return run


def test_each_agent_is_a_row(ask):
    output = ask().output
    assert "racks/0" in output
    assert "predicting" in output
    assert "88%" in output
    assert "last-outcome 9, stride 4" in output


def test_json_output_is_one_document(ask):
    assert json.loads(ask("--json").stdout) == {"agents": [AGENT]}


def test_change_is_sent_to_all_or_to_named_agents(ask, orchestrator):
    changed = ask("--set", 'algorithms={"nearest-neighbours": {"k": 8}}', "--set", "deadline_s=2")
    assert changed.exit_code == 0, changed.output
    orders = {"algorithms": {"nearest-neighbours": {"k": 8}}, "deadline_s": 2}
    assert orchestrator.changed == [("/v1/jobs/3/agents/racks/0", "Bearer secret", {"orders": orders})]


def test_examples_of_the_help_are_accepted():
    output = " ".join(CliRunner().invoke(agents, ["--help"], terminal_width=1000).output.split())
    assert """'algorithms={"nearest-neighbours": {"k": 8}}'""" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "deadline_s"], "--set: wanted NAME=VALUE such as deadline_s=2, got 'deadline_s'"),
        (["--set", "algorithms={'stride': {}}"], "--set algorithms: .* is not JSON .*; write names and texts in double quotes"),
        (["--task", "heat/0"], "job 3 has no prediction agent for task 'heat/0'; its agents watch: racks/0"),
    ],
)
def test_invalid_options_are_reported(ask, words, message):
    failed = ask(*words)
    assert isinstance(failed.exception, HoldfastError)
    with pytest.raises(HoldfastError, match=message):
        raise failed.exception


def test_change_without_agents_is_an_error(ask, orchestrator):
    orchestrator.has = []
    assert "no prediction agents" in ask().output
    failed = ask("--set", "deadline_s=2")
    assert "job 3 has no prediction agents to change" in str(failed.exception)
