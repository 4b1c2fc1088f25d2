"""``groups``: the groups of a cluster, a line each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from ...frame import YES, Common
from ...output import many
from ..live.cluster import LiveCluster
from ..live.overview import GroupLine, overview
from .words import duration, safe


def run(common: Common, patterns: Sequence[str]) -> int:
    """Print the groups that names or shell patterns mean; all without any."""
    with LiveCluster(common.connection) as cluster, common.busy("reading the coordinator's log"):
        found = overview(cluster, patterns, common.note)
    if common.as_json:
        common.print_json({"groups": [each.as_json() for each in found]})
        return YES
    if not found:
        common.show([f"{safe(str(common.connection))} has no group that you may see."])
        return YES
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, numbers in _COLUMNS.items():
        table.add_column(name, justify="right" if numbers else "left", overflow="fold", no_wrap=name != "group")
    now_ms = time.time() * 1000
    for each in found:
        table.add_row(*_cells(each, now_ms))
    common.console().print(table)
    common.show(_reasons(found))
    return YES


_COLUMNS = {"group": 0, "state": 0, "assignor": 0, "members": 1, "lag": 1, "rebalanced": 1}
"""Column -> whether it is of numbers."""
_MOST_REASONS = 5


def _cells(each: GroupLine, now_ms: float) -> Iterator[str]:
    unknown = "[dim]?[/]"
    yield safe(each.group)
    yield unknown if each.state is None else safe(each.state)
    assignor = safe(each.protocol) or "[dim]-[/]"
    yield assignor if each.kind == "classic" else f"{assignor} ({safe(each.kind)})"
    yield unknown if each.members is None else f"{each.members:,}"
    yield unknown if each.lag is None else f"{each.lag:,}"
    yield unknown if each.rebalanced_ms is None else f"{duration(max(0.0, now_ms - each.rebalanced_ms))} ago"


def _reasons(found: Sequence[GroupLine]) -> Iterator[str]:
    """Why something isn't told, or isn't in the lag, of the first groups that lack something."""
    lacking = [(each, why) for each in found for why in (*each.unknown, *_uncommitted(each))]
    if lacking:
        yield ""
    for each, why in lacking[:_MOST_REASONS]:
        yield f"[dim]{safe(each.group)}: {safe(why)}[/]"
    if len(lacking) > _MOST_REASONS:
        yield f"[dim]and {len(lacking) - _MOST_REASONS:,} more; --json has all[/]"


def _uncommitted(each: GroupLine) -> Iterator[str]:
    if each.uncommitted:
        yield f"nothing is committed of {many(each.uncommitted, 'partition')}, which the lag leaves out"
