"""The rule of kafka-lag-based-assignor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors import Group, LagAssignor, Member, plan
from kafka_assignors.core.strategies import strategy
from kafka_assignors.errors import ConfigError


def placed(lags: dict[str, list[float]], members: dict[str, list[str]]) -> dict[str, dict[str, list[int]]]:
    group = Group([Member(name, set(topics)) for name, topics in members.items()], {t: len(v) for t, v in lags.items()})
    return strategy("lag", weights=lags, parity="grantneale").place(group)


@pytest.mark.source("kafka-lag-based-assignor LagBasedPartitionAssignorTest.testAssign")
def test_as_its_own_test_expects() -> None:
    lags = {"topic1": [100_000.0, 100_000.0, 500.0, 1.0], "topic2": [900_000.0, 100_000.0]}
    assert placed(lags, {"consumer-1": ["topic1", "topic2"], "consumer-2": ["topic1"]}) == {
        "consumer-1": {"topic1": [0, 2], "topic2": [0, 1]},
        "consumer-2": {"topic1": [1, 3]},
    }


@pytest.mark.source("kafka-lag-based-assignor LagBasedPartitionAssignor, the example of its class comment")
def test_as_its_documentation_says() -> None:
    lags = {"t0": [100_000.0, 50_000.0, 60_000.0]}
    assert placed(lags, {"C0": ["t0"], "C1": ["t0"]}) == {"C0": {"t0": [0]}, "C1": {"t0": [1, 2]}}


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 4))
def test_as_the_rule_says_one_partition_at_a_time(lags: list[int], members: int) -> None:
    names = [f"m{i}" for i in range(members)]
    expected: dict[str, list[int]] = {name: [] for name in names}
    for p in sorted(range(len(lags)), key=lambda p: (-lags[p], p)):
        least = min(names, key=lambda name: (len(expected[name]), sum(lags[q] for q in expected[name]), name))
        expected[least].append(p)
    found = placed({"t": [float(lag) for lag in lags]}, {name: ["t"] for name in names})
    assert {name: found[name].get("t", []) for name in names} == {name: sorted(ids) for name, ids in expected.items()}


def test_a_plan_shows_what_the_rule_costs() -> None:
    group = Group(
        [Member(m, {"t"}, owned=[("t", p) for p in held], generation=1) for m, held in (("a", (0, 3)), ("b", (1, 2)))],
        {"t": 4},
    )
    lags = {"t": [1.0, 2.0, 1.0, 2.0]}
    assert plan(group, "lag", weights=lags).load.moves == 0  # type: ignore[union-attr]
    assert plan(group, "lag", weights=lags, parity="grantneale").load.moves > 0  # type: ignore[union-attr]


def test_another_parity_is_refused() -> None:
    with pytest.raises(ConfigError, match="grantneale"):
        LagAssignor(parity="java")
