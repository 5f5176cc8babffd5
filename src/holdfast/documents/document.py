"""Read and check documents: YAML 1.2 or JSON text becomes a checked value, or one DocumentError with every error and its place.

A document is a pydantic model derived from `Document`. Pydantic checks the shape: types, missing and unknown fields. The
model's own `errors()` checks what the fields mean together. It checks ranges too, so that a negative rate and a cycle in
one document are reported together.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias, TypeVar
from unicodedata import category

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator

from holdfast.documents.whole_files import replace_file
from holdfast.errors import DocumentError

MAX_SIZE_BYTES = 16 * 1024 * 1024
MAX_DIGITS = 300  # of a whole number; one of 308 digits or more cannot be compared with a float
MAX_ERRORS = 200  # reported for one document; a text with more errors is some other document
MAX_JSON_CHARS_FOR_LINES = 2_000_000  # finding lines in JSON takes a second, slower pass

Place: TypeAlias = tuple[str | int, ...]
"""Where a value is in a document: the keys and indexes from the top."""
Lines: TypeAlias = Callable[[], Mapping[Place, int]]
"""Returns the line of each place. It is called only when there is an error to report."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error of a document: where it is and what is wrong.

    `depends_on` lists places that the error was derived from. If a mapping, list or name below one of them could not be read,
    the error may be a mere consequence and is not reported.
    """

    place: Place
    text: str
    depends_on: tuple[Place, ...] = ()

    def __str__(self) -> str:
        return f"{format_place(self.place)}: {self.text}" if self.place else self.text


AND_MORE = FieldError((), "and more")


class InvalidFieldsError(ValueError):
    """Carries the errors of a document through pydantic, which expects a ValueError."""

    def __init__(self, errors: list[FieldError]) -> None:
        self.errors = errors
        super().__init__("; ".join(map(str, errors)))


class Part(BaseModel):
    """A part of a document. The document that contains it checks its ranges."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # most processes use few of the models they load


class Document(Part):
    """A whole document. Subclasses override `errors` to report what the types of the fields cannot express.

    `renamed_fields` maps the old names of fields to the present ones, for the error that an old name causes.
    """

    renamed_fields: ClassVar[Mapping[str, str]] = {}

    def errors(self) -> Iterable[FieldError]:
        """Yield every error of the document that the types of its fields cannot express."""
        return ()

    @model_validator(mode="after")
    def _require_no_errors(self, info: ValidationInfo) -> Self:
        errors = [] if info.context is _ACCEPTED else list(islice(self.errors(), MAX_ERRORS + 1))
        if len(errors) > MAX_ERRORS:
            errors[-1] = AND_MORE
        if errors:
            raise InvalidFieldsError(errors)
        return self


D = TypeVar("D", bound=BaseModel)

_ACCEPTED = {"accepted": True}


def format_place(place: Place) -> str:
    """Return a place as a dotted path.

    >>> format_place(("sources", "market", "rates", 1, "rate"))
    'sources.market.rates[1].rate'
    """
    text = ""
    for key in place:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


def unexpected(place: Place, want: str, value: object) -> FieldError:
    """Return the error for a value that is not what was wanted.

    >>> print(unexpected(("replicas",), "a whole number of at least 1", 0))
    replicas: wanted a whole number of at least 1, got 0
    """
    return FieldError(place, f"wanted {want}, got {format_value(value)}")


def join_names(names: Iterable[str], *, most: int = 20) -> str:
    """Return the names in alphabetical order, separated by commas; of many, only the first.

    >>> join_names(["b", "a"]), join_names([]), join_names("abcde", most=3)
    ('a, b', 'none', 'a, b, c and 2 more')
    """
    ordered = sorted(names)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(ordered[:most]) + more if ordered else "none"


def at_least(low: float, place: Place, value: float) -> Iterator[FieldError]:
    """Yield an error unless the value is a finite number of at least `low`."""
    if not (math.isfinite(value) and value >= low):
        yield unexpected(place, f"a number of at least {low:g}", value)


def above(low: float, place: Place, value: float) -> Iterator[FieldError]:
    """Yield an error unless the value is a finite number above `low`."""
    if not (math.isfinite(value) and value > low):
        yield unexpected(place, f"a number above {low:g}", value)


def between(low: float, high: float, place: Place, value: float) -> Iterator[FieldError]:
    """Yield an error unless low <= value <= high."""
    if not low <= value <= high:
        yield unexpected(place, f"a number from {low:g} to {high:g}", value)


def _no_errors(data: object) -> Iterable[FieldError]:
    return ()


def read_document(path: str | Path, model: type[D], *, also: Callable[[object], Iterable[FieldError]] = _no_errors) -> D:
    """Read the document at path (JSON if the name ends in .json, otherwise YAML 1.2) and check it against the model.

    Raises DocumentError with every error and its line. `also` is explained at `check_document`.
    """
    data, lines = read_plain(path)
    return check_document(data, model, thing=str(path), lines=lines, also=also)


def read_plain(path: str | Path) -> tuple[object, Lines]:
    """Read the document at path without checking it: its plain values and their lines. Raises DocumentError if it is unreadable."""
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
    return _load(text, thing, json_text=path.suffix == ".json")


def parse_document(
    text: str,
    model: type[D],
    *,
    thing: str = "document",
    json_text: bool = False,
    also: Callable[[object], Iterable[FieldError]] = _no_errors,
) -> D:
    """Check the document in a text against the model, like `read_document`. Errors name the document as `thing`."""
    data, lines = _load(text, thing, json_text=json_text)
    return check_document(data, model, thing=thing, lines=lines, also=also)


