"""The replica loop: it survives a log that is full or unreachable for a while, and reports every failure."""

import errno
import os
import threading
import time
from collections.abc import Callable

import pytest
from obstore.store import MemoryStore

from holdfast.documents.job import Contract, Task
from holdfast.errors import ExternalError, LogError
from holdfast.log import Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.position import Position
from holdfast.log.timeline import Timeline
from holdfast.protocol.messages import AssignedReplica
from holdfast.runtime import replica_loop as loops
from holdfast.runtime.replica import Replica, ReplicaContext
from holdfast.runtime.replica_loop import ReplicaLoop

LIMIT_S = 20.0


class FiveEpochs(Replica):
    """A replica with five epochs. From the third epoch on its log is full until `room` is set."""

    def __init__(self) -> None:
        task, timeline = Task(pe="x"), Timeline(first=1, last=5, epoch_s=1.0, opened_s=time.time())
        super().__init__(ReplicaContext(task, Contract(), timeline, Checkpoints(Store(MemoryStore()))), clock=time.time)
        self.timeline, self.activations = timeline, 0
        self.room, self.full = threading.Event(), threading.Event()

    def on_activation(self) -> None:
        self.activations += 1

    def step(self) -> bool:
        if self.clean_position.epoch == 2 and not self.room.is_set():
            self.full.set()
            raise LogError("the log at 'x' cannot be written: No space left on device; free space or check permissions")
        self.clean_position = self.live_position = Position(self.clean_position.epoch + 1)
        return True


ASSIGNED = AssignedReplica(job=1, pe="x", task=0, replica=0, incarnation=1, rank=0, active=True)


def start(replica: FiveEpochs, *, before: Callable[[], None] = lambda: None, assigned: AssignedReplica = ASSIGNED) -> ReplicaLoop:
    def create(assigned, is_stopping):
        before()
        return replica, replica.timeline

    return ReplicaLoop(assigned, create, cancel=lambda: None)


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + LIMIT_S
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return condition()


def reaches(loop: ReplicaLoop, state: str) -> bool:
    return wait_for(lambda: loop.status().state == state)


def test_replica_waits_for_a_full_log_and_reports_it(monkeypatch):
    monkeypatch.setattr(loops, "LOG_RETRY_S", 0.02)
    replica = FiveEpochs()
    loop = start(replica)
    assert replica.full.wait(LIMIT_S)
    assert wait_for(lambda: loop.status().error is not None)
    status = loop.status()
    assert (status.state, status.live) == ("running", 2)
    assert status.error.startswith("waits for the log: the log at 'x' cannot be written: No space left")
    replica.room.set()
    assert reaches(loop, "finished")
    assert loop.status().error is None


UNREACHABLE = LogError("the log at 'x' cannot be read: connection refused")
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("error", "message"), [(UNREACHABLE, "waits for the log: the log at 'x'"), (FULL, "waits for room: [Errno 28]")]
)
def test_replica_waits_at_its_start_for_the_log_or_the_disk(monkeypatch, error, message):
    monkeypatch.setattr(loops, "LOG_RETRY_S", 0.02)
    back = threading.Event()

    def before():
        if not back.is_set():
            raise error

    replica = FiveEpochs()
    replica.room.set()
    loop = start(replica, before=before)
    assert wait_for(lambda: loop.status().error is not None)
    assert loop.status().state == "starting"
    assert loop.status().error.startswith(message)
    back.set()
    assert reaches(loop, "finished")


def test_other_system_error_fails_the_replica():
    def before():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    loop = start(FiveEpochs(), before=before)
    assert reaches(loop, "failed")
    assert loop.status().error == "PermissionError: [Errno 13] Permission denied"


def test_system_exit_in_user_code_fails_the_replica():
    def before():
        raise SystemExit(3)

    loop = start(FiveEpochs(), before=before)
    assert reaches(loop, "failed")
    assert loop.status().error == "SystemExit: 3"


def test_only_the_first_line_of_an_error_is_reported():
    def before():
        raise RuntimeError("the broker is down\n\tat a.b.C.run(C.scala:7)\n\tat a.b.D.run(D.scala:8)")

    loop = start(FiveEpochs(), before=before)
    assert reaches(loop, "failed")
    assert loop.status().error == "RuntimeError: the broker is down"


