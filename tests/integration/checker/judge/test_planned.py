"""O4 in planned changes: how long a partition may be alone, for members that ask early and for others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from kafka_assignors.integration.checker import Verdict, check, planned
from tests.support.histories import handovers
from tests.support.histories.handovers import ALL, DEFAULT_BEAT_MS, beating, joined, last, rested
from tests.support.histories.migrated import migration
from tests.support.histories.reconciled import HEARTBEAT_MS, Reconciled
from tests.support.histories.story import Story

HANDOVER_MS, LATE_MS = 1500, 3000
BEAT_MS = 1000
"""A heartbeat with which the bounds of members that wait for it are below those of law O3."""
HOURS = 3_600_000
UNLIMITED = "no step limits the time without an owner (gap_ms), and "


def judged(story: Story | Reconciled) -> Verdict:
    verdict = check(story.history)
    assert verdict.checked["O4"], verdict.skipped
    assert {violation.law for violation in verdict.violations} <= {"O4"}
    return verdict


def whys(story: Story | Reconciled) -> set[str]:
    """Why no time of a history has a limit."""
    verdict = check(story.history)
    assert not verdict.checked["O4"]
    assert not [each for each in verdict.violations if each.law == "O4"]
    return {why.removeprefix(UNLIMITED) for why in verdict.skipped["O4"]}


def test_a_group_that_asks_early_hands_over_well_within_a_heartbeat() -> None:
    assert judged(joined(40)).value is True
    broken = judged(joined(DEFAULT_BEAT_MS - 100)).violations

    assert [each.law for each in broken] == ["O4"]
    assert broken[0].message.startswith("no member owned t-1 for 2900 ms, from the end of a's ownership to the end of")
    assert broken[0].message.endswith("all members ask early whether the group rebalances again")
    assert [witness.kind for witness in broken[0].witnesses] == ["revoke_end", "assigned_begin"]


@pytest.mark.parametrize("late", ALL)
def test_one_member_without_early_heartbeats_may_hear_of_it_at_its_next_one(late: str) -> None:
    others = [name for name in ALL if name != late]

    assert judged(joined(BEAT_MS + LATE_MS, others, BEAT_MS)).value is True
    assert judged(joined(BEAT_MS + LATE_MS + 1, others, BEAT_MS)).value is False


def test_an_eager_group_waits_for_its_slowest_heartbeat() -> None:
    """Early heartbeats follow an adoption, and here nobody has adopted anything for long."""
    assert judged(handovers.eager(BEAT_MS + LATE_MS, BEAT_MS)).value is True
    assert judged(handovers.eager(BEAT_MS + LATE_MS + 1, BEAT_MS)).value is False


def test_who_leaves_is_missed_as_soon_as_t1_says() -> None:
    bound_ms = 2 * BEAT_MS + LATE_MS

    assert judged(handovers.left(bound_ms, BEAT_MS)).value is True
    assert {each.law for each in check(handovers.left(bound_ms + 2, BEAT_MS).history).violations} == {"O4", "T1"}


def test_a_slow_callback_is_time_that_the_others_do_not_lose() -> None:
    """a's callback takes 2 s before it gives the partition up: the early heartbeats are over, the usual ones go on."""
    slow = handovers.joined_after_a_slow_callback

    assert judged(slow(BEAT_MS + HANDOVER_MS, 2000, BEAT_MS)).value is True
    assert judged(slow(BEAT_MS + HANDOVER_MS + 1, 2000, BEAT_MS)).value is False


def test_of_several_that_give_partitions_up_the_last_one_counts() -> None:
    """a gives one up at once, and b in a callback of 2 s: by then the early heartbeats of both are over."""

    def slow(ms: float) -> Story:
        story = Story("cooperative-sticky", {"t": 6}).start("a", "b").round().wait(10_000).start("c").round()
        assert [e.member for e in story.events if e.kind == "revoke_end"] == ["a", "b"]
        story = handovers.stretched(beating(story, ALL, BEAT_MS), last(story, "revoke_end"), 2000)
        return handovers.owned_again(story, last(story, "revoke_end"), ms)

    apart_ms = 10  # more than the few ms between a's callback and b's
    assert judged(slow(BEAT_MS + HANDOVER_MS - apart_ms)).value is True
    assert judged(slow(BEAT_MS + HANDOVER_MS + 1)).value is False


