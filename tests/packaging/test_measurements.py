"""docs/measurements.md: every raw file is named, and the figures of its tables are those of the raw files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import stop_tables, summary
from benchmarks.table import table
from tests.support.pages import PAGES
from tests.support.places import ROOT

RESULTS = ROOT / "benchmarks" / "results"
PAGE = PAGES["docs/measurements.md"]


def rows(*names: str) -> list[dict[str, Any]]:
    """The rows of raw files, without their first lines, which tell where and when."""
    read = [json.loads(line) for name in names for line in (RESULTS / name).read_text("utf-8").splitlines()]
    return [row for row in read if "name" in row]


def test_every_raw_file_is_named_and_every_name_is_a_file() -> None:
    """The page names what its tables show, the end of ``benchmarks/README.md`` what earlier code gave."""
    earlier = PAGES["benchmarks/README.md"].partition("## Raw files of earlier code")[2]
    named = set(re.findall(r"[\w-]+\.jsonl", PAGE + earlier))
    there = {path.name for path in RESULTS.glob("*.jsonl")}
    assert named <= there
    # Git ignores what a quick run leaves.
    assert {name for name in there - named if "-quick-" not in name} == set()


def test_the_table_of_goals_is_made_from_the_raw_file() -> None:
    (name,) = re.findall(r"all-quick-[\w-]+\.jsonl", section("All goals, quick form"))
    ran = summary.read(RESULTS / name)

    assert "\n".join(summary.goals_table(ran)) in PAGE
    assert f"{sum(each.seconds for each in ran) // 60:.0f} min" in section("All goals, quick form")


def stops() -> list[dict[str, Any]]:
    """The rows of the raw files that the section names."""
    return rows(*re.findall(r"stops-[\w-]+\d\.jsonl", section("Stops")))


def test_the_tables_of_stops_are_made_from_the_raw_file() -> None:
    """``python -m benchmarks.table FILE --pages`` writes them."""
    made = [line for line in stop_tables.tables(stops()) if line.startswith("|")]

    assert len(made) >= 15
    assert [line for line in made if line not in PAGE] == []


def test_the_table_of_the_readme_is_made_from_the_raw_file_of_the_measurements() -> None:
    made = "\n".join(stop_tables.short(stops())).strip("\n")

    assert made in PAGES["README.md"]
    first, second = [found.start() for found in re.finditer(r"^\* \*\*", PAGES["README.md"], re.MULTILINE)][:2]
    assert first < PAGES["README.md"].index(made) < second


def test_tables_are_written_between_their_marks(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    pages = [tmp_path / "README.md", tmp_path / "docs" / "measurements.md"]
    for page in pages:
        page.write_text("before\n<!-- stops -->\nold\n<!-- /stops -->\nafter\n", "utf-8")

    for _ in range(2):
        stop_tables.write(stops(), ["new", "", "", "lines", ""], tmp_path)

    assert pages[1].read_text("utf-8") == "before\n<!-- stops -->\n\nnew\n\nlines\n\n<!-- /stops -->\nafter\n"
    assert "old" not in pages[0].read_text("utf-8")
    pages[0].write_text("no marks", "utf-8")
    with pytest.raises(SystemExit, match="has no place for the tables"):
        stop_tables.write(stops(), [], tmp_path)


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


def same(cell: str, value: float | None, share: float = 0.006) -> bool:
    """Whether a cell in milliseconds is this value, to the digits that it shows."""
    if cell.startswith(("> 60,000", "> 30,000", "–")):  # no result within 60 s, or 30 s; or not asked
        return value is None
    found = re.match(r"(\d[\d,]*(?:\.\d+)?)(?=$|[ ,])", cell)
    assert found, cell
    return value is not None and abs(float(found[1].replace(",", "")) / value - 1) < share


def test_the_figures_of_partitioners_are_the_raw_ones() -> None:
    made = table([[{"versions": {}, "at": "", "commit": "", "cpus": 2, "machine": "", "load": 0, "python": ""},
                   *rows("partitioners-full-20261123-075725.jsonl")]], [])  # fmt: skip
    section = PAGE[PAGE.index("## One record's partition") : PAGE.index("### A whole send")]
    ratios = re.findall(r"([\d.]+) \|$", section, re.MULTILINE)
    assert len(ratios) == 9
    for ratio in ratios:
        assert f"| {ratio} |" in made, ratio


def section(title: str) -> str:
    """The text below a heading, up to the next one."""
    return re.split(r"^#+ ", PAGE, flags=re.MULTILINE)[
        [line.lstrip("# ") for line in PAGE.splitlines() if re.match("#+ ", line)].index(title) + 1
    ]


def cells(title: str) -> list[list[str]]:
    """The table below a heading: its rows without the first two, each with its cells."""
    rows = [line.strip("|").split("|") for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_figures_of_a_small_group_are_the_raw_ones() -> None:
    kept = {row["name"]: row for row in rows("assignors-full-20261123-001622.jsonl")}
    table = cells("A small group")
    assert len(table) == 6
    for title, *figures in table:
        wire = "/wire" if "bytes" in title else ""
        for strategy, cell in zip(("range", "roundrobin", "sticky", "cooperative-sticky"), figures, strict=True):
            row = kept.get(f"{title[:2]}-join/{strategy}{wire}")
            assert row or cell == "–", (title, cell)
            if row:
                ms, ratio = re.findall(r"[\d.]+", cell)
                assert near(ms, row["value"], 0.05), (title, cell)
                assert near(ratio, row["ratio"]), (title, cell)


def test_the_figures_of_a_send_are_the_raw_ones() -> None:
    kept = {row["name"]: row for row in rows("send-full-20261123-094319.jsonl")}
    names = (
        "kafka-python", "aiokafka/function", "aiokafka/producer", "confluent-kafka/twin",
        "confluent-kafka/chosen-in-python",
    )  # fmt: skip
    for name, (_, ours, peer, ratio, cpu) in zip(names, cells("A whole send"), strict=True):
        row = kept[name]
        found = row["value"], row["peer_value"], row["ratio"], kept[f"{name}/cpu"]["ratio"]
        for cell, value in zip((ours, peer, ratio, cpu), found, strict=True):
            assert near(cell, value), (name, cell)


def test_the_figures_of_a_start_are_the_raw_ones() -> None:
    kept = {row["name"]: row for row in rows("start-full-20261123-080642.jsonl")}
    *restarts, idle = cells("The start of a member")
    for assignor, (_, *both) in zip(("cooperative-sticky", "range"), restarts, strict=True):
        for cell, column in zip(both, ("value", "peer_value"), strict=True):
            cpu, wall = cell.split(", ")
            assert near(cpu, kept[f"restart/{assignor}/cpu"][column]), (assignor, cell)
            assert near(wall, kept[f"restart/{assignor}"][column]), (assignor, cell)
    for cell, column in zip(idle[1:], ("value", "peer_value"), strict=True):
        for megabytes, assignor in zip(cell.split(", "), ("cooperative-sticky", "range"), strict=True):
            assert near(megabytes, kept[f"idle/{assignor}"][column]), (assignor, cell)


def test_the_figures_of_spread_first_are_the_raw_ones() -> None:
    kept = {row["name"]: row for row in rows("spread-full-20261122-213742.jsonl")}
    for title, ours, default, kafka_python, java in cells("Spread first"):
        name = f"{title[:2]}-join/spread"
        assert same(ours, kept[f"{name}/ours-by-default"]["value"]), title
        for cell, peer in ((default, "ours-by-default"), (kafka_python, "kafka-python"), (java, "java")):
            assert same(cell, kept[f"{name}/{peer}"]["peer_value"], 0.02), (title, cell)


def test_the_figures_of_a_brokers_start_are_the_raw_ones() -> None:
    kept = {row["name"]: row for row in rows("broker-full-20261123-075604.jsonl")}
    told = section("A broker's start")
    for count in ("1", "3", "3-jvms"):
        wall, memory = kept[f"warm-start-{count}"]["value"], kept[f"warm-start-{count}-memory"]["value"]
        found = re.findall(r"([\d.]+) s with\s+(\d+) MB", told)
        assert any(near(s, wall) and near(mb, memory) for s, mb in found), (count, wall, memory)
    assert near(re.findall(r"back ([\d.]+) s", told)[0], kept["restart-1"]["value"])


def test_the_figures_of_the_readme_are_the_raw_ones() -> None:
    """The numbers of its first screen, each from the raw file that the section it links has."""
    text = " ".join(PAGES["README.md"].split())
    assignors, one = (
        {row["name"]: row for row in rows(name)}
        for name in ("assignors-full-20261121-210640.jsonl", "partitioners-full-20261123-075725.jsonl")
    )
    w3, key = assignors["W3-join"], one["new-key-12"]
    found = [
        (r"takes (\S+) ms of CPU, kafka-python's (\S+) s,", w3["value"], w3["peer_value"] / 1000),
        (r"a new key takes (\S+) µs instead of (\S+) µs", key["value"] / 1000, key["peer_value"] / 1000),
    ]
    for words, *values in found:
        told = re.search(words, text)
        assert told, words
        for shown, value in zip(told.groups(), values, strict=True):
            assert near(shown, value), (words, shown)
    moves = re.search(r"ours moves (\S+) partitions and kafka-python's ([\d,]+)", text)
    assert moves
    assert f"moves ours {moves[1]}, peer {moves[2]}".replace(",", "") in w3["note"].replace(",", "")


def near(cell: str, value: float, share: float = 0.02) -> bool:
    """Whether the first number of a cell is this one, to the digits that it shows."""
    found = re.search(r"[\d,]*\.?\d+", cell)
    assert found, cell
    return abs(float(found[0].replace(",", "")) / value - 1) < share


def test_the_cost_of_judging_is_that_of_the_raw_file() -> None:
    table_of, raw = section("Judging a run"), rows("judge-1m-20261127-0326-against-af8a41c.jsonl")

    def mean(code: str, *parts: str) -> float:
        mine = [sum(row[part] for part in parts) for row in raw if row["name"] == code]
        return sum(mine) / len(mine)

    for columns in (("load_s", "check_s"), ("check_s",)):
        ours, before = mean("this", *columns), mean("af8a41c", *columns)
        for figure in (f"{ours:.1f}", f"{before:.1f}", f"{ours / before:.2f}"):
            assert f" {figure} " in table_of


def test_what_the_recorders_cost_is_that_of_the_raw_files() -> None:
    table_of = section("The recorders")
    ways = ("poll", "iterator"), ("poll", "consume"), ("getmany", "getone")
    clients = "kafka-python", "confluent-kafka", "aiokafka"
    names = [f"{client}/{way}/cpu" for client, two in zip(clients, ways, strict=True) for way in two]
    by_name = {row["name"]: row for row in rows("recorder-quick-20261127-235443.jsonl")}

    lines = [line.split("|")[2:6] for line in table_of.splitlines() if re.match(r"\| (kafka|confluent|aiokafka)", line)]
    assert len(lines) == len(names)
    for name, (percent, between, each_us, empty) in zip(names, lines, strict=True):
        row = by_name[name]
        assert row["note"].startswith(f"{percent.strip()} % in ")
        assert row["note"].endswith(f"95 %: {between.strip()}")
        assert each_us.strip() == f"{row['value']:.1f}"
        assert by_name.get(f"{name}/empty", {"note": " %"})["note"].startswith(f"{empty.strip()} %")
    for way in ways[0]:
        assert f" {by_name[f'kafka-python/{way}/apart']['value']:.2f} " in table_of
