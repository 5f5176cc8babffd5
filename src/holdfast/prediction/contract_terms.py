"""The prediction part of a contract: when output is late, the settings and algorithms to use, and its errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from holdfast.app import Graph
from holdfast.documents.document import Part, check_document
from holdfast.documents.job import Contract, Job, Task
from holdfast.errors import CompoundError, DocumentError, HoldfastError
from holdfast.prediction.predictors.predictor import Predictor
from holdfast.prediction.predictors.registry import default_predictors, make_predictor
from holdfast.prediction.settings import PredictorSettings

Late = Literal["correct", "drop"]


@dataclass(frozen=True)
class LatenessTerms:
    """When the output of a PE is late, and what happens then. Raises CompoundError for invalid terms.

    An epoch's output is due `deadline_s` after its last input was committed. Prediction begins `lead_s` before that. After
    `most_epochs` predicted epochs in a row the orchestrator restarts the PE. The PE's `late` output corrects the predicted one, or
    is dropped.
    """

    deadline_s: float | None
    epoch_s: float
    lead_s: float = 0.2
    most_epochs: int = 30
    late: Late = "correct"

    def __post_init__(self) -> None:
        errors = []
        if self.deadline_s is None:
            errors.append("no deadline set; give deadline_s, the seconds after its last input by which an epoch's output is due")
        elif not math.isfinite(self.deadline_s):
            errors.append(f"deadline_s must be a number of seconds, got {self.deadline_s:g}")
        elif self.deadline_s < self.epoch_s * (1 - 1e-9):  # dividing an epoch's length by the speed may lose its last digit
            errors.append(
                f"the deadline of {self.deadline_s:g} s is below the epoch length of {self.epoch_s:g} s; "
                "give a longer deadline or shorter epochs"
            )
        elif not 0 <= self.lead_s < self.deadline_s:
            errors.append(f"lead_s must be at least 0 and less than the deadline of {self.deadline_s:g} s, got {self.lead_s:g}")
        if self.most_epochs < 1:
            errors.append(f"most_epochs must be a whole number of at least 1, got {self.most_epochs}")
        if self.late not in get_args(Late):
            errors.append(f"late must be {' or '.join(get_args(Late))}, got '{self.late}'")
        if errors:
            raise CompoundError("contract of prediction", errors)

    @property
    def due_s(self) -> float:
        """The deadline, which valid terms always have."""
        assert self.deadline_s is not None
        return self.deadline_s


class Orders(Part):
    """A change of a running prediction agent. A field that is None stays unchanged.

    `algorithms` maps names of installed predictors to their parameters and replaces the algorithms in use.
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
        """Return the contract with this change."""
        changes = {name: value for name, value in self.model_dump().items() if value is not None}
        deadline = {"deadline_s": changes.pop("deadline_s")} if "deadline_s" in changes else {}
        return contract.model_copy(update={**deadline, "predicting": contract.predicting.model_copy(update=changes)})


def lateness_terms(contract: Contract, epoch_s: float) -> LatenessTerms:
    """Return when output is late and what happens then. `epoch_s` is an epoch's length on the wall clock. Raises CompoundError."""
    terms = contract.predicting
    late: Late = "correct" if contract.correction else "drop"
    return LatenessTerms(contract.deadline_s, epoch_s, lead_s=terms.lead_s, most_epochs=terms.most_epochs, late=late)


def predictor_settings(contract: Contract) -> PredictorSettings:
    """Return the settings of the epoch predictor. Raises CompoundError."""
    terms = contract.predicting
    return PredictorSettings(
        depth=terms.depth,
        train_every=terms.train_every,
        measure=terms.measure,
        least_outputs=terms.least_outputs,
        short=terms.short,
        from_input=terms.from_input,
    )


