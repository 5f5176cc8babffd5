"""The start of an orchestrator: its imports, socket, certificate, tokens and address file."""

import errno
import json
import os
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from holdfast.cli.serve import serve
from holdfast.control import server
from holdfast.control.api.listening import Listening, bind, write_whole
from holdfast.errors import HoldfastError

NOT_NEEDED = {"pyspark", "scipy", "numba", "matplotlib", "numpy", "pandas", "rustworkx", "psutil", "httpx", "rich", "ruamel"}
LOADED = """
import json, sys
from holdfast.cli import main
from holdfast.cli import serve
from holdfast.control import server
from holdfast.control.plugins import plugin_class, plugin_names
import uvicorn.protocols.http.h11_impl, uvicorn.lifespan.off, sqlalchemy.dialects.sqlite
for name in plugin_names({}):
    plugin_class(name, {})
print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules} | {n for n in sys.modules if n.startswith('holdfast')})))
"""


def test_start_imports_only_what_is_needed():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=120, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & NOT_NEEDED
    assert not {
        name for name in loaded if name.startswith(("holdfast.runtime", "holdfast.planning", "holdfast.engine", "holdfast.ui.l"))
    }
    assert {"holdfast.control.orchestrator", "holdfast.ui.plugin", "sqlalchemy"} <= loaded


def test_package_exports_are_loaded_on_demand():
    asked = "import holdfast; from holdfast import App, console, last_rows; print(holdfast.App is App, sorted(holdfast.__all__))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "True ['App', 'console', 'last_epochs', 'last_rows', 'state_table']"
    missing = subprocess.run(
        [sys.executable, "-c", "import holdfast; holdfast.Ap"], capture_output=True, text=True, timeout=120, check=False
    )
    assert "module 'holdfast' has no attribute 'Ap'" in missing.stderr


def test_caller_connects_before_the_orchestrator_is_loaded(tmp_path):
    bound = bind(tmp_path, Listening())
    try:
        with socket.create_connection(bound.getsockname()[:2], timeout=10) as caller:
            caller.sendall(b"GET /v1/health HTTP/1.1\r\n\r\n")
            accepted, _ = bound.accept()
            with accepted:
                assert accepted.recv(100).startswith(b"GET /v1/health")
    finally:
        bound.close()


LIMITED = """
import resource
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, most), most))
from holdfast.control.api.listening import allow_connections
allow_connections()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] == most)
"""


def test_limit_of_open_files_is_raised():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "True\n"


def test_full_disk_matters_only_if_the_address_changes(tmp_path, monkeypatch):
    def full(path, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    server.write_address(tmp_path, "http://127.0.0.1:8470")
    monkeypatch.setattr(server, "write_whole", full)
    server.write_address(tmp_path, "http://127.0.0.1:8470")
    with pytest.raises(HoldfastError, match=r"/address' cannot be written: No space left on device; make room, or give another"):
        server.write_address(tmp_path, "http://127.0.0.1:8471")


@pytest.mark.parametrize("left", [b"", b"\0\0\0\0", b"\xff\xfe"])
def test_invalid_token_is_reported_and_invalid_address_replaced(tmp_path, left):
    for name in ("user.token", "address"):
        (tmp_path / name).write_bytes(left)
    with pytest.raises(HoldfastError, match=r"user.token' has no token, which is one line of ASCII; remove the file"):
        server.prepare_work(tmp_path)
    server.write_address(tmp_path, "http://127.0.0.1:8470")
    assert (tmp_path / "address").read_text() == "http://127.0.0.1:8470\n"


def test_failed_write_leaves_no_temporary_file(tmp_path):
    (tmp_path / "token").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "token", "secret")
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_invalid_certificate_is_reported_before_anything_is_created(tmp_path):
    for name in ("key.pem", "certificate.pem"):
        (tmp_path / name).write_text("no certificate")
    given = ["--certificate", str(tmp_path / "certificate.pem"), "--key", str(tmp_path / "key.pem")]
    done = CliRunner().invoke(serve, ["--work", str(tmp_path / "work"), "--port", "0", *given])
    assert isinstance(done.exception, HoldfastError)
    assert f"certificate '{given[1]}' and key '{given[3]}' cannot be used" in str(done.exception)
    assert "give PEM files that belong together, the key without a password" in str(done.exception)
    assert not (tmp_path / "work").exists()


def test_port_of_a_dying_orchestrator_is_awaited(tmp_path, monkeypatch):
    taken = bind(tmp_path, Listening())
    port = taken.getsockname()[1]
    monkeypatch.setattr("holdfast.control.api.listening.time.sleep", lambda s: taken.close())
    with bind(tmp_path, Listening(port=port)) as bound:
        assert bound.getsockname()[1] == port


def test_unusable_address_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.control.api.listening.FREED_S", 0.0)
    with bind(tmp_path, Listening()) as taken, pytest.raises(HoldfastError, match="another process has it: stop that one"):
        bind(tmp_path, Listening(port=taken.getsockname()[1]))
    with pytest.raises(HoldfastError, match="give another --listen: an address of this machine"):
        bind(tmp_path, Listening(host="192.0.2.1"))

    def forbidden(self, address):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", forbidden)
    with pytest.raises(HoldfastError, match=r"cannot listen at 127.0.0.1:80: Permission denied; give another --port: those below"):
        bind(tmp_path, Listening(port=80))
