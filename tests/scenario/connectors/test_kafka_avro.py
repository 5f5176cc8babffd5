"""Avro messages whose schemas are in a registry, against a real broker, while the schema changes."""

import json

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from holdfast.connectors.kafka_reader import KafkaReader
from holdfast.documents.source_inputs import KafkaInput
from holdfast.errors import ExternalError, HoldfastError
from holdfast.log.range_claims import Range

from .schema_registry import SchemaRegistry

SCHEMA = pa.schema([("seq", pa.int64()), ("user", pa.string()), ("amount", pa.int64())])


@pytest.fixture
def registry():
    registry = SchemaRegistry()
    yield registry
    registry.close()


@pytest.fixture
def topic(broker, request):
    name = f"avro-{request.node.name}"
    broker.create_topic(name)
    return name


@pytest.fixture
def produce(broker, topic, registry):
    def produce(fields, **row):
        record = {"type": "record", "name": "Order", "fields": [{"name": n, **t} for n, t in fields.items()]}
        serialize = AvroSerializer(SchemaRegistryClient({"url": registry.url}), json.dumps(record))
        broker.produce(topic, [serialize(row, SerializationContext(topic, MessageField.VALUE))])

    return produce


@pytest.fixture
def read(broker, topic, registry):
    readers = []

    def read(**options):
        options = {"servers": broker.servers, "topic": topic, "value": "avro", "registry": registry.url, **options}
        reader = KafkaReader(KafkaInput(starting_offsets="earliest", **options), SCHEMA, source="orders", task=0, tasks=1)
        readers.append(reader)
        start = reader.first()
        return reader.read(Range(start, reader.newest(start, before_s=None))).to_pylist()

    yield read
    for reader in readers:
        reader.close()


TEXT, NUMBER, MAYBE = {"type": "string"}, {"type": "long"}, {"type": ["null", "long"], "default": None}


def test_messages_of_several_schema_versions_are_read(produce, read):
    produce({"user": TEXT, "amount": NUMBER}, user="a", amount=1)
    produce({"user": TEXT, "amount": NUMBER, "shop": TEXT}, user="b", amount=2, shop="s")
    produce({"amount": MAYBE, "user": TEXT}, user="c", amount=None)
    produce({"user": TEXT}, user="d")
    assert read() == [
        {"user": "a", "amount": 1},
        {"user": "b", "amount": 2},
        {"user": "c", "amount": None},
        {"user": "d", "amount": None},
    ]


def test_column_whose_type_has_changed_is_named(produce, read):
    produce({"user": TEXT, "amount": NUMBER}, user="a", amount=1)
    produce({"user": TEXT, "amount": TEXT}, user="b", amount="many")
    text = r"source 'orders' cannot parse the message at offset 1 of .* as avro: .*'many'.*correct the schema, or give the source"
    with pytest.raises(HoldfastError, match=text):
        read()
    assert read(on_bad_message="skip") == [{"user": "a", "amount": 1}]


def test_message_without_a_known_schema_is_named(broker, topic, read):
    broker.produce(topic, [b"\x00\x00\x00\x00\x09x"])
    with pytest.raises(HoldfastError, match=r"the message at offset 0 of .*: its schema is not in the registry http://127"):
        read()


def test_registry_that_fails_makes_the_source_wait_and_skips_nothing(produce, registry, read):
    produce({"user": TEXT, "amount": NUMBER}, user="a", amount=1)
    registry.status = 503
    with pytest.raises(ExternalError, match=r"source 'orders' cannot use the schema registry http://127.*the registry is broken"):
        read(on_bad_message="skip")
    registry.status = 401
    with pytest.raises(HoldfastError, match=r"check the user name and password in its URL"):
        read(on_bad_message="skip")
    with pytest.raises(ExternalError, match=r"cannot use the schema registry http://127.0.0.1:1.*is it running"):
        read(on_bad_message="skip", registry="http://127.0.0.1:1")
