"""Opens clients of a Kafka cluster, and turns their errors into errors that say what to do."""

import logging
from typing import Any

from holdfast.errors import ExternalError, HoldfastError

TIMEOUT_S = 10.0
_PASSING_NAMES = (
    "_TRANSPORT _ALL_BROKERS_DOWN _TIMED_OUT _TIMED_OUT_QUEUE _MSG_TIMED_OUT _RESOLVE _UNKNOWN_PARTITION _NOENT _WAIT_COORD "
    "LEADER_NOT_AVAILABLE NOT_LEADER_FOR_PARTITION REQUEST_TIMED_OUT BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE "
    "NETWORK_EXCEPTION COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR NOT_ENOUGH_REPLICAS "
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND OFFSET_NOT_AVAILABLE CONCURRENT_TRANSACTIONS UNSTABLE_OFFSET_COMMIT REBALANCE_IN_PROGRESS "
    "FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH KAFKA_STORAGE_ERROR"
)
PASSING = frozenset(_PASSING_NAMES.split())
"""The names of errors that pass when brokers are back, or have chosen a leader."""

ADVICE = {
    "UNKNOWN_TOPIC_OR_PART": "create the topic, or correct its name",
    "_UNKNOWN_TOPIC": "create the topic, or correct its name",
    "TOPIC_AUTHORIZATION_FAILED": "ask for the permission to use the topic",
    "GROUP_AUTHORIZATION_FAILED": "ask for the permission to use the consumer group",
    "CLUSTER_AUTHORIZATION_FAILED": "ask for the permission to use the cluster",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "ask for the permission to use the transactional id",
    "SASL_AUTHENTICATION_FAILED": "check the user name and password in 'settings'",
    "_AUTHENTICATION": "check the user name and password in 'settings'",
}

logger = logging.getLogger("holdfast.kafka")
logger.setLevel(logging.CRITICAL)  # librdkafka repeats every failed connection; holdfast reports the error once


class KafkaCluster:
    """A Kafka cluster as one source or writer sees it: settings of its clients, and errors that say what to do.

    Raises HoldfastError if the package confluent-kafka is not installed.
    """

    def __init__(self, what: str, servers: str, settings: dict[str, Any]) -> None:
        try:
            import confluent_kafka
            import confluent_kafka.admin
        except ImportError as error:
            raise HoldfastError(f"{what} needs the package confluent-kafka; run: pip install 'holdfast[kafka]'") from error
        self.library: Any = confluent_kafka
        self.servers, self._what = servers, what
        self._login_error: Any = None
        timeouts_ms = {"socket.connection.setup.timeout.ms": 5000, "socket.timeout.ms": int(TIMEOUT_S * 1000)}
        self.settings = {"bootstrap.servers": servers, "error_cb": self._note_error, **timeouts_ms, **settings}
        self.admin: Any = confluent_kafka.admin.AdminClient(self.settings, logger=logger)

    def topics(self, name: str | None = None) -> dict[str, Any]:
        """Return the metadata of the cluster's topics, or of one topic."""
        try:
            topics: dict[str, Any] = self.admin.list_topics(name, timeout=TIMEOUT_S).topics
        except self.library.KafkaException as error:
            raise self.describe("cannot list the topics", error.args[0]) from error
        return topics

    def describe(self, what_fails: str, error: Any) -> HoldfastError:
        """Return the error to raise for a KafkaError: an ExternalError if waiting may help."""
        self.admin.poll(0)
        login_error, self._login_error = self._login_error, None
        error = login_error or error
        text = f"{self._what} {what_fails} on {self.servers}: {error.str()}"
        if error.name() in ADVICE:
            return HoldfastError(f"{text}; {ADVICE[error.name()]}")
        if error.retriable() or error.txn_requires_abort() or error.name() in PASSING:
            return ExternalError(f"{text}; is a broker running there?")
        return HoldfastError(text)

    def _note_error(self, error: Any) -> None:
        """Remember why a client cannot log in. The call that fails reports only that no broker answers."""
        if error.name() in ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"):
            self._login_error = error
