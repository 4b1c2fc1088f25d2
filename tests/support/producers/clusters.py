"""Real kafka-python metadata, made from the response a broker would send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka.cluster import ClusterMetadata
from kafka.protocol.metadata import MetadataResponse

VERSION = 9
NO_LEADER = -1
UNKNOWN_TOPIC = 3
LEADER_NOT_AVAILABLE = 5


def response(topics: Mapping[str, Sequence[int]], errors: Mapping[str, int] | None = None) -> MetadataResponse:
    """A Metadata answer of version 9, through its bytes. topic -> leader id per partition (-1: none)."""
    topic_type = MetadataResponse.MetadataResponseTopic
    partition_type = topic_type.MetadataResponsePartition
    brokers = sorted({leader for leaders in topics.values() for leader in leaders if leader != NO_LEADER} | {0})
    answer = MetadataResponse(
        version=VERSION, throttle_time_ms=0, cluster_id="test", controller_id=brokers[0],
        brokers=[
            MetadataResponse.MetadataResponseBroker(version=VERSION, node_id=b, host=f"b{b}", port=9092, rack=None)
            for b in brokers
        ],
        topics=[
            topic_type(
                version=VERSION, error_code=(errors or {}).get(name, 0), name=name, is_internal=False,
                partitions=[
                    partition_type(
                        version=VERSION, error_code=LEADER_NOT_AVAILABLE if leader == NO_LEADER else 0,
                        partition_index=index, leader_id=leader, leader_epoch=1, replica_nodes=[0], isr_nodes=[0],
                        offline_replicas=[],
                    )
                    for index, leader in enumerate(leaders)
                ],
            )
            for name, leaders in topics.items()
        ],
    )  # fmt: skip
    return MetadataResponse.decode(answer.encode(version=VERSION), version=VERSION)


def cluster(topics: Mapping[str, Sequence[int]], errors: Mapping[str, int] | None = None) -> ClusterMetadata:
    """Metadata of these topics."""
    metadata = ClusterMetadata(bootstrap_servers=["localhost:1"])
    metadata.update_metadata(response(topics, errors))
    return metadata
