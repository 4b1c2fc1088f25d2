"""``vote``: who wins the group's next election, who may join, and how to change the lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ...core.strategies import STRATEGIES
from ...errors import ClusterError
from ...frame import NO, UNKNOWN, YES, Common
from ...output import many
from ..live.cluster import LiveCluster
from ..live.group import LiveGroup
from ..live.lists import Vote, vote
from .words import safe


def run(common: Common, group: str, adding: Sequence[str], offers: Mapping[str, Sequence[str]], to: str | None) -> int:
    """Print the election: exit code 0 yes, 1 the new member is refused, 4 unknown."""
    with LiveCluster(common.connection) as cluster:
        live = cluster.group_at_rest(group)  # during a rebalance nothing is elected
    if live.kind != "classic":
        raise ClusterError(f"group {group!r} uses the consumer protocol (KIP-848): the broker assigns, nobody votes")
    outcome = vote(live, adding, offers, to)
    if to is not None and to not in STRATEGIES and not any(to in (offered or ()) for offered in outcome.lists.values()):
        common.note(
            f"--to {to}: no member offers it, nor is it one of {', '.join(sorted(STRATEGIES))}; is it spelled so?"
        )
    if common.as_json:
        common.print_json(as_json(live, outcome))
    else:
        common.show(lines(live, outcome, adding))
    if adding:
        return {True: YES, False: NO, None: UNKNOWN}[outcome.allowed]
    return YES if outcome.election is not None or to is not None else UNKNOWN


def as_json(live: LiveGroup, outcome: Vote) -> dict[str, Any]:
    """The answer as plain values; `schemas/vote.json` describes it."""
    election = (
        None if outcome.election is None else {**asdict(outcome.election), "explanation": outcome.election.explanation}
    )
    return {
        "group": live.group, "state": live.state, "elected": outcome.elected, "lists": dict(outcome.lists),
        "allowed": outcome.allowed, "why": outcome.why, "election": election, "bounces": list(outcome.bounces),
    }  # fmt: skip


def lines(live: LiveGroup, outcome: Vote, adding: Sequence[str]) -> Iterator[str]:
    """The answer as lines of rich's markup."""
    elected = "nothing is elected" if outcome.elected is None else f"elected now: [bold]{safe(outcome.elected)}[/]"
    yield f"[bold]{safe(live.group)}[/]: {many(len(live.members), 'member')}, {elected}"
    hosts = {live.names[m.member_id]: m.host for m in live.members}
    for name, offered in outcome.lists.items():
        text = f"{safe(str(outcome.elected))}, [dim]others unknown[/]" if offered is None else safe(", ".join(offered))
        yield f"  {safe(name)} ({safe(hosts[name])}) offers {text}"
    if adding:
        sign = {True: "[green]yes[/]", False: "[red]no[/]", None: "[yellow]unknown[/]"}[outcome.allowed]
        yield f"May it join? {sign}: {safe(outcome.why)}."
    elif outcome.election is None and outcome.why:
        yield f"Who would win is [yellow]unknown[/]: {safe(outcome.why)}, as --offer '*=range,sticky'."
    if outcome.election is not None:
        yield f"Next election: {safe(outcome.election.explanation)}"
        for warning in outcome.election.warnings:
            yield f"[yellow]unsafe:[/] {safe(warning)}"
    if outcome.bounces:
        yield "Order of bounces"
        for line in outcome.bounces:
            yield f"  {safe(line)}"
