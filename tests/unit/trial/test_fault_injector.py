"""Fault schedules on a fake cluster: which faults are injected, in which order, and how they are undone."""

import errno
import json
import os
import subprocess
import threading
import time
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import ClassVar

import pytest

from holdfast.documents.document import read_document
from holdfast.documents.fault_schedule import Schedule, ScheduledFault
from holdfast.documents.job import Job, Task
from holdfast.errors import CompoundError, HoldfastError
from holdfast.job_layout import layout_of
from holdfast.node.injected_faults import inject_fault
from holdfast.protocol.client import ClientError, OrchestratorUnreachable
from holdfast.protocol.messages import AssignedReplica, FaultOrder, HostStatus
from holdfast.runtime.pe_host import ORDER_VALID_S, PeHost
from holdfast.trial.fault_injector import FaultInjector, resolve_faults

LIMIT_S = 20.0
ROOT = Path(__file__).parents[3]


class Cluster:
    """A fake cluster and history. It records the actions on its processes and the events."""

    def __init__(self, work, *, racks=0):
        self.work, self.racks, self.cores, self.names = work, racks, 1.0, ["n1", "n2", "n3"]
        self.running = {"orchestrator", *self.names}
        self.actions, self.written = [], []

    def append(self, kind, about):
        self.written.append((kind, about))

    def runs(self, name):
        return name in self.running

    def host_runs(self, name):
        return name in self.running

    def kill(self, name):
        self.actions.append(f"kill {name}")
        self.running.remove(name)

    def kill_node(self, name):
        if self.runs(name):
            self.kill(name)

    def kill_host(self, name):
        self.actions.append(f"kill host of {name}")

    def start_orchestrator(self):
        self.start_node("orchestrator")

    def start_node(self, name):
        assert not self.runs(name), f"{name} is started twice"
        self.actions.append(f"start {name}")
        self.running.add(name)

    def signal(self, name, what):
        self.actions.append(f"{what.name} {name}")

    def signal_host(self, name, what):
        self.actions.append(f"{what.name} host of {name}")

    def rack(self, name):
        return f"r{self.names.index(name) % self.racks + 1}" if self.racks else ""

    def node_work(self, name):
        return self.work / name


def inject(cluster, *faults, log="log", nodes=None, clock=time.time):
    schedule = [ScheduledFault(**fault) for fault in faults]
    return FaultInjector(cluster, schedule, history=cluster, log=log, nodes_of_tasks=lambda: nodes or {}, clock=clock)


def crash(at_s, what, *target, **more):
    return {"at_s": at_s, "kind": "crash", "what": what, "target": target, **more}


def stall(at_s, for_s, node):
    return {"at_s": at_s, "kind": "stall", "what": "host", "target": (node,), "for_s": for_s}


def events(cluster, kind):
    return [about for written, about in cluster.written if written == kind]


class Hog:
    """A fake busy process. `living` lists those that were not ended."""

    living: ClassVar[list] = []

    def __init__(self, command):
        self.living.append(self)

    def kill(self):
        self.living.remove(self)

    def wait(self):
        pass


@pytest.mark.parametrize(
    ("nodes", "cores", "hogs"), [(("n1",), 1.0, 2), (("n1", "n2"), 1.0, 4), (("n1",), 2.0, 4), (("n1",), 0.2, 2)]
)
def test_hog_starts_two_processes_per_core_of_each_target_node(tmp_path, monkeypatch, nodes, cores, hogs):
    monkeypatch.setattr(subprocess, "Popen", Hog)
    cluster = Cluster(tmp_path)
    cluster.cores = cores
    injector = inject(cluster, {"at_s": 1, "kind": "hog", "what": "node", "target": nodes, "for_s": 8})
    injector.step(1.0)
    assert len(Hog.living) == hogs
    injector.step(9.5)
    assert Hog.living == []


