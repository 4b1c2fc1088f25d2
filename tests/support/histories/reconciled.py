"""Tells the history of a KIP-848 group as a lawful run would leave it, for the checker's tests to damage."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.broker_group import (
    CURRENT,
    GROUP,
    MEMBER,
    PATTERN,
    STABLE,
    TARGET,
    TARGET_EPOCH,
    UNREVOKED,
)
from kafka_assignors.history.events import Event, partitions_json
from tests.support.histories.story import MS, Chronicle, adopted_ns

SESSION_MS, HEARTBEAT_MS = 2000, 300
IDS = {"t": "AAAAAAAAAAAAAAAAAAAAAQ"}
Ps = Iterable[int]


class Reconciled(Chronicle):
    """Events one millisecond apart, of members that read topic ``t``; `epoch` grows with each change.

    With a `pattern`, they subscribe to that instead, and `t` need not exist (0 partitions).
    """

    def __init__(self, partitions: int = 4, client: str = "confluent-consumer", pattern: str = "") -> None:
        super().__init__("g")
        self.pattern = pattern
        self.partitions, self.client, self.epoch = partitions, client, 0
        self.target: dict[str, set[int]] = {}
        self.held: dict[str, set[int]] = {}
        self._read: dict[int, int] = {}
        self._epochs: dict[str, int] = {}  # member -> the epoch of its last current assignment
        self.tell("topics", topics={"t": partitions} if partitions else {})

    def record(self, name: str, member: str | None = None, fields: Mapping[str, Any] | None = None) -> Event:
        details = {} if fields is None else {"fields": dict(fields), "names": {IDS["t"]: "t"}}
        event = self.tell("broker_assigned", "coordlog", record=name, **details)
        if member is not None:
            self.events[-1] = event = replace(event, member_id=f"id-{member}")
        return event

    def current(self, member: str, epoch: int, has: Ps, revoking: Ps = (), state: int = STABLE) -> Event:
        before = self._epochs.get(member, 0)
        self._epochs[member] = epoch
        fields = {
            "memberEpoch": epoch, "previousMemberEpoch": before, "state": state,
            "assignedPartitions": rows(has), "partitionsPendingRevocation": rows(revoking),
        }  # fmt: skip
        return self.record(CURRENT, member, fields)

    def start(self, *members: str) -> Reconciled:
        config = {
            "assignors": [f"{self.client}:uniform"], "session_timeout_ms": SESSION_MS, "protocol": "consumer",
            "heartbeat_interval_ms": HEARTBEAT_MS, "max_poll_interval_ms": 3000, "metadata_max_age_ms": 300_000,
            **({"pattern": self.pattern} if self.pattern else {}),
        }  # fmt: skip
        topics = [] if self.pattern else ["t"]
        for name in members:
            self.tell("start", "member", name, assignors=["uniform"], topics=topics, config=config)
            self.held[name] = set()
        return self

    def join(self, *members: str) -> Reconciled:
        self.start(*members)
        for name in members:
            self.record(MEMBER, name, subscribed(name, self.pattern))
        return self.aim({name: set() for name in (*self.target, *members)})

    def aim(self, wanted: Mapping[str, Ps]) -> Reconciled:
        """A new target: even, each member keeps what fits; what `wanted` says in full comes first."""
        self.epoch += 1
        self.record(GROUP, None, {"epoch": self.epoch})
        quota = -(-self.partitions // len(wanted))
        target = {name: set(wanted[name]) or set(sorted(self.target.get(name, ()))[:quota]) for name in wanted}
        free = [p for p in range(self.partitions) if not any(p in has for has in target.values())]
        for p in free:
            target[min(target, key=lambda name: (len(target[name]), name))].add(p)
        self.target = target
        for name in sorted(target):
            self.record(TARGET, name, {"topicPartitions": rows(target[name])})
        self.record(TARGET_EPOCH, None, {"assignmentEpoch": self.epoch})
        return self

    def reconcile(self) -> Reconciled:
        """Each member gives up what its target lacks; then each gets what its target has."""
        for name, target in sorted(self.target.items()):
            if lost := self.held[name] - target:
                self.current(name, self.epoch - 1, self.held[name] & target, lost, UNREVOKED)
                self.callback(name, "revoke", lost)
                self.current(name, self.epoch, self.held[name])
        for name, target in sorted(self.target.items()):
            self.current(name, self.epoch, target)
            if gained := target - self.held[name]:
                self.adopt(name, gained)
        return self

    def adopt(self, name: str, gained: Ps) -> Reconciled:
        self.held[name] |= set(gained)
        self.tell("generation", "member", name, generation=self.epoch, protocol="", partitions=places(self.held[name]))
        for edge in ("begin", "end"):
            self.tell(f"assigned_{edge}", "member", name, generation=self.epoch, partitions=places(gained))
        return self

    def callback(self, name: str, what: str, partitions: Ps) -> Reconciled:
        for edge in ("begin", "end"):
            self.tell(f"{what}_{edge}", "member", name, generation=self.epoch, partitions=places(partitions))
        self.held[name] -= set(partitions)
        return self

    def rest(self) -> Reconciled:
        counts = {"t": self.partitions}
        self.tell("step", name="stable", generation=self.epoch, topics=counts, adopted_ns=adopted_ns(self.events))
        return self

    def leave(self, name: str) -> Reconciled:
        self.callback(name, "revoke", set(self.held[name]))
        self.remove(name)
        self.tell("stop", "member", name)
        self.tell("exit", member=name, code=0, asked=True)
        return self.aim({member: set() for member in self.target})

    def kill(self, name: str, noticed_ms: float = SESSION_MS) -> Reconciled:
        self.tell("fault_begin", member=name, fault="kill", target=name)
        self.tell("exit", member=name, code=-9, signal="SIGKILL", asked=True)
        self.wait(noticed_ms)
        self.remove(name)
        return self.aim({member: set() for member in self.target})

    def remove(self, name: str) -> Reconciled:
        for record in (CURRENT, TARGET, MEMBER):
            self.record(record, name)
        del self.target[name]
        self.held.pop(name, None)
        return self

    def work(self) -> Reconciled:
        """Each owner consumes one new record of each of its partitions, and commits."""
        for name, partitions in sorted(self.held.items()):
            for p in sorted(partitions):
                at = self._read.get(p, 0)
                place = {"topic": "t", "partition": p}
                self.tell(
                    "ack", "producer", partitioner="default", **place, offset=at, value_id=f"{p}-{at}", predicted=p
                )
                self.tell(
                    "consume", "member", name, offsets=[{**place, "first": at, "last": at, "count": 1, "bytes": 1}]
                )
                self.tell("commit_begin", "member", name, offsets=[{**place, "offset": at + 1}])
                self.tell("offset_committed", "coordlog", **place, offset=at + 1)
                self.tell("commit_ok", "member", name, offsets=[{**place, "offset": at + 1}])
                self._read[p] = at + 1
        return self

    def drained(self) -> Reconciled:
        rows_ = [{"topic": "t", "partition": p, "offset": at} for p, at in sorted(self._read.items())]
        self.tell("step", name="drained", offsets=rows_)
        return self


def churn(client: str = "confluent-consumer") -> Reconciled:
    """Two members join, a third joins, one leaves, one is killed: records flow, and every law that applies holds."""
    story = Reconciled(6, client).join("a", "b").reconcile().work().rest()
    story.join("c").reconcile().work().rest()
    story.leave("b").reconcile().work().rest()
    return story.kill("c").reconcile().work().rest().drained()


def adopted_before_its_record(ms: float) -> Reconciled:
    """a adopts epoch 2 that long before the coordinator's log has a in it."""
    story = _pair().aim({"a": (), "b": ()})
    story.tell("generation", "member", "a", generation=2, protocol="", partitions=places(story.held["a"]))
    story.wait(ms - 1).current("a", 2, story.held["a"])
    story.current("b", 2, story.held["b"])
    return story.rest()


