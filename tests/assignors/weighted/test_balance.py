"""What a leader tells its members, and that no weight is lost with it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors import LagAssignor, WeightedAssignor
from kafka_assignors.core.wire import balance
from kafka_assignors.core.wire import weighted as carried
from kafka_assignors.core.wire.protocol import decode_assignment, decode_subscription
from tests.support.kafka_python.joins import cluster, join

PARTITIONS = 12


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=50), st.floats(0, 1e9), st.integers(0, 1000))
def test_figures_come_back(weights: list[float], bound: float, measured: int) -> None:
    ids = np.arange(len(weights))
    sent = balance.Balance(bound, 2 * bound, measured, 1000, 7, 3, {"t": (ids, np.array(weights))})
    told = balance.decode(balance.encode(sent))
    assert told is not None
    assert (told.bound, told.greatest, told.measured, told.partitions, told.withheld) == (
        bound,
        2 * bound,
        measured,
        1000,
        7,
    )
    assert np.allclose(told.weights["t"][1], weights, rtol=0.0222)


@given(st.binary(max_size=100))
def test_any_bytes_are_read(data: bytes) -> None:
    balance.decode(data)


@given(st.integers(0, 80), st.integers(0, 255))
def test_damaged_and_newer_bytes_say_nothing(at: int, byte: int) -> None:
    data = bytearray(balance.encode(balance.Balance(1.0, 1.0, 3, 3, 0, 0, {"t": (np.arange(3), np.ones(3))})))
    if at < len(data) and data[at] != byte:
        data[at] = byte
        assert balance.decode(bytes(data)) is None


class Members:
    """Assignors that join together, without consumers: each has measured the partitions that it was given."""

    def __init__(self, names: str, make: Any) -> None:
        self.all = {name: make() for name in names}
        self.numbers = itertools.count(1)
        self.known: dict[str, dict[str, tuple[Any, Any]]] = {}

    def rebalance(self, leader: str) -> dict[str, list[int]]:
        generation = next(self.numbers)
        sent = {name: bytes(each.metadata(["t"]).encode()) for name, each in self.all.items()}
        self.known = {
            name: dict(carried.decode(decode_subscription(data).user_data, {"t": PARTITIONS}).weights)
            for name, data in sent.items()
        }
        members = [join(name, data) for name, data in sent.items()]
        answer = self.all[leader].assign(cluster({"t": [[1]] * PARTITIONS}), members)
        for name, each in self.all.items():
            each.on_assignment(answer[name].decode(answer[name].encode()), generation)
        return {n: list(decode_assignment(answer[n].encode()).partitions.get("t", [])) for n in self.all}

    def told(self) -> set[int]:
        return {int(p) for weights in self.known.values() for p in weights.get("t", ((), ()))[0]}


def measure(members: Members, owned: dict[str, list[int]], now: int) -> None:
    for name, ids in owned.items():
        for second in range(now, now + 60):
            for p in ids:
                end = (p + 1) * second
                members.all[name]._source.meter.saw(("t", p), end, end, float(second))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("kafka_assignors.clients.kafka_python.weighted.time.monotonic", lambda: now[0])
    return now


def test_a_leader_that_dies_takes_no_weight_with_it(clock: list[float]) -> None:
    members = Members("abcde", lambda: WeightedAssignor(meter="records", protocol="eager"))
    owned = members.rebalance("a")
    measure(members, owned, 0)
    clock[0] = 60.0
    owned = members.rebalance("a")
    assert members.told() == set(range(PARTITIONS))

    assert owned["a"]
    del members.all["a"]
    clock[0] = 61.0
    owned = members.rebalance("b")
    assert members.told() == set(range(PARTITIONS)), "the dead leader's partitions are known to others"
    loads = [sum(p + 1 for p in ids) for ids in owned.values()]
    assert max(loads) <= 1.15 * sum(loads) / len(loads)


def test_half_of_the_members_without_a_meter_and_a_newer_version(clock: list[float]) -> None:
    meters = iter(["records", None] * 2)
    members = Members("abcd", lambda: WeightedAssignor(meter=next(meters), protocol="eager"))
    members.all["d"]._user_data = lambda: bytes([carried.VERSION + 1]) + b"what comes"
    owned = members.rebalance("a")
    measure(members, {"a": owned["a"]}, 0)
    clock[0] = 60.0
    owned = members.rebalance("b")
    assert sorted(p for ids in owned.values() for p in ids) == list(range(PARTITIONS))
    assert members.told() == set(members.known["a"]["t"][0])


def test_members_of_lag_measure_lag(clock: list[float]) -> None:
    members = Members("ab", lambda: LagAssignor(protocol="eager"))
    owned = members.rebalance("a")
    for name, ids in owned.items():
        for p in ids:
            members.all[name]._source.meter.saw(("t", p), 0, 1000 if p < 2 else 10, 0.0)
    owned = members.rebalance("b")
    assert {name for name, ids in owned.items() if {0, 1} & set(ids)} == {"a", "b"}
    assert max(weight for weights in members.known.values() for weight in weights["t"][1]) == pytest.approx(
        1000, rel=0.022
    )
