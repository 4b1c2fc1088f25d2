"""How long processes took to start and to stop, from events whose times were chosen by hand."""

from __future__ import annotations

from itertools import count
from typing import Any

from kafka_assignors.history.events import Event
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.report.replicas_view import Replica, killed_lines, replica_lines, replicas_of
from kafka_assignors.integration.report.report import GroupResult, Report, render_html
from tests.support.histories.story import MS, SESSION_MS, Story

NUMBERS = count()
S = 1_000_000_000


def event(kind: str, at_s: float, member: str, src: str = "member", incarnation: int = 0, **data: Any) -> Event:
    at_ns = round(at_s * S)
    return Event(kind, "run", src, next(NUMBERS), at_ns, at_ns, "g", member, incarnation, data=data)


def ended(at_s: float, member: str, begun_s: float, asked_s: float | None = None, **data: Any) -> Event:
    asked = {} if asked_s is None else {"asked_ns": round(asked_s * S)}
    return event("exit", at_s, member, "harness", code=0, asked=True, begun_ns=round(begun_s * S), **asked, **data)


LIVES = [
    event("generation", 3, "m1", generation=1, partitions=[]),
    event("assigned_end", 3.5, "m1", generation=1, partitions=[]),
    event("generation", 12.5, "m2", generation=2, partitions=[]),
    ended(20.25, "m1", 1, 20, grace_s=10),
    event("fault_begin", 30, "m2", "harness", fault="kill", target="m2"),
    ended(30, "m2", 10, 20, grace_s=10),
    ended(40, "m1", 25, incarnation=1),
]


def test_a_start_ends_with_the_first_assignment_and_a_stop_with_the_process() -> None:
    rows = replicas_of(History(LIVES), "g")

    assert rows == (
        Replica("m1", 0, 2.0, 0.25, 10, False),
        Replica("m2", 0, 2.5, 10.0, 10, True),
        Replica("m1", 1, None, None, None, False),
    )
    assert list(replica_lines(rows)) == [
        "from start to first assignment: m1 2.0 s, m2 2.5 s, m1 (start 2) never",
        "from the request to end to the end: m1 0.2 s, m2 10.0 s (killed)",
        "m2 still ran after 10 s and had to be killed: end in time after SIGTERM, or give a longer grace; unless it "
        "has left, a group keeps a killed member's partitions until its session ends",
    ]


def test_a_kill_of_the_scenario_is_none_of_the_grace() -> None:
    """A member that the scenario kills was never asked to end."""
    kill = event("fault_begin", 40, "m3", "harness", fault="kill", target="m3")
    rows = replicas_of(History([*LIVES, kill, ended(40, "m3", 2)]), "g")

    assert {row.name: row.killed for row in rows}["m3"] is False
    assert len(list(killed_lines(rows))) == 1


def test_without_a_grace_there_is_nothing_to_tell() -> None:
    assert replicas_of(History([ended(20, "m1", 1, 19)]), "g") == ()
    assert replicas_of(History(LIVES), "another") == ()
    assert list(replica_lines(())) == []


def test_of_a_service_each_process_is_told() -> None:
    start = event("generation", 2, "m1", generation=1, partitions=[], log_bytes=7)

    (row,) = rows = replicas_of(History([start, ended(20.5, "m1", 1, 20)]), "g")

    assert row == Replica("m1", 0, 1.0, 0.5, None, False)
    assert list(replica_lines(rows)) == [
        "from start to first assignment: m1 1.0 s",
        "from the request to end to the end: m1 0.5 s",
    ]
    never_asked = replicas_of(History([start, ended(20.5, "m1", 1)]), "g")
    assert list(replica_lines(never_asked)) == ["from start to first assignment: m1 1.0 s"]


def test_the_page_has_each_process() -> None:
    history = History(LIVES)
    verdict = check(history)
    group = GroupResult("roll", "", (), verdict, (), replicas=replicas_of(history, "g"))

    page = render_html(Report("t", "s", None, (), groups=(group,)))

    assert "3 processes" in page
    assert '<td>m2</td><td class="n">2.5 s</td><td class="n bad">10.0 s, killed</td>' in page
    assert '<td>m1 (start 2)</td><td class="n">–</td><td class="n">–</td>' in page
    assert "m2 still ran after 10 s" in page
    assert "processes</summary>" not in render_html(
        Report("t", "s", None, (), groups=(GroupResult("r", "", (), verdict, ()),))
    )


def test_a_member_that_left_and_is_killed_because_it_does_not_end_breaks_no_law() -> None:
    """Such as one that has closed its consumer and hangs in another thread."""
    story = Story().start("a", "b").round().wait(10)
    story._callback("b", "revoke", story.held.pop("b"))
    story.tell("stop", "member", "b")
    story.wait(SESSION_MS).tell("fault_begin", member="b", fault="kill", target="b")
    asked_ns = story._now - SESSION_MS * MS
    story.tell(
        "exit",
        member="b",
        code=-9,
        signal="SIGKILL",
        asked=True,
        begun_ns=1,
        asked_ns=asked_ns,
        grace_s=SESSION_MS / 1000,
    )
    story.tell("fault_end", member="b", fault="kill", target="b")
    story.round()

    verdict = check(story.history)

    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    assert verdict.checked["E1"] == 1
