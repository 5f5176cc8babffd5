"""Documents that planning reads: told apart by their fields, and read with everything wrong with them at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar
from unicodedata import category

from pydantic import BaseModel, ConfigDict, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from holdfast.documents.document import MAX_LINED_CHARS, FieldError, Place, dotted, read_document, validated
from holdfast.documents.validation_errors import find_errors
from holdfast.errors import DocumentError

D = TypeVar("D", bound=BaseModel)


class _Plain(BaseModel):
    """Any mapping."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a document is, and the fields that tell it from others."""

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
    """What the document at path is, by its fields; None if it is nothing that planning knows."""
    return _kind(plain(path))


def read_kind(path: str | Path, model: type[D], *, wanted: Iterable[Kind]) -> D:
    """The document at path, checked against the model. Raises DocumentError with every error and its line.

    A document of another kind is told by one error, not by all the fields that differ.
    """
    wanted = tuple(wanted)
    data = plain(path)
    kind = _kind(data)
    if kind not in wanted:
        wants = " or ".join(one.name for one in wanted)
        fields = ", ".join(sorted(wanted[0].fields))
        is_this = f"is {kind.name}, not {wants}" if kind else f"is not {wants}, which has the fields {fields}"
        raise DocumentError(str(path), [f"{is_this}; give {wants}"])
    found: list[FieldError] = []
    document: D | None = None
    try:
        document = validated(data, model)
    except ValidationError as error:
        found.extend(find_errors(data, model, error))
    found.extend(_unprintable(data))
    if document is None or found:
        lines = lines_of(path)
        raise DocumentError(str(path), [placed(error, lines) for error in found])
    return document


def lines_of(path: str | Path) -> dict[Place, int]:
    """The line of every place in the document at path."""
    return _lines(Path(path).read_text(encoding="utf-8"))


def placed(error: FieldError, lines: Mapping[Place, int]) -> str:
    """An error with its place and line in words."""
    place = error.place
    while place and place not in lines:
        place = place[:-1]
    where = f" (line {lines[place]})" if place in lines and place else ""
    return _escaped(f"{dotted(error.place)}{where}: {error.text}" if error.place else error.text)


def plain(path: str | Path) -> dict[str, Any]:
    """The fields of the document at path as they stand there, unchecked."""
    if not Path(path).exists():
        raise DocumentError(str(path), [f"no such file; {_instead(Path(path))}"])
    return dict(read_document(path, _Plain).model_extra or {})


def _instead(path: Path) -> str:
    """What to give in place of a file that is not there: one of nearly the same name, if there is any."""
    there = sorted(one.name for one in path.parent.iterdir() if one.is_file()) if path.parent.is_dir() else []
    near = get_close_matches(path.name, there, n=1)
    if near:
        return f"did you mean '{path.parent / near[0]}'?"
    return "check the path; 'holdfast profile' writes an application's descriptor, 'holdfast plan generate' documents to try"


def _unprintable(value: object, place: Place = ()) -> Iterator[FieldError]:
    """Names and other texts that would break the lines they are shown in."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not key.strip():
                yield FieldError((*place, key), "wanted a name, got an empty one")
            if _escaped(key) != key:
                yield FieldError((*place, key), "wanted a name without line breaks and control characters")
            yield from _unprintable(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _unprintable(inner, (*place, index))
    elif place in (("topology",), ("application",)) and isinstance(value, str) and not value.strip():
        yield FieldError(place, "wanted a name, got an empty one")
    elif isinstance(value, str) and _escaped(value) != value:
        yield FieldError(place, f"wanted text without line breaks and control characters, got '{value}'")


def _escaped(text: str) -> str:
    return "".join(repr(sign)[1:-1] if category(sign) in ("Cc", "Zl", "Zp") else sign for sign in text)


def _kind(data: Mapping[str, Any]) -> Kind | None:
    """The kind whose fields the document has the greatest part of, and at least one."""
    share = {kind: len(kind.fields & data.keys()) / len(kind.fields) for kind in KINDS}
    best = max(KINDS, key=lambda kind: share[kind])
    return best if share[best] > 0 else None


def _lines(text: str) -> dict[Place, int]:
    """The line of every place of a document; JSON is read as the YAML that it nearly always is."""
    found: dict[Place, int] = {}

    def walk(node: Node, place: Place) -> None:
        found.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, MappingNode):
            for key, value in node.value:
                inner = (*place, str(key.value))
                found.setdefault(inner, key.start_mark.line + 1)
                walk(value, inner)
        elif isinstance(node, SequenceNode):
            for index, child in enumerate(node.value):
                walk(child, (*place, index))

    if len(text) <= MAX_LINED_CHARS:
        try:
            root = YAML(typ="safe", pure=True).compose(StringIO(text))
        except YAMLError:
            return found
        if root is not None:
            walk(root, ())
    return found
