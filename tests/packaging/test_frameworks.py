"""The page of frameworks says what its kept histories show: each is judged again."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.report.service_view import service_view
from kafka_assignors.integration.scenario import SCENARIOS
from tests.support.further import further
from tests.support.pages import PAGES
from tests.support.places import ROOT

FOLDER = ROOT / "docs" / "histories" / "frameworks"
TABLE = [row for row in PAGES["docs/frameworks.md"].splitlines() if "| `" in row]
LINK = re.compile(r"\[[^]]+\]\(histories/frameworks/([^)]+)\)")
ROWS = {link[1]: row.replace("**", "").strip("| ").split(" | ") for row in TABLE if (link := LINK.search(row))}
"""File name of a kept history -> the cells of its row."""


def test_every_kept_history_has_a_row() -> None:
    assert sorted(ROWS) == sorted(path.name for path in FOLDER.glob("*"))
    assert len(ROWS) == len(TABLE) >= 22


@pytest.mark.slow
@pytest.mark.parametrize("name", further(ROWS))
def test_a_kept_history_shows_what_its_row_says(name: str, tmp_path: Path) -> None:
    with tarfile.open(FOLDER / name) as kept:
        kept.extractall(tmp_path, filter="data")
    history = History.load(tmp_path)

    _, _, scenario, records, *outputs, stop_s, value = ROWS[name]
    verdict, view = check(history, (), SCENARIOS[scenario.strip("`")].require), service_view(history)

    broken = ", ".join(sorted({violation.law for violation in verdict.violations}))
    shown = f"false: {broken}" if broken else "true" if verdict.value else "unknown"
    first = "–" if view.committed_first is None else f"{view.committed_first:,}"
    assert f"`{name.split('.')[1]}`" == scenario
    assert records == f"{view.sent:,}"
    assert outputs == [f"{view.without_output:,}", f"{view.several_outputs:,}", first]
    assert stop_s == f"{verdict.measures['longest_gap_ms'] / 1000:.1f}"
    assert value == shown