@pytest.mark.parametrize(("begins", "ends"), [("revoke", "revoke"), ("assigned", "assigned"), ("lost", "lost")])
def test_callbacks_of_others_do_not_count(begins: str, ends: str) -> None:
    """b runs a callback for two seconds while a's partition has no owner."""

    def told(callback_ms: float) -> Story:
        story = joined(callback_ms + 500)
        gone = last(story, "revoke_end")
        at = gone.mono_ns // 1_000_000 + 100
        for kind, ms in ((f"{begins}_begin", at), (f"{ends}_end", at + callback_ms)):
            event = story.tell(kind, "member", "b", generation=2, partitions=[])
            story.shift(kind, ms - event.mono_ns / 1_000_000)
        story.events.sort(key=lambda e: e.mono_ns)
        return story

    assert judged(told(2000)).value is True


def test_work_on_records_and_commits_do_not_count() -> None:
    def told(*kinds: str) -> Story:
        story = joined(3000)
        at = last(story, "revoke_end").mono_ns // 1_000_000 + 100
        for number, kind in enumerate(kinds):
            failed = {"error": "KafkaTimeoutError"} if kind == "commit_fail" else {}
            event = story.tell(kind, "member", "b", offsets=[], **failed)
            story.shift(kind, at + 1000 * number - event.mono_ns / 1_000_000)
        story.events.sort(key=lambda e: e.mono_ns)
        return story

    assert judged(told("consume", "commit_begin", "commit_ok")).value is True
    assert judged(told("consume", "commit_begin", "commit_fail")).value is True
    assert judged(told("commit_ok", "consume", "consume")).value is False


def test_a_second_generation_takes_as_long_again() -> None:
    """What some member never adopted is repeated: each generation may take a heartbeat."""

    def told(ms: float, early: Collection[str], beat_ms: int = 500) -> Story:
        story = rested().start("c").round(stable=False)
        for name in ("a", "b", "c"):
            story._claims[name] = story.held[name], story.generation
        story = beating(story, early, beat_ms)
        given = [e for e in story.events if e.kind == "assigned_begin" and e.member == "c"][-1]
        # c misses the generation that gives it the partition, and the next one gives it again.
        story.events = [e for e in story.events if not (e.member == "c" and e.mono_ns >= given.mono_ns - 2_000_000
                                                        and e.kind != "start")]  # fmt: skip
        story.held["c"] = set()
        story._claims["c"] = set(), -1
        story.round()
        return handovers.owned_again(story, last(story, "revoke_end"), ms)

    assert judged(told(2 * 500 + LATE_MS, ())).value is True
    assert judged(told(2 * 500 + LATE_MS + 10, ())).value is False
    assert judged(told(HANDOVER_MS + 10, ALL)).value is False


def test_a_kip_848_group_may_wait_for_a_heartbeat_and_the_broker() -> None:
    bound_ms = HEARTBEAT_MS + planned.ASSIGNMENT_INTERVAL_MS + LATE_MS

    assert judged(handovers.reconciled(bound_ms)).value is True
    assert judged(handovers.reconciled(bound_ms + 1)).value is False


def hit(fault: str, *, before: bool) -> Story:
    """A fault of b is in force as c joins, or began and ended meanwhile."""
    story = rested().start("c")
    if before:
        story = Story("cooperative-sticky", {"t": 3}).start("a", "b")
        story.tell("fault_begin", member="b", fault=fault, target="b")
        story.round().start("c")
    else:
        story.tell("fault_begin", member="b", fault=fault, target="b")
        story.tell("fault_end", member="b", fault=fault, target="b")
    return joined(HOURS, story=story)


def unasked() -> Story:
    """As c joins, b is missing from one generation, and nobody asked for that."""
    story = rested().start("c")
    del story.held["b"]
    story.round(stable=False)
    story.held["b"] = set()
    story._claims.pop("b")
    return story.round()


def static() -> Story:
    story = Story("cooperative-sticky", {"t": 3}).start("a", "b", static=True).round().wait(10_000)
    return beating(story.stop("b").wait(HOURS).round(), ALL)


def lost() -> Story:
    """c joins, and a is told that it lost the partition that it should have given up."""
    story = joined(HOURS)
    for edge in ("begin", "end"):
        told = last(story, f"revoke_{edge}")
        story.events[story.events.index(told)] = replace(told, kind=f"lost_{edge}")
    return story


def alone() -> Story:
    """The only member leaves, and another comes an hour later."""
    story = Story("cooperative-sticky", {"t": 3}).start("a").round().wait(10_000).stop("a")
    return beating(story.wait(HOURS).start("b").round(), ALL)


def unsubscribed() -> Story:
    story = rested().start("c")
    story.tell("admin_change", change="subscribe", target="a", subscription={"topics": ["t"]}, topics=story.topics)
    return joined(HOURS, story=story)


