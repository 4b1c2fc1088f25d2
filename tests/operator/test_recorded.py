"""Groups watched by recordings: each rebalance counts once, as `why --from` tells it; what nobody tells is unknown."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import KafkaTimeoutError

from kafka_assignors.connection import Connection
from kafka_assignors.errors import ConfigError, NoSuchGroup
from kafka_assignors.history.coordinator_log import CommittedMember
from kafka_assignors.history.events import INCOMPLETE, Event
from kafka_assignors.history.recorded import recordings
from kafka_assignors.operator.live.meter import SETTLED_S, Totals
from kafka_assignors.operator.live.monitor import Reading
from kafka_assignors.operator.recorded import UNKNOWN, RecordedMeter, RecordedMonitor
from kafka_assignors.recordings import _RecordedFiles, _RecordedTopic
from tests.history.test_recorded import drawn_life
from tests.support.live.log import LogStory
from tests.support.live.recorded import GROUP, events_of


def counted(totals: Totals) -> dict[str, int]:
    return {cause: count for cause, count in totals.rebalances.items() if count}


def moments(events: Iterable[Event]) -> list[list[Event]]:
    """The events of each rebalance, from the stop before it on, in an order that tells nothing."""
    all_moments: list[list[Event]] = []
    before_ns = 0
    for event in sorted(events, key=lambda event: event.ts_ns):
        if event.ts_ns - before_ns > 100_000_000:
            all_moments.append([])
        all_moments[-1].append(event)
        before_ns = event.ts_ns
    for now in all_moments:
        random.Random(0).shuffle(now)
    return all_moments


def fed(meter: RecordedMeter, news: Iterable[Sequence[Event]], one_by_one: bool = False) -> None:
    """Give the meter the events of each moment, and then the time to settle."""
    now_s = 0.0
    for now in news:
        for part in [[event] for event in now] if one_by_one else [now]:
            meter.add(part, now_s)
            now_s += 1
        now_s += 2 * SETTLED_S
        meter.add([], now_s)


def story() -> LogStory:
    return LogStory().given({"a": [0, 1], "b": [2, 3]}).wait(60)


def leads(name: str) -> Callable[[CommittedMember], bool]:
    """Only members of other names record."""
    return lambda member: member.client_id != name


@pytest.mark.slow
@given(st.integers(0, 10**6), st.booleans())
def test_the_totals_are_those_of_all_events(seed: int, one_by_one: bool) -> None:
    """In whatever parts they come, and though old ones are forgotten."""
    events = list(events_of(*drawn_life(seed)))
    first, *later = moments(events)
    meter = RecordedMeter(GROUP, first)
    fed(meter, later, one_by_one)
    due = recordings(events, GROUP).rebalances()[1:]

    assert [(r.generations, r.causes, r.moved) for r in meter.rebalances] == [
        (r.generations, r.causes, r.moved) for r in due
    ]
    assert counted(meter.totals) == Counter(r.causes[0].kind for r in due if r.counted)
    assert meter.totals.moved == sum(r.moved for r in due)
    assert meter.totals.needless == sum(r.needless or 0 for r in due)
    assert not meter.may_miss


def test_what_was_before_the_start_is_not_counted() -> None:
    meter = RecordedMeter(GROUP, list(events_of(story().given({"a": [0, 1, 2, 3]}).log)))
    meter.add([], 1e6)

    assert (counted(meter.totals), meter.rebalances) == ({}, [])
    assert meter.live is not None
    assert (meter.live.generation, len(meter.live.members), meter.live.state) == (2, 1, UNKNOWN)


def test_without_a_history_all_is_counted() -> None:
    meter = RecordedMeter(GROUP, [])
    fed(meter, [list(events_of(story().given({"a": [0, 1, 2, 3]}).log))])

    assert counted(meter.totals) == {"first": 1, "left or expired": 1}


def test_a_rebalance_waits_until_nobody_tells_more_of_it() -> None:
    first, *_, last = moments(events_of(story().given({"a": [0, 1], "b": [2], "c": [3]}).log))
    meter = RecordedMeter(GROUP, first)
    for n, event in enumerate(last):
        meter.add([event], 4.0 * n)
        assert counted(meter.totals) == {}, "its leader, or another member, may yet tell"
    meter.add([], 4.0 * n + SETTLED_S)

    assert counted(meter.totals) == {"joined": 1}


def test_memory_is_bounded() -> None:
    told, kept = story(), []
    for n in range(40):
        told.wait(30).given({"a": [0, 1], "b": [2], f"c{n}": [3]}).wait(30).given({"a": [0, 1], "b": [2, 3]})
    meter = RecordedMeter(GROUP, [])
    for n, now in enumerate(moments(events_of(told.log))):
        fed(meter, [now])
        kept.append(len(meter._events))
        assert len(meter._arrived) <= 2, n

    assert counted(meter.totals) == {"first": 1, "joined": 40, "left or expired": 40}
    assert max(kept[20:]) <= max(kept[:20]) < 40


def test_a_storm_is_counted_when_it_calms() -> None:
    told = story()
    for n in range(20):
        told.wait(1).given({"a": [0, 1], "b": [2], f"c{n}": [3]}).wait(1).given({"a": [0, 1], "b": [2, 3]})
    first, *later = moments(events_of(told.log))
    meter = RecordedMeter(GROUP, first)
    for n, now in enumerate(later):
        meter.add(now, float(n))
    assert 0 < sum(meter.totals.rebalances.values()) < 40, "those that are told in whole need not wait for its end"
    meter.add([], n + SETTLED_S)

    assert counted(meter.totals) == {"joined": 20, "left or expired": 20}


def test_a_client_that_is_back_after_many_generations_has_restarted() -> None:
    """Also if the generations in which it was are forgotten."""
    hosts = {"a": 1, "b": 2}
    told = LogStory().given({"a": [0, 1], "b": [2, 3]}, hosts=hosts).wait(1).given({"a": [0, 1, 2, 3]}, hosts=hosts)
    for n in range(9):
        told.wait(2).given({"a": [0, 1, 2], f"c{n}": [3]}, hosts=hosts).wait(2).given({"a": [0, 1, 2, 3]}, hosts=hosts)
    told.wait(2).given({"a": [0, 1], "b": [2, 3]}, ids={"b": "b-9"}, hosts=hosts)
    first, *later = moments(events_of(told.log))
    meter = RecordedMeter(GROUP, first)
    fed(meter, later)
    assert (meter.rebalances[-1].causes[0].kind, len(meter._counted)) == ("restarted", 3)


def test_hand_overs_of_a_cooperative_assignor_are_counted_once() -> None:
    """The second generation may come after the first is counted: what it adds is counted then."""
    told = LogStory("cooperative-sticky").given({"a": [0, 1, 2, 3]}, cooperative=True)
    told.wait(60).given({"a": [0, 1], "b": []}, cooperative=True).wait(20)
    told.given({"a": [0, 1], "b": [2, 3]}, cooperative=True)
    first, *later = moments(events_of(told.log))
    meter = RecordedMeter(GROUP, first)
    fed(meter, later)
    assert (counted(meter.totals), meter.totals.moved) == ({"joined": 1}, 2)
    assert [(r.generations, [cause.kind for cause in r.causes]) for r in meter.rebalances] == [
        ((2,), ["joined"]), ((2, 3), ["joined"]),
    ]  # fmt: skip


def test_a_group_that_was_deleted_and_begins_again_is_counted_on() -> None:
    """Its numbers begin again, too."""
    old, new = story().given({"a": [0]}), LogStory(ms=9_000_000)
    new.given({"x": [0]}).wait(9).given({"x": [0], "y": [1]}).wait(9).given({"y": [0, 1]})
    first, *later = moments([*events_of(old.log), *events_of(new.log)])
    meter = RecordedMeter(GROUP, first)
    fed(meter, later)

    assert [rebalance.generations for rebalance in meter.rebalances if rebalance.members] == [(2,), (1,), (2,), (3,)]


def test_members_that_do_not_record_make_the_sums_unknown() -> None:
    told = story().given({"c": [0], "a": [1], "b": [2, 3]})
    first, *later = moments(events_of(told.log, records=leads("c")))
    meter = RecordedMeter(GROUP, first)
    assert not meter.may_miss
    fed(meter, later)

    assert [[cause.kind for cause in r.causes] for r in meter.rebalances] == [["joined", "unknown"]]
    assert meter.may_miss
    assert meter.recordings.hidden == {"c-0"}


def test_generations_that_nobody_recorded_make_the_sums_unknown() -> None:
    """But not if a member that records was there all along: it would have told them."""
    for there, may_miss in (("a", False), ("x", True)):  # x doesn't record
        told = LogStory().given({"a": [0, 1], "x": [2, 3]}).wait(60)
        told.generation += 1
        told.given({"b": [0, 1], there: [2, 3]})
        first, *later = moments(events_of(told.log, records=leads("x")))
        meter = RecordedMeter(GROUP, first)
        fed(meter, later)
        assert [rebalance.missing for rebalance in meter.rebalances] == [(2, 2)]
        assert meter.may_miss is may_miss


def test_lost_events_make_the_sums_unknown() -> None:
    meter = RecordedMeter(GROUP, list(events_of(story().log)))
    lost = {"error": INCOMPLETE, "message": "3 events before this one were dropped"}
    meter.add([Event("error", "r", "member", 1, 1, 1, group=GROUP, member="a", data=lost)], 0.0)
    assert meter.may_miss


@pytest.fixture
def notes() -> list[str]:
    return []


Opened = Callable[..., RecordedMonitor]


@pytest.fixture
def opened(tmp_path: Path, notes: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Opens monitors of a folder, whose clock goes on by `SETTLED_S` with each look."""
    clock = iter(range(0, 10**6, int(SETTLED_S)))
    monkeypatch.setattr("kafka_assignors.operator.recorded.time.monotonic", lambda: float(next(clock)))
    monitors: list[RecordedMonitor] = []

    def monitor(*patterns: str, waiting: bool = False) -> RecordedMonitor:
        monitors.append(
            RecordedMonitor([str(tmp_path)], lambda: Connection(""), patterns, notes.append, waiting=waiting)
        )
        return monitors[-1]

    yield monitor
    for one in monitors:
        one.__exit__()


