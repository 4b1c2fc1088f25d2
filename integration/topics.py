"""Topics of a run on the broker."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from kafka.admin import KafkaAdminClient

from kafka_assignors.errors import ConfigError


def create_topics(bootstrap: str, topics: Mapping[str, int]) -> None:
    """Make sure that the topics exist with these partition counts; returns when every partition has a leader.

    Args:
        bootstrap: ``host:port``, several with commas.
        topics: topic -> partition count.

    Raises:
        ConfigError: A topic exists with another count, which this doesn't change.
        kafka.errors.KafkaError: The broker refuses.
    """
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap, client_id="kafka-assignors-topics")) as admin:
        there = {t["name"]: len(t["partitions"]) for t in admin.describe_topics() if t["name"] in topics}
        for topic, count in there.items():
            if count != topics[topic]:
                raise ConfigError(
                    f"topic {topic!r} has {count} partitions, this run needs {topics[topic]}; "
                    "delete it, or take another broker"
                )
        missing = {t: {"num_partitions": n} for t, n in topics.items() if t not in there}
        if missing:
            admin.create_topics(missing, wait_for_metadata=True)
