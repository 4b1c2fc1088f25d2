"""The laws of consume, transform, produce: stories that are true, and each damage that they must find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.integration.checker import Verdict, check
from tests.support.histories.edges import at_ns
from tests.support.histories.stories import of_a_service
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


def service(*after_ms: int | None, transactions: bool = False, read_back: bool = True) -> Story:
    """A process of a service reads some records, and commits them at once; two have an output, in one partition.

    Args:
        after_ms: From that commit to when the broker appended the output of the third record, and of the first one;
            None: it does not say when.
    """
    story = Story("range", {"t": 1}).start("a").round().wait(1000).records(3).consume()
    story.change("start", lambda data: data["config"].update(output="out", at_least_once=True))
    if transactions:
        for kind in ("commit_begin", "commit_ok"):
            story.change(kind, lambda data: data.update(transaction=1))
    story.drain()
    ids = [event.data["value_id"] for event in story.events if event.kind == "ack"]
    committed_ms = next(e.ts_ns for e in story.events if e.kind == "offset_committed") // 1_000_000
    for offset, (record, late_ms) in enumerate(zip((2, 0), after_ms, strict=False)):
        story.tell("read_back", topic="out", partition=0, offset=offset, value_id=ids[record], partitioner="",
                   appended_ms=None if late_ms is None else committed_ms + late_ms)  # fmt: skip
    end = [{"topic": "out", "partition": 0, "offset": len(after_ms)}]
    if read_back:
        story.tell("step", name="read_back", offsets=end, isolation="read_committed")
    return of_a_service(story)


@pytest.mark.parametrize(
    ("after_ms", "early"),
    [
        ((-5, -1), None), ((-5, 0), None), ((-5, 1), "offset 0; by up to 1 ms (offset 0)"),
        ((2, 3), "offset 0, 2; by up to 3 ms (offset 0)"),
        # the brokers' clock fell by 4
        ((4, 0), None), ((5, 1), "offset 2; by up to 1 ms (offset 2)"),
    ],
)  # fmt: skip
def test_a_service_commits_no_record_before_its_output_is_there(after_ms: tuple[int, ...], early: str | None) -> None:
    verdict = check(service(*after_ms).history)

    broken = [violation for violation in verdict.violations if violation.law == "X3"]
    count = 2 if early and "0, 2" in early else 1
    start = f"{count} record(s) of t-0 were committed before the broker had their output: "
    assert [violation.message for violation in broken] == ([] if early is None else [start + early])
    assert all([w.kind for w in violation.witnesses] == ["offset_committed", "read_back"] for violation in broken)
    assert verdict.checked["X3"] == 2


def test_outputs_and_offsets_of_one_transaction_have_no_order() -> None:
    verdict = check(service(1, 2, transactions=True).history)

    assert (verdict.checked["X3"], "X3" in {violation.law for violation in verdict.violations}) == (0, False)


@pytest.mark.parametrize("members_of_ours", [True, False])
def test_only_a_services_commits_are_compared_with_its_outputs(members_of_ours: bool) -> None:
    story = service(1, 2)
    if members_of_ours:
        story.events = [replace(e, data={n: v for n, v in e.data.items() if n != "log_bytes"}) for e in story.events]

    assert ("X3" in laws_of(story)) is not members_of_ours


def test_the_first_of_several_outputs_counts() -> None:
    story = service(-1, -1)
    (last,) = [event for event in story.events if event.kind == "read_back"][-1:]
    again = replace(last, seq=900, data={**last.data, "offset": 2, "appended_ms": last.data["appended_ms"] + 500})
    story.events.insert(story.events.index(last), again)

    assert "X3" not in laws_of(story)


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


@pytest.mark.parametrize("nth", [-2, -1])
def test_a_member_may_go_back_at_the_moment_of_a_read(nth: int) -> None:
    """Of the last one before it, or of the first one after it."""
    told = Transforming()
    told.start("a").round().records(8).consume().records(8).consume("a", commit=False)
    back = told.tell("rewound", "member", "a", offsets=[{"topic": "t", "partition": p, "offset": 2} for p in range(4)])
    for p in range(4):
        told._position["a", TopicPartition("t", p)] = 2
    told.drain()
    reads = [e for e in told.events if e.kind == "consume"]
    at_ns(told, back, reads[nth].mono_ns)

    assert "C2" not in laws_of(told.read_committed())


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


def committed_by(story: Transforming, name: str, partition: int) -> Transforming:
    """A process consumes a new record of a partition and commits it in a transaction, whoever has the partition."""
    tp = TopicPartition("t", partition)
    story.wait(500).records(4)
    offset = story._offsets["t", partition] - 1
    row = {"topic": "t", "partition": partition, "first": offset, "last": offset, "count": 1, "bytes": 1}
    story.tell("consume", "member", name, offsets=[row])
    end = {"topic": tp.topic, "partition": tp.partition, "offset": offset + 1}
    story.tell("commit_begin", "member", name, offsets=[end])
    story.tell("offset_committed", "coordlog", **end)
    story.tell("commit_ok", "member", name, offsets=[end])
    return story.read_committed()


def zombies(story: Story) -> list[str]:
    return [v.message for v in check(story.history).violations if v.law == "X2" and " ms after " in v.message]


def test_who_never_joined_is_a_zombie_by_the_last_generation() -> None:
    story = Transforming()
    story.start("a", "b").round().records(8).consume().start("c")

    (message,) = zombies(committed_by(story, "c", 0))

    assert "after generation 1 had assigned its input to another member" in message


def test_who_never_joined_is_a_zombie_though_its_output_has_no_input() -> None:
    """An input of nobody is assigned to nobody else."""
    story = Transforming()
    story.start("a", "b").round().records(8).consume().start("c")
    committed_by(story, "c", 0)
    assert isinstance(story, Transforming)

    assert len(zombies(story.change("read_back", lambda data: data.update(value_id="x-1")))) == 1


def test_a_member_is_a_zombie_for_what_another_member_of_its_generation_has() -> None:
    story = Transforming()
    story.start("a", "b").round().records(8).consume()

    assert len(zombies(committed_by(story, "b", 0))) == 1


def test_who_never_joined_a_kip_848_group_is_a_zombie() -> None:
    story = BrokerAssignedTransforming(6)
    story.join("a", "b").reconcile().work().rest().start("c").wait(500)
    place = {"topic": "t", "partition": 0}
    story.tell("ack", "producer", partitioner="d", **place, offset=1, value_id="0-1", predicted=0)
    story.tell("consume", "member", "c", offsets=[{**place, "first": 1, "last": 1, "count": 1, "bytes": 1}])
    for kind in ("commit_begin", "commit_ok"):
        story.tell(kind, "member", "c", offsets=[{**place, "offset": 2}])

    (message,) = zombies(story.read_committed())

    assert "after generation 1 was committed without it" in message


def test_who_begins_to_commit_as_it_adopts_is_in_its_generation() -> None:
    """c joins, and its first commit begins at that moment: the log has its generation a few ms before."""
    story = Transforming()
    story.start("a", "b").round().records(8).consume().wait(1000).start("c").round().records(8).consume("c")
    story.read_committed()
    begin, adopted = (
        next(e for e in story.events if e.kind == kind and e.member == "c") for kind in ("commit_begin", "generation")
    )

    assert zombies(at_ns(story, begin, adopted.mono_ns)) == []
    assert len(zombies(at_ns(story, next(e for e in story.events if e.seq == begin.seq and e.kind == begin.kind
                                         and e.member == "c"), adopted.mono_ns - 1))) == 1  # fmt: skip


def test_an_aborted_transaction_whose_outputs_are_shown_hides_no_zombie() -> None:
    """a's first transaction failed, and it went back; b is a zombie later."""
    story = zombie()
    answer = next(e for e in story.events if e.kind == "commit_ok" and e.member == "a")
    story.events[story.events.index(answer)] = replace(
        answer, kind="commit_fail", data={**answer.data, "error": "KafkaTimeoutError"}
    )
    rows = [{**row, "offset": 0} for row in answer.data["offsets"]]
    at_ns(story, story.tell("rewound", "member", "a", offsets=rows), answer.mono_ns + 1)

    messages = [v.message for v in check(story.history).violations if v.law == "X2"]

    assert any(message.startswith("a aborted transaction 1, yet ") for message in messages), messages
    assert any(message.startswith("b began to commit transaction 2 ") for message in messages), messages


