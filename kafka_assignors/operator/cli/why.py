"""``why``: each rebalance of a group, what caused it, and what it cost."""

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
        found = with_hand_overs(rebalances(log, last), targets.hand_overs(group))
        if not found:
            cluster.group(group)  # raises if there is none of that name
            raise ClusterError(
                f"the coordinator's log has no generation of group {group!r}: it never completed a rebalance, or its "
                "records are compacted away"
            )
    if common.as_json:
        common.print_json(as_json(group, log.whole, found))
        return YES
    common.show(lines(group, log.whole, found))
    return YES


def as_json(group: str, whole: bool, found: Sequence[Rebalance]) -> dict[str, Any]:
    """The answer as plain values; `schemas/why.json` describes it."""
    return {
        "group": group,
        "log_whole": whole,
        "rebalances": [each.as_json() for each in found],
        "totals": _totals(found),
        "advice": advice(found),
    }


def lines(group: str, whole: bool, found: Sequence[Rebalance]) -> Iterator[str]:
    """The answer as lines of rich's markup."""
    counted = [each for each in found if each.counted]
    last = found[-1]
    state = f"{many(last.members, 'member')}, {last.protocol}" if last.members else "empty"
    spread = f" in {duration(counted[-1].ts_ms - counted[0].ts_ms)}" if len(counted) > 1 else ""
    unit = "epoch" if last.by_broker else "generation"
    yield (
        f"[bold]{safe(group)}[/]: {many(len(counted), 'rebalance')}{spread}; now {unit} {last.generations[-1]}, "
        f"{safe(state)}"
    )
    if not whole:
        yield "[dim]The log was read from its last million records on; older ones are left out.[/]"
    for each in found:
        yield ""
        yield from _rebalance(each)
    yield ""
    yield from _summary(found)


def _rebalance(each: Rebalance) -> Iterator[str]:
    unit = "epoch" if each.by_broker else "generation"
    if each.missing is not None:
        first, last = each.missing
        numbers = f"{unit} {first} is" if first == last else f"{unit}s {first} to {last} are"
        never = "passed before the broker assigned anew" if each.by_broker else "never completed"
        yield f"[dim]{numbers} not in the log: {never}, or compacted away[/]"
    numbers = "-".join(map(str, dict.fromkeys((each.generations[0], each.generations[-1]))))
    took = f", done in {duration(each.took_ms)}" if each.took_ms else ""
    yield f"[bold]{unit} {numbers}[/]  {clock(each.ts_ms)}  {_who(each, took) if each.members else 'no members'}"
    for cause in each.causes:
        yield f"  {_cause(cause)}"
    if each.members and each.causes[0].kind != "first":
        yield f"    {_cost(each)}"
        for part in each.parts:
            if line := _part(part):
                yield f"      {line}"


def _who(each: Rebalance, took: str) -> str:
    members, assignor = many(each.members, "member"), each.protocol or ""
    if each.by_broker:
        return f"{members}, assigned by {assignor if assignor == BROKER_S else f'the broker: {safe(assignor)}'}"
    return f"{safe(assignor)}, {members}, led by {safe(each.leader or '?')}{took}"


def _cause(cause: Cause) -> str:
    sign = _SIGNS.get(cause.kind, "[cyan]*[/]")
    who = f" {safe(cause.who)}" if cause.who else ""
    host = f" ({safe(cause.host)})" if cause.host else ""
    detail = f": {safe(cause.detail)}" if cause.detail else ""
    return f"{sign} {cause.kind}{who}{host}{detail}"


def _cost(each: Rebalance) -> str:
    told = [_stop(each)] if each.ownerless and (each.parts or not each.by_broker) else []
    told.append(f"moved {each.moved}" + (f" ({each.living} from living members)" if each.living else ""))
    if each.withheld:
        told.append(f"withheld {each.withheld}")
    if (each.living or each.withheld) and each.least is not None:
        fewer = each.living + each.withheld < each.least
        told.append(f"the most even assignment needs {each.least}" if fewer else f"needed {each.least}")
    if each.needless:
        told.append(f"[red]needless {each.needless}[/]")
    if each.eager:
        told.append("[yellow]every member stopped[/]")
    elif each.returned:
        told.append(f"revoked and given back {each.returned}")
    return "; ".join(told)


def _stop(each: Rebalance) -> str:
    """Partition-ms without an owner and the longest of these times; of members that left or expired, both cases."""
    area = f"{each.area_at_least_ms:,.0f}"
    if each.area_at_most_ms is None or each.expired_ms is not None:
        area = f"at least {area}"
    elif round(each.area_at_most_ms) > round(each.area_at_least_ms):
        area += f" to {each.area_at_most_ms:,.0f}"
    return f"{area} partition-ms without owner, {many(each.ownerless, 'partition')} for {_without_owner(each)}"


def _without_owner(each: Rebalance) -> str:
    """Bounds, or one time for each thing that can have happened: between the two there is nothing."""
    if each.expired_ms is not None:
        return (
            f"{duration(each.at_least_ms)} if the member left, about {duration(each.expired_ms)} if its session expired"
        )
    if each.at_most_ms == each.at_least_ms:
        return f"up to {duration(each.at_most_ms)}"
    most = "" if each.at_most_ms is None else f", at most {duration(each.at_most_ms)}"
    return f"at least {duration(each.at_least_ms)}{most}"


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


def _summary(found: Sequence[Rebalance]) -> Iterator[str]:
    totals = _totals(found)
    kinds = ", ".join(f"{kind} {count}" for kind, count in totals["causes"].items())
    yield f"[bold]Together[/]: {kinds}; moved {totals['moved']}, needless {totals['needless']}"
    if told := advice(found):
        yield "[bold]What to change[/]"
        for line in told:
            yield f"  {safe(line)}"


def _totals(found: Sequence[Rebalance]) -> dict[str, Any]:
    causes: dict[str, int] = {}
    for cause in (cause for each in found for cause in each.causes):
        causes[cause.kind] = causes.get(cause.kind, 0) + 1
    return {
        "rebalances": sum(each.counted for each in found),
        "causes": causes,
        "moved": sum(each.moved for each in found),
        "needless": sum(each.needless or 0 for each in found),
        "returned": sum(each.returned for each in found),
    }
