"""``vote``: who wins the group's next election, who may join, and how to change the lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ...errors import ClusterError
from ...frame import NO, UNKNOWN, YES, Common
from ...output import many
from ..live.cluster import LiveCluster
from ..live.group import LiveGroup
from ..live.lists import Vote, vote
from .words import safe


def run(common: Common, group: str, adding: Sequence[str], told: Mapping[str, Sequence[str]], to: str | None) -> int:
    """Print the election: exit code 0 yes, 1 the new member is refused, 4 unknown."""
    with LiveCluster(common.connection) as cluster:
        live = cluster.group_at_rest(group)  # during a rebalance nothing is elected
    if live.kind != "classic":
        raise ClusterError(f"group {group!r} uses the consumer protocol (KIP-848): the broker assigns, nobody votes")
    found = vote(live, adding, told, to)
    if common.as_json:
        common.print_json(as_json(live, found))
    else:
        common.show(lines(live, found, adding))
    if adding:
        return {True: YES, False: NO, None: UNKNOWN}[found.allowed]
    return YES if found.election is not None or to is not None else UNKNOWN


def as_json(live: LiveGroup, found: Vote) -> dict[str, Any]:
    """The answer as plain values; `schemas/vote.json` describes it."""
    election = None if found.election is None else {**asdict(found.election), "explanation": found.election.explanation}
    return {
        "group": live.group, "state": live.state, "elected": found.elected, "lists": dict(found.lists),
        "allowed": found.allowed, "why": found.why, "election": election, "bounces": list(found.bounces),
    }  # fmt: skip


def lines(live: LiveGroup, found: Vote, adding: Sequence[str]) -> Iterator[str]:
    """The answer as lines of rich's markup."""
    elected = "nothing is elected" if found.elected is None else f"elected now: [bold]{safe(found.elected)}[/]"
    yield f"[bold]{safe(live.group)}[/]: {many(len(live.members), 'member')}, {elected}"
    hosts = {live.names[m.member_id]: m.host for m in live.members}
    for name, offered in found.lists.items():
        known = f"{safe(str(found.elected))}, [dim]others unknown[/]" if offered is None else safe(", ".join(offered))
        yield f"  {safe(name)} ({safe(hosts[name])}) offers {known}"
    if adding:
        sign = {True: "[green]yes[/]", False: "[red]no[/]", None: "[yellow]unknown[/]"}[found.allowed]
        yield f"May it join? {sign}: {safe(found.why)}."
    elif found.election is None and found.why:
        yield f"Who would win is [yellow]unknown[/]: {safe(found.why)}, as --offer '*=range,sticky'."
    if found.election is not None:
        yield f"Next election: {safe(found.election.explanation)}"
        for warning in found.election.warnings:
            yield f"[yellow]unsafe:[/] {safe(warning)}"
    if found.bounces:
        yield "Order of bounces"
        for line in found.bounces:
            yield f"  {safe(line)}"
