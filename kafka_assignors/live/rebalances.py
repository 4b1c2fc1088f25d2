"""Why a group rebalanced: causes, moves and costs of each rebalance, from the coordinator's log. Pure.

A rebalance is one generation, and the generations that only hand over what it withheld (cooperative assignors). The log
shows who was in each generation with which subscription, what each member was assigned, and commits. It does not show
why a member left, or when a member stopped consuming: these are reported as unknown or as bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from itertools import pairwise
from typing import Any

from ..core.group import Group, Member, TopicPartition
from ..core.wire.protocol import Subscription, decode_subscription
from ..errors import WireError
from ..history import departures, stops
from ..history.coordinator_log import CommittedMember, GroupCommitted, OffsetCommitted, assigned
from ..history.ownership import Commits, Committed, Interval, intervals
from ..history.stops import HandOver, Part
from ..plans.plan import least_moves
from .cluster import Log, Logged
from .group import LiveMember, names

KINDS = (
    "first", "joined", "left", "left or expired", "restarted", "rejoined", "returned", "subscription", "partitions",
    "unassigned", "assignor", "unexplained",
)  # fmt: skip
"""Kinds of a `Cause`."""

RESTART_MS = 60_000
"""A client that is back on its host within this time has restarted."""

_GONE = ("left", "left or expired")

_BY_COUNTS = ("range", "roundrobin", "sticky", "cooperative-sticky", "compact-sticky", "uniform")
"""Assignors that balance numbers of partitions: what they move beyond the least is needless."""

_MOST_PLANNED = 200_000
"""Partitions above which the least number of moves is not computed: it would take seconds per rebalance."""


@dataclass(frozen=True)
class Cause:
    """One difference between two generations.

    Args:
        kind: One of `KINDS`.
        who: Name of the member; "" if the cause is not a member.
        client_id, host, member_id, instance_id: Those of the member; otherwise "".
        detail: What changed, for people; "" if the kind says it.
        away_ms: How long after it was found gone the member was back, by the records of the two rebalances; None if it
            was not gone.
    """

    kind: str
    who: str = ""
    client_id: str = ""
    host: str = ""
    detail: str = ""
    member_id: str = ""
    instance_id: str = ""
    away_ms: int | None = None


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
        leader: Name of the leader; None if the group was empty, or if the broker assigned.
        members: Number of members.
        causes: What changed since the rebalance before.
        moved: Partitions that went from one holder to another.
        living: Those of them whose old holder is still in the group.
        least: The least number of moves from living members that an optimally balanced assignment needs; None if not
            computed. An assignment that is less even may do with fewer.
        withheld: Partitions of living members that its last generation assigns to nobody: a cooperative assignor moves
            them, and another rebalance came before it handed them over.
        returned: Partitions that were taken from a holder, left without an owner, and given back to it.
        ownerless: Partitions whose owner changed or that were withheld.
        at_least_ms, at_most_ms: Bounds on the longest time that a partition had no owner: the log's records prove the
            lower one, commits on both sides the upper one (None: there are none).
        area_at_least_ms, area_at_most_ms: The same bounds on the sum over all partitions, in partition-ms.
        parts: What the longest of these times consists of.
        expired_ms: About the longest time that a partition had no owner, if the session of a member that left or
            expired expired: it was silent for its session timeout. None if there is no such member, or it had none.
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
    parts: tuple[Part, ...] = ()

    @property
    def emptied(self) -> bool:
        """Whether it is the end of the group: its last member is gone, and nobody rebalances."""
        return not self.members

    @property
    def by_broker(self) -> bool:
        """Whether the broker assigned (KIP-848): the numbers are epochs, and nobody led."""
        return self.leader is None and self.protocol is not None

    @property
    def needless(self) -> int | None:
        """Moves beyond the least, plus partitions taken and given back; None if the least was not computed."""
        return None if self.least is None else max(0, self.living - self.least) + self.returned

    def as_json(self) -> dict[str, Any]:
        """The rebalance as plain values; `at` is its time as ISO 8601, UTC."""
        at = datetime.fromtimestamp(self.ts_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
        return {
            **asdict(self), "needless": self.needless, "by_broker": self.by_broker, "at": at,
        }  # fmt: skip


@dataclass(frozen=True)
class Generation:
    """A generation as the log has it, in the terms of `history.ownership` and with what the causes need."""

    value: GroupCommitted
    committed: Committed
    called: Mapping[str, str]  # holder -> name
    members: Mapping[str, CommittedMember]  # holder -> member
    said: Mapping[str, Subscription | None]  # holder -> subscription; None: not the consumer protocol's bytes
    owners: Mapping[TopicPartition, str]  # topic-partition -> holder
    held: Mapping[TopicPartition, str] = field(
        default_factory=dict
    )  # the same, plus the last holders of partitions without an owner

    @property
    def ts_ms(self) -> int:
        """Broker's wall clock at which it was committed."""
        return self.committed.ts_ns // 1_000_000

    @property
    def topics(self) -> dict[str, frozenset[str]]:
        """Holder -> its subscription; without holders whose bytes are not the consumer protocol's."""
        return {holder: frozenset(said.topics) for holder, said in self.said.items() if said is not None}


