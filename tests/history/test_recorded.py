"""By the recordings of its members, a group's rebalances have the causes that the coordinator's log tells."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.history.coordinator_log import GroupCommitted
from kafka_assignors.history.events import Event
from kafka_assignors.history.generations import Log
from kafka_assignors.history.rebalances import Rebalance, rebalances
from kafka_assignors.history.recorded import Recordings, recordings
from tests.support.live.log import SESSION_MS, LogStory
from tests.support.live.recorded import GROUP, events_of

Told = list[tuple[tuple[int, ...], list[tuple[str, str]]]]


def told(rebalances: Sequence[Rebalance]) -> Told:
    return [(r.generations, [(cause.kind, cause.who) for cause in r.causes]) for r in rebalances]


def read(events: Iterator[Event]) -> Recordings:
    shuffled = list(events)
    random.Random(0).shuffle(shuffled)
    return recordings(shuffled, GROUP)


def drawn_life(seed: int, steps: int = 12) -> tuple[Log, dict[str, int]]:
    """A log of joins, leaves, kills, restarts, a static member's return and its end; and who asked to leave when."""
    draw = random.Random(seed)
    story, left = LogStory(draw.choice(("range", "cooperative-sticky"))), {}
    cooperative, names = story.protocol != "range", ["a", "b", "s"]
    ids = {name: f"{name}-0" for name in names}

    def settle() -> None:
        shares = {name: [p for p in range(8) if p % len(names) == n] for n, name in enumerate(names)}
        story.given(shares, ids=ids, static=["s"], hosts=dict.fromkeys([*names], 1), cooperative=cooperative)

    settle()
    for count in range(1, steps + 1):
        story.wait(draw.choice((0.5, 3, 30)))
        kind = draw.choice(("join", "leave", "kill", "restart", "return", "again", "empty"))
        if kind == "join" and len(names) < 6:
            names.append(f"m{count}")
            ids[names[-1]] = f"{names[-1]}-{count}"
        elif kind in ("leave", "kill") and len(names) > 1:
            gone = names.pop(draw.randrange(len(names)))
            if kind == "leave" and gone != "s":
                left[ids[gone]] = story.ms - 30
            else:
                story.wait(SESSION_MS / 1000)  # a session can't expire early
        elif kind == "restart":
            again = draw.choice(names)
            if again != "s":
                left[ids[again]] = story.ms - 30
            ids[again] = f"{again}-{count}"
        elif kind == "return" and "s" in names:
            ids["s"] = f"s-{count}"
            story.generation -= 1  # within its session: the coordinator writes the generation again
            story.held = {}
        elif kind == "empty" and "s" not in names:
            left |= {ids[name]: story.ms - 30 for name in names}
            story.given({})
            story.wait(5)
            ids |= {name: f"{name}-{count}" for name in names}
        before = story.records[-1].value
        settle()
        after = story.records[-1].value
        if (
            kind == "return"
            and "s" in names
            and isinstance(before, GroupCommitted)
            and isinstance(after, GroupCommitted)
        ):
            kept = [
                replace(now, subscription=was.subscription, assignment=was.assignment)
                for now, was in zip(after.members, before.members, strict=True)
            ]
            again = replace(before, members=tuple(kept), leader=kept[0].member_id)
            story.records[-1] = replace(story.records[-1], value=again)
    return story.log, left


def finer(by_log: Sequence[Rebalance], left: Mapping[str, int]) -> Told:
    """What recordings are due to tell: as by the log, but that who recorded a leave has left."""
    return [
        (
            r.generations,
            [
                ("left" if cause.kind == "left or expired" and cause.member_id in left else cause.kind, cause.who)
                for cause in r.causes
            ],
        )
        for r in by_log
    ]  # fmt: skip


@given(st.integers(0, 10**6))
def test_a_drawn_life_has_the_same_rebalances_and_causes_by_recordings(seed: int) -> None:
    log, left = drawn_life(seed)
    by_recordings = read(events_of(log, left)).rebalances()
    assert told(by_recordings) == finer(rebalances(log), left)


@given(st.integers(0, 10**6))
def test_clocks_that_differ_by_half_a_second_change_no_cause(seed: int) -> None:
    log, left = drawn_life(seed)
    draw = random.Random(seed)
    skew = {m.member_id: draw.randrange(500) for r in log.records for m in getattr(r.value, "members", ())}
    by_recordings = read(events_of(log, left, skew_ms=skew)).rebalances()
    assert [(g, [kind for kind in kinds if kind[0] not in GONE]) for g, kinds in told(by_recordings)] == [
        (g, [kind for kind in kinds if kind[0] not in GONE]) for g, kinds in finer(rebalances(log), left)
    ]


