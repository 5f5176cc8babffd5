"""The observer of jobs on Spark. It runs the other modules of this package for each job, and takes over from prediction agents."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.control.observers.abandoned_tasks import AbandonedTasks, fail_if_nothing_can_begin
from holdfast.control.observers.absent_epochs import AbsentCommitter
from holdfast.control.observers.activation import ActivationController, RateMonitor
from holdfast.control.observers.adaptation import Adaptor, TaskRates
from holdfast.control.observers.hung_replicas import HungReplicas
from holdfast.control.observers.job_observers import Decision, FailReplica, JobView
from holdfast.control.observers.upstream_backup import UpstreamBackup
from holdfast.control.recovery.restart_decision import STEADY_S
from holdfast.documents.document import check_document, read_document
from holdfast.documents.job import Task
from holdfast.documents.topology import Topology
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Store
from holdfast.log.shared_streams import resolve_log_locations
from holdfast.log.stream_progress import StreamProgress
from holdfast.log.timeline import Timeline, read_timeline
from holdfast.log.trimming import remove_ended_readers
from holdfast.planning.laar.strategy import Strategy

GONE_AFTER_S = 60.0
"""A job that has not been observed for this long has ended."""
LEAST_S = STEADY_S + 5.0
"""A restarted replica gets at least this long. By then its failures are forgotten, so a slow replica is never abandoned."""


@dataclass
class _JobWatchers:
    tasks: tuple[Task, ...]
    absent: AbsentCommitter
    upstream: UpstreamBackup
    monitor: RateMonitor
    hung: HungReplicas
    abandoned: AbandonedTasks
    controller: ActivationController | None
    adaptor: Adaptor | None


class Readers:
    """Knows which jobs live, and removes the marks of ended readers, which would keep a log from being trimmed.

    It waits after the start of an orchestrator until every job has had time to be observed.
    """

    def __init__(self, open_store: Callable[[str], Store]) -> None:
        self._open_store = open_store
        self._observed_s: dict[str, float] = {}
        self._began_s: float | None = None
        self._cleared_s: dict[int, float] = {}

    def update(self, view: JobView) -> None:
        """Note that a job lives. From time to time, remove the marks of ended jobs from its log."""
        now = self._observed_s[view.job.job] = view.now_s
        if self._began_s is None:
            self._began_s = now
        due = self._cleared_s.get(view.id, self._began_s) + GONE_AFTER_S <= now
        if due and view.job.log is not None:
            self._cleared_s[view.id] = now
            remove_ended_readers(
                self._open_store(view.job.log), {name for name, at in self._observed_s.items() if at > now - GONE_AFTER_S}
            )


class SparkJobObserver:
    """Observes the jobs of one orchestrator. All it knows about a job can be read again from the log, so it may be killed."""

    def __init__(self, open_store: Callable[..., Store] = Store) -> None:
        self._open_store = open_store
        self._watchers: dict[int, _JobWatchers] = {}
        self._readers = Readers(open_store)

    async def observe(self, view: JobView) -> list[Decision]:
        """Return the decisions about a job. The log is read in a thread."""
        return await asyncio.to_thread(self.decide, view)

    def decide(self, view: JobView) -> list[Decision]:
        """Return the decisions about a job. This reads the log."""
        view = _without_shared(view)
        self._readers.update(view)
        watchers = self._watchers.get(view.id)
        if watchers is None or watchers.tasks != view.layout.tasks:
            watchers = self._watch(view)
        if watchers is None:
            return [*fail_if_nothing_can_begin(view.layout.tasks, view.replicas)]
        handed_over = {task for task, about in view.agents.items() if about.get("state") == "handed over"}
        decisions: list[Decision] = [*watchers.absent.check(view.replicas, view.now_s, handed_over=handed_over)]
        decisions += watchers.upstream.check(view.replicas, view.now_s)
        decisions += self._take_over(watchers, view, handed_over)
        decisions += watchers.hung.check(view.replicas, view.now_s)
        decisions += watchers.abandoned.check(view.replicas, view.now_s)
        if watchers.controller is not None:
            controller, measured = watchers.controller, watchers.monitor.rates()
            decisions += controller.follow(*measured, view.replicas) if measured else controller.replace_dead(view.replicas)
        if watchers.adaptor is not None:
            decisions += watchers.adaptor.check(view.replicas, view.now_s)
        return decisions

    def check_orders(self, view: JobView, task: str, orders: Mapping[str, Any]) -> None:
        """Raise HoldfastError for a change that the prediction agent would refuse. Safe in any thread."""
        from holdfast.prediction.contract_terms import check_orders

        assert view.job.log is not None
        timeline = read_timeline(self._open_store(view.job.log))
        if timeline is None:
            raise HoldfastError(f"job {view.id} has not begun; change its agents after its first epoch has begun")
        check_orders(orders, view.job.contract_of(task.rpartition("/")[0]), epoch_s=timeline.epoch_s / timeline.speed)

    @staticmethod
    def _take_over(watchers: _JobWatchers, view: JobView, handed_over: set[str]) -> list[FailReplica]:
        """Return decisions to fail the replicas that an agent has predicted for as long as it may. The policy restarts them.

        A new incarnation gets as long as the agent gave the previous one: until it commits something, the agent still reports that
        it has handed over.
        """
        if view.job.policy.restart == "never":
            return []
        timeline = watchers.absent.timeline
        failed: list[FailReplica] = []
        for replica in view.replicas:
            if replica.task in handed_over and replica.active and replica.state == "running":
                most_epochs = view.job.contract_of(replica.task.rpartition("/")[0]).predicting.most_epochs
                if view.now_s - replica.since_s >= max(LEAST_S, most_epochs * timeline.epoch_s / timeline.speed):
                    cause = f"{replica.task} was predicted for as long as its contract allows, and is not back"
                    failed.append(FailReplica(replica.key, replica.incarnation, cause=cause))
        return failed

    def _watch(self, view: JobView) -> _JobWatchers | None:
        """Return the watchers of a job, or None before its first source has begun."""
        assert view.job.log is not None
        store = self._open_store(view.job.log, sync=view.job.sync)
        timeline = read_timeline(store)
        if timeline is None:
            return None
        tasks = view.layout.tasks
        strategy = read_document(view.job.strategy, Strategy) if view.job.strategy else None
        others = {name: EpochLog(self._open_store(log)) for name, log in resolve_log_locations(store, {}).items()}
        watchers = _JobWatchers(
            tasks,
            AbsentCommitter(view.job, tasks, store, timeline, others),
            UpstreamBackup(view.job, tasks, store, timeline, others),
            RateMonitor(StreamProgress(EpochLog(store), timeline, others), tasks),
            HungReplicas(view.job.policy, tasks, EpochLog(store), timeline, others),
            AbandonedTasks(view.job, tasks, StreamProgress(EpochLog(store), timeline, others)),
            ActivationController(strategy, tasks, timeline.epoch_s / timeline.speed) if strategy is not None else None,
            _adaptor(view, store, timeline, others) if view.job.adapt is not None else None,
        )
        self._watchers[view.id] = watchers
        return watchers


def _without_shared(view: JobView) -> JobView:
    """Return a view without the PEs that the job shares: these have another log and are observed with their own job."""
    own = tuple(task for task in view.layout.tasks if task.shared is None)
    if len(own) == len(view.layout.tasks):
        return view
    replicas = tuple(replica for replica in view.replicas if replica.key.startswith(f"{view.id}:"))
    return replace(view, layout=view.layout.model_copy(update={"tasks": own}), replicas=replicas)


def _adaptor(view: JobView, store: Store, timeline: Timeline, others: Mapping[str, EpochLog]) -> Adaptor:
    assert view.job.adapt is not None
    topology = check_document(view.layout.settings["topology"], Topology, thing=f"topology of job {view.id}")
    planned = tuple(view.layout.settings["planned"])
    rates = TaskRates(EpochLog(store), timeline, view.layout.tasks, others)
    return Adaptor(view.job.adapt, topology, planned, view.layout.tasks, rates, store)
