"""The verdict on KIP-848 groups: a lawful one is true, each damage breaks its law, and what isn't known is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_assignors.history.broker_group import CURRENT, GROUP, MEMBER, STABLE, TARGET, TARGET_EPOCH, UNREVOKED
from kafka_assignors.history.events import Event
from kafka_assignors.integration.checker import LAWS, check
from kafka_assignors.integration.checker.ledger import RunRecord
from tests.support.histories.reconciled import (
    IDS,
    SESSION_MS,
    Reconciled,
    churn,
    created,
    places,
    rows,
    subscribed,
    told_late,
)

Damage = Callable[[Reconciled], object]


def pair() -> Reconciled:
    """Members a (0, 1, 2) and b (3, 4, 5), at rest."""
    story = Reconciled(6).start("a", "b")
    for name in ("a", "b"):
        story.record(MEMBER, name, subscribed(name))
    return exactly(story, 1, a={0, 1, 2}, b={3, 4, 5}).reconcile().work().rest()


def exactly(story: Reconciled, epoch: int, **target: set[int]) -> Reconciled:
    """A target as it is given, complete or not."""
    story.epoch, story.target = epoch, target
    story.record(GROUP, None, {"epoch": epoch})
    for name, has in target.items():
        story.record(TARGET, name, {"topicPartitions": rows(has)})
    story.record(TARGET_EPOCH, None, {"assignmentEpoch": epoch})
    return story


def joins(story: Reconciled) -> Reconciled:
    """Member c joins and is to get partition 2 of a."""
    story.start("c")
    story.record(MEMBER, "c", subscribed("c"))
    return exactly(story, 2, a={0, 1}, b={3, 4, 5}, c={2})


def given_while_revoking(story: Reconciled) -> None:
    joins(story).current("a", 1, {0, 1}, {2}, UNREVOKED)
    story.current("c", 2, {2})


def given_while_assigned(story: Reconciled) -> None:
    joins(story).current("c", 2, {2})


def got_before_revoked(story: Reconciled) -> None:
    joins(story).current("a", 1, {0, 1}, {2}, UNREVOKED)
    story.current("a", 2, {0, 1})
    story.current("c", 2, {2})
    story.adopt("c", {2}).callback("a", "revoke", {2})


def acknowledged_too_soon(story: Reconciled) -> None:
    joins(story).current("a", 1, {0, 1}, {2}, UNREVOKED)
    story.current("a", 2, {0, 1})
    story.wait(200).callback("a", "revoke", {2})


def adopts_another(story: Reconciled) -> None:
    story.tell("generation", "member", "a", generation=1, protocol="", partitions=places({0, 1}))


def adopts_unknown_epoch(story: Reconciled) -> None:
    story.tell("generation", "member", "a", generation=7, protocol="", partitions=places({0, 1, 2}))


def adopts_older(story: Reconciled) -> None:
    exactly(story, 2, a={0, 1, 2}, b={3, 4, 5})
    for name in ("a", "b"):
        story.current(name, 2, story.held[name])
    for epoch in (2, 1):
        story.tell("generation", "member", "a", generation=epoch, protocol="", partitions=places({0, 1, 2}))


def behind_at_rest(story: Reconciled) -> None:
    exactly(story, 2, a={0, 1, 2}, b={3, 4, 5}).current("a", 2, {0, 1, 2})
    story.rest()


def never_got(story: Reconciled) -> None:
    joins(story).current("a", 1, {0, 1}, {2}, UNREVOKED)
    story.callback("a", "revoke", {2})
    for name, has in story.target.items():
        story.current(name, 2, has)
    story.rest()


def kept_too_much(story: Reconciled) -> None:
    joins(story)
    for name, has in story.target.items():
        story.current(name, 2, has)
    story.rest()


def got_more(story: Reconciled) -> None:
    for edge in ("begin", "end"):
        story.tell(f"assigned_{edge}", "member", "a", generation=1, partitions=places({3}))


def overlapping_callbacks(story: Reconciled) -> None:
    story.tell("revoke_begin", "member", "a", generation=1, partitions=places({0}))
    story.tell("lost_begin", "member", "a", generation=1, partitions=places({0}))


def revokes_what_it_lacks(story: Reconciled) -> None:
    story.callback("a", "revoke", {5})


def lost_told_as_revoked(story: Reconciled) -> None:
    story.record(MEMBER, "a")
    story.wait(500).callback("a", "revoke", {0, 1, 2})


def needless(story: Reconciled) -> None:
    joins(story).callback("a", "revoke", {0})
    story.current("a", 2, {0, 1})
    story.current("b", 2, {3, 4, 5})
    story.callback("a", "revoke", {2})
    story.adopt("a", {0})
    story.current("c", 2, {2})
    story.adopt("c", {2}).rest()


def storm(story: Reconciled) -> None:
    joins(story)
    for epoch in (2, 3, 4):
        if epoch > 2:
            exactly(story, epoch, a={0, 1, 2}, b={3, 4, 5}, c=set())
        for name, has in story.target.items():
            story.current(name, epoch, has - ({2} if name == "c" else set()))
    story.rest()


def leaves_unnoticed(story: Reconciled) -> None:
    story.callback("a", "revoke", {0, 1, 2})
    story.tell("stop", "member", "a")
    story.tell("exit", member="a", code=0, asked=True)
    story.wait(8000).remove("a").aim({"b": set()}).reconcile().rest()


def grows_unnoticed(story: Reconciled) -> None:
    story.tell("admin_change", change="add_partitions", target="t", topics={"t": 7})
    story.partitions = 7
    story.wait(6000).aim({"a": set(), "b": set()}).reconcile().rest()


def consumes(story: Reconciled, member: str, p: int, offset: int) -> None:
    row = {"topic": "t", "partition": p, "first": offset, "last": offset, "count": 1, "bytes": 1}
    story.tell("consume", "member", member, offsets=[row])


def skips(story: Reconciled) -> None:
    for at in (1, 2):
        story.tell(
            "ack", "producer", partitioner="d", topic="t", partition=0, offset=at, value_id=f"0-{at}", predicted=0
        )
    consumes(story, "a", 0, 2)


def loses(story: Reconciled) -> None:
    story.tell("ack", "producer", partitioner="d", topic="t", partition=0, offset=1, value_id="0-1", predicted=0)
    story.tell("step", name="drained", offsets=[{"topic": "t", "partition": 0, "offset": 2}])


def reads_again(story: Reconciled) -> None:
    exactly(story, 2, a={0, 1}, b={2, 3, 4, 5})
    story.current("a", 1, {0, 1}, {2}, UNREVOKED)
    story.callback("a", "revoke", {2}).current("a", 2, {0, 1})
    story.current("b", 2, {2, 3, 4, 5})
    story.wait(200).adopt("b", {2})
    consumes(story, "b", 2, 0)


def commits(story: Reconciled, offset: int) -> None:
    story.tell("offset_committed", "coordlog", topic="t", partition=0, offset=offset)


def commits_after_removal(story: Reconciled) -> None:
    story.remove("a").aim({"b": set()})
    story.wait(500)
    offsets = [{"topic": "t", "partition": 0, "offset": 1}]
    story.tell("commit_begin", "member", "a", offsets=offsets)
    story.tell("commit_ok", "member", "a", offsets=offsets)


def no_owner(story: Reconciled) -> None:
    story.callback("a", "revoke", {2}).wait(60_000).tell("step", name="later")


def follows(story: Reconciled, **fields: Any) -> None:
    """A record of a's current assignment with other fields; the one before it is of epoch 1, from epoch 0."""
    event = story.current("a", 2, {0, 1, 2})
    event.data["fields"].update(fields)