def rebalances(log: Log, last: int | None = None) -> list[Rebalance]:
    """The rebalances in a group's log, in order.

    Args:
        log: The group's records.
        last: Only the last ones.

    Cost: O(generations x partitions), and a plan for each rebalance that is returned.
    """
    found: list[Generation] = []
    for record in log.records:
        add(found, record)
    restarts, told = Restarts(), list(apart(found, whole=log.whole))
    first = max(0, len(told) - last) if last else 0
    each = (restarts.told(rebalance) for rebalance, _ in told)
    return [replace(rebalance, least=least()) for rebalance, (_, least) in list(zip(each, told, strict=True))[first:]]


def apart(
    found: Sequence[Generation], *, whole: bool, known: Collection[tuple[int, tuple[int, ...]]] = ()
) -> Iterator[tuple[Rebalance, Callable[[], int | None]]]:
    """The rebalances in a group's generations, in order, before `Restarts` has told who restarted.

    Each comes with the computation of its `least`, which costs more than all the rest.

    Args:
        found: The generations, as `add` made them.
        whole: Whether the log begins with them, see `Log.whole`.
        known: Time and generations of rebalances that are left out.

    Cost: O(generations x partitions).
    """
    rebalanced = list(_grouped(found))
    gone = _gone(found)
    causes = {(g.committed.generation, holder): how for g, each in zip(found, gone, strict=True)
              for holder, how in each.items()}  # fmt: skip
    spans: dict[int, list[Interval]] = {}
    for span in intervals([g.committed for g in found], causes):
        spans.setdefault(span.generation_start, []).append(span)
    before: Generation | None = None
    at = 0
    for rounds in rebalanced:
        if (rounds[0].ts_ms, _numbers(rounds)) not in known:
            yield _told(whole, before, rounds, gone[at], spans), partial(_least, before, rounds[-1])
        # A withheld partition keeps its last holder until a member gets it.
        held = before.held if before is not None and rounds[-1].called else {}
        before = replace(rounds[-1], held={**held, **rounds[-1].owners})
        at += len(rounds)


def add(found: list[Generation], record: Logged) -> bool:
    """Add a group's next record to its generations: a new one, or a commit in the last one. Each is decoded once.

    Returns:
        Whether it is a new generation. Joins that no leader has answered yet are none, nor are groups of other types,
        nor is generation 0, as which the coordinator writes a new group before its first member has joined.
    """
    ts_ms, value = record.ts_ms, record.value
    if isinstance(value, OffsetCommitted) and found:
        commits: dict[TopicPartition, Commits] = found[-1].committed.commits  # type: ignore[assignment]
        tp = TopicPartition(value.topic, value.partition)
        begin = commits[tp].first_ns if tp in commits else ts_ms * 1_000_000
        commits[tp] = Commits(begin, ts_ms * 1_000_000, ts_ms)
        return False
    if not isinstance(value, GroupCommitted) or value.protocol_type not in ("consumer", ""):
        return False
    if value.members and not any(member.assignment for member in value.members):
        return False
    if not value.members and not value.generation:
        return False
    found.append(_generation(ts_ms, value))
    return True