UNLIMITED_ONES: dict[str, Callable[[], Story | Reconciled]] = {
    planned.FAULT: lambda: hit("pause", before=False),
    planned.UNPLANNED: unsubscribed,
    planned.UNASKED: unasked,
    planned.UNEXPLAINED: lambda: rested("range").round(),
    planned.STATIC: static,
    planned.LOST: lost,
    planned.ALONE: alone,
    planned.UNTOLD: lambda: beating(joined(HOURS), ALL, None),
    planned.UNSTABLE: lambda: joined(HOURS, story=Story("cooperative-sticky", {"t": 3}).start("a", "b").round(False)),
}


@pytest.mark.parametrize("rests", [(False, True), (True, False), (False, False)])
def test_what_no_rest_precedes_or_follows_has_no_limit(rests: tuple[bool, bool]) -> None:
    """An eager group makes two generations, and was seen at rest in the second alone, in the first alone, or never."""
    story = Story("range", {"t": 3}).start("a", "b")
    for rest in rests:
        story.round(stable=rest)

    assert whys(story) == {planned.UNSTABLE}


def test_a_time_is_compared_to_the_nanosecond() -> None:
    bound_ms = handovers.GIVEN_UP_MS + HANDOVER_MS

    assert judged(joined(bound_ms)).value is True
    assert judged(joined(bound_ms + 1e-6)).value is False


def test_an_eager_group_waits_for_a_heartbeat_however_soon_it_rebalances_again() -> None:
    """c joins as a and b have just adopted their first generation; all of them ask early."""
    others_ms = 2  # the callbacks of b and c

    def soon(ms: float) -> Story:
        story = beating(Story("range", {"t": 3}).start("a", "b").round().start("c").round(), ALL, BEAT_MS)
        return handovers.owned_again(story, last(story, "revoke_end", nth=-3), ms + others_ms)

    assert judged(soon(BEAT_MS + LATE_MS)).value is True
    assert judged(soon(BEAT_MS + LATE_MS + 1)).value is False


@pytest.mark.parametrize("ends", ["stop", "exit"])
def test_who_leaves_without_a_callback_is_missed_as_soon_as_t1_says(ends: str) -> None:
    def left(ms: float) -> Story:
        story = beating(rested().stop("b").round(), ALL, BEAT_MS)
        for edge in ("begin", "end"):
            story.drop(f"revoke_{edge}", member="b")
        if ends == "exit":
            story.drop("stop")
        return handovers.owned_again(story, last(story, ends), ms - handovers.ASSIGN_MS)

    bound_ms = 2 * BEAT_MS + LATE_MS
    assert "O4" not in {v.law for v in check(left(bound_ms).history).violations}
    assert check(left(bound_ms).history).checked["O4"]
    assert "O4" in {v.law for v in check(left(bound_ms + 2).history).violations}


def test_early_heartbeats_make_a_broker_no_faster() -> None:
    """Members of a KIP-848 group, which say that they ask early."""
    bound_ms = HEARTBEAT_MS + planned.ASSIGNMENT_INTERVAL_MS + LATE_MS

    def asking(ms: float) -> Reconciled:
        story = handovers.reconciled(ms)
        for event in story.events:
            if event.kind == "start":
                event.data["config"]["early_heartbeats"] = True
        return story

    assert judged(asking(bound_ms)).value is True
    assert judged(asking(bound_ms + 1)).value is False


@pytest.mark.parametrize("generation", [0, 99])
def test_who_gives_up_in_a_generation_of_which_nothing_is_known_did_not_give_up_for_one(generation: int) -> None:
    """It gives up all as it joins again, and nothing is granted less."""
    story = joined(BEAT_MS + LATE_MS, ALL, BEAT_MS)
    for edge in ("begin", "end"):
        story.change(f"revoke_{edge}", lambda data: data.update(generation=generation))

    assert "O4" not in {v.law for v in check(story.history).violations}
    assert check(story.history).checked["O4"]


def test_who_gives_up_in_a_generation_that_it_is_not_in_did_not_give_up_for_it() -> None:
    story = joined(BEAT_MS + LATE_MS, ALL, BEAT_MS)
    gone = last(story, "revoke_end")
    story.events[story.events.index(gone)] = replace(gone, member_id="another")

    assert "O4" not in {v.law for v in check(story.history).violations}
    assert check(story.history).checked["O4"]


