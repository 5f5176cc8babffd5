"""A real Kafka broker for scenarios: Apache Kafka in KRaft mode, one process, on loopback."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

JARS = Path(sys.prefix) / "kafka" / "jars"
LIMIT_S = 120
CLUSTER_ID = "aG9sZGZhc3QtdGVzdHMtMQ"


class Broker:
    """A broker with its own folder. It can be killed and started again. `secure_servers` accepts the user `guest` with `secret`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, controller_port = folder, free_port(), free_port()
        self.servers, self.secure_servers = f"127.0.0.1:{self.port}", f"127.0.0.1:{free_port()}"
        (folder / "server.properties").write_text(
            f"process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller_port}\n"
            f"listeners=PLAINTEXT://{self.servers},SASL_PLAINTEXT://{self.secure_servers},CONTROLLER://127.0.0.1:{controller_port}\n"
            f"advertised.listeners=PLAINTEXT://{self.servers},SASL_PLAINTEXT://{self.secure_servers}\nsasl.enabled.mechanisms=PLAIN\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT\n"
            "listener.name.sasl_plaintext.plain.sasl.jaas.config="
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_guest="secret";\n'
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:ANONYMOUS\n"
            "allow.everyone.if.no.acl.found=true\n"
            f"controller.listener.names=CONTROLLER\nlog.dirs={folder}/data\n"
            "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\ntransaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\ntransaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n"
            "auto.create.topics.enable=false\nlog.retention.check.interval.ms=1000\n"
        )
        self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(folder / "server.properties")).wait(LIMIT_S)
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self.process = self._start()

    def create_topic(self, name: str, *, partitions: int = 1) -> None:
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result(LIMIT_S)

    def produce(self, topic: str, values: list[bytes | None], *, partition: int = 0) -> None:
        """Write messages, and wait until the broker has them."""
        producer = Producer({"bootstrap.servers": self.servers})
        for value in values:
            producer.produce(topic, value, partition=partition)
        assert producer.flush(LIMIT_S) == 0

    def transaction(self, topic: str, values: list[bytes], *, commit: bool, partition: int = 0) -> None:
        """Write messages in a transaction, and commit or abort it."""
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": "test"})
        producer.init_transactions(LIMIT_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=partition)
        if commit:
            producer.commit_transaction(LIMIT_S)
        else:
            producer.flush(LIMIT_S)
            producer.abort_transaction(LIMIT_S)

    def delete_before(self, topic: str, offset: int, *, partition: int = 0) -> None:
        """Remove the messages before an offset, as retention does."""
        for future in self.admin.delete_records([TopicPartition(topic, partition, offset)]).values():
            future.result(LIMIT_S)

    def messages(self, topic: str, *, partitions: int = 1) -> list[tuple[dict[str, str], bytes]]:
        """Return the headers and the value of every committed message of a topic."""
        reading = {"enable.partition.eof": True, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "test", "enable.auto.commit": False, **reading})
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        ended: set[int] = set()
        messages = []
        while len(ended) < partitions:
            for message in consumer.consume(10_000, timeout=1.0):
                if message.error() is not None:
                    ended.add(message.partition())
                else:
                    messages.append(({k: v.decode() for k, v in message.headers() or []}, message.value()))
        consumer.close()
        return messages

    def permit_only(self, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Permit the user `guest` of the secure listener only one operation on a topic, group or transactional id."""
        who = {"principal": "User:guest", "host": "*", "permission_type": AclPermissionType.ALLOW}
        acl = AclBinding(kind, name, ResourcePatternType.LITERAL, operation=operation, **who)
        for future in self.admin.create_acls([acl]).values():
            future.result(LIMIT_S)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(LIMIT_S)

    def restart(self) -> None:
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        process = self._java("kafka.Kafka", str(self.folder / "server.properties"))
        deadline_s = time.monotonic() + LIMIT_S
        while process.poll() is None and time.monotonic() < deadline_s:
            try:
                self.admin.list_topics(timeout=2)
            except KafkaException:
                continue
            return process
        process.kill()
        raise AssertionError((self.folder / "output").read_text()[-2000:])

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        scala = next((Path(pyspark.__file__).parent / "jars").glob("scala-library*.jar"))
        with (self.folder / "output").open("ab") as output:
            command = ["java", "-Xmx256m", "-cp", f"{JARS}/*:{scala}", *arguments]
            return subprocess.Popen(command, stdout=output, stderr=output, env=dict(os.environ))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