def _generation(ts_ms: int, value: GroupCommitted) -> Generation:
    holders = {member.instance_id or member.member_id: member for member in value.members}
    said: dict[str, Subscription | None] = {}
    held: dict[str, frozenset[TopicPartition]] = {}
    for holder, member in holders.items():
        try:
            said[holder] = decode_subscription(member.subscription)
            held[holder] = frozenset(assigned(member))
        except WireError:
            said[holder], held[holder] = None, frozenset()
    timeouts = {
        holder: least
        for holder, member in holders.items()
        if (least := min(member.session_timeout_ms, member.rebalance_timeout_ms)) > 0
    }
    committed = Committed(
        value.generation, ts_ms * 1_000_000, ts_ms * 1_000_000, value.ts_ms if value.ts_ms > 0 else None,
        {holder: member.member_id for holder, member in holders.items()}, timeouts, held, {},
    )  # fmt: skip
    by_id = names(
        LiveMember(m.member_id, m.client_id, m.client_host, frozenset(), (), m.instance_id) for m in value.members
    )
    called = {holder: by_id[member.member_id] for holder, member in holders.items()}
    owners = {tp: holder for holder, tps in held.items() for tp in tps}
    return Generation(value, committed, called, holders, said, owners)


def _grouped(found: Sequence[Generation]) -> Iterator[list[Generation]]:
    """Generations that belong to one rebalance: a generation, and those that hand over what it withheld."""
    rounds: list[Generation] = []
    base: Mapping[TopicPartition, str] = {}  # owners before the first of them
    for now in found:
        if rounds:
            last = rounds[-1]
            withheld = base.keys() - last.owners.keys()
            same = last.called.keys() == now.called.keys() and last.topics == now.topics
            claimed = any(said is not None and said.owned for said in last.said.values())
            if same and claimed and withheld & now.owners.keys():
                rounds.append(now)
                continue
            yield rounds
            base = last.owners
        rounds = [now]
    if rounds:
        yield rounds


def _gone(found: Sequence[Generation]) -> list[dict[str, str]]:
    """Per generation: holders of the generation before that it lacks -> what the log proves of their departure."""
    told: list[dict[str, str]] = [{} for _ in found[:1]]
    joined: dict[str, list[Committed]] = {}  # holder -> the generations since its last absence
    for before, now in pairwise(found):
        for holder in before.called:
            joined.setdefault(holder, []).append(before.committed)
        gone = {}
        for holder in before.called.keys() - now.called.keys():
            seen = max((ms for g in joined.pop(holder) if (ms := g.last_seen_ms(holder)) is not None), default=None)
            gone[holder] = departures.cause(seen, now.committed.joined_ms, before.committed.timeouts.get(holder))
        told.append(gone)
    return told


