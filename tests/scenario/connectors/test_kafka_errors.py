"""Errors of a source and a sink that may not do what they want, against a real broker with users and permissions."""

import json
import threading

import pyarrow as pa
import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from holdfast.app.writers import WriteToken
from holdfast.connectors.kafka_reader import KafkaReader
from holdfast.connectors.kafka_writer import KafkaWriter
from holdfast.documents.source_inputs import KafkaInput
from holdfast.errors import ExternalError, HoldfastError
from holdfast.log.range_claims import Range

SCHEMA = pa.schema([("seq", pa.int64()), ("user", pa.string())])
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "guest", "sasl.password": "secret"}


@pytest.fixture
def topic(broker, request):
    name = request.node.name.replace("[", "-").rstrip("]")
    broker.create_topic(name)
    broker.produce(name, [b'{"user": "a"}'])
    return name


@pytest.fixture
def read(broker, topic):
    readers = []

    def read(**login):
        settings = {**LOGIN, **login}
        options = KafkaInput(servers=broker.secure_servers, topic=topic, starting_offsets="earliest", settings=settings)
        readers.append(KafkaReader(options, SCHEMA, source="clicks", task=0, tasks=1))
        start = readers[-1].first()
        return readers[-1].read(Range(start, readers[-1].newest(start, before_s=None)))["user"].to_pylist()

    yield read
    for reader in readers:
        reader.close()


@pytest.fixture
def write(broker, topic):
    def write(**login):
        writer = KafkaWriter(broker.secure_servers, topic, settings={**LOGIN, **login})
        for attempts_left in range(9, -1, -1):
            try:
                writer(pa.table({"user": ["b"]}), 1, "exact", token=WriteToken(topic, 1, "first", 1))
                break
            except ExternalError:  # the broker chooses its coordinators when they are first needed
                if attempts_left == 0:
                    raise

    return write


def test_user_with_permission_reads_and_writes(read, write):
    write()
    assert read() == ["a", "b"]


def test_source_without_permission_names_the_topic(broker, topic, read):
    broker.permit_only(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
    with pytest.raises(HoldfastError, match=r"source 'clicks' cannot read on .*ask for the permission to use the topic"):
        read()


def test_source_that_may_not_see_the_topic_says_so(broker, topic, read):
    broker.permit_only(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic)
    with pytest.raises(HoldfastError, match=rf"source 'clicks' reads topic '{topic}', .* does not show.*permission to read it"):
        read()


@pytest.mark.parametrize(
    ("kind", "what"), [(ResourceType.TOPIC, "topic"), (ResourceType.TRANSACTIONAL_ID, "transactional id")], ids=["topic", "id"]
)
def test_sink_without_permission_says_which(broker, topic, write, kind, what):
    name = topic if kind is ResourceType.TOPIC else f"holdfast-{topic}"
    broker.permit_only(AclOperation.DESCRIBE, kind, name)
    with pytest.raises(HoldfastError, match=rf"the writer to topic '{topic}' cannot write on .*permission to use the {what}"):
        write()


def test_wrong_password_is_named(read, monkeypatch):
    monkeypatch.setattr("holdfast.connectors.kafka_client.TIMEOUT_S", 3.0)
    with pytest.raises(HoldfastError, match=r"check the user name and password in 'settings'") as raised:
        read(**{"sasl.password": "wrong"})
    assert not isinstance(raised.value, ExternalError)


def test_killed_broker_makes_source_and_sink_wait_until_it_is_back(broker, topic, monkeypatch):
    monkeypatch.setattr("holdfast.connectors.kafka_client.TIMEOUT_S", 3.0)
    options = KafkaInput(servers=broker.servers, topic=topic, starting_offsets="earliest")
    reader, writer = KafkaReader(options, SCHEMA, source="clicks", task=0, tasks=1), KafkaWriter(broker.servers, topic)
    start = reader.first()

    def write(epoch):
        writer(pa.table({"user": [f"w{epoch}"]}), epoch, "exact", token=WriteToken(topic, epoch, "first", 1))

    def read():
        return reader.read(Range(start, reader.newest(start, before_s=None)))["user"].to_pylist()

    def errors_until(call):
        """Return the errors of a call until it succeeds."""
        errors = []
        while len(errors) < 100:
            try:
                call()
                break
            except HoldfastError as error:
                errors.append(error)
        return errors

    errors_until(lambda: write(1))
    broker.kill()
    for call in (lambda: write(2), read):
        with pytest.raises(ExternalError, match=r"is a broker running there"):
            call()
    restart = threading.Thread(target=broker.restart)
    restart.start()
    errors = errors_until(lambda: write(2)) + errors_until(read)
    restart.join()
    reader.close()
    assert {type(error) for error in errors} <= {ExternalError}, errors
    assert [json.loads(value)["user"] for _, value in broker.messages(topic)] == ["a", "w1", "w2"]
