"""The rebalances of a group: what caused each, what moved, what of that was needless, and how long partitions stopped.

Pure: generations in, values out; ``docs/glossary.md`` has the definitions. A rebalance is one generation, and the
generations that only hand over what it withheld (cooperative assignors). The log shows who was in each generation with
which subscription, what each member was assigned, and commits. It does not show why a member left, or when a member
stopped consuming: these are reported as unknown or as bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from ..core.fewest import least_moves
from ..core.group import Group, Member, TopicPartition
from . import departures, stops
from .causes import Cause, Restarts, causes, gone_from
from .generations import GroupGeneration, Log, generations, with_one_name_each
from .ownership import LoggedInterval, intervals
from .stops import HandOver, StopPart

_BY_COUNTS = ("range", "roundrobin", "sticky", "cooperative-sticky", "compact-sticky", "uniform")
"""Assignors that balance numbers of partitions: what they move beyond the least is needless."""

_MOST_PLANNED = 200_000
"""Partitions above which the least number of moves is not computed: it would take seconds per rebalance."""


@dataclass(frozen=True)
class Rebalance:
    """One rebalance, or the end of a group: a generation without members.

    Args:
        generations: Its generations, in order; several if a cooperative assignor withheld partitions.
        missing: Generations directly before it that the log doesn't have: never completed, or compacted away.
        ts_ms: Broker's wall clock at which its first generation was committed.
        took_ms: From the completed join to the record of the last generation; None if a record lacks it. Waiting for
            members to join comes before and is not in the log.
        protocol: The elected assignor; None if the group was empty.
        eager: Whether every member revoked all its partitions before it joined; None if no member held any.
        leader: Name of the leader; None if the group was empty, if the broker assigned, or if nobody told it.
        moved: Partitions that went from one holder to another.
        living: Those of them whose old holder is still in the group.
        least: The least number of moves from living members that an optimally balanced assignment needs; None if not
            computed. An assignment that is less even may do with fewer.
        withheld: Partitions of living members that its last generation assigns to nobody: a cooperative assignor moves
            them, and another rebalance came before it handed them over.
        returned: Needless revokes: partitions that their member gave up and got back. An eager group's members give up
            everything before they join; a cooperative assignor may withhold a partition and give it back.
        ownerless: Partitions that had no owner for a time: those that moved, and those that were `returned`.
        at_least_ms, at_most_ms: Bounds on the longest time that a partition had no owner: the log's records prove the
            lower one, commits on both sides the upper one (None: there are none).
        area_at_least_ms, area_at_most_ms: The same bounds on the sum over all partitions, in partition-ms.
        parts: What the longest of these times consists of.
        expired_ms: About the longest time that a partition had no owner, if its member left by an expired session, and
            so was silent for its session timeout before. None if no such partition is known.
        rewritten: Whether it is no rebalance, but the generation before written again.
        by_broker: Whether the broker assigned (KIP-848): the numbers are epochs, and nobody led.
    """

    generations: tuple[int, ...]
    missing: tuple[int, int] | None
    ts_ms: int
    took_ms: float | None
    protocol: str | None
    eager: bool | None
    leader: str | None
    members: int
    causes: tuple[Cause, ...]
    moved: int = 0
    living: int = 0
    least: int | None = None
    returned: int = 0
    ownerless: int = 0
    at_least_ms: float = 0.0
    at_most_ms: float | None = None
    withheld: int = 0
    expired_ms: float | None = None
    area_at_least_ms: float = 0.0
    area_at_most_ms: float | None = None
    parts: tuple[StopPart, ...] = ()
    rewritten: bool = False
    by_broker: bool = False

    @property
    def counted(self) -> bool:
        """Whether it counts as a rebalance: it is neither the end of a group nor a generation written again."""
        return not (self.emptied or self.rewritten)

    @property
    def emptied(self) -> bool:
        """Whether it is the end of the group: its last member is gone, and nobody rebalances."""
        return not self.members

    @property
    def needless(self) -> int | None:
        """Needless moves: those beyond the least; None if the least was not computed, 0 where nothing could move."""
        return None if self.fewest is None else max(0, self.moved - self.fewest)

    @property
    def fewest(self) -> int | None:
        """The fewest moves that it needs: the `least`, and those from members that are gone; None if not computed."""
        if self.causes[:1] and self.causes[0].kind == "first":
            return 0
        return None if self.least is None else self.least + self.moved - self.living

    def as_json(self) -> dict[str, Any]:
        """The rebalance as plain values; `at` is its time as ISO 8601, UTC."""
        at = datetime.fromtimestamp(self.ts_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
        return {**asdict(self), "needless": self.needless, "at": at}


def rebalances(log: Log, last: int | None = None) -> list[Rebalance]:
    """The rebalances in a group's log, in order; all, or the `last` ones.

    Cost: O(generations x partitions), and a plan for each rebalance that is returned.
    """
    return of_generations(generations(log.records), whole=log.whole, last=last)


def of_generations(
    generations: Sequence[GroupGeneration],
    *,
    whole: bool = True,
    last: int | None = None,
    final: Callable[[Rebalance], tuple[Cause, ...]] | None = None,
) -> list[Rebalance]:
    """The rebalances in a group's generations, in order; all, or the `last` ones. Each of these takes a plan.

    `final` tells the final causes of these; None: `Restarts` that has seen all before them.
    """
    pairs = list(apart(with_one_name_each(generations), whole=whole))
    first = max(0, len(pairs) - last) if last else 0
    if final is None:
        restarts = Restarts()
        for rebalance, _ in pairs[:first]:
            restarts.final_causes(rebalance.ts_ms, rebalance.causes)
        final = lambda rebalance: restarts.final_causes(rebalance.ts_ms, rebalance.causes)
    return [replace(rebalance, causes=final(rebalance), least=least()) for rebalance, least in pairs[first:]]


def apart(
    generations: Sequence[GroupGeneration], *, whole: bool, exclusions: Collection[tuple[int, tuple[int, ...]]] = ()
) -> Iterator[tuple[Rebalance, Callable[[], int | None]]]:
    """The rebalances in a group's generations, in order, before `Restarts` has told who restarted.

    Each comes with the computation of its `least`, which costs more than all the rest. `whole` says whether the log
    begins with these generations; `exclusions` are the time and the generations of rebalances that are left out.

    Cost: O(generations x partitions).
    """
    rebalanced = list(rounds_of(generations))
    gone = gone_from(generations)
    why = {(g.committed.generation, holder): how for g, absentees in zip(generations, gone, strict=True)
              for holder, how in absentees.items()}  # fmt: skip
    spans: dict[tuple[int, int], list[LoggedInterval]] = {}
    for span in intervals([g.committed for g in generations], why):
        spans.setdefault((span.generation_start, span.start_ns), []).append(span)
    before: GroupGeneration | None = None
    at = 0
    for rounds in rebalanced:
        if (rounds[0].ts_ms, _numbers(rounds)) not in exclusions:
            yield _rebalance(whole, before, rounds, gone[at], spans), partial(_least, before, rounds[-1])
        # A withheld partition keeps its last holder until a member gets it.
        holders = before.last_owners if before is not None and rounds[-1].called else {}
        before = replace(rounds[-1], last_owners={**holders, **rounds[-1].owners})
        at += len(rounds)


def rounds_of(generations: Sequence[GroupGeneration]) -> Iterator[list[GroupGeneration]]:
    """The generations of each rebalance: a generation, and those that hand over what it withheld."""
    rounds: list[GroupGeneration] = []
    base: Mapping[TopicPartition, str] = {}  # owners before the first of them
    for now in generations:
        if rounds:
            last = rounds[-1]
            withheld = base.keys() - last.owners.keys()
            same = last.called.keys() == now.called.keys() and last.topics == now.topics
            if same and last.may_have_claimed and withheld & now.owners.keys():
                rounds.append(now)
                continue
            yield rounds
            base = last.owners
        rounds = [now]
    if rounds:
        yield rounds


def _rebalance(
    whole: bool,
    before: GroupGeneration | None,
    rounds: Sequence[GroupGeneration],
    gone: Mapping[str, str],
    spans: Mapping[tuple[int, int], Sequence[LoggedInterval]],
) -> Rebalance:
    now, end = rounds[0], rounds[-1]
    numbers = _numbers(rounds)
    began = dict.fromkeys((g.number, g.committed.begin_ns) for g in rounds)
    mine = [span for key in began for span in spans.get(key, ()) if span.gap_at_least_ms is not None]
    at_most = [span.gap_at_most_ms for span in mine if span.gap_at_most_ms is not None]
    took = [g.committed.join_ms for g in rounds] if all(g.committed.joined_ms for g in rounds) else []
    rebalance = Rebalance(
        numbers, _missing(before, now), now.ts_ms,
        end.committed.ts_ns / 1e6 - (now.committed.joined_ms or 0) if took else None,
        end.value.protocol, _eager(before, now), _leader(end), len(end.called),
        tuple(causes(whole, before, now, end, gone)),
        returned=sum(span.returned for span in mine), ownerless=len(mine),
        at_least_ms=max((span.gap_at_least_ms or 0.0 for span in mine), default=0.0),
        at_most_ms=max(at_most) if mine and len(at_most) == len(mine) else None,
        area_at_least_ms=sum(span.gap_at_least_ms or 0.0 for span in mine),
        area_at_most_ms=sum(at_most) if mine and len(at_most) == len(mine) else None,
        by_broker=end.by_broker,
    )  # fmt: skip
    if before is None:
        return rebalance
    moved = [(tp, old) for tp, old in before.last_owners.items() if tp in end.owners and end.owners[tp] != old]
    living = sum(old in end.called for _, old in moved)
    return replace(
        rebalance, moved=len(moved), living=living, withheld=len(_withheld(before, end)),
        expired_ms=_expired_ms(before, gone, mine),
        parts=() if rebalance.by_broker else _parts(before, rounds, rebalance, gone),
        rewritten=now.rewrites(before),
    )  # fmt: skip


def _parts(
    before: GroupGeneration, rounds: Sequence[GroupGeneration], rebalance: Rebalance, gone: Mapping[str, str]
) -> tuple[StopPart, ...]:
    silent = {holder for holder, how in gone.items() if how == departures.UNPROVEN}
    called = {holder: name for generation in (before, *rounds) for holder, name in generation.called.items()}
    committed = [generation.committed for generation in rounds]
    return stops.of_classic(before.committed, committed, called, rebalance.leader, rebalance.eager is False, silent)


def with_hand_overs(rebalances: Iterable[Rebalance], done: Sequence[HandOver]) -> list[Rebalance]:
    """The rebalances of a KIP-848 group with the times in which partitions had no owner, from the hand-overs `done`."""
    completed_rebalances = []
    for rebalance in rebalances:
        stop = stops.of_broker(done, rebalance.generations) if rebalance.by_broker else None
        if stop is not None:
            area, part = stop
            longest = part.at_least_ms
            rebalance = replace(
                rebalance, at_least_ms=longest, at_most_ms=longest, area_at_least_ms=area, area_at_most_ms=area,
                parts=(part,),
            )  # fmt: skip
        completed_rebalances.append(rebalance)
    return completed_rebalances


def _withheld(before: GroupGeneration, end: GroupGeneration) -> set[TopicPartition]:
    """Partitions withheld from living members. Eager assignors and brokers assign all: what `end` lacks is deleted."""
    if end.value.leader is None or not end.claimed:
        return set()
    there = {tp.topic for tp in end.owners}  # a topic without any owner is unassigned, not handed over
    return {
        tp for tp, old in before.last_owners.items() if tp not in end.owners and tp.topic in there and old in end.called
    }


def _expired_ms(before: GroupGeneration, gone: Mapping[str, str], spans: Sequence[LoggedInterval]) -> float | None:
    """`Rebalance.expired_ms`. A KIP-848 group's session timeout is the broker's, and not in its records: None."""
    silent = {
        holder: before.members[holder].session_timeout_ms for holder, how in gone.items() if how == departures.UNPROVEN
    }
    silences_ms = [
        (span.gap_at_least_ms or 0.0) + timeout_ms
        for span in spans
        if (timeout_ms := silent.get(before.owners.get(span.tp, ""), 0)) > 0
    ]
    return max(silences_ms, default=None)


def _numbers(rounds: Sequence[GroupGeneration]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(g.value.generation for g in rounds))


def _missing(before: GroupGeneration | None, now: GroupGeneration) -> tuple[int, int] | None:
    if before is None or now.value.generation <= before.value.generation + 1:
        return None
    return before.value.generation + 1, now.value.generation - 1


def _eager(before: GroupGeneration | None, now: GroupGeneration) -> bool | None:
    """Whether the members are eager: cooperative members claim partitions as they join, eager ones have revoked all."""
    holders = {owner for owner in before.last_owners.values() if owner in now.called} if before else set()
    claims = [
        bool(subscription.owned)
        for holder, subscription in now.subscriptions.items()
        if subscription is not None and holder in holders
    ]
    return not any(claims) if claims else None


def _leader(generation: GroupGeneration) -> str | None:
    return next(
        (generation.called[h] for h, m in generation.members.items() if m.member_id == generation.value.leader), None
    )


def _least(before: GroupGeneration | None, end: GroupGeneration) -> int | None:
    """The least moves between living members by which an optimally balanced assignment is reached.

    None where moves may serve another end than equal numbers of partitions: racks, work, or an unknown assignor's.
    """
    if before is None or not end.called or end.value.protocol not in _BY_COUNTS or len(end.owners) > _MOST_PLANNED:
        return None
    if any(subscription is None or subscription.rack for subscription in end.subscriptions.values()):
        return None
    owned: dict[str, list[TopicPartition]] = {}
    for tp, holder in before.last_owners.items():
        owned.setdefault(holder, []).append(tp)
    counts: Counter[str] = Counter()
    for tp in end.owners.keys() | _withheld(before, end):
        counts[tp.topic] = max(counts[tp.topic], tp.partition + 1)
    members = [
        Member(holder, subscription.topics, None, None, owned.get(holder, ()), 1 if holder in owned else -1)
        for holder, subscription in end.subscriptions.items()
        if subscription is not None
    ]
    return least_moves(Group(members, counts)) if members else None
