"""Results of the benchmark `rebalances` as Markdown: one table per trigger, or one measure over all triggers."""

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
    "ms": "until all members have adopted, ms",
}


def triggers(rows: Sequence[Mapping[str, Any]], measures: Sequence[str]) -> str:
    """The median, and p95 if different, of each measure.

    Args:
        rows: Rows of results files; all their runs count.
        measures: One table of rows over triggers for each of these; if empty, one table of all measures per trigger.

    Raises:
        ValueError: No such measure.
    """
    if unknown := [measure for measure in measures if measure not in MEASURES]:
        raise ValueError(f"no measure {', '.join(unknown)}; measures: {', '.join(MEASURES)}")
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    names: dict[str, str] = {}
    for row in rows:
        name, _, trigger = row["name"].rpartition("/")
        client, _, assignor = name.partition("/")
        names[name] = f"{client} `{assignor}`"
        if trigger in TRIGGERS:
            found = values.setdefault((name, trigger), {measure: [] for measure in MEASURES})
            for measure in MEASURES:
                found[measure] += row["raw"][measure]
    cells = {(*of, measure): _cell(found[measure]) for of, found in values.items() for measure in MEASURES}
    runs = sorted(len(found["ms"]) for found in values.values())
    out: list[str] = []
    if measures:
        for measure in measures:
            out += [f"{_HEADS[measure]}: median (p95)", ""]
            out += _lines(list(TRIGGERS), {names[n]: [cells[n, t, measure] for t in TRIGGERS] for n in names})
    else:
        for trigger in TRIGGERS:
            out += [f"**{trigger}**: median (p95)", ""]
            out += _lines([*_HEADS.values()], {names[n]: [cells[n, trigger, m] for m in _HEADS] for n in names})
    return "\n".join([*out, f"{runs[0]} to {runs[-1]} runs a cell."])


def _lines(heads: Sequence[str], rows: Mapping[str, Sequence[str]]) -> list[str]:
    rule = f"|---|{'---:|' * len(heads)}"
    return [f"| | {' | '.join(heads)} |", rule, *(f"| {n} | {' | '.join(cells)} |" for n, cells in rows.items()), ""]


def _cell(values: Sequence[float]) -> str:
    return spread(values) if values else "n/a: no run without an eviction"
