"""Whatever is taken from a run's folder, added to it or changed in it makes the verdict unknown, with the reason."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_assignors.history.events import Event
from kafka_assignors.history.writer import EventWriter
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History, manifest
from kafka_assignors.integration.history.schema import fault_of
from kafka_assignors.integration.recording import RunFile
from tests.support.histories.schema import VALIDATOR
from tests.support.histories.story import MS, Story, churn, seal

pytestmark = pytest.mark.invented


def kept(folder: Path) -> Path:
    """A run's folder as the harness leaves it: a file for each source, and the manifest."""
    churn("sticky").write(folder)
    assert check(History.load(folder)).value is True
    return folder


def unknown(folder: Path) -> tuple[str, ...]:
    """Why it is unknown, by all the problems together."""
    history = History.load(folder)
    assert check(history).value is None
    return history.problems


FILES = (
    *("g.a.member.jsonl", "g.b.member.jsonl", "g.c.member.jsonl", "g.d.member.jsonl"),
    *("g.coordlog.jsonl", "g.harness.jsonl", "g.b.harness.jsonl", "g.c.harness.jsonl", "g.producer.jsonl"),
)


def test_the_files_below_are_all_of_a_run(tmp_path: Path) -> None:
    assert {path.name for path in kept(tmp_path).iterdir()} == {*FILES, manifest.NAME}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_taken_away_makes_it_unknown(name: str, tmp_path: Path) -> None:
    """22: each by itself. A lost record that the rest doesn't show must not be called true."""
    (kept(tmp_path) / name).unlink()

    assert any(problem == f"{name}: the manifest lists it, but it is missing" for problem in unknown(tmp_path))


def test_all_but_the_coordinator_log_taken_away_makes_it_unknown(tmp_path: Path) -> None:
    kept(tmp_path)
    for name in set(FILES) - {"g.coordlog.jsonl"}:
        (tmp_path / name).unlink()

    assert sum("it is missing" in problem for problem in unknown(tmp_path)) >= len(FILES) - 1


def test_the_manifest_taken_away_makes_it_unknown(tmp_path: Path) -> None:
    (kept(tmp_path) / manifest.NAME).unlink()

    assert unknown(tmp_path) == (f"{manifest.NAME} is missing, so the files of the run are unknown",)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"v":1,"runs":7,"files":{}}', '{"v":2,"runs":[],"files":{}}'])
def test_a_manifest_that_cannot_be_read_makes_it_unknown(text: str, tmp_path: Path) -> None:
    (kept(tmp_path) / manifest.NAME).write_text(text)

    assert any(manifest.NAME in problem for problem in unknown(tmp_path))


def test_the_coordinator_log_there_twice_makes_it_unknown(tmp_path: Path) -> None:
    kept(tmp_path)
    shutil.copy(tmp_path / "g.coordlog.jsonl", tmp_path / "h.coordlog.jsonl")

    assert any(problem.startswith("h.coordlog.jsonl: is not in the manifest") for problem in unknown(tmp_path))


def test_two_runs_in_one_folder_make_it_unknown(tmp_path: Path) -> None:
    """Even if each was sealed by its harness."""
    kept(tmp_path)
    with RunFile(tmp_path / "another.jsonl", "another", "harness", group="h") as writer:
        writer.write("step", name="it begins")

    assert any("2 runs wrote into this folder: 'run', 'another'" in problem for problem in unknown(tmp_path))


def test_events_of_another_run_make_it_unknown(tmp_path: Path) -> None:
    kept(tmp_path)
    path = tmp_path / "g.producer.jsonl"
    path.write_text(path.read_text("utf-8").replace('"run":"run"', '"run":"older"'), "utf-8")
    seal_as(path, "run")

    assert any("events of run 'older'" in problem for problem in unknown(tmp_path))


def seal_as(path: Path, run: str) -> None:
    known = json.loads((path.parent / manifest.NAME).read_text("utf-8"))
    seal(path)
    sealed = json.loads((path.parent / manifest.NAME).read_text("utf-8"))
    (path.parent / manifest.NAME).write_text(json.dumps({**sealed, "runs": known["runs"]}))
    assert known["runs"] == [run]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_changed_and_sealed_anew_makes_it_unknown(name: str, tmp_path: Path) -> None:
    """Its own end fits its lines; the manifest tells."""
    before = (kept(tmp_path) / manifest.NAME).read_bytes()
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes().replace(b'"pid":1', b'"pid":2', 1))
    seal(tmp_path / name)
    (tmp_path / manifest.NAME).write_bytes(before)

    assert any(problem.startswith(f"{name}: its bytes differ from the manifest") for problem in unknown(tmp_path))


def test_a_run_whose_harness_was_killed_is_unknown(tmp_path: Path) -> None:
    """It had no chance to write down what its files are."""
    writer = RunFile(tmp_path / "g.harness.jsonl", "run", "harness", group="g")
    writer.write("step", name="it begins")

    assert any("is not in the manifest" in problem for problem in unknown(tmp_path))
    writer.close()


# G. Malformed lines


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "field"),
    [
        ("g.a.member.jsonl", "generation", "generation"),
        ("g.a.member.jsonl", "consume", "offsets"),
        ("g.a.member.jsonl", "start", "assignors"),
        ("g.coordlog.jsonl", "generation_committed", "members"),
        ("g.c.harness.jsonl", "exit", "code"),
        ("g.harness.jsonl", "step", "name"),
        ("g.producer.jsonl", "ack", "offset"),
    ],
)
def test_a_sealed_line_without_a_required_field_is_told_with_file_and_line(
    name: str, kind: str, field: str, tmp_path: Path
) -> None:
    """31."""
    path = kept(tmp_path) / name
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    number = next(i for i, row in enumerate(rows, start=1) if row["kind"] == kind)
    del rows[number - 1][field]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    seal(path)

    (problem,) = unknown(tmp_path)
    assert problem.startswith(f"{name}:{number}: unreadable: ")
    assert field in problem


