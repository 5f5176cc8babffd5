"""The start of an orchestrator: its imports, tokens and address file."""

import errno
import json
import os
import shutil
import subprocess
import sys

import pytest

from holdfast.control import server
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
    asked = (
        "import holdfast; from holdfast import App; print(holdfast.App is App, all(hasattr(holdfast, n) for n in holdfast.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "True True"
    missing = subprocess.run(
        [sys.executable, "-c", "import holdfast; holdfast.Ap"], capture_output=True, text=True, timeout=120, check=False
    )
    assert "module 'holdfast' has no attribute 'Ap'" in missing.stderr


def test_full_disk_matters_only_if_the_address_changes(tmp_path, monkeypatch):
    def full(path, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    server.write_address(tmp_path, "http://127.0.0.1:8470")
    monkeypatch.setattr(server, "replace_file", full)
    server.write_address(tmp_path, "http://127.0.0.1:8470")
    with pytest.raises(HoldfastError, match=r"/address' cannot be written: No space left on device; make room, or give another"):
        server.write_address(tmp_path, "http://127.0.0.1:8471")


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b"\xff\xfe"])
def test_invalid_token_is_reported_and_invalid_address_replaced(tmp_path, content):
    for name in ("user.token", "address"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(HoldfastError, match=r"user.token' has no token, which is one line of ASCII; remove the file"):
        server.prepare_work(tmp_path)
    server.write_address(tmp_path, "http://127.0.0.1:8470")
    assert (tmp_path / "address").read_text() == "http://127.0.0.1:8470\n"


def test_copied_work_folder_has_another_name(tmp_path):
    """Only the folder's own orchestrator may replace its last leader at once; a standby is often set up with a copy."""
    (tmp_path / "a").mkdir()
    with server.lock_work(tmp_path / "a") as name:
        pass
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with server.lock_work(tmp_path / "a") as again, server.lock_work(tmp_path / "b") as copied:
        assert name == again != copied
