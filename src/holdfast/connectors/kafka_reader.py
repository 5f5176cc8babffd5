"""Reads ranges of a Kafka topic: the offsets of an epoch, from the partitions of one task of a source. The source claims each range
before it calls `read` (runtime/sources/replayable_source.py).

The consumer stays assigned between epochs, so that librdkafka fetches the next rows while the present ones are processed. Messages
past the end of a range are kept for the next one. The consumer group stores no offsets: the log does.
"""

import re
import time
import zlib
from collections import deque
from typing import Any

import pyarrow as pa

from holdfast.app.writers import WriteToken
from holdfast.connectors.kafka_client import PASSING, TIMEOUT_S, KafkaCluster, logger
from holdfast.connectors.kafka_messages import BadMessage, KafkaMessage, MessageParser
from holdfast.connectors.kafka_transactions import TopicTransactions
from holdfast.connectors.replayable import RangeReader
from holdfast.documents.source_inputs import KafkaInput
from holdfast.errors import ExternalError, HoldfastError
from holdfast.log.range_claims import Positions, Range

FETCH_BYTES = 8 << 20
"""How much the broker sends of a partition at once. librdkafka's default of 1 MB needs many round trips for a large epoch."""
NO_OFFSET = -1
"""What a broker answers if no message is later than a time."""
CONSUME_MESSAGES = 10_000
CONSUME_S = 0.02
"""How long one call waits for CONSUME_MESSAGES messages. The end of a range is noticed after the call."""
SILENCE_LIMIT_S = 30.0
"""How long a read waits for the next message of a range before it reports that the broker does not answer."""
PARTITIONS_EVERY_S = 5.0
"""How often the reader looks for new partitions and topics."""