@pytest.mark.parametrize("partition", range(4))
def test_each_partition_of_members_that_promise_one_output_at_least_is_judged(partition: int) -> None:
    story = promising(True)
    values = {e.data["value_id"] for e in story.events if e.kind == "ack" and e.data["partition"] == partition}
    del story.outputs[next(at for at, (value_id, _) in enumerate(story.outputs) if value_id in values)]

    (found,) = check(story.read_committed().history).violations

    assert found.message.startswith(f"1 record(s) of t-{partition} have no committed output")


def test_a_read_back_as_the_group_is_drained_shows_what_it_has_committed() -> None:
    story = true_story()
    drained, step = (
        next(e for e in story.events if e.kind == "step" and e.data["name"] == name)
        for name in ("drained", "read_back")
    )

    assert check(at_ns(story, step, drained.mono_ns).history).skipped.get("X1") is None


def test_only_a_read_back_of_all_that_is_committed_shows_outputs() -> None:
    """Behind it, the outputs are read with those of open transactions as well, and the inputs with read_committed."""
    story = true_story()
    sound = check(story.history)
    place = {"topic": "out", "partition": 0}
    value_id, author = story.outputs[0]
    for offset in range(2):
        story.tell("read_back", **place, offset=offset, value_id=value_id, partitioner="", author=author)
    story.tell("step", name="read_back", offsets=[{**place, "offset": 2}], isolation="read_uncommitted")
    story.tell("step", name="read_back", offsets=story._ends(), isolation="read_committed")

    verdict = check(story.history)

    assert [v for v in verdict.violations if v.law in ("X1", "X2")] == []
    assert (verdict.checked["X1"], verdict.checked["X2"]) == (sound.checked["X1"], sound.checked["X2"])


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
