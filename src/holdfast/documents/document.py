"""Documents from outside: YAML 1.2 or JSON in, a checked value out, or every error at once with its place.

A document is a pydantic model derived from `Document`. Shape (types, missing and unknown fields) is pydantic's; what
the fields mean together is the model's own `errors()`. Ranges belong there too, so that a negative rate and a cycle
in one document are reported together and not one after the other.
"""

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator

from holdfast.errors import DocumentError

MAX_SIZE_BYTES = 16 * 1024 * 1024
MAX_DIGITS = 300  # of a whole number: those of 308 and more are beyond what any number here can be compared with
MAX_ERRORS = 200  # that are told of one document: with more it is no such document at all
MAX_LINED_CHARS = 2_000_000  # lines in JSON are found by a second, slower reading

Place: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with a document: where (keys from the top) and what.

    `rests_on` are places on all of which it hangs: it is not told where a mapping, a list or a name in there could not be read.
    """

    place: Place
    text: str
    rests_on: tuple[Place, ...] = ()

    def __str__(self) -> str:
        return f"{dotted(self.place)}: {self.text}" if self.place else self.text


AND_MORE = FieldError((), "and more")


class InvalidFieldsError(ValueError):
    """Carries a document's own errors through pydantic, which knows only ValueError."""

    def __init__(self, errors: list[FieldError]) -> None:
        self.errors = errors
        super().__init__("; ".join(map(str, errors)))


class Part(BaseModel):
    """A piece of a document. Its ranges are checked by the document that holds it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # most processes use few of all the models they load


class Document(Part):
    """A whole document. Subclasses override `errors` to say what is wrong beyond shape.

    `renamed_fields` maps the old names of fields to the present ones, for the error that an old name causes.
    """

    renamed_fields: ClassVar[Mapping[str, str]] = {}

    def errors(self) -> Iterable[FieldError]:
        """Everything wrong with the document that its fields' types cannot express."""
        return ()

    @model_validator(mode="after")
    def _require_no_errors(self, info: ValidationInfo) -> Self:
        found = [] if info.context is _TAKEN else list(islice(self.errors(), MAX_ERRORS + 1))
        if len(found) > MAX_ERRORS:
            found[-1] = AND_MORE
        if found:
            raise InvalidFieldsError(found)
        return self


D = TypeVar("D", bound=BaseModel)

_TAKEN = {"taken": True}


def dotted(place: Place) -> str:
    """A place in a document as a dotted path.

    >>> dotted(("sources", "market", "rates", 1, "rate"))
    'sources.market.rates[1].rate'
    """
    text = ""
    for key in place:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


def wanted(place: Place, want: str, got: object) -> FieldError:
    """The usual error: what was wanted and what was got.

    >>> print(wanted(("replicas",), "a whole number of at least 1", 0))
    replicas: wanted a whole number of at least 1, got 0
    """
    return FieldError(place, f"wanted {want}, got {shown(got)}")


def listed(names: Iterable[str], *, most: int = 20) -> str:
    """Names in their order, the first of many.

    >>> listed(["b", "a"]), listed([]), listed("abcde", most=3)
    ('a, b', 'none', 'a, b, c and 2 more')
    """
    ordered = sorted(names)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(ordered[:most]) + more if ordered else "none"


def at_least(low: float, place: Place, value: float) -> Iterator[FieldError]:
    """An error unless value is a finite number of at least low."""
    if not (math.isfinite(value) and value >= low):
        yield wanted(place, f"a number of at least {low:g}", value)


def above(low: float, place: Place, value: float) -> Iterator[FieldError]:
    """An error unless value is a finite number above low."""
    if not (math.isfinite(value) and value > low):
        yield wanted(place, f"a number above {low:g}", value)


def between(low: float, high: float, place: Place, value: float) -> Iterator[FieldError]:
    """An error unless low <= value <= high."""
    if not low <= value <= high:
        yield wanted(place, f"a number from {low:g} to {high:g}", value)


