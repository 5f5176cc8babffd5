"""Light replicas over time."""

import threading

from holdfast.node.light_host import STARTS, LightHost, LightPes
from holdfast.protocol.messages import AssignedReplica, Assignment
from holdfast.protocol.node_files import STATUS, write_assignment, write_status

A = AssignedReplica(job=1, pe="a", task=0, replica=0)
IDLE = A.model_copy(update={"active": False})


def pes() -> tuple[LightPes, list[tuple[str, int]]]:
    starts: list[tuple[str, int]] = []
    return LightPes(lambda assigned: starts.append((assigned.key, assigned.incarnation))), starts


def asked(*replicas: AssignedReplica, lives_s: float | None = None) -> Assignment:
    return Assignment(term=1, generation=1, replicas=replicas, jobs={1: {"pes": {"a": {"lives_s": lives_s}}}})


def states(light: LightPes, now_s: float) -> list[str]:
    light.advance(now_s)
    return [status.state for status in light.statuses(now_s)]


def test_replica_starts_runs_counts_and_finishes():
    light, _ = pes()
    light.apply(asked(A, lives_s=3), 0.0)
    assert states(light, 0.0) == ["starting"]
    assert states(light, 0.1) == ["running"]
    assert light.statuses(2.2)[0].live == 2
    assert states(light, 4.0) == ["finished"]


def test_replica_starts_once_and_after_it_was_reported():
    light, starts = pes()
    light.apply(asked(A), 0.0)
    assert starts == []
    light.start_new_replicas()
    light.apply(asked(A), 1.0)
    light.start_new_replicas()
    assert starts == [(A.key, 1)]
    light.apply(asked(A.model_copy(update={"incarnation": 2})), 2.0)
    light.start_new_replicas()
    assert starts == [(A.key, 1), (A.key, 2)]


def test_lower_incarnation_leaves_the_replica_alone():
    light, _ = pes()
    light.apply(asked(A.model_copy(update={"incarnation": 3})), 0.0)
    light.apply(asked(A), 1.0)
    assert [status.incarnation for status in light.statuses(1.0)] == [3]


def test_idle_replica_does_not_count():
    light, _ = pes()
    light.apply(asked(IDLE), 0.0)
    assert states(light, 5.0) == ["idle"]
    assert light.statuses(5.0)[0].live == 0
    light.apply(asked(A), 5.0)
    assert states(light, 7.5) == ["running"]
    assert light.statuses(7.5)[0].live == 2


def test_replica_fails_on_request_with_its_error():
    light, _ = pes()
    light.apply(asked(A), 0.0)
    light.fail((A.key, "9:none/0.0"), "broken", 1.0)
    assert states(light, 9.0) == ["failed"]
    assert light.statuses(9.0)[0].error == "broken"
    light.apply(asked(A), 9.0)
    assert states(light, 10.0) == ["failed"]


def test_time_of_the_next_change_is_known():
    light, _ = pes()
    assert light.due_s() is None
    light.apply(asked(A, lives_s=3), 10.0)
    first = light.due_s()
    assert first is not None
    light.advance(first)
    assert light.due_s() == first + 3


def test_host_survives_a_full_disk_and_reports_afterwards(tmp_path, monkeypatch):
    host, refused = LightHost(tmp_path), []
    write_assignment(tmp_path, Assignment(term=1, generation=1, replicas=(A,)))

    def full(work, status):
        if len(refused) < 3:
            refused.append(status)
            raise OSError(28, "No space left on device")
        write_status(work, status)
        if status.replicas and status.replicas[0].state == "running":
            host.stop.set()

    monkeypatch.setattr("holdfast.node.light_host.write_status", full)
    ending = threading.Timer(20, host.stop.set)
    ending.start()
    host.run()
    ending.cancel()
    assert len(refused) == 3
    assert "running" in (tmp_path / STATUS).read_text()
    assert len((tmp_path / STARTS).read_text().splitlines()) == 1