def as_member(story: Reconciled, **fields: Any) -> Event:
    """The broker writes a once more, with other fields."""
    return story.record(MEMBER, "a", {**subscribed("a"), "rebalanceTimeoutMs": 3000, **fields})


def at_first(story: Reconciled, **fields: Any) -> None:
    """The broker's first record of a has other fields."""
    first = next(e for e in story.events if e.data.get("record") == MEMBER and e.member_id == "id-a")
    first.data["fields"].update(fields)


def of_start(story: Reconciled) -> Event:
    return next(e for e in story.events if e.kind == "start" and e.member == "a")


def started(story: Reconciled, **data: Any) -> None:
    """a was started otherwise."""
    start = of_start(story)
    story.events[story.events.index(start)] = replace(start, data={**start.data, **data})


def renamed(story: Reconciled) -> None:
    """A record has another name for the id of `t`."""
    event = story.record(CURRENT, "a")
    story.events[-1] = replace(event, data={**event.data, "names": {IDS["t"]: "other"}})


def classic(story: Reconciled) -> None:
    """a was started under the classic protocol."""
    started(story, config={**of_start(story).data["config"], "protocol": "classic"})


def forgets(story: Reconciled) -> None:
    """A tombstone ends what a's records say: it joins anew, from no epoch."""
    story.record(CURRENT, "a")
    follows(story, memberEpoch=1, previousMemberEpoch=0)


