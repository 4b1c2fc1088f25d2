"""The page and its drawings: whole by themselves, and right for what tables can hold: nothing, much, and odd names."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from kafka_assignors.drawing import colours
from kafka_assignors.pipeline.report import charts, page, svg
from tests.support.wellformed import Wellformed

EMPTY: dict[str, Any] = {
    **{
        name: []
        for name in ("topics", "groups", "lags", "rebalances", "assignors", "partitioners", "hot_keys", "findings")
    },
    "rejected": {},
}
NASTY = 'a<script>alert("1")</script>&$x_1$-' + "very.long." * 20


def topic(name: str, records: list[int]) -> dict[str, Any]:
    loads = [
        {"partition": p, "records": n, "bytes": n * 9, "share": 0, "top_key_records": n // 3, "top_key_bytes": n * 3}
        for p, n in enumerate(records)
        if n
    ]
    worst = max(records) * len(records) / sum(records)
    return {
        "run": "r", "topic": name, "partitions": len(records), "records": sum(records), "bytes": 9 * sum(records),
        "max_over_mean": worst, "cv": 0.1, "gini": 0.1, "empty_partitions": records.count(0), "loads": loads,
        "judged_records": sum(records), "numbered_records": 0, "record_max_over_mean": worst,
    }  # fmt: skip


def much() -> tuple[dict[str, Any], page.Details]:
    """A small topic and one of 1,000 partitions with an odd name; a group of 40 that owns it, one part twice."""
    wide = [7 + p % 5 for p in range(1000)]
    tried = [
        {"run": "r", "topic": "orders", "rule": rule, "partitions": n, "current": n == 3, "records": 1, "bytes": 1,
         "keys": 5, "moved_keys": None, "moved_key_share": share, "moved_records": None, "max_over_mean": 1.5, "cv": 0}
        for rule, share in (("java", 0.25), ("roundrobin", None)) for n in (3, 12)
    ]  # fmt: skip
    intervals = [
        svg.DrawnInterval(
            NASTY, p, f"{NASTY}-m{(p + g) % 40}", g * 10**9, (g + 1) * 10**9, "revoked", 30.0 * (p == g == 1)
        )
        for p in range(1000)
        for g in range(2)
    ]
    group = {"run": "r", "group": NASTY, "intervals": 2000, "members": 40, "moves": 1000, "source": "callback",
             "longest_gap_ms": 0.0, "gap_at_least_ms": 0.0, "gap_at_most_ms": 0.0, "overlap_ms": 30.0}  # fmt: skip
    rebalance = {
        "run": "r", "group": NASTY, "rebalance": 0, "generation": 1, "generations": 1, "begin_ns": 0,
        "elected": "range", "members": 40, "moves": 3, "min_moves": None, "stop_ms": 0.0,
        "stop_at_least_ms": 0.0, "stop_at_most_ms": 0.0,
        "tp_downtime_ms": 0.0, "assign_us": None, "trigger": "join+kill", "needless": None, "returned": 4,
    }  # fmt: skip
    assignor = {"run": "r", "group": NASTY, "assignor": "range", "elected": True, "moves": 0,
                "max_partitions": 25, "max_over_mean": 1.0, "rebalances": 1}  # fmt: skip
    lags = [
        {"run": "r", "group": NASTY, "topic": NASTY, "partition": p, "member": f"{NASTY}-m1", "committed": p,
         "committed_at": "2026-01-02 00:00:00", "end": 2 * p, "lag": p}
        for p in range(999, 9, -1)
    ]  # fmt: skip
    nothing = {"member": None, "committed": None, "committed_at": None, "end": None, "lag": None}
    lags.append({"run": "r", "group": NASTY, "topic": NASTY, "partition": 0, **nothing})
    hot = {"run": "r", "topic": "orders", "rank": 1, "key_hash": 1, "key_sample": NASTY, "records": 90,
           "bytes": 9, "share": 0.3, "partition": 1, "partitions": 2, "byte_rank": None, "byte_share": 0.1}  # fmt: skip
    findings = [{"kind": kind, "text": f"{kind} of {NASTY}", "more": None} for kind in (*page.KINDS, "new")]
    said = {
        "topics": [topic("orders", [9, 300, 0]), topic(NASTY, wide)], "groups": [group], "rebalances": [rebalance],
        "lags": lags,
        "assignors": [assignor], "partitioners": tried, "hot_keys": [hot], "findings": findings, "rejected": {NASTY: 2},
    }  # fmt: skip
    begin = datetime(2026, 1, 2, tzinfo=timezone.utc)
    windows = {"orders": [(begin + timedelta(minutes=i), 5) for i in range(5000)], NASTY: [(begin, 9)]}
    return said, page.Details(windows, {NASTY: intervals}, {NASTY: 17})


def test_the_page_needs_nothing_from_elsewhere_and_shows_all() -> None:
    text = page.render(*much())
    found = Wellformed(text)

    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    assert not re.search(r"https?:|url\(|@import|//", "".join(re.findall(r"<style>.*?</style>", text, re.S)))
    assert not any(re.match(r"(?i)\s*(https?:|//|javascript:|data:)", value) for value in found.values)
    assert NASTY in found.text  # as text, not as tags
    for kind in (*page.KINDS, "new"):
        assert f"{kind} of {NASTY}" in found.text
    assert f"{991 - page.MOST_LAGS} topic-partitions with smaller or unknown lags" in found.text
    assert f"{sum(range(10, 1000)):,} records in sum" in found.text
    assert {"and 16 more", "and 1 more"} <= set(re.findall(r"and \d+ more", found.text))
    assert "17 are not" in found.text
    assert "2026-01-02 00:00:00 to 2026-01-05 11:19:00 UTC" in found.text
    assert "keys not looked at" in found.text
    assert "join+kill" in found.text
    assert len(text) < 400_000  # 2,000 intervals and 1,000 partitions


def test_a_page_of_nothing_is_a_page() -> None:
    found = Wellformed(page.render(EMPTY, page.Details()))

    assert "There was nothing to judge." in found.text
    assert "No records were read." in found.text
    assert "svg" not in found.tags


@pytest.mark.slow
def test_a_page_without_findings_says_what_was_looked_at_and_no_more() -> None:
    said, more = much()
    said["findings"] = []
    (group,) = said["groups"]
    text = lambda: Wellformed(page.render(said, more)).text

    assert "one owner per topic-partition at any time; no process was killed" in text()
    assert "of the reference rule" in text()
    assert "sender" not in text()
    for row in said["topics"]:
        row |= {"judged_records": 0, "numbered_records": 7}
    group |= {"source": "coordlog", "longest_gap_ms": None, "gap_at_least_ms": 10.0, "gap_at_most_ms": 16_000.0}
    unknown = dict.fromkeys(("stop_ms", "stop_at_most_ms", "tp_downtime_ms"))
    said["rebalances"][0] |= {**unknown, "stop_at_least_ms": 8.0}
    told = text()
    assert "one owner" not in told
    assert "killed;" not in told
    assert "No key was compared with a reference rule." in told
    assert "The 14 numbered records are in" in told
    assert "This log does not show members between two generations." in told
    assert "10 to 16,000 ms" in told
    assert "at least 8 ms" in told


def test_a_bar_of_the_coordinators_log_is_full_only_where_commits_show_a_consumer() -> None:
    rows = [
        svg.DrawnInterval("t", 0, "a", 0, 5 * 10**9, "left or expired", 0.0, "coordlog", 10**9, 2 * 10**9),
        svg.DrawnInterval("t", 0, "b", 5 * 10**9, 10 * 10**9, "open", 0.0, "coordlog"),
    ]
    drawn = str(svg.timeline(rows, colours(["a", "b"]), [(0, "generation 1")]))

    width = svg.WIDTH - svg.LABEL - 6
    assert drawn.count('fill-opacity="0.35"') == 2
    assert re.findall(r'class="shown" x="([\d.]+)".*?width="([\d.]+)"', drawn) == [
        (f"{svg.LABEL + 0.1 * width:.1f}", f"{0.1 * width:.1f}")
    ]
    assert re.findall(r'class="cross"[^>]*>(.)', drawn) == ["?"]


@pytest.mark.spark
def test_what_is_collected_for_the_page_is_bounded(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """More windows than steps, more groups than are drawn, more intervals than a group's share."""
    monkeypatch.setattr(page, "MOST_GROUPS", 2)
    monkeypatch.setattr(page, "MOST_INTERVALS", 5)
    at = sf.timestamp_seconds(sf.col("id") * 60)
    windows = spark.range(5000).select(sf.lit("t").alias("topic"), at.alias("window_start"), sf.lit(1).alias("records"))
    owned = [("abc"[n % 3], "t", n, "m", n, n + 1, "open", 0.0, "callback", None, None) for n in range(25)]
    names = "group string, topic string, partition int, member string, start_ns long, end_ns long, end_kind string, "
    timeline = spark.createDataFrame(
        owned, names + "overlap_prev_ms double, source string, first_commit_ns long, last_commit_ns long"
    )

    found = page.details({"placement": windows, "group_timeline": timeline})

    assert len(found.windows["t"]) == page.MOST_WINDOWS
    assert sum(records for _, records in found.windows["t"]) == 5000
    assert found.windows["t"] == sorted(found.windows["t"])
    assert {group: [iv.partition for iv in drawn] for group, drawn in found.intervals.items()} == {
        "a": [0, 3, 6, 9, 12], "b": [1, 4, 7, 10, 13],
    }  # fmt: skip
    assert found.left_out == {"a": 4, "b": 3}


