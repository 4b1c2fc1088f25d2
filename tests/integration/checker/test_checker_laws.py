"""Laws of records, rests and static members: each rejects the run that breaks it, and has nothing to say elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_assignors.history.events import partitions_json
from kafka_assignors.integration.checker import Verdict, check
from kafka_assignors.integration.checker.transitions import most_kept
from tests.support.damage.laws import (
    BROKEN,
    COOPERATIVE,
    EAGER,
    after_leave,
    first_row,
    forgetful,
    paused,
    quiet,
    set_,
    stalled,
    static,
    swapped,
    taken_over,
    twice,
)
from tests.support.histories.story import HEARTBEAT_MS, MS, SESSION_MS, Story


def broken(verdict: Verdict) -> dict[str, str]:
    """law -> what the first violation says."""
    return {violation.law: violation.message for violation in reversed(verdict.violations)}


@pytest.mark.parametrize(("law", "build"), BROKEN.values(), ids=BROKEN)
def test_a_broken_law_is_found_with_its_witnesses(law: str, build: Callable[[], Story]) -> None:
    verdict = check(build().history)

    assert verdict.value is False
    assert law in broken(verdict), broken(verdict)
    for violation in verdict.violations:
        assert violation.witnesses
        assert violation.message


@pytest.mark.parametrize("refused_commit", [True, False])
def test_a_round_too_many_is_told_with_the_commit_that_was_refused_meanwhile(refused_commit: bool) -> None:
    """aiokafka's member joins again then."""
    story = Story().start("a", "b", "c").round().records(7).consume().stop("c").round(stable=False)
    if refused_commit:
        offsets = [{"topic": "t", "partition": 0, "offset": 1}]
        story.tell("commit_begin", "member", "a", offsets=offsets)
        story.tell("commit_fail", "member", "a", offsets=offsets, error="IllegalGenerationError")

    verdict = check(story.round().history)
    message = "one stop took 2 generations, 1 are enough: 2, 3"
    assert broken(verdict)["R5"] == message + ("; meanwhile a commit of a was refused" if refused_commit else "")
    witnesses = [w.kind for violation in verdict.violations if violation.law == "R5" for w in violation.witnesses]
    assert ("commit_fail" in witnesses) is refused_commit


def ended_as_asked() -> Story:
    """b's ``exit`` is all that tells of its end."""
    story = Story("sticky").start("a", "b", "c").round()
    story.tell("exit", member="b", code=1, asked=True)
    del story.held["b"]
    return story.wait(SESSION_MS).round()


def refused() -> Story:
    """The leader saw a partition less; b ends at once, asked to, so that its generation does not stand for long."""
    story = Story(topics={"t": 4}).start("a", "b")
    story.tell("topics", topics={"t": 5})
    story.round(stable=False).tell("exit", member="b", code=1, asked=True)
    del story.held["b"]
    story.topics = {"t": 5}
    return story.wait(6000).round()


LAWFUL: dict[str, tuple[dict[str, bool], Callable[[], Story]]] = {
    "consumed twice in one generation": ({"C1": True, "C2": True, "C4": False}, quiet),
    "left and missed at once": ({"T1": True}, lambda: after_leave(10)),
    "killed and missed in time": ({"T1": True, "R5": True}, lambda: Story().start("a", "b").round().kill("b").round()),
    "a static restart in time": ({"S1": True, "S2": False, "T1": False}, lambda: static().restart("b")),
    "a cooperative static restart": ({"S1": True}, lambda: static(COOPERATIVE).restart("b")),
    "a static restart after its session": ({"S1": False}, lambda: static().restart("b", after_ms=SESSION_MS)),
    "a paused member noticed once it went on": ({"O1": True, "T1": True}, lambda: paused()),
    "a member that didn't poll noticed": ({"O1": True, "T1": False, "T2": True, "R6": True}, stalled),
    "a paused member that never went on": ({"O1": True}, lambda: Story().start("a", "b").round().pause("b").round()),
    "a process ended, as it was asked": ({"R4": True, "R5": True, "O4": True}, ended_as_asked),
    "a generation ends with a process of it": ({"O3": True, "T1": False}, refused),
    "no records": ({"C1": False, "C2": False, "C5": False, "K2": False}, lambda: Story().start("a").round()),
    "two things at once": (
        {"R4": False, "R5": False},
        lambda: Story("sticky").start("a", "b").round().start("c").stop("b").round().round(),
    ),
}


