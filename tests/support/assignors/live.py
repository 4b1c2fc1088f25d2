"""Java's own assignors as a group's leader: the bytes of JoinGroup and Metadata in, the bytes of SyncGroup out.

A leader's steps are those of ``ConsumerCoordinator.onLeaderElected`` of apache/kafka 4.3.0, put together from Java's
public methods as method handles, so that a whole group takes few calls into the JVM, whatever its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kafka.protocol.consumer.group import JoinGroupResponse
from kafka.protocol.metadata import MetadataResponse
from py4j.protocol import Py4JJavaError

from kafka_assignors.core.group.assignment import Assignment
from kafka_assignors.core.wire.protocol import decode_assignment, encode_assignment
from kafka_assignors.integration.broker.java import LiveJava
from kafka_assignors.integration.broker.settings import KAFKA_VERSION

METADATA, JOIN_GROUP = 9, 9  # versions
DEADLINE_S = 5

_BETWEEN = "\x00"

_INTERNALS = "org.apache.kafka.clients.consumer.internals"
_CONSUMER = "org.apache.kafka.clients.consumer"
_JOINED = "org.apache.kafka.common.message.JoinGroupResponseData$JoinGroupResponseMember"
_ASSIGNOR = f"{_CONSUMER}.ConsumerPartitionAssignor"
ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


class Answer(NamedTuple):
    """What a Java leader answers: an assignment, or what it throws, or that it does not come to an end."""

    assignment: Assignment | None
    thrown: str = ""
    endless: bool = False


def metadata(topics: Mapping[str, Sequence[Sequence[int]]], brokers: Mapping[int, str | None]) -> bytes:
    """A Metadata response: topic -> replicas of each partition, the leader first; broker -> rack."""
    topic = MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition
    return _encoded(
        MetadataResponse(
            version=METADATA, throttle_time_ms=0, cluster_id="fuzz", controller_id=0,
            brokers=[
                MetadataResponse.MetadataResponseBroker(
                    version=METADATA, node_id=node, host="localhost", port=9092, rack=rack
                )
                for node, rack in brokers.items()
            ],
            topics=[
                topic(
                    version=METADATA, error_code=0, name=name, is_internal=False,
                    partitions=[
                        partition(
                            version=METADATA, error_code=0, partition_index=p, leader_id=replicas[0], leader_epoch=0,
                            replica_nodes=list(replicas), isr_nodes=list(replicas), offline_replicas=[],
                        )
                        for p, replicas in enumerate(placed)
                    ],
                )
                for name, placed in topics.items()
            ],
        ),
        METADATA,
    )  # fmt: skip


def join_group(members: Sequence[tuple[str, str | None, bytes]], name: str) -> bytes:
    """The JoinGroup response that makes a member the leader: (member id, instance id, subscription bytes)."""
    member = JoinGroupResponse.JoinGroupResponseMember
    return _encoded(
        JoinGroupResponse(
            version=JOIN_GROUP, throttle_time_ms=0, error_code=0, generation_id=1, protocol_type="consumer",
            protocol_name=name, leader=members[0][0], skip_assignment=False, member_id=members[0][0],
            members=[
                member(version=JOIN_GROUP, member_id=member_id, group_instance_id=instance, metadata=data)
                for member_id, instance, data in members
            ],
        ),
        JOIN_GROUP,
    )  # fmt: skip


def _encoded(response: Any, version: int) -> bytes:
    return bytes(response.encode(version=version))


class JavaLeader:
    """Java's assignors in a JVM, which is replaced when one of them comes to no end; a context manager.

    Args:
        version: Kafka's version; it must be pinned.

    Cost: about 3 ms a group; half a second for a new JVM.
    """

    def __init__(self, version: str = KAFKA_VERSION) -> None:
        self._version = version
        self._start()

    def __enter__(self) -> JavaLeader:
        return self

    def __exit__(self, *error: object) -> None:
        self._java.close()

    def _start(self) -> None:
        self._java = LiveJava(self._version)
        self._jvm = self._java.classes
        self._pool = self._jvm.java.util.concurrent.Executors.newCachedThreadPool()
        self._seconds = self._jvm.java.util.concurrent.TimeUnit.SECONDS
        protocol, buffer = f"{_INTERNALS}.ConsumerProtocol", "java.nio.ByteBuffer"
        collectors = self._jvm.java.util.stream.Collectors
        member_id = self._method(_JOINED, "memberId")
        read = self._then(
            self._method(_JOINED, "metadata"),
            self._method(buffer, "wrap", "[B"),
            self._method(protocol, "deserializeSubscription", buffer),
        )
        write = self._then(
            self._method(protocol, "serializeAssignment", f"{_ASSIGNOR}$Assignment"),
            self._method(buffer, "array"),
            self._method("java.util.HexFormat", "formatHex", "[B").bindTo(self._jvm.java.util.HexFormat.of()),
        )
        in_order = collectors.toMap(self._function(member_id), self._function(read))  # a HashMap, filled in that order
        self._subscriptions = self._function(*self._collect(in_order))
        decided = self._method(f"{_ASSIGNOR}$GroupAssignment", "groupAssignment")
        self._ids = self._function(
            decided, self._method("java.util.Map", "keySet"), *self._collect(_joining(collectors))
        )
        self._answers = self._function(
            decided,
            self._method("java.util.Map", "values"),
            *self._collect(collectors.mapping(self._function(write), _joining(collectors))),
        )
        cluster, group = "org.apache.kafka.common.Cluster", f"{_ASSIGNOR}$GroupSubscription"
        self._assign = self._method(_ASSIGNOR, "assign", cluster, group)

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(name)

    def _method(self, owner: str, name: str, *types: str) -> Any:
        """A handle of a public method, from objects to an object, so that any two fit together."""
        parameters = self._array("Class", [self._class(type_name) for type_name in types])
        method = self._class(owner).getMethod(name, parameters)
        handle = self._jvm.java.lang.invoke.MethodHandles.publicLookup().unreflect(method)
        return handle.asType(handle.type().generic())

    def _then(self, first: Any, *handles: Any) -> Any:
        """One handle that calls each with what the one before returns."""
        for handle in handles:
            first = self._jvm.java.lang.invoke.MethodHandles.filterReturnValue(first, handle)
        return first

    def _collect(self, collector: Any) -> tuple[Any, Any]:
        """The steps from a collection to what the collector makes of it."""
        collect = self._method("java.util.stream.Stream", "collect", "java.util.stream.Collector")
        last = self._jvm.java.lang.invoke.MethodHandles.insertArguments(collect, 1, self._array("Object", [collector]))
        return self._method("java.util.Collection", "stream"), last

    def _function(self, *handles: Any) -> Any:
        return self._as("java.util.function.Function", self._then(*handles))

    def _as(self, interface: str, handle: Any) -> Any:
        """A handle as an object of a functional interface."""
        return self._jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(self._class(interface), handle)

    def _array(self, of: str, items: Sequence[Any]) -> Any:
        return self._java.array(getattr(self._jvm.java.lang, of), items)

    def _readable(self, data: bytes) -> Any:
        return self._jvm.org.apache.kafka.common.protocol.ByteBufferAccessor(self._jvm.java.nio.ByteBuffer.wrap(data))

    def assign(
        self, name: str, members: Sequence[tuple[str, str | None, bytes]], cluster: bytes, deadline_s: int = DEADLINE_S
    ) -> Answer:
        """What Java's assignor of that name answers.

        Args:
            name: Protocol name.
            members: (member id, instance id, ConsumerProtocolSubscription bytes) in JoinGroup order.
            cluster: Bytes of `metadata`.
            deadline_s: When it counts as endless.
        """
        kafka, optional = self._jvm.org.apache.kafka, self._jvm.java.util.Optional
        data = kafka.common.message.MetadataResponseData(self._readable(cluster), METADATA)
        java_cluster = kafka.common.requests.MetadataResponse(data, METADATA).buildCluster()
        response = kafka.common.message.JoinGroupResponseData(self._readable(join_group(members, name)), JOIN_GROUP)
        subscriptions = self._subscriptions.apply(response.members())
        for member_id, instance, _ in members:
            if instance is not None:
                subscriptions.get(member_id).setGroupInstanceId(optional.of(instance))
        assignor = getattr(kafka.clients.consumer, ASSIGNORS[name])()
        group = kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription(subscriptions)
        task = self._assign.bindTo(assignor).bindTo(java_cluster).bindTo(group)
        future = self._pool.submit(self._as("java.util.concurrent.Callable", task))
        try:
            decided = future.get(deadline_s, self._seconds)
        except Py4JJavaError as error:
            cause = error.java_exception.getCause()
            if cause is not None:
                return Answer(None, thrown=cause.toString())
            if "TimeoutException" not in error.java_exception.toString():
                raise
            self._java.close()  # a thread of Java's cannot be ended
            self._start()
            return Answer(None, endless=True)
        ids, answers = self._ids.apply(decided).split(_BETWEEN), self._answers.apply(decided).split(_BETWEEN)
        return Answer({m: decoded(bytes.fromhex(text)) for m, text in zip(ids, answers, strict=True)})


def _joining(collectors: Any) -> Any:
    return collectors.joining(_BETWEEN)


def decoded(data: bytes) -> dict[str, list[int]]:
    """The bytes of an assignment; written by our codec they are the same bytes again."""
    assigned = decode_assignment(data)
    assert encode_assignment(assigned) == data
    return {topic: sorted(ids) for topic, ids in assigned.partitions.items()}
