"""What the loss of each operator costs, read from the report of an assessment or from a document of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from holdfast.documents.document import Document, FieldError, Place, at_least, read_plain, with_line
from holdfast.documents.topology import Topology
from holdfast.errors import DocumentError
from holdfast.planning.document_kinds import CRITICALITY, REPORT, kind_of, plain, read_kind


class CriticalityDocument(Document):
    """What the loss of each operator costs, in output quality: any measure, of which only ratios matter."""

    impact: dict[str, float]

    def errors(self) -> Iterable[FieldError]:
        """Negative or infinite impacts."""
        for name, value in self.impact.items():
            yield from at_least(0, ("impact", name), value)


class _Some(BaseModel):
    """A part of a report, of which some fields are read."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Campaign(_Some):
    cases: tuple[tuple[tuple[str, ...], float | None], ...]


class _Choice(_Some):
    name: str
    like: str | None = None


class _Case(_Some):
    case: str
    impact: float | None = None


class _Score(_Some):
    score: str
    cases: tuple[_Case, ...]


class _Report(_Some):
    """As much of the `report.json` of `holdfast assess` as planning needs."""

    campaign: _Campaign
    choices: tuple[_Choice, ...] = ()
    scores: tuple[_Score, ...]


def read_impact(path: str | Path, *, topology: Topology | None = None) -> dict[str, float]:
    """The quality impact of each operator; with a topology, of every operator of that one and no other.

    Of an assessment's report, under its first score: the impact of the cases in which operators fail without a replica.
    An operator that was not tried because its loss is that of another one has the other's impact.
    """
    if kind_of(path) is REPORT:
        found, places, errors = _of_report(read_kind(path, _Report, wanted=[REPORT]))
        told: list[str] = []
    else:
        found, told = _of_document(path)
        places, errors = {name: ("impact", name) for name in found}, []
    if topology is not None and (found or not told):
        errors += _topology_errors(topology, places)
    if errors:
        lines = read_plain(path)[1]()
        told += [with_line(error, lines) for error in errors]
    if told:
        raise DocumentError(str(path), told)
    return found


def _of_document(path: str | Path) -> tuple[dict[str, float], list[str]]:
    """The impacts as far as they can be read, and everything wrong with them."""
    try:
        return dict(read_kind(path, CriticalityDocument, wanted=[CRITICALITY, REPORT]).impact), []
    except DocumentError as error:
        impact = plain(path).get("impact")
        return dict.fromkeys(impact, 0.0) if isinstance(impact, dict) else {}, list(error.errors)


def _of_report(report: _Report) -> tuple[dict[str, float], dict[str, Place], list[FieldError]]:
    """The impacts, where the report speaks of each operator, and what was not measured."""
    found: dict[str, float] = {}
    places: dict[str, Place] = {}
    if not report.scores:
        return found, places, [FieldError(("scores",), "is empty; an assessment has at least one")]
    errors = []
    measured = {case.case: case.impact for case in report.scores[0].cases}
    for index, (operators, failover_s) in enumerate(report.campaign.cases):
        if failover_s is not None:
            continue
        case = "+".join(operators)
        impact = measured.get(case)
        for operator in operators:
            places.setdefault(operator, ("campaign", "cases", index))
        if impact is None:
            errors.append(FieldError(("scores", 0, "cases"), f"no impact was measured for case '{case}'"))
            continue
        for operator in operators:
            found[operator] = max(impact, found.get(operator, 0.0))
    for index, choice in enumerate(report.choices):
        if choice.like in places:
            places.setdefault(choice.name, ("choices", index))
        if choice.like in found:
            found.setdefault(choice.name, found[choice.like])
    return found, places, errors


def _topology_errors(topology: Topology, places: Mapping[str, Place]) -> Iterable[FieldError]:
    """Operators of the topology without an impact, and impacts of what is no operator of it."""
    known = f"operators are: {', '.join(sorted(topology.operators))}"
    for name in sorted(topology.operators.keys() - places.keys()):
        yield FieldError((), f"gives no quality impact of operator '{name}' of topology '{topology.topology}'")
    for name in sorted(places.keys() - topology.operators.keys()):
        yield FieldError(places[name], f"'{name}' is no operator of topology '{topology.topology}'; {known}")
