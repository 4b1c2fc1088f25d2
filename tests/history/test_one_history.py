"""One and the same history through every reader: rebalances, moves, needless ones and stops are the same numbers.

The pipeline's tables are in `tests/pipeline/groups/test_one_history.py`, because they need Spark.
"""

from __future__ import annotations

import io
import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kafka_assignors.history import ownership
from kafka_assignors.history.causes import gone_from
from kafka_assignors.history.generations import Log, generations
from kafka_assignors.history.rebalances import rebalances
from kafka_assignors.integration.checker import Verdict, check, intervals
from kafka_assignors.integration.commands.group_watcher import GroupView, news
from kafka_assignors.integration.history import History
from kafka_assignors.integration.report.report import Report, render_html, side_by_side, told_groups
from kafka_assignors.operator.cli.serving.exporter import PREFIX, Readings
from kafka_assignors.operator.cli.why import as_json
from kafka_assignors.operator.live.meter import SETTLED_S, LogMeter
from kafka_assignors.operator.live.monitor import Reading
from tests.support.histories.kept import COOPERATIVE, EAGER, Figures, log_of, unpacked

KNOWN = {COOPERATIVE: Figures(5, 18, 0, 0), EAGER: Figures(6, 24, 4, 36)}
"""Read off the committed assignments, which `test_the_known_figures_are_those_of_the_assignments` counts again."""
START = {COOPERATIVE: (2, 8), EAGER: (3, 10)}
"""Rebalances and moves of the first step, in which three members join."""