class KafkaReader(RangeReader):
    """Implements RangeReader for Kafka. A position maps 'topic:partition' to the offset of the next message."""

    has_own_positions = True

    def __init__(self, options: KafkaInput, schema: pa.Schema, *, source: str, task: int, tasks: int) -> None:
        self._what = f"source '{source}'"
        self._cluster = KafkaCluster(self._what, options.servers, options.settings)
        self._kafka = self._cluster.library
        self._options, self._task, self._tasks = options, task, tasks
        self._parser = MessageParser(options, schema, source=source)
        group = {"group.id": f"holdfast-{source}", "enable.auto.commit": False}
        reading = {"auto.offset.reset": "error", "enable.partition.eof": True, "isolation.level": options.isolation}
        faster = {"max.partition.fetch.bytes": FETCH_BYTES}
        self._consumer = self._kafka.Consumer({**faster, **self._cluster.settings, **group, **reading}, logger=logger)
        self._names: list[str] = []
        self._look_again_s = 0.0
        self._next: dict[str, int] = {}
        self._ahead: dict[str, deque[KafkaMessage]] = {}
        self._partition_ends: dict[str, int] = {}
        self._newest: dict[str, int] = {}
        self._bad: list[BadMessage] = []
        self._dead_letters = None
        if options.dead_letter_topic is not None:
            what = f"the writer of source '{source}' to dead-letter topic '{options.dead_letter_topic}'"
            self._dead_letters = TopicTransactions(options.servers, options.dead_letter_topic, options.settings, what=what)
        self.bad_messages = self.lost_rows = 0

    def first(self) -> Positions:
        start = self._options.starting_offsets
        offsets = self._kafka.admin.OffsetSpec
        if isinstance(start, dict):
            earliest = self._offsets(offsets.earliest())
            return {name: start.get(name, offset) for name, offset in earliest.items()}
        return self._offsets(offsets.latest() if start == "latest" else offsets.earliest())

    def newest(self, start: Positions, *, before_s: float | None) -> Positions:
        offsets = self._kafka.admin.OffsetSpec
        newest = self._offsets(offsets.latest())
        for name, offset in newest.items():
            if offset < int(start.get(name, 0)):
                topic, _, partition = name.rpartition(":")
                raise HoldfastError(
                    f"{self._what} has read '{topic}' partition {partition} up to offset {start[name]}, but it ends at {offset}: "
                    "the topic was truncated or created again; start the job with a new log"
                )
        self._newest = newest
        ends = newest
        if before_s is not None:
            arrived = self._offsets(offsets.for_timestamp(int(before_s * 1000)))
            ends = {name: offset if arrived[name] == NO_OFFSET else min(offset, arrived[name]) for name, offset in newest.items()}
        ends = {name: max(offset, int(start.get(name, 0))) for name, offset in ends.items()}
        return {**start, **self._limited(start, ends)}

    def read(self, rows: Range) -> pa.Table:
        messages = self._fetch(rows)
        table, bad = self._parser.parse(messages)
        if bad and self._options.on_bad_message == "fail":
            raise HoldfastError(
                f"{self._what} cannot parse {bad[0]} as {self._options.value}: {bad[0].reason}; correct the schema, or "
                "give the source 'on_bad_message': 'skip' or 'dead_letter'"
            )
        self._bad, self.bad_messages = bad, self.bad_messages + len(bad)
        return table

    def write_dead_letters(self, token: WriteToken) -> None:
        if self._dead_letters is not None:
            self._dead_letters.write((((bad.message.value(), bad.message.key()), bad.headers) for bad in self._bad), token)

    def backlog(self, at: Positions) -> dict[str, int]:
        return {name: offset - int(at.get(name, 0)) for name, offset in self._newest.items()}

    def close(self) -> None:
        self._consumer.close()

    def _partition_names(self) -> list[str]:
        """Return this task's partitions as 'topic:partition'. New ones are found within PARTITIONS_EVERY_S."""
        if self._names and time.monotonic() < self._look_again_s:
            return self._names
        topics = self._cluster.topics()
        names = [
            f"{topic}:{partition}"
            for topic in sorted(self._topics_to_read(topics))
            for partition in sorted(topics[topic].partitions)
            if (zlib.crc32(topic.encode()) + partition) % self._tasks == self._task
        ]
        self._names, self._look_again_s = names, time.monotonic() + PARTITIONS_EVERY_S
        return names

    def _topics_to_read(self, topics: dict[str, Any]) -> list[str]:
        if self._options.pattern is not None:
            names = [topic for topic in topics if re.fullmatch(self._options.pattern, topic) and not topic.startswith("__")]
            if not names:
                raise ExternalError(
                    f"{self._what} reads topics like '{self._options.pattern}', but {self._options.servers} has none"
                )
            return names
        names = [name.strip() for name in (self._options.topic or "").split(",")]
        missing = [topic for topic in names if topic not in topics or topics[topic].error is not None]
        if missing:
            error = topics[missing[0]].error if missing[0] in topics else None
            if error is not None and error.name() in PASSING:
                raise self._cluster.describe(f"cannot list topic '{missing[0]}'", error)
            known = ", ".join(sorted(topic for topic in topics if not topic.startswith("__"))[:20]) or "none"
            raise HoldfastError(
                f"{self._what} reads topic '{missing[0]}', which {self._options.servers} does not have or does not show; its "
                f"topics are: {known}; create the topic, correct its name, or ask for the permission to read it"
            )
        return names

    def _offsets(self, spec: Any) -> dict[str, int]:
        """Return an offset of each partition of this task: the first, the last, or that of a time (-1 if no message is later)."""
        level = self._kafka.IsolationLevel
        isolation = level.READ_COMMITTED if self._options.isolation == "read_committed" else level.READ_UNCOMMITTED
        partitions = {name: self._topic_partition(name) for name in self._partition_names()}
        if not partitions:
            return {}
        try:
            request = dict.fromkeys(partitions.values(), spec)
            futures = self._cluster.admin.list_offsets(request, isolation_level=isolation, request_timeout=TIMEOUT_S)
            offsets = {f"{p.topic}:{p.partition}": future.result().offset for p, future in futures.items()}
        except self._kafka.KafkaException as error:
            raise self._cluster.describe("cannot read offsets", error.args[0]) from error
        if min(offsets.values()) < NO_OFFSET:
            raise ExternalError(f"{self._what} cannot read offsets on {self._options.servers}: a partition has no leader now")
        return offsets

    def _limited(self, start: Positions, ends: dict[str, int]) -> dict[str, int]:
        """Return the ends, moved back so that the range has about `rows_per_epoch` messages, divided over the partitions."""
        limit = self._options.rows_per_epoch
        counts = {name: end - int(start.get(name, 0)) for name, end in ends.items()}
        total = sum(counts.values())
        if limit is None or total <= limit:
            return ends
        return {name: int(start.get(name, 0)) + -(-count * limit // total) for name, count in counts.items()}

    def _fetch(self, rows: Range) -> list[KafkaMessage]:
        """Return the messages of a range, ordered by topic, partition and offset."""
        spans = {name: (int(rows.start.get(name, 0)), int(end)) for name, end in rows.end.items()}
        self._assign(spans)
        messages: dict[str, list[KafkaMessage]] = {name: [] for name in spans}
        waiting = {name for name in sorted(spans) if not self._is_complete(name, spans[name][1], messages[name])}
        deadline_s = time.monotonic() + SILENCE_LIMIT_S
        while waiting:
            received = self._receive(deadline_s)
            waiting = {name for name in sorted(waiting) if not self._is_complete(name, spans[name][1], messages[name])}
            if received:
                deadline_s = time.monotonic() + SILENCE_LIMIT_S
        for name, (_, end) in spans.items():
            self._next[name] = end
        return [message for name in sorted(messages, key=_topic_and_partition) for message in messages[name]]

    def _assign(self, spans: dict[str, tuple[int, int]]) -> None:
        """Let the consumer read from the start of the range, unless it does already."""
        starts = {name: start for name, (start, _) in spans.items()}
        if self._next == starts:
            return
        self._next, self._ahead, self._partition_ends = starts, {name: deque() for name in starts}, {}
        self._consumer.assign([self._topic_partition(name, offset) for name, offset in starts.items()])

    def _is_complete(self, name: str, end: int, messages: list[KafkaMessage]) -> bool:
        """Move the messages of a partition before `end` to the list. Return whether there are no others before it.

        The offset of a transaction's marker has no message. So a partition is complete when a later message, or its end, was seen.
        """
        ahead = self._ahead[name]
        while ahead and ahead[0].offset() < end:
            messages.append(ahead.popleft())
        read_until = messages[-1].offset() + 1 if messages else self._next[name]
        return bool(ahead) or read_until >= end or self._partition_ends.get(name, -1) >= end

    def _receive(self, deadline_s: float) -> bool:
        """Take messages from the consumer. Return whether there were any."""
        batch = self._consumer.consume(CONSUME_MESSAGES, timeout=CONSUME_S)
        queues: dict[tuple[str, int], deque[KafkaMessage]] = {
            _topic_and_partition(name): ahead for name, ahead in self._ahead.items()
        }
        for message in batch:
            error = message.error()
            if error is None:
                queues[message.topic(), message.partition()].append(message)
                continue
            name = f"{message.topic()}:{message.partition()}"
            if error.code() == self._kafka.KafkaError._PARTITION_EOF:
                self._partition_ends[name] = message.offset()
            elif error.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
                self._skip_lost(name)
            else:
                self._next = {}  # assign again
                raise self._cluster.describe("cannot read", error)
        if not batch and time.monotonic() > deadline_s:
            self._next = {}
            raise ExternalError(
                f"{self._what} has received nothing from {self._options.servers} for {SILENCE_LIMIT_S:.0f} s; "
                "is a broker running there?"
            )
        return bool(batch)

    def _skip_lost(self, name: str) -> None:
        """Continue at the oldest message, because those before it were removed. Raise HoldfastError if `on_lost_rows` is 'fail'."""
        oldest = self._offsets(self._kafka.admin.OffsetSpec.earliest())[name]
        topic, _, partition = name.rpartition(":")
        if self._options.on_lost_rows == "fail":
            raise HoldfastError(
                f"{self._what} needs '{topic}' partition {partition} from offset {self._next[name]}, but its oldest message has "
                f"offset {oldest}: the others were removed; start the job with a new log, or give the source "
                "'on_lost_rows': 'report'"
            )
        self.lost_rows += oldest - self._next[name]
        self._next[name] = oldest
        self._consumer.incremental_unassign([self._topic_partition(name)])  # a failed partition cannot seek
        self._consumer.incremental_assign([self._topic_partition(name, oldest)])

    def _topic_partition(self, name: str, offset: int = -1001) -> Any:
        topic, _, partition = name.rpartition(":")
        return self._kafka.TopicPartition(topic, int(partition), offset)


def _topic_and_partition(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition(":")
    return topic, int(partition)
