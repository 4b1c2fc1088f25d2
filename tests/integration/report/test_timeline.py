"""The ownership timeline of a group: it shows the history, and the page and the PNG draw it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from kafka_assignors.drawing import png
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.report.report import Report, law_rows, render_html, told_groups
from kafka_assignors.integration.report.timeline_svg import svg
from kafka_assignors.integration.report.timeline_view import (
    GAP,
    OVERLAP,
    OWNED,
    SHARED,
    ZOMBIE,
    TimelineView,
    timeline_views,
)
from tests.support.histories.story import Story, churn
from tests.support.wellformed import Wellformed


def paused() -> Story:
    """b stands still, a gets what it had, b goes on and hears of its loss."""
    story = Story("range", {"t": 4})
    story.tell("step", name="a and b join")
    story.start("a", "b").round().records(8).consume()
    story.tell("step", name="b is paused")
    story.pause("b").round()
    story.tell("step", name="b goes on")
    story.resume("b", notice_ms=200).round()
    return story


def overlapping() -> Story:
    """b never tells that it gave up what a has now."""
    story = Story("range", {"t": 2})
    story.tell("step", name="b joins")
    story.start("b").round()
    story.tell("step", name="a joins")
    return story.start("a").round().drop("revoke_begin", member="b").drop("revoke_end", member="b")


def timeline_of(story: Story) -> TimelineView:
    (found,) = timeline_views(story.history).values()
    return found


def test_every_owned_interval_and_every_gap_is_a_bar() -> None:
    story = churn()
    intervals = check(story.history).intervals

    shown = timeline_of(story)

    owned = [bar for bar in shown.bars if bar.kind == OWNED]
    assert len(owned) == len(intervals)
    assert {shown.rows[bar.row] for bar in owned} == {(i.topic, i.partition) for i in intervals}
    assert sum(bar.kind == GAP for bar in shown.bars) == sum(bool(i.gap_before_ms) for i in intervals) > 0
    assert sum(shown.downtime_ms) == pytest.approx(sum(i.gap_before_ms or 0 for i in intervals))
    assert sum(shown.records) == sum(e.kind == "ack" for e in story.events) > 0
    assert [(mark.label, mark.title) for mark in shown.steps] == [
        ("1", "three join"), ("2", "a fourth joins"), ("3", "b leaves"), ("4", "c is killed"),
    ]  # fmt: skip
    assert [mark.label for mark in shown.generations] == ["1", "2", "3", "4"]
    assert [mark.label for mark in shown.faults] == ["kill c"]


def test_a_paused_member_is_a_zombie_in_a_style_of_its_own_and_shares_lawfully() -> None:
    shown = timeline_of(paused())

    zombies = [bar for bar in shown.bars if bar.kind == ZOMBIE]
    assert {bar.member for bar in zombies} == {"b"}
    assert all(bar.end_s - bar.start_s > 1.2 for bar in zombies)
    assert {bar.kind for bar in shown.bars} == {OWNED, GAP, ZOMBIE, SHARED}
    (fault,) = shown.faults
    assert fault.label == "pause b"
    assert fault.end_s is not None
    assert fault.end_s - fault.at_s > 1


def test_two_owners_are_an_overlap() -> None:
    story = overlapping()
    assert check(story.history).value is False

    assert [bar.row for bar in timeline_of(story).bars if bar.kind == OVERLAP] == [0]


def test_the_page_of_a_kept_history_has_all_of_it_and_fetches_nothing() -> None:
    history = overlapping().history
    verdict = check(history)

    page = render_html(Report("kept", "", verdict.value, (), groups=told_groups(history, verdict)))

    parsed = Wellformed(page)
    assert parsed.fetched == []
    assert parsed.classes["overlap"] == 2  # the legend's, and the one that is there
    assert "a joins" in page
    told = {row.law: row for row in law_rows(verdict)}
    assert (told["O1"].value, told["O2"].value, told["T2"].value) == (False, True, None)
    assert all(row.says for row in told.values())
    for row in told.values():
        assert f"{row.law}: {row.says}" in page.replace("&#39;", "'")


def test_names_from_the_history_cannot_become_markup() -> None:
    story = Story("range", {"<b>t</b>": 1})
    story.tell("step", name="<script>alert(1)</script>")
    story.start("a").round()
    history = story.history

    page = render_html(Report("kept", "", None, (), groups=told_groups(history, check(history))))

    assert "<script>" not in page
    assert "<b>t</b>" not in page
    assert "<b>t" not in svg(timeline_of(story), "p")


@pytest.mark.slow
def test_the_png_has_a_size(tmp_path: Path) -> None:
    png([("paused", svg(timeline_of(paused()), "p"))], tmp_path / "t.png")

    data = (tmp_path / "t.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width > 1000
    assert height > 200
    assert zlib.crc32(data[-8:-4]) == struct.unpack(">I", data[-4:])[0]  # whole: its last chunk is there
