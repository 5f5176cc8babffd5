"""Fault schedules on a stand-in for a cluster: what is done to whom, in which order, and what is undone again."""

import asyncio
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

from holdfast.control.faults.fault_library import crash_pe, stall_pe
from holdfast.documents.document import read_document
from holdfast.documents.fault_schedule import Schedule, ScheduledFault
from holdfast.documents.job import Job, Task
from holdfast.errors import CompoundError, HoldfastError
from holdfast.job_layout import layout_of
from holdfast.protocol.client import ClientError, OrchestratorUnreachable
from holdfast.protocol.messages import AssignedReplica, HostStatus
from holdfast.runtime.pe_host import ORDER_VALID_S, PeHost
from holdfast.trial.fault_injector import FaultInjector, resolve_faults

LIMIT_S = 20.0
ROOT = Path(__file__).parents[3]


class Cluster:
    """Processes that are only names, a list of what was done to them, and another of what was told of it."""

    def __init__(self, work, *, racks=0):
        self.work, self.racks, self.cores, self.names = work, racks, 1.0, ["n1", "n2", "n3"]
        self.running = {"orchestrator", *self.names}
        self.done, self.told = [], []

    def append(self, kind, about):
        self.told.append((kind, about))

    def runs(self, name):
        return name in self.running

    def host_runs(self, name):
        return name in self.running

    def kill(self, name):
        self.done.append(f"kill {name}")
        self.running.remove(name)

    def kill_node(self, name):
        if self.runs(name):
            self.kill(name)

    def kill_host(self, name):
        self.done.append(f"kill host of {name}")

    def start_orchestrator(self):
        self.start_node("orchestrator")

    def start_node(self, name):
        assert not self.runs(name), f"{name} is started beside itself"
        self.done.append(f"start {name}")
        self.running.add(name)

    def signal(self, name, what):
        self.done.append(f"{what.name} {name}")

    def signal_host(self, name, what):
        self.done.append(f"{what.name} host of {name}")

    def rack(self, name):
        return f"r{self.names.index(name) % self.racks + 1}" if self.racks else ""

    def node_work(self, name):
        return self.work / name


def chaos(cluster, *faults, log="log", hosts=None, clock=time.time):
    return FaultInjector(
        cluster, [ScheduledFault(**fault) for fault in faults], history=cluster, log=log, hosts_of=lambda: hosts or {}, clock=clock
    )


def crash(at_s, what, *target, **more):
    return {"at_s": at_s, "kind": "crash", "what": what, "target": target, **more}


def stall(at_s, for_s, node):
    return {"at_s": at_s, "kind": "stall", "what": "host", "target": (node,), "for_s": for_s}


def told(cluster, kind):
    return [about for said, about in cluster.told if said == kind]


class Hog:
    """A busy process that is not one; `living` are those that were not ended."""

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
def test_a_hog_takes_two_processes_for_each_core_of_each_node_that_it_strikes(tmp_path, monkeypatch, nodes, cores, hogs):
    monkeypatch.setattr(subprocess, "Popen", Hog)
    cluster = Cluster(tmp_path)
    cluster.cores = cores
    trouble = chaos(cluster, {"at_s": 1, "kind": "hog", "what": "node", "target": nodes, "for_s": 8})
    trouble.look(1.0)
    assert len(Hog.living) == hogs
    trouble.look(9.5)
    assert Hog.living == []


def test_a_fault_strikes_when_it_is_due_and_is_undone_when_it_is_over(tmp_path):
    cluster = Cluster(tmp_path)
    one = chaos(cluster, stall(2, 3, "n1"), hosts={"a/0": {"n1"}, "b/0": {"n2"}})
    one.look(1.9)
    assert cluster.done == []
    one.look(2.0)
    one.look(4.9)
    assert cluster.done == ["SIGSTOP host of n1"]
    one.look(5.0)
    assert cluster.done == ["SIGSTOP host of n1", "SIGCONT host of n1"]
    (fault,) = told(cluster, "fault")
    assert (fault["what"], fault["tasks"]) == ("stall host n1", ["a/0"])
    assert [about["what"] for about in told(cluster, "mended")] == ["stall host n1"]


def test_an_undo_that_takes_time_costs_no_other_fault_its_own(tmp_path):
    cluster = Cluster(tmp_path)
    now, start_node = [100.0], cluster.start_node

    def start_slowly(name):
        start_node(name)
        now[0] += 1.0

    cluster.start_node = start_slowly
    one = chaos(cluster, stall(0, 5.5, "n1"), crash(0, "node", "n2", back_after_s=5), clock=lambda: now[0])
    one.look(0.0)
    now[0] = 105.0
    one.start(at_s=100.0)
    one._thread.join(LIMIT_S)
    assert cluster.done == ["SIGSTOP host of n1", "kill n2", "start n2", "SIGCONT host of n1"]


