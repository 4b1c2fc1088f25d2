"""Render the written tables as one page without network access or scripts, and its charts as PNG files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from kafka_assignors.drawing import PAGE, STYLE, colours, short, shown

from ..findings import judged
from . import svg, text

MOST_INTERVALS = 20_000
"""Maximum ownership intervals drawn per group; the first ones."""

MOST_GROUPS = 20
"""Maximum groups whose ownership is drawn: those with the most intervals."""

MOST_WINDOWS = 480
"""Maximum steps of a load over time; more windows are summed."""

MOST_LAGS = 24
"""Maximum topic-partitions of a group whose lag is listed: the largest lags."""

KINDS = {
    "hot-key": "Hot keys",
    "misplaced": "Records on another partition than the reference rule's",
    "split-key": "Keys on more than one partition",
    "order": "Records out of their sender's order",
    "overlap": "Two owners at the same time",
    "killed": "Members that were killed or ended without closing",
    "departure": "Members that left or expired (the coordinator's log does not say which)",
    "clock": "Clock jumps and impossible timestamps",
}


@dataclass(frozen=True)
class Details:
    """The data that the page draws in addition to the summary.

    Per topic the windows in time: (start, records). Per group its ownership intervals, and how many were left out.
    """

    windows: Mapping[str, Sequence[tuple[datetime, int]]] = field(default_factory=dict)
    intervals: Mapping[str, Sequence[svg.DrawnInterval]] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)


def details(tables: Mapping[str, DataFrame]) -> Details:
    """Collect the data to draw, from the tables of `schema.TABLES`.

    Cost: four small jobs; driver memory of O(topics x `MOST_WINDOWS` + `MOST_GROUPS` x `MOST_INTERVALS`).
    """
    windows: dict[str, list[tuple[datetime, int]]] = {}
    of_topic = Window.partitionBy("topic")
    at = sf.unix_micros("window_start")
    first, last = sf.min(at).over(of_topic), sf.max(at).over(of_topic)
    bins = (
        tables["placement"]
        .withColumn("bin", sf.floor((at - first) * (MOST_WINDOWS - 1) / sf.greatest(last - first, sf.lit(1))))
        .groupBy("topic", "bin")
        .agg(sf.min(at).alias("at"), sf.sum("records").alias("records"))
    )
    for row in bins.orderBy("topic", "at").collect():
        begins = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=row["at"])
        windows.setdefault(row["topic"], []).append((begins, row["records"]))
    names = list(svg.DrawnInterval.__dataclass_fields__)
    timeline = tables["group_timeline"]
    largest = timeline.groupBy("group").count().orderBy(sf.desc("count"), "group").limit(MOST_GROUPS).collect()
    intervals: dict[str, list[svg.DrawnInterval]] = {row["group"]: [] for row in sorted(largest)}
    order = Window.partitionBy("group").orderBy("start_ns", "topic", "partition", "member")
    drawn = (
        timeline.where(sf.col("group").isin(*intervals))
        .withColumn("n", sf.row_number().over(order))
        .where(sf.col("n") <= MOST_INTERVALS)
    )
    for row in drawn.select("group", "n", *names).orderBy("group", "n").collect() if intervals else ():
        intervals[row["group"]].append(svg.DrawnInterval(*row[2:]))
    left_out = {row["group"]: max(0, row["count"] - MOST_INTERVALS) for row in largest}
    return Details(windows, intervals, left_out)


def render(summary: Mapping[str, Any], more: Details) -> str:
    """Render the page. The summary may lack ``run``, ``cluster`` and ``seconds``."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=shown
    )
    environment.filters.update(size=size, short=short, percent=percent)
    environment.globals.update(span=text.span, style=Markup(STYLE + PAGE))
    template = files(__package__).joinpath("templates/report.html.j2").read_text("utf-8")
    runs = sorted({row["run"] for name in ("topics", "groups") for row in summary[name]})
    begin, end = _span(more)
    named: dict[str, str] = {}
    for intervals in more.intervals.values():
        named |= member_names(iv.member for iv in intervals)
    findings = [{**finding, "text": _renamed(finding["text"], named)} for finding in summary["findings"]]
    page: str = environment.from_string(template).render(
        summary=summary,
        title=f"run {', '.join(runs)}" if runs else "no run",
        begin=begin,
        end=end,
        kinds=[
            (KINDS.get(k, k), [f["text"] for f in mine], faults(mine))
            for k in _kinds(summary)
            if (mine := [f for f in findings if f["kind"] == k])
        ],
        faults=faults(findings),
        topics=[topic_view(topic, summary, more) for topic in summary["topics"]],
        groups=[group_view(group, summary, more) for group in summary["groups"]],
        judged=judged(summary),
    )
    return page


def faults(findings: Iterable[Mapping[str, Any]]) -> int:
    """Number of faults behind findings: a row with ``more`` counts those that are not listed.

    >>> faults([{"more": None}, {"more": 524}])
    525
    """
    return sum(finding["more"] or 1 for finding in findings)


def _kinds(summary: Mapping[str, Any]) -> list[str]:
    kinds = {finding["kind"] for finding in summary["findings"]}
    return [kind for kind in KINDS if kind in kinds] + sorted(kinds - set(KINDS))


