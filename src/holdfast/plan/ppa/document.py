"""Plans and criticalities as documents."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.document import Document, Part, Problem, at_least, between
from holdfast.plan.ppa.adapt import Adaptation
from holdfast.plan.ppa.explain import Next, Reason
from holdfast.plan.ppa.planner import Plan


class Replica(Part):
    """A task with an active replica, what the plan would be worth without it, and why it is there."""

    task: str
    quality_without: float | None = None
    why: str | None = None


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
    """A plan as `holdfast plan` writes it. `bound` is a quality that no plan of the budget can exceed."""

    topology: str
    planner: str = "given"
    objective: str = "of"
    budget: int
    quality: float | None = None
    bound: float | None = None
    proven: bool | None = None
    replicated: tuple[Replica, ...]
    next: NextUnit | None = None
    changes: Changes | None = None

    def problems(self) -> Iterable[Problem]:
        """Everything that would mislead who applies the plan."""
        yield from at_least(0, ("budget",), self.budget)
        if self.quality is not None:
            yield from between(0, 1, ("quality",), self.quality)
        seen: set[str] = set()
        for index, replica in enumerate(self.replicated):
            if replica.task in seen:
                yield Problem(("replicated", index), f"task '{replica.task}' stands twice; keep one")
            seen.add(replica.task)
        if len(seen) > self.budget >= 0:
            yield Problem(("replicated",), f"has {len(seen)} tasks, more than the budget of {self.budget}")

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the replicated tasks."""
        return tuple(replica.task for replica in self.replicated)


class CriticalityDocument(Document):
    """What an assessment found the loss of each operator to cost, in output quality."""

    impact: dict[str, float]

    def problems(self) -> Iterable[Problem]:
        """Negative or infinite impacts."""
        for name, value in self.impact.items():
            yield from at_least(0, ("impact", name), value)


def plan_document(
    plan: Plan, *, reasons: Iterable[Reason] = (), next_unit: Next | None = None, adaptation: Adaptation | None = None
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
        planner=plan.planner,
        objective=plan.objective,
        budget=plan.budget,
        quality=plan.quality,
        bound=plan.bound,
        proven=plan.proven,
        replicated=tuple(
            Replica(task=task, quality_without=why[task].quality_without, why=why[task].why) if task in why else Replica(task=task)
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