@pytest.mark.parametrize(("what", "name"), [("orchestrator", "orchestrator"), ("node", "n1"), ("controller", "n1")])
def test_crashes_of_one_process_that_overlap_start_it_once(tmp_path, what, name):
    cluster = Cluster(tmp_path)
    target = () if what == "orchestrator" else (name,)
    one = chaos(cluster, crash(8, what, *target, back_after_s=5), crash(10, what, *target, back_after_s=5))
    for now_s in (8, 10, 13, 15):
        one.look(now_s)
    assert cluster.done == [f"kill {name}", f"start {name}"]
    assert [fault["dead"] for fault in told(cluster, "fault")] == [[], [name]]


def test_all_nodes_of_a_rack_are_struck_at_once(tmp_path):
    cluster = Cluster(tmp_path, racks=2)
    chaos(cluster, crash(1, "node", "rack=r1")).look(1)
    assert cluster.done == ["kill n1", "kill n3"]


def test_whatever_still_lasts_in_the_end_is_undone_even_where_one_thing_cannot_be(tmp_path):
    cluster = Cluster(tmp_path)
    one = chaos(cluster, stall(1, 60, "n1"), crash(1, "node", "n2", back_after_s=60), stall(1, 60, "n3"))
    one.look(1)

    def start_node(name):
        raise OSError("no more processes")

    cluster.start_node = start_node
    one.mend()
    assert {"SIGCONT host of n1", "SIGCONT host of n3"} <= set(cluster.done)
    with pytest.raises(HoldfastError, match="the fault schedule could not be brought about: no more processes"):
        one.check()


class Loop:
    """A replica that notes what is done to it."""

    def __init__(self):
        self.assigned = AssignedReplica(job=1, pe="vwap", task=0, replica=1, incarnation=1, rank=0, active=True)
        self.state, self.done = "running", []

    def kill(self):
        self.done.append("kill")

    def stall(self, for_s):
        self.done.append(f"stall {for_s:g}")


def hosts(cluster):
    found, loop = [PeHost(cluster.node_work(name), name) for name in cluster.names], Loop()
    for host in found:
        host._history.close()
        host._history = cluster
    found[1]._loops = {loop.assigned.key: loop}
    return found, loop


@pytest.mark.parametrize("target", ["vwap", "vwap/0", "vwap/0.1"])
def test_the_host_that_has_a_replica_obeys_and_says_so(tmp_path, target):
    cluster = Cluster(tmp_path)
    found, loop = hosts(cluster)
    chaos(cluster, crash(1, "pe", target)).look(1)
    for host in found:
        host._inject_faults()
        host._inject_faults()
    assert loop.done == ["kill"]
    (fault,), (struck,) = told(cluster, "fault"), told(cluster, "struck")
    assert fault["orders"] == [struck["order"]]
    assert (fault["tasks"], struck["replica"], struck["node"]) == (["vwap/0"] if "/" in target else ["vwap"], "1:vwap/0.1", "n2")


@pytest.mark.parametrize(
    ("kind", "target", "done"),
    [
        ("stall", "vwap/0", []),
        ("stall", "vwap", []),
        ("slow", "vwap/0", []),
        ("stall", "vwap/0.1", ["stall 8"]),
        ("crash", "vwap/0", ["kill"]),
    ],
)
def test_an_idle_replica_does_not_stall_with_its_pe_and_can_be_woken_for_it(tmp_path, kind, target, done):
    cluster = Cluster(tmp_path)
    found, loop = hosts(cluster)
    loop.assigned = loop.assigned.model_copy(update={"active": False})
    chaos(cluster, {"at_s": 1, "kind": kind, "what": "pe", "target": (target,), "for_s": 8, "by_s": 1}).look(1)
    found[1]._inject_faults()
    assert loop.done == done


def test_a_replica_that_is_dead_already_is_not_struck(tmp_path):
    cluster = Cluster(tmp_path)
    found, loop = hosts(cluster)
    loop.state = "failed"
    chaos(cluster, crash(1, "pe", "vwap/0")).look(1)
    found[1]._inject_faults()
    assert (loop.done, told(cluster, "struck")) == ([], [])


def test_an_order_that_lay_before_a_dead_host_is_not_obeyed_when_it_is_back(tmp_path):
    cluster = Cluster(tmp_path)
    chaos(cluster, crash(1, "pe", "vwap/0")).look(1)
    (path,) = (cluster.node_work("n2") / "faults").glob("*.json")
    order = json.loads(path.read_text())
    path.write_text(json.dumps({**order, "at_s": order["at_s"] - ORDER_VALID_S - 1}))
    found, loop = hosts(cluster)
    found[1]._inject_faults()
    assert (loop.done, told(cluster, "struck")) == ([], [])
    assert not path.exists()


def test_what_an_orchestrator_orders_of_a_replica_is_obeyed_too_and_costs_the_host_nothing(tmp_path):
    cluster = Cluster(tmp_path)
    found, loop = hosts(cluster)
    strike = SimpleNamespace(
        host_kind=lambda: "spark",
        host_work=lambda: cluster.node_work("n2"),
        replica=lambda: SimpleNamespace(key=loop.assigned.key),
        seconds=lambda name, default: default,
    )
    for fault in (crash_pe, stall_pe):
        asyncio.run(fault(strike))
        found[1]._inject_faults()
    assert loop.done == ["kill", "stall 5"]