def contract_predictors(contract: Contract) -> tuple[Predictor, ...]:
    """Return the contract's algorithms, sorted by name, or all of holdfast's if it names none. Raises HoldfastError."""
    algorithms = contract.predicting.algorithms
    if not algorithms:
        return default_predictors()
    return tuple(make_predictor(name, **algorithms[name]) for name in sorted(algorithms))


def check_contract(contract: Contract, epoch_s: float) -> list[str]:
    """Return all errors in the prediction part of a contract."""
    errors: list[str] = []
    for build in (lambda: lateness_terms(contract, epoch_s), lambda: predictor_settings(contract)):
        try:
            build()
        except CompoundError as error:
            errors += error.errors
    terms = contract.predicting
    for name in sorted(terms.algorithms):
        try:
            least = make_predictor(name, **terms.algorithms[name]).least
        except HoldfastError as error:
            errors.append(str(error))
            continue
        if least > terms.depth:
            errors.append(
                f"predictor '{name}' needs {least} values of a series, and depth keeps only {terms.depth}; "
                "give a greater depth, or other parameters"
            )
    return errors


def check_protection(job: Job, tasks: Sequence[Task], *, epoch_s: float) -> None:
    """Raise CompoundError with all errors in the protection of a job's PEs.

    If the job reads streams of another job, that job sets the epoch length. The agents then check the deadlines when they start.
    """
    errors: list[str] = []
    pes_with_error: dict[str, list[str]] = {}
    reads_other_job = any(reading.job is not None for task in tasks for reading in task.reads)
    wall_epoch_s = 0.0 if reads_other_job else epoch_s / job.feed.speed
    kinds = {task.pe: task.kind for task in tasks}
    for pe, kind in sorted(kinds.items()):
        contract = job.contract_of(pe)
        if kind != "operators":
            if pe in job.contracts and contract.protection != "none":
                errors.append(
                    f"'{pe}' is a {kind}, and its contract says protection: {contract.protection}; only operators can be protected"
                )
            continue
        if contract.protection == "prediction":
            for error in check_contract(contract, wall_epoch_s):
                pes_with_error.setdefault(error, []).append(f"'{pe}'")
        single = [task.name for task in tasks if task.pe == pe and task.replicas < 2]
        if contract.protection == "upstream" and single:
            errors.append(
                f"PE '{pe}' has protection: upstream, but its task '{single[0]}' has one replica, so there is none to re-route to; "
                "give it two, or leave it out of 'replicas'"
            )
    errors += [f"{'PE' if len(pes) == 1 else 'PEs'} {', '.join(pes)}: {error}" for error, pes in pes_with_error.items()]
    if errors:
        raise CompoundError(f"job '{job.job}'", errors)


def stream_key(graph: Graph, stream: str) -> tuple[str, ...]:
    """Return the key of a stream: that of its operator or source or, if that has none, the one key of the streams it reads."""
    key: tuple[str, ...] = getattr(graph.nodes[stream], "key", ())
    if key:
        return key
    input_keys = {stream_key(graph, name) for name in graph.predecessors(stream)}
    return input_keys.pop() if len(input_keys) == 1 else ()


def check_orders(orders: Mapping[str, Any], contract: Contract, *, epoch_s: float) -> Orders:
    """Return a change of an agent, checked against its contract. Raises CompoundError or DocumentError with all errors."""
    thing = "a change of an agent"
    try:
        change = check_document(dict(orders), Orders, thing=thing)
    except DocumentError as error:
        valid = Orders(**{name: value for name, value in orders.items() if _is_valid(name, value)})
        raise DocumentError(thing, [*error.errors, *check_contract(valid.applied_to(contract), epoch_s)]) from None
    errors = check_contract(change.applied_to(contract), epoch_s)
    if errors:
        raise CompoundError(thing, errors)
    return change


def _is_valid(name: str, value: Any) -> bool:
    """Return whether one field of a change is valid by itself."""
    try:
        check_document({name: value}, Orders)
    except DocumentError:
        return False
    return True
