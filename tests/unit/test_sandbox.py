"""The confinement of the parser: what an application that is being parsed cannot read, reach or leave behind."""

import ast
import os
import socket
from pathlib import Path

import psutil
import pytest

from holdfast.control.jobs.parser import run_parser
from holdfast.documents.job import Job
from holdfast.errors import HoldfastError
from holdfast.sandbox import is_available, readable_trees

pytestmark = pytest.mark.skipif(not is_available(), reason="needs Landlock: Linux 5.13 or later, on x86_64 or aarch64")

APPLICATION = """
import os, signal, socket, subprocess, sys
from pathlib import Path

def attempt(call):
    try:
        return repr(call())[:60]
    except BaseException as error:
        return f"refused by {type(error).__name__}"

raise ValueError([CALLS])
"""

REFUSED = (
    "Path('WORK/node.token').read_text()",
    "Path('FOLDER/link/node.token').read_text()",
    "Path('WORK/../work/node.token').read_text()",
    "Path('/proc/self/root/WORK/node.token').read_text()",
    "Path('/proc/PARENT/environ').read_bytes()",
    "os.readlink('/proc/PARENT/cwd')",
    "Path('WORK/planted').write_text('x')",
    "Path('FOLDER/planted').write_text('x')",
    "os.link('WORK/node.token', 'token')",
    "os.kill(PARENT, signal.SIGCONT)",
    "socket.create_connection(('127.0.0.1', PORT))",
    "socket.socket(socket.AF_UNIX).connect('FOLDER/s')",
    "subprocess.Popen(['sleep', '9'], start_new_session=True)",
    "subprocess.Popen(['sleep', '9'], process_group=0)",
    "subprocess.run(['cat', 'WORK/node.token'], check=True, capture_output=True)",
    "bytearray(16 * 2**30)",
)
ALLOWED = {
    "Path('FOLDER/beside.txt').read_text()": "'readable'",
    "Path('note').write_text('x')": "1",
    "sorted(os.environ.keys() & {'HOLDFAST_TOKEN', 'HOME'})": "['HOME']",
    "subprocess.run(['/bin/echo', 'ran'], check=True, capture_output=True).stdout": r"b'ran\n'",
}
SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"


async def outcomes(folder, calls, **values):
    """Return what each call returns in an application that is being parsed."""
    text = ", ".join(f"attempt(lambda: {call})" for call in calls)
    for name, value in {"WORK": folder / "work", "FOLDER": folder, "PARENT": os.getpid(), **values}.items():
        text = text.replace(name, str(value))
    app = folder / "app.py"
    app.write_text(APPLICATION.replace("CALLS", text))
    with pytest.raises(HoldfastError) as caught:
        await run_parser(Job(job="j", application=str(app), log="log"), hidden=[folder / "work"])
    return ast.literal_eval(str(caught.value).split("ValueError: ", 1)[1])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "node.token").write_text("node-secret")
    (tmp_path / "link").symlink_to(tmp_path / "work")
    (tmp_path / "beside.txt").write_text("readable")
    monkeypatch.setenv("HOLDFAST_TOKEN", "user-secret")
    return tmp_path


async def test_application_cannot_use_what_its_submitter_must_not_have(folder):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(folder / "s"))
        local.listen()
        answers = await outcomes(folder, REFUSED, PORT=server.getsockname()[1])
    assert {call: answer for call, answer in zip(REFUSED, answers, strict=True) if not answer.startswith("refused by ")} == {}
    assert not (folder / "work" / "planted").exists()


async def test_application_can_do_what_parsing_needs(folder):
    assert await outcomes(folder, ALLOWED) == list(ALLOWED.values())


async def test_processes_that_an_application_starts_end_with_its_parser(folder):
    quiet = "stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"
    (pid,) = await outcomes(folder, [f"subprocess.Popen([sys.executable, '-c', {SLEEPER!r}], {quiet}).pid"])
    while psutil.pid_exists(int(pid)) and psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE:
        pass


async def test_confined_parser_computes_a_layout(folder):
    app = Path("examples/bargain_discovery.py").absolute()
    layout = await run_parser(Job(job="j", application=str(app), log="log"), hidden=[folder / "work"])
    assert {task.kind for task in layout.tasks} == {"source", "operators", "sink"}


def test_trees_leave_out_what_is_hidden_and_do_not_follow_links(tmp_path):
    for name in ("a/secret/x", "a/b/y", "c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "a" / "way").symlink_to(tmp_path / "a" / "secret")
    trees = list(readable_trees(tmp_path, hidden={tmp_path / "a" / "secret"}))
    assert trees == [tmp_path / "a" / "b", tmp_path / "c"]
    assert list(readable_trees(tmp_path, hidden=set())) == [tmp_path]