def test_fault_is_injected_when_due_and_undone_at_its_end(tmp_path):
    cluster = Cluster(tmp_path)
    injector = inject(cluster, stall(2, 3, "n1"), nodes={"a/0": {"n1"}, "b/0": {"n2"}})
    injector.step(1.9)
    assert cluster.actions == []
    injector.step(2.0)
    injector.step(4.9)
    assert cluster.actions == ["SIGSTOP host of n1"]
    injector.step(5.0)
    assert cluster.actions == ["SIGSTOP host of n1", "SIGCONT host of n1"]
    (fault,) = events(cluster, "fault")
    assert (fault["what"], fault["tasks"]) == ("stall host n1", ["a/0"])
    assert [about["what"] for about in events(cluster, "undone")] == ["stall host n1"]


def test_slow_undo_does_not_prevent_other_undos(tmp_path):
    cluster = Cluster(tmp_path)
    now, start_node = [100.0], cluster.start_node

    def start_slowly(name):
        start_node(name)
        now[0] += 1.0

    cluster.start_node = start_slowly
    injector = inject(cluster, stall(0, 5.5, "n1"), crash(0, "node", "n2", back_after_s=5), clock=lambda: now[0])
    injector.step(0.0)
    now[0] = 105.0
    injector.start(at_s=100.0)
    injector._thread.join(LIMIT_S)
    assert cluster.actions == ["SIGSTOP host of n1", "kill n2", "start n2", "SIGCONT host of n1"]


@pytest.mark.parametrize(("what", "name"), [("orchestrator", "orchestrator"), ("node", "n1"), ("controller", "n1")])
def test_overlapping_crashes_restart_a_process_once(tmp_path, what, name):
    cluster = Cluster(tmp_path)
    target = () if what == "orchestrator" else (name,)
    injector = inject(cluster, crash(8, what, *target, back_after_s=5), crash(10, what, *target, back_after_s=5))
    for now_s in (8, 10, 13, 15):
        injector.step(now_s)
    assert cluster.actions == [f"kill {name}", f"start {name}"]
    assert [fault["dead"] for fault in events(cluster, "fault")] == [[], [name]]


def test_rack_crash_kills_all_its_nodes(tmp_path):
    cluster = Cluster(tmp_path, racks=2)
    inject(cluster, crash(1, "node", "rack=r1")).step(1)
    assert cluster.actions == ["kill n1", "kill n3"]


def test_failed_undo_does_not_prevent_other_undos(tmp_path):
    cluster = Cluster(tmp_path)
    injector = inject(cluster, stall(1, 60, "n1"), crash(1, "node", "n2", back_after_s=60), stall(1, 60, "n3"))
    injector.step(1)

    def start_node(name):
        raise OSError("no more processes")

    cluster.start_node = start_node
    injector.undo_all()
    assert {"SIGCONT host of n1", "SIGCONT host of n3"} <= set(cluster.actions)
    with pytest.raises(HoldfastError, match="a fault of the schedule could not be injected: no more processes"):
        injector.check()


class Loop:
    """A fake replica that records the actions on it."""

    def __init__(self):
        self.assigned = AssignedReplica(job=1, pe="vwap", task=0, replica=1, incarnation=1, rank=0, active=True)
        self.state, self.actions = "running", []

    def kill(self):
        self.actions.append("kill")

    def stall(self, for_s):
        self.actions.append(f"stall {for_s:g}")


def hosts_with_replica(cluster):
    hosts, loop = [PeHost(cluster.node_work(name), name) for name in cluster.names], Loop()
    for host in hosts:
        host._history.close()
        host._history = cluster
    hosts[1]._loops = {loop.assigned.key: loop}
    return hosts, loop


@pytest.mark.parametrize("target", ["vwap", "vwap/0", "vwap/0.1"])
def test_host_with_the_replica_executes_and_reports_the_order(tmp_path, target):
    cluster = Cluster(tmp_path)
    hosts, loop = hosts_with_replica(cluster)
    inject(cluster, crash(1, "pe", target)).step(1)
    for host in hosts:
        host._inject_faults()
        host._inject_faults()
    assert loop.actions == ["kill"]
    (fault,), (injected,) = events(cluster, "fault"), events(cluster, "injected")
    assert fault["orders"] == [injected["order"]]
    assert (fault["tasks"], injected["replica"], injected["node"]) == (
        ["vwap/0"] if "/" in target else ["vwap"],
        "1:vwap/0.1",
        "n2",
    )


