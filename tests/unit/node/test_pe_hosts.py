"""When a PE host may run something that the newest assignment leaves out, and what it is told by."""

import asyncio
import fcntl
from contextlib import ExitStack

import pytest

from holdfast.node.pe_hosts import HostProcess, living_host
from holdfast.protocol.messages import Assignment, HostStatus, ReplicaStatus
from holdfast.protocol.node_files import LOCK, PID, write_status

HAS = (ReplicaStatus(key="1:a/0.0", incarnation=1, state="starting"),)


@pytest.mark.parametrize(
    ("said", "begun"),
    [
        (None, True),
        ({"beat_s": 99.0}, True),
        ({"beat_s": 101.0}, False),
        ({"beat_s": 101.0, "ready": True}, True),
        ({"beat_s": 101.0, "replicas": HAS}, True),
    ],
    ids=["it has said nothing", "it spoke before", "it is not ready", "it is ready", "it has some"],
)
def test_a_living_host_has_begun_unless_it_said_after_the_newest_assignment_that_it_is_not_ready(tmp_path, said, begun):
    now = [90.0]
    host = HostProcess(tmp_path, ("true",), log=lambda text: None, clock=lambda: now[0])
    with ExitStack() as living:
        lock = living.enter_context((tmp_path / LOCK).open("ab"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        now[0] = 100.0
        host.assign(Assignment(term=1, generation=2))
        if said is not None:
            write_status(tmp_path, HostStatus(pid=1, started_s=0, **said))
        assert host.has_begun() is begun
    assert not host.has_begun(), "a dead one runs nothing"


@pytest.mark.parametrize("left", [b"", b"\0\0\0\0\0\0\0\0", b"\xb2 1\n"])
def test_what_a_power_failure_made_of_the_number_of_a_host_keeps_no_other_from_starting(tmp_path, left):
    (tmp_path / PID).write_bytes(left)
    host = HostProcess(tmp_path, ("sleep", "600"), log=lambda text: None)
    host.start(Assignment())
    try:
        assert host.alive()
    finally:
        asyncio.run(host.stop(20))
    assert living_host(tmp_path) is None
