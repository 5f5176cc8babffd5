"""Everything that a model has against a document, at once, whatever would hide behind what.

A value of the wrong type keeps the checks of what fields mean together from running, and a number out of range lets them
find what is only its consequence. Here wrong values are replaced by two different right ones, one after the other: a
error that stands with both is real, one that comes and goes with the replacement is not told.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from holdfast.documents.document import AND_MORE, MAX_ERRORS, FieldError, InvalidFieldsError, Place, shown, validated

MAX_ROUNDS = 6  # a replacement can bring missing fields to light, and they others
_POINTS = re.compile(r"; (there are no \w|\w+ are:)")  # how errors of names end: with the names there are


def find_errors(data: object, model: type[BaseModel], error: ValidationError) -> list[FieldError]:
    """Every error of shape, every number out of range, and what stands whatever is put in their place.

    `error` is what the model says of the data as they are.
    """
    if error.error_count() > MAX_ERRORS:
        told = [one.error() for one in _wrongs(error, data, model)]
        return [*told, FieldError((), f"and {error.error_count() - MAX_ERRORS} more")]
    found = list(_all_errors(data, model))
    if len(found) > MAX_ERRORS:
        return [*[error for error in found if error != AND_MORE][:MAX_ERRORS], AND_MORE]
    return found


def _all_errors(data: object, model: type[BaseModel]) -> Iterator[FieldError]:
    shape, meaning, mended = _checked(data, model, variant=0)
    _, other, _ = _checked(data, model, variant=1)
    broken = any(isinstance(_at(data, place), dict | list) or place in mended.containers for place in mended.places)
    order = {error: number for number, error in enumerate(meaning)}
    own = [p for p in meaning if _is_number(_at(data, p.place)) and not _is_consequence(p, mended, broken=broken)]
    if own:  # the numbers themselves are wrong: what else is wrong must not hang on them
        fixed = [_copied(data), _copied(data)]
        for variant, one in enumerate(fixed):
            for error in own:
                _put(one, error.place, _number(_at(data, error.place), variant))
        (_, meaning, _), (_, other, _) = (_checked(one, model, variant=v) for v, one in enumerate(fixed))
    stands = set(other)
    real = [p for p in meaning if p in stands and p not in own and not _is_consequence(p, mended, broken=broken)]
    yield from shape
    for error in sorted([*own, *real], key=lambda error: order.get(error, len(order))):
        yield _finite(error, data) if error in own else error


def _is_consequence(error: FieldError, mended: _Mended, *, broken: bool) -> bool:
    """Whether an error may be due to what was put in the place of something else, and not to what the user wrote."""
    if _is_under(error.place, mended.places):
        return True
    if any(error.place == place[:-1] for place in mended.containers):
        return True  # what is empty there was something else
    if error.rests_on:
        return any(_is_under(place, set(error.rests_on)) for place in mended.containers | mended.names)
    return broken and _POINTS.search(error.text) is not None  # the name may stand in what is broken


@dataclass(slots=True)
class _Mended:
    """The places whose values were replaced; those of them that hold mappings or lists, and those that hold text."""

    places: set[Place] = field(default_factory=set)
    containers: set[Place] = field(default_factory=set)
    names: set[Place] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Wrong:
    """A mistake of shape: what pydantic calls it, and what was wanted there or is to be said of it otherwise."""

    place: Place
    kind: str
    want: str | None
    text: str
    detail: Mapping[str, Any]

    def error(self) -> FieldError:
        return FieldError(self.place, self.text if self.want is None else f"wanted {self.want}, got {shown(self.detail['input'])}")


def _checked(data: object, model: type[BaseModel], *, variant: int) -> tuple[list[FieldError], list[FieldError], _Mended]:
    """Errors of shape, errors of meaning once shapes are mended, and what was mended."""
    made = _copied(data)
    shape: list[FieldError] = []
    mended = _Mended()
    for _ in range(MAX_ROUNDS):
        try:
            validated(made, model)
        except ValidationError as error:
            wrongs = _wrongs(error, made, model)
            if not wrongs:
                return shape, list(_meaning(error)), mended
        else:
            break
        for wrong in wrongs:
            if not _is_under(wrong.place, mended.places):
                shape.append(wrong.error())
                mended.places.add(wrong.place)
            if wrong.kind == "extra_forbidden":
                _drop(made, wrong.place)
                continue
            value = _replacement(wrong, variant)
            if isinstance(value, dict | list):
                mended.containers.add(wrong.place)
            elif isinstance(value, str):
                mended.names.add(wrong.place)
            if not _put(made, wrong.place, value):
                return shape, [], mended
    return shape, [], mended


def _meaning(error: ValidationError) -> Iterator[FieldError]:
    for detail in error.errors(include_url=False):
        for cause in detail["ctx"]["error"].errors:
            yield FieldError((*detail["loc"], *cause.place), cause.text, cause.rests_on)


def _wrongs(error: ValidationError, data: object, model: type[BaseModel]) -> list[_Wrong]:
    """The mistakes of shape, one for each place: where there is a choice of types, one for all that were wanted."""
    found: dict[Place, _Wrong] = {}
    for detail in error.errors(include_url=False)[:MAX_ERRORS]:
        if isinstance(detail.get("ctx", {}).get("error"), InvalidFieldsError):
            continue
        wrong = _wrong(detail, data, model)
        known = found.get(wrong.place)
        if known is not None and known.want is not None and wrong.want is not None and wrong.want not in known.want:
            wrong = _Wrong(known.place, known.kind, f"{known.want} or {wrong.want}", "", known.detail)
        elif known is not None:
            continue
        found[wrong.place] = wrong
    deeper = {place[:length] for place in found for length in range(len(place))}
    return [wrong for place, wrong in found.items() if place not in deeper]  # of a choice, what comes nearest to one of it


def _wrong(detail: Mapping[str, Any], data: object, model: type[BaseModel]) -> _Wrong:
    kind, place = str(detail["type"]), _place(detail, data)
    cause = detail.get("ctx", {}).get("error")
    if kind == "missing":
        return _Wrong(place, kind, None, "is missing", detail)
    if kind == "extra_forbidden":
        if len(place) == 1 and (new_name := getattr(model, "renamed_fields", {}).get(place[0])):
            return _Wrong(place, kind, None, f"is now called '{new_name}'; rename the field", detail)
        return _Wrong(place, kind, None, f"is no field of this document{_fields_at(model, detail['loc'][:-1])}", detail)
    if cause is not None:
        return _Wrong(place, kind, None, str(cause), detail)
    return _Wrong(place, kind, _want(detail), "", detail)


def _place(detail: Mapping[str, Any], data: object) -> Place:
    """Where in the data a mistake is. The names of a choice's members, which pydantic puts in between, are no part of it."""
    place: list[str | int] = []
    at: Any = data
    last = len(detail["loc"]) - 1
    for index, key in enumerate(detail["loc"]):
        if (isinstance(at, dict) and key in at) or (isinstance(at, list) and isinstance(key, int) and key < len(at)):
            at = at[key]
            place.append(key)
        elif index == last and detail["type"] == "missing":
            place.append(key)
    return tuple(place)


