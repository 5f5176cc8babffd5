"""The process of a prediction agent: finds its task's log, watches it, and says several times a second how it goes. No JVM.

Its node controller speaks to it as to a PE host: by files in its work folder, each replaced whole, so that either can be killed.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from argparse import ArgumentParser
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

from holdfast.documents.document import check_document
from holdfast.documents.history import History
from holdfast.documents.job import Job, Task
from holdfast.errors import CompoundError, HoldfastError
from holdfast.log import Store
from holdfast.log.readiness import mark_ready
from holdfast.log.record import AGENT_PREFIX
from holdfast.log.shared_streams import resolve_log_locations
from holdfast.log.timeline import read_timeline
from holdfast.prediction.agent.inputs import stores_of
from holdfast.prediction.agent.prediction_agent import POLL_S, PredictionAgent
from holdfast.prediction.contract_terms import check_orders
from holdfast.prediction.warm_up import rehearse
from holdfast.protocol.messages import AssignedAgent, Assignment, HostStatus
from holdfast.protocol.node_files import ASSIGNMENT, WatchedFile, write_status
from holdfast.runtime.output_writer import OutputWriter

BEAT_S = 0.5
AGAIN_S = 1.0
"""How long an agent that cannot read its log waits before it tries again."""


class AgentProcess:
    """One agent, from its assignment to its end."""

    def __init__(self, work: Path, node: str) -> None:
        self._work, self._node = work, node
        self._history = History(work / f"history-{os.getpid()}.jsonl", f"agent on {node}")
        self._file = WatchedFile(work / ASSIGNMENT, Assignment)
        self._started_s = time.time()
        self._agent: PredictionAgent | None = None
        self._revision = 0
        self._refused: str | None = None
        self._error: str | None = None
        self._contract_error: str | None = None
        self._ready = False
        self._process = psutil.Process()
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self.stopping = threading.Event()

    def run(self) -> None:
        """Watch until told to stop. A log that cannot be read is tried again; what is wrong with the contract is told, and so is a
        step that fails for any other reason: what is next may well be watched."""
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        rehearse()
        learner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="learner")
        while not self.stopping.is_set():
            try:
                pause_s = self._step(learner)
                self._error = None
            except HoldfastError as error:
                self._error, pause_s = str(error), AGAIN_S
                self._contract_error = str(error) if isinstance(error, CompoundError) else None
            except Exception as error:
                said, pause_s = f"{type(error).__name__}: {error}", AGAIN_S
                if said != self._error:
                    logging.getLogger("holdfast").exception("a step of the agent failed")
                self._error = said
            self.stopping.wait(pause_s)
        learner.shutdown(wait=False, cancel_futures=True)  # its last words wait for no algorithm
        self._write_status()
        self._history.close()

    def _step(self, learner: ThreadPoolExecutor) -> float:
        assignment = self._file.read()
        if assignment is None or not assignment.agents:
            return 4 * POLL_S
        (assigned,) = assignment.agents
        with self._lock:
            if self._agent is None:
                self._agent = self._made(assigned, assignment, learner)
            if self._agent is None:
                return 4 * POLL_S
            if assigned.revision != self._revision:
                self._obey(self._agent, assigned)
            return self._agent.step()

    def _made(self, assigned: AssignedAgent, assignment: Assignment, learner: ThreadPoolExecutor) -> PredictionAgent | None:
        """The agent of a task, once the job's first source has begun or the jobs that feed it have; a trace waits for its word."""
        settings = assignment.jobs.get(assigned.job)
        if settings is None:
            raise HoldfastError(f"its assignment does not describe job {assigned.job}")
        job = check_document(settings["job"], Job, thing=f"job {assigned.job}")
        tasks = [check_document(task, Task, thing=f"task of job {assigned.job}") for task in settings["tasks"]]
        task = next((task for task in tasks if task.name == assigned.task), None)
        if task is None or job.log is None:
            raise HoldfastError(f"job '{job.job}' has no task '{assigned.task}' with a log to watch")
        store = Store(job.log)
        stores = stores_of(task, store, resolve_log_locations(store, settings.get("logs", {})))
        timeline = read_timeline(store)
        name = f"{AGENT_PREFIX}{task.name}"
        if timeline is None:
            if not self._ready:
                mark_ready(store, name)
                self._ready = True
            return None
        outbox = OutputWriter(store, task.task, f"{name} on {self._node}", timeline, self._history.tell)
        keys = settings.get("keys", {})
        made = PredictionAgent(task, job.contract_of(task.pe), keys=keys, outbox=outbox, stores=stores, learner=learner)
        self._history.tell("agent", {"task": task.name, "pid": os.getpid(), "what": "watches"})
        return made

    def _obey(self, agent: PredictionAgent, assigned: AssignedAgent) -> None:
        """Take an order once; one that cannot be carried out is told and changes nothing."""
        self._revision = assigned.revision
        try:
            epoch_s = agent.timeline.epoch_s / agent.timeline.speed
            agent.change(check_orders(assigned.orders, agent.given, epoch_s=epoch_s).applied_to(agent.given))
            self._refused = None
            self._history.tell("agent", {"task": agent.task.name, "what": "changed", "orders": assigned.orders})
        except HoldfastError as error:
            self._refused = str(error)

    def _beat(self) -> None:
        while not self.stopping.is_set():
            try:
                self._write_status()
            except OSError as error:  # a full disk: silent for a while, but not for good
                print(f"the agent's status cannot be written: {error}", file=sys.stderr)
            time.sleep(BEAT_S)

    def _write_status(self) -> None:
        """Say how it goes. One at a time: both threads would write the same file."""
        with self._writing:
            write_status(self._work, self._status())

    def _status(self) -> HostStatus:
        with self._lock:
            about = self._agent.view() if self._agent is not None else self._unmade()
        with self._process.oneshot():
            cpu, memory = self._process.cpu_times(), self._process.memory_info()
            return HostStatus(
                pid=os.getpid(),
                started_s=self._started_s,
                beat_s=time.time(),
                ready=self._agent is not None,
                error=self._error,
                cpu_s=cpu.user + cpu.system,
                memory_bytes=memory.rss,
                threads=self._process.num_threads(),
                about={
                    **about,
                    "node": self._node,
                    "revision": self._revision,
                    "refused": self._refused,
                    "written_bytes": self._written_bytes(),
                },
            )

    def _written_bytes(self) -> int | None:
        """What it has written so far, to the log and beside it; None on systems that do not tell."""
        told = getattr(self._process, "io_counters", None)
        return None if told is None else told().write_chars

    def _unmade(self) -> dict[str, Any]:
        """What there is to say before there is an agent: that the job has not begun, or why its contract cannot be kept."""
        return {"state": "waiting"} if self._contract_error is None else {"state": "broken", "problem": self._contract_error}


def main() -> None:
    parser = ArgumentParser(prog="python -m holdfast.prediction.agent.process", description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--node", required=True)
    arguments = parser.parse_args()
    process = AgentProcess(arguments.work, arguments.node)
    signal.signal(signal.SIGTERM, lambda *_: process.stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process.run()
    sys.exit(0)


if __name__ == "__main__":
    main()
