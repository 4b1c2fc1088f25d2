"""What caused a rebalance: the differences between two generations, and members that come back. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from . import departures
from .generations import GroupGeneration
from .ownership import Committed

KINDS = (
    "first", "joined", "left", "left or expired", "restarted", "rejoined", "returned", "subscription", "partitions",
    "unassigned", "assignor", "unexplained", "unknown",
)  # fmt: skip
"""Kinds of a `Cause`; "unknown" is told from recordings alone (`recorded`)."""

CUT = "what was before it is not in the log"
"""Detail of "first", if the group is older."""

RESTART_MS = 60_000
"""A client that is back on its host within this time has restarted."""

_GONE = ("left", "left or expired")


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


def gone_from(generations: Sequence[GroupGeneration]) -> list[dict[str, str]]:
    """Per generation: holders of the generation before that it lacks -> what the log proves of their departure."""
    absentees: list[dict[str, str]] = [{} for _ in generations[:1]]
    joined: dict[str, list[Committed]] = {}  # holder -> the generations since its last absence
    for before, now in pairwise(generations):
        for holder in before.called:
            joined.setdefault(holder, []).append(before.committed)
        gone = {}
        for holder in before.called.keys() - now.called.keys():
            seen = max((ms for g in joined.pop(holder) if (ms := g.last_seen_ms(holder)) is not None), default=None)
            limit, left = before.committed.timeouts.get(holder), before.committed.left
            if left is None:
                gone[holder] = departures.cause(seen, now.committed.joined_ms, limit)
            else:
                gone[holder] = departures.LEFT if holder in left else departures.UNPROVEN
        absentees.append(gone)
    return absentees


def causes(
    whole: bool, before: GroupGeneration | None, now: GroupGeneration, end: GroupGeneration, gone: Mapping[str, str]
) -> Iterator[Cause]:
    """What differs between a rebalance and the generation before it; `Restarts` tells the rest.

    `whole`: the log begins with the first generation. `now` and `end` are the rebalance's first and last generation,
    `before` is None for the first of all, and `gone` is what `gone_from` tells of `now`.
    """
    if before is None:
        fresh = 1 if now.value.leader is not None else 2  # the broker's first target of a group has epoch 2
        cut = "" if whole and now.value.generation <= fresh else CUT
        yield Cause("first", detail=cut)
        return
    for holder in sorted(gone, key=before.called.__getitem__):
        kind = "left" if gone[holder] == departures.LEFT else "left or expired"
        limit = before.committed.timeouts.get(holder)
        unproven = f"its timeout was {limit / 1000:g} s" if kind != "left" and limit else ""
        recorded = (before.committed.left or {}).get(holder) or before.committed.removed.get(holder)
        yield _of_member(kind, before, holder, recorded or unproven)
    for holder in sorted(now.called.keys() - before.called.keys(), key=now.called.__getitem__):
        yield _of_member("joined", now, holder)
    for holder in sorted(now.called.keys() & before.called.keys(), key=now.called.__getitem__):
        if now.members[holder].member_id != before.members[holder].member_id:
            yield _of_member("returned", now, holder, "a static member, with a new member id")
        was, subscription = before.topics.get(holder), now.topics.get(holder)
        if was is not None and subscription is not None and was != subscription:
            signs = [
                *(f"+{topic}" for topic in sorted(subscription - was)),
                *(f"-{topic}" for topic in sorted(was - subscription)),
            ]
            yield _of_member("subscription", now, holder, " ".join(signs))
    yield from _of_topics(before, end)
    if before.value.protocol and now.value.protocol and before.value.protocol != now.value.protocol:
        yield Cause("assignor", detail=f"{before.value.protocol} -> {now.value.protocol}")


def _of_topics(before: GroupGeneration, end: GroupGeneration) -> Iterator[Cause]:
    """Topics that grew or went, as far as assignments show it: the log has no partition counts."""
    if not before.last_owners and before.value.leader is not None:
        return  # a leader that knew no topic yet
    was, holdings, has = (
        Counter(tp.topic for tp in owners) for owners in (before.owners, before.last_owners, end.owners)
    )
    still = frozenset[str]().union(*before.topics.values()) & frozenset[str]().union(*end.topics.values())
    for topic in sorted(still):
        if has[topic] > holdings[topic]:
            yield Cause("partitions", detail=f"{topic}: {holdings[topic]} -> {has[topic]} assigned")
        elif has[topic] and not was[topic]:
            yield Cause("partitions", detail=f"{topic}: its {has[topic]} partitions are assigned again")
        elif was[topic] and not has[topic]:
            why = "it was deleted, or the leader didn't see it"
            yield Cause("unassigned", detail=f"{topic}: none of its {was[topic]} partitions is assigned; {why}")


def _of_member(kind: str, generation: GroupGeneration, holder: str, detail: str = "") -> Cause:
    member = generation.members[holder]
    return Cause(
        kind, generation.called[holder], member.client_id, member.client_host.removeprefix("/"), detail,
        member.member_id, member.instance_id or "",
    )  # fmt: skip


class Restarts:
    """Reports members that left and are back within `RESTART_MS` as restarted, rejoined or returned.

    The same member id is the same process: a KIP-848 member keeps its id for life, and joins with it again after it was
    fenced. The same instance id is the same static member. Otherwise a client that is back on its host has restarted:
    the coordinator gives each process of a classic client another member id, and also one that it had removed.

    It remembers who left in the last `RESTART_MS`, and therefore takes each rebalance once, in order.
    """

    def __init__(self) -> None:
        self._left: list[tuple[int, Cause]] = []  # when each was found gone, in order

    def final_causes(self, ts_ms: int, causes: Iterable[Cause]) -> tuple[Cause, ...]:
        """The final causes of a rebalance at a time: those of the log, or a member that is back, or unexplained."""
        causes = list(causes)
        left = [(ms, gone) for ms, gone in self._left if ts_ms - ms <= RESTART_MS]
        left += [(ts_ms, cause) for cause in causes if cause.kind in _GONE]
        joined = [cause for cause in causes if cause.kind == "joined"]
        for key, kind, what in _BACK:
            by_key: dict[Any, list[tuple[int, Cause]]] = {}
            for departure in left:
                by_key.setdefault(key(departure[1]), []).append(departure)
            for cause in joined:
                if (mine := key(cause)) is None or not by_key.get(mine) or cause not in causes:
                    continue
                since, gone = was = by_key[mine].pop(0)
                left.remove(was)
                away_ms = ts_ms - since
                causes.remove(cause)
                if not away_ms and gone in causes:  # not of an earlier rebalance in the same millisecond
                    causes.remove(gone)
                when = f"back {away_ms / 1000:.1f} s after it was gone" if away_ms else "gone and back in one rebalance"
                causes.append(replace(cause, kind=kind, detail=f"{when}{what}", away_ms=away_ms))
        self._left = left
        if not causes:
            causes = [Cause("unexplained", detail="same members, same subscriptions: one of them asked to rejoin")]
        return tuple(causes)


_BACK: tuple[tuple[Callable[[Cause], Any], str, str], ...] = (
    (lambda member: member.member_id, "rejoined", ", with the same member id"),
    (lambda member: member.instance_id or None, "returned", ", a static member"),
    (lambda member: (member.client_id, member.host), "restarted", ""),
)
"""What a member that is gone and one that joined have in common, the surest first; the cause's kind; words to add."""
