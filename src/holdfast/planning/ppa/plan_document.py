"""Plans as documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import Field

from holdfast.documents.document import Document, FieldError, Part, at_least, between
from holdfast.documents.topology import Topology, is_task
from holdfast.errors import DocumentError
from holdfast.planning.document_kinds import PLAN, plain, read_kind
from holdfast.planning.ppa.adaptation import Adaptation
from holdfast.planning.ppa.explanation import Next, Reason
from holdfast.planning.ppa.planner import Plan

ADVISE = "advise"
"""The planner whose plans are worth the share of what single failures are expected to cost that they spare, as was measured."""


class PlannedReplica(Part):
    """A task with an active replica, what the plan would be worth without it, and why it is there."""

    task: str
    quality_without: float | None = None
    why: str | None = None


class Left(Part):
    """A task without a replica, and why it has none."""

    task: str
    why: str


class NextUnit(Part):
    """The least addition to the budget that buys anything."""

    replicas: int
    quality: float
    start: tuple[str, ...]
    stop: tuple[str, ...] = ()
    why: str


class Changes(Part):
    """From the current plan to this one (section V-C)."""

    stop: tuple[str, ...]
    start: tuple[str, ...]
    current_quality: float
    best_quality: float
    move_worth: float


class PlanDocument(Document):
    """A plan as `holdfast plan` and `holdfast advise` write it. `bound` is a quality that no plan of the budget can exceed.

    `parallelism` gives the number of tasks of each operator that the plan was made for, so that a plan for another
    topology can be told by `topology_errors`. A plan written by hand may leave it out.
    """

    topology: str
    parallelism: dict[str, int] = Field(default_factory=dict)
    planner: str = "given"
    objective: str = "of"
    budget: int
    quality: float | None = None
    bound: float | None = None
    proven: bool | None = None
    replicated: tuple[PlannedReplica, ...]
    left: tuple[Left, ...] = ()
    next: NextUnit | None = None
    changes: Changes | None = None

    def errors(self) -> Iterable[FieldError]:
        """Everything that would mislead who applies the plan."""
        yield from at_least(0, ("budget",), self.budget)
        if self.quality is not None:
            yield from between(0, 1, ("quality",), self.quality)
        for name, tasks in self.parallelism.items():
            yield from at_least(1, ("parallelism", name), tasks)
        seen: set[str] = set()
        for index, replica in enumerate(self.replicated):
            if self.parallelism and not is_task(replica.task, self.parallelism):
                yield FieldError(("replicated", index), f"'{replica.task}' is no task of the operators under 'parallelism'")
            if replica.task in seen:
                yield FieldError(("replicated", index), f"task '{replica.task}' stands twice; keep one")
            seen.add(replica.task)
        if len(seen) > self.budget >= 0:
            yield FieldError(("replicated",), f"has {len(seen)} tasks, more than the budget of {self.budget}")

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the replicated tasks."""
        return tuple(replica.task for replica in self.replicated)

    def topology_errors(self, parallelism: Mapping[str, int]) -> list[str]:
        """What keeps the plan from being applied to operators of these numbers of tasks, in words; empty if it fits."""
        if not self.parallelism:
            return [f"replicates '{task}', and there is no such task" for task in self.tasks if not is_task(task, parallelism)]
        found = []
        for name in sorted(self.parallelism.keys() | parallelism.keys()):
            planned, there = self.parallelism.get(name), parallelism.get(name)
            if there is None:
                found.append(f"plans operator '{name}', and there is none")
            elif planned is None:
                found.append(f"does not know operator '{name}'")
            elif planned != there:
                found.append(f"plans {planned} tasks of operator '{name}', and there are {there}")
        return found


def read_plan(path: str | Path, *, topology: Topology | None = None) -> PlanDocument:
    """The plan at path; DocumentError with everything that keeps it from being one, or one of the topology."""
    told: list[str] = []
    try:
        plan = read_kind(path, PlanDocument, wanted=[PLAN])
    except DocumentError as error:
        known = _as_far_as_known(path)
        if topology is None or known is None:
            raise
        told, plan = list(error.errors), known
    if topology is not None:
        if plan.topology != topology.topology:
            told.append(f"topology: is a plan of topology '{plan.topology}', not of '{topology.topology}'")
        told += plan.topology_errors({name: operator.parallelism for name, operator in topology.operators.items()})
    if told:
        raise DocumentError(str(path), told)
    return plan


def _as_far_as_known(path: str | Path) -> PlanDocument | None:
    """Of a plan with errors, what it replicates of which topology; None where that is not to be had."""
    known = plain(path)
    replicated, parallelism = known.get("replicated"), known.get("parallelism", {})
    tasks = [one.get("task") for one in replicated if isinstance(one, dict)] if isinstance(replicated, list) else []
    names = sorted({task for task in tasks if isinstance(task, str)})
    if not isinstance(known.get("topology"), str) or not isinstance(replicated, list) or not isinstance(parallelism, dict):
        return None
    if not all(isinstance(count, int) for count in parallelism.values()):
        parallelism = {}
    return PlanDocument.model_construct(
        topology=known["topology"],
        budget=0,
        parallelism=parallelism,
        replicated=tuple(PlannedReplica(task=task) for task in names),
    )


def plan_document(
    plan: Plan,
    topology: Topology,
    *,
    reasons: Iterable[Reason] = (),
    next_unit: Next | None = None,
    adaptation: Adaptation | None = None,
) -> PlanDocument:
    """The document of a plan."""
    why = {reason.task: reason for reason in reasons}
    changes = None
    if adaptation is not None:
        changes = Changes(
            stop=adaptation.stop,
            start=adaptation.start,
            current_quality=adaptation.kept_quality,
            best_quality=adaptation.best_quality,
            move_worth=adaptation.move_worth,
        )
    return PlanDocument(
        topology=plan.topology,
        parallelism={name: topology.operators[name].parallelism for name in topology.order},
        planner=plan.planner,
        objective=plan.objective,
        budget=plan.budget,
        quality=plan.quality,
        bound=plan.bound,
        proven=plan.proven,
        replicated=tuple(
            PlannedReplica(task=task, quality_without=why[task].quality_without, why=why[task].why)
            if task in why
            else PlannedReplica(task=task)
            for task in plan.tasks
        ),
        next=None
        if next_unit is None
        else NextUnit(
            replicas=next_unit.replicas,
            quality=next_unit.quality,
            start=next_unit.start,
            stop=next_unit.stop,
            why=next_unit.why,
        ),
        changes=changes,
    )
