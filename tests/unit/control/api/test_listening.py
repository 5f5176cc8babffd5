"""The socket of the orchestrator: its port, address and certificate, and the limit of open files."""

import errno
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from holdfast.cli.serve import serve
from holdfast.control.api.listening import Listening, bind
from holdfast.errors import HoldfastError


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
    monkeypatch.setattr("holdfast.control.api.listening.PORT_WAIT_S", 0.0)
    with bind(tmp_path, Listening()) as taken, pytest.raises(HoldfastError, match="another process uses it: stop that process"):
        bind(tmp_path, Listening(port=taken.getsockname()[1]))
    with pytest.raises(HoldfastError, match="give another --listen: an address of this machine"):
        bind(tmp_path, Listening(host="192.0.2.1", insecure=True))

    def forbidden(self, address):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", forbidden)
    with pytest.raises(HoldfastError, match=r"cannot listen at 127.0.0.1:80: Permission denied; give another --port: those below"):
        bind(tmp_path, Listening(port=80))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example"])
def test_address_that_others_can_reach_needs_tls_or_insecure(host):
    with pytest.raises(HoldfastError, match=f"--listen {host}: without TLS, .* give --certificate and --key, or --insecure"):
        Listening(host=host)
    assert Listening(host=host, insecure=True).host == host
