"""Members that are seen on their connections alone: laws whose facts are there are judged, all others say why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_assignors.history.events import WIRE
from kafka_assignors.integration.checker import LAWS, Verdict, check
from kafka_assignors.integration.history import History
from tests.support.histories.story import Story, churn

UNSEEN = {"assign_begin", "assign_end"}
JUDGED = {*("O1", "O2", "O3", "O4", "G1", "G2", "G3", "G4", "G5", "R1", "E1", "E2", "C5", "C7", "K1", "K2", "K3")}
"""Laws with something to judge in a churn of eager members on the wire."""
NOT_SHOWN = {"C1", "C2", "C3", "C4", "P1", "R6", "R8"}
"""Laws of what connections don't show, each with its reason."""


def on_wire(story: Story) -> Story:
    """The same run as connections show it: without what members read and how they assign, nor their settings."""
    events = []
    for event in story.events:
        if event.kind == "consume":
            ends = [
                {"topic": r["topic"], "partition": r["partition"], "offset": r["last"] + 1}
                for r in event.data["offsets"]
            ]
            event = replace(event, kind="sent", data={"offsets": ends})
        if event.src == "member" and event.kind in UNSEEN:
            continue
        if event.src == "member":
            event = replace(event, client=WIRE)
        if event.kind == "start":
            config = {"assignors": ["wire:x"], "session_timeout_ms": event.data["config"]["session_timeout_ms"]}
            event = replace(event, data={**event.data, "config": config})
        events.append(event)
    story.events = events
    return story


def verdict_of(story: Story) -> Verdict:
    return check(History(on_wire(story).events))


def broken(verdict: Verdict) -> set[str]:
    return {violation.law for violation in verdict.violations}


def twice_owned(story: Story) -> Story:
    """A has not joined again when b gets one of its partitions: its part in the second generation is not seen."""
    story.start("a", "b").round().records(14)
    start_of_two = next(i for i, e in enumerate(story.events) if e.kind == "ack")
    story.start("c").round()
    story.events = [
        event
        for at, event in enumerate(story.events)
        if at < start_of_two or event.member != "a" or event.kind not in ("revoke_begin", "revoke_end")
    ]
    return story


def test_a_sound_run_is_true_by_the_laws_whose_facts_are_there() -> None:
    verdict = verdict_of(churn())

    assert (verdict.value, verdict.violations, verdict.unknown) == (True, (), ())
    checked = {law for law, times in verdict.checked.items() if times}
    assert checked == JUDGED | {"R5"}
    for law in NOT_SHOWN:
        (reason,) = verdict.skipped[law]
        assert reason.startswith("its process is seen on its connections alone, which do not show "), (law, reason)
    assert "C5" not in verdict.skipped
    assert {step["duplicates"] for step in verdict.measures["steps"]} == {None}


def test_a_scenario_requires_no_law_that_connections_cannot_show() -> None:
    """What a user requires must be judged all the same; so must a law that had nothing to judge for another reason."""
    wire, told = History(on_wire(churn()).events), History(churn().events)

    assert check(wire, if_shown=("C3", "O4")).value is True
    assert check(wire, ("C3",), ("O4",)).unknown[0].startswith("law C3 is required but was not judged")
    assert check(told, if_shown=("C3", "O4")).value is True
    assert check(told, if_shown=("X1",)).unknown[0].startswith("law X1 is required but was not judged")


def test_the_same_run_as_members_tell_it_is_judged_by_more() -> None:
    verdict = check(churn().history)

    assert all(verdict.checked[law] for law in NOT_SHOWN - {"C4"})
    assert not NOT_SHOWN & set(verdict.skipped)


def test_a_cooperative_run_is_judged_by_its_claims() -> None:
    verdict = verdict_of(churn("cooperative-sticky"))

    assert (verdict.value, verdict.violations) == (True, ())
    assert all(verdict.checked[law] for law in ("R2", "R3", "R6"))
    assert not any(verdict.checked[law] for law in NOT_SHOWN - {"R6"})


