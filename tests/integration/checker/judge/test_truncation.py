"""Brokers that lose acknowledged records: they are named, and members are excused for that alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_assignors.integration.checker import Verdict, check
from tests.support.histories.stories import unreported
from tests.support.histories.story import MS, Story
from tests.support.histories.transactions import Transforming
from tests.support.histories.truncation import BEGIN, END, LOST, before, finishing, read_back, truncate, unclean


def broken(story: Story) -> set[str]:
    return {violation.law for violation in check(story.history).violations}


def blamed(verdict: Verdict, law: str) -> list[str]:
    return [violation.message for violation in verdict.violations if violation.law == law]


@pytest.mark.parametrize("records", [0, 2, 6, 10, 12])
def test_the_brokers_are_blamed_and_nobody_else(records: int) -> None:
    verdict = check(unclean(records).history)

    assert (verdict.value, verdict.unknown) == (False, ())
    assert [violation.law for violation in verdict.violations] == ["K1"]
    (message,) = blamed(verdict, "K1")
    assert message == (
        "the brokers lost offsets 10-14 of t-0, 5 of which were acknowledged: its log ended at 15, and at 10 under "
        "the next leader"
    )
    witnesses = verdict.violations[0].witnesses
    assert [w.kind for w in witnesses] == ["truncated", *["ack"] * 5]
    assert [w.data["offset"] for w in witnesses[1:]] == [10, 11, 12, 13, 14]
    assert verdict.skipped["C3"] == {"its brokers lost the record": 5}
    assert verdict.checked["C3"] == 25 + records
    assert verdict.checked["K1"] == 30 + records


def test_records_that_no_producer_of_ours_sent_are_lost_too() -> None:
    story = unclean()
    story.events = [e for e in story.events if e.kind not in ("ack", "read_back")]

    assert blamed(check(story.history), "K1") == [
        "the brokers lost offsets 10-14 of t-0, 0 of which were acknowledged: its log ended at 15, and at 10 under the "
        "next leader"
    ]


def test_what_nobody_had_consumed_is_lost_for_the_brokers_too() -> None:
    story = before(consumed=False)

    assert broken(read_back(truncate(story).records(6).drain())) == {"K1"}


def told(change: Callable[[dict[str, Any]], None]) -> Callable[[Story], object]:
    return lambda story: story.change("truncated", lambda data: change(data["offsets"][0]))


def late(story: Story) -> Story:
    """The event comes when all is over."""
    return story.shift("truncated", (story._now + MS - story.events[story._find("truncated", {})[0]].mono_ns) / MS)


DAMAGED: dict[str, tuple[Callable[[Story], object], set[str]]] = {
    "nothing tells of it": (lambda story: story.drop("truncated"), {"C2", "C5", "K1", "K2", "K3"}),
    "another partition lost it": (told(lambda row: row.update(partition=1)), {"C2", "C5", "K1", "K2", "K3"}),
    "another topic lost it": (told(lambda row: row.update(topic="u")), {"C2", "C5", "K1", "K2", "K3"}),
    "less was lost at its begin": (told(lambda row: row.update(offset=BEGIN + 1)), {"C2", "C5", "K1"}),
    "more was lost at its begin": (told(lambda row: row.update(offset=BEGIN - 1)), {"C2", "C5", "K1"}),
    "less was lost at its end": (told(lambda row: row.update(end=END - 1)), {"C2", "C5", "K1", "K2"}),
    "it was lost later": (late, {"C2", "C5", "K1", "K2"}),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_only_what_was_lost_is_excused_and_only_from_then_on(damage: str) -> None:
    how, laws = DAMAGED[damage]
    story = unclean()

    how(story)

    assert broken(story) == laws


def test_a_member_that_goes_back_further_is_to_blame() -> None:
    story = truncate(before())
    story._position["a", LOST] = BEGIN - 1
    verdict = check(read_back(story.records(6).drain()).history)

    assert blamed(verdict, "C2") == ["a went back in t-0 from offset 14 to 9 while it owned it"]
    assert blamed(verdict, "C5") == ["the committed offset of t-0 fell from 15 to 13"]


def test_a_member_that_leaves_out_what_came_instead_is_to_blame() -> None:
    """Offsets 10 to 12 were consumed, but not the records that lie there now."""
    story = truncate(before()).records(6)
    story._position["a", LOST] = story._offsets["t", 0]
    story.drain()

    assert blamed(check(read_back(story).history), "C3") == [
        "3 acknowledged record(s) of t-0 never reached group 'g': offset 10, 11, 12"
    ]


def test_a_member_that_goes_on_where_it_was_is_to_blame() -> None:
    """As a client does that doesn't ask for the end of its leader epoch (KIP-320)."""
    story = truncate(before()).records(14)
    story._position["a", LOST] = END
    story.drain()

    verdict = check(read_back(story).history)

    assert {violation.law for violation in verdict.violations} == {"C3", "K1"}
    assert blamed(verdict, "C3") == [
        "5 acknowledged record(s) of t-0 never reached group 'g': offset 10, 11, 12, 13, 14"
    ]


def test_going_back_is_excused_once() -> None:
    story = truncate(before()).records(6).consume()
    story._position["a", LOST] = BEGIN
    story.drain()

    verdict = check(read_back(story).history)

    assert blamed(verdict, "C2") == ["a went back in t-0 from offset 12 to 10 while it owned it"]


