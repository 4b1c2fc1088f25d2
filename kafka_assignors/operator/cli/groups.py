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
        lines = overview(cluster, patterns, common.note)
    if common.as_json:
        common.print_json({"groups": [line.as_json() for line in lines]})
        return YES
    if not lines:
        common.show([f"{safe(str(common.connection))} has no group that you may see."])
        return YES
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, numbers in _COLUMNS.items():
        table.add_column(name, justify="right" if numbers else "left", overflow="fold", no_wrap=name != "group")
    now_ms = time.time() * 1000
    for line in lines:
        table.add_row(*_cells(line, now_ms))
    common.console().print(table)
    common.show(_reasons(lines))
    return YES


_COLUMNS = {"group": 0, "state": 0, "assignor": 0, "members": 1, "lag": 1, "rebalanced": 1}
"""Column -> whether it is of numbers."""
_MOST_REASONS = 5


def _cells(line: GroupLine, now_ms: float) -> Iterator[str]:
    unknown = "[dim]?[/]"
    yield safe(line.group)
    yield unknown if line.state is None else safe(line.state)
    assignor = safe(line.protocol) or "[dim]-[/]"
    yield assignor if line.kind == "classic" else f"{assignor} ({safe(line.kind)})"
    yield unknown if line.members is None else f"{line.members:,}"
    yield unknown if line.lag is None else f"{line.lag:,}"
    yield unknown if line.rebalanced_ms is None else f"{duration(max(0.0, now_ms - line.rebalanced_ms))} ago"


def _reasons(lines: Sequence[GroupLine]) -> Iterator[str]:
    """Why something isn't told, or isn't in the lag, of the first groups that lack something."""
    lacking = [(line, why) for line in lines for why in (*line.unknown, *_uncommitted(line))]
    if lacking:
        yield ""
    for line, why in lacking[:_MOST_REASONS]:
        yield f"[dim]{safe(line.group)}: {safe(why)}[/]"
    if len(lacking) > _MOST_REASONS:
        yield f"[dim]and {len(lacking) - _MOST_REASONS:,} more; --json has all[/]"


def _uncommitted(line: GroupLine) -> Iterator[str]:
    if line.uncommitted:
        yield f"nothing is committed of {many(line.uncommitted, 'partition')}, which the lag leaves out"