def put(path: Path, events: Iterable[Event]) -> None:
    with path.open("a") as file:
        file.writelines(event.to_json() + "\n" for event in events)


def lines_of(log: LogStory) -> list[Event]:
    return sorted(events_of(log.log), key=lambda event: event.ts_ns)


def of(readings: Iterable[Reading], group: str = GROUP) -> Reading:
    return next(reading for reading in readings if reading.group == group)


def test_a_folder_is_followed_as_it_grows(tmp_path: Path, opened: Opened) -> None:
    """A new file, a line of which the rest comes later, and a full file that gets another name."""
    told = story()
    put(tmp_path / "h.1.jsonl", events_of(told.log))
    before = len(list(events_of(told.log)))
    monitor = opened()
    assert counted(of(monitor.read(0)).totals) == {}

    *whole, last = [
        event.to_json() + "\n" for event in lines_of(told.given({"a": [0], "b": [1], "c": [2, 3]}))[before:]
    ]
    with (tmp_path / "h.1.jsonl").open("a") as file:
        file.writelines([*whole, last[:20]])
    monitor.read(0)
    (tmp_path / "h.1.jsonl").rename(tmp_path / "h.1.old.jsonl")
    with (tmp_path / "h.1.old.jsonl").open("a") as file:
        file.write(last[20:])
    monitor.read(0)
    reading = of(monitor.read(0))
    assert counted(reading.totals) == {"joined": 1}
    assert reading.live is not None
    assert (len(reading.live.members), reading.recorded, reading.may_miss) == (3, 3, False)

    before = len(lines_of(told))
    put(tmp_path / "h.1.jsonl", lines_of(told.wait(60).given({"a": [0, 1], "b": [2, 3]}))[before:])
    monitor.read(0)
    assert counted(of(monitor.read(0)).totals) == {"joined": 1, "left or expired": 1}


