"""Parses the messages of a Kafka topic into rows of a source's schema."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.json as pj

from holdfast.documents.source_inputs import KafkaInput
from holdfast.errors import ExternalError, HoldfastError

MESSAGE_COLUMNS = ("kafka_key", "kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp")
"""Columns that are filled from the message itself, in every format of values."""

ASSIGNED_COLUMNS = ("seq", "epoch")
NO_TIMESTAMP = 0
"""The kind of timestamp of a message without one: confluent_kafka.TIMESTAMP_NOT_AVAILABLE."""
NOT_FOUND, FORBIDDEN = 404, (401, 403)


KafkaMessage: TypeAlias = Any
"""A Message of confluent_kafka. It is not copied: copying millions of messages would take longer than building their rows."""


@dataclass(frozen=True)
class BadMessage:
    """A message that cannot be parsed, and why."""

    message: KafkaMessage
    reason: str

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the message in a dead-letter topic: where it came from, and why it is there."""
        message = self.message
        where = {"topic": message.topic(), "partition": str(message.partition()), "offset": str(message.offset())}
        return {**where, "reason": self.reason}

    def __str__(self) -> str:
        message = self.message
        return f"the message at offset {message.offset()} of '{message.topic()}' partition {message.partition()}"


ParseValues: TypeAlias = Callable[[Sequence[KafkaMessage]], pa.Table]
"""Returns one row per message; raises ValueError (pa.ArrowInvalid is one) if a message cannot be parsed."""


class MessageParser:
    """Parses messages into rows that have the columns of a source's schema, except `seq` and `epoch`."""

    def __init__(self, options: KafkaInput, schema: pa.Schema, *, source: str) -> None:
        self._fields = {field.name: field for field in schema if field.name not in ASSIGNED_COLUMNS}
        values = pa.schema([field for name, field in self._fields.items() if name not in MESSAGE_COLUMNS])
        parsers: dict[str, Callable[[pa.Schema, KafkaInput, str], ParseValues]] = {"json": _json_parser, "avro": _avro_parser}
        self._parse_values = parsers.get(options.value, _bytes_parser)(values, options, source)

    def parse(self, messages: Sequence[KafkaMessage]) -> tuple[pa.Table, list[BadMessage]]:
        """Return a row for each message that can be parsed, in order, and the others."""
        bad: list[BadMessage] = []
        good: list[KafkaMessage] = []
        tables = self._parse_parts(messages, good, bad)
        values = pa.concat_tables(tables) if tables else self._parse_values([])
        columns = {name: values[name] for name in values.column_names}
        for name in MESSAGE_COLUMNS:
            if name in self._fields:
                columns[name] = _message_column(name, good).cast(self._fields[name].type)
        if "time" in self._fields and "time" not in self._value_names(values):
            columns["time"] = _message_column("kafka_timestamp", good).cast(self._fields["time"].type)
        return pa.table({name: columns[name] for name in self._fields}), bad

    def _value_names(self, values: pa.Table) -> set[str]:
        """Return the columns that the values have. A time that is missing in every value comes from the messages."""
        return {name for name in values.column_names if name != "time" or values[name].null_count < values.num_rows}

    def _parse_parts(self, messages: Sequence[KafkaMessage], good: list[KafkaMessage], bad: list[BadMessage]) -> list[pa.Table]:
        """Parse all messages at once. If that fails, halve them until the bad ones are found."""
        if not messages:
            return []
        try:
            rows = self._parse_values(messages)
            if rows.num_rows != len(messages):
                raise ValueError("it is not one JSON object")
        except ValueError as error:
            if len(messages) == 1:
                bad.append(BadMessage(messages[0], str(error).strip().splitlines()[0]))
                return []
            middle = len(messages) // 2
            first = self._parse_parts(messages[:middle], good, bad)
            return first + self._parse_parts(messages[middle:], good, bad)
        good += messages
        return [rows]


