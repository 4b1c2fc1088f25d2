"""The rebalances that were measured, as Markdown: a table a trigger, or one measure over all triggers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .rebalances import MEASURES, TRIGGERS, spread

_HEADS: Mapping[str, str] = {
    "generations": "generations",
    "stop_ms": "longest stop, ms",
    "downtime_ms": "partition-downtime, partition·ms",
    "moves": "moves",
    "needless": "needless revokes",
    "duplicates": "duplicates",
    "ms": "until all have adopted, ms",
}


def triggers(rows: Sequence[Mapping[str, Any]], measures: Sequence[str]) -> str:
    """Median, and p95 where it differs, of each measure.

    Args:
        rows: Of a results file.
        measures: For each of these a table of rows over triggers; none: for each trigger a table of all measures.

    Raises:
        ValueError: No such measure.
    """
    if unknown := [measure for measure in measures if measure not in MEASURES]:
        raise ValueError(f"no measure {', '.join(unknown)}; there are: {', '.join(MEASURES)}")
    cells: dict[tuple[str, str, str], str] = {}
    names: dict[str, str] = {}
    for row in rows:
        name, _, trigger = row["name"].rpartition("/")
        client, _, assignor = name.partition("/")
        names[name] = f"{client} `{assignor}`"
        if trigger in TRIGGERS:
            for measure in MEASURES:
                cells[name, trigger, measure] = _cell(row, measure)
    out: list[str] = []
    if measures:
        for measure in measures:
            out += [f"{_HEADS[measure]}: median (p95)", ""]
            out += _lines(list(TRIGGERS), {names[n]: [cells[n, t, measure] for t in TRIGGERS] for n in names})
    else:
        for trigger in TRIGGERS:
            out += [f"**{trigger}**: median (p95)", ""]
            out += _lines([*_HEADS.values()], {names[n]: [cells[n, trigger, m] for m in _HEADS] for n in names})
    return "\n".join(out)


def _lines(heads: Sequence[str], rows: Mapping[str, Sequence[str]]) -> list[str]:
    rule = f"|---|{'---:|' * len(heads)}"
    return [f"| | {' | '.join(heads)} |", rule, *(f"| {n} | {' | '.join(cells)} |" for n, cells in rows.items()), ""]


def _cell(row: Mapping[str, Any], measure: str) -> str:
    values = row["raw"][measure]
    return spread(values) if values else f"n/a: {row['note']}"
