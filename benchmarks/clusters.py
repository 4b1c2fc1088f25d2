"""kafka-python's ClusterMetadata for benchmarks of partitioners and assignors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.cluster import ClusterMetadata
from kafka.protocol.metadata import MetadataResponse

_VERSION = 9


def cluster(topics: Mapping[str, int], racks: int = 0, replicas: int = 1) -> Any:
    """A real ClusterMetadata.

    Args:
        topics: topic -> partition count.
        racks: One broker per rack; 0: one broker without a rack.
        replicas: Replicas per partition; partition p of the t-th topic is on brokers t+p, t+p+1, … (modulo `racks`).
    """
    topic_type = MetadataResponse.MetadataResponseTopic
    partition_type = topic_type.MetadataResponsePartition
    brokers = max(racks, 1)
    metadata = ClusterMetadata(bootstrap_servers=["localhost:1"])
    metadata.update_metadata(
        MetadataResponse(
            version=_VERSION, throttle_time_ms=0, cluster_id="benchmark", controller_id=0,
            brokers=[
                MetadataResponse.MetadataResponseBroker(
                    version=_VERSION, node_id=b, host="localhost", port=1, rack=f"rack{b}" if racks else None
                )
                for b in range(brokers)
            ],
            topics=[
                topic_type(
                    version=_VERSION, error_code=0, name=name, is_internal=False,
                    partitions=[
                        partition_type(
                            version=_VERSION, error_code=0, partition_index=p, leader_id=(t + p) % brokers,
                            leader_epoch=0, replica_nodes=[(t + p + r) % brokers for r in range(replicas)],
                            isr_nodes=[(t + p + r) % brokers for r in range(replicas)], offline_replicas=[],
                        )
                        for p in range(count)
                    ],
                )
                for t, (name, count) in enumerate(topics.items())
            ],
        )
    )  # fmt: skip
    return metadata
