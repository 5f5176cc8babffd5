"""The Kafka reader against a real broker."""

import itertools
import json

import pyarrow as pa
import pytest

from holdfast.app.writers import FencedError, WriteToken
from holdfast.connectors.kafka_reader import KafkaReader
from holdfast.documents.source_inputs import KafkaInput
from holdfast.errors import ExternalError, HoldfastError
from holdfast.log.range_claims import Range

SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("user", pa.string()),
        ("amount", pa.float64()),
        ("kafka_offset", pa.int64()),
    ]
)
NUMBERS = itertools.count()


@pytest.fixture
def topic(broker):
    name = f"topic-{next(NUMBERS)}"
    broker.create_topic(name, partitions=2)
    return name


@pytest.fixture
def open_reader(broker, topic):
    readers = []

    def open_reader(schema=SCHEMA, task=0, tasks=1, **options):
        options = {"topic": topic, "starting_offsets": "earliest", **options}
        readers.append(KafkaReader(KafkaInput(servers=broker.servers, **options), schema, source="s", task=task, tasks=tasks))
        return readers[-1]

    yield open_reader
    for reader in readers:
        reader.close()


def values(*users):
    return [json.dumps({"user": user, "amount": number}).encode() for number, user in enumerate(users)]


def next_range(reader, start):
    return Range(start, reader.newest(start, before_s=None))


def test_ranges_are_read_once_in_the_order_of_partitions_and_offsets(broker, topic, open_reader):
    broker.produce(topic, values("c", "d"), partition=1)
    broker.produce(topic, values("a", "b"), partition=0)
    reader = open_reader()
    first = next_range(reader, reader.first())
    broker.produce(topic, values("e"), partition=0)
    rows = reader.read(first)
    assert rows["user"].to_pylist() == ["a", "b", "c", "d"]
    assert rows["kafka_offset"].to_pylist() == [0, 1, 0, 1]
    assert rows["time"].null_count == 0
    second = next_range(reader, first.end)
    assert reader.read(second)["user"].to_pylist() == ["e"]
    assert reader.read(Range(second.end, second.end)).num_rows == 0
    other = open_reader()
    assert other.read(second)["user"].to_pylist() == ["e"]
    assert other.read(first).equals(rows)


def test_tasks_divide_the_partitions(broker, topic, open_reader):
    broker.produce(topic, values("a"), partition=0)
    broker.produce(topic, values("b"), partition=1)
    readers = [open_reader(task=task, tasks=2) for task in range(2)]
    users = [reader.read(next_range(reader, reader.first()))["user"].to_pylist() for reader in readers]
    assert sorted(users) == [["a"], ["b"]]


def test_aborted_transactions_are_not_read(broker, topic, open_reader):
    broker.transaction(topic, values("a"), commit=True)
    broker.transaction(topic, values("x"), commit=False)
    broker.transaction(topic, values("b"), commit=True)
    reader = open_reader()
    assert reader.read(next_range(reader, reader.first()))["user"].to_pylist() == ["a", "b"]


def test_rows_per_epoch_limits_a_range(broker, topic, open_reader):
    broker.produce(topic, values(*"abcdefghij"), partition=0)
    reader = open_reader(rows_per_epoch=4)
    start, users = reader.first(), []
    for count in (4, 4, 2):
        claimed = next_range(reader, start)
        rows = reader.read(claimed)
        assert rows.num_rows == count
        users, start = users + rows["user"].to_pylist(), claimed.end
    assert users == list("abcdefghij")
    assert not any(reader.backlog(start).values())
    assert sum(reader.backlog(reader.first()).values()) == 10


def test_past_epoch_ends_at_the_messages_time(broker, topic, open_reader):
    broker.produce(topic, values("a"))
    reader = open_reader()
    assert reader.newest(reader.first(), before_s=1.0) == reader.first()
    assert reader.newest(reader.first(), before_s=4e9) == {f"{topic}:0": 1, f"{topic}:1": 0}


