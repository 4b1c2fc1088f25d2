"""While a group waits for a join, its members may be busy: O4 does not count that, and T1 judges nothing by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_assignors.history.zombies import ZOMBIE_MS
from kafka_assignors.integration.checker import check, planned
from kafka_assignors.integration.checker.busy import Busy
from tests.support.histories import handovers
from tests.support.histories.handovers import joined, last
from tests.support.histories.stories import missed_while_working, of_a_service
from tests.support.histories.story import MS, SESSION_MS, Story


def told(*kinds: str) -> Story:
    """These kinds of events of a member, each a second after the one before."""
    story = Story()
    for kind in kinds:
        story.wait(999).tell(kind, "member", "a", offsets=[])
    return story


@pytest.mark.parametrize(
    ("kinds", "surely_s", "perhaps_s"),
    [
        (("consume", "commit_begin", "commit_ok"), 2, 1),
        (("consume", "commit_begin", "commit_fail"), 2, 1),
        (("consume", "commit_ok", "commit_begin"), 0, 2),
        (("consume", "commit_fail", "commit_ok", "consume"), 0, 3),
        (("commit_ok", "consume", "revoke_begin", "revoke_end"), 1, 1),
        (("consume", "consume", "consume", "consume"), 0, 1),
        (("assign_begin", "assign_end", "assigned_begin", "assigned_end", "lost_begin", "lost_end"), 3, 0),
        (("generation", "consume"), 0, 0),
        (("sent", "commit_ok", "generation"), 0, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("service", [True, False])
def test_how_long_a_member_could_not_join(
    kinds: tuple[str, ...], surely_s: float, perhaps_s: float, service: bool
) -> None:
    story = told(*kinds)
    busy = Busy((of_a_service(story) if service else story).events)
    until_ns = story.events[-1].mono_ns

    by_itself = 1000 * (service and kinds[:2] == ("consume", "commit_begin"))  # a client may commit as it waits
    assert busy.surely_ms(0, until_ns) == surely_s * 1000 - by_itself
    assert busy.perhaps_ms(0, until_ns) == (perhaps_s * 1000 if service else 0)


@pytest.mark.parametrize(("after_ms", "perhaps_ms"), [(250, 0), (251, 251)])
def test_a_service_that_reads_on_soon_polls(after_ms: float, perhaps_ms: float) -> None:
    story = of_a_service(told("consume").wait(after_ms - 1))
    story.tell("consume", "member", "a", offsets=[])

    assert Busy(story.events).perhaps_ms(0, 10**12) == perhaps_ms


def test_time_that_two_members_were_busy_counts_once() -> None:
    story = told("consume", "commit_begin")
    for at_s, kind in ((1.5, "consume"), (2.5, "commit_begin")):
        event = story.tell(kind, "member", "b", offsets=[])
        story.shift(kind, at_s * 1000 - event.mono_ns / MS)
    busy = Busy(story.events)

    assert busy.surely_ms(0, 10**12) == 1500
    assert busy.surely_ms(1200 * MS, 2200 * MS) == 1000


def working(ms: float, *, service: bool, works_ms: float) -> Story:
    """A group hands a partition over in so long, in which b worked on a record that it was handed out."""
    story = joined(ms)
    at = last(story, "revoke_end").mono_ns / MS + 1
    rows = [{"topic": "t", "partition": 2, "first": 0, "last": 0, "count": 1, "bytes": 1}]
    read = story.tell("consume", "member", "b", offsets=rows)
    story.shift("consume", at - read.mono_ns / MS)
    other = story.tell("error", "member", "b", error="Slow", message="went on", fatal=False)
    story.shift("error", at + works_ms - other.mono_ns / MS)
    story.events.sort(key=lambda e: e.mono_ns)
    return of_a_service(story) if service else story


@pytest.mark.parametrize(
    ("service", "works_ms", "judged"), [(True, 1501, None), (True, 1490, False), (False, 1501, False)]
)
def test_a_hand_over_while_a_process_of_a_service_may_work_is_not_judged(
    service: bool, works_ms: float, judged: bool | None
) -> None:
    verdict = check(working(planned.HANDOVER_MS + 1500, service=service, works_ms=works_ms).history)

    assert ("O4" in {violation.law for violation in verdict.violations}) is (judged is False)
    assert any(why.endswith(planned.WORKING) for why in verdict.skipped.get("O4", ())) is (judged is None)


@pytest.mark.parametrize(("service", "judged"), [(True, None), (False, False)])
def test_a_dead_member_that_is_missed_while_another_may_work_is_not_judged(service: bool, judged: bool | None) -> None:
    verdict = check(missed_while_working(service).history)

    assert ("T1" in {violation.law for violation in verdict.violations}) is (judged is False)
    assert (planned.WORKING in verdict.skipped.get("T1", ())) is (judged is None)


def test_a_join_waits_for_any_static_member_that_has_ended() -> None:
    """It has left the group to nobody's knowledge: another member's partitions, too, wait until its session ends."""
    story = Story("range", {"t": 4}).start("a").start("b", static=True).round().wait(10_000)
    story.start("c").stop("b").round()
    late = handovers.owned_again(story, last(story, "revoke_end", nth=-3), SESSION_MS)

    assert {violation.law for violation in check(late.history).violations} == set()
    assert any(why.endswith(planned.STATIC) for why in check(late.history).skipped["O4"])


@pytest.mark.parametrize(
    ("service", "works_ms", "after_ms", "laws"),
    [(True, 6000, 5000, set()), (True, 6000, 5001, {"O1"}), (True, 5000, 5001, {"O1"}), (False, 6000, 5000, {"O1"})],
)
def test_a_process_of_a_service_hears_of_its_loss_once_it_polls_again(
    service: bool, works_ms: float, after_ms: float, laws: set[str]
) -> None:
    """A paused process was evicted; as it goes on, it works so long on what it had been handed out before it polls."""
    story = Story("range", {"t": 2}).start("a", "b").round().records(4).pause("a").round()
    tp = min(story._zombies["a"])
    end_ns = story._now + MS
    notice_ms = works_ms + after_ms if works_ms > ZOMBIE_MS else ZOMBIE_MS + after_ms - works_ms
    story.resume("a", notice_ms=notice_ms - 1)
    rows = [{"topic": tp.topic, "partition": tp.partition, "first": 0, "last": 0, "count": 1, "bytes": 1}]
    for at_ms, kind in ((1, "consume"), (works_ms, "commit_begin")):
        told = story.tell(kind, "member", "a", offsets=rows if kind == "consume" else [])
        story.shift(kind, (end_ns - told.mono_ns) / MS + at_ms)
    story.events.sort(key=lambda e: e.mono_ns)
    broken = {v.law for v in check((of_a_service(story) if service else story).history).violations}

    assert broken & {"O1"} == laws


@pytest.mark.parametrize("count", [1, 8])
def test_no_join_waits_for_more_than_one_silence_of_a_service(count: int) -> None:
    """In each, b may have worked; as it went on to read, it polled."""
    story = joined(planned.HANDOVER_MS + 1000)
    at = last(story, "revoke_end").mono_ns / MS + 1
    rows = [{"topic": "t", "partition": 2, "first": 0, "last": 0, "count": 1, "bytes": 1}]
    for number in range(count + 1):
        event = story.tell("consume", "member", "b", offsets=rows)
        story.shift("consume", at + 300 * number - event.mono_ns / MS)
    end = story.tell("error", "member", "b", error="Slow", message="went on", fatal=False)
    story.shift("error", at + 300 * count + 1 - end.mono_ns / MS)
    story.events.sort(key=lambda e: e.mono_ns)

    assert "O4" in {violation.law for violation in check(of_a_service(story).history).violations}


def missed(limit_ms: int, *, beside_work: bool = True, service: bool = True, later_ms: float = 4000) -> Story:
    """b is killed in a step that allows so much; a works for five seconds on what it has, and joins later."""
    story = Story("range", {"t": 2}).start("a", "b").round().records(4).wait(1000)
    story.tell("step", name="b is killed", gap_ms=limit_ms, **({"beside_work": True} if beside_work else {}))
    story.kill("b").consume("a", commit=False).wait(5000)
    story.tell("error", "member", "a", error="Slow", message="went on", fatal=False)
    story.wait(later_ms).round()
    return of_a_service(story) if service else story


def figures(story: Story) -> tuple[float, float]:
    """How long b's partition had no owner, and what a may have worked of that, ms."""
    longest = max(check(story.history).intervals, key=lambda interval: interval.gap_before_ms or 0)
    gap_ms = longest.gap_before_ms or 0
    busy = Busy(e for e in story.events if e.src == "member")
    return gap_ms, busy.may_delay_ms(longest.start_ns - round(gap_ms * MS), longest.start_ns, 1)


