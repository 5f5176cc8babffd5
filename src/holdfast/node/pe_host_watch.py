"""Where a node notices that its PE host died or hangs: it reports the replicas that failed and starts the PE host again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from holdfast.node.host_health import HostHealth
from holdfast.node.pe_hosts import PeHost
from holdfast.node.replica_changes import changes_in_status, fail_replicas_of_dead_host, runnable_assignment
from holdfast.node.reports import ReplicaChange, Reports
from holdfast.protocol.messages import HostStatus

UNREADY_DEATHS = 3
"""After this many PE hosts in a row that died before they were ready, the replicas that wait for one are reported as failed."""
HUNG_S = 60.0
"""A PE host that is silent for this long is killed and started again. Its beat waits for no work, so it is not merely busy."""
HUNG_GRACE_S = 1.0


class PeHostWatch:
    """Watches a node's PE host. The node controller calls `check` whenever the PE host may have changed."""

    def __init__(
        self,
        host: PeHost,
        reports: Reports,
        *,
        log: Callable[[str], None],
        monotonic: Callable[[], float],
        hung_after_s: float,
        on_change: Callable[[], None],
    ) -> None:
        self._host, self._reports, self._on_change = host, reports, on_change
        self._log, self._now, self._hung_after_s = log, monotonic, hung_after_s
        self._health = HostHealth()

    @property
    def stalled_s(self) -> float:
        """For how long the PE host has been silent, if that is longer than a busy machine explains; else 0."""
        return self._health.stalled_s(self._now())

    async def check(self) -> None:
        """Record what changed in the PE host. Kill it if it is hung, and start it if it is dead."""
        alive = self._host.alive()  # before its status: the status of a dead host is then its last
        status = self._host.status()
        self._health.observe(status, self._now(), alive=alive)
        if status is not None:
            await self.record(changes_in_status(self._reports.known, self._reports.assignment, status))
        cause = None
        if alive and self._health.is_hung(self._now(), after_s=self._hung_after_s):
            cause = f"the PE host was silent for {self._health.silent_s(self._now()):.0f} s and was killed"
            await self._host.stop(HUNG_GRACE_S)
            alive = self._host.alive()
        if alive:
            self._host.clean()
            return
        await self._notice_death(status, cause=cause)
        if self._now() >= self._health.start_at_s:
            self._host.start(runnable_assignment(self._reports.assignment, self._reports.known))
            self._health.note_start(self._now())

    async def record(self, changes: Iterable[ReplicaChange]) -> None:
        """Store changes of replicas as reports, and announce them."""
        if new := list(changes):
            await asyncio.to_thread(self._reports.record, new)
            self._on_change()

    async def _notice_death(self, status: HostStatus | None, *, cause: str | None) -> None:
        """Record that the replicas of the dead PE host are lost. `status` is its last one."""
        has_just_died = self._health.note_death(self._now())
        cause = cause or (self._host.death() if has_just_died else "the PE host was already dead when its node came back")
        if has_just_died:
            self._log(f"{cause}; starting it again in {self._health.wait_s:g} s")
        died_of_error = self._health.has_died and status is not None and status.error is not None and not status.ready
        cannot_start = died_of_error or self._health.unready_deaths >= UNREADY_DEATHS
        lost = fail_replicas_of_dead_host(self._reports.known, self._reports.assignment, cause=cause, cannot_start=cannot_start)
        await self.record(lost)