def test_a_host_beats_on_after_a_full_disk(tmp_path, monkeypatch):
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


def test_targets_that_are_not_there_are_told_before_anything_runs(tmp_path):
    cluster = Cluster(tmp_path)
    check(cluster, crash(1, "pe", "vwap/0.1"), crash(1, "node", "n3"), crash(1, "orchestrator"))
    with pytest.raises(HoldfastError, match="a fault strikes PE 'mean/0'; the job has: vwap, vwap/0"):
        check(cluster, crash(1, "pe", "mean/0"))
    with pytest.raises(HoldfastError, match=r"a fault strikes node 'rack=r1'; nodes are: n1, n2, n3$"):
        check(cluster, crash(1, "node", "rack=r1"))
    with pytest.raises(HoldfastError, match=r"a fault strikes node 'rack=r3'; nodes are: n1, n2, n3, rack=r1, rack=r2$"):
        check(Cluster(tmp_path, racks=2), crash(1, "node", "rack=r3"))
    with pytest.raises(CompoundError, match=r"(?s)schedule has 3 errors:.*node 'n9'.*PE 'mean/0'.*fills the log's disk"):
        check(cluster, crash(1, "pe", "mean/0"), crash(1, "node", "n9"), FILL, crash(2, "node", "n9"), log="s3://bucket/log")


FILL = {"at_s": 1, "kind": "fill", "what": "disk", "for_s": 5}


def of_size(monkeypatch, free):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=free if Path(folder).is_dir() else 0))


def test_a_disk_that_cannot_be_filled_is_told_before_anything_runs(tmp_path, monkeypatch):
    with pytest.raises(HoldfastError, match="a fault fills the log's disk, but the log is at 's3://bucket/log', which has none"):
        check(Cluster(tmp_path), FILL, log="s3://bucket/log")
    of_size(monkeypatch, 2 << 30)
    log = str(tmp_path / "not" / "there" / "yet")
    large = f"a fault fills the log's disk, but that at '{log}' has 2048 MiB free; only a disk of its own with less than 1024 MiB"
    with pytest.raises(HoldfastError, match=large):
        check(Cluster(tmp_path), FILL, log=log)
    with pytest.raises(HoldfastError, match=large):
        check(Cluster(tmp_path), log=log, random={"count": 1, "to_s": 5, "kinds": ["fill"], "what": ["disk"]})
    of_size(monkeypatch, 64 << 20)
    assert [fault.kind for fault in check(Cluster(tmp_path), FILL, log=log)] == ["fill"]


def test_schedule_of_the_guide_can_be_injected(tmp_path, monkeypatch):
    of_size(monkeypatch, 2 << 40)
    section = (ROOT / "docs" / "run.md").read_text().partition("## Fault schedules\n")[2].partition("\n## ")[0]
    sample = tmp_path / "faults.yaml"
    sample.write_text(dedent("\n".join(line for line in section.splitlines() if line.startswith("    "))))
    job = Job(job="j", application=str(ROOT / "examples" / "bargain_discovery.py"), log="log")
    faults = resolve_faults(read_document(sample, Schedule), layout_of(job).tasks, Cluster(tmp_path), log=str(tmp_path))
    assert len(faults) == 10


def test_a_large_disk_is_not_filled_whatever_was_checked_before(tmp_path, monkeypatch):
    of_size(monkeypatch, 2 << 30)
    with pytest.raises(HoldfastError, match="only a disk of its own with less than 1024 MiB is filled"):
        chaos(Cluster(tmp_path), FILL, log=str(tmp_path)).look(1)


def test_a_cut_that_nobody_is_there_to_bring_about_is_asked_for_again(tmp_path):
    cluster = Cluster(tmp_path)
    answers = [OrchestratorUnreachable("nobody"), ClientError("it recovers", status=503), None, ClientError("no", status=403)]

    def inject(fault, *, limit_s):
        if (answer := answers.pop(0)) is not None:
            raise answer
        cluster.done.append(f"{fault['fault']} {fault['node']}")

    cluster.client = SimpleNamespace(inject=inject)
    cut = {"at_s": 1, "kind": "cut", "what": "node", "target": ("n3",), "for_s": 6}
    one = chaos(cluster, cut, stall(1.5, 3, "n1"))
    one.look(1)
    one.look(2)
    assert (cluster.done, len(told(cluster, "fault"))) == (["SIGSTOP host of n1"], 1)
    one.look(3)
    assert (cluster.done[1:], told(cluster, "fault")[1]["what"]) == (["cut-node n3"], "cut node n3")
    one.look(4)
    assert len(told(cluster, "fault")) == 2
    with pytest.raises(ClientError, match="no"):
        chaos(cluster, cut).look(1)
