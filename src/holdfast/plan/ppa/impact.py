"""What the loss of each operator costs, read from the report of an assessment or from a document of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from holdfast.errors import DocumentError
from holdfast.model.document import Document, Problem, at_least, read_document


class CriticalityDocument(Document):
    """What the loss of each operator costs, in output quality: any measure, of which only ratios matter."""

    impact: dict[str, float]

    def problems(self) -> Iterable[Problem]:
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


class _Heading(BaseModel):
    model_config = ConfigDict(extra="allow")

    campaign: object = None


def read_impact(path: str | Path) -> dict[str, float]:
    """The quality impact of each operator.

    Of an assessment's report, under its first score: the impact of the cases in which operators fail without a replica.
    An operator that was not tried because its loss is that of another one has the other's impact.
    """
    if read_document(path, _Heading).campaign is None:
        return dict(read_document(path, CriticalityDocument).impact)
    report = read_document(path, _Report)
    if not report.scores:
        raise DocumentError(str(path), ["scores: is empty; an assessment has at least one"])
    found: dict[str, float] = {}
    problems = []
    measured = {case.case: case.impact for case in report.scores[0].cases}
    for operators, failover_s in report.campaign.cases:
        if failover_s is not None:
            continue
        case = "+".join(operators)
        impact = measured.get(case)
        if impact is None:
            problems.append(f"scores[0].cases: no impact was measured for case '{case}'")
            continue
        for operator in operators:
            found[operator] = max(impact, found.get(operator, 0.0))
    for choice in report.choices:
        if choice.like in found:
            found.setdefault(choice.name, found[choice.like])
    if problems:
        raise DocumentError(str(path), problems)
    return found
