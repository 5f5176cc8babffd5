"""The process of a PE host: when it has begun to run replicas, and its pid file."""

import asyncio
import fcntl
from contextlib import ExitStack

import pytest

from holdfast.node.pe_hosts import HostProcess, living_host
from holdfast.protocol.messages import Assignment, HostStatus, ReplicaStatus
from holdfast.protocol.node_files import LOCK, PID, write_status

HAS = (ReplicaStatus(key="1:a/0.0", incarnation=1, state="starting"),)


@pytest.mark.parametrize(
    ("status", "begun"),
    [
        (None, True),
        ({"beat_s": 99.0}, True),
        ({"beat_s": 101.0}, False),
        ({"beat_s": 101.0, "ready": True}, True),
        ({"beat_s": 101.0, "replicas": HAS}, True),
    ],
    ids=["no status", "older status", "not ready", "ready", "has replicas"],
)
def test_host_has_begun_unless_a_newer_status_is_not_ready(tmp_path, status, begun):
    now = [90.0]
    host = HostProcess(tmp_path, ("true",), log=lambda text: None, clock=lambda: now[0])
    with ExitStack() as living:
        lock = living.enter_context((tmp_path / LOCK).open("ab"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        now[0] = 100.0
        host.assign(Assignment(term=1, generation=2))
        if status is not None:
            write_status(tmp_path, HostStatus(pid=1, started_s=0, **status))
        assert host.has_begun() is begun
    assert not host.has_begun(), "a dead one runs nothing"


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0\0\0\0\0", b"\xb2 1\n"])
def test_corrupt_pid_file_does_not_prevent_a_start(tmp_path, content):
    (tmp_path / PID).write_bytes(content)
    host = HostProcess(tmp_path, ("sleep", "600"), log=lambda text: None)
    host.start(Assignment())
    try:
        assert host.alive()
    finally:
        asyncio.run(host.stop(20))
    assert living_host(tmp_path) is None
