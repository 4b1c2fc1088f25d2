"""When an assignor by work requests a rebalance from its consumer, which is real and never reaches a broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kafka.coordinator.base import Generation
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from kafka_assignors import RangeAssignor, WeightedAssignor
from kafka_assignors.clients.kafka_python import weighted
from kafka_assignors.core.wire.balance import Balance, decode, encode
from kafka_assignors.core.wire.protocol import AssignedPartitions, encode_assignment, with_user_data
from tests.support.kafka_python.joins import cluster, join
from tests.support.kafka_python.silent import MakeConsumer, holding, silent_consumers


@pytest.fixture
def consumer() -> Iterator[MakeConsumer]:
    """Makes consumers in generation 7 that hold two partitions."""
    with silent_consumers() as make:
        yield lambda *strategy: holding(make(*strategy, enable_auto_commit=False), 0, 1, assignor=strategy[0].name)


def assigned(bound: float, greatest: float | None = None, moved: int = 0) -> Any:
    """An assignment of both partitions by a leader that knew all weights."""
    told = encode(Balance(bound, greatest or bound, 2, 2, 0, moved, {"t": (np.arange(2), np.full(2, bound / 2))}))
    return ConsumerProtocolAssignment.decode(
        bytes(with_user_data(encode_assignment(AssignedPartitions({"t": [0, 1]})), told))
    )


def test_where_a_lists_other_assignor_was_elected_no_rebalance_is_requested(consumer: MakeConsumer) -> None:
    """Its work is twice the bound of the last generation that `weighted` assigned; `range` assigned the current one."""
    assignor = WeightedAssignor(weights={"t": [1.0, 1.0]}, check_every_s=10)
    coordinator = consumer(assignor, RangeAssignor())._coordinator
    reasons: list[str] = []
    assignor.on_request(reasons.append)
    assignor.on_assignment(assigned(bound=1.0), 7)
    now = time.monotonic() + 1000

    assignor._tick(now)
    assert len(reasons) == 1
    coordinator._generation = Generation(8, "m-1", "range")
    for later in range(100, 1000, 100):
        assignor._tick(now + later)
    assert len(reasons) == 1

    coordinator._generation = Generation(9, "m-1", "weighted")
    assignor.on_assignment(assigned(bound=1.0), 9)
    assignor._tick(time.monotonic() + 3000)
    assert len(reasons) == 2


@pytest.mark.parametrize("greatest", [1.0, 2.0])
def test_a_member_whose_partitions_all_rest_requests_nothing_until_they_do_not(
    greatest: float, consumer: MakeConsumer
) -> None:
    """The leader would leave them where they are; afterwards what it could not better before is a reason."""
    assignor = WeightedAssignor(weights={"t": [1.0, 1.0]}, check_every_s=10, hysteresis=True, partition_rest_s=500)
    consumer(assignor)
    reasons: list[str] = []
    assignor.on_request(reasons.append)
    assignor.on_assignment(assigned(1.0, greatest, moved=2), 7)
    now = time.monotonic()

    assignor._tick(now + 400)
    assert reasons == []
    assignor._tick(now + 600)
    assert len(reasons) == 1


def rebalanced(assignors: dict[str, WeightedAssignor], generation: int) -> tuple[dict[str, list[int]], int]:
    """Rebalance a cooperative group by the bytes that its members exchange, until nothing is withheld.

    Returns:
        member -> partitions, and the last generation.
    """
    while True:
        generation += 1
        joins = [join(name, bytes(each.metadata(["t"]).encode())) for name, each in assignors.items()]
        answer = next(iter(assignors.values())).assign(cluster({"t": [[1]] * 6}), joins)
        sent = {name: ConsumerProtocolAssignment.decode(bytes(given.encode())) for name, given in answer.items()}
        for name, each in assignors.items():
            each.on_assignment(sent[name], generation)
        told = decode(next(iter(sent.values())).user_data)
        if told is None or not told.withheld:
            return {name: sorted(p for _, p in given.partitions()) for name, given in sent.items()}, generation


def test_what_moved_stays_while_it_rests_and_moves_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    now, known = [1000.0], {("t", p): 1.0 for p in range(6)}
    monkeypatch.setattr(weighted, "time", SimpleNamespace(monotonic=lambda: now[0]))
    settings: dict[str, Any] = {"hysteresis": True, "partition_rest_s": 12, "protocol": "cooperative"}
    group = {"m1": WeightedAssignor(weights=lambda: dict(known), **settings)}
    _, generation = rebalanced(group, 0)
    group["m2"] = WeightedAssignor(weights=lambda: dict(known), **settings)
    first, generation = rebalanced(group, generation)
    assert [len(each) for each in first.values()] == [3, 3]

    known.update({("t", p): 4.0 for p in first["m2"]})  # they moved to m2 just now
    now[0] += 11
    rests, generation = rebalanced(group, generation)
    assert rests == first
    now[0] += 2
    then, generation = rebalanced(group, generation)
    assert len(then["m2"]) == 2
    assert len(then["m1"]) == 4
