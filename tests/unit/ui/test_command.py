"""The command `holdfast ui`, as far as it needs no orchestrator; scenarios have the rest."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner

from holdfast.cli.ui import page_address, ui
from holdfast.errors import HoldfastError


def test_the_token_stands_behind_the_hash_where_no_server_sees_it():
    assert page_address("http://head:8470", "a+b") == "http://head:8470/ui/#token=a%2Bb"
    assert page_address("http://head:8470", "t", 3).endswith("/ui/#token=t&job=3")


def test_without_an_orchestrator_or_a_run_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("HOLDFAST_URL", "HOLDFAST_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    run = CliRunner().invoke
    with pytest.raises(HoldfastError, match="no orchestrator has run in 'orchestrator'; start one with 'holdfast serve"):
        run(ui, [], standalone_mode=False, catch_exceptions=False)
    with pytest.raises(HoldfastError, match="holds no run; give the --work folder of 'holdfast run'"):
        run(ui, [str(tmp_path)], standalone_mode=False, catch_exceptions=False)


class Another(BaseHTTPRequestHandler):
    """An orchestrator that serves, and has tokens of its own."""

    def do_GET(self):
        body = json.dumps(
            {} if self.path == "/v1/health" else {"error": "the token is not this orchestrator's user token"}
        ).encode()
        self.send_response(200 if self.path == "/v1/health" else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Keep quiet."""


def test_a_run_that_is_over_is_played_back_though_another_orchestrator_has_its_port_now(past, monkeypatch):
    served = []
    monkeypatch.setattr(
        "holdfast.ui.past_run_server.serve_run", lambda run, token, bound: served.append(run.number) or bound.close()
    )
    with HTTPServer(("127.0.0.1", 0), Another) as other:
        serving = threading.Thread(target=other.serve_forever)
        serving.start()
        try:
            (past / "orchestrator" / "address").write_text(f"http://127.0.0.1:{other.server_port}")
            (past / "orchestrator" / "user.token").write_text("of the run that is over")
            result = CliRunner().invoke(ui, [str(past), "--json"], standalone_mode=False, catch_exceptions=False)
        finally:
            other.shutdown()
            serving.join()
    assert served == [7]
    assert json.loads(result.stdout)["past"] is True
