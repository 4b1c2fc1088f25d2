"""The laws of consume, transform, produce: stories that are true, and each damage that they must find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.integration.checker import Verdict, check
from tests.support.histories.edges import at_ns
from tests.support.histories.story import Story
from tests.support.histories.transactions import (
    BrokerAssignedTransforming,
    Transforming,
    at_work,
    early_of_broker,
    late_of_broker,
    zombie,
)


def true_story(protocol: str = "range") -> Transforming:
    story = at_work(protocol)
    story.drain()
    return story.read_committed()


def laws_of(story: Story) -> list[str]:
    return sorted({violation.law for violation in check(story.history).violations})


def witnesses(verdict: Verdict, law: str) -> list[str]:
    return [w.kind for v in verdict.violations if v.law == law for w in v.witnesses]


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
def test_each_record_has_one_committed_output_though_a_member_died_at_work(protocol: str) -> None:
    verdict = check(true_story(protocol).history)

    assert (verdict.value, verdict.violations) == (True, ())
    assert (verdict.checked["X1"], verdict.checked["X2"]) == (40, 40)


@pytest.mark.parametrize(("at_least_once", "laws"), [(True, []), (False, ["X1"])])
def test_members_that_promise_one_output_at_least_may_have_several(at_least_once: bool, laws: list[str]) -> None:
    story = promising(at_least_once)
    story.outputs.insert(0, story.outputs[0])

    assert laws_of(story.read_committed()) == laws


def test_members_that_promise_one_output_at_least_have_one() -> None:
    story = promising(True)
    del story.outputs[3]

    (found,) = check(story.read_committed().history).violations
    assert (found.law, found.message.partition(":")[0]) == ("X1", "1 record(s) of t-0 have no committed output")


def promising(at_least_once: bool) -> Transforming:
    """The true story, its outputs not read back, of members that promise no more than this."""
    story = at_work()
    story.drain()
    for at, event in enumerate(story.events):
        if event.kind == "start" and at_least_once:
            config = {**event.data["config"], "at_least_once": True}
            story.events[at] = replace(event, data={**event.data, "config": config})
    return story


def test_a_zombies_output_is_found_with_what_took_its_input_from_it() -> None:
    verdict = check(zombie().history)

    assert verdict.value is False
    assert set(laws_of(zombie())) >= {"X1", "X2"}
    assert witnesses(verdict, "X2")[:4] == ["generation_committed", "commit_begin", "commit_ok", "read_back"]
    assert {"ack", "read_back"} == set(witnesses(verdict, "X1"))
    assert "transaction 2" in next(v.message for v in verdict.violations if v.law == "X2")


@pytest.mark.parametrize(
    ("story", "why"),
    [
        (late_of_broker(500), "after it had given up its input"),
        (late_of_broker(500, "removed"), "after the coordinator removed it"),
        (early_of_broker(500), "after it joined, without its input ever since"),
    ],
)
def test_a_zombie_of_a_kip_848_group_is_found_by_the_record_that_took_its_input(story: Story, why: str) -> None:
    (zombie,) = [violation for violation in check(story.history).violations if violation.law == "X2"]

    assert why in zombie.message
    assert [w.kind for w in zombie.witnesses] == ["broker_assigned", "commit_begin", "commit_ok", "read_back"]


def test_under_kip_848_a_member_may_commit_what_its_target_lacks_until_it_has_revoked_it() -> None:
    story = BrokerAssignedTransforming(6)
    story.join("a", "b").reconcile().work().rest()
    story.join("c").wait(1000).work()  # the target gives t-4 and t-5 to c, and nobody has revoked them yet
    story.reconcile().work().rest().drained()
    story.read_committed()

    verdict = check(story.history)

    assert (verdict.value, verdict.violations) == (True, ())
    assert (verdict.checked["X1"], verdict.checked["X2"]) == (18, 18)


def drop_output(story: Transforming) -> None:
    del story.outputs[7]


def double_output(story: Transforming) -> None:
    story.outputs.insert(7, story.outputs[7])


def swap_output(story: Transforming) -> None:
    """One input has two outputs, and another none: as many outputs as inputs."""
    story.outputs[7] = story.outputs[8]


def never_committed(story: Transforming) -> None:
    value_id, author = story.outputs[7]
    story.outputs[7] = value_id, {**author, "transaction": 99}


@pytest.mark.parametrize(
    ("damage", "law", "kinds"),
    [
        (drop_output, "X1", ["ack", "step"]),
        (double_output, "X1", ["ack", "read_back", "read_back"]),
        (swap_output, "X1", ["ack", "step", "ack", "read_back", "read_back"]),
        (never_committed, "X2", ["read_back"]),
    ],
)
def test_a_damaged_output_breaks_its_law_alone(
    damage: Callable[[Transforming], None], law: str, kinds: list[str]
) -> None:
    story = at_work()
    story.drain()
    damage(story)
    story.read_committed()

    assert laws_of(story) == [law]
    assert sorted(witnesses(check(story.history), law)) == sorted(kinds)


def test_without_a_read_back_behind_the_drain_x1_says_why_it_is_silent() -> None:
    early = at_work().read_committed()
    early.drain()
    plain = at_work()
    plain.drain().read_back()
    never = at_work().read_committed()

    reasons = {
        name: dict(check(s.history).skipped) for name, s in (("early", early), ("plain", plain), ("never", never))
    }
    assert [*reasons["early"]["X1"]] == ["its output was not read back with read_committed after the group was drained"]
    assert [*reasons["plain"]["X2"]] == ["its output was not read back with read_committed"]
    assert [*reasons["never"]["X1"]] == ["the group was never drained"]


def test_an_aborted_transaction_is_read_again_from_where_the_group_has_committed() -> None:
    def story(offset: int | None) -> Transforming:
        told = Transforming()
        told.start("a").round().records(8).consume()
        told.records(8).consume("a", commit=False)
        rows = [{"topic": "t", "partition": p, "offset": 4} for p in range(4)]
        told.tell("commit_begin", "member", "a", offsets=rows)
        told.tell("commit_fail", "member", "a", offsets=rows, error="aborted")
        if offset is not None:
            back = [{**row, "offset": offset} for row in rows]
            told.tell("rewound", "member", "a", offsets=back)
        for p in range(4):
            told._position["a", TopicPartition("t", p)] = 2
        told.drain()
        return told.read_committed()

    assert laws_of(story(2)) == []
    assert laws_of(story(None)) == ["C2"]
    assert laws_of(story(1)) == ["C2"]


def test_of_two_generations_of_one_moment_the_later_one_stands() -> None:
    """A coordinator's stamp has milliseconds; b adopted the first of the two."""
    story = zombie()
    first, second, *_ = (e for e in story.events if e.kind == "generation_committed")

    assert "X2" in laws_of(at_ns(story, second, first.mono_ns))


def test_a_commit_that_no_generation_precedes_hides_no_zombie() -> None:
    """a began its first transaction before the coordinator had committed any generation; b is a zombie later."""
    story = zombie()
    begin = next(e for e in story.events if e.kind == "commit_begin")

    (found,) = (v for v in check(at_ns(story, begin, 1).history).violations if v.law == "X2")

    assert "transaction 2" in found.message
    assert found.witnesses[0].kind == "generation_committed"


@pytest.mark.parametrize(("dropped", "words"), [(1, "offset 9"), (5, "offset 5, 6, 7, 8, 9"), (6, "6, 7, 8, …")])
def test_the_first_few_of_many_without_an_output_are_named(dropped: int, words: str) -> None:
    story = at_work()
    story.drain()
    acks = [e for e in story.events if e.kind == "ack" and e.data["partition"] == 0]
    without = {e.data["value_id"] for e in acks[-dropped:]}
    story.outputs = [(value_id, author) for value_id, author in story.outputs if value_id not in without]
    story.read_committed()

    (violation,) = check(story.history).violations

    assert violation.message.startswith(f"{dropped} record(s) of t-0 have no committed output: ")
    assert violation.message.endswith(words)
