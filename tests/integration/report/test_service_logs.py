"""What a failure shows of the logs of a service's processes: the lines around what broke a law, and not too many."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.history.events import Event
from kafka_assignors.integration.checker import Verdict, Violation
from kafka_assignors.integration.report.service_logs import log_lines

GROUP = "billing-1.2"


def witness(member: str | None, log_bytes: int | None = None, incarnation: int = 0, **fields: Any) -> Event:
    data = {} if log_bytes is None else {"log_bytes": log_bytes}
    given = {"src": "member", "group": GROUP, **fields}
    return Event(
        "consume", "run", seq=7, ts_ns=0, mono_ns=0, member=member, incarnation=incarnation, data=data, **given
    )


def verdict(*witnesses: tuple[Event, ...]) -> Verdict:
    violations = tuple(Violation("C2", "went back", events) for events in witnesses)
    return Verdict(False, violations, (), {}, {}, (), {}, ())


def printed(folder: Path, member: str, *lines: str, incarnation: int = 0, group: str = GROUP) -> Path:
    path = folder / f"{group}.{member}.{incarnation}.log"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def test_the_lines_before_and_after_the_last_witness_are_shown(tmp_path: Path) -> None:
    lines = [f"line {number:02}" for number in range(20)]
    path = printed(tmp_path, "m1", *lines)

    said = list(log_lines(tmp_path, verdict((witness("m1", 8), witness("m1", 8 * 10))), [GROUP]))

    assert said == [
        f"m1 printed before and after 00:00:00.000 (event 7), to {path}:",
        *(f"  {line}" for line in lines[5:10]),
        "  -- 00:00:00.000 --",
        *(f"  {line}" for line in lines[10:15]),
    ]


def test_the_first_broken_law_comes_first_and_each_process_once(tmp_path: Path) -> None:
    for member in ("m1", "m2", "m3"):
        printed(tmp_path, member, "hello")
    first, second = (witness("m2", 0), witness("m1", 0)), (witness("m1", 6), witness("m3", 0))

    said = [line for line in log_lines(tmp_path, verdict(first, second), [GROUP]) if " printed " in line]

    assert [line[:2] for line in said] == ["m2", "m1", "m3"]


def test_without_an_event_of_its_own_a_process_shows_its_last_lines(tmp_path: Path) -> None:
    path = printed(tmp_path, "m1", *(f"line {number:02}" for number in range(20)), incarnation=1)
    printed(tmp_path, "m1", "an earlier process")

    said = list(log_lines(tmp_path, verdict((witness("m1", incarnation=1, src="harness"),)), [GROUP]))

    assert said == [f"m1 printed last, to {path}:", *(f"  line {number:02}" for number in range(10, 20))]


@pytest.mark.parametrize(("incarnation", "log"), [(0, 0), (1, 1), (2, 1), (3, 1), (4, 4)])
def test_a_consumer_made_anew_prints_to_the_log_of_its_process(incarnation: int, log: int, tmp_path: Path) -> None:
    """A process's log has the number of its first consumer: here the second process made three."""
    paths = {number: printed(tmp_path, "m1", f"process {number}", incarnation=number) for number in (0, 1, 4)}

    said = list(log_lines(tmp_path, verdict((witness("m1", 0, incarnation=incarnation),)), [GROUP]))

    assert said[0].endswith(f", to {paths[log]}:")


def test_an_event_of_its_own_is_shown_although_the_law_before_had_none(tmp_path: Path) -> None:
    printed(tmp_path, "m1", "a", "b")

    said = list(log_lines(tmp_path, verdict((witness("m1", src="harness"),), (witness("m1", 2),)), [GROUP]))

    assert said[1:] == ["  a", "  -- 00:00:00.000 --", "  b"]


def test_if_no_process_is_named_all_of_the_service_are_shown_but_not_too_many(tmp_path: Path) -> None:
    for number in range(1, 8):
        printed(tmp_path, f"m{number}", f"I am {number}")
    printed(tmp_path, "m1", "of the harness", group="other")

    said = list(
        log_lines(tmp_path, verdict((witness(None), witness("m9", 0), witness("m1", 0, group="other"))), [GROUP])
    )

    assert [line for line in said if line.startswith("  ")] == [f"  I am {number}" for number in range(1, 6)]
    assert said[-1] == f"2 more logs are in {tmp_path}"


def test_what_a_process_prints_can_not_disturb_the_report(tmp_path: Path) -> None:
    """Blank lines, control characters, long lines, bytes that are no text; a log that was cut; one without a line."""
    path = printed(tmp_path, "m1", "", "\x1b[31mred", "x" * 1000)
    path.write_bytes(path.read_bytes() + b"\xff\n")
    silent = printed(tmp_path, "m2", "")

    said = list(log_lines(tmp_path, verdict((witness("m1", 10_000_000), witness("m2", 0))), [GROUP]))

    assert re.fullmatch(r"m1 printed before and after .*", said[0])
    assert said[1:-2] == [r"  \x1b[31mred", f"  {'x' * 300}", "  �"]
    assert said[-2:] == ["  -- 00:00:00.000 --", f"m2 printed nothing to {silent}"]