def _told(
    whole: bool,
    before: Generation | None,
    rounds: Sequence[Generation],
    gone: Mapping[str, str],
    spans: Mapping[int, Sequence[Interval]],
) -> Rebalance:
    now, end = rounds[0], rounds[-1]
    numbers = _numbers(rounds)
    mine = [span for number in numbers for span in spans.get(number, ()) if span.gap_at_least_ms is not None]
    at_most = [span.gap_at_most_ms for span in mine if span.gap_at_most_ms is not None]
    took = [g.committed.join_ms for g in rounds] if all(g.committed.joined_ms for g in rounds) else []
    told = Rebalance(
        numbers, _missing(before, now), now.ts_ms,
        end.committed.ts_ns / 1e6 - (now.committed.joined_ms or 0) if took else None,
        end.value.protocol, _eager(before, now), _leader(end), len(end.called),
        tuple(_causes(whole, before, now, end, gone)),
        returned=sum(span.needless for span in mine), ownerless=len(mine),
        at_least_ms=max((span.gap_at_least_ms or 0.0 for span in mine), default=0.0),
        at_most_ms=max(at_most) if mine and len(at_most) == len(mine) else None,
        area_at_least_ms=sum(span.gap_at_least_ms or 0.0 for span in mine),
        area_at_most_ms=sum(at_most) if mine and len(at_most) == len(mine) else None,
    )  # fmt: skip
    if before is None:
        return told
    moved = [(tp, old) for tp, old in before.held.items() if tp in end.owners and end.owners[tp] != old]
    living = sum(old in end.called for _, old in moved)
    return replace(
        told, moved=len(moved), living=living, withheld=len(_withheld(before, end)),
        expired_ms=_expired_ms(before, gone, mine), parts=() if told.by_broker else _parts(before, rounds, told, gone),
    )  # fmt: skip


def _parts(
    before: Generation, rounds: Sequence[Generation], told: Rebalance, gone: Mapping[str, str]
) -> tuple[Part, ...]:
    silent = {holder for holder, how in gone.items() if how == departures.UNPROVEN}
    called = {holder: name for each in (before, *rounds) for holder, name in each.called.items()}
    committed = [each.committed for each in rounds]
    return stops.of_classic(before.committed, committed, called, told.leader, told.eager is False, silent)


def with_hand_overs(found: Iterable[Rebalance], done: Sequence[HandOver]) -> list[Rebalance]:
    """The rebalances of a KIP-848 group with the times in which partitions had no owner.

    Args:
        found: The rebalances.
        done: The group's hand-overs, as `broker_side.Targets` found them.
    """
    told = []
    for each in found:
        stop = stops.of_broker(done, each.generations) if each.by_broker else None
        if stop is not None:
            area, part = stop
            longest = part.at_least_ms
            each = replace(
                each,
                at_least_ms=longest,
                at_most_ms=longest,
                area_at_least_ms=area,
                area_at_most_ms=area,
                parts=(part,),
            )
        told.append(each)
    return told


def _withheld(before: Generation, end: Generation) -> set[TopicPartition]:
    """See `Rebalance.withheld`. Eager assignors and brokers assign all that there is: what lacks there is deleted."""
    if end.value.leader is None or not any(said is not None and said.owned for said in end.said.values()):
        return set()
    there = {tp.topic for tp in end.owners}  # a topic without any owner is unassigned, not handed over
    return {tp for tp, old in before.held.items() if tp not in end.owners and tp.topic in there and old in end.called}


def _expired_ms(before: Generation, gone: Mapping[str, str], spans: Sequence[Interval]) -> float | None:
    """See `Rebalance.expired_ms`. A KIP-848 group's session timeout is the broker's, and not in its records."""
    silent = {
        holder: before.members[holder].session_timeout_ms for holder, how in gone.items() if how == departures.UNPROVEN
    }
    each = [
        (span.gap_at_least_ms or 0.0) + timeout_ms
        for span in spans
        if (timeout_ms := silent.get(before.owners.get(span.tp, ""), 0)) > 0
    ]
    return max(each, default=None)


def _numbers(rounds: Sequence[Generation]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(g.value.generation for g in rounds))


def _missing(before: Generation | None, now: Generation) -> tuple[int, int] | None:
    if before is None or now.value.generation <= before.value.generation + 1:
        return None
    return before.value.generation + 1, now.value.generation - 1


def _eager(before: Generation | None, now: Generation) -> bool | None:
    """Whether the members are eager: cooperative members claim partitions as they join, eager ones have revoked all."""
    held = {owner for owner in before.held.values() if owner in now.called} if before else set()
    claims = [bool(said.owned) for holder, said in now.said.items() if said is not None and holder in held]
    return not any(claims) if claims else None


def _leader(generation: Generation) -> str | None:
    return next(
        (generation.called[h] for h, m in generation.members.items() if m.member_id == generation.value.leader), None
    )