def came_from_nowhere(story: Reconciled, forgotten: str) -> None:
    """A tombstone, and then a is in epoch 2, from epoch 0: it was in epoch 1."""
    story.record(forgotten, "a")
    follows(story, memberEpoch=2, previousMemberEpoch=0)


def cut(story: Reconciled) -> None:
    """A history that was cut has the epoch of a's records alone; what comes behind such a record follows from none."""
    story.record(CURRENT, "a", {"memberEpoch": 1})
    follows(story, memberEpoch=1, previousMemberEpoch=7)


def away(story: Reconciled) -> None:
    """A static member leaves for a while (epoch -2), and is back."""
    story.current("a", -2, {0, 1, 2})
    follows(story, memberEpoch=1, previousMemberEpoch=0)


def subscribes_anew(story: Reconciled) -> None:
    """a started with two topics, and the harness has taken one from it since."""
    started(story, topics=["t", "u"])
    story.tell("admin_change", member="a", change="subscribe", target="a", subscription={"topics": ["t"]})


def epoch_before(story: Reconciled, *epochs: int, previous: int) -> None:
    """a has been in these epochs, and its last record says that it came there from another one."""
    for epoch in epochs:
        event = story.current("a", epoch, {0, 1, 2})
    event.data["fields"].update(previousMemberEpoch=previous)


def behind(story: Reconciled, member: str, **fields: Any) -> None:
    """The broker has another name for a, behind its record of another member."""
    story.record(MEMBER, member, {**subscribed(member), **fields})
    as_member(story, clientId="x")


def of_a_service(story: Reconciled) -> None:
    """a is a process of a service, which chooses its client id."""
    story.events = [
        replace(e, data={**e.data, "log_bytes": 0}) if e.src == "member" and e.member == "a" else e
        for e in story.events
    ]
    as_member(story, clientId="x")


def without_its_poll_interval(story: Reconciled) -> None:
    """a doesn't tell its poll interval."""
    config = {name: value for name, value in of_start(story).data["config"].items() if name != "max_poll_interval_ms"}
    started(story, config=config)
    as_member(story, rebalanceTimeoutMs=1)


SOUND: dict[str, Damage] = {
    "the broker has another name of a service": of_a_service,
    "the broker has a poll interval that wasn't told": without_its_poll_interval,
    "the broker has no assignor": lambda s: as_member(s, serverAssignor=None),
    "a member that nobody started": lambda s: s.record(MEMBER, "ghost", {**subscribed("ghost"), "clientId": "y"}),
    "written again in its epoch": lambda s: follows(s, memberEpoch=1, previousMemberEpoch=0),
    "written again in its epoch, from it": lambda s: follows(s, memberEpoch=1, previousMemberEpoch=1),
    "forgotten": forgets,
    "forgotten, and in a later epoch": lambda s: came_from_nowhere(s, CURRENT),
    "forgotten as a member, and in a later epoch": lambda s: came_from_nowhere(s, MEMBER),
    "cut": cut,
    "away": away,
    "the broker has it again": as_member,
    "the broker has another subscription, later": lambda s: as_member(s, subscribedTopicNames=["t", "u"]),
    "the broker has the assignor": lambda s: as_member(s, serverAssignor="uniform"),
    "the broker has it in a migration": lambda s: as_member(s, clientId="x", classicMemberMetadata={}),
    "subscribes anew": subscribes_anew,
}
"""What may be added to a pair at rest."""