def _span(more: Details) -> tuple[str, str]:
    times = [at for windows in more.windows.values() for at, _ in windows]
    return (_time(min(times)), _time(max(times))) if times else ("", "")


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def topic_view(topic: Mapping[str, Any], summary: Mapping[str, Any], more: Details) -> dict[str, Any]:
    """Template values of one topic."""
    name = topic["topic"]
    hot = [key for key in summary["hot_keys"] if key["topic"] == name]
    times, values = _binned(more.windows.get(name, ()))
    tried = [row for row in summary["partitioners"] if row["topic"] == name]
    return {
        **topic,
        "bars": bars(topic, "records"),
        "byte_bars": bars(topic, "bytes") if bytes_differ(topic) else Markup(),
        "over_time": svg.over_time(values, [_time(at) for at in times], "records") if len(values) > 1 else Markup(),
        "hot": hot,
        "counts": sorted({(row["partitions"], row["current"]) for row in tried}),
        "rules": [(rule, [_cell(tried, rule, n) for n in sorted({r["partitions"] for r in tried})])
                  for rule in dict.fromkeys(row["rule"] for row in tried)],
    }  # fmt: skip


def bars(topic: Mapping[str, Any], what: str) -> Markup:
    """Records or bytes per partition of a topic of the summary, with the part of each partition's largest key."""
    largest = {load["partition"]: load[f"top_key_{what}"] for load in topic["loads"]}
    return svg.bars(per_partition(topic, what), largest, what)


def per_partition(topic: Mapping[str, Any], what: str) -> list[int]:
    """``records`` or ``bytes`` per partition (index = partition) of a topic of the summary."""
    loads = [0] * topic["partitions"]
    for load in topic["loads"]:
        loads[load["partition"]] = load[what]
    return loads


def bytes_differ(topic: Mapping[str, Any]) -> bool:
    """Whether bytes are spread in another way than records: by a tenth of the mean on a partition."""
    if not topic["bytes"]:
        return False
    shares = ((load["records"] / topic["records"], load["bytes"] / topic["bytes"]) for load in topic["loads"])
    return any(abs(records - of_bytes) * topic["partitions"] >= 0.1 for records, of_bytes in shares)


def _cell(tried: Sequence[Mapping[str, Any]], rule: str, n: int) -> dict[str, Any]:
    row = next(row for row in tried if row["rule"] == rule and row["partitions"] == n)
    # 1 (even): no colour; 3 and above: full colour
    return {**row, "heat": min(1.0, max(0.0, (row["max_over_mean"] - 1) / 2))}


def _binned(windows: Sequence[tuple[datetime, int]]) -> tuple[list[datetime], list[int]]:
    if not windows:
        return [], []
    per = -(-len(windows) // MOST_WINDOWS)
    bins = [windows[i : i + per] for i in range(0, len(windows), per)]
    return [bin_[0][0] for bin_ in bins], [sum(n for _, n in bin_) for bin_ in bins]


_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def member_names(members: Iterable[str]) -> dict[str, str]:
    """Member id -> its client id, which the broker puts before a UUID; numbered where members share one.

    >>> ids = [f"billing-{8 * letter}-0000-0000-0000-{12 * letter}" for letter in "ab"]
    >>> [*member_names([*ids, "m1"]).values()]
    ['billing', 'billing (2)', 'm1']
    """
    named: dict[str, str] = {}
    taken: Counter[str] = Counter()
    for member in dict.fromkeys(members):
        name = _UUID.sub("", member)
        taken[name] += 1
        named[member] = name if taken[name] == 1 else f"{name} ({taken[name]})"
    return named


def _renamed(text: str, named: Mapping[str, str]) -> str:
    for member, name in named.items():
        if member != name:
            text = text.replace(member, name)
    return text


def group_view(group: Mapping[str, Any], summary: Mapping[str, Any], more: Details) -> dict[str, Any]:
    """Template values of one group."""
    name = group["group"]
    drawn = more.intervals.get(name, ())
    named = member_names(iv.member for iv in drawn)
    intervals = [replace(iv, member=named[iv.member]) for iv in drawn]
    rebalances = [row for row in summary["rebalances"] if row["group"] == name]
    colour = colours(iv.member for iv in intervals)
    marks = [
        (
            row["begin_ns"],
            f"generation {row['generation']}, after {row['trigger']}: {row['elected']}, {row['moves']} moved",
        )
        for row in rebalances
    ]
    assignors = [row for row in summary["assignors"] if row["group"] == name]
    lags = [row for row in summary["lags"] if row["group"] == name]
    known_lags = [row["lag"] for row in lags if row["lag"] is not None]
    return {
        **group,
        "lags": [{**row, "member": named.get(row["member"], row["member"])} for row in lags[:MOST_LAGS]],
        "lags_left_out": lags[MOST_LAGS:],
        "lag": sum(known_lags) if known_lags else None,
        "lag_unknown": len(lags) - len(known_lags),
        "most_lag": max(known_lags, default=0),
        "timeline": svg.timeline(intervals, colour, marks) if intervals else Markup(),
        "left_out": more.left_out.get(name, 0),
        "rebalances": rebalances,
        "assignors": assignors,
        "most_moves": max((row["moves"] for row in assignors), default=0),
        "fewest_moves": min((row["moves"] for row in assignors), default=0),
    }


def size(n: float) -> str:
    """Bytes for people.

    >>> size(999), size(1_234_567)
    ('999 B', '1.2 MB')
    """
    for unit, at in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= at:
            return f"{n / at:.1f} {unit}"
    return f"{n:.0f} B"


def percent(share: float) -> str:
    """A share for people.

    >>> percent(0.3), percent(0.0004)
    ('30 %', '<0.1 %')
    """
    if 0 < share < 0.001:
        return "<0.1 %"
    return f"{share * 100:.3g} %"


def write(page: str, path: Path) -> None:
    """Write the page, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, "utf-8")
