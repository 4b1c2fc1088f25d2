"""A plan as text for people: every member and move of a small group, totals of a large one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from ...core.group import TopicPartition
from ...core.group.invariants import Breach
from ...output import many
from .values import Decision, Goal, Move

WHOLE = 20
"""Maximum number of members, moves or facts that are listed one by one."""

_MEANING = {
    "spread": "sum of squared counts, per topic and member",
    "balance": "sum of squared loads",
    "racks": "cost of reading from other racks",
    "moves": "partitions that leave their owner",
}
_KINDS = {
    "spread": "for spread",
    "balance": "for balance",
    "racks": "for racks",
    "exchange": "in exchange for others",
    "unowned": "that no member holds",
    "disputed": "that several members claim",
    "unsubscribed": "whose owner left the topic",
    "leaving": "whose owner leaves the group",
    "standby": "of standbys that are not needed",
    "rule": "by the strategy's rule",
}


Withheld = Mapping[TopicPartition, tuple[str, ...]]


def explain(plan: Decision, moves: Sequence[Move], withheld: Withheld) -> str:
    """A decision as lines of text; `withheld` partitions are told with the members that must revoke them first."""
    return "\n".join(_lines(plan, moves, withheld))


def unproven(plan: Decision, violations: Sequence[Breach]) -> str:
    """A decision some of whose claims do not hold, as lines of text: which, and none of its figures."""
    heading = f"{plan.strategy}: this plan is not proven; claims of it that do not hold ({len(violations)}):"
    return "\n".join((heading, *_first([f"  {breach}" for breach in violations])))


def _lines(plan: Decision, moves: Sequence[Move], withheld: Withheld) -> Iterator[str]:
    members, total = len(plan.group.members), sum(plan.loads.values())
    topics = len({topic for given in plan.target.values() for topic in given})
    options = "".join(f", {name}={shortened(repr(value), width=80)}" for name, value in plan.options.items())
    yield (
        f"{plan.strategy}{options}: {many(total, 'partition')} of {many(topics, 'topic')} to {many(members, 'member')}"
    )
    yield from _goals(plan)
    yield ""
    yield from _members(plan, moves)
    yield from _moves(moves)
    yield from _withheld(withheld)
    if plan.facts:
        yield f"facts ({len(plan.facts)})"
        yield from _first([f"  {fact}" for fact in plan.facts])


def _goals(plan: Decision) -> Iterator[str]:
    if plan.load is not None:
        yield from plan.load.lines()
        return
    if not plan.goals:
        yield "  this group has no proven bounds"
        return
    verdict = "optimal" if plan.optimal else "not optimal"
    yield f"  {verdict} (by {', then '.join(goal.name for goal in plan.goals)}; proven):"
    given_up = ""
    for goal in plan.goals:
        yield f"    {goal.name:<8} {_goal(goal, given_up)}  ({_MEANING[goal.name]})"
        if not given_up and not goal.reached:
            given_up = goal.name


def _goal(goal: Goal, given_up: str) -> str:
    if goal.reached:
        return f"{goal.value:,}, the least possible"
    if given_up:
        return f"{goal.value:,}; {goal.least:,} is the least with the best {given_up}"
    return f"{goal.value:,}, {goal.value - goal.least:,} above the least possible {goal.least:,}"


def _members(plan: Decision, moves: Sequence[Move]) -> Iterator[str]:
    loads = plan.loads
    if len(loads) > WHOLE and plan.load is not None:
        used = [m for m, capacity in plan.load.capacity.items() if capacity]
        ratios = [plan.load.work[m] / plan.load.capacity[m] for m in used]
        counts = _spread(loads[m] for m in used)
        yield f"  {many(len(used), 'member')}: work / capacity {_spread(ratios)}; partitions {counts}"
        if len(used) < len(loads):
            yield f"  {many(len(loads) - len(used), 'member')} without a share: standbys, or without a topic"
        return
    if len(loads) > WHOLE:
        for load, members in sorted(Counter(loads.values()).items()):
            yield f"  {many(members, 'member')} with {many(load, 'partition')}"
        return
    gets, gives = Counter(move.new for move in moves), Counter(move.old for move in moves)
    rack = {member.member_id: f" on {member.rack}" if member.rack else "" for member in plan.group.members}
    for member, topics in plan.target.items():
        change = "".join(f", {word} {n}" for word, n in (("gets", gets[member]), ("gives", gives[member])) if n)
        work = "" if plan.load is None else f"work {plan.load.work[member]:,.4g}, "
        yield f"  {member}{rack[member]}: {work}{many(loads[member], 'partition')}{change}"
        if topics:
            yield f"    {shortened('; '.join(f'{topic} {_ranges(ids)}' for topic, ids in topics.items()))}"


def _spread(values: Iterable[float]) -> str:
    figures = list(values)
    return f"{min(figures):,.4g} to {max(figures):,.4g}, median {median(figures):,.4g}" if figures else "none"


def _moves(moves: Sequence[Move]) -> Iterator[str]:
    if not moves:
        yield "moves: none"
        return
    if len(moves) <= WHOLE:
        yield f"new owners ({len(moves)})"
        for move in moves:
            yield f"  {move.partition}: {move.old or '-'} -> {move.new}  {move.kind}: {move.why}"
        return
    yield f"new owners ({len(moves):,})"
    for kind, count in Counter(move.kind for move in moves).most_common():
        yield f"  {count:,} {_KINDS[kind]}"
    pairs = Counter((move.old, move.new) for move in moves if move.old)
    if pairs:
        yield "  most of them:"
        in_order = sorted(pairs.items(), key=lambda p: (-p[1], p[0]))
        yield from _first([f"    {old} -> {new}: {count:,}" for (old, new), count in in_order], 5)


def _withheld(withheld: Withheld) -> Iterator[str]:
    if not withheld:
        return
    yield f"withheld until their owners revoke them ({len(withheld):,}); a second rebalance assigns them"
    by_holders: dict[tuple[str, ...], list[TopicPartition]] = {}
    for partition, holders in withheld.items():
        by_holders.setdefault(holders, []).append(partition)
    lines = []
    for holders, partitions in by_holders.items():
        named = ", ".join(map(str, partitions[:WHOLE]))
        lines.append(f"  by {', '.join(holders)}: {shortened(named, more=len(partitions) - WHOLE)}")
    yield from _first(lines)


def _first(lines: Sequence[str], most: int = WHOLE) -> Iterator[str]:
    yield from lines[:most]
    if len(lines) > most:
        indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        yield f"{indent}and {len(lines) - most:,} more"


def shortened(text: str, width: int = 200, more: int = 0) -> str:
    """The text up to `width` characters, cut at a space, and the number of things left out."""
    cut = text if len(text) <= width else f"{text[:width].rsplit(' ', 1)[0]} …"
    return f"{cut} and {more:,} more" if more > 0 else cut


def _ranges(ids: Sequence[int]) -> str:
    """Ascending ids as in ``0-3, 7``."""
    parts: list[str] = []
    start = 0
    for i in range(1, len(ids) + 1):
        if i == len(ids) or ids[i] != ids[i - 1] + 1:
            parts.append(str(ids[start]) if i - start == 1 else f"{ids[start]}-{ids[i - 1]}")
            start = i
    return ",".join(parts)
