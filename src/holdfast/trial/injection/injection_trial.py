"""One try of one fault injection test against real processes: bring a job to its transition, let the fault strike, see what heals.

Afterwards: the job is in the right state, no PE was started twice or anew without need, what nodes have is what the orchestrator
believes, and when the job is gone nothing of it is left.
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
from holdfast.documents.document import write_document
from holdfast.errors import HoldfastError
from holdfast.node.pe_hosts import living_host
from holdfast.protocol.client import ClientError, OrchestratorUnreachable
from holdfast.protocol.messages import HostStatus
from holdfast.protocol.node_files import STATUS, FailureRequest, WatchedFile, request_failure
from holdfast.trial.injection.transition_scenarios import Scenario, job_on_every_node
from holdfast.trial.process_cluster import ProcessCluster

NODES = ("i1", "i2", "i3")
POLL_S = 0.06
LIMIT_S = 60.0
PASSED_S = 5.0
"""A job that has been where it should be for so long will not take the transition any more."""

TOUCHES_PES = {"crash-pe", "crash-host", "crash-node", "cut-node", "stall-host"}
"""Faults after which PEs may well be started anew."""
DETACHES = {"crash-controller", "crash-node"}
"""Faults after which a node's controller must be started again by whoever runs it; here, the campaign."""


@dataclass(frozen=True, slots=True)
class InjectionVerdict:
    """What came of a test. `injected`: its fault came about. `missed` says why it did not where it could not, such as for want of a
    PE before any is placed. `errors` is empty where the system healed, or had nothing to heal."""

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
        """Whether there is nothing to say against the system."""
        return not self.errors and (self.injected or bool(self.missed))

    def document(self) -> dict[str, Any]:
        return {
            "machine": self.test.machine,
            "state": self.test.state,
            "transition": self.test.transition,
            "moment": self.test.moment,
            "fault": self.test.fault,
            "struck": self.injected,
            "missed": self.missed,
            "healed": self.healed,
            "problems": list(self.errors),
            "ended": self.state,
            "took_s": round(self.took_s, 3),
        }


