"""What the orchestrator does for jobs on Spark beyond restarting them: stands in for dead producers, wakes the replicas of late
ones, gives up hung ones, takes over from prediction agents, follows the load, moves to better plans, ends what cannot go on."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.control.observers.abandoned_tasks import AbandonedTasks, fail_if_nothing_can_begin
from holdfast.control.observers.absent_epochs import AbsentCommitter
from holdfast.control.observers.activation import ActivationController, RateMonitor
from holdfast.control.observers.adaptation import Adaptor, TaskRates
from holdfast.control.observers.hung_replicas import HungReplicas
from holdfast.control.observers.job_observers import Decision, Failed, JobView
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
"""A job that has not been seen for as long is gone."""
LEAST_S = STEADY_S + 5.0
"""What was started anew is given at least so long: its failures are forgotten by then, so that being slow is not given up for."""


@dataclass
class _Watched:
    tasks: tuple[Task, ...]
    stand_in: AbsentCommitter
    upstream: UpstreamBackup
    monitor: RateMonitor
    hung: HungReplicas
    ending: AbandonedTasks
    controller: ActivationController | None
    adaptor: Adaptor | None


class Readers:
    """Which jobs live, so that the marks of those that are gone do not keep a log from being trimmed.

    After an orchestrator's start every job must have had time to be seen.
    """

    def __init__(self) -> None:
        self._seen_s: dict[str, float] = {}
        self._began_s: float | None = None
        self._looked_s: dict[int, float] = {}

    def look(self, view: JobView) -> None:
        """Note that a job lives; now and then, clear its log of the marks of jobs that do not."""
        now = self._seen_s[view.job.job] = view.now_s
        if self._began_s is None:
            self._began_s = now
        due = self._looked_s.get(view.id, self._began_s) + GONE_AFTER_S <= now
        if due and view.job.log is not None:
            self._looked_s[view.id] = now
            remove_ended_readers(Store(view.job.log), {name for name, at in self._seen_s.items() if at > now - GONE_AFTER_S})


class SparkJobObserver:
    """Looks at the jobs of one orchestrator. What it remembers of a job can be found again from the log: it may be killed."""

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}
        self._readers = Readers()

    async def observe(self, view: JobView) -> list[Decision]:
        """What to do about a job that looks like this; the log is read in a thread."""
        return await asyncio.to_thread(self._look, view)

    def _look(self, view: JobView) -> list[Decision]:
        view = _own(view)
        self._readers.look(view)
        watched = self._watched.get(view.id)
        if watched is None or watched.tasks != view.layout.tasks:
            watched = self._watch(view)
        if watched is None:
            return [*fail_if_nothing_can_begin(view.layout.tasks, view.replicas)]
        handed_over = {task for task, about in view.agents.items() if about.get("state") == "handed over"}
        decisions: list[Decision] = [*watched.stand_in.look(view.replicas, view.now_s, handed_over=handed_over)]
        decisions += watched.upstream.look(view.replicas, view.now_s)
        decisions += self._take_over(watched, view, handed_over)
        decisions += watched.hung.look(view.replicas, view.now_s)
        decisions += watched.ending.look(view.replicas, view.now_s)
        if watched.controller is not None:
            measured = watched.monitor.rates()
            if measured is not None:
                decisions += watched.controller.follow(*measured, view.replicas)
        if watched.adaptor is not None:
            decisions += watched.adaptor.look(view.replicas, view.now_s)
        return decisions

    def check_orders(self, view: JobView, task: str, orders: Mapping[str, Any]) -> None:
        """Raise HoldfastError for a change of a prediction agent that it would refuse. Safe in any thread."""
        from holdfast.prediction.contract_terms import check_orders

        assert view.job.log is not None
        timeline = read_timeline(Store(view.job.log))
        if timeline is None:
            raise HoldfastError(f"job {view.id} has not begun; its agents can be changed when its first epoch has")
        check_orders(orders, view.job.contract_of(task.rpartition("/")[0]), epoch_s=timeline.epoch_s / timeline.speed)

    @staticmethod
    def _take_over(watched: _Watched, view: JobView, handed_over: set[str]) -> list[Failed]:
        """Count as failed what an agent has covered for as long as it may: where it is started anew is for its policy to say.

        A new incarnation is given as long as the agent gave the one before: until it has committed something, the agent goes on
        saying that it has handed over.
        """
        if view.job.policy.restart == "never":
            return []
        timeline = watched.stand_in.timeline
        failed: list[Failed] = []
        for replica in view.replicas:
            if replica.task in handed_over and replica.active and replica.state == "running":
                most_epochs = view.job.contract_of(replica.task.rpartition("/")[0]).predicting.most_epochs
                if view.now_s - replica.since_s >= max(LEAST_S, most_epochs * timeline.epoch_s / timeline.speed):
                    why = f"{replica.task} was covered for by prediction as long as its contract allows, and is not back"
                    failed.append(Failed(replica.key, replica.incarnation, why=why))
        return failed

    def _watch(self, view: JobView) -> _Watched | None:
        """Begin to watch a job once its first source has begun."""
        assert view.job.log is not None
        store = Store(view.job.log)
        timeline = read_timeline(store)
        if timeline is None:
            return None
        tasks = view.layout.tasks
        strategy = read_document(view.job.strategy, Strategy) if view.job.strategy else None
        others = {name: EpochLog(Store(log)) for name, log in resolve_log_locations(store, {}).items()}
        made = _Watched(
            tasks,
            AbsentCommitter(view.job, tasks, store, timeline, others),
            UpstreamBackup(view.job, tasks, store, timeline, others),
            RateMonitor(StreamProgress(EpochLog(store), timeline, others), tasks),
            HungReplicas(view.job.policy, tasks, EpochLog(store), timeline),
            AbandonedTasks(view.job, tasks, StreamProgress(EpochLog(store), timeline, others)),
            ActivationController(strategy, tasks) if strategy is not None else None,
            _adaptor(view, store, timeline, others) if view.job.adapt is not None else None,
        )
        self._watched[view.id] = made
        return made


def _own(view: JobView) -> JobView:
    """A job without the PEs of others that it shares: these are in another log, and seen to by themselves."""
    own = tuple(task for task in view.layout.tasks if task.shared is None)
    if len(own) == len(view.layout.tasks):
        return view
    replicas = tuple(replica for replica in view.replicas if replica.key.startswith(f"{view.id}:"))
    return replace(view, layout=view.layout.model_copy(update={"tasks": own}), replicas=replicas)


def _adaptor(view: JobView, store: Store, timeline: Timeline, others: Mapping[str, EpochLog]) -> Adaptor:
    assert view.job.adapt is not None
    topology = check_document(view.layout.settings["topology"], Topology, thing=f"topology of job {view.id}")
    given = tuple(view.layout.settings["planned"])
    rates = TaskRates(EpochLog(store), timeline, view.layout.tasks, others)
    return Adaptor(view.job.adapt, topology, given, view.layout.tasks, rates, store)
