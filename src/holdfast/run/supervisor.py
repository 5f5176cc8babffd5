"""What the orchestrator does for jobs on Spark beyond restarting them: stands in for dead producers and follows the load."""

import asyncio
from dataclasses import dataclass

from holdfast.log import Store
from holdfast.manage.supervisors import Decision, JobView
from holdfast.model.document import read_document
from holdfast.plan.laar.strategy import Strategy
from holdfast.run.activation import Controller, RateMonitor
from holdfast.run.stand_in import StandIn
from holdfast.run.timeline import timeline_of


@dataclass
class _Watched:
    stand_in: StandIn
    monitor: RateMonitor
    controller: Controller | None


class SparkSupervisor:
    """Looks at the jobs of one orchestrator. What it remembers of a job can be found again from the log: it may be killed."""

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}

    async def observe(self, view: JobView) -> list[Decision]:
        """What to do about a job that looks like this; the log is read in a thread."""
        return await asyncio.to_thread(self._look, view)

    def _look(self, view: JobView) -> list[Decision]:
        watched = self._watched.get(view.id) or self._watch(view)
        if watched is None:
            return []
        decisions: list[Decision] = [*watched.stand_in.look(view.replicas, view.now_s)]
        if watched.controller is not None:
            measured = watched.monitor.rates(view.now_s)
            if measured is not None:
                decisions += watched.controller.follow(*measured, view.replicas)
        return decisions

    def _watch(self, view: JobView) -> _Watched | None:
        """Begin to watch a job once its first source has begun."""
        assert view.job.log is not None
        store = Store(view.job.log)
        timeline = timeline_of(store)
        if timeline is None:
            return None
        tasks = view.layout.tasks
        sources = {task.pe: sum(t.pe == task.pe for t in tasks) for task in tasks if task.kind == "source"}
        strategy = read_document(view.job.strategy, Strategy) if view.job.strategy else None
        made = _Watched(
            StandIn(view.job, tasks, store, timeline),
            RateMonitor(store, timeline, sources),
            Controller(strategy, tasks) if strategy is not None else None,
        )
        self._watched[view.id] = made
        return made
