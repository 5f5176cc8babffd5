"""Opens clients of a Kafka cluster, and turns their errors into errors that say what to do."""

import logging
from typing import Any

from holdfast.errors import ExternalError, HoldfastError

TIMEOUT_S = 10.0

logger = logging.getLogger("holdfast.kafka")
logger.setLevel(logging.CRITICAL)  # librdkafka repeats every failed connection; holdfast reports the error once


def client_settings(servers: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a client for its servers."""
    return {"bootstrap.servers": servers, "socket.connection.setup.timeout.ms": 5000, **settings}


def kafka_library(what: str) -> Any:
    """Return the package confluent_kafka, which `what` needs. Raises HoldfastError if it is not installed."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise HoldfastError(f"{what} needs the package confluent-kafka; run: pip install 'holdfast[kafka]'") from error
    return confluent_kafka


def describe_error(what: str, servers: str, error: Any) -> HoldfastError:
    """Return the error to raise for a KafkaError: an ExternalError if waiting may help."""
    from confluent_kafka import KafkaError

    advice = {
        KafkaError.UNKNOWN_TOPIC_OR_PART: "create the topic, or correct its name",
        KafkaError._UNKNOWN_TOPIC: "create the topic, or correct its name",
        KafkaError.TOPIC_AUTHORIZATION_FAILED: "ask for the permission to use the topic",
        KafkaError.GROUP_AUTHORIZATION_FAILED: "ask for the permission to use the consumer group",
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: "ask for the permission to use the cluster",
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "ask for the permission to use the transactional id",
        KafkaError.SASL_AUTHENTICATION_FAILED: "check the user name and password in 'settings'",
        KafkaError._AUTHENTICATION: "check the user name and password in 'settings'",
    }.get(error.code())
    text = f"{what} on {servers}: {error.str()}"
    if advice is not None:
        return HoldfastError(f"{text}; {advice}")
    waits = error.retriable() or error.code() in (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
    )
    return ExternalError(f"{text}; is a broker running there?") if waits else HoldfastError(text)
