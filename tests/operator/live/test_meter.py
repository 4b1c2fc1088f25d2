"""Running totals of rebalances: each is counted once, as `why` tells it, however its records come in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from kafka_assignors.core.fewest import least_moves as plan_least_moves
from kafka_assignors.core.group import Group, TopicPartition
from kafka_assignors.history.generations import GroupGeneration, Log
from kafka_assignors.history.rebalances import Rebalance, rebalances
from kafka_assignors.history.rebalances import apart as rebalances_apart
from kafka_assignors.operator.live.group import LiveGroup, LiveMember, LiveTopics
from kafka_assignors.operator.live.meter import SETTLED_S, LogMeter, PolledMeter, Totals, imbalance, plan_gap
from tests.support.live.log import LogStory


def three() -> LogStory:
    return LogStory().given({"a": [0, 1], "b": [2, 3], "c": [4, 5]}).wait(60)


def counted(totals: Totals) -> dict[str, int]:
    return {cause: count for cause, count in totals.rebalances.items() if count}


def life(generations: int) -> LogStory:
    """A member comes, works and goes again, over and over; range moves partitions needlessly."""
    story = three()
    for n in range(generations):
        story.commit(0, 2, 4).wait(20).commit(0, 2, 4).wait(100)
        if n % 2:
            story.given({"a": [0, 1], "b": [2, 3], "c": [4, 5]})
        else:
            story.given({"a": [0, 1], "b": [2], "c": [3, 4], f"d{n}": [5]})
    return story


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_the_totals_are_those_of_the_whole_log(step: int) -> None:
    """However many records come at once, and though old records are forgotten."""
    records = life(24).records
    meter, now_s = LogMeter(Log(tuple(records[:1]), True)), 0.0
    for n in range(1, len(records), step):
        meter.add(records[n : n + step], now_s)
        now_s += 2 * SETTLED_S
        meter.add([], now_s)
    told = rebalances(Log(tuple(records), True))[1:]

    assert counted(meter.totals) == Counter(each.causes[0].kind for each in told)
    assert [(each.generations, each.causes, each.moved) for each in meter.rebalances] == [
        (each.generations, each.causes, each.moved) for each in told
    ]
    assert meter.totals.moved == sum(each.moved for each in told)
    assert meter.totals.needless == sum(each.needless or 0 for each in told) > 0
    assert meter.totals.ownerless_ms == pytest.approx(sum(each.at_least_ms for each in told))


def test_memory_is_bounded() -> None:
    meter = LogMeter(Log((), True))
    kept = []
    for n, record in enumerate(life(40).records):
        meter.add([record], n * 2 * SETTLED_S)
        meter.add([], n * 2 * SETTLED_S + SETTLED_S)
        kept.append(len(meter._generations))
    assert max(kept[40:]) <= max(kept[:40]) <= 6


def test_every_generation_of_a_storm_is_counted_and_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generations that come without a rest cost no more than calm ones: an exporter that plans them again lags."""
    planned: list[Group] = []
    read: list[int] = []

    def least_moves(group: Group) -> int:
        planned.append(group)
        return plan_least_moves(group)

    def apart(found: Sequence[GroupGeneration], **known: Any) -> Iterator[tuple[Rebalance, Callable[[], int | None]]]:
        read.append(len(found))
        return rebalances_apart(found, **known)

    monkeypatch.setattr("kafka_assignors.history.rebalances.least_moves", least_moves)
    monkeypatch.setattr("kafka_assignors.operator.live.meter.apart", apart)
    story = three()
    for n in range(60):  # a generation every 1.5 s, far less than what a client needs to have restarted
        owned = {"a": [0, 1], "b": [2], "c": [3, 4], f"d{n}": [5]} if n % 2 else {"a": [0, 1], "b": [2, 3], "c": [4, 5]}
        story.given(owned).wait(1.5)
    meter = LogMeter(Log(tuple(story.records[:1]), True))
    for record in story.records[1:]:
        meter.add([record], 0.0)
    meter.add([], SETTLED_S)
    assert counted(meter.totals) == Counter(each.causes[0].kind for each in rebalances(story.log)[1:])
    assert sum(meter.totals.rebalances.values()) == 60
    assert len(planned) == 59 + 60, "the meter's, without the first, which moved nothing, and those of the whole log"
    assert max(read) <= 6


