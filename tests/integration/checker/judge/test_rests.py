"""Laws of one transition between two rests (R3, R4, R5, T1, T2, T3), on either side of what each of them grants."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_assignors.core.wire.protocol import Subscription, encode_subscription
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.checker.ledger import RunRecord
from kafka_assignors.integration.checker.transitions import Transition, transitions
from tests.support.damage import shifted
from tests.support.damage.laws import claiming
from tests.support.histories import stories as told
from tests.support.histories.edges import at_ns
from tests.support.histories.faults import AGE_MS, aged, changed, subscribed
from tests.support.histories.story import HEARTBEAT_MS, MS, SESSION_MS, Story

NOTICED_MS, LATE_MS, EARLY_MS = 1000, 3000, 500
SOON_MS = SESSION_MS - HEARTBEAT_MS - EARLY_MS


def laws(story: Story) -> set[str]:
    return {violation.law for violation in check(story.history).violations}


@pytest.mark.parametrize(("hit", "broken"), [("b", set()), ("a", {"T1"})])
def test_only_a_fault_of_its_own_may_have_cost_a_member_heartbeats(hit: str, broken: set[str]) -> None:
    """b is missed 100 ms after its death; a fault of it, or of another, ended half a session before."""
    assert laws(shifted.killed_after_a_fault(SESSION_MS / 2, hit)) == broken


@pytest.mark.parametrize(("after_ms", "broken"), [(AGE_MS + NOTICED_MS, set()), (AGE_MS + NOTICED_MS + 1, {"T3"})])
def test_members_that_do_not_tell_their_heartbeats_get_nothing_on_top(after_ms: float, broken: set[str]) -> None:
    """A topic comes that a pattern matches: the members' slowest heartbeat would be granted once more."""
    story = changed("create_topic", "v", 2, after_ms=after_ms, blind=True, pattern="v|t|u")

    assert laws(shifted.untold(story, "heartbeat_interval_ms")) == broken


def back_since_a_rest(at_ms: float) -> Story:
    """A broker was away when the group was seen at rest, is back at that time of the clock, and c has come since.

    When it went is no event of this transition.
    """
    story = told.two("sticky")
    rest = story.events.pop()
    story.tell("fault_begin", fault="broker_restart", target="node 1")
    story.tell("step", **rest.data)
    story.wait(at_ms - story._now / 1e6 - 1).tell("fault_end", fault="broker_restart", target="node 1")
    return story.round()


@pytest.mark.parametrize(("at_ms", "broken"), [(SESSION_MS - 1, {"R5"}), (SESSION_MS, set())])
def test_an_outage_that_began_before_the_rest_is_as_old_as_the_clock(at_ms: float, broken: set[str]) -> None:
    assert laws(back_since_a_rest(at_ms)) == broken


@pytest.mark.parametrize("protocol", ["sticky", "cooperative-sticky"])
def test_between_two_rests_in_which_nothing_happened_there_is_nothing_to_judge(protocol: str) -> None:
    story = told.two(protocol)
    story.tell("step", **story.events[-1].data)

    verdict = check(story.history)

    assert (verdict.value, {law: verdict.checked[law] for law in ("R3", "R4", "R5")}) == (
        True, {"R3": 0, "R4": 0, "R5": 0})  # fmt: skip


def unreadable(name: str) -> Callable[[dict[str, Any]], None]:
    """What a member joined with is no subscription."""

    def alter(data: dict[str, Any]) -> None:
        data["members"] = [{**m, "subscription": "ff"} if m["client_id"] == name else m for m in data["members"]]

    return alter


def test_a_subscription_that_cannot_be_read_excuses_no_generation() -> None:
    """a subscribes to one topic less, and two generations follow."""
    story = subscribed(at_once=False)
    assert "R5" not in laws(story)

    assert "R5" in laws(story.change("generation_committed", unreadable("a"), nth=-2))


def test_only_who_subscribes_anew_must_have_joined_with_it() -> None:
    """a drops a topic that b keeps, and two generations follow."""
    story = Story("range").start("a", "b").round()
    story.tell("admin_change", member="a", change="subscribe", target="a", subscription={"topics": ["t"]})
    alone, others = encode_subscription(Subscription(("t",))), story._subscription
    story._subscription = lambda name: alone if name == "a" else others(name)  # type: ignore[method-assign]

    assert "R5" in laws(story.round(stable=False).round())


@pytest.mark.parametrize(
    ("protocol", "judging"),
    [("sticky", ("T3", "R4", "R6", "O3")), ("cooperative-sticky", ("T3", "R4", "R2", "R6", "O3"))],
)
def test_laws_of_subscriptions_say_that_one_cannot_be_read(protocol: str, judging: tuple[str, ...]) -> None:
    story = changed("add_partitions", "t", 7, protocol=protocol)
    verdict = check(story.change("generation_committed", unreadable("b")).history)

    for law in judging:
        reasons = [reason for reason in verdict.unknown if reason.startswith(f"{law}: a subscription ")]
        assert reasons, (law, verdict.unknown)
        assert "can't be read: " in reasons[0]
    assert verdict.skipped["R4"] == {"members' subscriptions differ, or members have racks, which outweigh moves": 1}


