"""The Kafka writer against a real broker: what a consumer with read_committed sees."""

import itertools
import json
import signal
import subprocess
import sys

import pyarrow as pa
import pytest

from holdfast.app.writers import FencedError, WriteToken
from holdfast.connectors.kafka_writer import KafkaWriter
from holdfast.errors import ExternalError, HoldfastError

NUMBERS = itertools.count()


@pytest.fixture
def topic(broker):
    name = f"out-{next(NUMBERS)}"
    broker.create_topic(name)
    return name


@pytest.fixture
def writer(broker, topic):
    def open_writer(**options):
        return KafkaWriter(broker.servers, topic, key="user", **options)

    return open_writer


def token(topic, epoch, kind="first", claim=1):
    return WriteToken(f"run-of-{topic}", epoch, kind, claim)


def rows(*users):
    return pa.table({"user": pa.array(users, pa.string())})


def seen(broker, topic):
    return [(int(headers["epoch"]), headers["kind"], json.loads(value)["user"]) for headers, value in broker.messages(topic)]


def test_epochs_and_corrections_are_written_once(broker, topic, writer):
    write = writer()
    write(rows("a", "b"), 1, "exact", token=token(topic, 1))
    write(rows("c"), 2, "tentative", token=token(topic, 2))
    write(rows("d"), 2, "exact", token=token(topic, 2, "final", 2))
    successor = writer()
    for epoch, kind in ((1, "first"), (2, "first"), (2, "final")):
        successor(rows("x"), epoch, "exact", token=token(topic, epoch, kind, 3))
    assert seen(broker, topic) == [(1, "first", "a"), (1, "first", "b"), (2, "first", "c"), (2, "final", "d")]


def test_correction_without_rows_is_one_message_without_a_value(broker, topic, writer):
    write = writer()
    write(rows(), 1, "exact", token=token(topic, 1))
    write(rows("a"), 2, "tentative", token=token(topic, 2))
    write(rows(), 2, "exact", token=token(topic, 2, "final", 2))
    messages = [(headers["epoch"], headers["kind"], value) for headers, value in broker.messages(topic)]
    assert messages == [("2", "first", b'{"user":"a"}'), ("2", "final", None)]


def test_exact_only_writes_an_epoch_when_it_is_exact(broker, topic, writer):
    write = writer(exact_only=True)
    write(rows("x"), 1, "tentative", token=token(topic, 1))
    write(rows("b"), 2, "exact", token=token(topic, 2))
    write(rows("a"), 1, "exact", token=token(topic, 1, "final", 2))
    assert seen(broker, topic) == [(2, "first", "b"), (1, "final", "a")]


def test_broker_fences_an_older_writer(broker, topic, writer):
    old, new = writer(), writer()
    old(rows("a"), 1, "exact", token=token(topic, 1))
    new(rows("b"), 2, "exact", token=token(topic, 2))
    with pytest.raises(FencedError, match=rf"the writer to topic '{topic}': another writer of the sink has taken over"):
        old(rows("x"), 3, "exact", token=token(topic, 3))
    old(rows("c"), 3, "exact", token=token(topic, 3))  # it holds the claim again, and opens a new producer
    assert seen(broker, topic) == [(1, "first", "a"), (2, "first", "b"), (3, "first", "c")]


KILLED = """
import os, signal, sys
from holdfast.connectors import kafka_writer
from confluent_kafka import Producer
import pyarrow as pa
from holdfast.app.writers import WriteToken

servers, topic, call, when = sys.argv[1:]
real = getattr(Producer, call)

class Dying(Producer):
    pass

def die(self, *arguments, **named):
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = real(self, *arguments, **named)
    if call == "produce":
        self.flush(10)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(Dying, call, die)
import confluent_kafka
confluent_kafka.Producer = Dying
write = kafka_writer.KafkaWriter(servers, topic, key="user")
write(pa.table({"user": ["a"]}), 1, "exact", token=WriteToken(f"run-of-{topic}", 1, "first", 1))
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "call", ["init_transactions", "begin_transaction", "produce", "send_offsets_to_transaction", "commit_transaction"]
)
def test_writer_killed_around_each_call_loses_and_repeats_nothing(broker, topic, writer, call, when):
    killed = subprocess.run([sys.executable, "-c", KILLED, broker.servers, topic, call, when], timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    writer()(rows("a"), 1, "exact", token=token(topic, 1, claim=2))
    assert seen(broker, topic) == [(1, "first", "a")]


def test_errors_name_the_topic_and_the_broker(broker, monkeypatch):
    monkeypatch.setattr("holdfast.connectors.kafka_client.TIMEOUT_S", 3.0)
    with pytest.raises(
        HoldfastError, match=r"the writer to topic 'nowhere' cannot write on .*create the topic, or correct its name"
    ):
        KafkaWriter(broker.servers, "nowhere")(rows("a"), 1, "exact", token=token("nowhere", 1))
    with pytest.raises(
        ExternalError, match=r"the writer to topic 'out' cannot list the topics on 127.0.0.1:1.*is a broker running there"
    ):
        KafkaWriter("127.0.0.1:1", "out")(rows("a"), 1, "exact", token=token("out", 1))
