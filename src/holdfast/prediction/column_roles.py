"""The role of each column in a predicted row: key, number to predict, advancing, carried over or blank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.errors import CompoundError

EPOCH, SEQ = "epoch", "seq"
KEY_HINT = "; name key columns that exist in 'predicting.keys', or none ([]) if an epoch has one row"


@dataclass(frozen=True)
class ColumnRoles:
    """The columns of a stream by their role in a predicted row.

    `keys` identify the series. `numbers` are predicted. `advancing` columns (seq and times) continue at their recent pace.
    `carried` columns repeat the key's last row. `blank` columns are null. The column `epoch` has the epoch's number.
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


def classify_columns(
    schema: pa.Schema, keys: Sequence[str], *, carry: Sequence[str] = (), blank: Sequence[str] = (), stream: str = "?"
) -> ColumnRoles:
    """Return the roles of a stream's columns. Numbers are predicted unless `carry` or `blank` names them.

    Other columns are carried unless `blank` names them. Raises CompoundError with all errors.

    >>> schema = pa.schema({"seq": pa.int64(), "epoch": pa.int64(), "rack": pa.string(), "cpu": pa.float64(), "up": pa.bool_()})
    >>> roles = classify_columns(schema, ["rack"])
    >>> roles.numbers, roles.carried, roles.advancing
    (('cpu',), ('up',), ('seq',))
    """
    errors = [
        f"{option} names column '{name}', which does not exist; columns are: {', '.join(schema.names)}{hint}"
        for option, names, hint in (("the key", keys, KEY_HINT), ("carry", carry, ""), ("blank", blank, ""))
        for name in names
        if name not in schema.names
    ]
    if errors:
        raise CompoundError(f"prediction of stream '{stream}'", errors)
    errors += [f"column '{name}' is both carried and blank; choose one" for name in carry if name in blank]
    errors += [f"column '{name}' is part of the key, which cannot be left blank" for name in keys if name in blank]
    errors += [
        f"column '{name}' is part of the key, which must have plain values, not the type {schema.field(name).type}"
        for name in keys
        if pa.types.is_nested(schema.field(name).type)
    ]
    errors += [f"column '{name}' may not be null, so it cannot be blank" for name in blank if not schema.field(name).nullable]
    roles: dict[str, list[str]] = {"numbers": [], "advancing": [], "carried": []}
    for field in schema:
        if field.name not in (*keys, *blank, EPOCH):
            roles["carried" if field.name in carry else _role(field)].append(field.name)
    if not roles["numbers"] and not errors:
        errors.append("no column to predict; at least one number must be neither key, carried nor blank")
    if errors:
        raise CompoundError(f"prediction of stream '{stream}'", errors)
    return ColumnRoles(schema, tuple(keys), blank=tuple(blank), **{role: tuple(names) for role, names in roles.items()})


def _role(field: pa.Field) -> str:
    if field.name == SEQ or pa.types.is_timestamp(field.type):
        return "advancing"
    return "numbers" if is_number(field) else "carried"


def is_number(field: pa.Field) -> bool:
    return bool(pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type))
