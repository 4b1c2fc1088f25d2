"""How many members does a group need? The assignments of a strategy for several group sizes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...core.group import NO_GENERATION, Group, Member, TopicPartition
from ...core.group.assignment import holding
from ...core.group.claims import resolve
from ...core.group.indexed import UNASSIGNED
from ...core.group.order import lasting
from ...core.reading import decoded
from ...core.sticky import sticky
from ...core.strategies import ByWork
from ...core.strategy import Strategy
from ...core.weighted.report import report
from ...errors import ConfigError
from ...output import many
from .certificate import positions

FORMAT = "kafka-assignors sizing"
VERSION = 1


@dataclass(frozen=True)
class Size:
    """A group of some size.

    Args:
        greatest: The greatest load: partitions, or work / capacity under ``weighted``.
        least: Lower bound on the greatest load over all assignments.
        idle: Members without a partition.
        moves: Partitions that change their owner when the group comes from the size before, on the way from its
            current size; at the current size, from what its members hold.
    """

    members: int
    greatest: float
    mean: float
    least: float
    idle: int
    moves: int

    @property
    def ratio(self) -> float:
        """Greatest / mean load; 1 is perfect balance, and 1 where there is no load."""
        return self.greatest / self.mean if self.mean else 1.0

    @property
    def spare(self) -> float:
        """Share of the group's capacity that is free when its busiest member has no time left."""
        return 1 - self.mean / self.greatest if self.greatest else 0.0


