"""A team's own assignor, as the election examples need one: same wire format, another name, hence another protocol."""

from __future__ import annotations

from kafka_assignors.kafka_python import RoundRobinAssignor


class CustomAssignor(RoundRobinAssignor):
    """Round robin under a name of its own.

    Never reuse a name of Kafka's for a placement that is not Kafka's: any member of the group may become its leader.
    """

    name = "custom"
