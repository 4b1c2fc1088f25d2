"""Racks and geography through confluent-kafka and aiokafka, on three brokers in three racks one of which dies."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kafka_assignors.integration.broker.cluster import Cluster
from kafka_assignors.producers import CheckedPartitioner, GeographicPartitioner, UniformPartitioner, aiokafka, confluent
from tests.support.producers.shares import DEADLINE_S, lie, share
from tests.support.waiting import until

pytestmark = pytest.mark.broker


class Confluent:
    """Sends records without a key, by confluent-kafka."""

    def __init__(self, bootstrap: str, chooser: CheckedPartitioner) -> None:
        config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 2}
        self._client = confluent.PartitioningProducer(config, chooser, metadata_max_age_ms=500)

    def send(self, topic: str, numbers: range) -> list[int]:
        """The partitions, acknowledged."""
        placed: dict[int, int] = {}

        def heard(error: object, message: Any) -> None:
            assert error is None
            placed[int(message.value())] = message.partition()

        for i in numbers:
            self._client.produce(topic, b"%0100d" % i, on_delivery=heard)
        assert self._client.flush(DEADLINE_S) == 0
        return [placed[i] for i in numbers]

    def close(self) -> None:
        """Let the client go: it has nothing left."""
        del self._client


class Aiokafka:
    """The same by aiokafka, in a loop that runs while it sends."""

    def __init__(self, bootstrap: str, chooser: CheckedPartitioner) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = self._run(self._start(bootstrap, chooser))

    async def _start(self, bootstrap: str, chooser: CheckedPartitioner) -> Any:
        client = aiokafka.PartitioningProducer(
            bootstrap_servers=bootstrap.split(","), partitioner=chooser, enable_idempotence=True, linger_ms=5,
            metadata_max_age_ms=500, request_timeout_ms=10_000,
        )  # fmt: skip
        await client.start()
        return client

    def send(self, topic: str, numbers: range) -> list[int]:
        """The partitions, acknowledged."""

        async def work() -> list[int]:
            futures = [await self._client.send(topic, b"%0100d" % i) for i in numbers]
            return [(await future).partition for future in futures]

        placed: list[int] = self._run(work())
        return placed

    def close(self) -> None:
        """Stop the client."""
        self._run(self._client.stop())
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, DEADLINE_S))


# long: four producers of other clients; partitioners/test_uniform.py has racks, test_cluster_faults.py a broker's
# death
@pytest.mark.long
@pytest.mark.source("KIP-1123")
def test_other_clients_stay_in_the_rack_too_and_go_elsewhere_when_its_leader_dies(
    cluster: Cluster, kafka_cluster_topic: Callable[..., str]
) -> None:
    """Node 2 is rack b: it leads two partitions of six, and then nothing. One death for all four producers."""
    rules: dict[str, Callable[[], CheckedPartitioner]] = {
        "rack": lambda: UniformPartitioner(batch_bytes=100, rack="b", seed=5),
        "geo": lambda: GeographicPartitioner("b"),
    }
    clients = {
        f"{client.__name__}-{rule}": client(cluster.bootstrap, make())
        for client in (Confluent, Aiokafka)
        for rule, make in rules.items()
    }
    topics = {name: kafka_cluster_topic(placed=[[1, 2, 3], [2, 3, 1], [3, 1, 2]] * 2, name=name) for name in clients}
    try:
        placed = {name: client.send(topics[name], range(600)) for name, client in clients.items()}
        for name, before in placed.items():
            assert set(before) == {1, 4}, f"{name}: all of them are led from rack b"
            assert 0.35 < share(before, {1}) < 0.65, name
        cluster.nodes[1].kill()
        for name, client in clients.items():
            sent = placed[name]

            def left(sent: list[int] = sent, client: Any = client, topic: str = topics[name]) -> bool:
                sent += client.send(topic, range(len(sent), len(sent) + 100))
                return len(set(sent)) > 2

            until(left, f"{name} leaves the rack", DEADLINE_S)
            after = client.send(topics[name], range(len(sent), len(sent) + 600))
            assert set(after) == set(range(6)), f"{name}: with no leader in rack b all partitions are as good"
            sent += after
    finally:
        for client in clients.values():
            client.close()

    for name, topic in topics.items():
        assert lie(cluster, topic, placed[name]), name


@pytest.mark.long  # long: waits for a stalled broker; partitioners/test_adaptive.py has the shares
@pytest.mark.source("KIP-794")
def test_a_stalled_broker_gets_less_through_confluent_too_and_no_produce_waits_for_it(
    cluster: Cluster, kafka_cluster_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node 3 leads a third of the partitions and freezes, also in the middle of an answer about metadata."""
    topic, theirs = kafka_cluster_topic(placed=[[1], [2], [3]] * 2, name="stalls"), {2, 5}
    said: list[int] = []
    placed: dict[int, int] = {}
    chooser = UniformPartitioner(
        batch_bytes=500, seed=3, rack="nowhere", on_choice=lambda topic, key, partition: said.append(partition)
    )
    client = confluent.PartitioningProducer(
        {"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 2}, chooser, metadata_max_age_ms=100
    )

    def heard(error: object, message: Any) -> None:
        assert error is None
        placed[int(message.value())] = message.partition()

    def send(numbers: range) -> None:
        """Everybody but node 3 acknowledges in between."""
        for i in numbers:
            client.produce(topic, b"%0100d" % i, on_delivery=heard)
            client.poll(0)
            if i % 40 == 39:
                others = {j for j, partition in enumerate(said) if partition not in theirs}
                until(
                    lambda others=others: client.poll(0.01) >= 0 and others <= placed.keys(),
                    "others acknowledge",
                    DEADLINE_S,
                )

    send(range(600))
    asking: list[threading.Thread] = []
    ask = client.list_topics
    monkeypatch.setattr(
        client, "list_topics", lambda *a, **k: asking.append(threading.current_thread()) or ask(*a, **k)
    )
    cluster.nodes[2].pause()
    try:
        send(range(600, 3000))
    finally:
        cluster.nodes[2].resume()
    assert client.flush(DEADLINE_S) == 0
    assert share(said[:600], theirs) > 1 / 6
    assert share(said[600:], theirs) < 1 / 6, "less than half of a third"
    send(range(3000, 4200))
    assert client.flush(DEADLINE_S) == 0
    assert share(said[3000:], theirs) > 1 / 6, "no starvation afterwards"
    assert asking, "metadata is 100 ms old at most"
    assert threading.current_thread() not in asking, "no record waited for an answer of the stalled broker"
    assert [placed[i] for i in range(4200)] == said
    assert lie(cluster, topic, said)
