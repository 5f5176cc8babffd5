"""One trial of one fault-injection test of the control plane, against real processes.

A trial leads a job to a transition, where the orchestrator injects the fault. Then it checks that the system healed: the job is in
a correct state, no PE was started twice or restarted without need, the orchestrator and the PE hosts agree on the replicas, and no
replica remains after the job was canceled.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.control import InjectionTest, InjectionTests
from holdfast.documents import write_document
from holdfast.errors import HoldfastError
from holdfast.node import living_host
from holdfast.protocol import STATUS, ClientError, FailureRequest, HostStatus, OrchestratorUnreachable, WatchedFile, request_failure
from holdfast.trial import ProcessCluster
from holdfast_papers.system_s.injection.transition_scenarios import Scenario, job_on_every_node

NODES = ("i1", "i2", "i3")
POLL_S = 0.06
LIMIT_S = 60.0
PASSED_S = 5.0
"""A job that has been in an end state for this long will not take the transition any more."""

MAY_RESTART_PES = {"crash-pe", "crash-host", "crash-node", "cut-node", "stall-host"}
"""Faults after which PEs may restart."""
KILLS_CONTROLLER = {"crash-controller", "crash-node"}
"""Faults that kill a node controller. The trial restarts it, as an init system would."""


@dataclass(frozen=True, slots=True)
class InjectionVerdict:
    """The result of a test.

    `injected`: the fault was injected. `missed`: why it could not be injected, for example because no PE was placed yet. `errors`:
    what the system did not heal.
    """

    test: InjectionTest
    injected: bool
    errors: tuple[str, ...]
    state: str
    took_s: float
    missed: str = ""

    @property
    def healed(self) -> bool:
        return self.injected and not self.errors

    @property
    def passed(self) -> bool:
        """Whether there are no errors, and the fault was injected or could not be."""
        return not self.errors and (self.injected or bool(self.missed))

    def document(self) -> dict[str, Any]:
        return {
            "machine": self.test.machine,
            "state": self.test.state,
            "transition": self.test.transition,
            "moment": self.test.moment,
            "fault": self.test.fault,
            "injected": self.injected,
            "missed": self.missed,
            "healed": self.healed,
            "errors": list(self.errors),
            "ended": self.state,
            "took_s": round(self.took_s, 3),
        }


def bears_mark(test: InjectionTest, exit_code: int | None, log: str) -> bool:
    """Return whether an orchestrator died by the fault of this test: by its signal, and after it had printed the fault."""
    line = f"fault {test.fault} at {test.state}.{test.transition} ({test.moment}) of job "
    return test.fault == "crash-orchestrator" and exit_code == -signal.SIGKILL and line in log


class InjectionTrial:
    """One trial of one test. `path` is the file for the orchestrator's injection tests."""

    def __init__(self, cluster: ProcessCluster, test: InjectionTest, scenario: Scenario, path: Path) -> None:
        self.cluster, self.test, self.scenario, self.path = cluster, test, scenario, path
        self.job = self.job_on_all_nodes = 0
        self.injected = False
        self.missed = ""
        self.cancel_acknowledged = False
        self._log_bytes = 0
        self.starts_before = cluster.starts()
        self.pids_before = self._pids()

    def run(self) -> InjectionVerdict:
        """Run the trial and remove its job again."""
        began_s = time.monotonic()
        errors: list[str] = []
        state = "unknown"
        try:
            if self.scenario.while_recovering:
                self._delay_recovery()
            for stage in self.scenario.stages:
                self._start_orchestrator((stage,))
                self._drive()
            self._start_orchestrator((*self.scenario.helpers, self.test))
            self._drive()
            self._update_injected()
            if self._is_dead() and not self.injected:
                errors.append(
                    f"the orchestrator ended with {self.cluster.exit_code('orchestrator')}, and not by the injected fault"
                )
            self._restart_killed()
            state = self._settle()
            errors.extend(self._errors())
        except HoldfastError as error:
            errors.append(str(error))
        finally:
            self._resume_recovery()
        errors.extend(self._clean_up())
        return InjectionVerdict(self.test, self.injected, tuple(errors), state, time.monotonic() - began_s, self.missed)

    def _delay_recovery(self) -> None:
        """Stop a node that the next orchestrator will wait for."""
        self.job_on_all_nodes = self.cluster.client.submit(job_on_every_node(f"{self.scenario.job.job}-other", len(NODES)))
        self.cluster.client.wait_for(self.job_on_all_nodes, ("running",), limit_s=LIMIT_S)
        os.kill(self.cluster.pid(NODES[0]), signal.SIGSTOP)

    def _resume_recovery(self) -> None:
        if self.job_on_all_nodes:
            os.kill(self.cluster.pid(NODES[0]), signal.SIGCONT)

    def _start_orchestrator(self, tests: Sequence[InjectionTest]) -> None:
        self.cluster.kill_orchestrator()
        write_document(self.path, InjectionTests(tests=tuple(tests)))
        self._log_bytes = self._log.stat().st_size if self._log.exists() else 0
        self.cluster.start_orchestrator("--inject", str(self.path))

    def _drive(self) -> None:
        """Submit the job, unless that was done, and follow the scenario.

        Returns when the scenario is complete and the fault was injected or missed, when the orchestrator is dead, or when the job
        has passed the transition.
        """
        ends_s = time.monotonic() + LIMIT_S / 2
        acted, completed_s = False, math.inf
        while time.monotonic() < min(ends_s, completed_s + PASSED_S) and not self._is_dead():
            try:
                if not self.job:
                    self._submit()
                document = self.cluster.client.job(self.job)
                if not acted and self._is_time_to_act(document):
                    self._act(document)
                    acted = True
                elif self._is_complete(document, acted=acted):
                    completed_s = min(completed_s, time.monotonic())
                    self._update_injected()
                    if self.injected or self.missed:
                        return
            except (OrchestratorUnreachable, ClientError):
                pass  # the orchestrator is dying or busy; poll again
            time.sleep(POLL_S)

    def _submit(self) -> None:
        """Submit the job, unless an orchestrator that died had accepted it without an answer."""
        accepted = [line for line in self.cluster.client.jobs(limit=20) if line["name"] == self.scenario.job.job]
        self.job = int(accepted[0]["id"]) if accepted else self.cluster.client.submit(self.scenario.job)

    def _is_time_to_act(self, document: dict[str, Any]) -> bool:
        if self.scenario.act == "none" or self.scenario.at is None:
            return False
        if self.scenario.act in ("fail", "activate", "drain") and not self._has_started(document):
            return False
        return bool(document["state"] == self.scenario.at)

    def _has_started(self, document: dict[str, Any]) -> bool:
        states = {status.key: status.state for name in NODES for status in self._host_replicas(name)}
        keys = [replica["key"] for task in document["tasks"] for replica in task["replicas"]]
        return bool(keys) and all(states.get(key) in ("running", "idle", "finished") for key in keys)

    def _act(self, document: dict[str, Any]) -> None:
        replicas = [replica for task in document["tasks"] for replica in task["replicas"]]
        match self.scenario.act:
            case "cancel":
                threading.Timer(0.5, self._resume_recovery).start()  # the call returns only when the job is canceled
                self.cluster.client.cancel(self.job)
                self.cancel_acknowledged = True
            case "fail":
                first = min(replicas, key=lambda replica: str(replica["key"]))
                request_failure(self.cluster.node_work(first["node"]), FailureRequest(keys=(first["key"],)))
            case "drain":
                self.cluster.client.drain(min(replicas, key=lambda replica: str(replica["key"]))["node"])
            case "activate":
                self.cluster.client.activate(self.job, {"work/0": [0]})

    def _is_complete(self, document: dict[str, Any], *, acted: bool) -> bool:
        must_act = self.scenario.act != "none" and not acted
        return bool(document["ended"]) or (document["state"] in self.scenario.ends and not must_act and self._has_started(document))

    @property
    def _log(self) -> Path:
        return self.cluster.work / "orchestrator.log"

    def _is_dead(self) -> bool:
        return self.cluster.exit_code("orchestrator") is not None

    def _update_injected(self) -> None:
        """Read from the orchestrator's events whether the fault was injected or missed."""
        if self._is_dead():
            log = self._log.read_bytes()[self._log_bytes :].decode(errors="replace")
            self.injected = self.injected or bears_mark(self.test, self.cluster.exit_code("orchestrator"), log)
            return
        try:
            events = self.cluster.client.events()["events"]
        except (OrchestratorUnreachable, ClientError):
            return
        reports = [event["data"] for event in events if event["data"].get("test") == self.test.name]
        missed = [data["missed"] for data in reports if "missed" in data]  # each follows a report of the injection
        self.injected = self.injected or len(reports) > 2 * len(missed)
        self.missed = "" if self.injected or not missed else missed[-1]

    def _restart_killed(self) -> None:
        """Restart the processes that the fault killed, without further faults."""
        self._restart_dead_orchestrator()
        if self.test.fault in KILLS_CONTROLLER:
            for name in NODES:
                if self.cluster.exit_code(name) is not None:
                    self.cluster.kill(name)
                    self.cluster.start_node(name)

    def _restart_dead_orchestrator(self) -> None:
        if self._is_dead():
            self.cluster.kill_orchestrator()
            self.cluster.start_orchestrator()

    def _settle(self) -> str:
        """Wait until the job is in a correct state, and return it. Repeats requests that were not acknowledged."""
        correct = self.scenario.ends | self.scenario.also | ({"failed", "canceled"} if self.test.fault == "raise" else frozenset())
        document: dict[str, Any] = {"state": "unknown"}

        def settled() -> bool:
            nonlocal document
            if not self.job:
                self._submit()
            if self.scenario.act == "cancel" and not self.cancel_acknowledged and not self._is_canceled(document):
                self._cancel(self.job)
            document = self.cluster.client.job(self.job)
            return document["state"] in correct and (document["ended"] or self._agrees(document))

        self._wait(settled, what=f"job {self.job} {' or '.join(sorted(correct))}", shown=lambda: f"it is {document['state']}")
        return str(document["state"])

    def _is_canceled(self, document: dict[str, Any]) -> bool:
        return document["state"] == "canceling" or bool(document.get("ended"))

    def _cancel(self, job: int) -> None:
        try:
            self.cluster.client.cancel(job)
        except ClientError as error:
            if error.status not in (409, 503):
                raise

    def _agrees(self, document: dict[str, Any]) -> bool:
        """Return whether the orchestrator and the PE hosts report the same state for every replica."""
        states = {(s.key, s.incarnation): s.state for name in NODES for s in self._host_replicas(name)}
        for task in document["tasks"]:
            for replica in task["replicas"]:
                if replica["state"] == "abandoned":
                    continue
                if replica["state"] not in ("running", "idle", "finished"):
                    return False
                if states.get((replica["key"], replica["incarnation"]), "finished") != replica["state"]:
                    return False
        return True

    def _errors(self) -> Iterator[str]:
        """Yield the needless starts of replicas and PE hosts."""
        new_starts = self.cluster.starts() - self.starts_before
        starts = {key: count for key, count in new_starts.items() if key[0].startswith(f"{self.job}:")}
        for (key, incarnation), count in sorted(starts.items()):
            if count > 1:
                yield f"replica {key} was started {count} times in incarnation {incarnation}"
        if self.test.fault in MAY_RESTART_PES:
            return
        allowed = 1 + self.scenario.restarts
        for key, incarnation in sorted(starts):
            if incarnation > allowed:
                yield f"replica {key} was restarted (incarnation {incarnation}) without need"
        if (pids := self._pids()) != self.pids_before:
            yield f"PE hosts were restarted: {self.pids_before} before, {pids} after"

    def _clean_up(self) -> Iterator[str]:
        """Cancel the job, wait until no replica of it remains, and restore the nodes. Yields the errors."""
        try:
            self._wait(self._is_job_removed, what="no replica of the job remains")
            for node in self.cluster.client.nodes():
                if node["state"] in ("draining", "drained"):
                    self.cluster.client.drain(node["name"], drain=False)
            self.cluster.wait_for_nodes(len(NODES))
            self._wait(lambda: len(self._pids()) == len(NODES), what="all PE hosts run")
        except HoldfastError as error:
            yield str(error)

    def _is_job_removed(self) -> bool:
        """Return whether no replica of the job remains. Cancels the jobs of the trial if they have not ended."""
        self._restart_dead_orchestrator()
        for job in filter(None, (self.job, self.job_on_all_nodes)):
            if not self.cluster.client.job(job)["ended"]:
                self._cancel(job)
                return False
        if not self.job:
            return True
        return not any(status.key.startswith(f"{self.job}:") for name in NODES for status in self._host_replicas(name))

    def _wait(self, condition: Callable[[], bool], *, what: str, shown: Callable[[], str] = lambda: "") -> None:
        ends_s = time.monotonic() + LIMIT_S
        while time.monotonic() < ends_s:
            try:
                if condition():
                    return
            except (OrchestratorUnreachable, ClientError):
                pass
            time.sleep(POLL_S)
        raise HoldfastError(f"not within {LIMIT_S:g} s: {what}; {shown()}; {self.cluster.last_log_lines('orchestrator')}")

    def _host_replicas(self, name: str) -> tuple[Any, ...]:
        status = WatchedFile(self.cluster.node_work(name) / STATUS, HostStatus).read()
        return () if status is None else status.replicas

    def _pids(self) -> dict[str, int]:
        """Return the process ids of the PE hosts that run, by node."""
        pids = {name: living_host(self.cluster.node_work(name)) for name in NODES}
        return {name: pid for name, pid in pids.items() if pid is not None}
