"""The figures of a service's run, from events that were counted by hand."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import count
from typing import Any

import jsonschema
import pytest

from kafka_assignors.history.events import WIRE, Event
from kafka_assignors.integration.history import History
from kafka_assignors.integration.report.service_view import ServiceView, kept_service_view, service_view, stop_lines
from kafka_assignors.integration.report.side_by_side import Row
from tests.support.cli import SCHEMAS
from tests.support.histories.stories import cut_off
from tests.support.histories.whole import whole

NUMBERS = count()


def event(kind: str, member: str | None = None, src: str = "member", **data: Any) -> Event:
    number = next(NUMBERS)
    return Event(kind, "run", src, number, number, number, "g", member, data=whole(kind, data))


def acks(count_: int, partition: int = 0) -> list[Event]:
    return [
        event("ack", src="producer", topic="t", partition=partition, offset=offset, value_id=str(offset), key_hash="k")
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
    [(False, False, False, ("m1",)), (True, False, False, ()), (False, True, False, ()), (False, False, True, ())],
)
def test_who_ends_without_closing_is_named(
    closes: bool, killed: bool, at_the_end: bool, unclosed: tuple[str, ...]
) -> None:
    events = [event("start", "m1"), *([event("stop", "m1")] if closes else [])]
    events += [event("fault_begin", "m1", "harness", fault="kill", target="m1")] if killed else []
    events += [event("closing", src="harness")] if at_the_end else []
    events.append(ended("m1"))

    assert service_view(History(events)).unclosed == unclosed


def test_who_did_not_end_in_time_was_killed_and_may_yet_have_closed() -> None:
    late = event("exit", "m1", "harness", code=-9, signal="SIGKILL", asked=True)
    assert service_view(History([event("start", "m1"), late])).unclosed == ()


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
    assert ("records without an output: 2; with several: 1; output behind a later one of their key: 0" in told) == back
    assert ("wait for the acknowledgement" in told) == ("in one transaction" in told) == back


def with_outputs(*rows: tuple[int, int, int, int | None], commits: tuple[tuple[int, int], ...] = ()) -> ServiceView:
    """The view of four records with outputs (of which record, partition, offset, ms), and commits (offset, ms)."""
    events = [event("start", "m1", config={"output": "done"}), *acks(4)]
    for offset, ms in commits:
        committed = event("offset_committed", src="coordlog", topic="t", partition=0, offset=offset)
        events.append(replace(committed, ts_ns=ms * 1_000_000))
    for record, partition, offset, ms in rows:
        place = {"topic": "done", "partition": partition, "offset": offset, "value_id": str(record)}
        events.append(event("read_back", src="harness", **place, appended_ms=ms))
    ends = [{"topic": "done", "partition": partition, "offset": 99} for partition in (0, 1)]
    return service_view(History([*events, event(*DRAINED, name="read_back", offsets=ends)]))


def test_a_record_that_was_committed_before_its_output_came_is_counted() -> None:
    """Of two outputs the first one counts; in the same millisecond nobody knows."""
    outputs = ((0, 0, 0, 100), (1, 0, 1, 101), (2, 0, 2, 102), (3, 0, 4, 104), (2, 0, 5, 300))

    view = with_outputs(*outputs, commits=((1, 99), (2, 101), (3, 102), (2, 102), (4, 103)))

    assert view.committed_first == 2
    assert ("committed before their output: 2" in "\n".join(view.lines())) is True
    assert "then commit" in "\n".join(view.lines())
    assert ("committed before their output", "2") in list(view.figures())


def test_outputs_in_different_partitions_do_not_show_that_the_brokers_clock_fell() -> None:
    assert with_outputs((0, 0, 0, 500), (1, 1, 0, 100), commits=((1, 499), (2, 99))).committed_first == 2
    assert with_outputs((0, 0, 0, 500), (1, 0, 1, 100), commits=((1, 499), (2, 99))).committed_first == 0


def test_offsets_of_a_transaction_may_be_in_the_log_before_its_outputs() -> None:
    events = [
        event("start", "m1", config={"output": "done"}),
        *acks(1),
        event("commit_begin", "m1", offsets=[{"topic": "t", "partition": 0, "offset": 1}], transaction=1),
        event("offset_committed", src="coordlog", topic="t", partition=0, offset=1),
        event("read_back", src="harness", topic="done", partition=0, offset=0, value_id="0", appended_ms=7),
        event(*DRAINED, name="read_back", offsets=[{"topic": "done", "partition": 0, "offset": 1}]),
    ]

    assert service_view(History(events)).committed_first == 0


def test_when_outputs_came_is_unknown_where_their_producer_dates_them() -> None:
    view = with_outputs((0, 0, 0, None), (1, 0, 1, None), commits=((4, 1),))

    assert (view.committed_first, view.overtaken) == (None, 0)
    assert "committed before their output:" not in "\n".join(view.lines())


@pytest.mark.parametrize(
    ("outputs", "overtaken"),
    [
        (((0, 0, 0, 1), (1, 0, 1, 2), (2, 0, 2, 3), (3, 0, 3, 4)), 0),
        (((1, 0, 0, 1), (0, 0, 1, 1), (2, 0, 2, 3)), 1),
        (((3, 0, 0, None), (0, 0, 1, None), (1, 0, 2, None), (2, 0, 3, None)), 3),
        (((1, 1, 0, 1), (0, 0, 0, 2)), 0),  # of two partitions nobody sees an order
        (((0, 0, 0, 1), (1, 0, 1, 2), (0, 0, 2, 3)), 0),  # of two outputs the first one counts
        (((0, 1, 5, 1), (1, 0, 1, 2), (0, 0, 2, 3)), 0),
        (((0, 1, 5, None), (1, 0, 1, None), (0, 0, 2, None)), 0),  # nobody knows which one that was
    ],
)
def test_outputs_of_a_key_come_in_the_order_of_their_records(
    outputs: tuple[tuple[int, int, int, int | None], ...], overtaken: int
) -> None:
    view = with_outputs(*outputs)

    assert view.overtaken == overtaken
    assert ("work on the records of a key in their order" in "\n".join(view.lines())) == (overtaken > 0)


@pytest.mark.parametrize("seen", [True, False])
def test_the_json_has_the_figures_as_its_schema_says(seen: bool) -> None:
    start = replace(event("start", "m1"), client="kafka-python" if seen else WIRE)
    events = [start, *acks(3), consumed("m1", 0, 1)]
    schema = json.loads((SCHEMAS / "test.json").read_text("utf-8"))["properties"]["service"]

    view = service_view(History(events))

    assert (view.read_twice is not None) == seen
    assert dict(view.figures())["read twice"] == ("0" if seen else "unknown")
    jsonschema.validate(json.loads(json.dumps(asdict(view))), schema)


def test_a_kept_run_is_one_of_a_service_if_its_events_say_so() -> None:
    """Members of the harness have no log of a service; a second group reads the same records again."""
    ours = [*acks(2), consumed("m1", 0, 1)]
    logged = replace(ours[-1], data={**ours[-1].data, "log_bytes": 0})

    assert kept_service_view(History(ours)) is None
    assert kept_service_view(History([*ours, replace(logged, group="another")])) is None
    view = kept_service_view(History([*ours[:-1], logged]))
    assert view is not None
    assert view.sent == 2


ROW = Row("range", "t", True, 0.0, 999.0, {}, None, 3, 3, 4, 4, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("row", "beginnings"),
    [
        (ROW, []),
        (ROW._replace(killed_ms=45_040.0), ["after a kill a partition had no owner for up to 45.0 s"]),
        (ROW._replace(stop_ms=1000.0), ["in a planned change a partition had no owner for up to 1.0 s"]),
        (ROW._replace(planned_duplicates=61), ["61 records were read again after a planned change, without a kill"]),
        (ROW._replace(planned_duplicates=None), []),
        (ROW._replace(returned=9), ["9 times a process gave up a partition and got it back"]),
        (ROW._replace(returned=9, assignor="cooperative-sticky"), []),
    ],
)
def test_stops_come_with_the_setting_that_would_shorten_them(row: Row, beginnings: list[str]) -> None:
    assert [line.partition(":")[0] for line in stop_lines(row)] == beginnings


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