DAMAGES: dict[str, tuple[str, Damage]] = {
    "a target for two members": ("O2", lambda s: exactly(s, 2, a={0, 1, 2}, b={2, 3, 4, 5})),
    "a target without a partition": ("O3", lambda s: exactly(s, 2, a={0, 1}, b={3, 4, 5}).wait(6000).rest()),
    "a target with one that doesn't exist": ("O3", lambda s: exactly(s, 2, a={0, 1, 2}, b={3, 4, 5, 6}).rest()),
    "given while it is being revoked": ("R2", given_while_revoking),
    "given while another has it": ("R2", given_while_assigned),
    "got before it was revoked (O1)": ("O1", got_before_revoked),
    "got before it was revoked (R1)": ("R1", got_before_revoked),
    "acknowledged before it was revoked": ("R6", acknowledged_too_soon),
    "the group's epoch falls": ("G1", lambda s: s.record(GROUP, None, {"epoch": 0})),
    "the target's epoch falls": ("G1", lambda s: s.record(TARGET_EPOCH, None, {"assignmentEpoch": 0})),
    "a member's epoch falls": ("G1", lambda s: s.current("a", 0, {0, 1, 2})),
    "adopts what the log doesn't say": ("G2", adopts_another),
    "adopts an epoch that it is not in": ("G2", adopts_unknown_epoch),
    "adopts an older epoch": ("G4", adopts_older),
    "at rest in an older epoch": ("G4", behind_at_rest),
    "at rest without a partition (R8)": ("R8", never_got),
    "at rest without a partition (P1)": ("P1", never_got),
    "at rest with a partition of another": ("R8", kept_too_much),
    "a callback with more than the target": ("R8", got_more),
    "callbacks at once": ("R8", overlapping_callbacks),
    "revokes what it doesn't own": ("R8", revokes_what_it_lacks),
    "a loss told as a revocation": ("R7", lost_told_as_revoked),
    "revoked and given back": ("R3", needless),
    "three targets for one join": ("R5", storm),
    "a dead member removed late": ("T1", lambda s: s.kill("b", 3 * SESSION_MS + 1000).reconcile().rest()),
    "a dead member removed early": ("T1", lambda s: s.kill("b", 500).reconcile().rest()),
    "a leaving member removed late": ("T1", leaves_unnoticed),
    "a grown topic noticed late": ("T3", grows_unnoticed),
    "consumes what it doesn't own": ("C1", lambda s: consumes(s, "b", 0, 1)),
    "skips a record": ("C2", skips),
    "goes back": ("C2", lambda s: consumes(s, "a", 0, 0)),
    "a record is lost": ("C3", loses),
    "the next owner reads again": ("C4", reads_again),
    "a commit ahead": ("C5", lambda s: commits(s, 9)),
    "a commit falls": ("C5", lambda s: commits(s, 0)),
    "a commit of a removed member": ("C5", commits_after_removal),
    "a process ends unasked": ("E1", lambda s: s.tell("exit", member="a", code=1, asked=False)),
    "no owner for a minute": ("P1", no_owner),
    "came from an epoch that it was not in": ("G5", lambda s: follows(s, previousMemberEpoch=7)),
    "its target is forgotten, and it came from nowhere": ("G5", lambda s: came_from_nowhere(s, TARGET)),
    "in one epoch, from an epoch that it was not in": (
        "G5",
        lambda s: follows(s, memberEpoch=1, previousMemberEpoch=7),
    ),
    "in epoch 0, from an epoch that it was not in": ("G5", lambda s: epoch_before(s, 0, previous=7)),
    "behind epoch 0, from an epoch that it was not in": ("G5", lambda s: epoch_before(s, 0, 1, previous=7)),
    "another name, behind a member that nobody started": ("G5", lambda s: behind(s, "ghost")),
    "another name, behind a member of a migration": ("G5", lambda s: behind(s, "b", classicMemberMetadata={})),
    "another name, behind one that is forgotten": ("G5", lambda s: (s.record(MEMBER, "b"), as_member(s, clientId="x"))),
    "the broker has other topics, and another topic came": (
        "G5",
        lambda s: (
            s.tell("admin_change", member="a", change="create_topic", target="w", topics={"w": 1}),
            at_first(s, subscribedTopicNames=["other"]),
        ),
    ),
    "revoked in no generation, behind a removal": (
        "R8",
        lambda s: (
            s.record(MEMBER, "a"),
            s.tell("revoke_begin", "member", "b", generation=-1, partitions=places({3})),
            s.tell("revoke_end", "member", "b", generation=-1, partitions=places({3})),
        ),
    ),
    "must give up nothing, and is to revoke": ("G5", lambda s: s.current("a", 1, {0, 1, 2}, (), UNREVOKED)),
    "must give up a partition, and is stable": ("G5", lambda s: s.current("a", 1, {0, 1}, {2})),
    "has what it must give up": ("G5", lambda s: s.current("a", 1, {0, 1, 2}, {2}, UNREVOKED)),
    "a topic id of two topics": ("G5", renamed),
    "the broker has another instance id": ("G5", lambda s: as_member(s, instanceId="x")),
    "the broker has another name": ("G5", lambda s: as_member(s, clientId="x")),
    "the broker has another poll interval": ("G5", lambda s: as_member(s, rebalanceTimeoutMs=1)),
    "the broker has another assignor": ("G5", lambda s: as_member(s, serverAssignor="range")),
    "the broker has other topics": ("G5", lambda s: at_first(s, subscribedTopicNames=["other"])),
    "the broker has a member of the classic protocol": ("G5", classic),
}


