"""Damages to the history of a churn, with the law that each breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_assignors.core.wire.protocol import Subscription, encode_subscription
from tests.support.damage.laws import first_row, set_
from tests.support.damage.laws import swapped as swap
from tests.support.histories.story import Story


def give_also(to: str, topic: str, partition: int) -> Callable[[dict[str, Any]], None]:
    """A committed generation gives one more partition to a member."""

    def alter(data: dict[str, Any]) -> None:
        row = {"topic": topic, "partition": partition}
        data["members"] = [
            {**m, "assigned": [*m["assigned"], row]} if m["client_id"] == to else m for m in data["members"]
        ]

    return alter


def give_nobody(topic: str, partition: int) -> Callable[[dict[str, Any]], None]:
    row = {"topic": topic, "partition": partition}

    def alter(data: dict[str, Any]) -> None:
        data["members"] = [{**m, "assigned": [r for r in m["assigned"] if r != row]} for m in data["members"]]

    return alter


def subscribe_to_t_alone(data: dict[str, Any]) -> None:
    only_t = encode_subscription(Subscription(("t",))).hex()
    data["members"] = [{**m, "subscription": only_t} if m["client_id"] == "a" else m for m in data["members"]]


def with_a_hole(data: dict[str, Any]) -> None:
    first, *rest = data["offsets"]
    at = first["first"] + 2
    data["offsets"] = [{**first, "last": at - 1, "count": 2}, {**first, "first": at + 1}, *rest]


def without_a_partition(data: dict[str, Any]) -> None:
    data["partitions"] = data["partitions"][1:]


Damage = Callable[[Story], Story]


DAMAGED: dict[str, tuple[str, Damage]] = {
    "a revoke never came": ("O1", lambda s: s.drop("revoke_end", member="a", nth=1)),
    "a revoke came late": ("O1", lambda s: s.shift("revoke_end", 300, member="a", nth=1)),
    "a revoke came just too late": ("R1", lambda s: s.shift("revoke_end", 300, member="a", nth=1)),
    "a revoke named nothing": ("O1", lambda s: s.change("revoke_end", set_(partitions=[]), member="a", nth=1)),
    "a stopped member kept on": ("O1", lambda s: s.drop("revoke_end", member="b").drop("stop", member="b").drop(
        "exit", member="b")),
    "a killed member lived on": ("O1", lambda s: s.shift("fault_begin", 1400).shift("exit", 1400, member="c")),
    "an assignment came early": ("R1", lambda s: s.shift("assigned_begin", -60, member="d", nth=0)),
    "a partition was given twice": ("O2", lambda s: s.change("generation_committed", give_also("d", "t", 0))),
    "a partition was given twice long ago": (
        "O2", lambda s: s.change("generation_committed", give_also("c", "t", 0), nth=0)),
    "a partition was dropped": ("O3", lambda s: s.change("generation_committed", give_nobody("t", 0))),
    "a partition was dropped, then found": ("O3", lambda s: s.change("generation_committed", give_nobody("u", 2), 1)),
    "a topic had one partition more": ("O3", lambda s: s.change("step", set_(topics={"t": 5, "u": 3}), name="stable")),
    "a partition doesn't exist": ("O3", lambda s: s.change("generation_committed", give_also("a", "t", 99))),
    "a topic isn't subscribed": ("O3", lambda s: s.change("generation_committed", subscribe_to_t_alone)),
    "a topic doesn't exist": ("O3", lambda s: s.change("generation_committed", give_also("a", "other", 0))),
    "a generation fell": ("G1", lambda s: s.change("generation_committed", set_(generation=1), nth=2)),
    "a member adopted less": ("G2", lambda s: s.change("generation", without_a_partition, member="a", nth=0)),
    "a member adopted nothing": ("G2", lambda s: s.change("generation", set_(partitions=[]), member="d")),
    "a member adopted another generation": ("G2", lambda s: s.change("generation", set_(generation=1), member="d")),
    "the elected assignor isn't offered": ("G3", lambda s: s.change("start", set_(assignors=["other"]), member="c")),
    "the vote says otherwise": ("G3", lambda s: [
        s.change("start", set_(assignors=["other", s.protocol]), member=m) for m in "abcd"][-1]),
    "two assignments are swapped": ("A1", lambda s: s.change("generation_committed", swap)),
    "the leader saw fewer partitions": ("A1", lambda s: s.change("assign_begin", set_(topics={"t": 3, "u": 3}))),
    "the last record wasn't consumed": ("C3", lambda s: s.change("consume", first_row(last=-1, count=-1))),
    "the first record wasn't consumed": ("C3", lambda s: s.change("consume", first_row(first=1, count=-1))),
    "a record in between wasn't consumed": ("C3", lambda s: s.change("consume", with_a_hole)),
    "a member consumed nothing": ("C3", lambda s: s.drop("consume")),
    "the partitioner said otherwise": ("K1", lambda s: s.change("ack", set_(predicted=99), nth=7)),
    "a record is missing from the read-back": ("K1", lambda s: s.drop("read_back", nth=3)),
    "another record lies there": ("K1", lambda s: s.change("read_back", set_(value_id="x"), nth=0)),
    "a record lies on another partition": ("K1", lambda s: s.change("read_back", set_(partition=0, offset=999))),
}  # fmt: skip


COOPERATIVE_DAMAGE: dict[str, tuple[str, Damage]] = {
    "a moving partition wasn't revoked": ("O1", lambda s: s.drop("revoke_end", nth=0)),
    "a moving partition was revoked late": ("R1", lambda s: s.shift("revoke_end", 300, nth=0)),
    "a follow-up never came": ("O3", lambda s: s.change("generation_committed", give_nobody("t", 0))),
    "a claim was ignored": ("A1", lambda s: s.change("generation_committed", swap)),
}
