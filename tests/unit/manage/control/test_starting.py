"""An orchestrator that starts: what it loads, who waits for it, and what the nodes it comes back to are told."""

import json
import socket
import subprocess
import sys

from holdfast.manage.listening import Listening, bind

NOT_NEEDED = {"pyspark", "scipy", "numba", "matplotlib", "numpy", "pandas", "rustworkx", "psutil", "httpx", "rich", "ruamel"}
LOADED = """
import json, sys
from holdfast.cli import main, serve
from holdfast.manage.revival import preload
preload({})
print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules} | {n for n in sys.modules if n.startswith('holdfast')})))
"""


def test_an_orchestrator_that_starts_loads_nothing_that_it_does_not_need():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=120, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & NOT_NEEDED
    assert not {name for name in loaded if name.startswith(("holdfast.run", "holdfast.plan", "holdfast.execute", "holdfast.ui.l"))}
    assert {"holdfast.manage.orchestrator", "holdfast.ui.plugin", "sqlalchemy"} <= loaded


def test_what_applications_are_written_with_is_there_when_asked_for():
    asked = "import holdfast; from holdfast import App, console, last_rows; print(holdfast.App is App, sorted(holdfast.__all__))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "True ['App', 'console', 'last_epochs', 'last_rows', 'state_table']"
    missing = subprocess.run(
        [sys.executable, "-c", "import holdfast; holdfast.Ap"], capture_output=True, text=True, timeout=120, check=False
    )
    assert "module 'holdfast' has no attribute 'Ap'" in missing.stderr


def test_who_calls_before_the_orchestrator_is_loaded_is_connected_and_need_not_call_again(tmp_path):
    bound = bind(tmp_path, Listening())
    try:
        with socket.create_connection(bound.getsockname()[:2], timeout=10) as caller:
            caller.sendall(b"GET /v1/health HTTP/1.1\r\n\r\n")
            accepted, _ = bound.accept()
            with accepted:
                assert accepted.recv(100).startswith(b"GET /v1/health")
    finally:
        bound.close()
