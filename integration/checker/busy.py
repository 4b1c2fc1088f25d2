"""When the members of a group could not join: they ran callbacks, worked on records, or committed. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter

from kafka_assignors.history.events import WIRE, Event

_MS = 1_000_000
_OPENS = {"revoke_begin": "revoke_end", "assigned_begin": "assigned_end", "lost_begin": "lost_end",
          "assign_begin": "assign_end"}  # fmt: skip
"""Kind of event -> the one that ends what it begins."""
_WORK = {("consume", "commit_begin"), ("commit_begin", "commit_ok"), ("commit_begin", "commit_fail")}
"""Kinds of two successive events of a process that did not poll in between."""
_READ = ("consume", "sent")
"""Kinds of events after which a service may work: it was handed out records, or sent them, as its connections show."""
_END = itemgetter(1)
_POLL_NS = 250 * _MS
"""A service that is silent for less polls on: no join waits long for it."""


class Busy:
    """When at least one member could not join, by the events of the group's members, in any order."""

    def __init__(self, events: Iterable[Event]) -> None:
        by_process: dict[tuple[str | None, int], list[Event]] = defaultdict(list)
        for event in sorted(events, key=lambda e: (e.mono_ns, e.seq)):
            by_process[event.member, event.incarnation].append(event)
        occupied = {p: list(_occupied(mine)) for p, mine in by_process.items()}
        self._surely = _union(chain.from_iterable(occupied.values()))
        services = {p: mine for p, mine in by_process.items() if is_of_a_service(mine[0])}
        self._of_services = _union(chain.from_iterable(occupied[p] for p in services))
        self._unseen = {p: list(_unseen(mine)) for p, mine in services.items()}

    def surely_ms(self, from_ns: int, until_ns: int) -> float:
        """How long that was between two times, as the members tell it."""
        return _within(self._surely, from_ns, until_ns)

    def perhaps_ms(self, from_ns: int, until_ns: int) -> float:
        """How long a join between two times may have waited for a service that worked, which it does not tell.

        A process joins as it polls again, so that no join waits for more than one of its silences.
        """
        silences = (part for mine in self._unseen.values() for part in _parts(mine, from_ns, until_ns))
        return max(silences, default=0) / _MS

    def may_delay_ms(self, from_ns: int, until_ns: int, times: int) -> float:
        """How long services may have delayed so many joins or withdrawals, each of which waits until they poll again.

        They ran callbacks or waited for commits, as they tell, or worked, as they do not.
        """
        return _within(self._of_services, from_ns, until_ns) + times * self.perhaps_ms(from_ns, until_ns)

    def perhaps_until_ns(self, process: tuple[str | None, int], at_ns: int) -> int:
        """When a service's process that may work on records at a time does something else; else that time itself."""
        mine = self._unseen.get(process, ())
        at = bisect_left(mine, at_ns, key=_END)
        return mine[at][1] if at < len(mine) and mine[at][0] <= at_ns else at_ns


def is_of_a_service(event: Event) -> bool:
    """Whether a member's event is of a service, which the recorder or its connections show."""
    return event.log_bytes is not None or event.client == WIRE


def _union(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The times that lie in at least one interval, as intervals one after the other."""
    union: list[tuple[int, int]] = []
    for begin_ns, end_ns in sorted(intervals):
        if union and begin_ns <= union[-1][1]:
            union[-1] = union[-1][0], max(union[-1][1], end_ns)
        else:
            union.append((begin_ns, end_ns))
    return union


def _parts(successive: Sequence[tuple[int, int]], from_ns: int, until_ns: int) -> Iterator[int]:
    """How much of each interval lies between two times, ns; of those that have something there."""
    for at in range(bisect_right(successive, from_ns, key=_END), len(successive)):
        begin_ns, end_ns = successive[at]
        if begin_ns >= until_ns:
            break
        yield min(end_ns, until_ns) - max(begin_ns, from_ns)


def _within(successive: Sequence[tuple[int, int]], from_ns: int, until_ns: int) -> float:
    return sum(_parts(successive, from_ns, until_ns)) / _MS


def _occupied(events: Iterable[Event]) -> Iterator[tuple[int, int]]:
    """When a process ran a callback or its assignor, worked on consumed records, or waited for a commit."""
    opened: dict[str, int] = {}
    since: Event | None = None
    for event in events:
        if event.kind in _OPENS:
            opened[_OPENS[event.kind]] = event.mono_ns
        elif event.kind in opened:
            yield opened.pop(event.kind), event.mono_ns
        works = since is not None and (since.kind, event.kind) in _WORK
        # A service's client may commit by itself, while it waits for records.
        if since is not None and works and not (since.kind == "consume" and is_of_a_service(event)):
            yield since.mono_ns, event.mono_ns
        since = event


def _unseen(events: Iterable[Event]) -> Iterator[tuple[int, int]]:
    """From the records that a process got to whatever it did next, if that took long."""
    since: Event | None = None
    for event in events:
        if _goes_on(since, event):
            continue
        if since is not None and since.kind in _READ and event.mono_ns - since.mono_ns > _POLL_NS:
            yield since.mono_ns, event.mono_ns
        since = event


def _goes_on(since: Event | None, event: Event) -> bool:
    """Whether the work on records goes on as an earlier commit is answered: a service may not wait for the answer."""
    return since is not None and since.kind in _READ and event.kind in ("commit_ok", "commit_fail")
