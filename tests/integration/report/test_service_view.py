"""The figures of a service's run, from events that were counted by hand."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from kafka_assignors.history.events import Event
from kafka_assignors.integration.history import History
from kafka_assignors.integration.report.service_view import ServiceView, service_view
from tests.support.histories.stories import cut_off
from tests.support.histories.whole import whole

NUMBERS = count()


def event(kind: str, member: str | None = None, src: str = "member", **data: Any) -> Event:
    number = next(NUMBERS)
    return Event(kind, "run", src, number, number, number, "g", member, data=whole(kind, data))


def acks(count_: int, partition: int = 0) -> list[Event]:
    return [
        event("ack", src="producer", topic="t", partition=partition, offset=offset, value_id=str(offset))
        for offset in range(count_)
    ]


def consumed(member: str, first: int, last: int) -> Event:
    run = {"topic": "t", "partition": 0, "first": first, "last": last, "count": last - first + 1, "bytes": 0}
    return event("consume", member, offsets=[run])


def ended(member: str) -> Event:
    return event("exit", member, "harness", code=0, asked=True)


DRAINED = ("step", None, "harness")


def test_all_is_read_once() -> None:
    events = [*acks(10), consumed("m1", 0, 9), event(*DRAINED, name="drained", offsets=[])]

    assert service_view(History(events)) == ServiceView(10, 0, 0, 0, 0, 0, ())


def test_records_that_nobody_read_are_counted_only_once_all_was_consumed() -> None:
    events = [*acks(10), consumed("m1", 0, 5)]

    assert service_view(History(events)).unread is None
    assert service_view(History([*events, event(*DRAINED, name="drained", offsets=[])])).unread == 4


@pytest.mark.parametrize(("read", "unwritten"), [(True, 0), (False, 1)])
def test_what_a_client_committed_as_its_process_ended_may_have_been_handed_out(read: bool, unwritten: int) -> None:
    view = service_view(cut_off(read=read).history)

    assert (view.sent, view.unread, view.unwritten) == (3, 0, unwritten)
    assert ("was not seen" in "\n".join(view.lines())) == (unwritten > 0)


def test_what_was_committed_long_before_and_nobody_read_is_unread() -> None:
    view = service_view(cut_off(5000, read=False).history)

    assert (view.unread, view.unwritten) == (1, 0)


def test_going_back_is_measured_in_records() -> None:
    events = [*acks(10), consumed("m1", 0, 7), consumed("m2", 5, 9), consumed("m3", 6, 9)]

    view = service_view(History(events))

    assert (view.read_twice, view.furthest_back) == (5, 4)


@pytest.mark.parametrize(
    ("closes", "killed", "at_the_end", "unclosed"),
    [
        (False, False, False, ("m1",)),
        (True, False, False, ()),
        (False, True, False, ()),
        (False, False, True, ()),
    ],
)
def test_who_ends_without_closing_is_named(
    closes: bool, killed: bool, at_the_end: bool, unclosed: tuple[str, ...]
) -> None:
    events = [event("start", "m1"), *([event("stop", "m1")] if closes else [])]
    events += [event("fault_begin", "m1", "harness", fault="kill", target="m1")] if killed else []
    events += [event("closing", src="harness")] if at_the_end else []
    events.append(ended("m1"))

    assert service_view(History(events)).unclosed == unclosed


@pytest.mark.parametrize("seen", ["nothing", "until the recorder stopped"])
def test_of_whom_not_all_was_seen_nothing_is_claimed(seen: str) -> None:
    events = [] if seen == "nothing" else [event("start", "m1"), event("error", "m1", error="OSError", message="full")]

    assert service_view(History([*events, ended("m1")])).unclosed == ()


@pytest.mark.parametrize("back", [True, False])
def test_outputs_are_counted_by_their_input_once_they_were_read_back(back: bool) -> None:
    """An output without an input, and one of another topic, count for none."""
    events = [event("start", "m1", config={"output": "done"}), *acks(4)]
    for topic, value_id in (("done", "0"), ("done", "2"), ("done", "2"), ("done", None), ("other", "3")):
        events.append(event("read_back", src="harness", topic=topic, partition=0, offset=0, value_id=value_id))
    rows = [{"topic": "done" if back else "other", "partition": 0, "offset": 4}]
    events.append(event(*DRAINED, name="read_back", offsets=rows, isolation="read_committed"))

    view = service_view(History(events))

    assert (view.without_output, view.several_outputs) == ((2, 1) if back else (None, None))
    told = "\n".join(view.lines())
    assert ("records without an output: 2; with several: 1" in told) == back
    assert ("wait for the acknowledgement" in told) == ("in one transaction" in told) == back


def test_a_topic_without_any_output_was_read_back_too() -> None:
    rows = [{"topic": "done", "partition": 0, "offset": 0}]
    events = [
        event("start", "m1", config={"output": "done"}),
        *acks(4),
        event(*DRAINED, name="read_back", offsets=rows),
    ]

    assert service_view(History(events)).without_output == 4


def test_refused_commits_come_with_what_would_change_them() -> None:
    view = service_view(History([event("commit_fail", "m1", offsets=[], error="CommitFailedError")]))

    assert view.refused_commits == 1
    assert "a commit is refused if its partition has gone" in "\n".join(view.lines())
