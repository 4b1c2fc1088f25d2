"""Histories are read in order; what is missing from them is told."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_assignors.errors import ConfigError
from kafka_assignors.history.events import Event
from kafka_assignors.history.events.lines import MOST_BAD_BYTES
from kafka_assignors.history.writer import EventWriter
from kafka_assignors.integration import recording
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from tests.support.histories.story import Story, churn, seal


def write(folder: Path, name: str, *kinds: str, start_ns: int = 0) -> Path:
    path = folder / name
    with EventWriter(path, "run", "member", member=path.stem) as writer:
        for i, kind in enumerate(kinds):
            writer.write(
                "error", error=kind, fatal=False, message="", mono_ns=start_ns + i * 10, ts_ns=start_ns + i * 10
            )
    recording.seal(folder, "run")
    return path


def names(history: History) -> list[str]:
    return [e.data.get("error", e.kind) for e in history.events]


def test_events_of_all_files_come_in_order_of_the_monotonic_clock(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", "a0", "a1", "a2", start_ns=5)
    write(tmp_path, "b.jsonl", "b0", "b1", start_ns=0)

    history = History.load(tmp_path)

    assert names(history) == ["b0", "a0", "b1", "a1", "a2"]
    assert (history.facts, history.problems) == ((), ())


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", "a0")

    with pytest.raises(ConfigError, match=r"a\.jsonl exists: .* use a new folder"):
        EventWriter(path, "run", "member")

    assert names(History.load(tmp_path)) == ["a0"]


def test_threads_write_to_one_file(tmp_path: Path) -> None:
    """A test may pause one process while another thread starts the next."""
    with closing(EventWriter(tmp_path / "harness.jsonl", "run", "harness")) as writer:
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda n: writer.write("step", name=str(n)), range(2000)))
        finally:
            sys.setswitchinterval(before)
    rows = [json.loads(line) for line in (tmp_path / "harness.jsonl").read_text().splitlines()]
    assert [row["seq"] for row in rows] == list(range(2001))
    assert {row.get("name") for row in rows[:-1]} == {str(n) for n in range(2000)}


def test_events_of_one_instant_keep_a_fixed_order_whatever_order_they_come_in() -> None:
    events = [Event("k", "run", src, seq, 0, 7) for src in ("coordlog", "harness", "member") for seq in range(3)]

    assert History(reversed(events)).events == History(events).events == tuple(events)


def test_the_torn_last_line_of_a_killed_member_is_a_fact_and_no_problem(tmp_path: Path) -> None:
    path = write(tmp_path, "m.jsonl", "a", "b")
    path.write_bytes(path.read_bytes()[:-20])
    with recording.RunFile(tmp_path / "h.jsonl", "run", "harness") as harness:
        harness.write("exit", member="m", incarnation=0, code=-9, mono_ns=50, ts_ns=50)

    history = History.load(tmp_path)

    assert names(history) == ["a", "b", "exit"]
    assert history.problems == ()
    assert "m.jsonl" in history.facts[0]
    assert "torn" in history.facts[0]


def test_a_missing_line_is_a_problem_that_names_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, "m.jsonl", "a", "b", "c")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    seal(path)

    assert History.load(tmp_path).problems == ("m.jsonl:2: seq 2 instead of 1",)


def test_a_missing_line_takes_none_of_the_bytes_that_may_be_unreadable(tmp_path: Path) -> None:
    """An earlier file has as many of these as a history may have."""
    (tmp_path / "a.jsonl").write_bytes(b"x" * (MOST_BAD_BYTES - 1) + b"\n")
    path = write(tmp_path, "m.jsonl", "a", "b", "c")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    seal(path)

    history = History.load(tmp_path)

    assert names(history) == ["a", "c"]
    assert "m.jsonl:2: seq 2 instead of 1" in history.problems


@pytest.mark.parametrize(
    "line",
    [b"{", b"\xff\xfe", b"[]", b'{"v":99}', b'{"v":1,"kind":"a"}', b""],
    ids=["torn", "no utf-8", "no object", "unknown version", "fields missing", "empty"],
)
def test_an_unreadable_line_in_the_middle_is_a_problem(tmp_path: Path, line: bytes) -> None:
    path = write(tmp_path, "m.jsonl", "a", "b", "c")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + line + b"\n" + lines[2])
    seal(path)

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


def rewritten(old: str, new: str, nth: str = "g.a.member.jsonl") -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        text = (folder / nth).read_text("utf-8")
        assert old in text
        (folder / nth).write_text(text.replace(old, new, 1), "utf-8")

    return damage


def cut(name: str, lines: int) -> Callable[[Path], None]:
    """Without its last lines: a whole file by its looks."""

    def damage(folder: Path) -> None:
        left = (folder / name).read_bytes().splitlines(keepends=True)[:-lines]
        (folder / name).write_bytes(b"".join(left))

    return damage


TAMPERED: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a value is another": ("the file was changed", rewritten('"partition":0', '"partition":1')),
    "a time is another": ("the file was changed", rewritten('"mono_ns":', '"mono_ns":1')),
    "a generation is another": (
        "the file was changed", rewritten('"generation":1', '"generation":2', "g.coordlog.jsonl")
    ),
    "spaces": ("the file was changed", rewritten(",", ", ")),
    "the member's last lines are gone": ("g.a.member.jsonl: has no end event: the file", cut("g.a.member.jsonl", 3)),
    "the harness was killed": ("g.harness.jsonl: has no end", cut("g.harness.jsonl", 1)),
    "the end of the coordinator's log is gone": ("g.coordlog.jsonl: has no end", cut("g.coordlog.jsonl", 2)),
    "the producer's last lines are gone": ("producer.jsonl: has no end", cut("g.producer.jsonl", 5)),
    "a member's file is gone": (
        "the history of member 'b' of group 'g' is missing", lambda folder: (folder / "g.b.member.jsonl").unlink()
    ),
    "a killed member's file is gone": (
        "the history of member 'c' of group 'g' is missing", lambda folder: (folder / "g.c.member.jsonl").unlink()
    ),
    "the coordinator's log is gone": (
        "has no generation from the coordinator log", lambda folder: (folder / "g.coordlog.jsonl").unlink()
    ),
    "the seal is another's": ("data.sha256", rewritten('"sha256": "', '"sha256": "0')),
    "lines are there twice": (
        "seq", lambda folder: (folder / "g.coordlog.jsonl").write_bytes((folder / "g.coordlog.jsonl").read_bytes() * 2)
    ),
    "a line is torn in the middle": ("unreadable", rewritten('"kind":"generation"', '"kind":"gene\n')),
    "two lines changed places": (
        "instead of", lambda folder: swap_lines(folder / "g.coordlog.jsonl")
    ),
    "another run's file is among them": (
        "has no end", lambda folder: (folder / "old.jsonl").write_text(churn().events[0].to_json() + "\n")
    ),
}  # fmt: skip


def swap_lines(path: Path) -> None:
    first, second, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(second + first + b"".join(rest))


@pytest.mark.invented
@pytest.mark.parametrize(("reason", "damage"), TAMPERED.values(), ids=TAMPERED)
def test_what_was_torn_or_tampered_with_is_unknown_and_the_reason_is_told(
    reason: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    churn("sticky").write(tmp_path)
    assert check(History.load(tmp_path)).value is True

    damage(tmp_path)

    verdict = check(History.load(tmp_path))
    assert verdict.value is None
    assert any(reason in said for said in verdict.unknown), verdict.unknown
    assert any("manifest" in said for said in verdict.unknown), verdict.unknown


@pytest.mark.invented
@pytest.mark.parametrize("src", ["member", "harness", "coordlog", "producer", "proxy"])
@pytest.mark.parametrize("code", [None, 0, 1, -9])
def test_only_a_member_that_was_killed_may_end_its_file_without_an_end(
    src: str, code: int | None, tmp_path: Path
) -> None:
    """`code` is of the process's ``exit``, as the harness saw it; None: it did not."""
    writer = EventWriter(tmp_path / "x.jsonl", "run", src, group="g", member="m")
    writer.write("error", error="x", fatal=False, message="")
    writer.abandon()
    with recording.RunFile(tmp_path / "h.jsonl", "run", "harness", group="g") as harness:
        harness.write("step", name="it begins")
        if code is not None:
            harness.write("exit", member="m", incarnation=0, code=code)

    problems = History.load(tmp_path).problems

    assert any(problem.startswith("x.jsonl: has no end event") for problem in problems) is not (
        (src, code) == ("member", -9)
    )


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_without_a_history_is_an_error(tmp_path: Path, there: bool) -> None:
    folder = tmp_path if there else tmp_path / "none"

    with pytest.raises(FileNotFoundError, match=r"no history in .*\.jsonl"):
        History.load(folder)


