"""The impact of losing each operator, read from the report of an assessment or from a criticality document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from holdfast.documents.document import Document, FieldError, Place, at_least, read_plain, with_line
from holdfast.documents.topology import Topology
from holdfast.errors import DocumentError
from holdfast.planning.document_kinds import CRITICALITY, REPORT, kind_of, plain, read_kind


class CriticalityDocument(Document):
    """The impact of losing each operator on output quality, in any unit: only ratios matter."""

    impact: dict[str, float]

    def errors(self) -> Iterable[FieldError]:
        """Yield an error for each negative or infinite impact."""
        for name, value in self.impact.items():
            yield from at_least(0, ("impact", name), value)


class _ReportPart(BaseModel):
    """A part of a report; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Campaign(_ReportPart):
    cases: tuple[tuple[tuple[str, ...], float | None], ...]


class _Choice(_ReportPart):
    name: str
    like: str | None = None


class _Case(_ReportPart):
    case: str
    impact: float | None = None


class _Score(_ReportPart):
    score: str
    cases: tuple[_Case, ...]


class _Report(_ReportPart):
    """The fields of `report.json` of `holdfast assess` that planning needs."""

    campaign: _Campaign
    choices: tuple[_Choice, ...] = ()
    scores: tuple[_Score, ...]


def read_impact(path: str | Path, *, topology: Topology | None = None) -> dict[str, float]:
    """Read the quality impact of each operator. With a topology, check that exactly its operators are named.

    In the report of an assessment, it is the impact under the first score of the cases in which operators fail without a
    replica. An operator that was not tried because its loss equals that of another one gets the other's impact.
    """
    if kind_of(path) is REPORT:
        impacts, places, errors = _of_report(read_kind(path, _Report, kinds=[REPORT]))
        messages: list[str] = []
    else:
        impacts, messages = _of_document(path)
        places, errors = {name: ("impact", name) for name in impacts}, []
    if topology is not None and (impacts or not messages):
        errors += _topology_errors(topology, places)
    if errors:
        lines = read_plain(path)[1]()
        messages += [with_line(error, lines) for error in errors]
    if messages:
        raise DocumentError(str(path), messages)
    return impacts


def _of_document(path: str | Path) -> tuple[dict[str, float], list[str]]:
    """Return the impacts as far as they are readable, and all errors."""
    try:
        return dict(read_kind(path, CriticalityDocument, kinds=[CRITICALITY, REPORT]).impact), []
    except DocumentError as error:
        impact = plain(path).get("impact")
        return dict.fromkeys(impact, 0.0) if isinstance(impact, dict) else {}, list(error.errors)


def _of_report(report: _Report) -> tuple[dict[str, float], dict[str, Place], list[FieldError]]:
    """Return the impacts, the place of each operator in the report, and errors for what was not measured."""
    impacts: dict[str, float] = {}
    places: dict[str, Place] = {}
    if not report.scores:
        return impacts, places, [FieldError(("scores",), "is empty; an assessment has at least one")]
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
            impacts[operator] = max(impact, impacts.get(operator, 0.0))
    for index, choice in enumerate(report.choices):
        if choice.like in places:
            places.setdefault(choice.name, ("choices", index))
        if choice.like in impacts:
            impacts.setdefault(choice.name, impacts[choice.like])
    return impacts, places, errors


def _topology_errors(topology: Topology, places: Mapping[str, Place]) -> Iterable[FieldError]:
    """Yield errors for operators of the topology without an impact, and for impacts of other operators."""
    known = f"operators are: {', '.join(sorted(topology.operators))}"
    for name in sorted(topology.operators.keys() - places.keys()):
        yield FieldError((), f"gives no quality impact of operator '{name}' of topology '{topology.topology}'")
    for name in sorted(places.keys() - topology.operators.keys()):
        yield FieldError(places[name], f"'{name}' is not an operator of topology '{topology.topology}'; {known}")
