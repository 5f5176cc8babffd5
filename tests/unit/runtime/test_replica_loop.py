"""A replica's loop: it outlasts a log that is full or away, and fails where that does not end."""

import errno
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from holdfast.errors import LogError
from holdfast.log import Quality
from holdfast.log.position import Position
from holdfast.log.timeline import Timeline
from holdfast.protocol.messages import AssignedReplica
from holdfast.runtime import replica_loop as loops
from holdfast.runtime.replica_loop import ReplicaLoop

LIMIT_S = 20.0


@dataclass
class FiveEpochs:
    """A worker of five epochs whose log is full until it is told otherwise, from the third on."""

    room: threading.Event = field(default_factory=threading.Event)
    full: threading.Event = field(default_factory=threading.Event)
    clean: Position = field(default_factory=lambda: Position(0))
    rows_read: int = 0
    quality: Quality = Quality.EXACT

    @property
    def live(self) -> Position:
        return self.clean

    @property
    def finished(self) -> bool:
        return self.clean.epoch == 5

    def step(self) -> bool:
        if self.clean.epoch == 2 and not self.room.is_set():
            self.full.set()
            raise LogError("the log at 'x' cannot be written: No space left on device; free space or check permissions")
        self.clean = Position(self.clean.epoch + 1)
        return True

    def close(self) -> None:
        pass


ASSIGNED = AssignedReplica(job=1, pe="x", task=0, replica=0, incarnation=1, rank=0, active=True)


def started(
    worker: FiveEpochs,
    *,
    before: Callable[[], None] = lambda: None,
    assigned: AssignedReplica = ASSIGNED,
    woken: Callable[[FiveEpochs], None] = lambda worker: None,
) -> ReplicaLoop:
    line = Timeline(first=1, last=5, epoch_s=1.0, opened_s=time.time())

    def make(assigned, stopped):
        before()
        return worker, line

    return ReplicaLoop(assigned, make, ranked=lambda worker, rank: None, woken=woken, cancel=lambda: None)


def ended(loop: ReplicaLoop, state: str) -> bool:
    until = time.monotonic() + LIMIT_S
    while loop.status().state != state and time.monotonic() < until:
        time.sleep(0.01)
    return loop.status().state == state


def test_a_full_log_is_waited_for_and_told(monkeypatch):
    monkeypatch.setattr(loops, "LOG_LOOK_S", 0.02)
    worker = FiveEpochs()
    loop = started(worker)
    assert worker.full.wait(LIMIT_S)
    until = time.monotonic() + LIMIT_S
    while (said := loop.status()).error is None and time.monotonic() < until:
        time.sleep(0.01)
    assert (said.state, said.live) == ("running", 2)
    assert said.error.startswith("waits for the log: the log at 'x' cannot be written: No space left")
    worker.room.set()
    assert ended(loop, "finished")
    assert loop.status().error is None


AWAY = LogError("the log at 'x' cannot be read: connection refused")
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("error", "said"), [(AWAY, "waits for the log: the log at 'x'"), (FULL, "waits for room: [Errno 28]")])
def test_a_replica_that_starts_while_the_log_is_away_or_its_disk_is_full_waits_too(monkeypatch, error, said):
    monkeypatch.setattr(loops, "LOG_LOOK_S", 0.02)
    back = threading.Event()

    def before():
        if not back.is_set():
            raise error

    worker = FiveEpochs()
    worker.room.set()
    loop = started(worker, before=before)
    until = time.monotonic() + LIMIT_S
    while not (told := loop.status().error) and time.monotonic() < until:
        time.sleep(0.01)
    assert (loop.status().state, str(told)[: len(said)]) == ("starting", said)
    back.set()
    assert ended(loop, "finished")


def test_another_error_of_the_system_fails_the_replica():
    def before():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    loop = started(FiveEpochs(), before=before)
    assert ended(loop, "failed")
    assert loop.status().error == "PermissionError: [Errno 13] Permission denied"


def test_a_user_s_function_that_ends_its_program_fails_the_replica_and_is_told():
    def before():
        raise SystemExit(3)

    loop = started(FiveEpochs(), before=before)
    assert ended(loop, "failed")
    assert loop.status().error == "SystemExit: 3"


def test_of_an_error_with_a_stack_under_it_the_first_line_is_told():
    def before():
        raise RuntimeError("the broker is gone\n\tat a.b.C.run(C.scala:7)\n\tat a.b.D.run(D.scala:8)")

    loop = started(FiveEpochs(), before=before)
    assert ended(loop, "failed")
    assert loop.status().error == "RuntimeError: the broker is gone"


@pytest.mark.parametrize("how", ["wake", "kill", "stop"])
def test_an_idle_replica_does_nothing_until_it_is_told_to(monkeypatch, how):
    monkeypatch.setattr(loops, "IDLE_S", 600.0)
    worker, woken = FiveEpochs(), []
    worker.room.set()
    loop = started(worker, assigned=ASSIGNED.model_copy(update={"active": False}), woken=woken.append)
    assert ended(loop, "idle")
    assert worker.clean.epoch == 0
    if how == "wake":
        loop.assign(ASSIGNED)
        assert ended(loop, "finished")
        assert woken == [worker]
    elif how == "kill":
        loop.kill()
        assert ended(loop, "failed")
    else:
        loop.stop(wait_s=LIMIT_S)
        assert not loop._thread.is_alive()


def test_a_kill_that_the_step_swallows_ends_the_replica_all_the_same():
    class Swallowing(FiveEpochs):
        begun, over = threading.Event(), threading.Event()

        def step(self):
            self.begun.set()
            try:
                while not self.over.wait(0.01):
                    pass
            except BaseException:
                self.over.wait(LIMIT_S)
            return False

    worker = Swallowing()
    loop = started(worker)
    assert worker.begun.wait(LIMIT_S)
    loop.kill()
    worker.over.set()
    assert ended(loop, "failed")
    assert loop.status().error == "killed by a fault"


def test_a_log_that_stays_full_fails_the_replica(monkeypatch):
    monkeypatch.setattr(loops, "LOG_LOOK_S", 0.02)
    monkeypatch.setattr(loops, "LOG_AWAY_S", 0.1)
    loop = started(FiveEpochs())
    assert ended(loop, "failed")
    assert "No space left on device" in (loop.status().error or "")