def test_bars_are_the_loads() -> None:
    """Heights are to scale, and the line is the mean."""
    drawn = str(svg.bars([10, 30, 0, 20], {1: 15}, "records", height=136))

    assert re.findall(r'class="bar".*?height="([\d.]+)"', drawn) == ["33.3", "100.0", "0.0", "66.7"]
    assert re.findall(r'class="hot".*?height="([\d.]+)"', drawn) == ["50.0"]
    assert re.findall(r'class="mean".*?y1="([\d.]+)"', drawn) == ["68.0"]  # 15 of 30, from the base at 118
    assert "partition 1: 30" in drawn


def test_a_timeline_is_to_scale_and_frames_what_two_owned() -> None:
    rows = [
        svg.DrawnInterval("t", 0, "a", 0, 5 * 10**9, "killed", 0.0),
        svg.DrawnInterval("t", 0, "b", 4 * 10**9, 10 * 10**9, "open", 1000.0),
    ]
    drawn = str(svg.timeline(rows, colours(["a", "b"]), [(0, "generation 1")]))

    width = svg.WIDTH - svg.LABEL - 6
    shapes = [(float(x), float(w)) for x, w in re.findall(r'<rect x="([\d.]+)".*?width="([\d.]+)"', drawn)]
    bars = [(svg.LABEL, round(width / 2, 1)), (round(svg.LABEL + 0.4 * width, 1), round(0.6 * width, 1))]
    assert shapes == [*bars, (0, 12), (38, 12)], "two bars, then the legend"
    assert re.findall(r'class="twice" x="([\d.]+)".*?width="([\d.]+)"', drawn) == [
        (f"{svg.LABEL + 0.4 * width:.1f}", f"{0.1 * width:.1f}")
    ]
    assert drawn.count('class="cross"') == 1


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        (100, ["0 s", "10 s", "20 s", "30 s", "40 s", "50 s", "60 s", "70 s", "80 s", "90 s", "100 s"]),
        (300, ["0 s", "30 s", "60 s", "90 s", "120 s", "150 s", "180 s", "210 s", "240 s", "270 s", "300 s"]),
        (600, ["0 min", "1 min", "2 min", "3 min", "4 min", "5 min", "6 min", "7 min", "8 min", "9 min", "10 min"]),
        (86_400, ["0 h", "4 h", "8 h", "12 h", "16 h", "20 h", "24 h"]),
    ],
)
def test_ticks_are_whole_numbers_of_one_unit(seconds: int, labels: list[str]) -> None:
    drawn = str(svg.timeline([svg.DrawnInterval("t", 0, "a", 0, seconds * 10**9, "open", 0.0)], colours(["a"]), []))
    assert re.findall(r'<text class="dim"[^>]*>([\d.]+ (?:s|min|h|d))</text>', drawn) == labels
    last = re.findall(rf'<text class="dim" x="([\d.]+)"[^>]*text-anchor="end">{labels[-1]}<', drawn)
    assert last == [f"{svg.WIDTH - 6:.1f}"], "it ends where the axis ends, and is not cut off"


