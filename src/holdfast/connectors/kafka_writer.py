"""Writes a sink's epochs to a Kafka topic."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.app.writers import WriteToken
from holdfast.connectors.kafka_transactions import TopicTransactions


class KafkaWriter:
    """A writer for a sink: `app.sink("out", stream, writer=KafkaWriter("broker:9092", "results", key="ticker"))`.

    A message's value is a row as a JSON object, and its key is the column `key`. Its headers are `epoch`, `quality` and `kind`. A
    correction (`kind` is `final`) contains all rows of its epoch, and replaces the earlier messages of that epoch. If
    it has no rows, it is one message without a value. With `exact_only` nothing inexact is written: an epoch is written once,
    when it is exact.

    Each epoch is one transaction, and the broker fences a writer that was replaced (see TopicTransactions). `settings` are further
    settings of librdkafka, for example for security.
    """

    takes_arrow = True

    def __init__(
        self, servers: str, topic: str, *, key: str | None = None, exact_only: bool = False, settings: dict[str, Any] | None = None
    ) -> None:
        self._key, self._exact_only = key, exact_only
        self._topic = TopicTransactions(servers, topic, settings or {}, what=f"the writer to topic '{topic}'")

    def __call__(self, rows: pa.Table, epoch: int, quality: str, *, token: WriteToken) -> None:
        """Write the rows of an epoch, unless the topic has them. Raises FencedError if another writer has taken over."""
        if self._exact_only and quality != "exact":
            return
        if not rows.num_rows and (self._exact_only or token.kind == "first"):
            return
        headers = {"epoch": str(token.epoch), "quality": quality, "kind": token.kind}
        keys = [None] * rows.num_rows if self._key is None else [str(key) for key in rows[self._key].to_pylist()]
        messages = zip(encode_rows(rows), keys, strict=True) if rows.num_rows else [(None, self._key and "")]
        self._topic.write(((message, headers) for message in messages), token)


def encode_rows(rows: pa.Table) -> Iterator[str]:
    """Yield each row as a JSON object.

    >>> list(encode_rows(pa.table({"user": ["a%", None], "n": [1, 2], "x": [0.5, float("nan")]})))
    ['{"user":"a%","n":1,"x":0.5}', '{"user":null,"n":2,"x":NaN}']
    """
    names = (_encode(name).replace("%", "%%") for name in rows.column_names)
    template = "{" + ",".join(f"{name}:%s" for name in names) + "}"  # faster than a dictionary per row
    return (template % values for values in zip(*map(_encode_column, rows.columns), strict=True))


def _encode_column(column: pa.ChunkedArray) -> list[Any]:
    """Return the values as JSON texts, or as numbers that Python prints as JSON does."""
    is_number = pa.types.is_integer(column.type) or (pa.types.is_floating(column.type) and pc.all(pc.is_finite(column)).as_py())
    values: list[Any] = column.to_pylist()
    return values if is_number and column.null_count == 0 else [_encode(value) for value in values]


def _encode_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_encode = json.JSONEncoder(default=_encode_value, separators=(",", ":")).encode
