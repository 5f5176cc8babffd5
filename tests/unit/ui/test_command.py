"""`holdfast ui` without an orchestrator. The scenario tests cover the rest."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner

from holdfast.cli.ui import page_url, ui
from holdfast.errors import HoldfastError


def test_token_is_in_the_fragment_of_the_address():
    assert page_url("http://head:8470", "a+b") == "http://head:8470/ui/#token=a%2Bb"
    assert page_url("http://head:8470", "t", 3).endswith("/ui/#token=t&job=3")


def test_missing_orchestrator_or_run_is_an_error_with_advice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("HOLDFAST_URL", "HOLDFAST_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    run = CliRunner().invoke
    with pytest.raises(HoldfastError, match="no orchestrator has run in 'orchestrator'; start one with 'holdfast serve"):
        run(ui, [], standalone_mode=False, catch_exceptions=False)
    with pytest.raises(HoldfastError, match="holds no run; give the --work folder of 'holdfast run'"):
        run(ui, [str(tmp_path)], standalone_mode=False, catch_exceptions=False)


class OtherOrchestrator(BaseHTTPRequestHandler):
    """An orchestrator with other tokens."""

    def do_GET(self):
        body = json.dumps(
            {} if self.path == "/v1/health" else {"error": "the token is not this orchestrator's user token"}
        ).encode()
        self.send_response(200 if self.path == "/v1/health" else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Print nothing."""


def test_finished_run_is_played_back_when_another_orchestrator_has_its_port(past, monkeypatch):
    served_jobs = []
    monkeypatch.setattr(
        "holdfast.ui.past_run_server.serve_run", lambda run, token, listener: served_jobs.append(run.number) or listener.close()
    )
    with HTTPServer(("127.0.0.1", 0), OtherOrchestrator) as other:
        server_thread = threading.Thread(target=other.serve_forever)
        server_thread.start()
        try:
            (past / "orchestrator" / "address").write_text(f"http://127.0.0.1:{other.server_port}")
            (past / "orchestrator" / "user.token").write_text("token of the finished run")
            result = CliRunner().invoke(ui, [str(past), "--json"], standalone_mode=False, catch_exceptions=False)
        finally:
            other.shutdown()
            server_thread.join()
    assert served_jobs == [7]
    assert json.loads(result.stdout)["past"] is True
