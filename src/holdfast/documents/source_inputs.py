"""Where a replayable source reads its rows: a Kafka topic, files or a table. Any range of them can be read again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from holdfast.documents.document import Document, FieldError, at_least


class KafkaInput(Document):
    """A source that reads Kafka.

    Give either `topic` (one name, or several separated by commas) or `pattern` (a regular expression of whole topic names).
    `servers` are the bootstrap servers. `starting_offsets` is where a new job begins: 'earliest', 'latest', or a mapping from
    'topic:partition' to an offset. `settings` are further settings of librdkafka, such as `security.protocol` and `sasl.username`.

    `value` is the format of a message: `json` (one object), `avro` (with the schema registry at `registry`), or `bytes` (the
    schema's only column of type binary or string receives the value). In each format the columns `kafka_key`, `kafka_topic`,
    `kafka_partition`, `kafka_offset` and `kafka_timestamp`, if the schema has them, are filled from the message. A column `time`
    that a JSON or Avro value does not have receives the message's timestamp.

    `on_bad_message` is what happens to a message that cannot be parsed: the source fails, skips and counts it, or writes it to
    `dead_letter_topic`, once, with headers that say where it came from and why it could not be parsed. `on_lost_rows`
    is what happens if the topic was truncated behind the source: it fails, or continues and reports the loss. At most
    `rows_per_epoch` rows enter an epoch; the others follow in the next ones.
    """

    servers: str
    topic: str | None = None
    pattern: str | None = None
    starting_offsets: Literal["earliest", "latest"] | dict[str, int] = "latest"
    settings: dict[str, Any] = Field(default_factory=dict)
    value: Literal["json", "avro", "bytes"] = "json"
    registry: str | None = None
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    on_bad_message: Literal["fail", "skip", "dead_letter"] = "fail"
    dead_letter_topic: str | None = None
    on_lost_rows: Literal["fail", "report"] = "fail"
    rows_per_epoch: int | None = None

    def errors(self) -> Iterable[FieldError]:
        if (self.topic is None) == (self.pattern is None):
            yield FieldError((), "wanted either 'topic' or 'pattern'")
        if self.value == "avro" and self.registry is None:
            yield FieldError(("registry",), "is missing; Avro messages name their schemas by numbers in a schema registry")
        if (self.on_bad_message == "dead_letter") != (self.dead_letter_topic is not None):
            yield FieldError(("dead_letter_topic",), "wanted with 'on_bad_message': 'dead_letter', and only with it")
        if self.rows_per_epoch is not None:
            yield from at_least(1, ("rows_per_epoch",), self.rows_per_epoch)
        if isinstance(self.starting_offsets, dict):
            for name, offset in self.starting_offsets.items():
                if not name.rpartition(":")[2].isdigit() or offset < 0:
                    text = f"wanted 'topic:partition' and an offset of at least 0, got '{name}': {offset}"
                    yield FieldError(("starting_offsets",), text)


class FilesInput(Document):
    """A source that reads files of a folder or object store, each once, in the order of their names.

    A file that appears later must have a later name, as with dates or numbers in names. Files are Parquet, JSON lines or CSV, by
    the ending of their names. A file must be complete when it appears under its name. At most `files_per_epoch` enter an epoch.
    """

    path: str
    files_per_epoch: int = 100
    starting: Literal["earliest", "latest"] = "earliest"

    def errors(self) -> Iterable[FieldError]:
        yield from at_least(1, ("files_per_epoch",), self.files_per_epoch)


class TableInput(Document):
    """A source that reads the rows that are appended to a table of versions, each once, in the order of its commits.

    A new job begins with the rows that the table has (`starting` 'earliest'), or with the next commit ('latest'). At most
    `files_per_epoch` data files enter an epoch. `on_changed_rows` is what happens at a commit that deletes or updates rows: the
    source fails, or skips the commit and counts it. `on_lost_rows` is what happens if versions or files were removed before they
    were read: the source fails, or continues with the oldest version that is there and reports the loss.
    """

    starting: Literal["earliest", "latest"] = "earliest"
    files_per_epoch: int = 100
    on_changed_rows: Literal["fail", "skip"] = "fail"
    on_lost_rows: Literal["fail", "report"] = "fail"

    def errors(self) -> Iterable[FieldError]:
        yield from at_least(1, ("files_per_epoch",), self.files_per_epoch)


class DeltaInput(TableInput):
    """A source that reads a Delta table at `path`, a folder or the URL of an object store."""

    path: str


class IcebergInput(TableInput):
    """A source that reads an Iceberg `table`, such as 'shop.orders'. `catalog` is a name known to pyiceberg, or its properties."""

    catalog: str | dict[str, str]
    table: str


SourceInput = KafkaInput | FilesInput | DeltaInput | IcebergInput