def revoked_after_its_removal(ms: float) -> Reconciled:
    """a leaves; its revoke callback ends that long after the coordinator removed it."""
    story = _pair()
    partitions = set(story.held["a"])
    story.remove("a").held["a"] = partitions
    story.wait(ms - 2).callback("a", "revoke", partitions)
    del story.held["a"]
    story.tell("stop", "member", "a")
    story.tell("exit", member="a", code=0, asked=True)
    return story.aim({"b": ()}).reconcile().rest()


def revoked_after_its_acknowledgement(ms: float) -> Reconciled:
    """a must give 4 to c; its revoke callback ends that long after it acknowledged that."""
    story = _pair().join("c")
    for name, gives in (("a", {4}), ("b", {5})):
        story.current(name, 1, story.held[name] - gives, gives, UNREVOKED)
    story.callback("b", "revoke", {5}).current("b", 2, story.held["b"])
    story.current("a", 2, story.held["a"] - {4})
    story.wait(ms - 2).callback("a", "revoke", {4})
    story.current("c", 2, {4, 5})
    return story.adopt("c", {4, 5}).rest()


def grown(noticed_ms: float) -> Reconciled:
    """``t`` gets a seventh partition, and the target has it that long after."""
    story = _pair()
    change = story.tell("admin_change", change="add_partitions", target="t", topics={"t": 7})
    story.partitions = 7
    trial = copy.deepcopy(story).aim({"a": (), "b": ()})
    took_ms = (trial.events[-1].mono_ns - change.mono_ns) / MS
    return story.wait(noticed_ms - took_ms).aim({"a": (), "b": ()}).reconcile().rest()


