"""The golden vectors as groups, and a judge of assignments against them; the schema is in tests/vectors/README.md.

A step is one round: cluster, members and what Java answered. Members go through their bytes, as on a real leader.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafka_assignors.core import strategies
from kafka_assignors.core.group import NO_GENERATION, Group, TopicPartition
from kafka_assignors.core.group.assignment import Assignment, owners
from kafka_assignors.core.reading import decode, replay
from kafka_assignors.core.strategy import Decoded
from kafka_assignors.core.wire import protocol, userdata
from tests.support.places import VECTORS

FOLDER = VECTORS / "assignors"
GARBAGE = bytes.fromhex("7fffffff00ff")
MAX_ROUNDS = 3


class Step(NamedTuple):
    """One round of one case."""

    name: str
    row: Mapping[str, Any]
    protocol: str


class Score(NamedTuple):
    """What two sound assignments are compared by; smaller is better, from left to right."""

    sum_of_squares: int
    foreign_racks: int
    moves: int


def rows(file: str) -> list[dict[str, Any]]:
    with (FOLDER / f"{file}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def steps(file: str, default: str = "") -> Iterator[Step]:
    """All rounds of a file, in order."""
    for case in rows(file):
        for number, row in enumerate(case.get("rounds") or [case]):
            yield Step(f"{case['name']}#{number}", row, case.get("assignor", default))


def partitions(step: Step) -> dict[str, int]:
    topics = step.row["cluster"]["topics"]
    return {topic: placement if isinstance(placement, int) else len(placement) for topic, placement in topics.items()}


def racks(step: Step) -> dict[str, list[set[str]]]:
    rack_of = step.row["cluster"].get("brokers", {})
    return {
        topic: [{rack_of[str(b)] for b in replicas if rack_of.get(str(b)) is not None} for replicas in placement]
        for topic, placement in step.row["cluster"]["topics"].items()
        if not isinstance(placement, int)
    }


def subscription_bytes(member: Mapping[str, Any], name: str) -> bytes:
    """The JoinGroup metadata that a member of the vectors sends."""
    owned = [TopicPartition(t, p) for t, ids in (member.get("owned") or {}).items() for p in ids]
    generation = member.get("generation", NO_GENERATION)
    sub_generation = member.get("sub_generation", generation)
    user_data, owned_partitions = None, ()
    if name == "sticky" and member.get("owned") is not None:
        user_data = {"none": None, "garbage": GARBAGE, "v0": protocol.encode_partitions(protocol.by_topic(owned))}.get(
            member.get("ud", "v1"), userdata.encode_sticky(owned, generation)
        )
    elif name == "cooperative-sticky":
        user_data, owned_partitions = userdata.encode_cooperative(generation), tuple(owned)
    subscription = protocol.Subscription(
        tuple(member["topics"]), user_data, owned_partitions, sub_generation, member.get("rack")
    )
    return protocol.encode_subscription(subscription, member.get("sub_version", protocol.VERSION))


def joined(step: Step) -> list[tuple[str, str | None, bytes]]:
    """Member id, instance id and subscription bytes of a step, in JoinGroup order."""
    return [(m["id"], m.get("instance"), subscription_bytes(m, step.protocol)) for m in step.row["members"]]


def reading(step: Step) -> Decoded:
    members = [(m, i, protocol.decode_subscription(data)) for m, i, data in joined(step)]
    return decode(step.protocol, members, partitions(step), racks(step))


def assign(step: Step) -> Assignment:
    return replay(step.protocol, joined(step), partitions(step), racks(step))


def canonical(assignment: Mapping[str, Mapping[str, list[int]]]) -> dict[str, dict[str, list[int]]]:
    return {m: {t: sorted(ids) for t, ids in topics.items() if ids} for m, topics in assignment.items()}


def previous_owners(group: Group) -> dict[TopicPartition, str]:
    """Existing partitions with exactly one claim of the highest generation by a member that still subscribes."""
    all_claims: dict[TopicPartition, list[tuple[int, str, bool]]] = {}
    for member in group.members:
        for tp in set(member.owned):
            if tp.partition in range(group.partitions.get(tp.topic, 0)):
                all_claims.setdefault(tp, []).append((member.generation, member.member_id, tp.topic in member.topics))
    newest = {tp: [c[1] for c in claims if c[0] == max(claims)[0] and c[2]] for tp, claims in all_claims.items()}
    return {tp: claimants[0] for tp, claimants in newest.items() if len(claimants) == 1}


def score(group: Group, assignment: Assignment) -> Score:
    rack = {member.member_id: member.rack for member in group.members}
    now = owners(assignment)
    foreign = sum(
        rack[m] is not None and rack[m] not in (group.racks[tp.topic][tp.partition] if tp.topic in group.racks else ())
        for tp, m in now.items()
    )
    loads = Counter(now.values())
    moves = sum(now.get(tp) != m for tp, m in previous_owners(group).items())
    return Score(sum(n * n for n in loads.values()), foreign, moves)


def java_score(step: Step) -> Score | None:
    """Java's own, of the final state; None where Java fails or leaves the round incomplete (partitions withheld)."""
    metrics = step.row["metrics"].get("final") or step.row["metrics"]
    subscribed = {topic for member in step.row["members"] for topic in member["topics"]}
    expected = sum(n for topic, n in partitions(step).items() if topic in subscribed)
    if step.row["determinism"] == "defect" or sum(metrics.get("loads", ())) != expected:
        return None
    foreign = metrics["racked"] - metrics["rack_matched"] if "racked" in metrics else 0
    return Score(metrics["sumsq"], foreign, metrics["moved"])


def kip54_unbalanced(group: Group, assignment: Assignment) -> list[tuple[str, str]]:
    """Pairs (poor, rich): rich has two or more above poor, one of them of a topic that poor subscribes to."""
    load = {m: sum(map(len, topics.values())) for m, topics in assignment.items()}
    return [
        (poor.member_id, rich)
        for poor in group.members
        for rich in load
        if load[rich] >= load[poor.member_id] + 2 and any(assignment[rich].get(topic) for topic in poor.topics)
    ]


def settle(group: Group) -> tuple[Assignment, int]:
    """Let a cooperative group rebalance, each member claiming what it got, until nothing is withheld; and how often."""
    first_claims = max((member.generation for member in group.members), default=0)
    for round_ in range(1, MAX_ROUNDS + 1):
        assignment = strategies.strategy("cooperative-sticky").place(group)
        members = [
            type(m)(m.member_id, m.topics, m.instance_id, m.rack, owned, first_claims + round_)
            for m in group.members
            for owned in [[(t, p) for t, ids in assignment[m.member_id].items() for p in ids]]
        ]
        subscribed = {topic for m in members for topic in m.topics}
        if sum(len(m.owned) for m in members) == sum(n for t, n in group.partitions.items() if t in subscribed):
            return assignment, round_
        group = Group(members, group.partitions, group.racks)
    raise AssertionError(f"not settled after {MAX_ROUNDS} rounds: {assignment}")