def _causes(
    whole: bool, before: Generation | None, now: Generation, end: Generation, gone: Mapping[str, str]
) -> Iterator[Cause]:
    if before is None:
        fresh = 1 if now.value.leader is not None else 2  # the broker's first target of a group has epoch 2
        cut = "" if whole and now.value.generation <= fresh else "what was before it is not in the log"
        yield Cause("first", detail=cut)
        return
    for holder in sorted(gone, key=before.called.__getitem__):
        kind = "left" if gone[holder] == departures.LEFT else "left or expired"
        limit = before.committed.timeouts.get(holder)
        yield _of_member(
            kind, before, holder, f"its timeout was {limit / 1000:g} s" if kind != "left" and limit else ""
        )
    for holder in sorted(now.called.keys() - before.called.keys(), key=now.called.__getitem__):
        yield _of_member("joined", now, holder)
    for holder in sorted(now.called.keys() & before.called.keys(), key=now.called.__getitem__):
        if now.members[holder].member_id != before.members[holder].member_id:
            yield _of_member("returned", now, holder, "a static member, with a new member id")
        was, said = before.topics.get(holder), now.topics.get(holder)
        if was is not None and said is not None and was != said:
            signs = [*(f"+{topic}" for topic in sorted(said - was)), *(f"-{topic}" for topic in sorted(was - said))]
            yield _of_member("subscription", now, holder, " ".join(signs))
    yield from _of_topics(before, end)
    if before.value.protocol and now.value.protocol and before.value.protocol != now.value.protocol:
        yield Cause("assignor", detail=f"{before.value.protocol} -> {now.value.protocol}")


def _of_topics(before: Generation, end: Generation) -> Iterator[Cause]:
    """Topics that grew or went, as far as assignments show it: the log has no partition counts."""
    if not before.held and before.value.leader is not None:
        return  # a leader that knew no topic yet
    was, held, has = (Counter(tp.topic for tp in each) for each in (before.owners, before.held, end.owners))
    still = frozenset[str]().union(*before.topics.values()) & frozenset[str]().union(*end.topics.values())
    for topic in sorted(still):
        if has[topic] > held[topic]:
            yield Cause("partitions", detail=f"{topic}: {held[topic]} -> {has[topic]} assigned")
        elif has[topic] and not was[topic]:
            yield Cause("partitions", detail=f"{topic}: its {has[topic]} partitions are assigned again")
        elif was[topic] and not has[topic]:
            why = "it was deleted, or the leader didn't see it"
            yield Cause("unassigned", detail=f"{topic}: none of its {was[topic]} partitions is assigned; {why}")


def _of_member(kind: str, generation: Generation, holder: str, detail: str = "") -> Cause:
    member = generation.members[holder]
    return Cause(
        kind, generation.called[holder], member.client_id, _host(member), detail, member.member_id,
        member.instance_id or "",
    )  # fmt: skip


def _host(member: CommittedMember) -> str:
    return member.client_host.removeprefix("/")


def _least(before: Generation | None, end: Generation) -> int | None:
    """The least moves between living members by which an optimally balanced assignment is reached.

    None where moves may serve another end than equal numbers of partitions: racks, work, or an unknown assignor's.
    """
    if before is None or not end.called or end.value.protocol not in _BY_COUNTS or len(end.owners) > _MOST_PLANNED:
        return None
    if any(said is None or said.rack for said in end.said.values()):
        return None
    held: dict[str, list[TopicPartition]] = {}
    for tp, holder in before.held.items():
        held.setdefault(holder, []).append(tp)
    counts: Counter[str] = Counter()
    for tp in end.owners.keys() | _withheld(before, end):
        counts[tp.topic] = max(counts[tp.topic], tp.partition + 1)
    members = [
        Member(holder, said.topics, None, None, held.get(holder, ()), 1 if holder in held else -1)
        for holder, said in end.said.items()
        if said is not None
    ]
    return least_moves(Group(members, counts)) if members else None


