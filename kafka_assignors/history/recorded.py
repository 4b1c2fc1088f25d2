"""The generations of a group from what its members recorded (`kafka_assignors.record`), and their rebalances. Pure.

The coordinator's log has all members of a generation in one record. A recording has one member: what it sent to join,
what it was assigned, and who led. The recording of the leader has all of them once more, because a leader is told what
all sent. So a generation is whole if its leader records. Otherwise members that don't record may have come or gone, and
the rebalance is told with the cause "unknown" beside what is seen.

Times are those of the members' machines. Rebalances and causes come from the same functions as those of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from .causes import CUT, Cause
from .coordinator_log import CommittedMember, GroupCommitted
from .events import Event, is_of
from .events.bodies import AssignEndBody, ErrorBody, GenerationBody, MemberRow, StopBody
from .generations import GroupGeneration, Logged, add, bytes_of
from .rebalances import Rebalance, of_generations, rounds_of

SKEW_MS = 2_000
"""By how much the clocks of two members' machines may differ: a leave that is later than the join without its member,
by more than this, is not what removed it."""

_NOBODY_TOLD = "?"
"""In place of the leader's member id and of the elected assignor, where no client tells them."""

_HIDDEN = "\0"
"""Begins what stands for the host of a member that doesn't record, until causes are told: another one for each member,
because nobody knows whether a client of the same name is a process that is back."""

_REMOVED = "UnknownMemberIdError"
"""Error of a heartbeat whose member the coordinator had removed."""

_FROM_COUNTS = ("partitions", "unassigned", "unexplained")
"""Causes that only a whole generation shows."""


@dataclass(frozen=True)
class Recordings:
    """What recordings tell of one group.

    Args:
        generations: In order.
        partial: Places in `generations` of those whose leader does not record.
        members: Members, by their ids, that record.
    """

    generations: tuple[GroupGeneration, ...]
    partial: frozenset[int]
    members: frozenset[str]

    @property
    def led(self) -> bool:
        """Whether somebody tells who leads each generation; otherwise members that don't record go unnoticed."""
        return all(g.value.leader != _NOBODY_TOLD for g in self.generations if g.members)

    @property
    def whole(self) -> bool:
        """Whether they begin with the group's first generation."""
        return bool(self.generations) and self.generations[0].number <= 1

    @property
    def last(self) -> GroupCommitted | None:
        """The last generation; what nobody tells of it, such as the host of a member that doesn't record, is empty."""
        if not self.generations:
            return None
        value = self.generations[-1].value
        members = tuple(
            replace(member, client_host="") if member.client_host.startswith(_HIDDEN) else member
            for member in value.members
        )
        protocol, leader = ("" if word == _NOBODY_TOLD else word for word in (value.protocol, value.leader))
        return replace(value, protocol=protocol, leader=leader, members=members)

    @property
    def last_in_part(self) -> bool:
        """Whether the last generation may have members, or owners of partitions, that nobody tells."""
        if not self.generations or not self.generations[-1].members:
            return False
        return len(self.generations) - 1 in self.partial or self.generations[-1].value.leader == _NOBODY_TOLD

    @property
    def hidden(self) -> frozenset[str]:
        """Member ids in the last generation of which nobody tells what they own."""
        if not self.last_in_part:
            return frozenset()
        return frozenset(m.member_id for m in self.generations[-1].value.members if not m.assignment)

    def until(self, end: int) -> Recordings:
        """The first `end` generations."""
        return replace(self, generations=self.generations[:end])

    def rebalances(
        self, last: int | None = None, final: Callable[[Rebalance], tuple[Cause, ...]] | None = None
    ) -> list[Rebalance]:
        """The rebalances, in order; all, or the `last` ones. `final`: as of `of_generations`."""
        explained = of_generations(self.generations, last=last, final=final)
        at, partial_rounds = 0, []
        for rounds in rounds_of(self.generations):
            # What changed is known if both are whole: the generation, and the one before.
            places = [n for n in range(at - 1, at + len(rounds)) if n in self.partial]
            partial_rounds.append(self.generations[places[-1]] if places else None)
            at += len(rounds)
        ends = partial_rounds[len(partial_rounds) - len(explained) :]
        return [_with_unknown(rebalance, partial) for rebalance, partial in zip(explained, ends, strict=True)]