def _json_parser(schema: pa.Schema, options: KafkaInput, source: str) -> ParseValues:
    """Return a parser of JSON objects. Unknown fields are ignored, and missing ones are null."""
    for field in schema:
        if pa.types.is_map(field.type):
            raise HoldfastError(
                f"source '{source}' declares column '{field.name}' as a map, which cannot be read from JSON; declare it as a "
                "struct, or as a string that an operator parses with from_json"
            )
    # Arrow reads dates from JSON as text only.
    read = pa.schema([pa.field(f.name, pa.string() if pa.types.is_date(f.type) else f.type) for f in schema])
    parse = pj.ParseOptions(explicit_schema=read, newlines_in_values=True, unexpected_field_behavior="ignore")
    whole = pj.ReadOptions(use_threads=False, block_size=2**30)

    def parse_values(messages: Sequence[KafkaMessage]) -> pa.Table:
        if not messages:
            return schema.empty_table()
        values = [message.value() for message in messages]
        if any(value is None or not value.strip() for value in values):
            raise ValueError("it is empty")
        content = io.BytesIO(b"\n".join(value for value in values if value is not None))
        return pj.read_json(content, parse_options=parse, read_options=whole).select(schema.names).cast(schema)

    return parse_values


def _bytes_parser(schema: pa.Schema, options: KafkaInput, source: str) -> ParseValues:
    """Return a parser that puts each value into the schema's only column for it."""
    kinds = (pa.types.is_string, pa.types.is_binary)
    names = [field.name for field in schema if any(is_kind(field.type) for is_kind in kinds)]
    others = sorted(set(schema.names) - set(names) - {"time"})
    if len(names) != 1 or others:
        raise HoldfastError(
            f"source '{source}' reads messages as bytes: beside seq, time and {', '.join(MESSAGE_COLUMNS)}, its schema needs "
            f"exactly one column, of type binary or string, for the value; got: {', '.join(names + others) or 'none'}"
        )

    def parse_values(messages: Sequence[KafkaMessage]) -> pa.Table:
        values = pa.array([message.value() for message in messages], pa.binary()).cast(schema.field(names[0]).type)
        return pa.table({names[0]: values})

    return parse_values


def _avro_parser(schema: pa.Schema, options: KafkaInput, source: str) -> ParseValues:
    """Return a parser of Avro records whose schemas are in a registry."""
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.avro import AvroDeserializer
        from confluent_kafka.schema_registry.error import SchemaRegistryError
        from confluent_kafka.serialization import MessageField, SerializationContext
    except ImportError as error:
        raise HoldfastError(
            f"source '{source}' reads Avro, which needs {error.name}; run: pip install 'holdfast[kafka]'"
        ) from error
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": options.registry, "max.retries": 0}))
    registry = f"source '{source}' cannot use the schema registry {options.registry}"

    def parse_values(messages: Sequence[KafkaMessage]) -> pa.Table:
        try:
            values = [deserialize(m.value(), SerializationContext(m.topic(), MessageField.VALUE)) for m in messages]
            if None in values:
                raise ValueError("it is empty")
            return pa.Table.from_pylist(values, schema=schema)
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND:
                raise ValueError(f"its schema is not in the registry {options.registry}") from error
            if error.http_status_code in FORBIDDEN:
                raise HoldfastError(f"{registry}: {error}; check the user name and password in its URL") from error
            raise ExternalError(f"{registry}: {error}") from error
        except Exception as error:  # the library raises errors of several unrelated classes
            if type(error).__module__.startswith("httpx"):
                raise ExternalError(f"{registry}: {error}; is it running?") from error
            raise ValueError(f"{type(error).__name__}: {error}") from error

    return parse_values


def _message_column(name: str, messages: Sequence[KafkaMessage]) -> pa.Array:
    if name == "kafka_key":
        return pa.array([m.key() for m in messages], pa.binary())
    if name == "kafka_topic":
        return pa.array([m.topic() for m in messages], pa.string())
    if name == "kafka_partition":
        return pa.array([m.partition() for m in messages], pa.int64())
    if name == "kafka_offset":
        return pa.array([m.offset() for m in messages], pa.int64())
    times_us = [None if kind == NO_TIMESTAMP else time_ms * 1000 for kind, time_ms in (m.timestamp() for m in messages)]
    return pa.array(times_us, pa.timestamp("us", "UTC"))
