"""Java's partitioners, asked again for each record: murmur2, round robin, and the two sticky ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kafka_assignors.integration.broker.java import LiveJava

from .kafka_classes import KafkaClasses
from .random_source import RandomSource
from .remaking import Answer, NotMade

TOPIC = "t"
PRODUCER = "org.apache.kafka.clients.producer"


def key_hash(kafka: KafkaClasses) -> Answer:
    """``Utils.murmur2`` and ``BuiltInPartitioner.partitionForKey``."""
    java = kafka.java
    utils = java.classes.org.apache.kafka.common.utils.Utils
    partitioner = java.classes.org.apache.kafka.clients.producer.internals.BuiltInPartitioner

    def answer(case: Mapping[str, Any]) -> dict[str, Any]:
        key = bytes.fromhex(case["key"])
        hashed = utils.murmur2(key)
        return {
            "murmur2": hashed,
            "positive": utils.toPositive(hashed),
            "partitions": {n: partitioner.partitionForKey(key, int(n)) for n in case["partitions"]},
        }

    return answer


def round_robin(kafka: KafkaClasses) -> Answer:
    """``RoundRobinPartitioner``, a new one for each case."""
    java = kafka.java

    def answer(case: Mapping[str, Any]) -> dict[str, Any]:
        partitioner = java.classes.org.apache.kafka.clients.producer.RoundRobinPartitioner()
        known, chosen = cluster(java, {TOPIC: case["cluster"]}), []
        for op in case["ops"]:
            if "cluster" in op:
                known = cluster(java, {TOPIC: op["cluster"]})
            else:
                sends = range(op["send"])
                chosen += [partitioner.partition(TOPIC, None, None, None, b"v", known) for _ in sends]
        return {"expected": chosen}

    return answer


def uniform(kafka: KafkaClasses) -> Answer:
    """``BuiltInPartitioner`` (KIP-794) with the recorded draws in its thread's random source."""
    java = kafka.java
    internals = java.classes.org.apache.kafka.clients.producer.internals
    jvm, name = java.classes, f"{PRODUCER}.internals.BuiltInPartitioner"
    known_as = {"Cluster": "org.apache.kafka.common.Cluster", "Info": f"{name}$StickyPartitionInfo"}
    types = {alias: jvm.java.lang.Class.forName(each) for alias, each in known_as.items()}
    source = RandomSource(java)

    def package_private(method: str, *parameters: Any) -> Any:
        array = java.array(jvm.java.lang.Class, parameters)
        found = jvm.java.lang.Class.forName(name).getDeclaredMethod(method, array)
        found.setAccessible(True)
        return lambda owner, *given: found.invoke(owner, java.array(jvm.java.lang.Object, given))

    integer, boolean = jvm.java.lang.Integer.TYPE, jvm.java.lang.Boolean.TYPE
    peek = package_private("peekCurrentPartitionInfo", types["Cluster"])
    update = package_private("updatePartitionInfo", types["Info"], integer, types["Cluster"], boolean)
    changed = package_private("isPartitionChanged", types["Info"])

    def answer(case: Mapping[str, Any]) -> dict[str, Any]:
        rack_aware = kafka_release(kafka.version) >= RACK_AWARE
        if "rack" in case and not rack_aware:
            raise NotMade("KIP-1123 came with Kafka 4.4")
        utils = jvm.org.apache.kafka.common.utils
        log = utils.internals.LogContext() if rack_aware else utils.LogContext()
        rack = ("rack" in case, case.get("rack", "")) if rack_aware else ()
        partitioner = internals.BuiltInPartitioner(log, TOPIC, case["sticky_batch_size"], *rack)
        racks = case.get("racks", {})
        known, trace = cluster(java, {TOPIC: case["cluster"]}, racks), []
        source.begin(case["draws"])
        for op in case["ops"]:
            if "cluster" in op:
                known = cluster(java, {TOPIC: op["cluster"]}, racks)
            elif "load" in op:
                sizes, ids = (java.array(jvm.int, op["load"][each]) for each in ("queue_sizes", "partition_ids"))
                racks_of = op["load"].get("racks", [None] * len(op["load"]["partition_ids"]))
                leaders = [java.array(jvm.java.lang.String, racks_of)] if rack_aware else []
                partitioner.updatePartitionLoadStats(sizes, ids, *leaders, op["load"]["length"])
            elif "no_load" in op:
                partitioner.updatePartitionLoadStats(None, None, *([None] if rack_aware else []), 0)
            else:
                # each of Java's calls draws once at most
                at = source.during(partial(peek, partitioner, known))
                source.during(partial(update, partitioner, at, op["append"], known, op["switch"]))
                following = source.during(partial(peek, partitioner, known)).partition()
                trace.append([at.partition(), following, changed(partitioner, at), source.used])
        return {"trace": trace}

    return answer


RACK_AWARE = (4, 4)
"""The first version whose ``BuiltInPartitioner`` knows racks (KIP-1123)."""


def kafka_release(version: str) -> tuple[int, ...]:
    """``4.3.0`` as numbers that compare."""
    return tuple(map(int, version.split(".")))


def sticky(kafka: KafkaClasses) -> Answer:
    """``DefaultPartitioner`` and ``UniformStickyPartitioner`` (KIP-480; Kafka 3) with the recorded draws.

    The recorded trace is read for the number of draws of each call, never for a partition.
    """
    java = kafka.java
    source, producer = RandomSource(java), java.classes.org.apache.kafka.clients.producer

    def answer(case: Mapping[str, Any]) -> dict[str, Any]:
        if not kafka.version.startswith("3."):
            raise NotMade("Kafka 4.0 removed these classes")
        default = case["partitioner"] == "default"
        partitioner = producer.internals.DefaultPartitioner() if default else producer.UniformStickyPartitioner()
        leaders, known, trace = case["cluster"], cluster(java, case["cluster"]), []
        source.begin(case["draws"])
        for op in case["ops"]:
            if "cluster" in op:
                leaders, known = op["cluster"], cluster(java, op["cluster"])
                continue
            record = op.get("send") or op["new_batch"]
            topic, expected = record["topic"], case["trace"][len(trace)][1] - source.used
            available = [each for each in leaders[topic] if each != -1] or leaders[topic]
            if "send" in op:
                key = None if record["key"] is None else bytes.fromhex(record["key"])
                call = partial(partitioner.partition, topic, None, key, None, b"v", known)
            else:
                call = partial(partitioner.onNewBatch, topic, known, record["prev"])
            trace.append([source.during(call, expected, len(available)), source.used])
        return {"trace": trace}

    return answer


def cluster(java: LiveJava, topics: Mapping[str, Sequence[int]], racks: Mapping[str, str | None] | None = None) -> Any:
    """Java's ``Cluster``: topic -> broker id of each partition's leader, -1 = none; broker id -> its rack."""
    common, collections = java.classes.org.apache.kafka.common, java.classes.java.util
    rack = racks or {}
    ids = {n for leaders in topics.values() for n in leaders if n != -1}
    nodes = {n: common.Node(n, "localhost", 9092, rack.get(str(n))) for n in ids}
    none = java.array(common.Node, [])
    partitions = [
        common.PartitionInfo(topic, p, nodes.get(leader), none, none)
        for topic, leaders in topics.items()
        for p, leader in enumerate(leaders)
    ]
    empty = collections.Collections.emptySet()
    return common.Cluster("cluster", list(nodes.values()), partitions, empty, empty)
