"""``scale``: how many members a group needs to keep a delay, at the rates and the pace of now."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ...errors import ClusterError
from ...frame import NO, UNKNOWN, YES, Common
from ...output import many
from ..live.cluster import LiveCluster
from ..live.demand import Demand, Scaled
from ..live.monitor import Monitor, Reading
from ..scaling import Rules
from .words import duration, safe

LOOK_S = 5.0
"""Seconds between two looks at the offsets: the clients' usual interval between two commits."""


def run(common: Common, group: str, rules: Rules, pace: float | None, over_s: float) -> int:
    """Measure a group, and print the number: exit code 0 it has that number, 1 another one, 4 unknown."""
    with LiveCluster(common.connection) as cluster:
        cluster.group(group)  # raises if there is none of that name
        with Monitor(cluster, [group], common.note, lags_s=LOOK_S) as monitor:
            reading, scaled, over_s = _measured(common, monitor, rules, pace, over_s)
    if reading.live is None or not reading.live.members:
        raise ClusterError(f"group {group!r} has no members: how fast they read, and who would get what, isn't known")
    if common.as_json:
        common.print_json(as_json(reading, scaled, rules))
    else:
        common.show(lines(reading, scaled, rules, over_s))
    if scaled is None or (not scaled.measured and scaled.answer.members == scaled.answer.now):
        return UNKNOWN
    return YES if scaled.answer.members == scaled.answer.now else NO


def _measured(
    common: Common, monitor: Monitor, rules: Rules, pace: float | None, over_s: float
) -> tuple[Reading, Scaled | None, float]:
    """The last reading, the answer, and the seconds that the measurement took."""
    demand, begin_s, positions = Demand(rules, pace=pace, at_once=True), time.monotonic(), None
    with common.busy(f"measuring for {over_s:g} s") as progress:
        while True:
            (reading,) = monitor.read(min(1.0, monitor.wait_s))
            now_s = time.monotonic()
            if reading.live is not None and reading.positions is not positions:
                positions = reading.positions
                demand.add(reading.live, positions, now_s)
            progress(min(1.0, (now_s - begin_s) / over_s))
            if now_s - begin_s >= over_s:
                break
    if reading.unknown:
        raise ClusterError(f"what group {reading.group!r} has to read isn't known: {reading.unknown[0]}")
    if reading.live is None or reading.topics is None:
        return reading, None, now_s - begin_s
    return reading, demand.scaled(reading.live, reading.topics, now_s), now_s - begin_s


def as_json(reading: Reading, scaled: Scaled | None, rules: Rules) -> dict[str, Any]:
    """The answer as plain values; `schemas/scale.json` describes it."""
    assert reading.live is not None
    answer: dict[str, Any] = {"group": reading.group, "now": len(reading.live.members), "delay_s": rules.delay_s}
    if scaled is None:
        none = dict.fromkeys(("members", "kept", "pace", "assignor", "rate", "lag"))
        return {**answer, **none, "measured": False, "why": _UNREAD, "sizes": []}
    return {
        **answer,
        "members": scaled.answer.members,
        "kept": scaled.answer.kept,
        "why": scaled.answer.why,
        "pace": scaled.pace,
        "measured": scaled.measured,
        "assignor": scaled.assignor,
        "rate": sum(flow.rate for flow in scaled.flows.partitions.values()),
        "lag": sum(flow.lag for flow in scaled.flows.partitions.values()),
        "sizes": [
            {
                "members": size.members, "partitions": size.partitions, "load": size.load,
                "delay_s": size.delay_s(rules.horizon_s), "spared_s": size.delay_s(rules.horizon_s, rules.spare),
            }
            for size in scaled.sizes
        ],
    }  # fmt: skip


_UNREAD = "no member has read anything while the group was measured; give --pace, or measure for longer by --over"


def lines(reading: Reading, scaled: Scaled | None, rules: Rules, over_s: float) -> Iterator[str]:
    """The answer as lines of rich's markup."""
    assert reading.live is not None
    yield f"[bold]{safe(reading.group)}[/]: {many(len(reading.live.members), 'member')}, measured for {over_s:.0f} s"
    if scaled is None:
        yield f"How many members it needs is [yellow]unknown[/]: {_UNREAD}."
        return
    flows = scaled.flows.partitions.values()
    rate, lag = sum(flow.rate for flow in flows), sum(flow.lag for flow in flows)
    pace = f"a member reads {scaled.pace:,.0f} a second" + ("" if scaled.measured else " or more: none was busy")
    yield f"{rate:,.1f} records a second arrive, {lag:,} are still to read; {pace}."
    yield ""
    yield f"{'members':>9}{'partitions':>12}{'load':>7}{'waits':>9}{'with spare':>12}"
    for size in scaled.sizes:
        mark = "*" if size.members == scaled.answer.now else " "
        waits = (duration(1000 * size.delay_s(rules.horizon_s, spare)) for spare in (0.0, rules.spare))
        yield f"{mark}{size.members:>8,}{size.partitions:>12,}{size.load:>7.0%}" + "{:>9}{:>12}".format(*waits)
    yield (
        f"[dim]partitions, load: of the member with the most, as planned with {scaled.assignor}; waits: the longest of "
        f"a record within {duration(1000 * rules.horizon_s)}; with spare: at rates {rules.spare:.0%} higher[/]"
    )
    yield ""
    answer = scaled.answer
    if not scaled.measured and answer.members == answer.now:
        yield (
            f"Whether fewer than {many(answer.now, 'member')} keep {rules.delay_s:g} s is "
            "[yellow]unknown[/]: no member was busy, so how fast one can read isn't known; give --pace."
        )
        return
    kept = {True: "", False: ", which does not keep it", None: ", and whether they keep it isn't known"}[answer.kept]
    yield (f"[bold]{many(answer.members, 'member')}[/] for a delay of {rules.delay_s:g} s{kept}: {safe(answer.why)}.")
