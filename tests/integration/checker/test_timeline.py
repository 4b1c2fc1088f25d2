"""Ownership intervals follow the rule of `intervals`, event by event."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.history.events import Event, partitions_json
from kafka_assignors.history.zombies import ZOMBIE_MS
from kafka_assignors.integration.checker import Interval, intervals
from kafka_assignors.integration.history import History
from tests.support.histories.story import churn
from tests.support.histories.whole import whole


def event(at: int, kind: str, member: str | None, *partitions: int, incarnation: int = 0, **data: object) -> Event:
    fields = {"generation": 7, "partitions": partitions_json(("t", p) for p in partitions), **data}
    return Event(
        kind, "run", "member", at, at, at, "g", member, incarnation, member_id=f"{member}-id", data=whole(kind, fields)
    )


def brief(found: list[Interval]) -> list[tuple[object, ...]]:
    return [(i.member, i.partition, i.start_ns, i.end_ns, i.end_kind) for i in found]


@pytest.mark.parametrize(
    ("ending", "kind", "generation"),
    [
        (event(20, "revoke_end", "a", 0), "revoked", 7),
        (event(20, "lost_begin", "a", 0), "lost", 7),
        (event(20, "fault_begin", "a", fault="kill", generation=None), "killed", None),
        (event(20, "stop", "a", generation=None), "stop", None),
        (event(20, "exit", "a", generation=None), "exit", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_way_to_end(ending: Event, kind: str, generation: int | None) -> None:
    (interval,) = intervals(History([event(10, "assigned_begin", "a", 0), ending, event(30, "step", None, name="x")]))

    assert interval == Interval("g", "t", 0, "a", "a-id", 0, 7, generation, 10, 20, "assigned", kind)


def test_what_never_ends_is_open_until_the_last_event() -> None:
    history = History([event(10, "assigned_begin", "a", 0), event(99, "step", None, name="x")])

    assert brief(intervals(history)) == [("a", 0, 10, 99, "open")]


@pytest.mark.parametrize(
    "other",
    [
        event(20, "revoke_begin", "a", 0),
        event(20, "lost_end", "a", 0),
        event(20, "revoke_end", "a", 1),
        event(20, "revoke_end", "b", 0),
        event(20, "revoke_end", "a", 0, incarnation=1),
        event(20, "fault_begin", "a", fault="pause"),
        event(20, "assigned_begin", "a", 0),
    ],
    ids=["revoke begins", "lost ends", "another partition", "another member", "another incarnation", "pause", "again"],
)
def test_what_does_not_end_an_interval(other: Event) -> None:
    history = History([event(10, "assigned_begin", "a", 0), other, event(30, "revoke_end", "a", 0)])

    assert ("a", 0, 10, 30, "revoked") in brief(intervals(history))


def test_neighbours_gap_overlap_and_move() -> None:
    """a 10-20, b 25-40, a 35-50 (5 ms shared with b), a again 60-70."""
    ms = 1_000_000
    turns = [("a", 10, 20), ("b", 25, 40), ("a", 35, 50), ("a", 60, 70)]
    history = History(
        [event(start * ms, "assigned_begin", m, 0) for m, start, _ in turns]
        + [event(end * ms, "revoke_end", m, 0) for m, _, end in turns]
    )

    found = intervals(history)

    assert [(i.gap_before_ms, i.overlap_prev_ms, i.moved) for i in found] == [
        (None, 0, False),
        (5, 0, True),
        (0, 5, True),
        (10, 0, False),
    ]


def test_a_paused_owner_is_a_zombie_until_its_first_callback_after_it_goes_on() -> None:
    """Owned 10-70, paused at 20, resumed at 50, told at 70: 50 ms; the interval itself is as without a pause."""
    ms = 1_000_000
    told = [
        event(10 * ms, "assigned_begin", "a", 0), event(70 * ms, "lost_begin", "a", 0),
        event(90 * ms, "assigned_begin", "a", 0), event(95 * ms, "revoke_end", "a", 0),
    ]  # fmt: skip
    pause = [event(20 * ms, "fault_begin", "a", fault="pause"), event(50 * ms, "fault_end", "a", fault="pause")]

    found = intervals(History(told + pause))

    assert [i.zombie_ms for i in found] == [50, 0]
    assert brief(found) == brief(intervals(History(told)))


@pytest.mark.parametrize("fault", ["pause", "stall", "assign_stall"])
@pytest.mark.parametrize(
    ("callback", "told_ms"), [("revoke_end", 70), ("lost_begin", 70), ("assigned_begin", 70), ("revoke_begin", 80)]
)
def test_whoever_stood_still_is_told_by_the_first_callback_that_knows(fault: str, callback: str, told_ms: int) -> None:
    """A ``revoke_begin`` is told before its join, so it knows nothing; the loss at 80 does."""
    ms = 1_000_000
    history = History([
        event(10 * ms, "assigned_begin", "a", 0),
        event(20 * ms, "fault_begin", "a", fault=fault), event(50 * ms, "fault_end", "a", fault=fault),
        event(70 * ms, callback, "a", 1), event(80 * ms, "lost_begin", "a", 0),
    ])  # fmt: skip

    (interval,) = (i for i in intervals(history) if i.partition == 0)

    assert (interval.end_ns, interval.zombie_ms) == (80 * ms, told_ms - 20)


def test_of_a_fault_of_the_network_nobody_stands_still() -> None:
    history = History([
        event(10, "assigned_begin", "a", 0), event(20, "fault_begin", "a", fault="cut"),
        event(50, "fault_end", "a", fault="cut"), event(80, "lost_begin", "a", 0),
    ])  # fmt: skip

    assert [i.zombie_ms for i in intervals(history)] == [0]


def test_a_zombie_that_notices_nothing_is_one_for_a_bounded_time() -> None:
    ms = 1_000_000
    history = History([
        event(10 * ms, "assigned_begin", "a", 0), event(20 * ms, "fault_begin", "a", fault="pause"),
        event(50 * ms, "fault_end", "a", fault="pause"), event(60_000 * ms, "revoke_end", "a", 0),
    ])  # fmt: skip

    assert [i.zombie_ms for i in intervals(history)] == [30 + ZOMBIE_MS]


def test_a_restarted_member_is_another_owner() -> None:
    history = History([
        event(10, "assigned_begin", "a", 0), event(20, "exit", "a"),
        event(30, "assigned_begin", "a", 0, incarnation=1), event(40, "exit", "a", incarnation=1),
    ])  # fmt: skip

    assert [(i.incarnation, i.moved) for i in intervals(history)] == [(0, False), (1, True)]


turns = st.lists(
    st.tuples(
        st.sampled_from(["assigned_begin", "revoke_end", "lost_begin", "stop"]),
        st.sampled_from("ab"),
        st.frozensets(st.integers(0, 2)),
    ),
    max_size=25,
)


@pytest.mark.slow
@given(turns)
def test_at_every_instant_the_intervals_are_what_a_reader_of_the_events_believes(
    told: list[tuple[str, str, frozenset[int]]],
) -> None:
    """Replaying the events one by one gives who owns what after each; the intervals must say the same."""
    events = [event(i + 1, kind, member, *sorted(ps)) for i, (kind, member, ps) in enumerate(told)]
    found = intervals(History(events))

    believed: set[tuple[str, int]] = set()
    for now, (kind, member, partitions) in enumerate(told, start=1):
        touched = {(member, p) for p in partitions}
        if kind == "assigned_begin":
            believed |= touched
        elif kind == "stop":
            believed = {(m, p) for m, p in believed if m != member}
        else:
            believed -= touched
        owned = {
            (i.member, i.partition) for i in found if i.start_ns <= now and (now < i.end_ns or i.end_kind == "open")
        }
        assert owned == believed


def test_intervals_are_sorted_and_of_one_group_each() -> None:
    found = intervals(churn("cooperative-sticky").history)

    keys = [(i.group, i.topic, i.partition, i.start_ns, i.member, i.incarnation) for i in found]
    assert keys == sorted(keys)
    assert {(i.topic, i.partition) for i in found} == {("t", p) for p in range(4)} | {("u", p) for p in range(3)}
    assert {i.end_kind for i in found} == {"revoked", "killed", "open"}


def test_a_pause_that_begins_as_an_interval_ends_is_none_of_it() -> None:
    """Paused 20-30, told at 40, given up at 70, and paused again at that moment."""
    ms = 1_000_000
    history = History([
        event(10 * ms, "assigned_begin", "a", 0),
        event(20 * ms, "fault_begin", "a", fault="pause"), event(30 * ms, "fault_end", "a", fault="pause"),
        event(40 * ms, "assigned_begin", "a", 1),
        event(70 * ms, "revoke_end", "a", 0), event(70 * ms, "fault_begin", "a", fault="pause"),
        event(90 * ms, "fault_end", "a", fault="pause"),
    ])  # fmt: skip

    assert [i.zombie_ms for i in intervals(history) if i.partition == 0] == [20]