def test_a_client_on_an_unknown_host_has_not_restarted() -> None:
    """Instances of one application share a client id: one that doesn't record may be gone, and another have come."""
    story = LogStory().given({"a": [0], "b": [1]}).wait(9).given({"a": [0, 1]}).wait(9)
    story.given({"a": [0], "b": [1]}, ids={"b": "b-9"})
    assert told(rebalances(story.log))[-1][1] == [("restarted", "b")]
    (*_, last) = recordings(events_of(story.log, records=lambda m: m.client_id == "a"), GROUP).rebalances()
    assert [(cause.kind, cause.who, cause.host) for cause in last.causes] == [("joined", "b", "")]


def test_the_member_that_leads_and_does_not_record_is_named_also_for_the_rebalance_after() -> None:
    """a leads, then b, then a again; b doesn't record, so what changed to and from its generation isn't known."""
    story = LogStory().given({"a": [0], "b": [1]}).wait(9).given({"b": [0], "a": [1]}).wait(9)
    story.given({"a": [0], "b": [1]}).wait(9).given({"a": [0, 1]})
    found = recordings(events_of(story.log, records=lambda m: m.client_id == "a"), GROUP).rebalances()
    assert told(found) == [
        ((1,), [("first", "")]), ((2,), [("unknown", "b")]), ((3,), [("unknown", "b")]),
        ((4,), [("left or expired", "b")]),
    ]  # fmt: skip


def test_why_a_member_left_or_what_it_heard_is_told_as_it_recorded_it() -> None:
    story = LogStory().given({"a": [0], "b": [1], "c": [2]}).wait(30).given({"a": [0, 1, 2]})
    events = list(events_of(story.log, {"b-0": story.ms - 20}))
    last = events[-1]
    heard = replace(last, kind="error", member="c", member_id="c-0", data={
        "error": "UnknownMemberIdError", "message": "the coordinator had removed the member"})  # fmt: skip
    (_, gone) = recordings([*events, heard], GROUP).rebalances()
    assert [(cause.kind, cause.who, cause.detail) for cause in gone.causes] == [
        ("left", "b", "its consumer was closed"), ("left or expired", "c", "the coordinator had removed the member"),
    ]  # fmt: skip


def test_a_stop_that_is_long_after_the_member_was_removed_is_no_leave() -> None:
    """A process that was paused is removed, goes on and is closed: it had left nobody."""
    story = LogStory().given({"a": [0], "b": [1]}).wait(30).given({"a": [0, 1]})
    (_, gone) = recordings(events_of(story.log, {"b-0": story.ms + 60_000}), GROUP).rebalances()
    assert [cause.kind for cause in gone.causes] == ["left or expired"]


def test_a_group_that_is_deleted_and_begins_again_has_two_first_generations_in_order() -> None:
    old = LogStory().given({"a": [0]}).wait(5).given({"a": [0], "b": [1]}).wait(5)
    new = LogStory(ms=old.ms + 10**8).given({"a": [0]}, ids={"a": "a-9"}).wait(5).given(
        {"a": [0], "c": [1]}, ids={"a": "a-9"}
    )  # fmt: skip
    found = read(iter([*events_of(old.log), *events_of(new.log)]))
    assert [g.number for g in found.generations] == [1, 2, 1, 2]


def test_generations_that_nobody_recorded_are_missing() -> None:
    story = LogStory().given({"a": [0]}).wait(5).given({"a": [0], "b": [1]}).wait(5).given({"a": [0]})
    events = [event for event in events_of(story.log) if event.data.get("generation") != 2]
    assert [r.missing for r in recordings(events, GROUP).rebalances()] == [None, (2, 2)]


GONE = ("left", "left or expired")
"""Which of them it is may be a matter of half a second."""


@given(st.integers(0, 10**6), st.sampled_from(("a", "b", "s")))
def test_of_a_member_that_does_not_record_nothing_false_is_told(seed: int, hidden: str) -> None:
    """It is known while another one leads. A generation that it leads is told with what is unknown."""
    log, left = drawn_life(seed)
    led = {r.value.generation for r in log.records if (r.value.leader or "").startswith(hidden)}  # type: ignore[union-attr]
    for rebalance in read(events_of(log, left, records=lambda m: m.client_id != hidden)).rebalances():
        kinds = [cause.kind for cause in rebalance.causes]
        if not led & {*rebalance.generations, rebalance.generations[0] - 1} and rebalance.missing is None:
            assert "unknown" not in kinds
        if "unknown" in kinds:
            assert {"partitions", "unassigned", "unexplained"}.isdisjoint(kinds)
        present = {
            m.member_id
            for r in log.records
            for m in getattr(r.value, "members", ())
            if r.value.generation == rebalance.generations[-1]  # type: ignore[union-attr]
        }
        for cause in rebalance.causes:
            if cause.kind == "joined":
                assert cause.member_id in present
            if cause.kind in GONE:
                assert cause.member_id not in present
