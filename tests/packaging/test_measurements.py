"""docs/measurements.md: every raw file is named, and the figures of its tables are those of the raw files."""

from __future__ import annotations

import json
import re
from typing import Any

from benchmarks.table import table
from benchmarks.triggers import triggers
from tests.support.pages import PAGES
from tests.support.places import ROOT

RESULTS = ROOT / "benchmarks" / "results"
PAGE = PAGES["docs/measurements.md"]


def rows(*names: str) -> list[dict[str, Any]]:
    """The rows of raw files, without their first lines, which tell where and when."""
    read = [json.loads(line) for name in names for line in (RESULTS / name).read_text("utf-8").splitlines()]
    return [row for row in read if "name" in row]


def test_every_raw_file_is_named_and_every_name_is_a_file() -> None:
    assert set(re.findall(r"[\w-]+\.jsonl", PAGE)) == {path.name for path in RESULTS.glob("*.jsonl")}


def test_the_tables_of_rebalances_are_made_from_the_raw_file() -> None:
    made = triggers(rows("rebalances-full-20261121-223544.jsonl"), [])

    told = [line for line in made.splitlines() if line.startswith("|")]
    assert len(told) > 60
    assert [line for line in told if line not in PAGE] == []


def test_the_figures_of_one_assignment_are_the_raw_ones() -> None:
    """Each cell of W1 to W7, to the digits that the page shows."""
    kept = {
        row["name"]: row
        for row in rows(*(f"assignors-full-20261121-{at}.jsonl" for at in ("172335", "210640", "211330")))
    }
    lines = re.findall(r"^\| (W\d): [^|]*\|(.*)\|$", PAGE, re.MULTILINE)
    assert len(lines) == 7
    for name, line in lines:
        ours, sticky, aiokafka, java, cold, cooperative, franz = (cell.strip() for cell in line.split("|"))
        expected = [
            *zip(ours.split(" / "), ("", "/wire"), ("value", "value"), strict=True),
            (sticky, "", "peer_value"),
            (aiokafka, "/wire/aiokafka", "peer_value"),
            (java, "/wire/java-sticky", "peer_value"),
            (cold, "/wire/java-sticky/cold", "peer_value"),
            (re.sub(r".*\((.*)\)", r"\1", cold), "/wire/java-sticky/cold", "value"),
            (cooperative, "/wire/java-cooperative", "peer_value"),
            *zip(
                franz.split(" / "),
                ("/wire/franz-go-sticky", "/wire/franz-go-cooperative"),
                ("peer_value",) * 2,
                strict=True,
            ),
        ]
        for cell, row, column in expected:
            raw = kept[f"{name}-join{row}"]
            assert same(cell, raw[column]), (name, row, cell, raw[column])
            if times := re.search(r"\(([\d.]+)×\)", cell):
                assert abs(float(times[1]) / raw["ratio"] - 1) < 0.006, (name, row, cell)


def same(cell: str, value: float | None) -> bool:
    if cell.startswith(("no result", "not asked")):
        return value is None
    found = re.match(r"([\d.,]+) (ms|s)\b", cell)
    assert found, cell
    shown = float(found[1].replace(",", "")) * (1000 if found[2] == "s" else 1)
    return value is not None and abs(shown / value - 1) < 0.006


def test_the_figures_of_partitioners_are_the_raw_ones() -> None:
    made = table([[{"versions": {}, "at": "", "commit": "", "cpus": 2, "machine": "", "load": 0, "python": ""},
                   *rows("partitioners-full-20261123-075725.jsonl")]], [])  # fmt: skip
    section = PAGE[PAGE.index("## One record's partition") : PAGE.index("### A whole send")]
    ratios = re.findall(r"([\d.]+) \|$", section, re.MULTILINE)
    assert len(ratios) == 9
    for ratio in ratios:
        assert f"| {ratio} |" in made, ratio
