"""When a group is at rest, by what its members have told so far."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import AssignedPartitions, Subscription, encode_assignment, encode_subscription
from kafka_assignors.history.coordinator_log import CommittedMember, GroupCommitted
from kafka_assignors.history.events import Event
from kafka_assignors.integration.members.config import MemberConfig
from kafka_assignors.integration.members.process import MemberProcess
from kafka_assignors.integration.members.stability import due
from tests.support.histories.stories import renamed
from tests.support.histories.story import Story
from tests.support.histories.whole import whole

TOPICS = {"t": 4}


class Told(MemberProcess):
    """A member of which only its history is known: nothing can be done to it."""


Told.__abstractmethods__ = frozenset()


def rests(story: Story, assignor: str) -> list[int]:
    """Generations of which the group is once at rest, as its members tell one thing after the other."""
    processes: dict[str, MemberProcess] = {}
    committed: GroupCommitted | None = None
    found: list[int] = []
    for event in story.events:
        if event.kind == "generation_committed":
            committed = of(event)
        elif event.src == "member" and event.member is not None:
            if event.member not in processes:
                config = MemberConfig("h:1", "g", event.member, ("t",), (assignor,), "x.jsonl", "run")
                processes[event.member] = Told(config, Path("x.out"))
            processes[event.member].take(event)
        if committed is not None and not due(committed, processes, list(story.held), lambda: TOPICS, False):
            found.append(committed.generation)
    return sorted(set(found))


def of(event: Event) -> GroupCommitted:
    rows = [
        CommittedMember(
            row["member_id"], None, row["client_id"], "", 0, 0,
            bytes.fromhex(row["subscription"]), bytes.fromhex(row["assignment"]))
        for row in event.data["members"]
    ]  # fmt: skip
    data = event.data
    return GroupCommitted("g", "consumer", data["generation"], data["protocol"], data["leader"], 0, tuple(rows))


@pytest.mark.parametrize(("protocol", "name"), [("cooperative-sticky", "cooperative-sticky"), ("ours", "myteam:Ours")])
def test_a_cooperative_group_is_not_at_rest_before_what_was_given_up_is_handed_out(protocol: str, name: str) -> None:
    """Whatever the assignor's name: a member that gave something up as it learned its assignment joins again."""
    story = renamed(Story("cooperative-sticky", TOPICS).start("a", "b").round().start("c").round(), protocol, name)
    before, given_up, handed_out = [e.data["generation"] for e in story.events if e.kind == "generation_committed"]

    # Of the three members, c comes last.
    assert rests(story, name) == [handed_out], (before, given_up)


def test_an_eager_group_is_at_rest_in_each_generation() -> None:
    """Its members give up what they have before they join, be it the same generation once more."""
    story = Story("range", TOPICS).start("a", "b", "c").round().round()

    assert rests(story, "range") == [1, 2]


def test_a_leader_that_has_assigned_the_next_generation_is_not_at_rest() -> None:
    """It saw no topic at first, and joins again as soon as it does: what it holds is what it was given, nothing."""
    given = encode_assignment(AssignedPartitions({}))
    row = CommittedMember("a-1", None, "a", "", 0, 0, encode_subscription(Subscription(["t"])), given)
    committed = GroupCommitted("g", "consumer", 1, "range", "a-1", 0, (row,))
    leader = Told(MemberConfig("h:1", "g", "a", ("t",), ("range",), "x.jsonl", "run"), Path("x.out"))

    def left(kind: str, **data: Any) -> list[str]:
        leader.take(Event(kind, "run", "member", 0, 0, 0, "g", "a", member_id="a-1", data=whole(kind, data)))
        return due(committed, {"a": leader}, ["a"], lambda: TOPICS, False)

    left("assign_begin", generation=1, topics={})
    assert left("generation", generation=1, partitions=[]) == ["a assigned with outdated metadata of t"]
    assert left("assign_begin", generation=2, topics=TOPICS) == ["a has already assigned generation 2"]


REVOKED = "a revoked partitions in generation 4 and will rejoin"


@pytest.mark.parametrize(("leader", "left"), [(None, []), ("a-id", [REVOKED])])
def test_who_must_revoke_for_a_target_is_the_coordinator_s_to_tell(leader: str | None, left: list[str]) -> None:
    """A classic member of a group in migration: what it revoked may carry the epoch that it adopts after that."""
    member = CommittedMember(
        "a-id", None, "a", "", 0, 0,
        encode_subscription(Subscription(("t",))), encode_assignment(AssignedPartitions({"t": [0, 1, 2, 3]})),
    )  # fmt: skip
    process: MemberProcess = Told(MemberConfig("h:1", "g", "a", ("t",), ("range",), "x.jsonl", "run"), Path("x.out"))
    process.member_id, process.generation, process.revoked_in = "a-id", 4, 4
    process.owned = {TopicPartition("t", p) for p in range(4)}
    committed = GroupCommitted("g", "consumer", 4, "uniform", leader, -1, (member,))

    assert due(committed, {"a": process}, ["a"], lambda: TOPICS, True) == left