@pytest.mark.parametrize("order", ["activate", "kill", "stop"])
def test_idle_replica_does_nothing_until_it_gets_an_order(monkeypatch, order):
    monkeypatch.setattr(loops, "IDLE_S", 600.0)
    replica = FiveEpochs()
    replica.room.set()
    loop = start(replica, assigned=ASSIGNED.model_copy(update={"active": False}))
    assert reaches(loop, "idle")
    assert replica.clean_position.epoch == 0
    if order == "activate":
        loop.assign(ASSIGNED)
        assert reaches(loop, "finished")
        assert replica.activations == 1
    elif order == "kill":
        loop.kill()
        assert reaches(loop, "failed")
    else:
        loop.stop(wait_s=LIMIT_S)
        assert loop._thread.join(0.0)


def test_kill_ends_a_replica_whose_step_catches_it():
    class Swallowing(FiveEpochs):
        begun, released = threading.Event(), threading.Event()

        def step(self):
            self.begun.set()
            try:
                while not self.released.wait(0.01):
                    pass
            except BaseException:
                self.released.wait(LIMIT_S)
            return False

    replica = Swallowing()
    loop = start(replica)
    assert replica.begun.wait(LIMIT_S)
    loop.kill()
    replica.released.set()
    assert reaches(loop, "failed")
    assert loop.status().error == "killed by a fault"


def test_log_that_stays_full_fails_the_replica(monkeypatch):
    monkeypatch.setattr(loops, "LOG_RETRY_S", 0.02)
    monkeypatch.setattr(loops, "LOG_WAIT_LIMIT_S", 0.1)
    loop = start(FiveEpochs())
    assert reaches(loop, "failed")
    assert "No space left on device" in (loop.status().error or "")


def test_unreachable_system_outside_never_fails_the_replica(monkeypatch):
    monkeypatch.setattr(loops, "LOG_RETRY_S", 0.01)
    monkeypatch.setattr(loops, "LOG_WAIT_LIMIT_S", 0.0)

    class Reading(FiveEpochs):
        attempts = 0

        def step(self):
            self.attempts += 1
            if self.attempts < 10:
                raise ExternalError("no broker")
            self.clean_position = self.live_position = Position(5)
            return True

    assert reaches(start(Reading()), "finished")


class AtWork(FiveEpochs):
    """A replica whose step runs a Spark job until it is canceled."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.canceled = threading.Event(), threading.Event()

    def step(self) -> bool:
        self.begun.set()
        assert self.canceled.wait(LIMIT_S)
        raise RuntimeError("Job 7 cancelled part of cancelled job group")


def test_switching_off_cancels_the_running_job():
    replica, switches = AtWork(), []
    loop = ReplicaLoop(ASSIGNED, lambda *_: (replica, replica.timeline), cancel=replica.canceled.set, on_switch=switches.append)
    assert replica.begun.wait(LIMIT_S)
    loop.assign(ASSIGNED.model_copy(update={"active": False}))
    assert reaches(loop, "idle")
    assert (loop.status().error, switches) == (None, [False])
    loop.stop()


def test_job_that_starts_while_the_replica_is_switched_off_is_canceled():
    replica = AtWork()
    cancels = []

    def cancel():
        cancels.append(1)
        if len(cancels) > 1:  # at the first call, Spark does not know the job yet
            replica.canceled.set()

    loop = ReplicaLoop(ASSIGNED, lambda *_: (replica, replica.timeline), cancel=cancel)
    assert replica.begun.wait(LIMIT_S)
    loop.assign(ASSIGNED.model_copy(update={"active": False}))
    loop.cancel_if_switched_off()
    assert reaches(loop, "idle")
    loop.stop()


def test_replica_switched_off_and_on_again_starts_anew():
    replica, later, created = AtWork(), FiveEpochs(), []
    later.room.set()

    def create(*_):
        created.append(1)
        one = replica if len(created) == 1 else later
        return one, one.timeline

    canceling, orders = threading.Event(), []
    loop = ReplicaLoop(ASSIGNED, create, cancel=lambda: orders.append(canceling.set()))
    assert replica.begun.wait(LIMIT_S)
    loop.assign(ASSIGNED.model_copy(update={"active": False}))
    loop.assign(ASSIGNED)
    assert canceling.is_set()
    replica.canceled.set()
    assert reaches(loop, "finished")
    assert later.live_position.epoch == 5


def test_switched_on_replica_reports_when_it_works():
    replica, switches = FiveEpochs(), []
    replica.room.set()
    idle = ASSIGNED.model_copy(update={"active": False})
    loop = ReplicaLoop(idle, lambda *_: (replica, replica.timeline), cancel=lambda: None, on_switch=switches.append)
    assert reaches(loop, "idle")
    loop.assign(ASSIGNED)
    assert reaches(loop, "finished")
    assert switches == [True]