@pytest.mark.parametrize(("judged", "build"), LAWFUL.values(), ids=LAWFUL)
def test_a_lawful_run_is_judged_where_a_law_applies_and_only_there(
    judged: dict[str, bool], build: Callable[[], Story]
) -> None:
    verdict = check(build().history)

    assert verdict.violations == ()
    assert {law: verdict.checked[law] > 0 for law in judged} == judged


def test_a_fenced_member_may_end_the_poll_that_is_under_way() -> None:
    verdict = check(taken_over(HEARTBEAT_MS, "consume").history)

    assert verdict.checked["S2"] == 1
    assert "S2" not in broken(verdict)


def test_an_offset_that_no_record_has_may_be_left_out() -> None:
    """Transactions and compaction leave such gaps: no acknowledged record is in it."""
    story = quiet()
    story.events = [e for e in story.events if e.kind not in ("ack", "read_back")]
    story.change("consume", first_row(first=1), member="a")

    assert "C2" not in broken(check(story.history))


def test_a_start_without_a_commit_follows_the_reset_policy() -> None:
    """Which is the member's own affair; the record it skips is told by C3, once the group is drained."""
    story = Story().start("a").round().records(14).consume()
    story.change("consume", first_row(first=1), member="a")

    assert check(story.history).value is True
    assert "C3" in broken(check(story.drain().history))


@pytest.mark.parametrize(
    ("further", "between", "lawful"), [(0, False, True), (1, False, False), (-1, False, False), (0, True, False)]
)
def test_a_partition_that_comes_back_is_read_on_from_where_its_owner_had_stopped(
    further: int, between: bool, lawful: bool
) -> None:
    """It has read more than it has committed. That is no begin elsewhere, unless somebody else owned it meanwhile."""
    story = Story(topics={"t": 2}).start("a").round().records(8).consume().records(8).consume(commit=False).wait(200)
    stopped = dict(story._position)
    if between:
        story.start("b").round().stop("b")
    story.round()
    story._position.update({place: offset + further for place, offset in stopped.items()})
    verdict = check(story.records(8).consume().history)

    assert verdict.checked["C2"] == 4
    assert ("C2" not in broken(verdict)) == lawful
    if lawful:
        assert verdict.value is True
    else:
        assert "began to consume" in broken(verdict)["C2"]


def test_a_leader_that_saw_less_is_a_reason_for_another_round() -> None:
    story = twice(EAGER)
    story.change("assign_begin", set_(topics={"t": 4}), nth=1)

    assert "R5" not in broken(check(story.history))


def test_a_claim_that_is_not_true_protects_nothing() -> None:
    """The member was told that it lost the partition before the generation was made."""
    story = Story(COOPERATIVE).start("a", "b").round()
    had = partitions_json(story.held["a"])
    story.start("c").round()
    story.change("generation_committed", swapped, 1)
    assert "R2" in broken(check(story.history))
    at = next(e.mono_ns for e in story.events if e.kind == "generation_committed" and e.data["generation"] == 2)
    template = next(e for e in story.events if e.kind == "generation" and e.member == "a")
    data = {"generation": 1, "partitions": had}
    story.events.append(replace(template, kind="lost_begin", seq=99, mono_ns=at - MS // 2, data=data))
    had_b = partitions_json(story.held["b"])
    template_b = next(e for e in story.events if e.kind == "generation" and e.member == "b")
    data = {"generation": 1, "partitions": [*had_b, *had]}
    story.events.append(replace(template_b, kind="lost_begin", seq=99, mono_ns=at - MS // 2, data=data))

    assert "R2" not in broken(check(story.history))


@pytest.mark.parametrize(("client", "judged"), [("franz-go:sticky", False), ("sticky", True)])
def test_no_leader_is_blamed_for_what_another_client_forgot_to_claim(client: str, judged: bool) -> None:
    """The same moves after the same empty claim: they are excused for a foreign client, and never for ours."""
    verdict = check(forgetful(client).change("generation_committed", swapped, 1).history)

    assert ("R4" in broken(verdict)) is judged
    assert any("without a claim" in reason for reason in verdict.skipped.get("R4", ())) is not judged


@pytest.mark.parametrize(
    ("held", "members", "partitions", "kept"),
    [([4, 4], 3, 8, 6), ([8], 2, 8, 4), ([3, 2, 2], 3, 7, 7), ([2, 2, 2], 2, 8, 6), ([], 3, 7, 0), ([7], 3, 7, 3)],
)
def test_the_bound_of_moves_is_what_quotas_leave(held: list[int], members: int, partitions: int, kept: int) -> None:
    assert most_kept(held, members, partitions) == kept
