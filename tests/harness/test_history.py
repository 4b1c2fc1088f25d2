"""Histories are read in order; what is missing from them is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.checker import check
from integration.history import History
from kafka_assignors.events import Event, EventWriter

from .story import churn


def write(folder: Path, name: str, *kinds: str, start_ns: int = 0) -> Path:
    path = folder / name
    with EventWriter(path, "run", "member") as writer:
        for i, kind in enumerate(kinds):
            writer.write(kind, mono_ns=start_ns + i * 10)
    return path


def test_events_of_all_files_come_in_order_of_the_monotonic_clock(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", "a0", "a1", "a2", start_ns=5)
    write(tmp_path, "b.jsonl", "b0", "b1", start_ns=0)

    history = History.load(tmp_path)

    assert [e.kind for e in history.events] == ["b0", "a0", "b1", "a1", "a2"]
    assert (history.facts, history.problems) == ((), ())


def test_events_of_one_instant_keep_a_fixed_order_whatever_order_they_come_in() -> None:
    events = [Event("k", "run", src, seq, 0, 7) for src in ("coordlog", "harness", "member") for seq in range(3)]

    assert History(reversed(events)).events == History(events).events == tuple(events)


def test_a_torn_last_line_is_a_fact_and_no_problem(tmp_path: Path) -> None:
    path = write(tmp_path, "m.jsonl", "a", "b", "c")
    path.write_bytes(path.read_bytes()[:-20])

    history = History.load(tmp_path)

    assert [e.kind for e in history.events] == ["a", "b"]
    assert history.problems == ()
    assert "m.jsonl" in history.facts[0]
    assert "torn" in history.facts[0]


def test_a_missing_line_is_a_problem_that_names_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, "m.jsonl", "a", "b", "c")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])

    assert History.load(tmp_path).problems == ("m.jsonl:2: seq 2 where 1 was due",)


@pytest.mark.parametrize(
    "line",
    [b"{", b"\xff\xfe", b"[]", b'{"v":99}', b'{"v":1,"kind":"a"}', b""],
    ids=["torn", "no utf-8", "no object", "unknown version", "fields missing", "empty"],
)
def test_an_unreadable_line_in_the_middle_is_a_problem(tmp_path: Path, line: bytes) -> None:
    path = write(tmp_path, "m.jsonl", "a", "b", "c")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + line + b"\n" + lines[2])

    (problem,) = History.load(tmp_path).problems

    assert problem.startswith("m.jsonl:2: unreadable: ")


@pytest.mark.invented
def test_a_kept_history_gets_the_same_verdict_as_the_events_themselves(tmp_path: Path) -> None:
    story = churn("sticky")
    history = story.history

    loaded = History.load(story.write(tmp_path))

    assert loaded.events == history.events
    assert check(loaded) == check(history)
    assert check(loaded).value is True


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_without_a_history_is_an_error(tmp_path: Path, there: bool) -> None:
    folder = tmp_path if there else tmp_path / "none"

    with pytest.raises(FileNotFoundError, match=r"no history in .*\.jsonl"):
        History.load(folder)
