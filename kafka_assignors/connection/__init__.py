"""How to reach a cluster: one set of settings for kafka-python, aiokafka, librdkafka, Java and Spark.

What a user has is Kafka's own ``client.properties``. `read_connection` reads it (and librdkafka's spelling), and the
`Connection` says it again in every client's words:

    connection = read_connection(config=Path("client.properties"))
    KafkaConsumer(**connection.kafka_python())
    confluent_kafka.Consumer({**connection.librdkafka(), "group.id": "billing"})
    spark.read.format("kafka").options(**connection.spark())

This room imports no other room of `kafka_assignors` but its errors: producers, harness and pipeline all use it.
"""

from __future__ import annotations

from .ask import Node, addresses, brokers, require_access
from .read import concerns_connection, from_file, from_settings, read_connection
from .rights import Right, denied, needing
from .settings import NAMES, NOT_OURS, Connection

__all__ = [
    "NAMES", "NOT_OURS", "Connection", "Node", "Right", "addresses", "brokers", "concerns_connection", "denied",
    "from_file",
    "from_settings", "needing", "read_connection", "require_access",
]  # fmt: skip