def test_lines_are_to_scale_and_each_has_its_colour() -> None:
    drawn = str(svg.lines({"java": [(3, 1.0), (12, 3.0)], "sticky": [(12, 2.0), (3, 1.0)]}))

    java, sticky = (
        [float(y) for y in re.findall(r",([\d.]+)", points)] for points in re.findall(r'points="([^"]+)"', drawn)
    )
    assert java[0] == sticky[0] == 202
    assert re.findall(r'x="0" y="[\d.]+">([^<]*)</text>', drawn) == ["1", "2", "3"], "ticks in whole units"
    assert java[0] - java[1] == 2 * (sticky[0] - sticky[1])
    assert len(set(re.findall(r'stroke="(#\w+)"', drawn))) == 2


@pytest.mark.slow
def test_pngs_are_drawn_for_what_there_is(tmp_path: Path) -> None:
    said, more = much()

    made = charts.write(said, more, tmp_path / "png")

    assert [path.name[:9] for path in made] == ["load.png", "what-if.p", "timeline-"]
    for path in made:
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert int.from_bytes(data[16:20], "big") >= 1000  # px wide
    assert charts.write(EMPTY, page.Details(), tmp_path / "none") == []


def test_members_have_their_client_ids_and_what_is_unknown_says_why() -> None:
    said, _ = much()
    ids = [f"billing-{each * 8}-1111-2222-3333-{each * 12}" for each in "ab"]
    rows = [svg.DrawnInterval("t", p, member, 0, 10**9, "revoked", 0.0) for p, member in enumerate(ids)]
    said["findings"] = [{"kind": "overlap", "text": f"{ids[1]} was second", "more": None}]

    drawn = page.render(said, page.Details({}, {NASTY: rows}, {NASTY: 0}))

    assert not re.search(r"[0-9a-f]{8}-1111-", drawn)
    assert "billing (2) was second" in drawn
    assert ">billing<" in drawn
    assert "?</td>" not in drawn
    assert "not known: only the leader" in drawn
