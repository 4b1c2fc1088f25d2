"""What a cluster holds, as plain values, to be compared before and after something ran."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from kafka import TopicPartition
from kafka.admin import ConfigResource, KafkaAdminClient, OffsetSpec


def footprint(bootstrap: str) -> dict[str, Any]:
    """Topics with their configs and every partition's begin and end, groups with their committed offsets."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        topics = {t["name"]: len(t["partitions"]) for t in admin.describe_topics() if not t["is_internal"]}
        tps = [TopicPartition(topic, p) for topic, count in topics.items() for p in range(count)]
        begins, ends = (
            {f"{tp.topic}-{tp.partition}": at.offset for tp, at in admin.list_partition_offsets(wanted).items()}
            if wanted
            else {}
            for wanted in (dict.fromkeys(tps, OffsetSpec.EARLIEST), dict.fromkeys(tps, OffsetSpec.LATEST))
        )
        resources = [ConfigResource("topic", topic) for topic in sorted(topics)]
        groups = sorted(row["group_id"] for row in admin.list_groups())
        group_offsets = admin.list_group_offsets(dict.fromkeys(groups)) if groups else {}
        committed = {
            group: {f"{tp.topic}-{tp.partition}": at.offset for tp, at in offsets.items()}
            for group, offsets in group_offsets.items()
        }
        configs = admin.describe_configs(resources) if resources else {}
        return {"topics": topics, "begins": begins, "ends": ends, "groups": committed, "configs": configs}
