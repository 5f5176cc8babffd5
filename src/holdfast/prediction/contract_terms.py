"""What a contract says of prediction, as the predicting parts want it; and everything that can be wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.app import Graph
from holdfast.documents.document import Part, check_document
from holdfast.documents.job import Contract, Job, Task
from holdfast.errors import CompoundError, DocumentError, HoldfastError
from holdfast.prediction import Cover, Predictor, PredictorSettings, default_predictors, make


class Orders(Part):
    """A change of an agent while it runs; what is None stays as it is.

    `algorithms` are names of installed ones with their parameters, and replace those in use.
    """

    algorithms: dict[str, dict[str, Any]] | None = None
    deadline_s: float | None = None
    lead_s: float | None = None
    most_epochs: int | None = None
    short: str | None = None
    least_outputs: int | None = None
    train_every: int | None = None
    measure: str | None = None
    from_input: bool | None = None

    def applied_to(self, contract: Contract) -> Contract:
        """The contract as it is with the change."""
        given = {name: value for name, value in self.model_dump().items() if value is not None}
        deadline = {"deadline_s": given.pop("deadline_s")} if "deadline_s" in given else {}
        return contract.model_copy(update={**deadline, "predicting": contract.predicting.model_copy(update=given)})


def cover_of(contract: Contract, epoch_s: float) -> Cover:
    """When an output is late and what happens then; `epoch_s` is an epoch's length by the wall clock. Raises CompoundError."""
    terms = contract.predicting
    late = "correct" if contract.correction else "drop"
    return Cover(contract.deadline_s, epoch_s, lead_s=terms.lead_s, most_epochs=terms.most_epochs, late=late)  # type: ignore[arg-type]  # one of its two words


def settings_of(contract: Contract) -> PredictorSettings:
    """How the stand-in learns. Raises CompoundError."""
    terms = contract.predicting
    return PredictorSettings(
        depth=terms.depth,
        train_every=terms.train_every,
        measure=terms.measure,
        least_outputs=terms.least_outputs,
        short=terms.short,
        from_input=terms.from_input,
    )


def predictors_of(contract: Contract) -> tuple[Predictor, ...]:
    """The algorithms of the contract, by name; all that come with holdfast where it names none. Raises HoldfastError."""
    named = contract.predicting.algorithms
    return tuple(make(name, **named[name]) for name in sorted(named)) if named else default_predictors()


def check_contract(contract: Contract, epoch_s: float) -> list[str]:
    """Everything wrong with a contract of prediction."""
    errors: list[str] = []
    for build in (lambda: cover_of(contract, epoch_s), lambda: settings_of(contract)):
        try:
            build()
        except CompoundError as error:
            errors += error.errors
    terms = contract.predicting
    for name in sorted(terms.algorithms):
        try:
            least = make(name, **terms.algorithms[name]).least
        except HoldfastError as error:
            errors.append(str(error))
            continue
        if least > terms.depth:
            said = (
                f"predictor '{name}' needs {least} values of a series before it says anything, and depth lets {terms.depth} be kept"
            )
            errors.append(f"{said}; give a greater depth, or other parameters")
    return errors


def check_protection(job: Job, tasks: Sequence[Task], *, epoch_s: float) -> None:
    """Raise CompoundError with everything that keeps the job's protection from working.

    How long the epochs of a job are that another one feeds, only that one knows: its agents hold deadlines against it.
    """
    errors: list[str] = []
    broken: dict[str, list[str]] = {}
    fed = any(reading.job is not None for task in tasks for reading in task.reads)
    wall_s = 0.0 if fed else epoch_s / job.feed.speed
    kinds = {task.pe: task.kind for task in tasks}
    for pe, kind in sorted(kinds.items()):
        contract = job.contract_of(pe)
        if kind != "operators":
            if pe in job.contracts and contract.protection != "none":
                errors.append(
                    f"'{pe}' is a {kind}, and its contract says protection: {contract.protection}; only operators have it"
                )
            continue
        if contract.protection == "prediction":
            for error in check_contract(contract, wall_s):
                broken.setdefault(error, []).append(f"'{pe}'")
        alone = [task.name for task in tasks if task.pe == pe and task.replicas < 2]
        if contract.protection == "upstream" and alone:
            errors.append(
                f"PE '{pe}' has protection: upstream, and its task '{alone[0]}' one replica, so that there is none to re-route to; "
                "let it have two, or leave it out of 'replicas'"
            )
    errors += [f"{'PE' if len(pes) == 1 else 'PEs'} {', '.join(pes)}: {error}" for error, pes in broken.items()]
    if errors:
        raise CompoundError(f"job '{job.job}'", errors)


def keys_of(graph: Graph, stream: str) -> tuple[str, ...]:
    """The key of a stream: that of the operator or source that makes it, else of what it reads, as far up as it takes."""
    node = graph.nodes[stream]
    key: tuple[str, ...] = getattr(node, "key", ())
    if key:
        return key
    above = {keys_of(graph, name) for name in graph.predecessors(stream)}
    return above.pop() if len(above) == 1 else ()


def check_orders(orders: Mapping[str, Any], contract: Contract, *, epoch_s: float) -> Orders:
    """A change of an agent, checked against its contract. Raises CompoundError or DocumentError with everything that is wrong."""
    thing = "a change of an agent"
    try:
        change = check_document(dict(orders), Orders, thing=thing)
    except DocumentError as error:
        sound = Orders(**{name: value for name, value in orders.items() if _can_be_read(name, value)})
        raise DocumentError(thing, [*error.errors, *check_contract(sound.applied_to(contract), epoch_s)]) from None
    errors = check_contract(change.applied_to(contract), epoch_s)
    if errors:
        raise CompoundError(thing, errors)
    return change


def _can_be_read(name: str, value: Any) -> bool:
    """Whether one part of a change is as it should be, whatever the others are."""
    try:
        check_document({name: value}, Orders)
    except DocumentError:
        return False
    return True
