"""Documents from outside: YAML 1.2 or JSON in, a checked value out, or every problem at once with its place.

A document is a pydantic model derived from `Document`. Shape (types, missing and unknown fields) is pydantic's; what
the fields mean together is the model's own `problems()`. Ranges belong there too, so that a negative rate and a cycle
in one document are reported together and not one after the other.
"""

import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from holdfast.errors import DocumentError

MAX_SIZE_BYTES = 16 * 1024 * 1024
MAX_DIGITS = 300  # of a whole number: those of 308 and more are beyond what any number here can be compared with
MAX_LINED_CHARS = 2_000_000  # lines in JSON are found by a second, slower reading

Place: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a document: where (keys from the top) and what."""

    place: Place
    text: str

    def __str__(self) -> str:
        return f"{dotted(self.place)}: {self.text}" if self.place else self.text


class _ProblemsFound(ValueError):
    """Carries a document's own problems through pydantic, which knows only ValueError."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(map(str, problems)))


class Part(BaseModel):
    """A piece of a document. Its ranges are checked by the document that holds it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # most processes use few of all the models they load


class Document(Part):
    """A whole document. Subclasses override `problems` to say what is wrong beyond shape."""

    def problems(self) -> Iterable[Problem]:
        """Everything wrong with the document that its fields' types cannot express."""
        return ()

    @model_validator(mode="after")
    def _has_no_problems(self) -> Self:
        found = list(self.problems())
        if found:
            raise _ProblemsFound(found)
        return self


D = TypeVar("D", bound=BaseModel)


def dotted(place: Place) -> str:
    """A place in a document as a dotted path.

    >>> dotted(("sources", "market", "rates", 1, "rate"))
    'sources.market.rates[1].rate'
    """
    text = ""
    for key in place:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


def wanted(place: Place, want: str, got: object) -> Problem:
    """The usual problem: what was wanted and what was got.

    >>> print(wanted(("replicas",), "a whole number of at least 1", 0))
    replicas: wanted a whole number of at least 1, got 0
    """
    return Problem(place, f"wanted {want}, got {shown(got)}")


def at_least(low: float, place: Place, value: float) -> Iterator[Problem]:
    """A problem unless value is a finite number of at least low."""
    if not (math.isfinite(value) and value >= low):
        yield wanted(place, f"a number of at least {low:g}", value)


def above(low: float, place: Place, value: float) -> Iterator[Problem]:
    """A problem unless value is a finite number above low."""
    if not (math.isfinite(value) and value > low):
        yield wanted(place, f"a number above {low:g}", value)


def between(low: float, high: float, place: Place, value: float) -> Iterator[Problem]:
    """A problem unless low <= value <= high."""
    if not low <= value <= high:
        yield wanted(place, f"a number from {low:g} to {high:g}", value)


