"""Writes epochs to a Kafka topic, each in one transaction, so that a consumer with read_committed sees each epoch once."""

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from holdfast.app.writers import FencedError, WriteToken
from holdfast.connectors.kafka_client import TIMEOUT_S, KafkaCluster, logger
from holdfast.connectors.written_epochs import WrittenEpochs

TRANSACTION_S = 60.0

Message: TypeAlias = tuple[bytes | str | None, bytes | str | None]
"""The value and the key of a message."""


class TopicTransactions:
    """Writes epochs to a topic in transactions. Several processes may write the same epochs.

    The broker fences an older writer, because all writers of a run use one transactional id. The transaction stores which epochs
    are written as the offsets of a consumer group, so a writer that takes over repeats nothing.
    """

    def __init__(self, servers: str, topic: str, settings: dict[str, Any], *, what: str) -> None:
        self._servers, self._topic, self._settings, self._what = servers, topic, settings, what
        self._cluster: KafkaCluster | None = None
        self._producer: Any = None
        self._group: Any = None
        self._written = WrittenEpochs()

    def write(self, messages: Iterable[tuple[Message, dict[str, str]]], token: WriteToken) -> None:
        """Write messages with their headers, unless the topic has this epoch. Raises FencedError if another writer took over."""
        if self._cluster is None:
            self._cluster = KafkaCluster(self._what, self._servers, self._settings)
        kafka = self._cluster.library
        try:
            if self._producer is None:
                self._open(self._cluster, token.run)
            if not self._written.has(token):
                self._commit(kafka, messages, token)
        except kafka.KafkaException as error:
            self._producer = None  # the next write opens another one, which aborts what this one left open
            if error.args[0].code() in (kafka.KafkaError._FENCED, kafka.KafkaError.INVALID_PRODUCER_EPOCH):
                raise FencedError(f"{self._what}: another writer of the sink has taken over") from error
            raise self._cluster.describe("cannot write", error.args[0]) from error

    def _open(self, cluster: KafkaCluster, run: str) -> None:
        """Fence the writer before this one, and read which epochs are written."""
        kafka, common, name = cluster.library, cluster.settings, f"holdfast-{run}"
        topic = cluster.topics(self._topic)[self._topic]
        if topic.error is not None:
            raise kafka.KafkaException(topic.error)
        if self._group is None:
            self._group = kafka.Consumer({**common, "group.id": name, "enable.auto.commit": False}, logger=logger)
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
        _limit_time(kafka, producer.init_transactions, TIMEOUT_S)
        (stored,) = self._group.committed([kafka.TopicPartition(self._topic, 0)], timeout=TIMEOUT_S)
        self._written = WrittenEpochs(**json.loads(stored.metadata)) if stored.metadata else WrittenEpochs()
        self._producer = producer

    def _commit(self, kafka: Any, messages: Iterable[tuple[Message, dict[str, str]]], token: WriteToken) -> None:
        producer = self._producer
        producer.begin_transaction()
        for (value, key), headers in messages:
            while True:
                try:
                    producer.produce(self._topic, value, key, headers=headers)
                    break
                except BufferError:  # librdkafka's queue is full
                    producer.poll(0.1)
        while queued := len(producer):
            producer.flush(TIMEOUT_S)
            if len(producer) >= queued:
                raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TIMED_OUT))
        written = self._written.after(token)
        state = kafka.TopicPartition(self._topic, 0, max(token.epoch, 0), json.dumps(asdict(written)))
        _limit_time(kafka, producer.send_offsets_to_transaction, [state], self._group.consumer_group_metadata(), TIMEOUT_S)
        _limit_time(kafka, producer.commit_transaction, TIMEOUT_S)  # raises KafkaException if a message was not delivered
        self._written = written


def _limit_time(kafka: Any, call: Callable[..., None], *arguments: Any) -> None:
    """Make a call of a producer in a thread, and raise KafkaException if it does not return in time.

    When a broker comes back, librdkafka may exceed the call's own limit by a minute. The next producer fences the one that hangs.
    """
    errors: SimpleQueue[Exception | None] = SimpleQueue()

    def run() -> None:
        try:
            call(*arguments)
            errors.put(None)
        except Exception as error:
            errors.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        error = errors.get(timeout=2 * TIMEOUT_S)
    except Empty:
        raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TIMED_OUT)) from None
    if error is not None:
        raise error