def test_a_file_that_gets_another_name_while_the_folder_is_read_is_read_next(
    tmp_path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "h.1.jsonl", events_of(story().log))
    listed = _RecordedFiles._files
    monkeypatch.setattr(_RecordedFiles, "_files", lambda self: [tmp_path / "h.0.jsonl", *listed(self)])
    monitor = opened()
    assert (of(monitor.read(0)).recorded, monitor.reachable) == (2, True)


def test_a_shorter_file_of_the_same_number_is_read_from_its_beginning(tmp_path: Path, opened: Opened) -> None:
    """A file system gives a deleted file's number to the next one."""
    told = story()
    put(tmp_path / "h.1.jsonl", events_of(told.log))
    monitor, before = opened(), len(lines_of(told))
    with (tmp_path / "h.1.jsonl").open("r+") as file:
        file.truncate()
    put(tmp_path / "h.1.jsonl", lines_of(told.given({"a": [0, 1, 2, 3]}))[before:])
    monitor.read(0)
    assert counted(of(monitor.read(0)).totals) == {"left or expired": 1}


def test_groups_are_chosen_and_found_when_they_begin(tmp_path: Path, opened: Opened, notes: list[str]) -> None:
    put(tmp_path / "h.1.jsonl", events_of(story().log))
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(NoSuchGroup, match=r"no generation of group 'billing\*' is recorded in .*; it has g"):
        opened("billing*")
    with pytest.raises(NoSuchGroup, match="no generation of a group is recorded"):
        RecordedMonitor([str(empty)], lambda: Connection(""), (), notes.append)
    monitor = opened("billing*", waiting=True)
    assert monitor.read(0) == []
    assert [note.endswith("it has g; it is counted from its first member on") for note in notes] == [True]

    for name in ("billing-1", "mail"):
        moved = (event.to_json().replace('"group":"g"', f'"group":"{name}"') for event in events_of(story().log))
        (tmp_path / f"{name}.jsonl").write_text("\n".join([*moved, ""]))
    assert '"group":"mail"' in (tmp_path / "mail.jsonl").read_text()
    monitor.read(0)
    (reading,) = monitor.read(0)
    assert (reading.group, counted(reading.totals)) == ("billing-1", {"first": 1})