@pytest.mark.parametrize(
    ("kind", "target", "actions"),
    [
        ("stall", "vwap/0", []),
        ("stall", "vwap", []),
        ("slow", "vwap/0", []),
        ("stall", "vwap/0.1", ["stall 8"]),
        ("crash", "vwap/0", ["kill"]),
    ],
)
def test_idle_replica_stalls_only_if_named(tmp_path, kind, target, actions):
    cluster = Cluster(tmp_path)
    hosts, loop = hosts_with_replica(cluster)
    loop.assigned = loop.assigned.model_copy(update={"active": False})
    inject(cluster, {"at_s": 1, "kind": kind, "what": "pe", "target": (target,), "for_s": 8, "by_s": 1}).step(1)
    hosts[1]._inject_faults()
    assert loop.actions == actions


def test_dead_replica_gets_no_fault(tmp_path):
    cluster = Cluster(tmp_path)
    hosts, loop = hosts_with_replica(cluster)
    loop.state = "failed"
    inject(cluster, crash(1, "pe", "vwap/0")).step(1)
    hosts[1]._inject_faults()
    assert (loop.actions, events(cluster, "injected")) == ([], [])


def test_expired_order_is_not_executed(tmp_path):
    cluster = Cluster(tmp_path)
    inject(cluster, crash(1, "pe", "vwap/0")).step(1)
    (path,) = (cluster.node_work("n2") / "faults").glob("*.json")
    order = json.loads(path.read_text())
    path.write_text(json.dumps({**order, "at_s": order["at_s"] - ORDER_VALID_S - 1}))
    hosts, loop = hosts_with_replica(cluster)
    hosts[1]._inject_faults()
    assert (loop.actions, events(cluster, "injected")) == ([], [])
    assert not path.exists()


def test_host_executes_orders_of_the_orchestrator(tmp_path, monkeypatch):
    cluster = Cluster(tmp_path)
    hosts, loop = hosts_with_replica(cluster)
    monkeypatch.setattr("holdfast.node.injected_faults.living_host", lambda work: 1)
    for kind in ("crash-pe", "stall-pe"):
        inject_fault(FaultOrder(number=1, kind=kind, target=loop.assigned.key, for_s=5.0), cluster.node_work("n2"), light=False)
        hosts[1]._inject_faults()
    assert loop.actions == ["kill", "stall 5"]


def test_host_continues_to_beat_after_a_full_disk(tmp_path, monkeypatch):
    host, write, refused = PeHost(tmp_path, "n1"), Path.write_text, []

    def full(path, *arguments, **options):
        if path.name == ".host.json.tmp" and len(refused) < 3:
            refused.append(path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr("holdfast.runtime.pe_host.BEAT_S", 0.01)
    beating = threading.Thread(target=host._beat, daemon=True)
    beating.start()
    ends_s = time.monotonic() + LIMIT_S
    while not (tmp_path / "host.json").exists() and time.monotonic() < ends_s:
        time.sleep(0.01)
    host.stopping.set()
    beating.join(LIMIT_S)
    host._history.close()
    assert len(refused) == 3
    assert HostStatus.model_validate_json((tmp_path / "host.json").read_text()).pid == os.getpid()


def check(cluster, *faults, log="log", **more):
    schedule = Schedule(faults=tuple(ScheduledFault(**fault) for fault in faults), **more)
    return resolve_faults(schedule, [Task(pe="vwap")], cluster, log=log)


def test_missing_targets_are_reported_before_the_run(tmp_path):
    cluster = Cluster(tmp_path)
    check(cluster, crash(1, "pe", "vwap/0.1"), crash(1, "node", "n3"), crash(1, "orchestrator"))
    with pytest.raises(HoldfastError, match="a fault targets PE 'mean/0'; the job has: vwap, vwap/0"):
        check(cluster, crash(1, "pe", "mean/0"))
    with pytest.raises(HoldfastError, match=r"a fault targets node 'rack=r1'; nodes are: n1, n2, n3$"):
        check(cluster, crash(1, "node", "rack=r1"))
    with pytest.raises(HoldfastError, match=r"a fault targets node 'rack=r3'; nodes are: n1, n2, n3, rack=r1, rack=r2$"):
        check(Cluster(tmp_path, racks=2), crash(1, "node", "rack=r3"))
    with pytest.raises(CompoundError, match=r"(?s)schedule has 3 errors:.*node 'n9'.*PE 'mean/0'.*fills the log's disk"):
        check(cluster, crash(1, "pe", "mean/0"), crash(1, "node", "n9"), FILL, crash(2, "node", "n9"), log="s3://bucket/log")


FILL = {"at_s": 1, "kind": "fill", "what": "disk", "for_s": 5}


def set_free_bytes(monkeypatch, free):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=free if Path(folder).is_dir() else 0))


