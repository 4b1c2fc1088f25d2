"""Real AIOKafkaConsumers with our assignors, alone and beside a kafka-python member of ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from kafka_assignors.clients import aiokafka
from kafka_assignors.clients.kafka_python import assignors as kafka_python
from kafka_assignors.integration.broker import Broker
from tests.support.kafka_python.polling import DEADLINE_S, Polling

pytestmark = pytest.mark.broker
PARTITIONS = 6


@pytest.fixture
def make(kafka_broker: Broker, kafka_topic: Callable[..., str]) -> Callable[..., AIOKafkaConsumer]:
    """Makes consumers of one group and topic."""
    topic = kafka_topic(partitions=PARTITIONS)

    def consumer(*assignors: Any, **config: Any) -> AIOKafkaConsumer:
        settings = {"session_timeout_ms": 2000, "heartbeat_interval_ms": 300, "retry_backoff_ms": 50, **config}
        return AIOKafkaConsumer(
            topic, bootstrap_servers=kafka_broker.bootstrap, group_id=f"aio-{topic}",
            partition_assignment_strategy=assignors, **settings,
        )  # fmt: skip

    consumer.topic = topic  # type: ignore[attr-defined]
    return consumer


async def settle(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        await asyncio.sleep(0.05)


def has(member: Any) -> set[int]:
    return {p for _, p in member.assignment()}


def shares(*members: Any) -> Callable[[], bool]:
    """Whether these consumers have everything, each once and as much as the others."""

    def shared() -> bool:
        owned = [has(member) for member in members]
        each = PARTITIONS // len(members)
        return all(len(o) == each for o in owned) and set().union(*owned) == set(range(PARTITIONS))

    return shared


# long: the same life with our own user data, which our members have in test_lives.py
@pytest.mark.parametrize("name", ["sticky", pytest.param("compact-sticky", marks=pytest.mark.long)])
def test_members_keep_what_they_have_whichever_client_leads(
    name: str, make: Callable[..., AIOKafkaConsumer], kafka_broker: Broker
) -> None:
    """aiokafka leads, then kafka-python; each understands what the other's members claim."""
    topic = make.topic  # type: ignore[attr-defined]
    other: list[Polling] = []

    async def scenario() -> None:
        assignors = [aiokafka.Assignor(name) for _ in range(3)]
        a, b, late = (make(assignor) for assignor in assignors)
        await a.start()
        await settle(shares(a), "a has all")
        await b.start()
        await settle(shares(a, b), "a and b share")
        assert assignors[0]._generation == assignors[1]._generation == a._coordinator.generation > 0
        of_a, of_b = has(a), has(b)

        strategy = [kafka_python.assignor(name)]
        other.append(await asyncio.to_thread(Polling, kafka_broker, f"aio-{topic}", [topic], strategy, "c"))
        c = other[0].consumer
        await settle(shares(a, b, c), "a, b and kafka-python's c share, led by a")
        assert has(a) < of_a
        assert has(b) < of_b
        of_a, of_c = has(a), has(c)

        await b.stop()
        await settle(shares(a, c), "a and c share")
        assert has(a) > of_a
        assert has(c) > of_c

        await a.stop()
        await settle(shares(c), "c is alone and leads")
        of_c = has(c)
        await late.start()
        await settle(shares(c, late), "c shares, and leads")
        of_c, of_late = has(c), has(late)
        again = make(aiokafka.Assignor(name))
        await again.start()
        await settle(shares(c, late, again), "three share, led by c")
        assert has(c) < of_c
        assert has(late) < of_late  # its claims were read by kafka-python
        await again.stop()
        await late.stop()

    try:
        asyncio.run(scenario())
    finally:
        for each in other:
            each.stop()


@pytest.mark.parametrize("name", ["range", "compact-sticky"])
def test_racks_and_instance_ids_reach_an_aiokafka_leader(make: Callable[..., AIOKafkaConsumer], name: str) -> None:
    """JoinGroup tells aiokafka's assignor neither; of a range group they decide who is first."""
    seen: dict[str | None, str | None] = {}

    class Watching(aiokafka.Assignor):
        def _decoded(self, members: Any) -> Any:
            joined, garbage = super()._decoded(members)
            seen.update({instance_id: sent.rack for _, instance_id, sent in joined})
            return joined, garbage

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            dynamic = await stack.enter_async_context(make(Watching(name), client_id="a"))
            await settle(shares(dynamic), "one has all")
            static = make(Watching(name, rack="r1"), client_id="b", group_instance_id="z")
            await stack.enter_async_context(static)
            await settle(shares(dynamic, static), "two share")
            if name == "range":
                assert has(static) == {0, 1, 2}  # KIP-345: static members first, though "a-…" sorts before "z-…"

    asyncio.run(scenario())
    assert seen == {None: None, "z": "r1"}


@pytest.mark.source("aiokafka 0.14.0 CoordinatorGroupRebalance.perform_group_join")
@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.long), 2])  # long: what everybody expects
def test_each_assignor_in_the_list_costs_a_generation(make: Callable[..., AIOKafkaConsumer], count: int) -> None:
    """aiokafka's own; the reason to list one assignor alone."""

    async def scenario() -> int:
        async with make(*[aiokafka.RangeAssignor(), aiokafka.StickyAssignor()][:count]) as consumer:
            await settle(shares(consumer), "it has all")
            return int(consumer._coordinator.generation)

    assert asyncio.run(scenario()) == count