def test_what_can_not_be_read_later_is_noted_once_and_all_else_is_read(
    tmp_path: Path, opened: Opened, notes: list[str]
) -> None:
    told = story()
    put(tmp_path / "h.1.jsonl", events_of(told.log))
    monitor, before = opened(), len(lines_of(told))
    (tmp_path / "a.jsonl").mkdir()
    put(tmp_path / "h.1.jsonl", lines_of(told.given({"a": [0, 1, 2, 3]}))[before:])
    monitor.read(0)
    assert counted(of(monitor.read(0)).totals) == {"left or expired": 1}
    assert not monitor.reachable
    assert [note.endswith("a.jsonl: it is a directory, not a regular file") for note in notes] == [True]

    (tmp_path / "a.jsonl").rmdir()
    monitor.read(0)
    assert (monitor.reachable, notes[1:]) == (True, ["all recordings are read again"])
    with pytest.raises(ConfigError, match="no such folder"):
        RecordedMonitor([str(tmp_path / "nowhere")], lambda: Connection(""), (), notes.append)


class AwayTopic(_RecordedTopic):
    """A topic whose cluster answers the first call alone."""

    def __init__(self, *_: object) -> None:
        self.calls = 0

    def _read(self) -> Iterator[bytes]:
        self.calls += 1
        if self.calls > 1:
            raise KafkaTimeoutError
        yield from (event.to_json().encode() for event in events_of(story().log))

    def close(self) -> None: ...


def test_a_cluster_that_is_away_is_noted_and_asked_again(notes: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_assignors.recordings._RecordedTopic", AwayTopic)
    with RecordedMonitor(["topic:events"], lambda: Connection(""), (), notes.append) as monitor:
        readings = [of(monitor.read(0)) for _ in range(2)]
        assert [reading.recorded for reading in readings] == [2, 2]
        assert not monitor.reachable
    (note,) = notes
    assert note.startswith("not read, and tried again: KafkaTimeoutError")


def test_figures_that_recordings_do_not_have_are_unknown(tmp_path: Path, opened: Opened) -> None:
    told = story().given({"c": [0], "a": [1], "b": [2, 3]})
    put(tmp_path / "h.1.jsonl", events_of(told.log, records=leads("c")))
    reading = of(opened().read(0))

    assert (reading.gap, dict(reading.positions), reading.topics) == (None, {}, None)
    assert (reading.in_part, reading.sums_known, reading.may_miss, reading.recorded) == (True, False, True, 2)
    assert reading.unknown == (
        "members of generation 2 that don't record, and what they own: its leader doesn't record",
    )
