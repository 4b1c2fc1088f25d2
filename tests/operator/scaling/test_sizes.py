"""The delay of a group at each size, beside a simulation of its queues; and the sizes that are worth a look."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.core.group import Group, Member, TopicPartition
from kafka_assignors.core.strategies import strategy
from kafka_assignors.errors import ConfigError
from kafka_assignors.operator.plans.sizing import shares
from kafka_assignors.operator.scaling import Flow, Rules, SizeDelay, delays, steps

TPS = [TopicPartition("t", p) for p in range(4)]


@given(
    rates=st.lists(st.floats(0, 50), min_size=1, max_size=4),
    lags=st.lists(st.integers(0, 5000), min_size=4, max_size=4),
    pace=st.floats(1, 100),
    horizon_s=st.integers(1, 300),
)
def test_the_delay_is_the_longest_wait_of_a_queue(
    rates: list[float], lags: list[int], pace: float, horizon_s: int
) -> None:
    """One member's queue, second by second: the work before a record that comes now is its wait."""
    flows = {tp: Flow(rate, lag) for tp, rate, lag in zip(TPS, rates, lags, strict=False)}
    owned = TPS[: len(rates)]
    backlog, waits = float(sum(lags[: len(rates)])), []
    for _ in range(horizon_s + 1):
        waits.append(max(0.0, backlog) / pace)
        backlog += sum(rates) - pace

    (size,) = delays({1: [owned]}, flows, pace)

    assert size.delay_s(horizon_s) == pytest.approx(max(waits), rel=1e-6, abs=1e-6)
    assert size.delay_s(horizon_s, 0.5) >= size.delay_s(horizon_s)


def test_the_slowest_member_counts_and_what_was_not_seen_is_empty() -> None:
    flows = {TPS[0]: Flow(10, 0), TPS[1]: Flow(1, 90)}

    (one, two) = delays({2: [[TPS[0], TPS[2]], [TPS[1]]], 1: [TPS]}, flows, 10.0)

    assert (one.members, one.partitions, one.load) == (1, 4, 1.1)
    assert (two.members, two.partitions, two.load) == (2, 2, 1.0)
    assert one.delay_s(60) == pytest.approx(9 + 0.1 * 60)
    assert two.delay_s(60) == 9


@pytest.mark.slow
@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(1, 40), st.booleans())
def test_steps_are_where_the_largest_share_falls(counts: list[int], most: int, by_topic: bool) -> None:
    """As planned by the assignors themselves: between two steps no member has fewer partitions."""
    name, topics = ("range" if by_topic else "cooperative-sticky"), {f"t{n}": count for n, count in enumerate(counts)}
    group = Group([Member("m", set(topics))], topics)
    largest = {
        n: max(map(len, owned))
        for n, owned in shares(group, strategy(name), range(1, min(most, sum(counts)) + 1)).items()
    }

    made = steps(counts, most, by_topic=by_topic)

    assert made == [n for n in largest if all(largest[n] < largest[fewer] for fewer in range(1, n))]


@pytest.mark.parametrize("values", [{"delay_s": 5.0}, {"delay_s": math.inf}, {"delay_s": 30, "least": 4, "most": 3}])
def test_rules_that_cannot_be_kept_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Rules(**values)  # type: ignore[arg-type]


def test_a_size_without_members_waits_for_nothing() -> None:
    assert SizeDelay(1, 0, (), ()).delay_s(300) == 0