def test_disk_that_must_not_be_filled_is_reported_before_the_run(tmp_path, monkeypatch):
    with pytest.raises(HoldfastError, match="a fault fills the log's disk, but the log at 's3://bucket/log' is not on a disk"):
        check(Cluster(tmp_path), FILL, log="s3://bucket/log")
    set_free_bytes(monkeypatch, 2 << 30)
    log = str(tmp_path / "not" / "there" / "yet")
    large = f"a fault fills the log's disk, but the disk at '{log}' has 2048 MiB free and the limit is 1024 MiB"
    with pytest.raises(HoldfastError, match=large):
        check(Cluster(tmp_path), FILL, log=log)
    with pytest.raises(HoldfastError, match=large):
        check(Cluster(tmp_path), log=log, random={"count": 1, "to_s": 5, "kinds": ["fill"], "what": ["disk"]})
    set_free_bytes(monkeypatch, 64 << 20)
    assert [fault.kind for fault in check(Cluster(tmp_path), FILL, log=log)] == ["fill"]


def test_schedule_of_the_guide_can_be_injected(tmp_path, monkeypatch):
    set_free_bytes(monkeypatch, 2 << 40)
    section = (ROOT / "docs" / "run.md").read_text().partition("## Fault schedules\n")[2].partition("\n## ")[0]
    sample = tmp_path / "faults.yaml"
    sample.write_text(dedent("\n".join(line for line in section.splitlines() if line.startswith("    "))))
    job = Job(job="j", application=str(ROOT / "examples" / "bargain_discovery.py"), log="log")
    faults = resolve_faults(read_document(sample, Schedule), layout_of(job).tasks, Cluster(tmp_path), log=str(tmp_path))
    assert len(faults) == 10


def test_large_disk_is_never_filled(tmp_path, monkeypatch):
    set_free_bytes(monkeypatch, 2 << 30)
    with pytest.raises(HoldfastError, match="has 2048 MiB free and the limit is 1024 MiB"):
        inject(Cluster(tmp_path), FILL, log=str(tmp_path)).step(1)


def test_cut_is_retried_while_the_orchestrator_is_unreachable(tmp_path):
    cluster = Cluster(tmp_path)
    answers = [OrchestratorUnreachable("nobody"), ClientError("it recovers", status=503), None, ClientError("no", status=403)]

    def inject_cut(fault, *, limit_s):
        if (answer := answers.pop(0)) is not None:
            raise answer
        cluster.actions.append(f"{fault['fault']} {fault['node']}")

    cluster.client = SimpleNamespace(inject=inject_cut)
    cut = {"at_s": 1, "kind": "cut", "what": "node", "target": ("n3",), "for_s": 6}
    injector = inject(cluster, cut, stall(1.5, 3, "n1"))
    injector.step(1)
    injector.step(2)
    assert (cluster.actions, len(events(cluster, "fault"))) == (["SIGSTOP host of n1"], 1)
    injector.step(3)
    assert (cluster.actions[1:], events(cluster, "fault")[1]["what"]) == (["cut-node n3"], "cut node n3")
    injector.step(4)
    assert len(events(cluster, "fault")) == 2
    with pytest.raises(ClientError, match="no"):
        inject(cluster, cut).step(1)
