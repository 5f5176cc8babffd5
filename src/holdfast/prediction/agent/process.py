"""The process of a prediction agent: watches the log of its task and reports its status several times a second. It has no JVM.

Like a PE host, it communicates with its node controller by files in its work folder. Each file is replaced as a whole, so that
either process can be killed at any moment.
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
from holdfast.prediction.agent.prediction_agent import POLL_S, PredictionAgent
from holdfast.prediction.agent.task_inputs import input_stores
from holdfast.prediction.contract_terms import check_orders
from holdfast.prediction.warm_up import compile_predictors
from holdfast.protocol.messages import AssignedAgent, Assignment, HostStatus
from holdfast.protocol.node_files import ASSIGNMENT, WatchedFile, write_status
from holdfast.runtime.output_writer import OutputWriter

BEAT_S = 0.5
RETRY_S = 1.0
"""How long the process waits after a failed step."""


class AgentProcess:
    """Runs one agent, from its assignment until it is stopped."""

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
        """Watch until stopped. Report a step that fails, be it for an unreadable log or a wrong contract, and retry."""
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        compile_predictors()
        trainer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trainer")
        while not self.stopping.is_set():
            try:
                pause_s = self._step(trainer)
                self._error = None
            except HoldfastError as error:
                self._error, pause_s = str(error), RETRY_S
                self._contract_error = str(error) if isinstance(error, CompoundError) else None
            except Exception as error:
                text, pause_s = f"{type(error).__name__}: {error}", RETRY_S
                if text != self._error:
                    logging.getLogger("holdfast").exception("a step of the agent failed")
                self._error = text
            self.stopping.wait(pause_s)
        if self._agent is not None:
            self._agent.save()
        trainer.shutdown(wait=False)  # the last status does not wait for an algorithm
        self._write_status()
        self._history.close()

    def _step(self, trainer: ThreadPoolExecutor) -> float:
        assignment = self._file.read()
        if assignment is None or not assignment.agents:
            return 4 * POLL_S
        (assigned,) = assignment.agents
        with self._lock:
            if self._agent is None:
                self._agent = self._start_agent(assigned, assignment, trainer)
            if self._agent is None:
                return 4 * POLL_S
            if assigned.revision != self._revision:
                self._apply_orders(self._agent, assigned)
            return self._agent.step()

    def _start_agent(self, assigned: AssignedAgent, assignment: Assignment, trainer: ThreadPoolExecutor) -> PredictionAgent | None:
        """Return the agent of a task; None while the job has no timeline yet. Then report ready, because a trace waits for that."""
        settings = assignment.jobs.get(assigned.job)
        if settings is None:
            raise HoldfastError(f"its assignment does not describe job {assigned.job}")
        job = check_document(settings["job"], Job, thing=f"job {assigned.job}")
        tasks = [check_document(task, Task, thing=f"task of job {assigned.job}") for task in settings["tasks"]]
        task = next((task for task in tasks if task.name == assigned.task), None)
        if task is None or job.log is None:
            raise HoldfastError(f"job '{job.job}' has no task '{assigned.task}' with a log to watch")
        store = Store(job.log, sync=job.sync, owner=settings.get("owner", ""))
        stores = input_stores(task, store, resolve_log_locations(store, settings.get("logs", {})))
        timeline = read_timeline(store)
        name = f"{AGENT_PREFIX}{task.name}"
        if timeline is None:
            if not self._ready:
                mark_ready(store, name)
                self._ready = True
            return None
        outbox = OutputWriter(store, task.task, f"{name} on {self._node}", timeline, self._history.append)
        keys = settings.get("keys", {})
        agent = PredictionAgent(task, job.contract_of(task.pe), keys=keys, outbox=outbox, stores=stores, trainer=trainer)
        self._history.append("agent", {"task": task.name, "pid": os.getpid(), "what": "watches"})
        return agent

    def _apply_orders(self, agent: PredictionAgent, assigned: AssignedAgent) -> None:
        """Apply a change once. An invalid one is reported as refused and changes nothing."""
        self._revision = assigned.revision
        try:
            epoch_s = agent.timeline.epoch_s / agent.timeline.speed
            agent.change(check_orders(assigned.orders, agent.job_contract, epoch_s=epoch_s).applied_to(agent.job_contract))
            self._refused = None
            self._history.append("agent", {"task": agent.task.name, "what": "changed", "orders": assigned.orders})
        except HoldfastError as error:
            self._refused = str(error)

    def _beat(self) -> None:
        while not self.stopping.is_set():
            try:
                self._write_status()
            except OSError as error:  # such as a full disk; the next beat tries again
                print(f"the agent's status cannot be written: {error}", file=sys.stderr)
            time.sleep(BEAT_S)

    def _write_status(self) -> None:
        """Write the status file, in one thread at a time."""
        with self._writing:
            write_status(self._work, self._status())

    def _status(self) -> HostStatus:
        with self._lock:
            build = self._agent.view() if self._agent is not None else self._document_without_agent
        about = build()  # without the lock, because a step may be due
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
                    **self._transferred_bytes(),
                },
            )

    def _transferred_bytes(self) -> dict[str, int | None]:
        """Return the bytes that this process has read and written; None on systems that do not count them."""
        if not hasattr(self._process, "io_counters"):
            return {"read_bytes": None, "written_bytes": None}
        counters = self._process.io_counters()
        return {"read_bytes": counters.read_chars, "written_bytes": counters.write_chars}

    def _document_without_agent(self) -> dict[str, Any]:
        """Return the status before there is an agent: the job has not begun, or the contract is wrong."""
        return {"state": "waiting"} if self._contract_error is None else {"state": "broken", "error": self._contract_error}


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
