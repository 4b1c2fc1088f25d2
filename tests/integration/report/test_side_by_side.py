"""The page's first lines: the result, the assignors side by side, the laws in words."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from kafka_assignors.drawing import axis_time
from kafka_assignors.integration.checker import LAWS, Violation, check
from kafka_assignors.integration.report.report import (
    COLUMNS,
    GroupResult,
    Report,
    cost_table,
    render_html,
    side_by_side,
    told_groups,
    verdict_lines,
)
from kafka_assignors.integration.report.side_by_side import compared, result_words
from kafka_assignors.integration.report.time_axis import CUT_PX, TimeAxis
from kafka_assignors.integration.report.timeline_svg import axis_of
from kafka_assignors.integration.report.timeline_view import GAP, timeline_views
from tests.support.histories.story import Story, churn
from tests.support.wellformed import Wellformed


def played(story: Story, title: str, about: str = "the scenario") -> GroupResult:
    (group,) = told_groups(story.history, check(story.history))
    return replace(group, title=title, about=about)


def test_the_kill_stands_apart_and_the_bound_beside_the_moves() -> None:
    group = played(churn(), "one")
    (row, _) = compared([group, replace(group, title="two")])

    steps = {step["name"]: step for step in group.verdict.measures["steps"]}
    killed, start = steps.pop("c is killed"), steps.pop("three join")
    assert row.killed_ms == killed["stop_ms"] > 0
    assert row.stop_ms == max(step["stop_ms"] for step in steps.values())
    assert row.downtime_ms == sum(step["downtime_ms"] for step in steps.values()) > row.stop_ms
    assert row.generations == sum(step["generations"] for step in (*steps.values(), killed))
    assert row.rebalances == sum(step["rebalances"] for step in (*steps.values(), killed))
    assert row.moves == sum(step["moves"] for step in (*steps.values(), killed)) > start["moves"]
    assert row.least is not None
    assert 0 < row.least <= row.moves


def test_the_result_comes_first() -> None:
    group = played(churn(), "one")
    groups = (group, replace(group, title="two"))
    moved, least = group.row.moves, group.row.least

    words = result_words(groups)

    assert (None, f"moves {moved} / {moved} of at least {least}") in words
    assert (True, "0 double owners") in words
    page = Wellformed(render_html(Report("demo", "", True, (), groups=groups))).text
    assert page.index("0 double owners") < page.index("side by side") < page.index("Who owned what")
    assert compared((group,)) == []


def test_a_record_without_an_output_counts_as_lost() -> None:
    group = played(churn(), "one")
    missing = Violation("X1", "1 record(s) of t-0 have no committed output: offset 3", ())
    lossy = replace(group, verdict=replace(group.verdict, value=False, violations=(missing,)))

    assert result_words([group])[0][1] == "0 lost"
    assert result_words([lossy])[0] == (False, "records lost, doubled, or on another partition, in 1 place")


def test_the_time_without_an_owner_is_the_first_column() -> None:
    """Over all partitions, then the longest; on the page, in the demo's table, and for a single group."""
    group = played(churn("cooperative-sticky"), "one")
    area, longest = f"{group.row.downtime_ms:,.0f}", f"{group.row.stop_ms:,.0f} ms"

    assert [head for head, _ in COLUMNS][:2] == ["partition-ms without an owner", "longest"]
    assert [cell(group.row) for _, cell in COLUMNS][:2] == [area, longest]
    console = Console(width=250, record=True, file=io.StringIO())
    console.print(side_by_side([group.row]), cost_table(group.row))
    compared_, alone = console.export_text().split("the running group")
    assert re.search(rf"cooperative-sticky +│ {area} +│ {longest} ", compared_)
    assert re.search(rf"^ *partition-ms without an owner +{area} *$", alone, re.MULTILINE)
    for groups in ((group,), (group, replace(group, title="two"))):
        page = Wellformed(render_html(Report("demo", "", True, (), groups=groups))).text
        head = page[page.index("partition·ms without an owner") :]
        assert head.index("longest") < head.index("moves")


def test_a_broken_law_is_a_sentence_with_its_witness() -> None:
    story = Story("range", {"t": 2})
    story.start("a", "b").round()
    story.change("generation_committed", lambda data: data["members"][0].update(assigned=[], assignment=""))
    group = played(story, "one")

    lines = verdict_lines(group.verdict)
    (message,) = (v.message for v in group.verdict.violations if v.law == "O3")

    assert message == "generation 1, led by a: t-0 → nobody"
    assert f"  O3: {message}" in lines
    broken = len({violation.law for violation in group.verdict.violations})
    assert lines[0].startswith(f"verdict FALSE: {broken} law")
    assert f" of {len(LAWS)} laws held, " in lines[0]
    assert message in Wellformed(render_html(Report("one", "", False, (), groups=(group,)))).text


def test_of_many_reasons_the_first_are_printed_and_the_rest_counted() -> None:
    verdict = replace(
        check(churn().history), value=None, unknown=tuple(f"f.jsonl:{n}: unreadable" for n in range(1203))
    )

    lines = [line for line in verdict_lines(verdict) if line.startswith("  unknown: ")]

    assert lines[0] == "  unknown: f.jsonl:0: unreadable"
    assert lines[20:] == ["  unknown: 1,183 more reasons; --json has them all"]


def test_laws_are_counted_once_each() -> None:
    verdict = check(churn().history)
    held = sum(1 for times in verdict.checked.values() if times)

    assert verdict.words == f"{held} of {len(LAWS)} laws held, {len(LAWS) - held} had nothing to judge"


def test_idle_time_is_cut_and_the_rest_keeps_its_order() -> None:
    story = Story("range", {"t": 2})
    story.start("a").round().wait(60_000).start("b").round()
    (view,) = timeline_views(story.history).values()

    axis = axis_of(view)

    (cut,) = axis.cuts
    assert cut.to_s - cut.from_s == pytest.approx(59, abs=2)
    assert axis.x(cut.to_s) - axis.x(cut.from_s) == pytest.approx(CUT_PX)
    places = [axis.x(view.seconds * i / 100) for i in range(101)]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, pytest.approx(axis.px))
    assert TimeAxis.of(10, 100, range(11)).cuts == ()


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        (0.02, ["0 ms", "2 ms", "4 ms", "6 ms", "8 ms", "10 ms", "12 ms", "14 ms", "16 ms", "18 ms", "20 ms"]),
        (1.5, [f"{ms:,} ms" for ms in range(0, 1501, 200)]),
        (4, ["0 s", "1 s", "2 s", "3 s", "4 s"]),
        (9.7, [f"{s} s" for s in range(10)]),
        (700, [f"{minutes} min" for minutes in range(12)]),
        (90_000, ["0 d", "1 d"]),
    ],
)
def test_ticks_are_whole_numbers_of_one_unit(seconds: float, labels: list[str]) -> None:
    axis = TimeAxis(seconds, 760.0)

    assert [axis_time(at, axis.tick_s) for at in axis.ticks()] == labels


def test_a_partition_that_nobody_owns_is_red_to_the_edge() -> None:
    story = Story("range", {"t": 2})
    story.start("a", "b").round().kill("a").wait(3_000).tell("step", name="nobody takes over")
    story.wait(4_000).tell("closing")
    (view,) = timeline_views(story.history).values()

    last = [bar for bar in view.bars if bar.kind == GAP]

    assert view.seconds > 6.9
    assert max(bar.end_s for bar in last) == pytest.approx(view.seconds)
