"""What each column of a stream is to prediction: a key, a number to predict, something to carry on or to leave out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.errors import CompoundError

EPOCH, SEQ = "epoch", "seq"
KEYLESS = "; let 'predicting.keys' name columns that say whose row it is, or none ([]) where an epoch has one row"


@dataclass(frozen=True)
class Columns:
    """The columns of a stream by what becomes of them in a predicted row.

    `keys` say whose row it is. `numbers` are predicted. `advancing` columns (seq and times) go on as they have gone on.
    `carried` columns repeat the key's last row. `blank` ones are null. `epoch` is what it must be.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    numbers: tuple[str, ...]
    advancing: tuple[str, ...]
    carried: tuple[str, ...]
    blank: tuple[str, ...]

    @property
    def whole(self) -> tuple[bool, ...]:
        """Which of the numbers are whole numbers."""
        return tuple(pa.types.is_integer(self.schema.field(name).type) for name in self.numbers)


def columns_of(
    schema: pa.Schema, keys: Sequence[str], *, carry: Sequence[str] = (), blank: Sequence[str] = (), stream: str = "?"
) -> Columns:
    """The columns of a stream with these keys. Numbers are predicted unless `carry` or `blank` names them.

    What is no number is carried unless `blank` names it. Raises CompoundError with everything that does not fit.

    >>> schema = pa.schema({"seq": pa.int64(), "epoch": pa.int64(), "rack": pa.string(), "cpu": pa.float64(), "up": pa.bool_()})
    >>> found = columns_of(schema, ["rack"])
    >>> found.numbers, found.carried, found.advancing
    (('cpu',), ('up',), ('seq',))
    """
    errors = [
        f"{what} names column '{name}', which does not exist; columns are: {', '.join(schema.names)}{mend}"
        for what, names, mend in (("the key", keys, KEYLESS), ("carry", carry, ""), ("blank", blank, ""))
        for name in names
        if name not in schema.names
    ]
    if errors:
        raise CompoundError(f"prediction of stream '{stream}'", errors)
    errors += [f"column '{name}' is carried and blank; say which" for name in carry if name in blank]
    errors += [f"column '{name}' is part of the key, which cannot be left blank" for name in keys if name in blank]
    errors += [
        f"column '{name}' is part of the key, which cannot be of type {schema.field(name).type} but only of plain values"
        for name in keys
        if pa.types.is_nested(schema.field(name).type)
    ]
    errors += [f"column '{name}' may not be null, so it cannot be blank" for name in blank if not schema.field(name).nullable]
    kinds: dict[str, list[str]] = {"numbers": [], "advancing": [], "carried": []}
    for field in schema:
        if field.name in (*keys, *blank, EPOCH):
            continue
        kinds["carried" if field.name in carry else _kind(field)].append(field.name)
    if not kinds["numbers"] and not errors:
        errors.append("no column to predict; wanted at least one number that is neither key, carried nor blank")
    if errors:
        raise CompoundError(f"prediction of stream '{stream}'", errors)
    return Columns(schema, tuple(keys), blank=tuple(blank), **{kind: tuple(names) for kind, names in kinds.items()})


def _kind(field: pa.Field) -> str:
    if field.name == SEQ or pa.types.is_timestamp(field.type):
        return "advancing"
    return "numbers" if is_number(field) else "carried"


def is_number(field: pa.Field) -> bool:
    return bool(pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type))
