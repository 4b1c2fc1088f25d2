"""What the time in which partitions have no owner consists of, as far as the coordinator's log shows it. Pure.

The log has the end of each join and the record of each generation. It does not show when a member heard of a rebalance,
which one joined last, or when a callback ran: each part therefore has bounds, and the members on whom it depends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..core.group import TopicPartition
from .broker_group import BrokerMember
from .ownership import Committed

HEARD, ASSIGNED, SECOND, TAKEN, GIVEN = "heard", "assigned", "second round", "taken over", "given"
PARTS: Mapping[str, tuple[str, str]] = {
    HEARD: ("until all had heard of the rebalance and joined", "heartbeat.interval.ms"),
    ASSIGNED: ("while the leader assigned", ""),
    SECOND: ("until those that gave partitions up, and then all others, had joined again", "heartbeat.interval.ms"),
    TAKEN: ("until the new owners' first commits, after their callbacks", ""),
    GIVEN: ("from the release by the old owners to the new owners' next heartbeats", "consumer.heartbeat.interval.ms"),
}
"""Part -> its words, and the setting that bounds it; "" if none does."""


@dataclass(frozen=True)
class StopPart:
    """One part of a stop: the longest of all partitions of a rebalance.

    Args:
        what: One of `PARTS`.
        at_least_ms, at_most_ms: Bounds; None: the log has no bound.
        who: The members on whom it depends: those that had to hear of it, the leader, old or new owners.
        setting: The setting of these members, or of their group, that bounds it; "" if none does.
    """

    what: str
    at_least_ms: float
    at_most_ms: float | None
    who: tuple[str, ...]
    setting: str


def of_classic(  # one generation before, its rounds, and who is who in them
    before: Committed,
    rounds: Sequence[Committed],
    names: Mapping[str, str],
    leader: str | None,
    cooperative: bool,
    silent: Collection[str] = (),
) -> tuple[StopPart, ...]:
    """The parts of a rebalance's stop. Records without the time of their join (very old brokers) have none.

    `before` is the generation before it, `rounds` are its generations, `names` are holder -> name in all of them. If
    `cooperative`, members claimed partitions as they joined, and so kept them until the first generation. `silent`
    holders are gone and may have been silent until their session ended: nobody had to hear of that.
    """
    if not all(generation.joined_ms for generation in rounds):
        return ()
    first, end = rounds[0], rounds[-1]
    was, now = _owners(before), _owners(end)
    staying = before.members.keys() & first.members.keys()
    changed = [tp for tp, holder in now.items() if tp in was and was[tp] != holder]
    given_up = [tp for tp in was if tp not in _owners(first) and was[tp] in staying] if cooperative else []
    # Eager members stop at the beginning of the rebalance, and so does a member that leaves.
    stopped = [tp for tp in was if was[tp] not in silent and (not cooperative or was[tp] not in staying)]
    if not (changed or stopped or given_up):
        return ()
    parts: list[StopPart] = []
    if stopped:
        last = [before.commits[tp].last_ms for tp in stopped if tp in before.commits]
        waited = max(0.0, first.joined_ms - min(last)) if last and first.joined_ms else None
        parts.append(_part(HEARD, 0.0, waited, (names[holder] for holder in staying)))
    assigned = [generation.join_ms for generation in (rounds if stopped else rounds[1:])]
    if assigned:
        parts.append(_part(ASSIGNED, max(assigned), max(assigned), () if leader is None else (leader,)))
    if given_up and len(rounds) > 1:
        waited = end.joined_ms - first.ts_ns / 1e6 if end.joined_ms else None
        parts.append(
            _part(SECOND, 0.0, None if waited is None else max(0.0, waited), {names[was[tp]] for tp in given_up})
        )
    if given_up or stopped:
        owned = [tp for tp in {*changed, *given_up, *stopped} if tp in now]
        taken = [end.commits[tp].first_ns - end.ts_ns for tp in owned if tp in end.commits]
        most = max(taken) / 1e6 if taken and len(taken) == len(owned) else None
        parts.append(_part(TAKEN, 0.0, most, {names[now[tp]] for tp in owned}))
    return tuple(parts)


def _owners(generation: Committed) -> dict[TopicPartition, str]:
    return {tp: holder for holder, tps in generation.assignments.items() for tp in tps}


def _part(what: str, at_least_ms: float, at_most_ms: float | None, who: Iterable[str]) -> StopPart:
    return StopPart(what, at_least_ms, at_most_ms, tuple(sorted(who)), PARTS[what][1])


@dataclass(frozen=True)
class HandOver:
    """A partition of a KIP-848 group without an owner, from one member to another.

    Args:
        tp: The topic-partition, with the topic's id in place of its name.
        epoch: Of the target assignment that was newest when it was given.
        new: The new owner's client id; its member id if it has none.
        released_ms, given_ms: Broker's wall clock at the records of its release and of its assignment.
    """

    tp: TopicPartition
    epoch: int
    new: str
    released_ms: int
    given_ms: int

    @property
    def ms(self) -> int:
        """How long it had no owner."""
        return max(0, self.given_ms - self.released_ms)


@dataclass
class HandOvers:
    """The hand-overs of a KIP-848 group, from the changes of its members' current assignments."""

    done: list[HandOver] = field(default_factory=list)
    _released: dict[TopicPartition, int] = field(default_factory=dict)

    def take(self, ts_ms: int, epoch: int, before: BrokerMember | None, after: BrokerMember | None) -> None:
        """A record has changed a member, at the broker's wall clock `ts_ms`.

        `epoch` is the group's target epoch; a member that was not, or is not, in the group is None.
        """
        had, has = _owned_partitions(before), _owned_partitions(after)
        for tp in had - has:
            self._released[tp] = ts_ms
        for tp in has - had:
            released_ms = self._released.pop(tp, None)
            if released_ms is not None and after is not None:
                self.done.append(HandOver(tp, epoch, after.client_id or after.member_id, released_ms, ts_ms))


def _owned_partitions(member: BrokerMember | None) -> frozenset[TopicPartition]:
    return frozenset() if member is None else member.assigned | member.revoking


def of_broker(done: Iterable[HandOver], epochs: Collection[int]) -> tuple[float, StopPart] | None:
    """The stop in the change to targets of some epochs: partition-ms without an owner, and its part; None for none."""
    mine = [hand_over for hand_over in done if hand_over.epoch in epochs]
    if not mine:
        return None
    longest = max(hand_over.ms for hand_over in mine)
    return float(sum(hand_over.ms for hand_over in mine)), _part(
        GIVEN, longest, longest, {hand_over.new for hand_over in mine}
    )
