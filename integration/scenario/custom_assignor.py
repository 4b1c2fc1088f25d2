"""A custom assignor for the election examples: Kafka's wire format under another name, hence another protocol."""

from __future__ import annotations

from kafka_assignors.clients.kafka_python import RoundRobinAssignor


class CustomAssignor(RoundRobinAssignor):
    """Round robin under its own name.

    Never use one of Kafka's names for a placement that differs from Kafka's: any member may become the leader.
    """

    name = "custom"