class Restarts:
    """Reports members that left and are back within `RESTART_MS` as restarted, rejoined or returned.

    The same member id is the same process: a KIP-848 member keeps its id for life, and joins with it again after it was
    fenced. The same instance id is the same static member. Otherwise a client that is back on its host has restarted:
    the coordinator gives each process of a classic client another member id, and also one that it had removed.

    It remembers who left in the last `RESTART_MS`, and therefore takes each rebalance once, in order.
    """

    def __init__(self) -> None:
        self._left: list[tuple[int, Cause]] = []  # when each was found gone, in order

    def told(self, rebalance: Rebalance) -> Rebalance:
        """The rebalance with its last causes: those of the log, or a member that is back, or unexplained."""
        left = [(ms, gone) for ms, gone in self._left if rebalance.ts_ms - ms <= RESTART_MS]
        left += [(rebalance.ts_ms, cause) for cause in rebalance.causes if cause.kind in _GONE]
        causes = list(rebalance.causes)
        joined = [cause for cause in causes if cause.kind == "joined"]
        for key, kind, what in _BACK:
            known: dict[Any, list[tuple[int, Cause]]] = {}
            for each in left:
                known.setdefault(key(each[1]), []).append(each)
            for cause in joined:
                if (mine := key(cause)) is None or not known.get(mine) or cause not in causes:
                    continue
                since, gone = was = known[mine].pop(0)
                left.remove(was)
                away_ms = rebalance.ts_ms - since
                causes.remove(cause)
                if not away_ms:
                    causes.remove(gone)
                when = f"back {away_ms / 1000:.1f} s after it was gone" if away_ms else "gone and back in one rebalance"
                causes.append(replace(cause, kind=kind, detail=f"{when}{what}", away_ms=away_ms))
        self._left = left
        if not causes:
            causes = [Cause("unexplained", detail="same members, same subscriptions: one of them asked to rejoin")]
        return replace(rebalance, causes=tuple(causes))


_BACK: tuple[tuple[Callable[[Cause], Any], str, str], ...] = (
    (lambda member: member.member_id, "rejoined", ", with the same member id"),
    (lambda member: member.instance_id or None, "returned", ", a static member"),
    (lambda member: (member.client_id, member.host), "restarted", ""),
)
"""What the member that is gone and the one that joined have in common, the surest first -> the kind, what to add."""


def advice(found: Sequence[Rebalance]) -> list[str]:
    """What to change, one sentence each, with the numbers that support it; nothing that the log doesn't show."""
    told = []
    causes = [cause for each in found for cause in each.causes]
    restarts = [cause for cause in causes if cause.kind == "restarted" and not cause.instance_id]
    if restarts:
        told.append(
            f"{_many(len(restarts), 'restart')} of {_counted(restarts)}: with group.instance.id set, a new process "
            "that is back within its session timeout causes no rebalance. (If a process lived on, it had exceeded "
            "max.poll.interval.ms, or its session expired.)"
        )
    if returned := [cause for cause in causes if cause.kind == "returned" and cause.away_ms is not None]:
        told.append(
            f"{_counted(returned)} came back after the coordinator had removed it, although it has an instance id: "
            "with a session.timeout.ms above the time that a restart takes, it causes no rebalance."
        )
    if rejoined := [cause for cause in causes if cause.kind == "rejoined"]:
        told.append(
            f"{_counted(rejoined)} joined again with the member id that it had, so its process lived on: it had "
            "unsubscribed, or paused for longer than its session timeout or max.poll.interval.ms."
        )
    if expired := [cause for cause in causes if cause.kind == "left or expired"]:
        told.append(
            f"{_counted(expired)} left or expired (the log can't say which): if nobody stopped it, compare its "
            "processing time per poll with max.poll.interval.ms, and its pauses with session.timeout.ms."
        )
    needless: dict[str, int] = {}
    for each in found:
        if each.needless and each.protocol and not each.by_broker:
            needless[each.protocol] = needless.get(each.protocol, 0) + each.needless
    for protocol, many in needless.items():
        if protocol != "cooperative-sticky":
            told.append(
                f"{protocol} moved {_many(many, 'partition')} needlessly: cooperative-sticky keeps them where they are "
                "(plan shows it; vote tells the order of bounces)."
            )
        else:
            told.append(
                f"{protocol} moved {_many(many, 'partition')} more than an optimal plan: a leader with the assignors "
                "of kafka-assignors moves the least."
            )
    if (stopped := sum(bool(each.eager) for each in found)) and sum(not each.emptied for each in found) > 1:
        told.append(
            f"{_many(stopped, 'rebalance')} stopped every member: no member claimed a partition when it joined (eager "
            "protocol); a cooperative assignor stops only what moves."
        )
    told += _shorter(found)
    if unexplained := sum(cause.kind == "unexplained" for cause in causes):
        told.append(
            f"{_many(unexplained, 'rebalance')} without a visible cause: the leader asked again (metadata changed, "
            "enforceRebalance), or a member sent other user data."
        )
    return told


