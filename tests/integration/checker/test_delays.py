"""How long records wait for a member of their group."""

from __future__ import annotations

from kafka_assignors.integration.checker import check
from kafka_assignors.integration.checker.delays import Delays, spread
from kafka_assignors.integration.checker.ledger import RunRecord
from tests.support.histories.story import MS, Story


def waiting(ms: float) -> Story:
    """Two members at rest; a record of t-0 is read after 5 ms, three of t-1 to t-3 after longer, and again."""
    story = Story("range", {"t": 4}).start("a", "b").round()
    story.tell("step", name="c joins")
    story.start("c").records(4).wait(ms).round().consume().wait(60_000)
    return story.records(4).consume()


def test_a_record_waits_from_its_acknowledgement_to_its_first_reader() -> None:
    story = waiting(700)
    run = RunRecord.of(story.history)

    found = Delays.of(run.groups["g"], run.acked)

    acks = {(e.data["partition"], e.data["offset"]): e.mono_ns for e in story.events if e.kind == "ack"}
    read = {
        (run["partition"], offset): e.mono_ns
        for e in story.events if e.kind == "consume"
        for run in e.data["offsets"] for offset in range(run["first"], run["last"] + 1)
    }  # fmt: skip
    assert sorted(found.ms) == sorted((read[key] - acks[key]) / MS for key in acks)
    assert list(found.at_ns) == sorted(acks.values())
    first = min(acks.values())
    assert found.within((first, first)) == [found.ms[0]]
    assert found.within() == []


def test_a_record_that_nobody_reads_and_one_read_before_its_producer_knew() -> None:
    story = Story("range", {"t": 2}).start("a").round().records(2).consume()
    story.shift("ack", 1000, partition=0)
    run = RunRecord.of(story.records(1).history)

    found = Delays.of(run.groups["g"], run.acked)

    assert len(found.ms) == 2
    assert min(found.ms) == 0


def test_the_verdict_tells_the_delays_of_changes_alone() -> None:
    """Not those of the rest that followed, nor of the start."""
    measured = check(waiting(700).history).measures["delays_ms"]

    assert measured.keys() == {"p50_ms", "p99_ms", "most_ms"}
    assert 700 < measured["p50_ms"] <= measured["p99_ms"] <= measured["most_ms"] < 800
    assert check(Story().start("a").round().records(7).consume().history).measures["delays_ms"] == {}


def test_percentiles_are_ranks() -> None:
    assert spread([]) == {}
    assert spread([3.0]) == {"p50_ms": 3.0, "p99_ms": 3.0, "most_ms": 3.0}
    assert spread([float(n) for n in range(200, 0, -1)]) == {"p50_ms": 100.0, "p99_ms": 198.0, "most_ms": 200.0}