def test_a_claim_that_cannot_be_read_hides_none_that_lacks() -> None:
    """b and c run another client's assignor; in one generation b's claim can't be read, and c has none."""
    story = Story("sticky").start("a", "b", "c").round()
    for name in ("b", "c"):
        story.change("start", lambda d: d.update(config={**d["config"], "assignors": ["franz-go:sticky"]}), member=name)
    story.start("d").round(stable=False).round()
    story.change("generation_committed", unreadable("b"), 1).change("generation_committed", claiming("c"), 1)

    verdict = check(story.history)

    forgot = "a member of another client joined again without a claim to partitions that it held"
    assert verdict.skipped["R4"] == {forgot: 1}
    assert any(reason.startswith("R4: a subscription can't be read: ") for reason in verdict.unknown)


def test_who_tells_nothing_need_not_tell_that_it_adopted() -> None:
    """b writes no history; c joins, and two generations follow."""
    story = told.two().start("c").round(stable=False).round()

    assert "R5" in laws(told.without(story, lambda e: not (e.src == "member" and e.member == "b")))


def test_the_first_of_too_many_generations_is_a_witness() -> None:
    messages = {v.message: v for v in check(told.storm(5).history).violations}

    (most,) = (v for message, v in messages.items() if "most of them not adopted by all members" in message)
    assert [w.data.get("generation") for w in most.witnesses] == [None, 2, 7]


def test_a_topic_that_is_never_assigned_is_told_so() -> None:
    story = aged()
    story.tell("admin_change", change="add_partitions", target="t", topics={"t": 7})
    story.wait(60_000).tell("step", **{**story.events[-2].data, "topics": {**story.topics, "t": 7}})

    (violation,) = (v for v in check(story.history).violations if v.law == "T3")

    assert violation.message == (
        "t had 7 partitions after its add partitions, and the group assigned them never, not within 2000 ms"
    )


def test_a_change_of_topics_is_not_judged_if_membership_changed_by_itself() -> None:
    story = aged()
    story.tell("admin_change", change="add_partitions", target="t", topics={"t": 7})
    story.held["d"] = set()
    story.topics = {**story.topics, "t": 7}
    story.round(stable=False)
    del story.held["d"]

    assert check(story.round().history).skipped["T3"] == {"membership changed without a scenario action": 1}


def answered(after_ms: float) -> Story:
    """`t` grows twice, and `w` once; the brokers answer the second growth of `t` 100 ms after it.

    What they answer before that is to the others. `t` is assigned so long after the second answer.
    """
    story = aged()
    rest = story.events.pop()
    grows = {"change": "add_partitions", "target": "t"}
    story.topics = {**story.topics, "t": 5}
    story.tell("admin_change", **grows, topics={"t": 5})
    story.tell("admin_changed", **grows, topics={"t": 5})
    story.tell("admin_change", change="create_topic", target="w", topics={"w": 1})
    story.round(stable=False)
    story.tell("step", **{**rest.data, "generation": 2, "topics": {**story.topics, "w": 1}})
    story.tell("admin_change", **grows, topics={"t": 7})
    story.tell("admin_changed", change="create_topic", target="w", topics={"w": 1})
    made = story.wait(100).tell("admin_changed", **grows, topics={"t": 7})
    story.topics = {**story.topics, "t": 7}
    trial = copy.deepcopy(story).round()
    committed = [e for e in trial.events if e.kind == "generation_committed"][-1]
    return story.wait(after_ms - (committed.mono_ns - made.mono_ns) / MS).round()


@pytest.mark.parametrize(("after_ms", "broken"), [(AGE_MS + NOTICED_MS, False), (AGE_MS + NOTICED_MS + 1, True)])
def test_time_runs_from_the_answer_to_that_change(after_ms: float, broken: bool) -> None:
    assert ("T3" in laws(answered(after_ms))) is broken


def test_the_answer_to_a_later_change_is_none_to_this_one() -> None:
    """`t` grows, the brokers answer at once, and it is assigned late; then it grows once more."""
    story = changed("add_partitions", "t", 5, after_ms=AGE_MS + NOTICED_MS + 1)
    grows = {"change": "add_partitions", "target": "t"}
    begun = next(e for e in story.events if e.kind == "admin_change")
    at_ns(story, story.tell("admin_changed", **grows, topics={"t": 5}), begun.mono_ns)
    story.topics = {**story.topics, "t": 7}
    for kind in ("admin_change", "admin_changed"):
        story.tell(kind, **grows, topics={"t": 7})

    assert "T3" in laws(story.round())