def test_records_that_nobody_was_seen_reading_are_not_lost() -> None:
    story = churn().drop("consume", member="a")

    assert broken(check(story.history)) >= {"C3"}
    assert broken(verdict_of(churn())) == set()


def test_an_overlap_without_a_commit_is_not_proven() -> None:
    verdict = verdict_of(twice_owned(Story()))

    assert "O1" in broken(check(twice_owned(Story()).history))
    assert not broken(verdict) & {"O1", "R1"}
    (reason,) = verdict.skipped["O1"]
    assert reason.endswith("when it stopped to read a partition that it had lost")


def test_an_overlap_with_a_commit_is() -> None:
    story = twice_owned(Story())
    lost = next(e for e in story.events if e.kind == "assigned_begin" and e.member == "a").data["partitions"]
    last = story.events[-1]
    taken = {(p["topic"], p["partition"]) for e in story.events if e.member != "a" and e.kind == "assigned_begin"
             and e.data["generation"] == 2 for p in e.data["partitions"]}  # fmt: skip
    place = next(p for p in lost if (p["topic"], p["partition"]) in taken)
    offsets = [{**place, "offset": 1}]
    story.tell("commit_begin", "member", "a", offsets=offsets)

    verdict = verdict_of(story)

    assert "O1" in broken(verdict)
    (violation,) = (violation for violation in verdict.violations if violation.law == "O1")
    assert f"{place['topic']}-{place['partition']}" in violation.message
    assert last.mono_ns < story.events[-1].mono_ns


@pytest.mark.parametrize(
    ("damage", "law"),
    [
        pytest.param(
            lambda s: s.change("offset_committed", lambda d: d.update(offset=1000)), "C5", id="a commit ahead"
        ),
        pytest.param(lambda s: s.change("offset_committed", lambda d: d.update(offset=0)), "C5", id="a commit falls"),
        pytest.param(
            lambda s: s.change("generation", lambda d: d.update(partitions=d["partitions"][1:])),
            "G2", id="another assignment was delivered",
        ),
        pytest.param(lambda s: s.drop("generation", nth=0, member="a"), "G4", id="an assignment was never delivered"),
        pytest.param(
            lambda s: s.change("start", lambda d: d.update(assignors=["other"]), member="a"),
            "G3", id="one offers another assignor alone",
        ),
        pytest.param(
            lambda s: s.change("exit", lambda d: d.update(code=1), member="b").drop("stop"), "E1", id="it died"
        ),
        pytest.param(lambda s: s.shift("assigned_begin", 30_000, member="a"), "O4", id="it was assigned late"),
    ],
)  # fmt: skip
def test_damage_is_found(damage, law) -> None:  # type: ignore[no-untyped-def]
    assert law in broken(verdict_of(damage(churn())))


def test_a_commit_of_a_partition_that_it_was_never_given_is_found() -> None:
    story = churn()
    theirs = next(e for e in story.events if e.kind == "commit_ok" and e.member == "b")

    story.events.append(replace(theirs, member="a", member_id="a-id", mono_ns=theirs.mono_ns + 1))

    assert broken(verdict_of(story)) == {"C5", "C7"}


def test_a_false_claim_is_found() -> None:
    """It claims a partition that the coordinator had told it to be lost."""
    story = churn("cooperative-sticky")
    second = next(e for e in story.events if e.kind == "generation" and e.data["generation"] == 2 and e.member == "a")
    gone = next(e for e in story.events if e.kind == "assigned_begin" and e.member == "a").data["partitions"][:1]
    for edge in ("begin", "end"):
        lost = replace(
            second, kind=f"lost_{edge}", mono_ns=second.mono_ns - 10, data={"generation": 1, "partitions": gone}
        )
        story.events.append(lost)

    assert "R6" in broken(verdict_of(story))


def test_every_law_is_judged_or_says_why_or_has_nothing() -> None:
    verdict = verdict_of(churn())

    assert {law for law in LAWS if not verdict.checked[law]} >= NOT_SHOWN
