"""Histories that lie close to a law on either side of it: each excuse as wide as its reason, each law as narrow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_assignors.history.events import INCOMPLETE
from kafka_assignors.integration.checker import check
from tests.support.damage import shifted
from tests.support.damage.accepted import exited
from tests.support.histories import stories as told
from tests.support.histories.faults import aged, changed, with_another_topic
from tests.support.histories.story import MS, SESSION_MS, Story


def outage(ms: float | None, rounds: int = 1) -> Story:
    """A broker is away for so long, or for good; the group makes that many generations of it."""
    story = told.two().records(14).consume()
    begun = story.tell("fault_begin", fault="broker_restart", target="node 1")
    if ms is not None:
        told.since(story, begun, ms).tell("fault_end", fault="broker_restart", target="node 1")
    for _ in range(rounds):
        story.round(stable=False)
    return rested(story)


def rested(story: Story) -> Story:
    """The harness sees the group at rest in its last generation."""
    story.tell("step", name="stable", generation=story.generation, topics=story.topics, adopted_ns=story.adopted_ns)
    return story


def paused_in_time() -> Story:
    """b goes on before anybody has missed it; then nothing happens for ten minutes."""
    story = told.two()
    for edge in ("begin", "end"):
        story.tell(f"fault_{edge}", member="b", fault="pause", target="b")
    return told.later(rested(story))


def at_work() -> Story:
    """After ten minutes c starts, and the history ends before a and b have adopted what comes of it."""
    story = told.later(told.two())
    story.held["c"] = set()
    story.generation += 1
    story._commit(["a", "b", "c"])
    return story


def adopted_at_last(*, at_all: bool = True) -> Story:
    """b, which keeps what it has, adopts a generation ten minutes after its commit, as the last that is told."""
    story = Story(told.COOPERATIVE, {"t": 3}).start("a", "b").round().start("c").round(stable=False)
    last = next(e for e in reversed(story.events) if e.kind == "generation" and e.member == "b")
    told.without(story, lambda e: e is not last).wait(told.TEN_MINUTES_MS)
    if at_all:
        story.tell("generation", "member", "b", **last.data)
    else:
        story.tell("step", name="later")
    return story


def read_back_before_the_last() -> Story:
    """One more record is sent when the others have been read back."""
    story = told.two().records(14).drain().read_back().records(1)
    return story.consume()


def finished_again() -> Story:
    """A record is committed when it was finished; a second later its application says once more that it is."""
    story = Story("range", {"t": 1}).start("a")
    story.change("start", lambda data: data["config"].update(finishes=True)).round().records(1).consume(commit=False)
    row = dict(story.events[-1].data["offsets"][0])
    story.tell("finished", "member", "a", offsets=[row])
    story.tell("offset_committed", "coordlog", topic="t", partition=0, offset=1)
    story.wait(1000).tell("finished", "member", "a", offsets=[row])
    return story


def of_an_unknown_topic() -> Story:
    """Members subscribe to a topic as well of which nothing is known; nothing happens for ten minutes."""
    story = told.two().change("generation_committed", with_another_topic)
    return told.later(story.change("start", lambda data: data.update(topics=[*data["topics"], "w"]), member="a"))


def paused_for_good() -> Story:
    """b stands still, nobody misses it, and it has what it had, in its own eyes."""
    return told.later(told.two().pause("b"))


def consumed_as_another_gets_it(*, after_ns: int) -> Story:
    """a consumes what it has just given up, so long after b was assigned it."""
    story = Story("range", {"t": 1}).start("b").round().records(1)
    story.start("a").round()
    got = next(e for e in story.events if e.kind == "assigned_begin" and e.member == "a")
    row = {"topic": "t", "partition": 0, "first": 0, "last": 0, "count": 1, "bytes": 1}
    event = story.tell("consume", "member", "b", offsets=[row])
    story.events[-1] = replace(event, mono_ns=got.mono_ns + after_ns)
    return story


def fenced_after_another() -> Story:
    """a is restarted; b's instance id is taken as b runs, and b consumes on."""
    story = Story("range", {"t": 2}).start("a", "b", static=True).round().records(40).consume(commit=False)
    story.tell("fault_begin", member="a", fault="kill", target="a")
    story.tell("exit", member="a", code=-9, signal="SIGKILL")
    old = next(e for e in reversed(story.events) if e.kind == "consume")
    story.wait(50).take_over("a").take_over("b")
    row = {**old.data["offsets"][0]}
    row |= {"first": row["last"] + 1, "last": row["last"] + 1, "count": 1}
    event = story.records(2).wait(5000).tell("consume", "member", "b", offsets=[row])
    story.events[-1] = replace(event, incarnation=0, member_id=old.member_id)
    return story