@pytest.mark.parametrize(
    ("over_ms", "beside_work", "service", "judged"),
    [
        (0, True, True, None),  # as much as it may have worked
        (1, True, True, False),
        (0, False, True, False),  # the limit is one that the user asked for
        (0, True, False, False),
    ],
)
def test_a_step_s_own_limit_leaves_out_what_a_service_may_have_worked(
    over_ms: int, beside_work: bool, service: bool, judged: bool | None
) -> None:
    gap_ms, worked_ms = figures(missed(1))
    assert 0 < worked_ms < gap_ms

    verdict = check(missed(int(gap_ms - worked_ms) - over_ms, beside_work=beside_work, service=service).history)

    assert ("O4" in {violation.law for violation in verdict.violations}) is (judged is False)
    assert (planned.WORKING in verdict.skipped.get("O4", ())) is (judged is None)


def test_a_step_that_allows_enough_is_judged_whatever_a_service_does() -> None:
    gap_ms, _ = figures(missed(1))
    verdict = check(missed(int(gap_ms) + 1).history)

    assert verdict.checked["O4"] == 2
    assert planned.WORKING not in verdict.skipped.get("O4", ())


@pytest.mark.parametrize(("takes_ms", "works_ms", "broken"), [(1400, 400, False), (3000, 400, True)])
def test_a_planned_change_has_its_own_limit_too(takes_ms: float, works_ms: float, broken: bool) -> None:
    """A step's limit leaves out what b may have worked; what members need to hear of a rebalance does not."""
    story = working(takes_ms, service=False, works_ms=works_ms)
    step = story.tell("step", name="c joins", gap_ms=int(takes_ms - works_ms / 2), beside_work=True)
    story.shift("step", last(story, "revoke_begin").mono_ns / MS - 1 - step.mono_ns / MS, name="c joins")
    story.events.sort(key=lambda e: e.mono_ns)

    verdict = check(of_a_service(story).history)

    assert verdict.skipped["O4"][planned.WORKING] == 1
    assert verdict.checked["O4"] == 1
    messages = [violation.message for violation in verdict.violations if violation.law == "O4"]
    assert [message.partition("this planned change allows")[1] != "" for message in messages] == [True] * broken


@pytest.mark.parametrize(("joins", "over_ms", "judged"), [(2, 0, None), (2, 1, False), (1, 0, False)])
def test_each_join_in_a_gap_may_have_waited_for_a_service(joins: int, over_ms: int, judged: bool | None) -> None:
    """A generation in between leaves b's partition out, as a cooperative one does that waits for a withdrawal."""

    def in_two(limit_ms: int) -> Story:
        story = missed(limit_ms, later_ms=12_000)
        last_one = next(e for e in reversed(story.events) if e.kind == "generation_committed")
        if joins == 2:
            story.events.append(replace(last_one, mono_ns=last_one.mono_ns - 1000 * MS))
            story.events.sort(key=lambda e: e.mono_ns)
        return story

    gap_ms, worked_ms = figures(in_two(1))
    silence_ms = 5001
    assert silence_ms <= worked_ms < silence_ms + 10  # the rest are callbacks

    verdict = check(in_two(int(gap_ms - worked_ms - silence_ms) - over_ms).history)

    assert ("O4" in {violation.law for violation in verdict.violations}) is (judged is False)
    assert (planned.WORKING in verdict.skipped.get("O4", ())) is (judged is None)
