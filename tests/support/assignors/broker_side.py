"""The broker's own assignors in a JVM, called as the coordinator calls them: by its group and its target builder."""

from __future__ import annotations

import base64
import random
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka_assignors.core.group import Group, Member
from kafka_assignors.integration.broker.java import LiveJava

Target = dict[str, dict[str, list[int]]]
_MEMBER = re.compile(r"(m[^=,{]*)=MemberAssignment\(partitions=\{(.*?)\}\)")
_TOPIC = re.compile(r"([\w-]{22})=(?:\[([\d, ]*)\]|RangeSet\(from=(\d+) \(inclusive\), to=(\d+) \(exclusive\)\))")


class Cluster:
    """Topics with ids and partition counts, as the coordinator sees them."""

    def __init__(self, java: LiveJava, counts: Mapping[str, int], rng: random.Random) -> None:
        self.counts = dict(counts)
        self.ids = {topic: uuid.UUID(int=rng.getrandbits(128), version=4) for topic in counts}
        self.printed = {
            t: base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode() for t, topic_id in self.ids.items()
        }
        kafka = java.classes.org.apache.kafka
        delta = kafka.image.MetadataDelta.Builder().setImage(kafka.image.MetadataImage.EMPTY).build()
        for topic, count in counts.items():
            java_id = kafka.common.Uuid.fromString(self.printed[topic])
            delta.replay(kafka.common.metadata.TopicRecord().setName(topic).setTopicId(java_id))
            for partition in range(count):
                record = kafka.common.metadata.PartitionRecord().setTopicId(java_id).setPartitionId(partition)
                delta.replay(record.setReplicas([0]).setIsr([0]).setLeader(0))
        image = delta.apply(kafka.image.MetadataProvenance.EMPTY)
        self.image = kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage(image)


class Broker:
    """Calls the broker's assignors."""

    def __init__(self, java: LiveJava) -> None:
        self._java = java
        self._group = java.classes.org.apache.kafka.coordinator.group
        self._context = java.classes.org.apache.kafka.common.utils.LogContext()
        self._assignors = {
            "uniform": self._group.assignor.UniformAssignor(),
            "range": self._group.assignor.RangeAssignor(),
        }

    def target(
        self,
        name: str,
        group: Group,
        cluster: Cluster,
        joins: Member | None = None,
        patterns: Mapping[str, tuple[str, Collection[str]]] | None = None,
    ) -> Target:
        """The next target assignment of a group whose members joined in this order; then `joins` joins it.

        The members' records are replayed, as a broker that becomes coordinator does it.

        Args:
            patterns: Member id -> its pattern, and the topics that match; it names its other topics.
        """
        patterns = patterns or {}
        java = self._java.classes.org.apache.kafka
        java_group = self._group.modern.consumer.ConsumerGroup(
            self._context, java.timeline.SnapshotRegistry(self._context), "g"
        )
        resolved = self._group.modern.consumer.ResolvedRegularExpression
        for pattern, matching in dict(patterns.values()).items():
            topics = self._java.classes.java.util.HashSet()
            for topic in sorted(matching):
                topics.add(topic)
            java_group.updateResolvedRegularExpression(pattern, resolved(topics, 0, 0))
        for member in group.members:
            java_group.updateMember(self._member(member, patterns))
            if len(member.owned):
                value = self._group.generated.ConsumerGroupTargetAssignmentMemberValue(
                    self._readable(_record(member, cluster)), 0
                )
                java_group.updateTargetAssignment(member.member_id, self._group.modern.Assignment.fromRecord(value))
        made = getattr(self._group.modern, "TargetAssignmentBuilder$ConsumerTargetAssignmentBuilder")
        builder = made("g", 7, self._assignors[name]).withMembers(java_group.members())
        kind, joined = java_group.subscriptionType(), None
        if joins is not None:
            joined = self._member(joins, patterns)
            kind = self._group.modern.consumer.ConsumerGroup.subscriptionType(
                java_group.computeSubscribedRegularExpressions(None, joined),
                java_group.computeSubscribedTopicNames(None, joined),
                len(group.members) + 1,
            )
        builder = builder.withSubscriptionType(kind)
        builder = builder.withResolvedRegularExpressions(java_group.resolvedRegularExpressions())
        builder = builder.withTargetAssignment(java_group.targetAssignment()).withMetadataImage(cluster.image)
        builder = builder.withInvertedTargetAssignment(java_group.invertedTargetAssignment())
        builder = builder.withTime(java.common.utils.Time.SYSTEM)
        if joins is not None:
            builder = builder.addOrUpdateMember(joins.member_id, joined)
        return _target(builder.build().targetAssignment().toString(), cluster)

    def _member(self, member: Member, patterns: Mapping[str, tuple[str, Collection[str]]]) -> Any:
        built = getattr(self._group.modern.consumer, "ConsumerGroupMember$Builder")(member.member_id)
        if member.instance_id is not None:
            built = built.setInstanceId(member.instance_id)
        pattern, matching = patterns.get(member.member_id, ("", ()))
        if pattern:
            built = built.setSubscribedTopicRegex(pattern)
        return built.setSubscribedTopicNames(sorted(member.topics - set(matching))).build()

    def _readable(self, data: bytes) -> Any:
        classes = self._java.classes
        return classes.org.apache.kafka.common.protocol.ByteBufferAccessor(classes.java.nio.ByteBuffer.wrap(data))


def _record(member: Member, cluster: Cluster) -> bytes:
    """The value of a ``ConsumerGroupTargetAssignmentMember`` record, without its version."""
    topics: dict[str, list[int]] = {}
    for topic, partition in member.owned:
        topics.setdefault(topic, []).append(partition)
    rows = [
        cluster.ids[topic].bytes + _count(partitions) + b"".join(p.to_bytes(4, "big") for p in partitions) + b"\0"
        for topic, partitions in topics.items()
    ]
    return _count(rows) + b"".join(rows) + b"\0"


def _count(items: Sequence[Any]) -> bytes:
    size, data = len(items) + 1, b""
    while size > 127:
        data += bytes([size & 127 | 128])
        size >>= 7
    return data + bytes([size])


def _target(text: str, cluster: Cluster) -> Target:
    names = {printed: topic for topic, printed in cluster.printed.items()}
    target: Target = {}
    for member, topics in _MEMBER.findall(text):
        target[member] = {}
        for printed, listed, first, beyond in _TOPIC.findall(topics):
            ids = range(int(first), int(beyond)) if first else map(int, filter(None, listed.split(", ")))
            target[member][names[printed]] = sorted(ids)
    return target