def stranger_commits() -> Story:
    """c was never in the group; its commit is accepted."""
    story = told.two().records(14).consume().start("c").wait(500)
    return told.committed(story, "c", [{"topic": "t", "partition": 0, "offset": 2}])


def cut_off_before() -> Story:
    """A proxy cuts b off for a moment; later a is killed, and never missed."""
    story = told.two()
    for edge in ("begin", "end"):
        story.tell(f"fault_{edge}", "proxy", "b", fault="cut", target="b", params={})
    return told.later(told.died(story, "a"))


def left_out_since_topics_changed(changed_again: bool = False) -> Story:
    """A foreign leader gives t-0 to nobody in two generations of 3 s each, both after a topic came, or one before."""
    story = told.Dropping("range").start("a", "b")
    story.tell("topics", topics=story.topics)
    story.round(stable=False)
    for again in (True, changed_again):
        if again:
            story.tell("admin_change", change="create_topic", target="w", topics={"w": 1})
        story.round(stable=False).wait(3000)
    story.tell("step", name="later")
    return told.foreign(story)


def unwanted_topic() -> Story:
    """A topic comes that nobody subscribes to, and nobody assigns it."""
    story = aged()
    story.tell("admin_change", change="create_topic", target="w", topics={"w": 2})
    return rested(story.wait(60_000))


SOUND: dict[str, Callable[[], Story]] = {
    "a broker is away for a session": lambda: outage(SESSION_MS),
    "a broker doesn't come back": lambda: outage(None),
    "a broker is away for a moment, and nobody tells its session": (
        lambda: shifted.untold(outage(SESSION_MS / 2), "session_timeout_ms")),
    "a member was paused, and goes on": paused_in_time,
    "a group at work as the history ends": at_work,
    "a generation adopted as the history ends": adopted_at_last,
    "a record that came after the read-back": read_back_before_the_last,
    "a record that was finished twice": finished_again,
    "two generations leave a partition out, a topic came between": (
        lambda: left_out_since_topics_changed(changed_again=True)),
    "a topic comes that nobody wants": unwanted_topic,
    "a member consumes before another gets it": lambda: consumed_as_another_gets_it(after_ns=-1),
}  # fmt: skip