@pytest.mark.parametrize("rest", [False, True])
def test_hand_overs_of_a_cooperative_storm_are_counted_once(rest: bool) -> None:
    """Also after the generations before them are forgotten."""
    story = LogStory("cooperative-sticky").given({"a": [0, 1, 2, 3]}, cooperative=True)
    for n in range(20):
        story.wait(1).given({"a": [0, 1], f"b{n}": []}, cooperative=True)
        story.wait(1).given({"a": [0, 1], f"b{n}": [2, 3]}, cooperative=True)
        story.wait(1).given({"a": [0, 1, 2, 3]}, cooperative=True)
    meter = LogMeter(Log(tuple(story.records[:1]), True))
    for n, record in enumerate(story.records[1:]):
        meter.add([record], n * 2 * SETTLED_S)
        if rest:
            meter.add([], n * 2 * SETTLED_S + SETTLED_S)
    meter.add([], len(story.records) * 2 * SETTLED_S)
    told = rebalances(story.log)[1:]

    assert counted(meter.totals) == Counter(each.causes[0].kind for each in told) == {"joined": 20, "left": 20}
    assert meter.totals.moved == sum(each.moved for each in told)


def test_a_client_that_is_back_after_many_generations_has_restarted() -> None:
    """Who left is remembered for a minute, though the records of that time are gone."""
    story = three().given({"a": [0, 1, 2], "b": [3, 4, 5]}, hosts={"b": 1})
    for n in range(20):
        story.wait(1).given({"a": [0, 1], "b": [2, 3], f"d{n}": [4, 5]})
    story.wait(1).given({"a": [0, 1], "b": [2, 3], "c": [4, 5]}, ids={"c": "c-1"})
    meter = LogMeter(Log(tuple(story.records[:1]), True))
    for record in story.records[1:]:
        meter.add([record], 0.0)
    meter.add([], SETTLED_S)
    due = Counter(each.causes[0].kind for each in rebalances(story.log)[1:])
    assert counted(meter.totals) == due
    assert [c.kind for c in rebalances(story.log)[-1].causes if c.who == "c"] == ["restarted"]


def test_what_was_before_the_start_is_not_counted_and_gives_the_cause_of_the_next() -> None:
    story = three().given({"a": [0], "b": [2, 3], "c": [4, 5], "d": [1]}).wait(60)
    meter = LogMeter(story.log)
    assert (counted(meter.totals), meter.live and meter.live.generation) == ({}, 2)
    known = len(story.records)
    meter.add(story.given({"a": [0, 1], "b": [2, 3], "c": [4, 5]}).records[known:], 0.0)
    meter.add([], SETTLED_S)
    assert counted(meter.totals) == {"left or expired": 1}


def test_a_group_that_its_last_member_leaves_is_no_rebalance() -> None:
    story = three().wait(60)
    meter = LogMeter(story.log)
    meter.add(story.given({}).records[1:], 0.0)
    meter.add([], SETTLED_S)
    assert counted(meter.totals) == {}
    assert [(each.emptied, len(each.causes)) for each in meter.rebalances] == [(True, 3)]


def test_a_cooperative_hand_over_is_one_rebalance_and_all_its_moves_count() -> None:
    """Its second generation may come after the first was counted: what it moves is added, its cause isn't."""
    for late in (False, True):
        story = LogStory("cooperative-sticky").given({"a": [0, 1, 2, 3]}, cooperative=True).wait(60)
        meter = LogMeter(story.log)
        story.given({"a": [0, 1], "b": []}, cooperative=True).wait(1)
        meter.add(story.records[1:2], 0.0)
        if late:
            meter.add([], SETTLED_S)
        story.given({"a": [0, 1], "b": [2, 3]}, cooperative=True)
        meter.add(story.records[2:], SETTLED_S)
        meter.add([], 2 * SETTLED_S)
        assert (counted(meter.totals), meter.totals.moved) == ({"joined": 1}, 2)


def live(**owned: list[int]) -> LiveGroup:
    members = tuple(
        LiveMember(name, name, "h", frozenset({"t"}), tuple(TopicPartition("t", p) for p in partitions))
        for name, partitions in owned.items()
    )
    return LiveGroup("g", "Stable" if members else "Empty", "classic", "range" if members else "", members)


def test_polling_counts_the_changes_that_it_sees() -> None:
    meter = PolledMeter()
    for each in (live(a=[0, 1]), live(a=[0, 1]), live(a=[0], b=[1]), live(b=[0, 1]), live(b=[1, 0])):
        meter.add(each)
    assert (counted(meter.totals), meter.totals.moved) == ({"joined": 1, "left or expired": 1}, 2)


def test_even_is_1_and_a_plan_that_moves_nothing_has_no_gap() -> None:
    topics = LiveTopics({"t": 5})
    assert (imbalance(live(a=[0, 1, 2], b=[3, 4])), plan_gap(live(a=[0, 1, 2], b=[3, 4]), topics)) == (1, 0)
    assert (imbalance(live(a=[0, 1, 2, 3, 4], b=[])), plan_gap(live(a=[0, 1, 2, 3, 4], b=[]), topics)) == (5 / 3, 2)
    assert (imbalance(live()), plan_gap(live(), topics)) == (None, None)