def _counted(causes: Sequence[Cause], most: int = 3) -> str:
    """The members of causes, the most frequent first, and how many more there are."""
    clients = Counter(cause.who for cause in causes)
    named = ", ".join(f"{who} ({n}x)" if n > 1 else who for who, n in clients.most_common(most))
    return named + (f" and {len(clients) - most:,} more" if len(clients) > most else "")


_LONG_MS, _LONG_ASSIGN_MS = 500.0, 1000.0
"""Above this a part of a stop is worth a setting; the leader's own time above that."""
_SHORT_BEAT_MS = 1000


def _shorter(found: Sequence[Rebalance]) -> Iterator[str]:
    """Which setting of whom shortens the stops, by their longest parts."""
    longest: dict[str, Part] = {}
    for part in (part for each in found for part in each.parts if part.at_most_ms is not None):
        kept = longest.get(part.what)
        if kept is None or part.at_most_ms > (kept.at_most_ms or 0):  # type: ignore[operator]
            longest[part.what] = part

    def long(what: str, above_ms: float = _LONG_MS) -> tuple[str, str] | None:
        part = longest.get(what)
        if part is None or part.at_most_ms is None or part.at_most_ms < above_ms:
            return None
        more = f" and {len(part.who) - 3} more" if len(part.who) > 3 else ""
        return f"{part.at_most_ms / 1000:.1f} s", ", ".join(part.who[:3]) + more

    if (told := long(stops.SECOND)) is not None:
        yield (
            f"A second round took up to {told[0]}: {told[1]} gave partitions up and joined again, after their "
            "callbacks, and all others heard of it by their next heartbeat (heartbeat.interval.ms, 3 s by default). "
            "Members with an assignor of kafka-assignors, guard() or the bridge ask early and need milliseconds; of "
            "other clients, a shorter heartbeat.interval.ms on every member bounds it."
        )
    if (told := long(stops.HEARD)) is not None:
        yield (
            f"Partitions waited up to {told[0]} until {told[1]} had heard of the rebalance and joined: a shorter "
            "heartbeat.interval.ms of these members bounds it (3 s by default; the slowest decides, and the log does "
            "not show which), if they poll and their callbacks are short."
        )
    if (told := long(stops.ASSIGNED, _LONG_ASSIGN_MS)) is not None:
        yield f"{told[1]} took {told[0]} to assign, as the leader: that is its assignor's own time; every member waits."
    if (told := long(stops.GIVEN)) is not None:
        yield (
            f"Partitions that the broker moved waited up to {told[0]} for the next heartbeat of their new owners "
            f"({told[1]}): consumer.heartbeat.interval.ms={_SHORT_BEAT_MS} for this group would make that at most "
            f"{_SHORT_BEAT_MS / 1000:.1f} s (5 s unless set; the broker must allow it by "
            "group.consumer.min.heartbeat.interval.ms)."
        )


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