@pytest.mark.parametrize(("missed_after_ms", "times"), [(SOON_MS - 1, 0), (SOON_MS, 1)])
def test_an_excuse_for_an_early_eviction_is_for_no_other(missed_after_ms: float, times: int) -> None:
    """An earlier fault of the member, or that it had been told to end before."""
    excused = (
        shifted.killed_after_a_fault(SESSION_MS / 2, missed_after_ms=missed_after_ms),
        shifted.killed_as_it_left(missed_after_ms, 50),
    )
    for story in excused:
        verdict = check(story.history)
        assert (verdict.checked["T1"], verdict.violations) == (times, ())


def test_a_fault_that_ends_as_its_member_is_killed_may_have_cost_it_heartbeats() -> None:
    story = shifted.killed_after_a_fault(SESSION_MS / 2)
    ended = next(e for e in story.events if e.kind == "fault_end")
    killed = next(e for e in story.events if e.kind == "fault_begin" and e.data["fault"] == "kill")

    assert laws(at_ns(story, ended, killed.mono_ns)) == set()


def test_a_member_that_does_not_tell_its_poll_interval_is_not_judged_by_it() -> None:
    story = shifted.untold(shifted.stalled(3000), "max_poll_interval_ms")

    reason = "the history does not have a member's max_poll_interval_ms and heartbeat interval"
    assert check(story.history).skipped["T2"] == {reason: 1}


def changes_of(story: Story) -> list[Transition]:
    return list(transitions(RunRecord.of(story.history).groups["g"]))


def test_what_happens_as_a_group_is_seen_at_rest_belongs_to_what_was_before() -> None:
    story = told.two()
    rest = story.events[-1]
    started = story.start("c").events[-1]
    at_ns(story, started, rest.mono_ns)
    first, second = changes_of(story.round())

    assert [event.kind for event in first.triggers] == ["start", "start", "start"]
    assert second.triggers == ()


def test_a_first_rest_has_all_generations_before_it() -> None:
    story = Story("range").start("a", "b").round(stable=False).round()

    (change,) = changes_of(story)

    assert [generation.number for generation in change.generations] == [1, 2]


@pytest.mark.parametrize(("after_ns", "there"), [(0, False), (1, True)])
def test_a_request_follows_the_generation_that_was_at_rest(after_ns: int, there: bool) -> None:
    story = told.two()
    committed = next(e for e in story.events if e.kind == "generation_committed")
    request = story.tell("rebalance_request", "member", "b", why="1.75 of the bound")
    story.events[-1] = replace(request, mono_ns=committed.mono_ns + after_ns)

    *_, last = changes_of(story.round())

    assert bool(last.requests) is there


def test_a_rest_without_partition_counts_shows_no_leaders_metadata_to_be_whole() -> None:
    story = told.two().start("c").round().change("step", lambda data: data.pop("topics"))

    outdated = "a leader's metadata were outdated, or the history does not have them"
    assert check(story.history).skipped["R5"] == {outdated: 1}


def silent(missed_after_ms: float, *, again: str | None) -> Story:
    """b is paused for half a session, goes on, and is paused once more for good, or killed, or neither.

    It is missed so long after the last of these. Before, a was paused for a moment.
    """
    story = told.two()
    rest = story.events.pop()
    for edge in ("begin", "end"):
        story.tell(f"fault_{edge}", member="a", fault="pause", target="a")
    story.tell("step", **rest.data)
    begun = story.tell("fault_begin", member="b", fault="pause", target="b")
    told.since(story, begun, SESSION_MS / 2).tell("fault_end", member="b", fault="pause", target="b")
    if again is not None:
        begun = story.tell("fault_begin", member="b", fault=again, target="b")
    if again == "kill":
        story.tell("exit", member="b", code=-9, signal="SIGKILL")
        story.tell("fault_end", member="b", fault="kill", target="b")
    del story.held["b"]
    return shifted.missed(begun.mono_ns, story, missed_after_ms)


@pytest.mark.parametrize("again", ["pause", "kill", None])
def test_a_member_is_silent_since_what_happened_to_it_last_unless_it_went_on_from_that(again: str | None) -> None:
    bound_ms = SESSION_MS + HEARTBEAT_MS + LATE_MS

    assert laws(silent(bound_ms, again=again)) == set()
    late = [v for v in check(silent(bound_ms + 1, again=again).history).violations if v.law == "T1"]
    assert [v.message.split(", not ")[0] for v in late] == [
        f"the group removed b {bound_ms + 1} ms after its {again or 'pause'}"
    ]


def test_what_happens_to_a_member_as_it_is_removed_comes_too_late() -> None:
    story = silent(SESSION_MS + HEARTBEAT_MS + LATE_MS + 1, again=None)
    removed = [e for e in story.events if e.kind == "generation_committed"][-1]
    at_ns(story, story.tell("fault_begin", member="b", fault="pause", target="b"), removed.mono_ns)

    assert "T1" in laws(story)