def test_of_a_generation_that_nobody_adopted_no_time_has_passed_since_its_adoption() -> None:
    """c's first generation, which takes a partition from a, is adopted by nobody, and the next one by all."""

    def unadopted(ms: float) -> Story:
        story = beating(rested().start("c").round(), ALL, DEFAULT_BEAT_MS)
        second = {e.seq for e in story.events if e.kind == "generation" and e.data["generation"] == 2}
        assert second
        story.events = [e for e in story.events if not (e.kind == "generation" and e.data["generation"] == 2)]
        return handovers.owned_again(story, last(story, "revoke_end"), ms)

    assert "O4" not in {v.law for v in check(unadopted(HANDOVER_MS).history).violations}
    assert "O4" in {v.law for v in check(unadopted(HANDOVER_MS + 1).history).violations}


def test_who_left_is_not_in_the_next_generation_whatever_its_last_callback_says() -> None:
    """The only member leaves, and says that it gave up in a generation before its first."""
    story = alone()
    for edge in ("begin", "end"):
        story.change(f"revoke_{edge}", lambda data: data.update(generation=0))

    assert whys(story) == {planned.ALONE}


def test_a_fault_that_begins_later_is_none_of_this_change() -> None:
    story = joined(DEFAULT_BEAT_MS - 100)
    story.tell("fault_begin", member="b", fault="cut", target="b")

    assert judged(story).value is False


def test_a_fault_that_ends_as_the_group_is_at_rest_is_none_of_later_changes() -> None:
    story = Story("cooperative-sticky", {"t": 3}).start("a", "b")
    story.tell("fault_begin", member="b", fault="cut", target="b")
    ended = story.tell("fault_end", member="b", fault="cut", target="b")
    rest_ns = story.round()._now
    story.events[story.events.index(ended)] = replace(ended, mono_ns=rest_ns, ts_ns=rest_ns)

    assert judged(joined(DEFAULT_BEAT_MS - 100, story=story.wait(10_000))).value is False


def test_a_generation_that_is_committed_as_an_owner_ends_is_none_that_its_partition_waits_for() -> None:
    """aa joins; as that generation is committed, b ends without a word, and the next one gives aa what b had."""

    def ended(ms: float) -> Story:
        story = rested("range").start("aa").round(stable=False)
        for kind in ("revoke_begin", "revoke_end", "assigned_begin", "assigned_end"):
            story.drop(kind, member="b")
        story.drop("generation", member="b")
        second = last(story, "generation_committed")
        end = story.tell("exit", member="b", code=0)
        story.events[-1] = replace(end, mono_ns=second.mono_ns, ts_ns=second.ts_ns)
        del story.held["b"]
        return handovers.owned_again(beating(story.round(), (), BEAT_MS), second, ms)

    def waits(ms: float) -> list[str]:
        messages = [v.message for v in check(ended(ms).history).violations if v.law == "O4"]
        return [message for message in messages if "from the end of b's ownership" in message]

    busy_ms = 20  # the callbacks and the leader's time, which are not counted
    assert waits(2 * BEAT_MS + LATE_MS) == []
    assert len(waits(2 * BEAT_MS + LATE_MS + busy_ms)) == 1


def test_generations_behind_the_one_that_gave_a_partition_are_none_that_it_waited_for() -> None:
    """c joins and gets what a gave up; before the group is at rest it makes one more generation."""
    story = rested().start("c").round(stable=False)
    gone = last(story, "revoke_end")
    given = last(story, "assign_begin")
    story = beating(story.round(), (), BEAT_MS)
    took_ms = (last(story, "generation_committed", nth=-2).mono_ns - gone.mono_ns) / handovers.MS - handovers.ASSIGN_MS
    late = handovers.stretched(story, given, BEAT_MS + LATE_MS + 1 - took_ms)

    assert "O4" in {v.law for v in check(late.history).violations}


def test_who_says_that_it_got_a_partition_in_an_older_generation_waited_for_none() -> None:
    """The only member leaves; the next one says that it got its partitions in a generation before the first."""
    story = alone()
    for edge in ("begin", "end"):
        story.change(f"assigned_{edge}", lambda data: data.update(generation=0))

    verdict = check(story.history)

    assert verdict.checked["O4"]
    assert "O4" not in verdict.skipped