def read_document(path: str | Path, model: type[D]) -> D:
    """The document at path, read as JSON (by its suffix) or YAML 1.2, and checked against the model.

    Raises DocumentError with every problem and its line.
    """
    path = Path(path)
    thing = str(path)
    try:
        size_bytes = path.stat().st_size
        if size_bytes > MAX_SIZE_BYTES:
            raise DocumentError(thing, [f"wanted at most {MAX_SIZE_BYTES} bytes, got {size_bytes}"])
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DocumentError(thing, ["no such file"]) from None
    except OSError as error:
        raise DocumentError(thing, [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        byte = f"{error.object[error.start]:#04x} at byte {error.start}"
        raise DocumentError(thing, [f"wanted UTF-8 text, got {byte}"]) from None
    return parse_document(text, model, thing=thing, json_text=path.suffix == ".json")


def parse_document(text: str, model: type[D], *, thing: str = "document", json_text: bool = False) -> D:
    """The document written in text. As `read_document`, for text that is not in a file."""
    if json_text:
        return check_document(_load_json(text, thing), model, thing=thing)
    from holdfast.model.yaml_text import load_yaml  # only where YAML is read: an orchestrator that starts reads none

    data, lines = load_yaml(text, thing)
    return check_document(data, model, thing=thing, lines=lines)


def check_document(data: object, model: type[D], *, thing: str = "document", lines: Mapping[Place, int] | None = None) -> D:
    """The document held in plain lists and mappings, checked against the model."""
    try:
        return _validate(data, model)
    except ValidationError as error:
        found = list(_problems_of(error, model))
        spare = [detail["loc"] for detail in error.errors() if detail["type"] in ("extra_forbidden", "literal_error")]
        if spare and len(spare) == error.error_count():
            found.extend(_hidden_behind(spare, data, model))
    place_line = lines or {}
    raise DocumentError(thing, [_with_line(problem, place_line) for problem in found])


def write_document(path: str | Path, document: BaseModel) -> None:
    """Write the document at path (JSON by its suffix, else YAML), whole or not at all.

    The text goes to a temporary file beside path, which is then renamed: a reader sees the old or the new.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(document_text(document, json_text=path.suffix == ".json"))
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def document_text(document: BaseModel, *, json_text: bool = False) -> str:
    """The document as YAML, or as JSON. Fields that are None are left out."""
    data = document.model_dump(mode="json", exclude_none=True, by_alias=True)
    if json_text:
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    from holdfast.model.yaml_text import dump_yaml

    return dump_yaml(data)


def schema_text(model: type[BaseModel]) -> str:
    """The model's JSON Schema, as it is kept under docs/schema."""
    return json.dumps(model.model_json_schema(), indent=2, sort_keys=True) + "\n"


def _validate(data: object, model: type[D]) -> D:
    # Strict JSON mode: lists may fill tuples, yet "3" is no number and true is no 1.
    return model.model_validate_json(json.dumps(data, default=str), strict=True)


def _load_json(text: str, thing: str) -> object:
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in pairs:
            if key in made:
                twice.append(key)
            made[key] = value
        return made

    def whole(digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            line = text.count("\n", 0, text.find(digits)) + 1
            raise DocumentError(thing, [f"line {line}: {too_long(len(digits))}"])
        return int(digits)

    try:
        data = json.loads(text, object_pairs_hook=unique, parse_int=whole)
    except json.JSONDecodeError as error:
        raise DocumentError(thing, [f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"]) from None
    except RecursionError:
        raise DocumentError(thing, ["nested too deeply"]) from None
    if twice:
        told = _told_as_yaml(text) if len(text) <= MAX_LINED_CHARS else ()
        raise DocumentError(thing, told or [f"key '{key}' stands twice in one mapping; keep one" for key in twice])
    return data


def _told_as_yaml(text: str) -> tuple[str, ...]:
    """What is wrong with JSON read as the YAML that it nearly always is, with the lines that JSON's reader does not tell."""
    from holdfast.model.yaml_text import load_yaml

    try:
        load_yaml(text, "")
    except DocumentError as error:
        return error.problems
    return ()


def too_long(digits: int) -> str:
    """What is said of a whole number with so many digits."""
    return f"wanted a number of at most {MAX_DIGITS} digits, got one of {digits}"


def _with_line(problem: Problem, lines: Mapping[Place, int]) -> str:
    place = problem.place
    while place and place not in lines:
        place = place[:-1]
    name = dotted(problem.place)
    where = f" (line {lines[place]})" if place in lines else ""
    return f"{name}{where}: {problem.text}" if name else problem.text


def _problems_of(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    for detail in error.errors():
        cause = detail.get("ctx", {}).get("error")
        place = tuple(detail["loc"])
        if isinstance(cause, _ProblemsFound):
            yield from (Problem((*place, *problem.place), problem.text) for problem in cause.problems)
        elif detail["type"] == "missing":
            yield Problem(place, "is missing")
        elif detail["type"] == "extra_forbidden":
            yield Problem(place, f"is no field of this document{_fields_at(model, place[:-1])}")
        elif cause is not None:
            yield Problem(place, str(cause))
        else:
            yield wanted(place, _want(dict(detail)), detail["input"])


def _hidden_behind(spare: list[tuple[int | str, ...]], data: object, model: type[BaseModel]) -> Iterator[Problem]:
    # With unknown fields and unknown words taken away the document's own checks run, so one reading reports those problems too.
    copy = json.loads(json.dumps(data, default=str))
    for place in spare:
        inner = copy
        try:
            for key in place[:-1]:
                inner = inner[key]
        except (LookupError, TypeError):
            return  # a choice between models, whose name is no key
        if not isinstance(inner, dict) or place[-1] not in inner:
            return  # taken out of a list, it would move what follows
        del inner[place[-1]]
    try:
        _validate(copy, model)
    except ValidationError as error:
        yield from (problem for problem in _problems_of(error, model) if problem.place not in spare)


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


def _fields_at(model: type[BaseModel], place: Place) -> str:
    """The names of the fields at a place, as far as the schema names them."""
    schema = model.model_json_schema()
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


def shown(value: object) -> str:
    """A value as a message has it: not too long."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    text = str(value) if plain else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