class Read:
    """A history and what the readers are given of it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.history = History.load(unpacked(name, folder))
        self.log: Log = log_of(self.history)
        self.verdict: Verdict = check(self.history)
        self.why: dict[str, Any] = as_json("g", True, rebalances(self.log))
        self.meter = LogMeter(Log((), whole=True))
        for now_s, record in enumerate(self.log.records):
            self.meter.add([record], now_s / 1e6)
        self.meter.add([], 1 + SETTLED_S)

    @property
    def steps(self) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = self.verdict.measures["steps"]
        return steps


@pytest.fixture(scope="module", params=[COOPERATIVE, EAGER])
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Read:
    return Read(request.param, tmp_path_factory.mktemp("kept"))


def test_the_known_figures_are_those_of_the_assignments(read: Read) -> None:
    """Apart from the model: who was assigned what, generation by generation."""
    last: dict[tuple[str, int], str] = {}
    moves = kept = 0
    for event in read.history.events:
        if event.kind != "generation_committed" or not event.data["members"]:
            continue
        claims = any(row["owned"] for row in event.data["members"])
        owners = {(tp["topic"], tp["partition"]): m["member_id"] for m in event.data["members"] for tp in m["assigned"]}
        moves += sum(tp in last and last[tp] != owner for tp, owner in owners.items())
        kept += 0 if claims else sum(last.get(tp) == owner for tp, owner in owners.items())
        last |= owners

    assert (moves, kept) == (KNOWN[read.name].moves, KNOWN[read.name].returned)


def test_why_tells_the_known_figures(read: Read) -> None:
    totals = read.why["totals"]

    assert Figures(totals["rebalances"], totals["moved"], totals["needless"], totals["returned"]) == KNOWN[read.name]


def test_watch_tells_the_rebalances_of_why(read: Read) -> None:
    view = GroupView("g", "Stable", "range", (), (), (), tuple(read.meter.rebalances), True).as_json()
    same = ("generations", "moved", "living", "returned", "withheld", "ownerless", "eager", "at_least_ms", "at_most_ms")
    told, why = (
        [[each[name] for name in same] for each in rows] for rows in (view["rebalances"], read.why["rebalances"])
    )

    assert told == why  # each once, whole and in order
    counted = [each for each in view["rebalances"] if each["members"] and not each["rewritten"]]
    assert len(counted) == KNOWN[read.name].rebalances
    assert sum(each["needless"] for each in counted) == KNOWN[read.name].needless
    lines = list(news(GroupView("g", "Stable", "range", (), (), (), tuple(read.meter.rebalances), True)))
    assert sum(int(n) for line in lines for n in re.findall(r"moved (\d+)", line)) == KNOWN[read.name].moves
    assert sum(int(n) for line in lines for n in re.findall(r"needless (\d+)", line)) == KNOWN[read.name].needless


def test_the_exporter_counts_the_same(read: Read) -> None:
    readings = Readings()
    readings.now = (Reading("g", read.meter.totals, read.meter.live, None, False),)
    told: dict[str, float] = {}
    for sample in (sample for metric in readings.collect() for sample in metric.samples):
        told[sample.name] = told.get(sample.name, 0) + sample.value
    known = KNOWN[read.name]

    assert told[f"{PREFIX}rebalances_total"] == known.rebalances
    assert told[f"{PREFIX}partitions_moved_total"] == known.moves
    assert told[f"{PREFIX}needless_moves_total"] == known.needless
    least_s = sum(each["at_least_ms"] for each in read.why["rebalances"]) / 1000
    assert told[f"{PREFIX}ownerless_seconds_lower_bound_total"] == pytest.approx(least_s)


def test_the_judges_costs_add_up_to_the_same(read: Read) -> None:
    names = ("rebalances", "moves", "needless", "returned")

    assert Figures(*(sum(step[name] for step in read.steps) for name in names)) == KNOWN[read.name]
    assert (read.steps[0]["rebalances"], read.steps[0]["moves"]) == START[read.name]
    told = [each for each in read.verdict.measures["rebalances"] if each["members"]]
    why = [each for each in read.why["rebalances"] if each["members"]]
    same = ("generations", "moved", "living", "least", "needless", "returned", "withheld", "ownerless", "eager")
    assert [[each[name] for name in same] for each in told] == [[each[name] for name in same] for each in why]


def test_the_stop_that_members_tell_is_within_the_bounds_of_the_log(read: Read) -> None:
    found = {each["generations"][-1]: each for each in read.why["rebalances"]}
    for step in read.steps[1:]:
        each = found[step["generation"]]
        assert each["at_least_ms"] <= step["stop_ms"] <= each["at_most_ms"]
        assert each["area_at_least_ms"] <= step["downtime_ms"] <= each["area_at_most_ms"]


def test_the_page_and_the_demos_table_show_the_same(read: Read) -> None:
    groups = told_groups(read.history, read.verdict)
    page = render_html(Report("kept", "", True, (), groups=groups))
    known, (rebalances_, moves) = KNOWN[read.name], START[read.name]

    assert f"{known.rebalances} rebalances in " in page
    rows = _table(page, "needless moves")
    assert (
        Figures(
            len(rows),
            *(sum(int(row[name]) for row in rows) for name in ("moves", "needless moves", "needless revokes")),
        )
        == known
    )
    steps = _table(page, "time to stable")
    sums = [sum(int(row[name]) for row in steps) for name in ("rebalances", "moves", "needless revokes")]
    assert sums == [known.rebalances, known.moves, known.returned]
    console = Console(width=250, record=True, file=io.StringIO())
    console.print(side_by_side([groups[0].row]))
    head, cells = (
        [cell.strip() for cell in re.split("[│┃]", line)[1:-1]]
        for line in console.export_text().splitlines()
        if "assignor" in line or groups[0].assignor in line
    )
    row = dict(zip(head, cells, strict=True))
    assert (int(row["rebalances"]), int(row["moves"])) == (known.rebalances - rebalances_, known.moves - moves)
    assert int(row["needless revokes"]) == sum(step["returned"] for step in read.steps[1:])
    longest = max(step["stop_ms"] for step in read.steps[1:] if not step["killed"])
    assert row["longest"] == f"{longest:,.0f} ms"


def _table(page: str, column: str) -> list[dict[str, str]]:
    """The rows of the page's table that has a column."""
    for table in re.findall(r"<table>(.*?)</table>", page, re.DOTALL):
        heads = re.findall(r"<th[^>]*>(.*?)</th>", table)
        if column in heads:
            rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)]
            return [dict(zip(heads, row, strict=True)) for row in rows if row]
    raise AssertionError(f"no table has a column {column!r}")


def test_the_timelines_of_the_log_and_of_the_members_have_the_same_moves(read: Read) -> None:
    """Nobody restarts, so that a member is one process."""
    found = generations(read.log.records)
    why = {(each.number, holder): how for each, gone in zip(found, gone_from(found), strict=True)
           for holder, how in gone.items()}  # fmt: skip
    by_log = ownership.intervals([each.committed for each in found], why)
    by_members = intervals(read.history)
    known = KNOWN[read.name]

    assert (sum(iv.moved for iv in by_log), sum(iv.returned for iv in by_log)) == (known.moves, known.returned)
    given_back = sum(
        (one.topic, one.partition, one.member, one.end_kind) == (two.topic, two.partition, two.member, "revoked")
        for one, two in itertools.pairwise(by_members)
    )
    assert (sum(iv.moved for iv in by_members), given_back) == (known.moves, known.returned)