def recordings(events: Iterable[Event], group: str) -> Recordings:
    """What the events of a group's members tell, in any order; those of other groups, or of the harness, are left out.

    Cost: O(generations x members).
    """
    mine = sorted(
        (event for event in events if event.group == group and event.src == "member"), key=lambda event: event.ts_ns
    )
    lives: list[_MemberLife] = []
    for event in mine:
        if is_of(event, GenerationBody) and event.body.sent is not None:
            _life_of(lives, event.body.generation, event.body.leader, event.body.sent).adopt(event)
        elif is_of(event, AssignEndBody) and event.body.members and event.member_id:
            own = next((row for row in event.body.members if row.member_id == event.member_id), None)
            if own is not None:
                _life_of(lives, event.body.generation, event.member_id, own).lead(event)
    stops = {
        event.member_id: _Stop(event.ts_ns // 1_000_000, event.body.reason or "")
        for event in mine
        if is_of(event, StopBody) and event.member_id and not event.instance_id
    }
    refusals = {
        event.member_id: event.body.message
        for event in mine
        if is_of(event, ErrorBody) and event.member_id and event.body.error == _REMOVED
    }
    generations: list[GroupGeneration] = []
    partial: set[int] = set()
    for life in lives:
        first = len(generations)
        for record, known_whole in life.records(group):
            if add(generations, record) and not known_whole:
                partial.add(len(generations) - 1)
        generations[first:] = _with_leaves(generations[first:], stops, refusals)
    ended = _with_ends(generations, stops)
    places = {id(generation): n for n, generation in enumerate(ended)}
    members = frozenset(event.member_id for event in mine if event.member_id)
    return Recordings(tuple(ended), frozenset(places[id(generations[n])] for n in partial), members)


class _Stop(NamedTuple):
    """A member's leave, by its own clock."""

    ts_ms: int
    reason: str


@dataclass
class _Own:
    """A member's own row of a generation, and where it runs."""

    row: MemberRow
    host: str
    ts_ms: int


@dataclass
class _RecordedParts:
    """A generation, as far as it is recorded.

    Args:
        own: Member id -> what it tells of itself.
        led: What its leader tells of all; None if that isn't recorded.
    """

    number: int
    protocol: str = ""
    leader: str | None = None
    own: dict[str, _Own] = field(default_factory=dict)
    led: tuple[MemberRow, ...] | None = None
    ts_ms: int = 0
    joined_ms: int | None = None

    def at(self, ts_ms: int, joined_ms: int | None) -> None:
        """Somebody tells when it was: the first to tell is nearest."""
        self.ts_ms = min(self.ts_ms or ts_ms, ts_ms)
        if joined_ms is not None:
            self.joined_ms = min(joined_ms if self.joined_ms is None else self.joined_ms, joined_ms)


@dataclass
class _MemberLife:
    """A group from its first generation until it is deleted: then it may begin again with generation 1."""

    parts: dict[int, _RecordedParts] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    profiles: dict[str, _Own] = field(default_factory=dict)

    def _part(self, body: GenerationBody | AssignEndBody) -> _RecordedParts:
        part = self.parts.setdefault(body.generation, _RecordedParts(body.generation))
        part.protocol = part.protocol or body.protocol
        return part

    def adopt(self, event: Event[GenerationBody]) -> None:
        body, ts_ms = event.body, event.ts_ns // 1_000_000
        if body.sent is None:
            return
        part, own = self._part(body), _Own(body.sent, body.host or "", ts_ms)
        part.own[body.sent.member_id] = self.profiles[body.sent.member_id] = own
        part.at(ts_ms, body.joined_ms)
        part.leader = part.leader or body.leader
        self.ids |= _ids(body.sent) | ({body.leader} if body.leader else set())

    def lead(self, event: Event[AssignEndBody]) -> None:
        """A leader has assigned; of a static one that returns, the coordinator keeps the assignment before."""
        body = event.body
        part = self._part(body)
        part.at(event.ts_ns // 1_000_000, None)
        if part.led is None:
            part.led, part.leader = body.members, event.member_id
        for row in body.members or ():
            self.ids |= _ids(row)

    def records(self, group: str) -> Iterator[tuple[Logged, bool]]:
        """The generations as the log would have them, and whether all of their members are known."""
        before: dict[str, CommittedMember] = {}
        for number in sorted(self.parts):
            part = self.parts[number]
            members, returned = self._members(part, before)
            protocol, leader = part.protocol or _NOBODY_TOLD, part.leader or _NOBODY_TOLD
            value = GroupCommitted(
                group, "consumer", number, protocol, leader, part.joined_ms or -1, tuple(members.values())
            )
            all_known = part.led is not None or part.leader is None
            yield Logged(part.ts_ms, value), all_known
            for own, old in returned:
                members = {
                    own.row.member_id if name == old else name: self._member(own.row) if name == old else member
                    for name, member in members.items()
                }
                leader = own.row.member_id if leader == old else leader
                value = replace(value, leader=leader, members=tuple(members.values()))
                yield Logged(own.ts_ms, value), all_known
            before = members

    def _members(
        self, part: _RecordedParts, before: Mapping[str, CommittedMember]
    ) -> tuple[dict[str, CommittedMember], list[tuple[_Own, str]]]:
        """Member id -> member; and static members that returned under a new id, each with its old one."""
        rows = {row.member_id: row for row in part.led or ()}
        by_instance = {row.instance_id: row.member_id for row in rows.values() if row.instance_id}
        returned: list[tuple[_Own, str]] = []
        for member_id, own in sorted(part.own.items(), key=lambda item: item[1].ts_ms):
            instance_id = own.row.instance_id
            old = by_instance.get(instance_id) if instance_id else None
            if old is not None and old != member_id:
                returned.append((own, old))
            elif member_id in rows or part.led is None:
                rows[member_id] = own.row
            if instance_id:
                by_instance[instance_id] = member_id
        members = {member_id: self._member(row) for member_id, row in rows.items()}
        if part.led is None and part.leader is not None:
            members |= {
                name: replace(member, assignment=b"")
                for name, member in before.items()
                if name not in members and self._stays(name, part.number, members)
            }
            if part.leader not in members and not any(old == part.leader for _, old in returned):
                blank = MemberRow(part.leader, part.leader[:-37], "", "", (), ())
                members[part.leader] = self._member(blank)
        return members, returned

    def _stays(self, member_id: str, number: int, now: Mapping[str, CommittedMember]) -> bool:
        """Whether a member of the generation before is in one that isn't whole: it is later too, or never records."""
        if member_id not in self.profiles:
            instance_ids = {member.instance_id for member in now.values() if member.instance_id}
            return member_id not in instance_ids
        return any(n > number and member_id in part.own for n, part in self.parts.items())

    def _member(self, row: MemberRow) -> CommittedMember:
        own = self.profiles.get(row.member_id)
        client = row if own is None else own.row
        return CommittedMember(
            row.member_id, row.instance_id, client.client_id, _HIDDEN + row.member_id if own is None else own.host,
            client.rebalance_timeout_ms or -1, client.session_timeout_ms or -1,
            bytes_of(row.subscription), bytes_of(row.assignment),
        )  # fmt: skip


def _ids(row: MemberRow) -> set[str]:
    return {row.member_id} | ({f"instance {row.instance_id}"} if row.instance_id else set())


def _life_of(lives: list[_MemberLife], number: int, leader: str | None, row: MemberRow) -> _MemberLife:
    """The life that a member's generation is of; a new one if the numbers begin again among other members."""
    if lives:
        now = lives[-1]
        grows = number > max(now.parts)
        if grows or (_ids(row) | {leader or ""}) & now.ids or (leader is None and number in now.parts):
            return now
    lives.append(_MemberLife())
    return lives[-1]


def _with_leaves(
    generations: Sequence[GroupGeneration], stops: Mapping[str, _Stop], refusals: Mapping[str, str]
) -> Iterator[GroupGeneration]:
    """The generations of a life, each with the members that then asked to leave, or heard that they were removed."""
    last_in: dict[str, int] = {}  # member id -> place of the last generation that has it
    for n, generation in enumerate(generations):
        last_in |= dict.fromkeys(generation.members, n)
    left: dict[int, dict[str, str]] = {}
    for member_id, stop in stops.items():
        if member_id not in last_in:
            continue
        n = last_in[member_id]
        after = generations[n + 1].committed.joined_ms if n + 1 < len(generations) else None
        if after is None or stop.ts_ms <= after + SKEW_MS:
            left.setdefault(n, {})[member_id] = stop.reason
    for n, generation in enumerate(generations):
        removed = {m: refusals[m] for m in generation.members if m in refusals and last_in[m] == n}
        committed = replace(generation.committed, left=left.get(n, {}), removed=removed)
        yield replace(generation, committed=committed)


def _with_ends(generations: Sequence[GroupGeneration], stops: Mapping[str, _Stop]) -> list[GroupGeneration]:
    """The generations, and where all members went, the empty one that the coordinator makes of that.

    Nobody is there to record it. It is certain where all asked to leave, and otherwise where no member of a generation
    is in the next one and a number is missing between them.
    """
    ended: list[GroupGeneration] = []
    for n, generation in enumerate(generations):
        ended.append(generation)
        after = generations[n + 1] if n + 1 < len(generations) else None
        if not generation.members:
            continue
        all_left = (generation.committed.left or {}).keys() >= generation.members.keys()
        number = generation.number + 1
        if after is None:
            if not all_left:
                continue
        elif after.number <= number or after.called.keys() & generation.called.keys():
            continue
        ms = max([generation.ts_ms, *(stops[m].ts_ms for m in generation.members if m in stops)])
        if not all_left:  # a session that nobody saw expire
            timeouts = generation.committed.timeouts
            ms = max(ms, generation.ts_ms + max(timeouts.values(), default=0))
        if after is not None:
            ms = min(ms, after.committed.joined_ms or after.ts_ms)
        value = GroupCommitted(generation.value.group, "consumer", number, None, None, ms, ())
        add(ended, Logged(ms, value))
    return ended


def _with_unknown(rebalance: Rebalance, partial: GroupGeneration | None) -> Rebalance:
    """A rebalance in words of recordings, and that its causes may not be all."""
    causes = [
        replace(
            cause,
            detail="what was before it is not recorded" if cause.detail == CUT else cause.detail,
            host="" if cause.host.startswith(_HIDDEN) else cause.host,
        )
        for cause in rebalance.causes
        if cause.kind != "assignor" or _NOBODY_TOLD not in cause.detail
    ]
    if partial is None:
        return replace(rebalance, causes=tuple(causes))
    leader = next((partial.called[h] for h, m in partial.members.items() if m.member_id == partial.value.leader), "")
    unknown = Cause("unknown", leader, detail="it leads and doesn't record: others that don't may have come or gone")
    causes = [*(cause for cause in causes if cause.kind not in _FROM_COUNTS), unknown]
    return replace(rebalance, causes=tuple(causes))
