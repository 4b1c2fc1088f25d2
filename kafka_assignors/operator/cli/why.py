"""``why``: each rebalance of a group, what caused it, and what it cost; by the coordinator's log or by recordings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...errors import ClusterError
from ...frame import YES, Common
from ...history.broker_group import BROKER_S
from ...history.causes import Cause
from ...history.rebalances import Rebalance, rebalances, with_hand_overs
from ...history.stops import PARTS, StopPart
from ...output import many
from ...recordings import read_group
from ..live.advice import advice
from ..live.broker_side import Targets
from ..live.cluster import LiveCluster
from .words import clock, duration, safe

_GONE = "[red]-[/]"
_BACK = "[yellow]~[/]"
_SIGNS = {
    "joined": "[green]+[/]", "left": _GONE, "left or expired": _GONE, "restarted": _BACK, "rejoined": _BACK,
}  # fmt: skip


def run(common: Common, group: str, last: int) -> int:
    """Read the coordinator's log and print the last rebalances of a group."""
    with LiveCluster(common.connection) as cluster:
        with common.busy("reading the coordinator's log") as progress:
            log = cluster.log(group, progress=progress)
        targets = Targets(cluster.topic_names)
        log = replace(log, records=tuple(targets.take(log.records)))
        last_rebalances = with_hand_overs(rebalances(log, last), targets.hand_overs(group))
        if not last_rebalances:
            cluster.group(group)  # raises if there is none of that name
            raise ClusterError(
                f"the coordinator's log has no generation of group {group!r}: it never completed a rebalance, or its "
                "records are compacted away"
            )
    return _answer(common, group, log.whole, last_rebalances)


def run_recorded(common: Common, group: str, last: int, places: Sequence[str]) -> int:
    """Read what members recorded, and print the last rebalances of a group. Asks a cluster only for a topic."""
    with common.busy("reading recordings"):
        recorded = read_group(group, places, lambda: common.connection, common.note)
    if not recorded.led:
        common.note("members of confluent-kafka don't know who leads: those that don't record go unnoticed")
    return _answer(common, group, recorded.whole, recorded.rebalances(last), len(recorded.members))


def _answer(common: Common, group: str, whole: bool, rebalances: Sequence[Rebalance], recorded: int = 0) -> int:
    if common.as_json:
        common.print_json(as_json(group, whole, rebalances, recorded))
    else:
        common.show(lines(group, whole, rebalances, recorded))
    return YES


def as_json(group: str, whole: bool, rebalances: Sequence[Rebalance], recorded: int = 0) -> dict[str, Any]:
    """The answer as plain values; `schemas/why.json` describes it. `recorded`: as of `lines`."""
    return {
        "group": group,
        "log_whole": whole,
        "recorded_members": recorded,
        "rebalances": [rebalance.as_json() for rebalance in rebalances],
        "totals": _totals(rebalances),
        "advice": advice(rebalances),
    }


def lines(group: str, whole: bool, rebalances: Sequence[Rebalance], recorded: int = 0) -> Iterator[str]:
    """The answer as lines of rich's markup. `recorded`: member ids that tell it; 0 if the coordinator's log does."""
    counted = [rebalance for rebalance in rebalances if rebalance.counted]
    last = rebalances[-1]
    state = f"{many(last.members, 'member')}, {last.protocol}" if last.members else "empty"
    spread = f" in {duration(counted[-1].ts_ms - counted[0].ts_ms)}" if len(counted) > 1 else ""
    unit = "epoch" if last.by_broker else "generation"
    yield (
        f"[bold]{safe(group)}[/]: {many(len(counted), 'rebalance')}{spread}; now {unit} {last.generations[-1]}, "
        f"{safe(state)}"
    )
    if recorded:
        yield f"[dim]By the recordings of {many(recorded, 'member')}, and by their machines' clocks.[/]"
    elif not whole:
        yield "[dim]The log was read from its last million records on; older ones are left out.[/]"
    for rebalance in rebalances:
        yield ""
        yield from _rebalance(rebalance, "recorded" if recorded else "in the log")
    yield ""
    yield from _summary(rebalances)


def _rebalance(rebalance: Rebalance, where: str) -> Iterator[str]:
    unit = "epoch" if rebalance.by_broker else "generation"
    if rebalance.missing is not None:
        first, last = rebalance.missing
        numbers = f"{unit} {first} is" if first == last else f"{unit}s {first} to {last} are"
        never = "passed before the broker assigned anew" if rebalance.by_broker else "never completed"
        gone = "its members don't record" if where == "recorded" else "compacted away"
        yield f"[dim]{numbers} not {where}: {never}, or {gone}[/]"
    numbers = "-".join(map(str, dict.fromkeys((rebalance.generations[0], rebalance.generations[-1]))))
    took = f", done in {duration(rebalance.took_ms)}" if rebalance.took_ms else ""
    yield (
        f"[bold]{unit} {numbers}[/]  {clock(rebalance.ts_ms)}  "
        f"{_who(rebalance, took) if rebalance.members else 'no members'}"
    )
    for cause in rebalance.causes:
        yield f"  {_cause(cause)}"
    if rebalance.members and rebalance.causes[0].kind != "first":
        yield f"    {_cost(rebalance)}"
        for part in rebalance.parts:
            if line := _part(part):
                yield f"      {line}"