def test_of_a_group_that_is_left_out_nothing_is_read(tmp_path: Path) -> None:
    write(tmp_path, "g.jsonl", "mine")
    write(tmp_path, "other.jsonl", "theirs")

    assert names(History.load(tmp_path, without=["other"])) == ["mine"]


@pytest.mark.parametrize(
    ("code", "joined", "missing"), [(0, False, True), (1, False, True), (-9, False, False), (-9, True, True)]
)
def test_who_ended_has_told_something_but_one_that_was_killed_at_once(
    code: int, joined: bool, missing: bool, tmp_path: Path
) -> None:
    story = Story().start("a", "b").round()
    if not joined:
        story = Story().start("a").round()
    story.events = [e for e in story.events if not (e.src == "member" and e.member == "b")]
    story.tell("exit", member="b", code=code)

    problems = History.load(story.write(tmp_path)).problems

    assert ("the history of member 'b' of group 'g' is missing" in problems) is missing


def test_events_of_two_members_that_come_at_one_time_are_no_copies(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", "a0", "a1")
    write(tmp_path, "b.jsonl", "b0", "b1")

    history = History.load(tmp_path)

    assert (names(history), history.problems) == (["a0", "b0", "a1", "b1"], ())


def test_who_told_something_in_its_first_life_may_be_killed_at_once_in_its_second(tmp_path: Path) -> None:
    story = Story().start("a", "b").round()
    exit_ = story.tell("exit", member="b", code=-9, signal="SIGKILL")
    story.events[-1] = replace(exit_, incarnation=1)

    assert "the history of member 'b' of group 'g' is missing" not in History.load(story.write(tmp_path)).problems
