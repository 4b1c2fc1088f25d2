"""The bytes of the consumer protocol, written again by ``ConsumerProtocol`` and the assignors themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_assignors.integration.broker.java import LiveJava
from tests.support.assignors.live import ASSIGNORS

from .kafka_classes import KafkaClasses
from .remaking import Answer

VERSIONS = range(4)
_STICKY = "org.apache.kafka.clients.consumer.StickyAssignor"


def writer(kafka: KafkaClasses) -> Answer:
    """Answers cases of both kinds, subscription and assignment."""
    return _Writer(kafka.java).answer


class _Writer:
    def __init__(self, java: LiveJava) -> None:
        self._java = java
        self._jvm = java.classes
        self._kafka = self._jvm.org.apache.kafka
        self._consumer = self._kafka.clients.consumer
        self._protocol = self._consumer.internals.ConsumerProtocol

    def answer(self, case: Mapping[str, Any]) -> dict[str, Any]:
        if case["kind"] == "assignment":
            assigned = self._consumer.ConsumerPartitionAssignor.Assignment(self._partitions(case["partitions"]))
            return {"bytes": {str(v): _hex(self._protocol.serializeAssignment(assigned, v)) for v in VERSIONS}}
        return self._subscription(case["assignor"], case["member"])

    def _subscription(self, name: str, member: Mapping[str, Any]) -> dict[str, Any]:
        optional = self._jvm.java.util.Optional
        owned, generation = self._partitions(member.get("owned", {})), member.get("generation", -1)
        assignor = getattr(self._consumer, ASSIGNORS[name])()
        if "owned" in member:
            about = self._consumer.ConsumerGroupMetadata("group", generation, "member", optional.empty())
            assignor.onAssignment(self._consumer.ConsumerPartitionAssignor.Assignment(owned), about)
        user_data = assignor.subscriptionUserData(set(member["topics"]))
        subscription = self._consumer.ConsumerPartitionAssignor.Subscription(
            member["topics"],
            user_data,
            owned if name == "cooperative-sticky" else [],  # eager members have given up theirs before they join
            generation,
            optional.ofNullable(member.get("rack")),
        )
        now = {
            "bytes": {str(v): _hex(self._protocol.serializeSubscription(subscription, v)) for v in VERSIONS},
            "user_data": None if user_data is None else _hex(user_data),
        }
        return (
            {**now, "user_data_v0": _hex(self._sticky_v0(member["owned"]))} if name == "sticky" and user_data else now
        )

    def _partitions(self, by_topic: Mapping[str, list[int]]) -> Any:
        return [self._kafka.common.TopicPartition(topic, p) for topic, ids in by_topic.items() for p in ids]

    def _sticky_v0(self, owned: Mapping[str, list[int]]) -> Any:
        """User data without a generation, as old sticky members send it: Java's schema, topics in the given order.

        Today's class only reads this form.
        """
        schema, topic = self._schema("STICKY_ASSIGNOR_USER_DATA_V0"), self._schema("TOPIC_ASSIGNMENT")
        rows = []
        for name, ids in owned.items():
            row = self._kafka.common.protocol.types.Struct(topic).set("topic", name)
            rows.append(row.set("partitions", self._objects(ids)))
        struct = self._kafka.common.protocol.types.Struct(schema).set("previous_assignment", self._objects(rows))
        buffer = self._jvm.java.nio.ByteBuffer.allocate(schema.sizeOf(struct))
        schema.write(buffer, struct)
        return buffer

    def _schema(self, field: str) -> Any:
        found = self._jvm.java.lang.Class.forName(_STICKY).getDeclaredField(field)
        found.setAccessible(True)
        return found.get(None)

    def _objects(self, items: Any) -> Any:
        return self._java.array(self._jvm.java.lang.Object, list(items))


def _hex(buffer: Any) -> str:
    return bytes(buffer.array()).hex()