def test_a_lawful_churn_is_true_and_each_law_is_judged_or_has_its_reason() -> None:
    verdict = check(churn().history)

    assert (verdict.value, verdict.violations, verdict.unknown) == (True, (), ())
    judged = {law for law, times in verdict.checked.items() if times}
    assert judged >= {"O1", "O2", "O3", "G1", "G2", "G4", "R1", "R2", "R3", "R5", "R6", "R7", "R8", "P1", "E1"}
    assert judged >= {"C1", "C2", "C3", "C5", "T1", "K1"}
    assert judged | set(verdict.skipped) == set(LAWS)
    reasons = {why for law in verdict.skipped for why in verdict.skipped[law]}
    assert "the history has no event that it judges" not in reasons


@pytest.mark.parametrize("client", ["confluent-consumer", "java-consumer"])
def test_a_pair_at_rest_is_true(client: str) -> None:
    story = Reconciled(6, client).join("a", "b").reconcile().work().rest()

    assert check(story.history).value is True


@pytest.mark.parametrize(("law", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_each_damage_breaks_its_law(law: str, damage: Damage) -> None:
    story = pair()
    assert check(story.history).value is True
    damage(story)

    verdict = check(story.history)

    assert verdict.value is False
    assert law in {violation.law for violation in verdict.violations}


@pytest.mark.parametrize("name", SOUND)
def test_what_the_broker_may_write_of_a_member_is_true(name: str) -> None:
    story = pair()
    SOUND[name](story)

    verdict = check(story.history)

    assert (verdict.value, verdict.violations, verdict.unknown) == (True, (), ())


def twins(*, refused: bool) -> Reconciled:
    """A process starts with the instance id of a, which runs."""
    story = pair().start("twin")
    if not refused:
        story.record(MEMBER, "twin", {**subscribed("twin"), "instanceId": "x"})
        exactly(story, 2, a={0, 1}, b={3, 4, 5}, twin={2})
        story.current("a", 1, {0, 1}, {2}, UNREVOKED)
        story.callback("a", "revoke", {2}).current("a", 2, {0, 1})
        story.current("b", 2, {3, 4, 5})
        story.current("twin", 2, {2})
        story.adopt("twin", {2})
    story.tell("exit", member="twin", code=1, asked=True)
    story.events = [
        replace(e, instance_id="x") if e.src == "member" and e.member in ("a", "twin") else e for e in story.events
    ]
    of_a = story.events.index(next(e for e in story.events if e.member_id == "id-a" and e.data.get("record") == MEMBER))
    fields = {**story.events[of_a].data["fields"], "instanceId": "x"}
    story.events[of_a] = replace(story.events[of_a], data={**story.events[of_a].data, "fields": fields})
    return story


def test_a_static_member_that_returned_may_be_removed_later() -> None:
    """Its return is written into the same target; its removal, with the same instance id, is not."""
    story = pair()
    static = {**subscribed("a"), "instanceId": "x"}
    story.record(MEMBER, "a", static)
    story.current("a", -2, {0, 1, 2})
    for record in (CURRENT, TARGET, MEMBER):
        story.record(record, "a")
    story.record(MEMBER, "back", static)
    story.record(TARGET, "back", {"topicPartitions": rows({0, 1, 2})})
    story.current("back", 1, {0, 1, 2})
    for record in (CURRENT, TARGET, MEMBER):
        story.record(record, "back")

    generations = RunRecord.of(story.history).groups["g"].generations

    assert [sorted(g.assigned) for g in generations] == [["id-a", "id-b"], ["id-b", "id-back"]]


def test_a_static_member_that_was_removed_in_an_earlier_target_does_not_return() -> None:
    """What is written for its instance id afterwards is no part of a target whose epoch was written before."""
    story = pair()
    static = {**subscribed("a"), "instanceId": "x"}
    story.record(MEMBER, "a", static)
    for record in (CURRENT, TARGET, MEMBER):
        story.record(record, "a")
    exactly(story, 2, b={0, 1, 2, 3, 4, 5})
    story.record(MEMBER, "back", static)
    story.record(TARGET, "back", {"topicPartitions": rows({0, 1, 2})})

    generations = RunRecord.of(story.history).groups["g"].generations

    assert [sorted(g.assigned) for g in generations] == [["id-a", "id-b"], ["id-b"]]


def test_a_static_member_returns_to_a_target_once() -> None:
    """What is written for it later in the same target completes nothing; nor does what is written of one that stays."""
    story = pair()
    static = {**subscribed("a"), "instanceId": "x"}
    story.record(MEMBER, "a", static)
    story.record(TARGET, "a")
    story.record(TARGET, "a", {"topicPartitions": rows({0, 1})})
    story.record(MEMBER, "a")
    story.record(MEMBER, "back", static)
    for has in ({0, 1, 2}, {0, 1}):
        story.record(TARGET, "back", {"topicPartitions": rows(has)})

    generations = RunRecord.of(story.history).groups["g"].generations

    assert [sorted(g.assigned) for g in generations] == [["id-a", "id-b"], ["id-b", "id-back"]]


def test_what_a_member_had_between_two_times_begins_with_what_it_had_at_the_first() -> None:
    story = pair()
    for has in ({0, 1}, {0}, ()):
        story.current("a", 1, has)
    record = RunRecord.of(story.history).groups["g"].reconciliation
    times = [row.event.mono_ns for row in record.of_member("id-a")]

    def had(from_ns: int, until_ns: int) -> list[int]:
        return [len(row.assigned) for row in record.between("id-a", from_ns, until_ns)]

    assert had(times[1], times[2]) == [2, 1]
    assert had(times[2] - 1, times[3] - 1) == [2, 1]
    assert had(times[3], times[3] + 1) == [0]
    assert had(times[0] - 1, times[0]) == [3]
    assert had(times[0] - 2, times[0] - 1) == []


def test_a_running_member_keeps_its_instance_id() -> None:
    refused, let_in = check(twins(refused=True).history), check(twins(refused=False).history)

    assert (refused.value, refused.checked["S2"]) == (True, 1)
    assert "S2" in {violation.law for violation in let_in.violations}


def test_java_s_losses_are_not_judged_and_the_verdict_says_so() -> None:
    story = Reconciled(6, "java-consumer").join("a", "b").reconcile().rest().leave("b").reconcile().rest()

    verdict = check(story.history)

    assert (verdict.value, verdict.checked["R7"]) == (True, 0)
    assert "reports losses as revocations" in next(iter(verdict.skipped["R7"]))


def test_a_member_that_waits_for_a_partition_adopts_what_it_has_and_then_the_rest() -> None:
    """c gets 5 at once and 2 once a released it, both in epoch 2."""
    story = pair()
    story.start("c")
    story.record(MEMBER, "c", subscribed("c"))
    exactly(story, 2, a={0, 1}, b={3, 4}, c={2, 5})
    story.current("b", 1, {3, 4}, {5}, UNREVOKED)
    story.callback("b", "revoke", {5}).current("b", 2, {3, 4})
    story.current("c", 2, {5}, state=2)
    story.adopt("c", {5})
    story.current("a", 1, {0, 1}, {2}, UNREVOKED)
    story.callback("a", "revoke", {2}).current("a", 2, {0, 1})
    story.current("c", 2, {2, 5}, state=STABLE)
    story.adopt("c", {2}).rest()

    verdict = check(story.history)

    assert (verdict.value, verdict.violations) == (True, ())


def test_a_topic_without_a_known_name_is_named() -> None:
    story = pair()
    story.events = [
        replace(e, data={n: v for n, v in e.data.items() if n != "names"}) if e.kind == "broker_assigned" else e
        for e in story.events
    ]

    verdict = check(story.history)

    assert "the history does not have the names of group 'g''s topics AAAAAAAAAAAAAAAAAAAAAQ" in verdict.unknown


def test_a_topic_whose_name_an_older_broker_told_once_is_known() -> None:
    """Before 4.1 a record of its own has the names."""
    story = Reconciled(6)
    topics = [{"topicId": IDS["t"], "topicName": "t", "numPartitions": 6}]
    story.record("ConsumerGroupPartitionMetadata", None, {"topics": topics})
    story.join("a", "b").reconcile().work().rest()
    story.events = [
        replace(e, data={n: v for n, v in e.data.items() if n != "names"}) if e.kind == "broker_assigned" else e
        for e in story.events
    ]

    verdict = check(story.history)

    assert (verdict.value, verdict.unknown) == (True, ())


def test_a_record_of_an_unknown_version_is_named() -> None:
    story = pair()
    story.tell("unread", "coordlog", reason=f"{CURRENT} value version 1")

    assert check(story.history).unknown == (f"the coordinator log of group 'g' has {CURRENT} value version 1",)


def test_an_assignment_that_a_removed_member_is_told_too_late_has_no_owner_to_share_with() -> None:
    """librdkafka calls what it queued while the application did not poll: ``assigned``, and then ``lost``."""
    broken = [{v.law for v in check(told_late(*how).history).violations} for how in ((), (3,), (2, ()))]

    assert broken == [set(), {"O1", "G2"}, {"G2"}]


@pytest.mark.parametrize(("member", "broken"), [("nobody", set()), ("b", {"T3"})])
def test_a_broker_has_time_to_resolve_patterns_only_for_a_topic_that_no_member_names(
    member: str, broken: set[str]
) -> None:
    story = created(5000)
    names = [replace(e, data={**e.data, "topics": ["t"]}) if e.member == member else e for e in story.events[:3]]
    story.events[:3] = names

    assert {v.law for v in check(story.history).violations} == broken
