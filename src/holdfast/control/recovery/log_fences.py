"""Where a canceled job is fenced off from its log, because nodes that cannot be reached may still run its replicas.

The job stays `canceling`, and keeps its name and its log, until each replica has stopped or the log takes no more of its records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from holdfast.control.nodes.replicas import PlacedReplica
from holdfast.documents.document import join_names
from holdfast.documents.job import Task
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.orchestrator import Orchestrator
    from holdfast.log import Store

RETRY_S = 5.0


class LogFences:
    """Fences off the jobs that are being stopped. `fence` is called whenever such a job is evaluated."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self._fencing: dict[int, int] = {}

    def is_needed(self, job: JobState, replicas: Sequence[PlacedReplica]) -> bool:
        """Return whether a job has to wait, because a replica may still run on a node. Starts to fence the job off if it is silent.

        A PE without a log writes nothing that could be fenced.
        """
        unconfirmed = [replica for replica in replicas if replica.left_on]
        for replica in unconfirmed:
            if self._log_of(replica.job) is None:
                self._end(replica, list(replica.left_on))
        unconfirmed = [replica for replica in unconfirmed if replica.left_on]
        silent = sorted({node for replica in unconfirmed for node in replica.left_on if self._is_silent(node)})
        if silent and self._fencing.get(job.id) != job.lifecycle.version:
            self._fencing[job.id] = job.lifecycle.version
            self._orchestrator.run_in_background(job, "the fence", self._fence(job, unconfirmed, silent))
        return bool(unconfirmed)

    async def _fence(self, job: JobState, replicas: Sequence[PlacedReplica], silent: Sequence[str]) -> None:
        events, nodes = self._orchestrator.events, join_names(silent)
        owners: dict[int, list[PlacedReplica]] = {}
        for replica in replicas:
            owners.setdefault(replica.job, []).append(replica)
        reported = ""
        while any(replica.left_on for replica in replicas):
            try:
                for owner in owners:
                    await asyncio.to_thread(self._fence_log, owner)
            except HoldfastError as error:
                text = f"waits until its PEs on {nodes} have stopped, because its log cannot be fenced: {error}"
                if text != reported:
                    events.emit("decision", text, job=job.id)
                reported = text
                await self._orchestrator.time.sleep(RETRY_S)
                continue
            events.emit("decision", f"its PEs on {nodes} may still run: its log takes nothing more from them", job=job.id)
            for replica in replicas:
                self._end(replica, list(replica.left_on))
        self._orchestrator.post_status(job)

    def _fence_log(self, number: int) -> None:
        from holdfast.log import Store

        owner = self._orchestrator.restart_policy.find_job(number)
        if owner is None or owner.document.log is None:
            return
        tasks = owner.layout.tasks if owner.layout is not None else ()
        fence_off(Store(owner.document.log), owner.log_owner, tasks)

    def _log_of(self, number: int) -> str | None:
        owner = self._orchestrator.restart_policy.find_job(number)
        return None if owner is None else owner.document.log

    def _is_silent(self, name: str) -> bool:
        node = self._orchestrator.resources.nodes.get(name)
        return node is None or node.state == "lost"

    def _end(self, replica: PlacedReplica, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._orchestrator.replicas.end(replica, node)


def fence_off(store: Store, owner: str, tasks: Sequence[Task]) -> None:
    """Close a log to a job: no record that it offers from now on will count. Raises LogError if the log cannot be reached."""
    from holdfast.log import EpochLog
    from holdfast.log.fences import fence_owner
    from holdfast.log.timeline import read_timeline

    fence_owner(store, owner)
    timeline = read_timeline(store)
    if timeline is None:  # no replica begins before there is one, and each then looks for its owner's fence
        return
    log = EpochLog(store)
    for stream, number in _streams(tasks):
        log.fence(stream, number, owner=owner, after=timeline.first - 1)


def _streams(tasks: Iterable[Task]) -> Iterable[tuple[str, int]]:
    return sorted({(stream, task.task) for task in tasks if task.shared is None for stream in task.makes})
