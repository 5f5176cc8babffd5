"""Find all validation errors of a document, including those that another error would mask.

A value of the wrong type prevents the checks of what the fields mean together, and a number out of range makes them report
mere consequences. So wrong values are replaced by valid ones, and the document is checked again, with two different
replacements. An error that appears with both is real. An error that appears with only one is a consequence and is not
reported.
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

from holdfast.documents.document import AND_MORE, MAX_ERRORS, FieldError, InvalidFieldsError, Place, format_value, parse_values

MAX_ROUNDS = 6  # a replacement can reveal missing fields, and filling these can reveal others
_LISTS_NAMES = re.compile(r"; (there are no \w|\w+ are:)")  # how an error about an unknown name ends: with the known names


def find_errors(data: object, model: type[BaseModel], error: ValidationError) -> list[FieldError]:
    """Return every error of a document that the model rejected with `error`."""
    if error.error_count() > MAX_ERRORS:
        shape_errors = [one.field_error() for one in _shape_errors(error, data, model)]
        return [*shape_errors, FieldError((), f"and {error.error_count() - MAX_ERRORS} more")]
    errors = list(_all_errors(data, model))
    if len(errors) > MAX_ERRORS:
        return [*[error for error in errors if error != AND_MORE][:MAX_ERRORS], AND_MORE]
    return errors


def _all_errors(data: object, model: type[BaseModel]) -> Iterator[FieldError]:
    shape, meaning, replaced = _check(data, model, variant=0)
    _, other, _ = _check(data, model, variant=1)
    broken = any(isinstance(_at(data, place), dict | list) or place in replaced.containers for place in replaced.places)
    order = {error: number for number, error in enumerate(meaning)}
    own = [e for e in meaning if _is_number(_at(data, e.place)) and not _is_consequence(e, replaced, broken=broken)]
    if own:  # these numbers are out of range: replace them too, so that the other errors do not depend on them
        copies = [_copy(data), _copy(data)]
        for variant, copy in enumerate(copies):
            for error in own:
                _put(copy, error.place, _number(_at(data, error.place), variant))
        (_, meaning, _), (_, other, _) = (_check(copy, model, variant=variant) for variant, copy in enumerate(copies))
    in_both = set(meaning) & set(other)
    real = [e for e in meaning if e in in_both and e not in own and not _is_consequence(e, replaced, broken=broken)]
    yield from shape
    for error in sorted([*own, *real], key=lambda error: order.get(error, len(order))):
        yield _finite(error, data) if error in own else error


def _is_consequence(error: FieldError, replaced: _Replaced, *, broken: bool) -> bool:
    """Return whether a replaced value, and not what the user wrote, may have caused the error."""
    if _is_under(error.place, replaced.places):
        return True
    if any(error.place == place[:-1] for place in replaced.containers):
        return True  # the replacement is empty, the user's value was not
    if error.depends_on:
        return any(_is_under(place, set(error.depends_on)) for place in replaced.containers | replaced.names)
    return broken and _LISTS_NAMES.search(error.text) is not None  # the missing name may be in the broken part


@dataclass(slots=True)
class _Replaced:
    """The places whose values were replaced; which of them now hold mappings or lists, and which hold text."""

    places: set[Place] = field(default_factory=set)
    containers: set[Place] = field(default_factory=set)
    names: set[Place] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _ShapeError:
    """An error of shape: pydantic's name for it, and what was wanted there or another text."""

    place: Place
    kind: str
    want: str | None
    text: str
    detail: Mapping[str, Any]

    def field_error(self) -> FieldError:
        if self.want is None:
            return FieldError(self.place, self.text)
        return FieldError(self.place, f"wanted {self.want}, got {format_value(self.detail['input'])}")


def _check(data: object, model: type[BaseModel], *, variant: int) -> tuple[list[FieldError], list[FieldError], _Replaced]:
    """Return the errors of shape, the errors of meaning after the shape was repaired, and what was replaced."""
    repaired = _copy(data)
    shape: list[FieldError] = []
    replaced = _Replaced()
    for _ in range(MAX_ROUNDS):
        try:
            parse_values(repaired, model)
        except ValidationError as error:
            shape_errors = _shape_errors(error, repaired, model)
            if not shape_errors:
                return shape, list(_meaning_errors(error)), replaced
        else:
            break
        for shape_error in shape_errors:
            if not _is_under(shape_error.place, replaced.places):
                shape.append(shape_error.field_error())
                replaced.places.add(shape_error.place)
            if shape_error.kind == "extra_forbidden":
                _drop(repaired, shape_error.place)
                continue
            value = _replacement(shape_error, variant)
            if isinstance(value, dict | list):
                replaced.containers.add(shape_error.place)
            elif isinstance(value, str):
                replaced.names.add(shape_error.place)
            if not _put(repaired, shape_error.place, value):
                return shape, [], replaced
    return shape, [], replaced


