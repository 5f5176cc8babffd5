"""Documents that planning reads: told apart by their fields, and read with everything wrong with them at once.

A value of the wrong type keeps the checks of what fields mean together from running, and a number out of range lets them
find what is only its consequence. Here wrong values are replaced by two different right ones, one after the other: a
problem that stands with both is real, one that comes and goes with the replacement is not told.
"""

from __future__ import annotations

import copy
import json
import math
import re
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

from holdfast.errors import DocumentError
from holdfast.model.document import MAX_LINED_CHARS, Place, Problem, check_document, dotted, read_document

D = TypeVar("D", bound=BaseModel)

MAX_ROUNDS = 6  # a replacement can bring missing fields to light, and they others
_POINTS = re.compile(r"; (there are no \w|\w+ are:)")  # how problems of names end: with the names there are


class _Plain(BaseModel):
    """Any mapping."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a document is, and the fields that tell it from others."""

    name: str
    fields: frozenset[str]


TOPOLOGY = Kind("a task topology", frozenset({"topology", "operators"}))
DESCRIPTOR = Kind("an application descriptor", frozenset({"application", "sources", "pes", "sinks", "hosts", "contract"}))
PLAN = Kind("a plan", frozenset({"topology", "replicated", "budget", "planner", "parallelism"}))
STRATEGY = Kind("a strategy", frozenset({"application", "solver", "outcome", "sla", "internal_completeness", "configurations"}))
CRITICALITY = Kind("a document of impacts", frozenset({"impact"}))
REPORT = Kind("the report of an assessment", frozenset({"campaign", "scores", "choices"}))
KINDS = (TOPOLOGY, DESCRIPTOR, PLAN, STRATEGY, CRITICALITY, REPORT)


def kind_of(path: str | Path) -> Kind | None:
    """What the document at path is, by its fields; None if it is nothing that planning knows."""
    return _kind(plain(path))


def read_kind(path: str | Path, model: type[D], *, wanted: Iterable[Kind]) -> D:
    """The document at path, checked against the model. Raises DocumentError with every problem and its line.

    A document of another kind is told by one problem, not by all the fields that differ.
    """
    wanted = tuple(wanted)
    data = plain(path)
    kind = _kind(data)
    if kind not in wanted:
        wants = " or ".join(one.name for one in wanted)
        fields = ", ".join(sorted(wanted[0].fields))
        is_this = f"is {kind.name}, not {wants}" if kind else f"is not {wants}, which has the fields {fields}"
        raise DocumentError(str(path), [f"{is_this}; give {wants}"])
    unprintable = [*_unprintable(data)]
    try:
        document = read_document(path, model)
    except DocumentError as error:
        found = [*_all_problems(data, model), *unprintable]
        if not found:
            raise
        lines = lines_of(path)
        raise DocumentError(error.thing, [placed(problem, lines) for problem in found]) from None
    if unprintable:
        lines = lines_of(path)
        raise DocumentError(str(path), [placed(problem, lines) for problem in unprintable])
    return document


def lines_of(path: str | Path) -> dict[Place, int]:
    """The line of every place in the document at path."""
    return _lines(Path(path).read_text(encoding="utf-8"))


def placed(problem: Problem, lines: Mapping[Place, int]) -> str:
    """A problem with its place and line in words."""
    place = problem.place
    while place and place not in lines:
        place = place[:-1]
    where = f" (line {lines[place]})" if place in lines and place else ""
    return _escaped(f"{dotted(problem.place)}{where}: {problem.text}" if problem.place else problem.text)


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


