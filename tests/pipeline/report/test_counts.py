"""The pipeline's page begins with what was found, and its counts are those of the tables it is made from."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kafka_assignors.pipeline.report import page
from tests.pipeline.report.test_page import EMPTY, much

LEAD = re.compile(r'<h1>Kafka placement</h1>\s*<p class="lead">(.*?)</p>', re.DOTALL)


def words(html: str) -> str:
    return re.sub(r"<[^>]*>", "", html)


def lead(made: str) -> str:
    (sentence,) = LEAD.findall(made)
    return words(sentence)


def number(text: str) -> int:
    return int(text.replace(",", ""))


def tiles(made: str) -> list[tuple[str, str]]:
    return re.findall(r'<div class="tile[^"]*"><b>(.*?)</b><span>(.*?)</span>', made)


@pytest.fixture
def tables() -> tuple[dict[str, Any], page.Details]:
    """Findings of several kinds, of which one row stands for 523 more."""
    summary, more = much()
    summary["findings"].append({"kind": "hot-key", "text": "523 more keys", "more": 523})
    return summary, more


def test_the_first_sentence_has_the_findings_and_what_was_read(tables: tuple[dict[str, Any], page.Details]) -> None:
    summary, _ = tables
    listed = sum(row["more"] is None for row in summary["findings"])
    records = sum(load["records"] for row in summary["topics"] for load in row["loads"])

    sentence = lead(page.render(*tables))

    assert sentence.startswith(f"✗ {listed + 523} findings: hot keys (524); ")
    assert sentence.endswith(f". {records:,} records of 2 topics and 1 rebalance of 1 group were read.")


def test_counts_add_up(tables: tuple[dict[str, Any], page.Details]) -> None:
    made = page.render(*tables)
    summary, _ = tables
    records = [sum(load["records"] for load in row["loads"]) for row in summary["topics"]]

    shown = {text: n for n, text in tiles(made)}
    findings = number(shown["findings"])
    assert findings == len(summary["findings"]) - 1 + 523
    assert f"{sum(records):,}" in shown.values()
    assert (shown["topics, 1,003 partitions"], shown["group, 1 rebalance"]) == ("2", "1")
    of_kinds = [number(n) for n in re.findall(r"<summary>[^<]*\(([\d,]+)\)</summary>", made)]
    in_words = [number(n) for n in re.findall(r"\(([\d,]+)\)", lead(made))]
    assert sum(of_kinds) == sum(in_words) == findings

    sections = made.split("<h2>Topic ")[1:]
    assert [number(re.findall(r"([\d,]+) records, ", section)[0]) for section in sections] == records
    bars = re.findall(r"<title>partition \d+: ([\d,]+) records", sections[0])
    assert (len(bars), sum(map(number, bars))) == (summary["topics"][0]["partitions"], records[0])

    (rebalances,) = re.findall(r"<h3>Rebalances</h3>.*?</table>", made, re.DOTALL)
    assert rebalances.count("<tr>") - 1 == len(summary["rebalances"])


def test_a_page_without_findings_says_so_first_and_one_of_nothing_praises_nothing() -> None:
    summary, more = much()

    good = page.render({**summary, "findings": []}, more)
    empty = page.render(EMPTY, page.Details())

    assert lead(good).startswith("✓ No findings: ")
    assert tiles(good)[0] == ("✓ none", "findings")
    assert lead(empty) == "There was nothing to judge."
    assert tiles(empty)[0] == ("–", "findings")
    assert ('class="tile ok"' in good, 'class="tile ok"' in empty) == (True, False)
