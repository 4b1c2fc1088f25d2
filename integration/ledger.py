"""A history sorted for the laws: per group its generations, processes and intervals; per run its records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.protocol import Subscription, decode_subscription
from kafka_assignors.events import Event

from .history import History
from .names import COOPERATIVE, is_ours
from .timeline import Span, spans

_COUNTING = ("admin_change", "step", "topics", "not_stable")
"""Events that tell partition counts."""


@dataclass(frozen=True)
class Generation:
    """A committed generation with at least one member, decoded.

    Args:
        assigned: member id -> topic-partitions.
        names: member id -> the member's name, which is its client id.
    """

    event: Event
    number: int
    protocol: str
    leader: str
    assigned: Mapping[str, frozenset[TopicPartition]]
    names: Mapping[str, str]

    @classmethod
    def of(cls, event: Event, told: Mapping[str, str | None] | None = None) -> Generation:
        """Read a ``generation_committed`` event.

        Args:
            event: The event.
            told: member id -> name, as members say; a coordinator keeps the client id of a static member whose
                instance id another has taken.
        """
        members = event.data["members"]
        return cls(
            event,
            event.data["generation"],
            event.data.get("protocol", ""),
            event.data.get("leader", ""),
            {m["member_id"]: frozenset(_tps(m["assigned"])) for m in members},
            {m["member_id"]: (told or {}).get(m["member_id"]) or m["client_id"] for m in members},
        )

    def topics_of(self, member_id: str) -> frozenset[str]:
        """A member's subscription.

        Raises:
            WireError: Its bytes aren't a subscription.
        """
        return frozenset(self.subscription_of(member_id).topics)

    def subscription_of(self, member_id: str) -> Subscription:
        """What a member said when it joined.

        Raises:
            WireError: Its bytes aren't a subscription.
        """
        row = next(m for m in self.event.data["members"] if m["member_id"] == member_id)
        return decode_subscription(bytes.fromhex(row["subscription"]))

    @cached_property
    def identities(self) -> Mapping[str, str]:
        """Member id -> what stays while a member stays: its instance id if it is static, else its member id."""
        return {m["member_id"]: m.get("instance_id") or m["member_id"] for m in self.event.data["members"]}

    @cached_property
    def owners(self) -> dict[TopicPartition, str]:
        """Topic-partition -> identity of the member that it was given to."""
        return {tp: self.identities[m] for m, tps in self.assigned.items() for tp in tps}


class GroupRecord:
    """The events of one group, sorted for the laws."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.events: dict[str, list[Event]] = defaultdict(list)  # kind -> events
        self.spans: list[Span] = []
        self.counts: list[tuple[int, Mapping[str, int]]] = []  # mono_ns, topic -> partition count

    @cached_property
    def generations(self) -> list[Generation]:
        """Committed generations with members, in the order of the log."""
        committed = sorted(self.events["generation_committed"], key=lambda e: e.seq)
        told = {member_id: name for member_id, (name, _) in self.processes.items()}
        return [Generation.of(e, told) for e in committed if e.data["members"]]

    @cached_property
    def by_number(self) -> dict[int, Generation]:
        """Committed generations by number; of one that was written again (a static member came back) the last."""
        return {g.number: g for g in self.generations}

    def generation_of(self, number: int, member_id: str | None) -> Generation | None:
        """The committed generation of a number; of one that was written again, the writing that has this member.

        A static member that comes back gets a new member id in the same generation.
        """
        written = [g for g in self._writings[number] if member_id in g.assigned]
        return written[-1] if written else self.by_number.get(number)

    @cached_property
    def _writings(self) -> dict[int, list[Generation]]:
        found: dict[int, list[Generation]] = defaultdict(list)
        for generation in self.generations:
            found[generation.number].append(generation)
        return found

    @cached_property
    def processes(self) -> dict[str, tuple[str | None, int]]:
        """Member id -> (member name, incarnation), as the members themselves say."""
        return {e.member_id: (e.member, e.incarnation) for e in self.events["generation"] if e.member_id}

    @cached_property
    def starts(self) -> dict[tuple[str | None, int], Event]:
        """(member name, incarnation) -> its ``start`` event."""
        return {(e.member, e.incarnation): e for e in self.events["start"]}

    def cooperative(self, member: str | None, incarnation: int) -> bool:
        """Whether a process rebalances incrementally: one eager assignor in its list, and it revokes all (KIP-429)."""
        start = self.starts.get((member, incarnation))
        return start is not None and set(start.data["assignors"]) == {COOPERATIVE}

    def start_of(self, member_id: str) -> Event | None:
        """The ``start`` event of the process that had this member id; None for members that tell nothing."""
        process = self.processes.get(member_id)
        return None if process is None else self.starts.get(process)

    def strategy_of_leader(self, generation: Generation) -> str:
        """What the leader of a generation ran, as the harness names it; ``an assignor:?`` if that isn't known."""
        start = self.start_of(generation.leader)
        if start is None:
            return "an assignor:?"
        asked = start.data.get("config", {}).get("assignors", ())
        offered = dict(zip(start.data["assignors"], asked, strict=False))
        return str(offered.get(generation.protocol, "an assignor:?"))

    def led_by_ours(self, generation: Generation) -> bool:
        """Whether the leader of a generation ran this distribution's strategy of the elected name."""
        return is_ours(self.strategy_of_leader(generation))

    @cached_property
    def views(self) -> dict[tuple[str | None, int], Event]:
        """(leader's member id, generation) -> its ``assign_begin`` event."""
        return {(e.member_id, e.data["generation"]): e for e in self.events["assign_begin"]}

    def count_of(self, topic: str, at_ns: int) -> int | None:
        """Partitions of a topic at a time: the last count known by then, else the first known later."""
        known = [(ns, topics[topic]) for ns, topics in self.counts if topic in topics]
        before = [count for ns, count in known if ns <= at_ns]
        if before:
            return before[-1]
        return known[0][1] if known else None


@dataclass
class RunRecord:
    """A whole run, sorted for the laws."""

    groups: dict[str, GroupRecord]
    acks: list[Event]
    passes: list[tuple[Event, dict[tuple[str, int, int], Event]]]  # read_back step, (topic, partition, offset) -> event
    nacks: int

    @classmethod
    def of(cls, history: History) -> RunRecord:
        """Sort a history's events."""
        groups: dict[str, GroupRecord] = {}
        acks, passes, nacks = [], [], 0
        reading: dict[tuple[str, int, int], Event] = {}
        counts: list[tuple[int, Mapping[str, int]]] = []
        for event in history.events:
            if event.group is not None:
                if event.group not in groups:
                    groups[event.group] = GroupRecord(event.group)
                groups[event.group].events[event.kind].append(event)
            if event.kind == "ack":
                acks.append(event)
            elif event.kind == "nack":
                nacks += 1
            elif event.kind == "read_back":
                data = event.data
                reading[data["topic"], data["partition"], data["offset"]] = event
            elif event.kind == "step" and event.data["name"] == "read_back":
                passes.append((event, reading))
                reading = {}
            if event.kind in _COUNTING and "topics" in event.data:
                counts.append((event.mono_ns, event.data["topics"]))
        for span in spans(history):
            groups[span.interval.group].spans.append(span)
        for record in groups.values():
            record.counts = counts
        return cls(groups, acks, passes, nacks)


def _tps(rows: Iterable[Mapping[str, Any]]) -> Iterator[TopicPartition]:
    return (TopicPartition(row["topic"], row["partition"]) for row in rows)