def read_document(path: str | Path, model: type[D], *, also: Callable[[object], Iterable[FieldError]] = lambda data: ()) -> D:
    """The document at path, read as JSON (by its suffix) or YAML 1.2, and checked against the model.

    Raises DocumentError with every error and its line. `also` is as `check_document` has it.
    """
    data, lines = read_plain(path)
    return check_document(data, model, thing=str(path), lines=lines, also=also)


def read_plain(path: str | Path) -> tuple[object, Mapping[Place, int]]:
    """The values of the document at path, unchecked, and the lines of their places, where the text tells them. Raises DocumentError
    for what cannot be read."""
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
    also: Callable[[object], Iterable[FieldError]] = lambda data: (),
) -> D:
    """The document written in text. As `read_document`, for text that is not in a file."""
    data, lines = _load(text, thing, json_text=json_text)
    return check_document(data, model, thing=thing, lines=lines, also=also)


def _load(text: str, thing: str, *, json_text: bool) -> tuple[object, Mapping[Place, int]]:
    if json_text:
        return _load_json(text, thing), {}
    from holdfast.documents.yaml_text import load_yaml  # only where YAML is read: an orchestrator that starts reads none

    return load_yaml(text, thing)


def check_document(
    data: object,
    model: type[D],
    *,
    thing: str = "document",
    lines: Mapping[Place, int] | None = None,
    also: Callable[[object], Iterable[FieldError]] = lambda data: (),
) -> D:
    """The document held in plain lists and mappings, checked against the model. Raises DocumentError with every error.

    `also` finds, in the plain values, what the model cannot know to be wrong, such as names of things that are elsewhere.
    """
    try:
        return judged(data, model, also=also)
    except InvalidFieldsError as error:
        raise DocumentError(thing, [with_line(field, lines or {}) for field in error.errors]) from None


def judged(data: object, model: type[D], *, also: Callable[[object], Iterable[FieldError]]) -> D:
    """As `check_document`, and raises InvalidFieldsError: for whoever tells the errors elsewhere."""
    found: list[FieldError] = []
    document: D | None = None
    try:
        document = validated(data, model)
    except ValidationError as error:
        from holdfast.documents.validation_errors import find_errors  # only where there are any

        found.extend(find_errors(data, model, error))
    found.extend(also(data))
    if document is None or found:
        raise InvalidFieldsError(found)
    return document


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
    from holdfast.documents.yaml_text import dump_yaml

    return dump_yaml(data)


def schema_text(model: type[BaseModel]) -> str:
    """The model's JSON Schema, as it is kept under docs/schema."""
    return json.dumps(model.model_json_schema(), indent=2, sort_keys=True) + "\n"


def validated(data: object, model: type[D]) -> D:
    """The document in plain values, or pydantic's ValidationError."""
    # Strict JSON mode: lists may fill tuples, yet "3" is no number and true is no 1.
    return model.model_validate_json(json.dumps(data, default=str), strict=True)


def restored(text: str, model: type[D]) -> D:
    """A document that was checked by whoever took it and is kept as JSON. Only its shape is looked at; raises ValidationError.

    What is wrong with a document may come to be seen more sharply; what was taken is not taken back for that.
    """
    return model.model_validate_json(text, context=_TAKEN)


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
    from holdfast.documents.yaml_text import load_yaml

    try:
        load_yaml(text, "")
    except DocumentError as error:
        return error.errors
    return ()


def too_long(digits: int) -> str:
    """What is said of a whole number with so many digits."""
    return f"wanted a number of at most {MAX_DIGITS} digits, got one of {digits}"


def with_line(error: FieldError, lines: Mapping[Place, int]) -> str:
    """An error as it is told of a text: with the line that it stands in, or that of what it would stand in."""
    place = error.place
    while place and place not in lines:
        place = place[:-1]
    name = dotted(error.place)
    where = f" (line {lines[place]})" if place in lines else ""
    return f"{name}{where}: {error.text}" if name else error.text


def shown(value: object) -> str:
    """A value as a message has it: not too long."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    text = str(value) if plain else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