BROKEN: dict[str, tuple[set[str], Callable[[], Story]]] = {
    "a broker is away for less than a session": ({"R5"}, lambda: outage(SESSION_MS - 1)),
    "a broker doesn't come back, and two generations are made": ({"R5"}, lambda: outage(None, 2)),
    "a generation isn't adopted as the history ends": ({"G4"}, lambda: adopted_at_last(at_all=False)),
    "a member consumes as another gets it": ({"C1"}, lambda: consumed_as_another_gets_it(after_ns=0)),
    "a fenced member consumes on, beside one that was restarted": ({"O1", "S2"}, fenced_after_another),
    "a member stands still, and nobody misses it": ({"P1", "T1"}, paused_for_good),
    "a member is never missed, long after another was cut off": ({"P1", "T1"}, cut_off_before),
    "two generations leave a partition out since a topic came": ({"O3"}, left_out_since_topics_changed),
    "a member that left is never missed": (
        {"P1", "T1"}, lambda: told.later(told.without(told.two().stop("b"), lambda e: e.kind != "exit"))),
    "a stranger's commit": ({"C5"}, stranger_commits),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_what_is_lawful_by_a_little_is_true(name: str) -> None:
    verdict = check(SOUND[name]().history)

    assert (verdict.value, verdict.violations, verdict.unknown) == (True, (), ())


@pytest.mark.parametrize("name", SOUND)
def test_when_a_run_began_makes_no_difference(name: str) -> None:
    """An hour later by the clock all is as it was."""
    story = SOUND[name]()
    hour_ns = 3_600_000 * MS
    story.events = [replace(e, mono_ns=e.mono_ns + hour_ns, ts_ns=e.ts_ns + hour_ns) for e in story.events]

    assert check(story.history).value is True


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_unlawful_by_a_little_is_false(name: str) -> None:
    broken, build = BROKEN[name]

    verdict = check(build().history)

    assert (verdict.value, {violation.law for violation in verdict.violations}) == (False, broken)


def test_what_a_topic_holds_that_nothing_is_known_of_is_unknown() -> None:
    verdict = check(of_an_unknown_topic().history)

    assert (verdict.value, verdict.violations) == (None, ())
    assert any("the history has no partition counts of w" in said for said in verdict.unknown)


def test_a_stranger_is_told_that_it_is_out_and_that_it_owns_nothing() -> None:
    messages = [violation.message for violation in check(stranger_commits().history).violations]

    assert any("generation 1 was committed without it" in message for message in messages)
    assert any("although it does not own the partition" in message for message in messages)


def test_the_error_of_another_member_explains_no_end() -> None:
    """Before and after its own."""
    story = exited(code=1)
    other = {"error": "OSError", "fatal": False, "message": "of another"}
    at = next(i for i, e in enumerate(story.events) if e.kind == "error")
    own = story.events[at]
    story.events[at:at] = [replace(own, member="a", member_id="a-id", seq=900, mono_ns=own.mono_ns - 1, data=other)]
    story.tell("error", "member", "a", **other)

    (violation,) = check(story.history).violations

    assert violation.message.endswith("by exit code 1: its code raised")
    assert [w.member for w in violation.witnesses] == ["b", "b"]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: shifted.killed(60_000), "60000 ms after its kill, not "),
        (lambda: shifted.left(60_000), "60000 ms after its stop, not "),
        (lambda: shifted.stalled(60_000), "60000 ms after its stall, not "),
        (lambda: changed("add_partitions", "t", 7, after_ms=60_000), "after its add partitions, and "),
        (lambda: outage(10), "one broker restart took 1 generations, 0 are enough"),
    ],
)
def test_a_message_names_what_happened(build: Callable[[], Story], words: str) -> None:
    messages = [violation.message for violation in check(build().history).violations]

    assert any(words in message for message in messages), messages


def zombie_ms(story: Story) -> float:
    (found,) = {each.zombie_ms for each in check(story.history).intervals if each.zombie_ms}
    return found


def test_one_that_never_goes_on_could_not_know_to_the_end() -> None:
    story = told.two()
    begun = story.tell("fault_begin", member="b", fault="pause", target="b")
    told.since(story, begun, 1234).tell("step", name="later")

    assert zombie_ms(story) == 1234


def test_one_that_is_paused_at_the_moment_it_is_assigned_could_not_know() -> None:
    story = told.two()
    got = next(e for e in story.events if e.kind == "assigned_begin" and e.member == "b")
    story.tell("fault_begin", member="b", fault="pause", target="b")
    last = story.wait(1000).tell("step", name="later")
    story.shift("fault_begin", -(story.events[-2].mono_ns - got.mono_ns) / MS)

    assert zombie_ms(story) == (last.mono_ns - got.mono_ns) / MS


def grabbed(by_ns: int) -> set[str]:
    """t-0 is given to c as b gives it up, so long before or after that."""
    story = told.Grabbing(told.COOPERATIVE).start("a", "b").round().start("c").round(stable=False)
    given = [e for e in story.events if e.kind == "generation_committed"][1]
    ended = next(e for e in story.events if e.kind == "revoke_end" and e.member == "b")
    story.shift("revoke_end", (given.mono_ns - ended.mono_ns + by_ns) / MS, nth=0, member="b")
    return {violation.law for violation in check(story.history).violations}


def test_what_was_given_up_as_a_generation_was_committed_may_be_given_to_another() -> None:
    assert "R2" not in grabbed(0)
    assert "R2" in grabbed(1)


def test_what_the_coordinator_log_has_and_cannot_be_read_makes_it_unknown() -> None:
    story = told.two()
    for _ in range(2):
        story.tell("unread", "coordlog", reason="a record of version 99")

    assert check(story.history).unknown == ("the coordinator log of group 'g' has a record of version 99",)