def _replacement(wrong: _Wrong, variant: int) -> object:
    """One of two values that are right wherever this mistake can occur."""
    kind = wrong.kind
    if kind == "missing":
        return _NEUTRAL[variant]
    if kind.startswith("bool"):
        return bool(variant)
    if kind.startswith("string"):
        return "?" * (variant + 1)
    if kind.startswith("int"):
        return variant + 1
    if kind.startswith(("float", "greater", "less")) or kind == "finite_number":
        return _number(wrong.detail.get("input"), variant)
    if kind in ("literal_error", "enum"):
        options = re.findall(r"'([^']*)'", str(wrong.detail.get("ctx", {}).get("expected", "")))
        return (options or ["?"])[-variant]
    return [] if kind.startswith(("list", "tuple", "set", "frozen")) else {}


# What a missing field is filled with first; if that is of the wrong type, the next round knows the right one.
_NEUTRAL = (1, 2)


def _number(given: object, variant: int) -> float | int:
    whole = isinstance(given, int)
    return (1, 2)[variant] if whole else (0.25, 0.75)[variant]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _finite(error: FieldError, data: object) -> FieldError:
    value = _at(data, error.place)
    return error if math.isfinite(value) else FieldError(error.place, f"wanted a finite number, got {_spelled(value)}")


def _spelled(value: float) -> str:
    return "NaN" if math.isnan(value) else "infinity" if value > 0 else "minus infinity"


def _is_under(place: Place, places: set[Place]) -> bool:
    """Whether a place is one of these or within one of them."""
    return any(place[:length] in places for length in range(len(place) + 1))


def _copied(data: object) -> Any:
    return json.loads(json.dumps(data, default=str))


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
        holder[str(place[-1])] = value
    else:
        holder[int(place[-1])] = value
    return True


def _drop(data: Any, place: Place) -> None:
    holder = _at(data, place[:-1])
    if isinstance(holder, dict):
        holder.pop(place[-1], None)


_WANTS = {
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "finite_number": "a finite number",
    "greater_than_equal": "a number of at least {ge}",
    "greater_than": "a number above {gt}",
    "less_than_equal": "a number of at most {le}",
    "less_than": "a number below {lt}",
    "literal_error": "one of {expected}",
    "enum": "one of {expected}",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "string_too_short": "text of at least {min_length} characters",
    "string_too_long": "text of at most {max_length} characters",
}


def _want(detail: Mapping[str, Any]) -> str:
    template = _WANTS.get(detail["type"])
    if template is None:
        message: str = detail["msg"]
        return message.removeprefix("Input should be ").removeprefix("Value error, ")
    return template.format(**detail.get("ctx", {}))


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _fields_at(model: type[BaseModel], place: Place) -> str:
    """The names of the fields at a place, as far as the schema names them."""
    schema = _schema(model)
    definitions = schema.get("$defs", {})

    def followed(node: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in node:
            return followed(definitions[node["$ref"].rsplit("/", 1)[-1]])
        for option in node.get("anyOf", ()):
            if option.get("type") != "null":
                return followed(option)
        return node

    node = followed(schema)
    for key in place:
        inner = node.get("properties", {}).get(key) if isinstance(key, str) else node.get("items")
        node = followed(inner or node.get("additionalProperties") or {})
    names = sorted(node.get("properties", {}))
    return f"; its fields are: {', '.join(names)}" if names else ""
