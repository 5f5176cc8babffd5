"""The kinds of documents that planning reads. A document's kind is recognised by its fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from holdfast.documents.document import FieldError, Lines, Place, check_document, escape, read_plain
from holdfast.errors import DocumentError

D = TypeVar("D", bound=BaseModel)


class _Plain(BaseModel):
    """Any mapping."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of document: its name in messages, and the fields by which it is recognised."""

    name: str
    fields: frozenset[str]


TOPOLOGY = Kind("a task topology", frozenset({"topology", "operators"}))
DESCRIPTOR = Kind("an application descriptor", frozenset({"application", "sources", "pes", "sinks", "nodes", "contract"}))
PLAN = Kind("a plan", frozenset({"topology", "replicated", "budget", "planner", "parallelism"}))
STRATEGY = Kind("a strategy", frozenset({"application", "solver", "outcome", "sla", "internal_completeness", "configurations"}))
CRITICALITY = Kind("a document of impacts", frozenset({"impact"}))
REPORT = Kind("the report of an assessment", frozenset({"campaign", "scores", "choices"}))
KINDS = (TOPOLOGY, DESCRIPTOR, PLAN, STRATEGY, CRITICALITY, REPORT)


def kind_of(path: str | Path) -> Kind | None:
    """Return the kind of the document at path, or None if planning does not know it."""
    return _kind(plain(path))


def read_kind(path: str | Path, model: type[D], *, kinds: Iterable[Kind]) -> D:
    """Read the document at path and check it against the model. Raises DocumentError with every error and its line.

    A document of another kind causes a single error that names both kinds.
    """
    kinds = tuple(kinds)
    data, lines = _read_mapping(path)
    kind = _kind(data)
    if kind not in kinds:
        wants = " or ".join(one.name for one in kinds)
        fields = ", ".join(sorted(kinds[0].fields))
        actual = f"is {kind.name}, not {wants}" if kind else f"is not {wants}, which has the fields {fields}"
        raise DocumentError(str(path), [f"{actual}; give {wants}"])
    return check_document(data, model, thing=str(path), lines=lines, also=_unprintable)


def plain(path: str | Path) -> dict[str, Any]:
    """Return the fields of the document at path, unchecked."""
    return _read_mapping(path)[0]


def _read_mapping(path: str | Path) -> tuple[dict[str, Any], Lines]:
    """Return the unchecked fields and the lines of the document at path. Raises DocumentError unless it is a mapping."""
    if not Path(path).exists():
        raise DocumentError(str(path), [f"no such file; {_suggestion(Path(path))}"])
    data, lines = read_plain(path)
    check_document(data, _Plain, thing=str(path), lines=lines)
    assert isinstance(data, dict)
    return data, lines


def _suggestion(path: Path) -> str:
    """Return a suggestion for a missing file: a file with a similar name, if there is one."""
    names = sorted(one.name for one in path.parent.iterdir() if one.is_file()) if path.parent.is_dir() else []
    near = get_close_matches(path.name, names, n=1)
    if near:
        return f"did you mean '{path.parent / near[0]}'?"
    return "check the path; 'holdfast profile' writes an application's descriptor, 'holdfast advise' a topology"


def _unprintable(value: object, place: Place = ()) -> Iterator[FieldError]:
    """Yield errors for names and texts that would break the lines in which they are shown."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not key.strip():
                yield FieldError((*place, key), "wanted a name, got an empty one")
            if escape(key) != key:
                yield FieldError((*place, key), "wanted a name without line breaks and control characters")
            yield from _unprintable(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _unprintable(inner, (*place, index))
    elif place in (("topology",), ("application",)) and isinstance(value, str) and not value.strip():
        yield FieldError(place, "wanted a name, got an empty one")
    elif isinstance(value, str) and escape(value) != value:
        yield FieldError(place, f"wanted text without line breaks and control characters, got '{value}'")


def _kind(data: Mapping[str, Any]) -> Kind | None:
    """Return the kind with the largest share of its fields in the document, or None if the document has no known field."""
    share = {kind: len(kind.fields & data.keys()) / len(kind.fields) for kind in KINDS}
    best = max(KINDS, key=lambda kind: share[kind])
    return best if share[best] > 0 else None
