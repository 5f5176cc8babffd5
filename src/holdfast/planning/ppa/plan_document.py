"""The plan document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import Field

from holdfast.documents.document import Document, FieldError, Part, at_least, between
from holdfast.documents.topology import Topology, is_task
from holdfast.errors import DocumentError
from holdfast.planning.document_kinds import PLAN, plain, read_kind
from holdfast.planning.ppa.adaptation import Adaptation
from holdfast.planning.ppa.explanation import NextUnit as NextUnit
from holdfast.planning.ppa.explanation import PlannedReplica as PlannedReplica
from holdfast.planning.ppa.planner import Plan

ADVISE = "advise"
"""The planner of `holdfast advise`. Its quality is the measured share of the cost of single failures that a plan avoids."""


class UnreplicatedTask(Part):
    """A task without a replica, and the reason."""

    task: str
    why: str


class Changes(Part):
    """The changes from the current plan to this one (PPA section V-C)."""

    stop: tuple[str, ...]
    start: tuple[str, ...]
    current_quality: float
    best_quality: float
    move_worth: float


class PlanDocument(Document):
    """A plan as written by `holdfast plan` and `holdfast advise`. No plan of the same budget exceeds the quality `bound`.

    `parallelism` is the number of tasks of each operator that the plan was made for, so that `topology_errors` can detect a
    plan for another topology. A plan written by hand may omit it.
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
    unreplicated: tuple[UnreplicatedTask, ...] = ()
    next: NextUnit | None = None
    changes: Changes | None = None

    def errors(self) -> Iterable[FieldError]:
        """Yield every error that would mislead the user of the plan."""
        yield from at_least(0, ("budget",), self.budget)
        if self.quality is not None:
            yield from between(0, 1, ("quality",), self.quality)
        for name, tasks in self.parallelism.items():
            yield from at_least(1, ("parallelism", name), tasks)
        listed_tasks: set[str] = set()
        for index, replica in enumerate(self.replicated):
            if self.parallelism and not is_task(replica.task, self.parallelism):
                yield FieldError(("replicated", index), f"'{replica.task}' is not a task of the operators under 'parallelism'")
            if replica.task in listed_tasks:
                yield FieldError(("replicated", index), f"task '{replica.task}' is listed twice; keep one")
            listed_tasks.add(replica.task)
        if len(listed_tasks) > self.budget >= 0:
            yield FieldError(("replicated",), f"has {len(listed_tasks)} tasks, more than the budget of {self.budget}")

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the replicated tasks."""
        return tuple(replica.task for replica in self.replicated)

    def topology_errors(self, parallelism: Mapping[str, int]) -> list[str]:
        """Return why the plan does not apply to operators with these numbers of tasks; empty if it does."""
        if not self.parallelism:
            return [f"replicates '{task}', and there is no such task" for task in self.tasks if not is_task(task, parallelism)]
        errors = []
        for name in sorted(self.parallelism.keys() | parallelism.keys()):
            planned, actual = self.parallelism.get(name), parallelism.get(name)
            if actual is None:
                errors.append(f"plans operator '{name}', and there is none")
            elif planned is None:
                errors.append(f"does not know operator '{name}'")
            elif planned != actual:
                errors.append(f"plans {planned} tasks of operator '{name}', and there are {actual}")
        return errors


def read_plan(path: str | Path, *, topology: Topology | None = None) -> PlanDocument:
    """Read the plan at path. Raises DocumentError with every error, including mismatches with the topology."""
    errors: list[str] = []
    try:
        plan = read_kind(path, PlanDocument, kinds=[PLAN])
    except DocumentError as error:
        part = _readable_part(path)
        if topology is None or part is None:
            raise
        errors, plan = list(error.errors), part
    if topology is not None:
        if plan.topology != topology.topology:
            errors.append(f"topology: is a plan of topology '{plan.topology}', not of '{topology.topology}'")
        errors += plan.topology_errors({name: operator.parallelism for name, operator in topology.operators.items()})
    if errors:
        raise DocumentError(str(path), errors)
    return plan


def _readable_part(path: str | Path) -> PlanDocument | None:
    """Return the readable part of a plan with errors (topology and replicated tasks), or None."""
    data = plain(path)
    replicated, parallelism = data.get("replicated"), data.get("parallelism", {})
    tasks = [one.get("task") for one in replicated if isinstance(one, dict)] if isinstance(replicated, list) else []
    names = sorted({task for task in tasks if isinstance(task, str)})
    if not isinstance(data.get("topology"), str) or not isinstance(replicated, list) or not isinstance(parallelism, dict):
        return None
    if not all(isinstance(count, int) for count in parallelism.values()):
        parallelism = {}
    return PlanDocument.model_construct(
        topology=data["topology"],
        budget=0,
        parallelism=parallelism,
        replicated=tuple(PlannedReplica(task=task) for task in names),
    )


def plan_document(
    plan: Plan,
    topology: Topology,
    *,
    reasons: Iterable[PlannedReplica] = (),
    next_unit: NextUnit | None = None,
    adaptation: Adaptation | None = None,
) -> PlanDocument:
    """Return the document of a plan."""
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
        replicated=tuple(why.get(task, PlannedReplica(task=task)) for task in plan.tasks),
        next=next_unit,
        changes=changes,
    )