def _unprintable(value: object, place: Place = ()) -> Iterator[Problem]:
    """Names and other texts that would break the lines they are shown in."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not key.strip():
                yield Problem((*place, key), "wanted a name, got an empty one")
            if _escaped(key) != key:
                yield Problem((*place, key), "wanted a name without line breaks and control characters")
            yield from _unprintable(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _unprintable(inner, (*place, index))
    elif place in (("topology",), ("application",)) and isinstance(value, str) and not value.strip():
        yield Problem(place, "wanted a name, got an empty one")
    elif isinstance(value, str) and _escaped(value) != value:
        yield Problem(place, f"wanted text without line breaks and control characters, got '{value}'")


def _escaped(text: str) -> str:
    return "".join(repr(sign)[1:-1] if category(sign) in ("Cc", "Zl", "Zp") else sign for sign in text)


def _kind(data: Mapping[str, Any]) -> Kind | None:
    """The kind whose fields the document has the greatest part of, and at least one."""
    share = {kind: len(kind.fields & data.keys()) / len(kind.fields) for kind in KINDS}
    best = max(KINDS, key=lambda kind: share[kind])
    return best if share[best] > 0 else None


def _all_problems(data: dict[str, Any], model: type[BaseModel]) -> Iterator[Problem]:
    """Every problem of shape, every number out of range, and what stands whatever is put in their place."""
    shape, meaning, mended = _checked(data, model, variant=0)
    _, other, _ = _checked(data, model, variant=1)
    broken = any(isinstance(_at(data, place), dict | list) or place in mended.containers for place in mended.places)
    own = [p for p in meaning if _is_number(_at(data, p.place)) and p.place not in mended.places]
    if own:  # the numbers themselves are wrong: what else is wrong must not hang on them
        fixed = [copy.deepcopy(data), copy.deepcopy(data)]
        for variant, one in enumerate(fixed):
            for problem in own:
                _put(one, problem.place, _number(_at(data, problem.place), variant))
        (_, meaning, _), (_, other, _) = (_checked(one, model, variant=v) for v, one in enumerate(fixed))
    stands = {(p.place, p.text) for p in other}
    yield from shape
    yield from (_finite(problem, data) for problem in own)
    for problem in meaning:
        if (problem.place, problem.text) not in stands or problem in own:
            continue
        if any(problem.place[: len(place)] == place for place in mended.places):
            continue  # the value there is not the user's
        if any(problem.place == place[:-1] for place in mended.containers):
            continue  # what is empty there was something else
        if not (broken and _POINTS.search(problem.text)):  # at a name that may stand in what is broken
            yield problem


def _finite(problem: Problem, data: object) -> Problem:
    value = _at(data, problem.place)
    return problem if math.isfinite(value) else Problem(problem.place, f"wanted a finite number, got {_spelled(value)}")


def _spelled(value: float) -> str:
    return "NaN" if math.isnan(value) else "infinity" if value > 0 else "minus infinity"


@dataclass(slots=True)
class _Mended:
    """The places whose values were replaced, and those of them that hold mappings or lists."""

    places: set[Place]
    containers: set[Place]


def _checked(data: dict[str, Any], model: type[BaseModel], *, variant: int) -> tuple[list[Problem], list[Problem], _Mended]:
    """Problems of shape, problems of meaning once shapes are mended, and what was mended."""
    made = copy.deepcopy(data)
    shape: list[Problem] = []
    mended = _Mended(set(), set())
    for _ in range(MAX_ROUNDS):
        try:
            model.model_validate_json(json.dumps(made, default=str), strict=True)
        except ValidationError as error:
            details = error.errors()
        else:
            return shape, [], mended
        wrong = [d for d in details if not hasattr(d.get("ctx", {}).get("error"), "problems")]
        if not wrong:
            causes = [(tuple(d["loc"]), d["ctx"]["error"]) for d in details]
            return shape, [Problem((*at, *p.place), p.text) for at, cause in causes for p in cause.problems], mended
        told = _told(made, model)
        for detail in wrong:
            place = tuple(detail["loc"])
            if not any(place[: len(known)] == known for known in mended.places):
                shape.append(Problem(place, _text(told, place) or detail["msg"]))
                mended.places.add(place)
            if detail["type"] == "extra_forbidden":
                _drop(made, place)
                continue
            value = _replacement(dict(detail), variant)
            if isinstance(value, dict | list):
                mended.containers.add(place)
            if not _put(made, place, value):
                return shape, [], mended
    return shape, [], mended


def _told(data: object, model: type[BaseModel]) -> tuple[str, ...]:
    """What is said of the document's shape, in words."""
    try:
        check_document(data, model)
    except DocumentError as error:
        return error.problems
    return ()


def _text(told: Iterable[str], place: Place) -> str | None:
    """What was said of one place."""
    prefix = f"{dotted(place)}: "
    return next((text.removeprefix(prefix) for text in told if text.startswith(prefix)), None)


def _replacement(detail: Mapping[str, Any], variant: int) -> object:
    """One of two values that are right wherever this error can occur."""
    error, given = str(detail["type"]), detail.get("input")
    if error == "missing":
        return _NEUTRAL[variant]
    if error.startswith("bool"):
        return bool(variant)
    if error.startswith("string"):
        return "?" * (variant + 1)
    if error.startswith("int"):
        return variant + 1
    if error.startswith("float") or error == "finite_number":
        return _number(given, variant)
    if error in ("literal_error", "enum"):
        options = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected", "")))
        return (options or ["?"])[-variant]
    return [] if error.startswith(("list", "tuple", "set", "frozen")) else {}


# What a missing field is filled with first; if that is of the wrong type, the next round knows the right one.
_NEUTRAL = (1, 2)


def _number(given: object, variant: int) -> float | int:
    whole = isinstance(given, int)
    return (1, 2)[variant] if whole else (0.25, 0.75)[variant]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _at(data: Any, place: Place) -> Any:
    """The value at a place; None where there is none."""
    for key in place:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _put(data: Any, place: Place, value: object) -> bool:
    """Set the value at a place, if what holds it is there."""
    holder = _at(data, place[:-1])
    if not place or not isinstance(holder, dict | list):
        return False
    if isinstance(holder, dict):
        holder[place[-1]] = value
    else:
        holder[int(place[-1])] = value
    return True


def _drop(data: Any, place: Place) -> None:
    holder = _at(data, place[:-1])
    if isinstance(holder, dict):
        holder.pop(place[-1], None)


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