def test_bad_message_is_named_or_skipped(broker, topic, open_reader):
    broker.produce(topic, [*values("a"), b"{", None, *values("b")])
    reader = open_reader()
    with pytest.raises(HoldfastError, match=rf"source 's' cannot parse the message at offset 1 of '{topic}' partition 0 as json"):
        reader.read(next_range(reader, reader.first()))
    skipping = open_reader(on_bad_message="skip")
    assert skipping.read(next_range(skipping, skipping.first()))["user"].to_pylist() == ["a", "b"]
    assert skipping.bad_messages == 2


def test_column_whose_type_has_changed_is_named(broker, topic, open_reader):
    broker.produce(topic, [*values("a"), b'{"user": "b", "amount": "many"}'])
    reader = open_reader()
    with pytest.raises(HoldfastError, match=r"at offset 1 of .* as json: .*/amount.* from number to string.*correct the schema"):
        reader.read(next_range(reader, reader.first()))


def test_bad_messages_go_to_the_dead_letter_topic_once(broker, topic, open_reader):
    dead = f"dead-{topic}"
    broker.create_topic(dead)
    broker.produce(topic, [*values("a"), b"{", *values("b"), b"oops"])
    options = {"on_bad_message": "dead_letter", "dead_letter_topic": dead}
    old, new = open_reader(**options), open_reader(**options)
    claimed = next_range(old, old.first())
    for reader in (old, new):
        assert reader.read(claimed)["user"].to_pylist() == ["a", "b"]
    old.write_dead_letters(WriteToken(dead, 1, "first", 1))
    new.write_dead_letters(WriteToken(dead, 1, "first", 1))
    with pytest.raises(FencedError):
        old.write_dead_letters(WriteToken(dead, 2, "first", 1))
    messages = broker.messages(dead)
    assert [value for _, value in messages] == [b"{", b"oops"]
    headers, _ = messages[0]
    assert (headers["topic"], headers["partition"], headers["offset"]) == (topic, "0", "1")
    assert "JSON" in headers["reason"]


def test_truncated_topic_fails_or_reports_the_loss(broker, topic, open_reader):
    broker.produce(topic, values(*"abcd"))
    reader = open_reader()
    claimed = next_range(reader, reader.first())
    broker.delete_before(topic, 3)
    with pytest.raises(HoldfastError, match=r"from offset 0, but its oldest message has offset 3: the others were removed"):
        reader.read(claimed)
    reporting = open_reader(on_lost_rows="report")
    assert reporting.read(claimed)["user"].to_pylist() == ["d"]
    assert reporting.lost_rows == 3


def test_unknown_topic_and_unreachable_broker_are_named(broker, open_reader, monkeypatch):
    monkeypatch.setattr("holdfast.connectors.kafka_client.TIMEOUT_S", 3.0)
    with pytest.raises(HoldfastError, match=r"reads topic 'nowhere', which .* does not have"):
        open_reader(topic="nowhere").first()
    reader = KafkaReader(KafkaInput(servers="127.0.0.1:1", topic="t"), SCHEMA, source="s", task=0, tasks=1)
    with pytest.raises(ExternalError, match=r"source 's' cannot list the topics on 127.0.0.1:1.*is a broker running there"):
        reader.first()
    reader.close()


def test_bytes_go_into_the_only_column_for_them(broker, topic, open_reader):
    broker.produce(topic, [b"x", None])
    reader = open_reader(pa.schema([("seq", pa.int64()), ("body", pa.binary())]), value="bytes")
    assert reader.read(next_range(reader, reader.first()))["body"].to_pylist() == [b"x", None]


def test_new_partition_is_read_from_its_start(broker, topic, open_reader, monkeypatch):
    from confluent_kafka.admin import NewPartitions

    monkeypatch.setattr("holdfast.connectors.kafka_reader.PARTITIONS_EVERY_S", 0.0)
    reader = open_reader(starting_offsets="latest")
    start = reader.first()
    broker.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    broker.produce(topic, values("new"), partition=2)
    deadline = itertools.count()
    while f"{topic}:2" not in (claimed := next_range(reader, start)).end:
        assert next(deadline) < 200
    assert reader.read(claimed)["user"].to_pylist() == ["new"]