def _load(text: str, thing: str, *, json_text: bool) -> tuple[object, Lines]:
    if json_text:
        return _load_json(text, thing), lambda: _read_json_as_yaml(text)[0]
    from holdfast.documents.yaml_text import load_yaml  # imported late: an orchestrator starts without reading YAML

    data, lines = load_yaml(text, thing)
    return data, lambda: lines


def check_document(
    data: object,
    model: type[D],
    *,
    thing: str = "document",
    lines: Lines = dict,
    also: Callable[[object], Iterable[FieldError]] = _no_errors,
) -> D:
    """Check plain lists and mappings against the model and return the document. Raises DocumentError with every error.

    `also` finds errors in the plain values that the model cannot know, such as names of objects that are defined elsewhere.
    """
    try:
        return validate_document(data, model, also=also)
    except InvalidFieldsError as error:
        line_of = lines()
        raise DocumentError(thing, [with_line(field, line_of) for field in error.errors]) from None


def validate_document(data: object, model: type[D], *, also: Callable[[object], Iterable[FieldError]]) -> D:
    """Do what `check_document` does, but raise InvalidFieldsError, which keeps the places of the errors."""
    errors: list[FieldError] = []
    document: D | None = None
    try:
        document = parse_values(data, model)
    except ValidationError as error:
        from holdfast.documents.validation_errors import find_errors  # imported late: most documents have no errors

        errors.extend(find_errors(data, model, error))
    errors.extend(also(data))
    if document is None or errors:
        raise InvalidFieldsError(errors)
    return document


def write_document(path: str | Path, document: BaseModel) -> None:
    """Write the document to path, as JSON if the name ends in .json, otherwise as YAML. A reader sees the old or the new file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, document_text(document, json_text=path.suffix == ".json"))


def document_text(document: BaseModel, *, json_text: bool = False) -> str:
    """Return the document as YAML or JSON text. Fields that are None are left out."""
    data = document.model_dump(mode="json", exclude_none=True, by_alias=True)
    if json_text:
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    from holdfast.documents.yaml_text import dump_yaml

    return dump_yaml(data)


def schema_text(model: type[BaseModel]) -> str:
    """Return the model's JSON Schema as it is stored under docs/schema."""
    return json.dumps(model.model_json_schema(), indent=2, sort_keys=True) + "\n"


def parse_values(data: object, model: type[D]) -> D:
    """Return the document in plain values. Raises pydantic's ValidationError."""
    # Strict JSON mode: lists may fill tuples, but "3" is not a number and true is not 1.
    return model.model_validate_json(json.dumps(data, default=str), strict=True)


def restore_document(text: str, model: type[D]) -> D:
    """Return a document that was checked when it was accepted and has been stored as JSON. Raises ValidationError.

    Only the shape is checked, so that a check which a later version adds does not reject a stored document.
    """
    return model.model_validate_json(text, context=_ACCEPTED)


def _load_json(text: str, thing: str) -> object:
    duplicates: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in pairs:
            if key in mapping:
                duplicates.append(key)
            mapping[key] = value
        return mapping

    def whole(digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            line = text.count("\n", 0, text.find(digits)) + 1
            raise DocumentError(thing, [f"line {line}: {too_many_digits(len(digits))}"])
        return int(digits)

    try:
        data = json.loads(text, object_pairs_hook=unique, parse_int=whole)
    except json.JSONDecodeError as error:
        raise DocumentError(thing, [f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"]) from None
    except RecursionError:
        raise DocumentError(thing, ["nested too deeply"]) from None
    if duplicates:
        _, errors = _read_json_as_yaml(text)
        raise DocumentError(thing, errors or [f"key '{key}' occurs twice in one mapping; keep one" for key in duplicates])
    return data


def _read_json_as_yaml(text: str) -> tuple[Mapping[Place, int], tuple[str, ...]]:
    """Return the line of each place in a JSON text, and errors with their lines.

    Python's JSON reader reports no lines. Nearly all JSON is YAML, so the YAML reader can report them.
    """
    if len(text) > MAX_JSON_CHARS_FOR_LINES:
        return {}, ()
    from holdfast.documents.yaml_text import load_yaml

    try:
        return load_yaml(text, "")[1], ()
    except DocumentError as error:
        return {}, error.errors


def too_many_digits(count: int) -> str:
    """Return the error text for a whole number of so many digits."""
    return f"wanted a number of at most {MAX_DIGITS} digits, got one of {count}"


def with_line(error: FieldError, lines: Mapping[Place, int]) -> str:
    """Return the error's text with its place and line. A missing field has the line of the mapping that lacks it."""
    place = error.place
    while place and place not in lines:
        place = place[:-1]
    where = f" (line {lines[place]})" if place in lines else ""
    return escape(f"{format_place(error.place)}{where}: {error.text}" if error.place else error.text)


def escape(text: str) -> str:
    """Return the text with line breaks and control characters as escape sequences.

    >>> escape("a\\nb")
    'a\\\\nb'
    """
    return "".join(repr(sign)[1:-1] if category(sign) in ("Cc", "Zl", "Zp") else sign for sign in text)


def format_value(value: object) -> str:
    """Return a value as text for a message, cut to 60 characters."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = str(value) if is_number else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