def test_what_the_harness_writes_of_a_member_does_not_end_its_work() -> None:
    """b consumes records for two seconds, and commits; meanwhile the harness tells something of it."""
    story = joined(3000)
    at = last(story, "revoke_end").mono_ns // 1_000_000 + 100
    told: dict[str, object] = {"error": "OSError", "fatal": False, "message": "seen from outside"}
    none: dict[str, object] = {"offsets": []}
    rows = (("consume", "member", 0, none), ("error", "harness", 1000, told),
            ("commit_begin", "member", 2000, none), ("commit_ok", "member", 2000, none))  # fmt: skip
    for kind, src, after_ms, data in rows:
        event = story.tell(kind, src, "b", **data)
        story.shift(kind, at + after_ms - event.mono_ns / 1_000_000)
    story.events.sort(key=lambda e: e.mono_ns)

    assert judged(story).value is True


def test_one_that_was_killed_before_the_group_was_at_rest_is_no_fault_in_force() -> None:
    story = Story("cooperative-sticky", {"t": 3}).start("a", "b", "d").round().kill("d").round()
    story.drop("fault_end").wait(10_000)

    assert planned.FAULT not in check(joined(DEFAULT_BEAT_MS - 100, story=story).history).skipped.get("O4", {})
    assert "O4" in {v.law for v in check(joined(DEFAULT_BEAT_MS - 100, story=story).history).violations}


def test_one_that_joins_and_is_missing_again_has_not_ended() -> None:
    """c is in the first of three generations that follow its start, and in the last."""
    story = rested().start("c").round(stable=False)
    del story.held["c"]
    story.round(stable=False)
    story.held["c"] = set()
    story._claims.pop("c")

    assert planned.UNASKED in whys(story.round())


@pytest.mark.parametrize(("after_ns", "why"), [(0, planned.UNEXPLAINED), (1, planned.UNSTABLE)])
def test_a_partition_that_was_nobodys_at_rest_has_no_limit(after_ns: int, why: str) -> None:
    """The group is seen at rest once more, so long after its last member has given all up to join again."""
    story = rested("range")
    rest = last(story, "step")
    story.round()
    gone = last(story, "revoke_end")
    told = story.tell("step", **rest.data)
    story.events[-1] = replace(told, mono_ns=gone.mono_ns + after_ns, ts_ns=gone.ts_ns + after_ns)

    assert why in whys(story)


def test_who_stays_does_not_get_the_time_of_one_that_leaves() -> None:
    """c leaves an eager group, and a gives up what it gets back: it was no leaver's."""

    def left(ms: float) -> Story:
        story = Story("range", {"t": 4}).start("a", "b", "c").round().wait(10_000).stop("c").round()
        b_ms = 1  # b's callback, which is not counted
        return handovers.owned_again(beating(story, ALL, BEAT_MS), last(story, "revoke_end", nth=-2), ms + b_ms)

    assert judged(left(BEAT_MS + LATE_MS)).value is True
    assert judged(left(BEAT_MS + LATE_MS + 1)).value is False


@pytest.mark.parametrize("why", UNLIMITED_ONES)
def test_what_has_no_limit_is_told_with_its_reason(why: str) -> None:
    assert whys(UNLIMITED_ONES[why]()) == {why}


def test_a_group_that_changes_its_protocol_has_no_limit() -> None:
    assert UNLIMITED + planned.PROTOCOL in check(migration().history).skipped["O4"]


@pytest.mark.parametrize("change", ["create_topic", "add_partitions"])
def test_new_partitions_are_a_planned_change(change: str) -> None:
    story = rested().start("c")
    story.tell("admin_change", change=change, target="w", topics={"w": 1})

    assert "O4" in {v.law for v in check(joined(DEFAULT_BEAT_MS - 100, story=story).history).violations}


@pytest.mark.parametrize("change", ["delete_topic", "reset_offsets"])
def test_other_changes_are_not_planned(change: str) -> None:
    story = rested().start("c")
    story.tell("admin_change", change=change, target="w", topics={"w": 0})

    assert whys(joined(HOURS, story=story)) == {planned.UNPLANNED}


def test_every_reason_has_a_history() -> None:
    """`test_busy` has the last one."""
    assert {*UNLIMITED_ONES, planned.PROTOCOL, planned.WORKING} == set(planned.WHYS)


def test_a_fault_that_ended_before_the_group_was_at_rest_is_none_of_later_changes() -> None:
    story = Story("cooperative-sticky", {"t": 3}).start("a", "b")
    for _ in range(2):
        story.tell("fault_begin", member="b", fault="cut", target="b")
        story.tell("fault_end", member="b", fault="cut", target="b")
    story.round().wait(10_000)

    assert judged(joined(DEFAULT_BEAT_MS - 100, story=story)).value is False


def test_a_fault_that_has_not_ended_is_a_fault_of_later_changes() -> None:
    assert whys(hit("pause", before=True)) == {planned.FAULT}
