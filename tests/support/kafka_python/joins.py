"""Metadata and joins as kafka-python hands them to an assignor."""

from __future__ import annotations

from kafka.cluster import ClusterMetadata
from kafka.protocol.consumer import JoinGroupResponse
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.protocol.metadata import MetadataResponse


def cluster(topics, brokers=None, leaderless=()):
    """kafka-python's metadata as a broker's answer makes them. topics: name -> replica ids per partition, or None."""
    topic_type = MetadataResponse.MetadataResponseTopic
    partition_type = topic_type.MetadataResponsePartition
    metadata = ClusterMetadata()
    metadata.set_topics(list(topics))
    metadata.update_metadata(
        MetadataResponse(
            version=9,
            controller_id=1,
            cluster_id="c",
            brokers=[
                MetadataResponse.MetadataResponseBroker(version=9, node_id=node, host="h", port=9092, rack=rack)
                for node, rack in (brokers or {1: None}).items()
            ],
            topics=[
                topic_type(
                    version=9,
                    name=name,
                    is_internal=False,
                    error_code=0 if replicas is not None else 3,  # UNKNOWN_TOPIC_OR_PARTITION
                    partitions=[
                        partition_type(
                            version=9,
                            error_code=5 if (name, p) in leaderless else 0,  # LEADER_NOT_AVAILABLE
                            partition_index=p,
                            leader_id=-1 if (name, p) in leaderless else nodes[0],
                            leader_epoch=0,
                            replica_nodes=nodes,
                            isr_nodes=nodes,
                            offline_replicas=[],
                        )
                        for p, nodes in enumerate(replicas or ())
                    ],
                )
                for name, replicas in topics.items()
            ],
        )
    )
    return metadata


def join(member_id, data, instance_id=None):
    """A member as the leader's client hands it to the assignor."""
    return JoinGroupResponse.JoinGroupResponseMember(
        member_id=member_id, group_instance_id=instance_id, metadata=ConsumerProtocolSubscription.decode(data)
    )


def plain(answer):
    return {m: {t: list(ids) for t, ids in assignment.assigned_partitions} for m, assignment in answer.items()}
