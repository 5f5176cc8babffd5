"""Writes a sink's epochs to a Kafka topic, each in one transaction, so that a consumer with read_committed sees each epoch once."""

import json
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from holdfast.app.writers import FencedError, WriteToken
from holdfast.connectors.kafka_client import TIMEOUT_S, client_settings, describe_error, kafka_library, logger
from holdfast.connectors.written_epochs import WrittenEpochs

TRANSACTION_S = 60.0


class KafkaWriter:
    """A writer for a sink: `app.sink("out", stream, writer=KafkaWriter("broker:9092", "results", key="ticker"))`.

    A message's value is a row as a JSON object, and its key is the column `key`. Its headers are `epoch`, `quality` and `kind`. A
    correction (`kind` is `final`) contains all rows of its epoch, and replaces the messages of that epoch which came before. With
    `exact_only` nothing inexact is written: an epoch is written once, when it is exact.

    The broker fences an older writer, because all writers of a sink use one transactional id. The transaction stores which epochs
    are written as the offsets of a consumer group, so a writer that takes over repeats nothing. `settings` are further settings of
    librdkafka, for example for security.
    """

    takes_arrow = True

    def __init__(
        self, servers: str, topic: str, *, key: str | None = None, exact_only: bool = False, settings: dict[str, Any] | None = None
    ) -> None:
        self._servers, self._topic, self._key, self._exact_only = servers, topic, key, exact_only
        self._settings = settings or {}
        self._what = f"the writer to topic '{topic}'"
        self._producer: Any = None
        self._group: Any = None
        self._written = WrittenEpochs()

    def __call__(self, rows: pa.Table, epoch: int, quality: str, *, token: WriteToken) -> None:
        """Write the rows of an epoch, unless the topic has them. Raises FencedError if another writer has taken over."""
        if self._exact_only and quality != "exact":
            return
        kafka = kafka_library(self._what)
        try:
            if self._producer is None:
                self._open(kafka, token.run)
            if not self._written.has(token):
                self._commit(rows, quality, token)
        except kafka.KafkaException as error:
            self._close()
            if error.args[0].code() in (kafka.KafkaError._FENCED, kafka.KafkaError.INVALID_PRODUCER_EPOCH):
                raise FencedError(f"{self._what}: another writer of the sink has taken over") from error
            raise describe_error(f"{self._what} cannot write", self._servers, error.args[0]) from error

    def _open(self, kafka: Any, run: str) -> None:
        """Fence the writer before this one, and read which epochs are written."""
        common = client_settings(self._servers, self._settings)
        name = f"holdfast-{run}"
        topics = kafka.admin.AdminClient(common, logger=logger).list_topics(self._topic, timeout=TIMEOUT_S).topics
        if topics[self._topic].error is not None:
            raise kafka.KafkaException(topics[self._topic].error)
        group = kafka.Consumer({**common, "group.id": name, "enable.auto.commit": False}, logger=logger)
        producer = kafka.Producer(
            {
                **common,
                "transactional.id": name,
                "transaction.timeout.ms": int(TRANSACTION_S * 1000),
                "partitioner": "murmur2_random",  # the partitioner of Kafka's own clients
                "linger.ms": 5,
            },
            logger=logger,
        )
        producer.init_transactions(TRANSACTION_S)
        (stored,) = group.committed([kafka.TopicPartition(self._topic, 0)], timeout=TIMEOUT_S)
        self._written = WrittenEpochs(**json.loads(stored.metadata)) if stored.metadata else WrittenEpochs()
        self._producer, self._group = producer, group

    def _commit(self, rows: pa.Table, quality: str, token: WriteToken) -> None:
        kafka = kafka_library(self._what)
        producer, errors = self._producer, []
        headers = {"epoch": str(token.epoch), "quality": quality, "kind": token.kind}

        def note_error(error: Any, _: Any) -> None:
            if error is not None:
                errors.append(error)

        producer.begin_transaction()
        for row in rows.to_pylist():
            key = None if self._key is None else str(row[self._key])
            while True:
                try:
                    producer.produce(self._topic, _encode(row), key, headers=headers, on_delivery=note_error)
                    break
                except BufferError:  # librdkafka's queue is full
                    producer.poll(0.1)
        written = self._written.after(token)
        state = kafka.TopicPartition(self._topic, 0, max(token.epoch, 0), json.dumps(asdict(written)))
        producer.send_offsets_to_transaction([state], self._group.consumer_group_metadata(), TRANSACTION_S)
        producer.commit_transaction(TRANSACTION_S)
        if errors:
            raise kafka.KafkaException(errors[0])
        self._written = written

    def _close(self) -> None:
        """Forget the producer. The next write opens another one, which aborts what this one left open."""
        if self._group is not None:
            self._group.close()
        self._producer = self._group = None


def _encode(row: dict[str, Any]) -> bytes:
    return json.dumps(row, default=_encode_value, separators=(",", ":")).encode()


def _encode_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
