"""The verdict on a group that changes its protocol while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_assignors.core.wire.protocol import Subscription, encode_subscription
from kafka_assignors.history.broker_group import TARGET
from kafka_assignors.history.events import Event
from kafka_assignors.integration.checker import LAWS, check
from kafka_assignors.integration.checker.ledger import RunRecord
from tests.support.histories.migrated import BACK, FRONT, Migrated, migration, tps
from tests.support.histories.reconciled import places, rows


def edited(story: Migrated, which: Callable[[Event], bool], **data: Any) -> Migrated:
    """A history whose first event of a kind has other data."""
    at = next(i for i, event in enumerate(story.events) if which(event))
    story.events[at] = replace(story.events[at], data={**story.events[at].data, **data})
    return story


def committed(story: Migrated, number: int, **row: Any) -> Migrated:
    """The classic generation of a number gives its first member something else."""
    event = next(e for e in story.events if e.kind == "generation_committed" and e.data["generation"] == number)
    first, *others = event.data["members"]
    return edited(story, lambda e: e is event, members=[{**first, **row}, *others])


def is_adoption(member: str, number: int) -> Callable[[Event], bool]:
    return lambda e: e.kind == "generation" and (e.member, e.data["generation"]) == (member, number)


def without(story: Migrated, member: str, kind: str) -> Migrated:
    story.events = [e for e in story.events if (e.member, e.kind) != (member, kind)]
    return story


def claims(*partitions: int) -> str:
    return encode_subscription(Subscription(("t",), owned=sorted(tps(partitions)), generation=5)).hex()


DAMAGES: dict[str, tuple[str, Callable[[Migrated], object]]] = {
    "the upgrade takes a partition away": (
        "G1",
        lambda s: edited(
            s,
            lambda e: e.data.get("record") == TARGET and e.member_id == "id-b",
            fields={"topicPartitions": rows(FRONT | {3, 4})},
        ),
    ),
    "the downgrade begins at an older number": (
        "G1",
        lambda s: edited(s, lambda e: e.kind == "generation_committed" and e.data["generation"] == 5, generation=1),
    ),
    "a classic generation repeats a number": (
        "G1",
        lambda s: edited(s, lambda e: e.kind == "generation_committed" and e.data["generation"] == 6, generation=5),
    ),
    "a classic member adopts another assignment of an epoch": (
        "G2",
        lambda s: edited(s, is_adoption("b", 3), partitions=places({0, 1})),
    ),
    "a classic member adopts another assignment of a generation": (
        "G2",
        lambda s: edited(s, is_adoption("e", 6), partitions=places(BACK)),
    ),
    "a classic member keeps what it has to give to the other protocol": ("O1", lambda s: without(s, "b", "revoke_end")),
    "a classic member claims after the downgrade what it doesn't own": (
        "R6",
        lambda s: committed(s, 6, subscription=claims(0, 3, 4, 5)),
    ),
    "the upgrade ends a process": ("E1", lambda s: s.tell("exit", member="e", code=1, asked=False)),
    "a partition goes back after the downgrade": (
        "C2",
        lambda s: s.tell(
            "consume", "member", "e", offsets=[{**places({0})[0], "first": 0, "last": 0, "count": 1, "bytes": 1}]
        ),
    ),
    "a record is lost": (
        "C3",
        lambda s: edited(
            s,
            lambda e: e.kind == "consume" and e.member == "d",
            offsets=[{**places({4})[0], "first": 2, "last": 2, "count": 1, "bytes": 1}],
        ),
    ),
}


def test_a_lawful_migration_is_true_and_each_law_is_judged_or_has_its_reason() -> None:
    verdict = check(migration().history)

    assert (verdict.value, verdict.violations, verdict.unknown) == (True, (), ())
    judged = {law for law, times in verdict.checked.items() if times}
    assert judged >= {"O1", "O2", "O3", "G1", "G2", "G3", "G4", "R1", "R2", "R6", "R7", "R8", "P1", "E1", "T1"}
    assert judged >= {"C1", "C2", "C3", "C5", "K1"}
    assert judged | set(verdict.skipped) == set(LAWS)
    reasons = {why for law in verdict.skipped for why in verdict.skipped[law]}
    assert "the history has no event that it judges" not in reasons


@pytest.mark.parametrize(("law", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_each_damage_breaks_its_law(law: str, damage: Callable[[Migrated], object]) -> None:
    story = migration()
    damage(story)

    verdict = check(story.history)

    assert verdict.value is False
    assert law in {violation.law for violation in verdict.violations}


def test_a_conversion_is_no_generation_of_its_own() -> None:
    """The coordinator writes generation 2 as a target, and target 5 as a generation: nobody joined for them."""
    record = RunRecord.of(migration().history).groups["g"]

    assert [(g.number, g.by_broker) for g in record.generations] == [
        (1, False), (2, False), (3, True), (4, True), (5, True), (6, False),
    ]  # fmt: skip
    assert [(before.number, after.by_broker) for before, after in record.conversions] == [(2, True), (5, False)]
