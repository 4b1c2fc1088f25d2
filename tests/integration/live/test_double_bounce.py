"""From an eager assignor to cooperative-sticky by two rolling bounces (KIP-429), with the lists alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener
from kafka.admin import KafkaAdminClient

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor
from kafka_assignors.integration.broker import Broker
from tests.support.kafka_python.polling import Polling
from tests.support.waiting import until

PARTITIONS = 6
BOUNCES: list[list[type[Any]]] = [
    [RangeAssignor],
    [CooperativeStickyAssignor, RangeAssignor],
    [CooperativeStickyAssignor],
]


class Owners(ConsumerRebalanceListener):
    """One member's callbacks, in a table that all members share: partition -> who has it."""

    def __init__(self, name: str, table: dict[Any, str], doubled: list[str]) -> None:
        self.name, self.table, self.doubled = name, table, doubled

    def on_partitions_assigned(self, assigned: Any) -> None:
        for partition in assigned:
            if (other := self.table.setdefault(partition, self.name)) != self.name:
                self.doubled.append(f"{partition} is given to {self.name} while {other} has it")

    def on_partitions_revoked(self, revoked: Any) -> None:
        for partition in revoked:
            if self.table.get(partition) == self.name:
                del self.table[partition]

    on_partitions_lost = on_partitions_revoked


@pytest.mark.broker
@pytest.mark.long  # the same way with members as processes, judged: test_scenarios.py
@pytest.mark.source("KIP-429, from the eager rebalance protocol to the cooperative one")
def test_every_bounce_leaves_each_partition_with_one_owner(
    kafka_broker: Broker, kafka_admin: KafkaAdminClient, kafka_topic: Callable[..., str]
) -> None:
    topic = kafka_topic(partitions=PARTITIONS)
    group = f"bounce-{topic}"
    members: dict[str, Polling] = {}
    table: dict[Any, str] = {}
    doubled: list[str] = []

    def start(name: str, strategy: list[Any]) -> None:
        members[name] = Polling(kafka_broker, group, [topic], strategy, name, listener=Owners(name, table, doubled))

    def stop(name: str) -> None:
        members.pop(name).stop()
        for partition in [partition for partition, owner in table.items() if owner == name]:
            del table[partition]

    def owned() -> list[int]:
        return sorted(p for member in members.values() for p in member.partitions)

    def settled() -> bool:
        assert doubled == []
        generations = {member.generation for member in members.values()}
        balanced = {len(member.partitions) for member in members.values()} == {PARTITIONS // len(members)}
        return len(generations) == 1 and balanced and owned() == list(range(PARTITIONS)) and len(table) == PARTITIONS

    def elected() -> str:
        return str(kafka_admin.describe_groups([group])[group]["protocol_data"])

    try:
        for name in "abc":
            start(name, BOUNCES[0])
        until(settled, "three members with range")
        seen = []
        for strategy in BOUNCES[1:]:
            for name in "abc":
                stop(name)
                until(settled, f"the others have what {name} had")
                start(name, strategy)
                until(settled, f"{name} with {[each.name for each in strategy]} has its share")
                seen.append(elected())
        # range as long as somebody offers it alone; cooperative-sticky in EAGER consumers, then in both kinds together.
        assert seen == ["range"] * 2 + ["cooperative-sticky"] * 4
    finally:
        for member in members.values():
            member.stop()