def test_who_reads_on_at_the_very_moment_has_heard_of_it() -> None:
    story = unclean()
    read = [e for e in story.events if e.kind == "consume" and e.member == "a"][-1]
    story.shift("truncated", (read.mono_ns - story.events[story._find("truncated", {})[0]].mono_ns) / MS)

    assert not broken(story) & {"C2", "C5"}


def test_an_offset_that_no_record_has_may_be_left_out() -> None:
    story = Story("range", {"t": 1}).start("a").round().records(6).drop("ack", offset=3)
    for number, _ in enumerate(story._find("ack", {})):
        story.change("ack", lambda data, number=number: data.update(value_id=f"p-{number}"), nth=number)
    rows = [
        {"topic": "t", "partition": 0, "first": first, "last": last, "count": 1 + last - first, "bytes": 9}
        for first, last in ((0, 2), (4, 5))
    ]
    story.tell("consume", "member", "a", offsets=rows)
    story.tell("step", name="drained", offsets=story._ends())

    assert broken(story) == set()


def test_a_commit_falls_once() -> None:
    story = truncate(before()).records(6).consume().wait(200).records(2).consume()
    story.wait(200).tell("offset_committed", "coordlog", topic="t", partition=0, offset=12)

    assert blamed(check(read_back(story).history), "C5") == ["the committed offset of t-0 fell from 14 to 12"]


def test_a_commit_that_falls_below_what_was_lost_is_to_blame() -> None:
    story = unclean().change("offset_committed", lambda data: data.update(offset=BEGIN - 1), topic="t", partition=0)

    assert blamed(check(story.history), "C5") == ["the committed offset of t-0 fell from 15 to 9"]


def test_a_commit_may_fall_to_where_the_log_ended() -> None:
    story = unreported(unclean())
    story.change("offset_committed", lambda data: data.update(offset=BEGIN), topic="t", partition=0)

    assert broken(story) == {"K1"}


def test_what_is_committed_was_consumed_since() -> None:
    """Offset 15 had been consumed, of which only 13 are there again."""
    story = unclean().change("offset_committed", lambda data: data.update(offset=14), topic="t", partition=0)
    story.shift("offset_committed", 200, offset=14)

    assert blamed(check(story.history), "C5") == ["offset 14 of t-0 was committed, but only 13 had been consumed"]


def took_over(first: int) -> Story:
    """Another member gets t-0 after what was committed of it was lost, and begins at `first`."""
    story = truncate(before()).wait(200).stop("a").round()
    story._position["b", LOST] = first
    return read_back(story.records(6).drain())


def test_the_next_owner_begins_where_the_log_ended() -> None:
    assert broken(took_over(BEGIN)) == {"K1"}
    assert broken(took_over(BEGIN).drop("truncated")) == {"C2", "C4", "C5", "K1", "K2", "K3"}
    assert broken(took_over(BEGIN - 1)) == {"C2", "C4", "C5", "K1"}
    assert broken(took_over(BEGIN + 1)) == {"C2", "C3", "C4", "C5", "K1"}


def test_records_are_lost_twice() -> None:
    story = truncate(before()).records(10).consume()
    story = read_back(truncate(story, 12).records(2).drain())

    verdict = check(story.history)

    assert [violation.law for violation in verdict.violations] == ["K1", "K1"]
    assert [message.partition(",")[0] for message in blamed(verdict, "K1")] == [
        "the brokers lost offsets 10-14 of t-0",
        "the brokers lost offsets 12-14 of t-0",
    ]
    assert verdict.skipped["C3"] == {"its brokers lost the record": 8}


def test_a_read_back_tells_of_its_own_side_alone() -> None:
    story = read_back(before())
    early = check(story.history)
    assert (early.value, early.checked["K1"]) == (True, 30)

    story = read_back(truncate(story).records(6).drain())

    assert broken(story) == {"K1"}
    assert len(blamed(check(story.history), "K1")) == 1


def test_what_an_earlier_read_back_cannot_tell_a_later_one_tells() -> None:
    story = read_back(truncate(read_back(before())).records(6).drain())
    story.drop("read_back", topic="t", partition=0, offset=11)

    assert blamed(check(story.history), "K1")[1:] == [
        "1 record(s) of t sent through 'default' were acknowledged but not read back"
    ]


def test_a_record_of_either_side_that_is_missing_is_told_apart() -> None:
    story = unclean()
    story.drop("read_back", topic="t", partition=0, offset=11)
    story.drop("read_back", topic="t", partition=0, offset=9)

    assert blamed(check(story.history), "K1")[1:] == [
        "2 record(s) of t sent through 'default' were acknowledged but not read back"
    ]


def test_what_an_application_finished_is_not_judged_from_then_on() -> None:
    whole, torn = check(finishing(lost=False).history), check(finishing(lost=True).history)

    assert (whole.value, whole.checked["C6"], whole.skipped.get("C6")) == (True, 6, None)
    assert (torn.checked["C6"], torn.skipped["C6"]) == (
        3,
        {"its brokers lost records, so an offset may refer to two records": 3},
    )


def test_a_record_that_was_lost_needs_no_output() -> None:
    story = Transforming()
    story.start("a", "b").round().records(40).records(8, "default")
    truncate(story, 11).drain()
    story.read_committed()

    verdict = check(story.history)

    assert [violation.law for violation in verdict.violations] == ["K1"]
    assert verdict.checked["X1"] == 47