def _who(rebalance: Rebalance, took: str) -> str:
    members, assignor = many(rebalance.members, "member"), rebalance.protocol or ""
    if rebalance.by_broker:
        return f"{members}, assigned by {assignor if assignor == BROKER_S else f'the broker: {safe(assignor)}'}"
    return f"{safe(assignor)}, {members}, led by {safe(rebalance.leader or '?')}{took}"


def _cause(cause: Cause) -> str:
    sign = _SIGNS.get(cause.kind, "[cyan]*[/]")
    who = f" {safe(cause.who)}" if cause.who else ""
    host = f" ({safe(cause.host)})" if cause.host else ""
    detail = f": {safe(cause.detail)}" if cause.detail else ""
    return f"{sign} {cause.kind}{who}{host}{detail}"


def _cost(rebalance: Rebalance) -> str:
    phrases = [_stop(rebalance)] if rebalance.ownerless and (rebalance.parts or not rebalance.by_broker) else []
    phrases.append(
        f"moved {rebalance.moved}" + (f" ({rebalance.living} from living members)" if rebalance.living else "")
    )
    if rebalance.withheld:
        phrases.append(f"withheld {rebalance.withheld}")
    if (rebalance.living or rebalance.withheld) and rebalance.least is not None:
        fewer = rebalance.living + rebalance.withheld < rebalance.least
        phrases.append(f"the most even assignment needs {rebalance.least}" if fewer else f"needed {rebalance.least}")
    if rebalance.needless:
        phrases.append(f"[red]needless {rebalance.needless}[/]")
    if rebalance.eager:
        phrases.append("[yellow]every member stopped[/]")
    elif rebalance.returned:
        phrases.append(f"revoked and given back {rebalance.returned}")
    return "; ".join(phrases)


def _stop(rebalance: Rebalance) -> str:
    """Partition-ms without an owner and the longest of these times; of members that left or expired, both cases."""
    area = f"{rebalance.area_at_least_ms:,.0f}"
    if rebalance.area_at_most_ms is None or rebalance.expired_ms is not None:
        area = f"at least {area}"
    elif round(rebalance.area_at_most_ms) > round(rebalance.area_at_least_ms):
        area += f" to {rebalance.area_at_most_ms:,.0f}"
    return (
        f"{area} partition-ms without owner, {many(rebalance.ownerless, 'partition')} for {_without_owner(rebalance)}"
    )


def _without_owner(rebalance: Rebalance) -> str:
    """Bounds, or one time for each thing that can have happened: between the two there is nothing."""
    if rebalance.expired_ms is not None:
        return (
            f"{duration(rebalance.at_least_ms)} if the member left, about {duration(rebalance.expired_ms)} if its "
            "session expired"
        )
    if rebalance.at_most_ms == rebalance.at_least_ms:
        return f"up to {duration(rebalance.at_most_ms)}"
    most = "" if rebalance.at_most_ms is None else f", at most {duration(rebalance.at_most_ms)}"
    return f"at least {duration(rebalance.at_least_ms)}{most}"


_NAMED = 3


def _part(part: StopPart) -> str:
    """One part of a stop, and whose it is; "" if the log has no bound of it."""
    if part.at_most_ms is None:
        return ""
    most = duration(part.at_most_ms) if part.at_least_ms == part.at_most_ms else f"up to {duration(part.at_most_ms)}"
    more = f" and {len(part.who) - _NAMED} more" if len(part.who) > _NAMED else ""
    who = f": {safe(', '.join(part.who[:_NAMED]))}{more}" if part.who else ""
    setting = f" ({part.setting})" if part.setting else ""
    return f"[dim]{most}[/] {PARTS[part.what][0]}{who}{setting}"


def _summary(rebalances: Sequence[Rebalance]) -> Iterator[str]:
    totals = _totals(rebalances)
    kinds = ", ".join(f"{kind} {count}" for kind, count in totals["causes"].items())
    yield f"[bold]Together[/]: {kinds}; moved {totals['moved']}, needless {totals['needless']}"
    if sentences := advice(rebalances):
        yield "[bold]What to change[/]"
        for line in sentences:
            yield f"  {safe(line)}"


def _totals(rebalances: Sequence[Rebalance]) -> dict[str, Any]:
    causes: dict[str, int] = {}
    for cause in (cause for rebalance in rebalances for cause in rebalance.causes):
        causes[cause.kind] = causes.get(cause.kind, 0) + 1
    return {
        "rebalances": sum(rebalance.counted for rebalance in rebalances),
        "causes": causes,
        "moved": sum(rebalance.moved for rebalance in rebalances),
        "needless": sum(rebalance.needless or 0 for rebalance in rebalances),
        "returned": sum(rebalance.returned for rebalance in rebalances),
    }
