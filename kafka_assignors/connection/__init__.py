"""Connection settings of a cluster: one set for kafka-python, aiokafka, librdkafka, Java and Spark.

`read_connection` reads ``client.properties`` (librdkafka's names too), and the `Connection` translates it for clients:

    connection = read_connection(config=Path("client.properties"))
    KafkaConsumer(**connection.kafka_python())
    confluent_kafka.Consumer({**connection.librdkafka(), "group.id": "billing"})
    spark.read.format("kafka").options(**connection.spark())

This package imports nothing else of `kafka_assignors` but its errors; producers, harness and pipeline all use it.
"""

from __future__ import annotations

from .ask import BrokerNode, addresses, brokers, partition_count, request, require_access, require_cluster
from .codecs import missing_codec
from .read import concerns_connection, file_lines, from_settings, read_connection
from .rights import Right, denied, needing, refusal
from .settings import NAMES, NOT_OURS, Connection

__all__ = [
    "NAMES", "NOT_OURS", "BrokerNode", "Connection", "Right", "addresses", "brokers", "concerns_connection", "denied",
    "file_lines", "from_settings", "missing_codec", "needing", "partition_count", "read_connection", "refusal",
    "request", "require_access", "require_cluster",
]  # fmt: skip