def created(noticed_ms: float) -> Reconciled:
    """``t`` is created, which the members' pattern matches, and the target has it that long after."""
    story = Reconciled(0, pattern="^t.*").join("a", "b").reconcile().rest()
    change = story.tell("admin_change", change="create_topic", target="t", topics={"t": 6})
    story.partitions = 6

    def resolved(after: Reconciled) -> Reconciled:
        fields = {"topics": ["t"], "version": 9, "timestamp": 0}
        after.tell("broker_assigned", "coordlog", record=PATTERN, pattern=after.pattern, fields=fields)
        return after.aim({"a": (), "b": ()})

    took_ms = (resolved(copy.deepcopy(story)).events[-1].mono_ns - change.mono_ns) / MS
    return resolved(story.wait(noticed_ms - took_ms)).reconcile().rest()


def told_late(generation: int = 2, given: Ps = (4,)) -> Reconciled:
    """c gets t-4 from a and stands still before it is told; it is removed, a has t-4 again, and c goes on.

    Args:
        generation: Of c's late callback; 2 is the one that gave it t-4.
        given: What the coordinator's log gave it there.
    """
    story = _pair().join("c")
    story.current("a", 1, {0, 2}, {4}, UNREVOKED)
    story.callback("a", "revoke", {4})
    story.current("a", 2, {0, 2})
    story.tell("fault_begin", member="c", fault="stall", target="c")
    story.current("c", 2, given)
    story.wait(SESSION_MS).remove("c").held["c"] = set()
    story.aim({"a": {0, 2, 4}, "b": ()}).reconcile()
    story.tell("generation", "member", "c", generation=generation, protocol="", partitions=places({4}))
    for edge in ("begin", "end"):
        story.tell(f"assigned_{edge}", "member", "c", generation=generation, partitions=places({4}))
    story.callback("c", "lost", {4}).tell("fault_end", member="c", fault="stall", target="c")
    return story.rest()


def _pair() -> Reconciled:
    """Members a (0, 2, 4) and b (1, 3, 5), at rest."""
    return Reconciled(6).join("a", "b").reconcile().work().rest()


def subscribed(name: str, pattern: str = "") -> dict[str, Any]:
    return {
        "instanceId": None, "rackId": None, "clientId": name, "clientHost": "/h",
        "subscribedTopicNames": [] if pattern else ["t"], "subscribedTopicRegex": pattern,
        "rebalanceTimeoutMs": 3000, "serverAssignor": "uniform",
    }  # fmt: skip


def rows(partitions: Ps) -> list[dict[str, Any]]:
    return [{"topicId": IDS["t"], "partitions": sorted(partitions)}] if partitions else []


def places(partitions: Ps) -> list[dict[str, Any]]:
    return partitions_json(TopicPartition("t", p) for p in partitions)
