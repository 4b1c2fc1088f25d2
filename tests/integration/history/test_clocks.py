"""Clocks of a run's processes are compared by what each file tells, at the bounds that the constants set."""

from __future__ import annotations

import pytest

from kafka_assignors.history.events import WIRE, Event
from kafka_assignors.integration.history import clocks

MS = 1_000_000
S = 1000 * MS


def at(mono_ns: int, ts_ns: int | None = None, src: str = "harness", client: str | None = None) -> Event:
    """An event; its wall clock is its monotonic one unless it is told."""
    return Event("step", "run", src, mono_ns, mono_ns if ts_ns is None else ts_ns, mono_ns, client=client)


def told(*events: Event, **others: list[Event]) -> list[str]:
    return list(clocks.problems({"a": list(events), **others}))


@pytest.mark.parametrize("sign", [1, -1])
def test_clocks_may_be_a_quarter_of_a_second_apart(sign: int) -> None:
    """Both files are named: which of two is wrong cannot be known."""
    near, far = 250 * MS, 250 * MS + 1
    assert told(at(S), b=[at(S, S + sign * near)]) == []

    words = [f"{problem.partition(' ms ')[0]} ms" for problem in told(at(S), b=[at(S, S + sign * far)])]

    assert words == [f"a: its monotonic clock is {sign * 250:+} ms", f"b: its monotonic clock is {sign * -250:+} ms"]


def test_one_of_three_that_is_apart_is_the_one_that_is_named() -> None:
    several = {name: [at(number * S) for number in range(1, 9)] for name in ("b", "c")}

    problems = told(at(2 * S, 8 * S), at(3 * S, 9 * S), **several)

    assert [problem.partition(":")[0] for problem in problems] == ["a"]


@pytest.mark.parametrize(
    ("src", "client"), [("coordlog", None), ("member", "java"), ("member", "confluent"), ("member", "franz-go")]
)
def test_who_knows_the_wall_clock_alone_is_not_compared(src: str, client: str | None) -> None:
    assert told(at(S), b=[at(S, 9 * S, src, client), at(0, 9 * S, src, client)]) == []


@pytest.mark.parametrize(
    ("src", "client"),
    [
        ("harness", "java"), ("producer", None), ("proxy", None), ("member", None), ("member", "kafka-python"),
        ("member", "aiokafka"), ("member", "confluent-kafka"), ("member", WIRE),
    ],
)  # fmt: skip
def test_who_reads_both_clocks_is_compared(src: str, client: str | None) -> None:
    assert len(told(at(S), b=[at(S, 9 * S, src, client)])) == 2


def test_time_may_go_back_by_a_tenth_of_a_second_within_a_file_and_more_is_told_once() -> None:
    assert told(at(5 * S), at(5 * S - 100 * MS), at(5 * S)) == []

    assert told(at(5 * S), at(5 * S - 100 * MS - 1), at(S), at(2 * S)) == [
        f"a: time goes back by 100 ms at seq {5 * S - 100 * MS - 1}"
    ]


def moved(by_ns: int, *, count: int = 200, src: str = "coordlog", client: str | None = None) -> list[int]:
    """When three events happened, told by the wall clock alone, which is set half way through two seconds.

    Events of the harness are as many as `count`, evenly. The three are at 0.5, 0.4 and 1.5 s; their monotonic times are
    told as the wall's.
    """
    step = 2 * S // count
    harness = [at(number * step, number * step + (by_ns if 2 * number >= count else 0)) for number in range(count)]
    walls = (S // 2, 2 * S // 5, 3 * S // 2 + by_ns)
    files = {"h": harness, "x": [at(wall, wall, src, client) for wall in walls], "none": []}
    retimed = clocks.retimed(files)
    assert retimed["h"] == harness
    assert retimed["none"] == []
    assert [event.ts_ns for event in retimed["x"]] == list(walls)
    return [event.mono_ns for event in retimed["x"]]


def test_a_wall_clock_that_moves_by_twenty_milliseconds_has_not_been_set() -> None:
    assert moved(20 * MS) == [S // 2, 2 * S // 5, 3 * S // 2 + 20 * MS], "as they were told"
    assert moved(20 * MS + 1) == [S // 2, 2 * S // 5, 3 * S // 2]


def test_what_was_told_by_a_wall_clock_that_was_set_is_put_where_it_happened() -> None:
    """The coordinator's records need not be in order; a member's events are."""
    assert moved(5 * S) == [S // 2, 2 * S // 5, 3 * S // 2]
    assert moved(5 * S, src="member", client="java") == [S // 2, S // 2, 3 * S // 2]
    assert moved(5 * S, src="member", client="aiokafka") == [S // 2, 2 * S // 5, 3 * S // 2 + 5 * S]


@pytest.mark.parametrize(("count", "set_"), [(100, False), (99, True)])
def test_one_in_a_hundred_readings_may_be_late(count: int, set_: bool) -> None:
    """A process may stand still between its two readings."""
    late = {0: S, count - 1: -S}
    harness = [at(number * MS, number * MS + late.get(number, 0)) for number in range(count)]

    retimed = clocks.retimed({"h": harness, "x": [at(9 * S, 0, "coordlog")]})

    assert (retimed["x"][0].mono_ns != 9 * S) is set_


def test_without_a_process_that_reads_both_clocks_nothing_is_changed() -> None:
    files = {"x": [at(S, 9 * S, "coordlog"), at(0, 0, "coordlog")]}

    assert clocks.retimed(files) == files