@pytest.mark.slow
def test_the_compiled_schema_agrees_with_the_schema(tmp_path: Path) -> None:
    """Of every event of a run: as it is, and with each of its fields gone or of another type."""
    rows = [json.loads(event.to_json()) for event in churn("cooperative-sticky").events]
    kinds = {row["kind"]: row for row in rows}
    for row in kinds.values():
        for name in row:
            for damaged in ({k: v for k, v in row.items() if k != name}, {**row, name: []}, {**row, name: {"x": 1}}):
                assert (fault_of(damaged) is None) == VALIDATOR.is_valid(damaged), (damaged["kind"], name)
        assert fault_of(row) is None
    assert None not in (fault_of([]), fault_of([row]), fault_of("x"), fault_of(None))


# E. Clocks


def moved(story: Story, change: Callable[[Event], Event]) -> Story:
    story.events = [change(event) for event in story.events]
    return story


def behind(event: Event, member: str = "b") -> Event:
    late = event.src == "member" and event.member == member
    return replace(event, mono_ns=event.mono_ns - 5000 * MS) if late else event


def test_a_member_whose_clock_is_5_s_behind_makes_it_unknown(tmp_path: Path) -> None:
    """24."""
    story = moved(Story().wait(10_000).start("a", "b").round(), behind)

    problems = unknown(story.write(tmp_path))

    assert [p for p in problems if p.startswith("g.b.member.jsonl: its monotonic clock is -5000 ms")]


def test_a_member_that_tells_no_monotonic_time_cannot_be_apart(tmp_path: Path) -> None:
    """Of another client's its reader knows the wall clock alone, and what the harness writes of it is the harness's."""

    def bridged(event: Event) -> Event:
        return replace(behind(event), client="java") if event.member == "b" else event

    story = moved(Story().wait(10_000).start("a", "b", "c").round(), bridged)
    story.tell("exit", member="b", code=0)
    story.events[-1] = replace(story.events[-1], client="java", mono_ns=story.events[-1].mono_ns - 5000 * MS)

    problems = [p for p in unknown(story.write(tmp_path)) if "its monotonic clock" in p]

    assert [problem.partition(":")[0] for problem in problems] == ["g.b.harness.jsonl"]


def test_time_that_runs_backwards_within_a_file_makes_it_unknown(tmp_path: Path) -> None:
    story = Story().wait(10_000).start("a", "b").round()
    last = max(e.seq for e in story.events if e.member == "b")
    moved(story, lambda e: behind(e) if e.seq == last else e)

    assert [p for p in unknown(story.write(tmp_path)) if p.startswith("g.b.member.jsonl: time goes back by ")]


def clocked(story: Story, wall: Callable[[int], int]) -> Story:
    """The wall clock goes its own way; what knows no other is put on the monotonic one by what was true at first."""
    begun = wall(0)

    def change(event: Event) -> Event:
        ts_ns = wall(event.mono_ns)
        return replace(event, ts_ns=ts_ns, mono_ns=ts_ns - begun if event.src == "coordlog" else event.mono_ns)

    return moved(story, change)


def long_run() -> Story:
    """Ten minutes in which records are consumed, and committed as soon as that."""
    story = Story().start("a", "b").round()
    for _ in range(60):
        story.wait(10_000).records(14).consume()
    return story.drain()


@pytest.mark.slow
@pytest.mark.parametrize(
    "wall",
    [
        lambda ns: ns + 10**18 - (150 * MS if ns > 300_000 * MS else 0),
        lambda ns: ns + 10**18 + (150 * MS if ns > 300_000 * MS else 0),
        lambda ns: ns + 10**18 + ns // 2000,
        lambda ns: ns + 10**18 - ns // 2000,
    ],
    ids=["set back by 150 ms", "set forward by 150 ms", "500 ppm faster", "500 ppm slower"],
)
def test_a_wall_clock_that_is_set_or_slewed_breaks_no_law(wall: Callable[[int], int], tmp_path: Path) -> None:
    """29."""
    story = clocked(long_run(), wall)

    verdict = check(History.load(story.write(tmp_path)))

    assert (verdict.value, verdict.violations, verdict.unknown) == (True, (), ())
    assert verdict.checked["C5"] > 0


def test_what_is_late_in_truth_stays_late_whatever_the_clock_did(tmp_path: Path) -> None:
    story = long_run()
    story.shift("offset_committed", -5000, nth=-1)
    clocked(story, lambda ns: ns + 10**18 + ns // 2000)

    verdict = check(History.load(story.write(tmp_path)))

    assert {violation.law for violation in verdict.violations} == {"C5", "C7"}


def test_a_writer_that_gave_up_leaves_no_seal(tmp_path: Path) -> None:
    """23: what it would have written is missing, and its end must not say otherwise."""
    with RunFile(tmp_path / "g.harness.jsonl", "run", "harness", group="g") as harness:
        writer = EventWriter(tmp_path / "g.coordlog.jsonl", "run", "coordlog", group="g")
        writer.write("unread", reason="something")
        writer.abandon()
        harness.write("step", name="it ends")

    assert any(problem.startswith("g.coordlog.jsonl: has no end") for problem in unknown(tmp_path))
