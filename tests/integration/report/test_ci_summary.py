"""The summary on a CI job's page: what it tells, and that no name in it is markup."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from kafka_assignors.history.events import WIRE
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.report import ci_summary
from tests.support.histories.stories import cut_off
from tests.support.histories.story import Story

HOSTILE = (
    "orders", "[a](https://evil.example)", "<img src=x onerror=alert(1)>", "www.evil.example @somebody #1", "`a`",
    "``", "`", "**bold** | cell", "a\n# heading\n- item", "\x1b[31mred", "::error::no", "![i](x)", "</code><b>", "",
    " ", "\\`x\\`", "a" * 1000,
)  # fmt: skip
"""Names that would be something else if they were read as Markdown or HTML."""


def rendered(text: str) -> list[Any]:
    """The tokens of a Markdown text as CommonMark with HTML and tables."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    return [token for block in parser.parse(text) for token in (block, *(block.children or ()))]


def told(events: Story) -> str:
    return ci_summary.judged_run(check(events.history), events.history, "runs/1")


def cells(text: str) -> dict[str, str]:
    head, _, row = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|"))
    return dict(zip(head, row, strict=True))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_text_whatever_it_is(name: str) -> None:
    """Whatever a topic, a member or an exception says stands in one code span."""
    text = ci_summary.head("test", name, None) + ci_summary.judged_runs("2 seeds", [(name, False, name)])

    tokens = rendered(text)
    kinds = {token.type for token in tokens}
    assert not kinds & {"html_inline", "html_block", "link_open", "image", "strong_open", "table_open"}, kinds
    assert sum(token.type == "code_inline" for token in tokens) == 3
    words = " ".join(token.content for token in tokens if token.type == "text")
    assert not re.search("www|://|@|#", words), "GitHub makes links of addresses and mentions in plain text"
    assert sum(token.type == "heading_open" for token in tokens) == 1
    assert sum(token.type == "list_item_open" for token in tokens) == 1
    assert "\x1b" not in text
    assert "::error::" not in text
    assert max(map(len, text.splitlines())) < 700


def test_a_sound_run_tells_its_figures() -> None:
    story = Story("range", {"t": 4}).start("a", "b").round().records(1200).consume()
    story.wait(5).start("c").round().drain()

    text = told(story)

    figures = cells(text)
    assert (figures["records sent"], figures["processed"], figures["lost"]) == ("1,200", "1,200", "0")
    assert (figures["read twice"], figures["refused commits"]) == ("0", "0")
    assert re.fullmatch(r"[\d,]+ ms", figures["longest stop"])
    assert int(figures["partition·ms without an owner"].replace(",", "")) > 0
    assert re.match(r"\d+ of \d+ laws held, \d+ had nothing to judge\.\n", text)
    assert text.endswith("History: `runs/1`\n\n")
    assert "- **" not in text


def test_a_record_that_may_have_been_handed_out_is_neither_processed_nor_lost() -> None:
    figures = cells(told(cut_off(read=False)))

    assert (figures["records sent"], figures["processed"], figures["lost"]) == ("3", "2", "0 (1 unknown)")


def test_what_connections_do_not_show_is_unknown() -> None:
    """Only its connections were seen of this process."""
    story = Story("range", {"t": 1}).start("a").round().records(1).consume().drain()
    story.events = [replace(e, client=WIRE) if e.src == "member" else e for e in story.events]

    figures = cells(told(story))

    assert (figures["processed"], figures["lost"], figures["read twice"]) == ("unknown", "unknown", "unknown")


def test_a_broken_law_has_one_line_however_often_it_is_broken() -> None:
    story = Story("range", {"t": 4}).start("a", "b").round().records(40)
    story.consume("a").tell("step", name="drained", offsets=story._ends())

    text = told(story)

    lines = [line for line in text.splitlines() if line.startswith("- **")]
    assert [line for line in lines if re.match(r"- \*\*C3\*\* ×2: `", line)], text
    assert cells(text)["lost"] == "20"


def test_what_could_not_be_judged_is_told() -> None:
    story = Story("range", {"t": 4}).start("a", "b").round().records(40)

    text = ci_summary.judged_run(check(story.history, ["C3"]), story.history, "runs/1", "not stable\nmore")

    assert "- unknown: `law C3 is required but was not judged" in text
    assert "- not played to the end: `not stable`\n" in text
    assert (cells(text)["processed"], cells(text)["lost"]) == ("unknown", "unknown")


def test_of_several_groups_no_records_are_told() -> None:
    """Each group reads the same records once: that is not twice."""
    one, other = Story("range", {"t": 4}), Story("range", {"t": 4}, group="h")
    events = [event for story in (one, other) for event in story.start("a").round().records(8).drain().events]
    history = History(events)

    figures = cells(ci_summary.judged_run(check(history), history, "runs/1"))

    assert "read twice" not in figures
    assert "longest stop" in figures


def test_of_many_runs_the_first_ten_that_are_not_true_are_named() -> None:
    text = ci_summary.judged_runs("30 seeds: 17 true, 13 false", [(f"seed {n}", False, "C3") for n in range(13)])

    assert text.count("✗ FALSE") == 10
    assert "- and 3 more\n" in text


def test_it_is_appended_and_only_if_it_is_wanted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_text("before\n", "utf-8")
    monkeypatch.delenv(ci_summary.VARIABLE, raising=False)
    ci_summary.append("nowhere")
    assert not ci_summary.is_wanted()
    monkeypatch.setenv(ci_summary.VARIABLE, "")
    ci_summary.append("nowhere")
    assert not ci_summary.is_wanted()
    monkeypatch.setenv(ci_summary.VARIABLE, str(file))

    ci_summary.append("### ✓\n")

    assert ci_summary.is_wanted()
    assert file.read_text("utf-8") == "before\n### ✓\n"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("path", ["a folder", "no/such/folder/summary.md"])
def test_a_file_that_can_not_be_written_is_a_warning(
    path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a folder").mkdir()
    monkeypatch.setenv(ci_summary.VARIABLE, str(tmp_path / path))

    ci_summary.append("### ✓\n")

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"warning: GITHUB_STEP_SUMMARY {tmp_path / path}: ")
    assert err.endswith("; no summary is written\n")
    assert err.count("\n") == 1