def _meaning_errors(error: ValidationError) -> Iterator[FieldError]:
    for detail in error.errors(include_url=False):
        for cause in detail["ctx"]["error"].errors:
            yield FieldError((*detail["loc"], *cause.place), cause.text, cause.depends_on)


def _shape_errors(error: ValidationError, data: object, model: type[BaseModel]) -> list[_ShapeError]:
    """Return the errors of shape, one per place. If a field allows several types, its error names all of them."""
    errors: dict[Place, _ShapeError] = {}
    for detail in error.errors(include_url=False)[:MAX_ERRORS]:
        if isinstance(detail.get("ctx", {}).get("error"), InvalidFieldsError):
            continue
        new = _shape_error(detail, data, model)
        known = errors.get(new.place)
        if known is not None and known.want is not None and new.want is not None and new.want not in known.want:
            new = _ShapeError(known.place, known.kind, f"{known.want} or {new.want}", "", known.detail)
        elif known is not None:
            continue
        errors[new.place] = new
    parents = {place[:length] for place in errors for length in range(len(place))}
    return [one for place, one in errors.items() if place not in parents]  # the deepest: the type that matches best


def _shape_error(detail: Mapping[str, Any], data: object, model: type[BaseModel]) -> _ShapeError:
    kind, place = str(detail["type"]), _place(detail, data)
    cause = detail.get("ctx", {}).get("error")
    if kind == "missing":
        return _ShapeError(place, kind, None, "is missing", detail)
    if kind == "extra_forbidden":
        if len(place) == 1 and (new_name := getattr(model, "renamed_fields", {}).get(place[0])):
            return _ShapeError(place, kind, None, f"is now called '{new_name}'; rename the field", detail)
        return _ShapeError(place, kind, None, f"is no field of this document{_fields_at(model, detail['loc'][:-1])}", detail)
    if cause is not None:
        return _ShapeError(place, kind, None, str(cause), detail)
    return _ShapeError(place, kind, _want(detail), "", detail)


def _place(detail: Mapping[str, Any], data: object) -> Place:
    """Return where in the data an error is. Pydantic's location also names the member of a union; that is left out."""
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


def _replacement(error: _ShapeError, variant: int) -> object:
    """Return one of two values that are valid wherever this error can occur."""
    kind = error.kind
    if kind == "missing":
        return _NEUTRAL[variant]
    if kind.startswith("bool"):
        return bool(variant)
    if kind.startswith("string"):
        return "?" * (variant + 1)
    if kind.startswith("int"):
        return variant + 1
    if kind.startswith(("float", "greater", "less")) or kind == "finite_number":
        return _number(error.detail.get("input"), variant)
    if kind in ("literal_error", "enum"):
        options = re.findall(r"'([^']*)'", str(error.detail.get("ctx", {}).get("expected", "")))
        return (options or ["?"])[-variant]
    return [] if kind.startswith(("list", "tuple", "set", "frozen")) else {}


# Values for a missing field. If their type is wrong, pydantic reports the right one, and the next round uses it.
_NEUTRAL = (1, 2)


def _number(value: object, variant: int) -> float | int:
    return (1, 2)[variant] if isinstance(value, int) else (0.25, 0.75)[variant]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _finite(error: FieldError, data: object) -> FieldError:
    value = _at(data, error.place)
    return error if math.isfinite(value) else FieldError(error.place, f"wanted a finite number, got {_spell(value)}")


def _spell(value: float) -> str:
    return "NaN" if math.isnan(value) else "infinity" if value > 0 else "minus infinity"


def _is_under(place: Place, places: set[Place]) -> bool:
    """Return whether a place is one of these or within one of them."""
    return any(place[:length] in places for length in range(len(place) + 1))


def _copy(data: object) -> Any:
    return json.loads(json.dumps(data, default=str))


def _at(data: Any, place: Place) -> Any:
    """Return the value at a place, or None."""
    for key in place:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _put(data: Any, place: Place, value: object) -> bool:
    """Set the value at a place, and return whether there was a mapping or list to put it into."""
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
    """Return the names of the fields at a place, as far as the schema names them."""
    schema = _schema(model)
    definitions = schema.get("$defs", {})

    def resolve(node: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in node:
            return resolve(definitions[node["$ref"].rsplit("/", 1)[-1]])
        for option in node.get("anyOf", ()):
            if option.get("type") != "null":
                return resolve(option)
        return node

    node = resolve(schema)
    for key in place:
        inner = node.get("properties", {}).get(key) if isinstance(key, str) else node.get("items")
        node = resolve(inner or node.get("additionalProperties") or {})
    names = sorted(node.get("properties", {}))
    return f"; its fields are: {', '.join(names)}" if names else ""