class InjectionTrial:
    """One try of one test."""

    def __init__(self, cluster: ProcessCluster, test: InjectionTest, script: Scenario, path: Path) -> None:
        self.cluster, self.test, self.script, self.path = cluster, test, script, path
        self.job = self.other = 0
        self.injected = False
        self.missed = ""
        self.before = cluster.starts()
        self.pids = self._pids()

    def run(self) -> InjectionVerdict:
        began_s = time.monotonic()
        errors: list[str] = []
        state = "unknown"
        try:
            if self.script.while_recovering:
                self._hold_up_recovery()
            for stage in self.script.stages:
                self._start_orchestrator((stage,))
                self._drive()
            self._start_orchestrator((*self.script.helpers, self.test))
            self._drive()
            self._note_strike()
            self._mend()
            state = self._settle()
            errors.extend(self._errors(state))
        except HoldfastError as error:
            errors.append(str(error))
        finally:
            self._let_recover()
        errors.extend(self._clear())
        return InjectionVerdict(self.test, self.injected, tuple(errors), state, time.monotonic() - began_s, self.missed)

    def _hold_up_recovery(self) -> None:
        """Let a node that the next orchestrator will wait for say nothing."""
        self.other = self.cluster.client.submit(job_on_every_node(f"{self.script.job.job}-other", len(NODES)))
        self.cluster.client.wait_for(self.other, ("running",), limit_s=LIMIT_S)
        os.kill(self.cluster.pid(NODES[0]), signal.SIGSTOP)

    def _let_recover(self) -> None:
        if self.other:
            os.kill(self.cluster.pid(NODES[0]), signal.SIGCONT)

    def _start_orchestrator(self, tests: Sequence[InjectionTest]) -> None:
        self._stop_orchestrator()
        write_document(self.path, InjectionTests(tests=tuple(tests)))
        self.cluster.start_orchestrator("--inject", str(self.path))

    def _stop_orchestrator(self) -> None:
        """End the orchestrator, or bury it."""
        if self._is_dead():
            self.cluster.kill("orchestrator")
        else:
            self.cluster.kill_orchestrator()

    def _drive(self) -> None:
        """Submit the job, where it is not there yet, and do what the script says; until the fault has struck and the script is
        over, the orchestrator is dead, or the transition was passed by."""
        ends_s = time.monotonic() + LIMIT_S / 2
        acted, over_s = False, math.inf
        while time.monotonic() < min(ends_s, over_s + PASSED_S) and not self._is_dead():
            try:
                if not self.job:
                    self._submit()
                story = self.cluster.client.job(self.job)
                if not acted and self._is_time_to_act(story):
                    self._act(story)
                    acted = True
                elif self._is_over(story, acted=acted):
                    over_s = min(over_s, time.monotonic())
                    self._note_strike()
                    if self.injected or self.missed:
                        return
            except (OrchestratorUnreachable, ClientError):
                pass  # it is dying, or busy: looked at again
            time.sleep(POLL_S)

    def _submit(self) -> None:
        """Submit, or find what an orchestrator that died had taken without having answered."""
        taken = [line for line in self.cluster.client.jobs(limit=20) if line["name"] == self.script.job.job]
        self.job = int(taken[0]["id"]) if taken else self.cluster.client.submit(self.script.job)

    def _is_time_to_act(self, story: dict[str, Any]) -> bool:
        if self.script.act == "none" or self.script.at is None:
            return False
        if self.script.act in ("fail", "activate", "drain") and not self._has_started(story):
            return False
        return bool(story["state"] == self.script.at)

    def _has_started(self, story: dict[str, Any]) -> bool:
        host = {status.key: status.state for name in NODES for status in self._host(name)}
        wanted = [replica["key"] for task in story["tasks"] for replica in task["replicas"]]
        return bool(wanted) and all(host.get(key) in ("running", "idle", "finished") for key in wanted)

    def _act(self, story: dict[str, Any]) -> None:
        replicas = [replica for task in story["tasks"] for replica in task["replicas"]]
        match self.script.act:
            case "cancel":
                threading.Timer(0.5, self._let_recover).start()  # the call is answered when the job is canceled
                self.cluster.client.cancel(self.job)
            case "fail":
                first = min(replicas, key=lambda replica: str(replica["key"]))
                request_failure(self.cluster.node_work(first["node"]), FailureRequest(keys=(first["key"],)))
            case "drain":
                self.cluster.client.drain(min(replicas, key=lambda replica: str(replica["key"]))["node"])
            case "activate":
                self.cluster.client.activate(self.job, {"work/0": [0]})

    def _is_over(self, story: dict[str, Any], *, acted: bool) -> bool:
        wants_act = self.script.act != "none" and not acted
        return bool(story["ended"]) or (story["state"] in self.script.ends and not wants_act and self._has_started(story))

    def _is_dead(self) -> bool:
        return self.cluster.exit_code("orchestrator") is not None

    def _note_strike(self) -> None:
        if self._is_dead():
            self.injected = self.injected or self.test.fault == "crash-orchestrator"
            return
        try:
            events = self.cluster.client.events()["events"]
        except (OrchestratorUnreachable, ClientError):
            return
        told = [event["data"] for event in events if event["data"].get("test") == self.test.name]
        missed = [data["missed"] for data in told if "missed" in data]  # each was told before as a strike
        self.injected = self.injected or len(told) > 2 * len(missed)
        self.missed = "" if self.injected or not missed else missed[-1]

    def _mend(self) -> None:
        """Start again, without faults, what a fault has killed."""
        if self._is_dead():
            self._stop_orchestrator()
            self.cluster.start_orchestrator()
        if self.test.fault in DETACHES:
            for name in NODES:
                if self.cluster.exit_code(name) is not None:
                    self.cluster.kill(name)
                    self.cluster.start_node(name)

    def _settle(self) -> str:
        """Wait until the job is where it should end up, doing again what was not acknowledged; the state it is in."""
        wanted = self.script.ends | self.script.also | ({"failed", "canceled"} if self.test.fault == "raise" else frozenset())
        story: dict[str, Any] = {"state": "unknown"}

        def settled() -> bool:
            nonlocal story
            if not self.job:
                self._submit()
            if self.script.act == "cancel" and not self._is_canceled(story):
                self._cancel(self.job)
            story = self.cluster.client.job(self.job)
            return story["state"] in wanted and (story["ended"] or self._agrees(story))

        self._wait(settled, what=f"job {self.job} {' or '.join(sorted(wanted))}", shown=lambda: f"it is {story['state']}")
        return str(story["state"])

    def _is_canceled(self, story: dict[str, Any]) -> bool:
        return story["state"] == "canceling" or bool(story.get("ended"))

    def _cancel(self, job: int) -> None:
        try:
            self.cluster.client.cancel(job)
        except ClientError as error:
            if error.status not in (409, 503):
                raise

    def _agrees(self, story: dict[str, Any]) -> bool:
        """Whether the orchestrator believes of every replica what its PE host says of it."""
        host = {(status.key, status.incarnation): status.state for name in NODES for status in self._host(name)}
        for task in story["tasks"]:
            for replica in task["replicas"]:
                if replica["state"] == "abandoned":
                    continue
                if replica["state"] not in ("running", "idle", "finished"):
                    return False
                if host.get((replica["key"], replica["incarnation"]), "finished") != replica["state"]:
                    return False
        return True

    def _errors(self, state: str) -> Iterator[str]:
        mine = {key: count for key, count in (self.cluster.starts() - self.before).items() if key[0].startswith(f"{self.job}:")}
        for (key, incarnation), count in sorted(mine.items()):
            if count > 1:
                yield f"replica {key} was started {count} times in incarnation {incarnation}"
        if self.test.fault in TOUCHES_PES:
            return
        allowed = 1 + self.script.restarts
        for key, incarnation in sorted(mine):
            if incarnation > allowed:
                yield f"replica {key} was started anew (incarnation {incarnation}) without need"
        if self._pids() != self.pids:
            yield f"PE hosts were started anew: {self.pids} before, {self._pids()} after"

    def _clear(self) -> Iterator[str]:
        """Take the job away and see that nothing of it is left; leave the nodes as they were."""
        try:
            self._wait(self._is_gone, what="nothing left of the job")
            for node in self.cluster.client.nodes():
                if node["state"] in ("draining", "drained"):
                    self.cluster.client.drain(node["name"], drain=False)
            self.cluster.wait_for_nodes(len(NODES))
            self._wait(lambda: len(self._pids()) == len(NODES), what="every PE host back")
        except HoldfastError as error:
            yield str(error)

    def _is_gone(self) -> bool:
        if self._is_dead():
            self._stop_orchestrator()
            self.cluster.start_orchestrator()
        for job in filter(None, (self.job, self.other)):
            if not self.cluster.client.job(job)["ended"]:
                self._cancel(job)
                return False
        if not self.job:
            return True
        return not any(status.key.startswith(f"{self.job}:") for name in NODES for status in self._host(name))

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

    def _host(self, name: str) -> tuple[Any, ...]:
        status = WatchedFile(self.cluster.node_work(name) / STATUS, HostStatus).read()
        return () if status is None else status.replicas

    def _pids(self) -> dict[str, int]:
        """The PE hosts that live."""
        found = {name: living_host(self.cluster.node_work(name)) for name in NODES}
        return {name: pid for name, pid in found.items() if pid is not None}