@pytest.mark.parametrize("kind", ["start", "stop", "fault_begin", "admin_change", "closing"])
def test_a_generation_stands_until_something_makes_the_next_one_due(kind: str) -> None:
    """It gives t-0 to nobody, for 2 s; whether its successor ever came is another law's business."""
    story = told.Dropping("range").start("a", "b")
    story.tell("topics", topics=story.topics)
    story.round(stable=False).wait(2000)
    happened: dict[str, Callable[[], object]] = {
        "start": lambda: story.start("c"),
        "stop": lambda: story.stop("b"),
        "fault_begin": lambda: story.tell("fault_begin", member="b", fault="pause", target="b"),
        "admin_change": lambda: story.tell("admin_change", change="create_topic", target="w", topics={"w": 1}),
        "closing": lambda: (story.tell("closing"), story.stop("a"), story.stop("b")),
    }
    happened[kind]()
    story.wait(20_000).tell("step", name="later")

    assert check(told.foreign(story).history).violations == ()


@pytest.mark.parametrize(
    ("src", "fatal", "given_up"), [("harness", True, True), ("harness", False, False), ("member", True, False)]
)
def test_only_a_fatal_error_of_the_harness_is_its_giving_up(src: str, fatal: bool, given_up: bool) -> None:
    story = told.two()
    story.tell("error", src, "b" if src == "member" else None, error="OSError", fatal=fatal, message="no space\nleft")

    unknown = check(story.history).unknown

    assert unknown == (("the harness gave up: OSError: no space",) if given_up else ())


def test_a_member_whose_events_are_not_whole_is_not_judged_true() -> None:
    story = told.two()
    story.tell("error", "harness", error=INCOMPLETE, fatal=True, message="member 'b': the recorder stopped: no space")

    verdict = check(story.history)

    assert (verdict.value, verdict.unknown) == (None, ("member 'b': the recorder stopped: no space",))


def test_an_adoption_that_cannot_be_judged_hides_none_that_can() -> None:
    """a adopts what the coordinator log has nothing of; later b adopts what wasn't given to it."""
    story = told.two()
    story.tell("generation", "member", "a", generation=7, protocol="range", partitions=[])
    given = [{"topic": "t", "partition": 99}]
    story.tell("generation", "member", "b", generation=1, protocol="range", partitions=given)

    verdict = check(story.history)

    assert any("adopted generation 7, which the coordinator log does not have" in said for said in verdict.unknown)
    assert {violation.law for violation in verdict.violations} == {"G2"}


def test_what_is_consumed_at_the_moment_it_is_given_up_is_its_owners() -> None:
    """Though another gets it at that moment."""
    story = consumed_as_another_gets_it(after_ns=0)
    gave_up = next(e for e in reversed(story.events) if e.kind == "revoke_end" and e.member == "b")
    consumed = story.events[-1]
    story.shift("consume", (gave_up.mono_ns - consumed.mono_ns) / MS)
    for kind in ("assigned_begin", "generation"):
        got = next(e for e in story.events if e.kind == kind and e.member == "a")
        story.shift(kind, (gave_up.mono_ns - got.mono_ns) / MS, nth=0, member="a")

    assert "C1" not in {violation.law for violation in check(story.history).violations}


def test_a_member_that_is_never_missed_is_told_with_how_long_it_is_gone() -> None:
    messages = {v.law: v.message for v in check(told.killed_and_never_evicted().history).violations}

    assert messages["T1"] == "b is still in the group 600003 ms after its fault_begin"


def test_of_a_member_that_is_left_alone_its_last_adoption_counts() -> None:
    """It went back a generation, and stays there for ten minutes."""
    messages = [v.message for v in check(told.later(told.went_back_a_generation()).history).violations if v.law == "G4"]

    assert any(message.startswith("b never adopted generation 3, ") for message in messages), messages


@pytest.mark.parametrize("kept", ["start", "generation"])
def test_a_group_of_which_only_members_tell_never_came_into_being(kept: str) -> None:
    story = told.without(told.two(), lambda e: e.kind == kept)

    verdict = check(story.history)

    assert verdict.value is None
    assert verdict.unknown[-1].startswith("group 'g' has no generation from the coordinator log")