@dataclass(frozen=True)
class Sizing:
    """A group at several sizes, ascending; `now` is its current number of members. ``str(sizing)`` is a table."""

    strategy: str
    options: Mapping[str, Any]
    now: int
    sizes: tuple[Size, ...]

    def fewest(self, most: float) -> int | None:
        """The smallest number of members at which no load exceeds `most`; None if no size here reaches that."""
        return next((size.members for size in self.sizes if size.greatest <= most), None)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        what = "work / capacity" if self.strategy == "weighted" else "partitions"
        yield f"{self.strategy}: {what} per member, by size of the group; it has {many(self.now, 'member')} now"
        yield f"{'members':>9}{'greatest':>10}{'mean':>9}{'max/mean':>10}{'spare':>7}{'idle':>6}{'moves':>9}"
        for size in self.sizes:
            mark = "*" if size.members == self.now else " "
            yield (
                f"{mark}{size.members:>8,}{size.greatest:>10,.6g}{size.mean:>9,.4g}{size.ratio:>10.2f}"
                f"{size.spare:>7.0%}{size.idle:>6,}{size.moves:>9,}"
            )
        lowest = min(size.greatest for size in self.sizes)
        first = next(size for size in self.sizes if size.greatest <= lowest)
        if first is not self.sizes[-1]:
            yield f"more than {many(first.members, 'member')} do not lower the greatest load"

    def to_json(self) -> str:
        """The sizing as one line of JSON."""
        value = {
            "format": FORMAT,
            "version": VERSION,
            "strategy": self.strategy,
            "options": self.options,
            "now": self.now,
            "sizes": [asdict(size) for size in self.sizes],
        }
        return json.dumps(value, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Sizing:
        """The sizing that `to_json` wrote. Raises ConfigError if the text is none, or its version is unknown."""
        try:
            value = json.loads(text)
            right_format = value["format"] == FORMAT and value["version"] == VERSION
            made = cls(
                value["strategy"], value["options"], value["now"], tuple(Size(**fields) for fields in value["sizes"])
            )
        except (ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"this is not a sizing: {type(error).__name__}: {error}") from error
        if not right_format:
            raise ConfigError(f"this is not a sizing of version {VERSION}: {value['format']!r}, {value['version']!r}")
        return made


def sizing(group: Group, made: Strategy, sizes: Iterable[int]) -> Sizing:
    """A group, with at least one member, at several sizes, in any order.

    A smaller group keeps its first members, in the order of their instance ids and client ids. In a larger one, each
    new member has the subscription, rack and capacity of one of the current members, in turn. A size starts from the
    assignment of the size before it, on the way from the current size.

    Raises:
        ConfigError: A size is not a whole number of 1 or above, or there is none.

    Cost: that of an assignment per size.
    """
    wanted = _checked(sizes)
    settled = _settled(group, made, wanted)
    return Sizing(made.name, dict(made.options), len(group.members), tuple(settled[n].size for n in wanted))


def shares(group: Group, made: Strategy, sizes: Iterable[int]) -> dict[int, list[tuple[TopicPartition, ...]]]:
    """The same group at the same sizes, and at its current one: size -> the partitions of each member."""
    return {
        n: [tuple(TopicPartition(t, p) for t, ids in topics.items() for p in ids) for topics in step.target.values()]
        for n, step in _settled(group, made, _checked(sizes)).items()
    }


def _settled(group: Group, made: Strategy, sizes: Sequence[int]) -> dict[int, _Step]:
    """Size -> the group at it; the current size, too."""
    made.load()
    now = _Step(made, group, lasting(group.members)[0], 0)
    steps = {len(now.members): now}
    for way in ([n for n in sizes if n > len(now.members)], [n for n in reversed(sizes) if n < len(now.members)]):
        step = now
        for n in way:
            step = steps[n] = step.resized(n, now.members)
    return steps


def _checked(sizes: Iterable[int]) -> list[int]:
    try:
        wanted = list(sizes)
    except TypeError as error:
        raise ConfigError(f"members must be sizes like range(1, 40), not {sizes!r}") from error
    for n in wanted:
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ConfigError(f"members must be whole numbers of 1 or above, not {n!r}")
    if not wanted:
        raise ConfigError("members must have at least one size, like range(1, 40)")
    return sorted(set(wanted))


class _Step:
    """The group at one size, settled.

    `group` is at its current size, and `made` has the capacities of its members. `members` are those at this size, with
    what they hold before; `gone` is the number of partitions of members that have just left.
    """

    def __init__(self, made: Strategy, group: Group, members: Sequence[Member], gone: int) -> None:
        self._made, self._group, self.members = made, group, members
        here = decoded(made, Group(members, group.partitions, group.racks, group.leaders))
        self._claims, self._gone = here.claims or resolve(here.group), gone
        self.target = made.settles_as(here, made.assign(here)[0])

    @cached_property
    def size(self) -> Size:
        claims, made, count = self._claims, self._made, len(self.members)
        owner = positions(claims.indexed, self.target)
        holder_mask = claims.holder != UNASSIGNED
        moves = self._gone + int((owner != claims.holder)[holder_mask].sum())
        loads = np.bincount(owner[owner != UNASSIGNED], minlength=count)
        idle = int((loads == 0).sum())
        if isinstance(made, ByWork):
            load = report(claims, owner, made.placing)
            return Size(count, load.greatest, load.mean, load.bound, idle, moves)
        best = sticky.owners(claims, sticky.DEFAULT)  # the least sum of squares has the least maximum
        least = np.bincount(best[best != UNASSIGNED], minlength=1).max()
        return Size(count, int(loads.max()), float(loads.sum() / count), int(least), idle, moves)

    def resized(self, count: int, current: Sequence[Member]) -> _Step:
        """The group with this number of members, which hold the assignment of this step."""
        generation = 1 + max(NO_GENERATION, *(member.generation for member in self.members))
        members = holding(self.members, self.target, generation)
        new = _added(current, count)
        made = self._made
        capacity = made.options.get("capacity") if isinstance(made, ByWork) else None
        if capacity:
            more = {a.member_id: capacity[b] for a, b in new if b in capacity}
            made = made.with_options(**{**made.options, "capacity": {**capacity, **more}})
        gone = sum(len(member.owned) for member in members[count:])
        added = [member for member, _ in new[max(len(members) - len(current), 0) :]]
        return _Step(made, self._group, [*members[:count], *added], gone)


def _added(current: Sequence[Member], count: int) -> list[tuple[Member, str]]:
    """The additional members up to a total number, each with the current member that it copies."""
    taken = {member.member_id for member in current}
    names = (name for n in itertools.count(1) if (name := f"added-{n}") not in taken)
    like = itertools.islice(itertools.cycle(current), max(count - len(current), 0))
    return [(Member(next(names), original.topics, None, original.rack), original.member_id) for original in like]
