"""Tells the history of a group that goes from the classic to the consumer protocol (KIP-848) and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import (
    AssignedPartitions,
    Subscription,
    by_topic,
    encode_assignment,
    encode_subscription,
)
from kafka_assignors.history.broker_group import CURRENT, GROUP, MEMBER, TARGET, TARGET_EPOCH, UNREVOKED
from kafka_assignors.history.coordinator_log import CommittedMember, GroupCommitted
from kafka_assignors.history.events import Event, committed
from tests.support.histories.reconciled import HEARTBEAT_MS, SESSION_MS, Ps, Reconciled, rows, subscribed

CLASSIC = {"sessionTimeoutMs": SESSION_MS, "supportedProtocols": []}
FRONT, BACK, ALL = {0, 1, 2}, {3, 4, 5}, set(range(6))


class Migrated(Reconciled):
    """As `Reconciled`, with members of either protocol; `classic` has the names of those with the classic one."""

    def __init__(self) -> None:
        super().__init__(6)
        self.classic: set[str] = set()

    def tell(self, kind: str, src: str = "harness", member: str | None = None, **data: Any) -> Event:
        self.client = "confluent" if member in getattr(self, "classic", ()) else "confluent-consumer"
        return super().tell(kind, src, member, **data)

    def starts(self, name: str) -> Migrated:
        """A member with the classic protocol starts."""
        self.classic.add(name)
        config = {
            "assignors": ["confluent:cooperative-sticky"], "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS, "max_poll_interval_ms": 3000, "metadata_max_age_ms": 300_000,
        }  # fmt: skip
        self.tell("start", "member", name, assignors=["cooperative-sticky"], topics=["t"], config=config)
        self.held[name] = set()
        return self

    def commit(self, number: int, given: Mapping[str, Ps]) -> Migrated:
        """The coordinator commits a classic generation; members claim what they hold."""
        self.epoch = number
        members = tuple(
            CommittedMember(
                f"id-{name}",
                None,
                name,
                "/h",
                3000,
                SESSION_MS,
                encode_subscription(Subscription(("t",), owned=sorted(tps(self.held[name])), generation=number - 1)),
                encode_assignment(AssignedPartitions(by_topic(tps(has)))),
            )
            for name, has in sorted(given.items())
        )
        leader = members[0].member_id
        group = GroupCommitted("g", "consumer", number, "cooperative-sticky", leader, self._now // 1_000_000, members)
        kind, fields = committed(group)
        self.tell(kind, "coordlog", **fields)
        return self

    def ends(self, name: str) -> Migrated:
        """A member gives up what it has and ends."""
        self.callback(name, "revoke", set(self.held[name]))
        self.tell("stop", "member", name)
        self.tell("exit", member=name, code=0, asked=True)
        return self

    def aimed(self, epoch: int, **target: set[int]) -> Migrated:
        """The broker's target assignment of an epoch."""
        self.epoch, self.target = epoch, target
        self.record(GROUP, None, {"epoch": epoch})
        for name, has in target.items():
            self.record(TARGET, name, {"topicPartitions": rows(has)})
        self.record(TARGET_EPOCH, None, {"assignmentEpoch": epoch})
        return self


def tps(partitions: Ps) -> set[TopicPartition]:
    return {TopicPartition("t", p) for p in partitions}


def migration() -> Migrated:
    """a and b are classic, d is not, e is classic again; each protocol is alone for a time, and records flow."""
    story = Migrated()
    story.starts("a").starts("b").commit(1, {"a": FRONT, "b": BACK}).adopt("a", FRONT).adopt("b", BACK).work().rest()
    story.ends("a").commit(2, {"b": ALL}).adopt("b", FRONT).work().rest()
    _upgrade(story)
    story.ends("b").remove("b").aim({"d": ()}).reconcile().work().rest()
    story.starts("e")
    story.record(MEMBER, "e", {**subscribed("e"), "serverAssignor": None, "classicMemberMetadata": CLASSIC})
    story.aimed(5, d=FRONT, e=BACK).reconcile().work().rest()
    story.ends("d")
    _downgrade(story)
    story.commit(6, {"e": ALL}).adopt("e", FRONT).work().rest().drained()
    return story


def _upgrade(story: Migrated) -> None:
    """d joins with the consumer protocol: the coordinator first writes the group as it is, in the other records."""
    story.start("d")
    story.record(MEMBER, "b", {**subscribed("b"), "serverAssignor": None, "classicMemberMetadata": CLASSIC})
    story.aimed(2, b=ALL).current("b", 2, ALL)
    story.record(MEMBER, "d", subscribed("d"))
    story.aimed(3, b=FRONT, d=BACK)
    story.current("b", 2, FRONT, BACK, UNREVOKED)
    story.tell("generation", "member", "b", generation=2, protocol="", partitions=_places(FRONT))
    story.epoch = 2
    story.callback("b", "revoke", BACK)
    story.epoch = 3
    story.current("b", 3, FRONT)
    story.tell("generation", "member", "b", generation=3, protocol="", partitions=_places(FRONT))
    story.current("d", 3, BACK)
    story.adopt("d", BACK).work().rest()


def _downgrade(story: Migrated) -> None:
    """No member has the consumer protocol any more: the coordinator replaces its records by a classic generation."""
    for name in ("d", "e"):
        for record in (CURRENT, TARGET, MEMBER):
            story.record(record, name)
    story.record(TARGET_EPOCH)
    story.record(GROUP)
    story.commit(5, {"e": BACK})


def _places(partitions: Ps) -> list[dict[str, Any]]:
    return [{"topic": "t", "partition": p} for p in sorted(partitions)]
