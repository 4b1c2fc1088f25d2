"""Every grace and slack of the laws: one history a millisecond inside is true, one a millisecond outside is false.

A history is shifted, not a number of the laws: what is inside and outside is written out here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from integration.checker import check
from integration.laws.excuses import excuses
from integration.ledger import RunRecord
from tests.harness.story import HEARTBEAT_MS, SESSION_MS, Story

from . import stories as told

ZOMBIE_MS, FENCED_MS, SLACK_MS, SETTLED_MS = 5000, 1000, 100, 5000
EARLY_MS, LATE_MS, STANDSTILL_MS, MARGIN_MS = 500, 3000, 30_000, 300
POLL_MS = 3000
SOON_MS, SOON_POLL_MS = SESSION_MS - HEARTBEAT_MS - EARLY_MS, POLL_MS - HEARTBEAT_MS - EARLY_MS


def laws(story: Story) -> set[str]:
    verdict = check(story.history)
    broken = {violation.law for violation in verdict.violations}
    assert verdict.value is (not broken), verdict.unknown
    return broken


def resumed(notice_ms: float) -> Story:
    """b goes on after its eviction, and hears of it so long after the end of its pause."""
    story = told.two().pause("b").round().resume("b", notice_ms=notice_ms)
    ended = next(e for e in story.events if e.kind == "fault_end")
    heard = next(e for e in story.events if e.kind == "lost_begin")
    assert (heard.mono_ns - ended.mono_ns) / 1e6 == notice_ms + 1
    return story


def fenced(after_ms: float) -> Story:
    """b's instance id is taken; the old process consumes on, so long after the coordinator wrote that down."""
    story = Story("range", {"t": 2}).start("a", "b", static=True).round().records(40).consume("b", commit=False)
    old = next(e for e in reversed(story.events) if e.kind == "consume")
    story.take_over("b")
    taken = next(e for e in reversed(story.events) if e.kind == "generation_committed")
    row = {**old.data["offsets"][0]}
    row |= {"first": row["last"] + 1, "last": row["last"] + 1, "count": 1}
    story.records(2).wait((taken.mono_ns - story._now) / 1e6 + after_ms - 1)
    event = story.tell("consume", "member", "b", offsets=[row])
    story.events[-1] = type(event)(**{**vars(event), "incarnation": 0, "member_id": old.member_id})
    # It hears of it now: what it owned ends here, and isn't what this is about.
    return story


def killed(missed_after_ms: float) -> Story:
    story = told.died(told.two(), "b")
    del story.held["b"]
    begun = next(e for e in story.events if e.kind == "fault_begin")
    return _missed(begun.mono_ns, story, missed_after_ms)


def stalled(missed_after_ms: float) -> Story:
    """b doesn't poll, and polls again once the group has gone on without it."""
    story = told.two().pause("b", "stall", 1)
    begun = next(e for e in story.events if e.kind == "fault_begin")
    return _missed(begun.mono_ns, story, missed_after_ms).resume("b", fault="stall").round()


def restarted(back_after_ms: float) -> Story:
    """A static member is killed, and back, so much later, in a generation of its own making."""
    story = Story("range").start("a", "b", static=True).round()
    killed_ns = story.wait(10).tell("fault_begin", member="b", fault="kill", target="b").mono_ns
    story.tell("exit", member="b", code=-9, signal="SIGKILL")
    trial = copy.deepcopy(story).take_over("b")
    adopted = [e for e in trial.events if e.kind == "generation" and e.member == "b"][-1]
    story.wait(back_after_ms - (adopted.mono_ns - killed_ns) / 1e6).take_over("b")
    return story


def _missed(since_ns: int, story: Story, after_ms: float) -> Story:

    trial = copy.deepcopy(story).wait(1000).round()
    commit = next(e for e in reversed(trial.events) if e.kind == "generation_committed")
    took_ms = (commit.mono_ns - since_ns) / 1e6
    return copy.deepcopy(story).wait(1000 + after_ms - took_ms).round()


def left(after_ms: float) -> Story:
    story = told.two().stop("b")
    begun = next(e for e in story.events if e.kind == "stop")
    return _missed(begun.mono_ns, story, after_ms)


def consumed_late(after_ms: float) -> Story:
    """By a process that goes on (it rebalances), after it gave something up; nobody else has it yet."""
    story = Story("range", {"t": 1}).start("a").round().records(3)
    story._callback("a", "revoke", story.held["a"])
    story.held["a"] = set()
    row = {"topic": "t", "partition": 0, "first": 0, "last": 0, "count": 1, "bytes": 1}
    story.wait(after_ms - 1).tell("consume", "member", "a", offsets=[row])
    return story


def adopted_early(by_ms: float) -> Story:
    story = Story("range").start("a", "b").wait(20_000).round()
    committed = next(e for e in story.events if e.kind == "generation_committed")
    adopted = next(e for e in story.events if e.kind == "generation" and e.member == "b")
    return story.shift("generation", -(adopted.mono_ns - committed.mono_ns) / 1e6 - by_ms, member="b")


def committed_early(by_ms: float) -> Story:
    """The coordinator's time of a commit lies before the consumption that it tells of."""
    story = Story("range", {"t": 1}).start("a").round().wait(1000).records(1).consume()
    consumed = next(e for e in story.events if e.kind == "consume")
    commit = next(e for e in story.events if e.kind == "offset_committed")
    return story.shift("offset_committed", -(commit.mono_ns - consumed.mono_ns) / 1e6 - by_ms)


def half_covered(stands_ms: float) -> Story:
    """A foreign leader gives t-0 to nobody, and the generation stands for so long."""
    story = told.Dropping("range").start("a", "b")
    story.tell("topics", topics=story.topics)
    story.round(stable=False)
    committed = next(e for e in story.events if e.kind == "generation_committed")
    story.wait((committed.mono_ns - story._now) / 1e6 + stands_ms - 1).tell("step", name="later")
    return told.foreign(story)


def orphaned(ms: float) -> Story:
    """b is killed, and nobody has what it had, for so long; until then nothing else happens."""
    story = told.died(told.two(), "b")
    ended = next(e for e in reversed(story.events) if e.kind == "fault_end")
    story.wait((ended.mono_ns - story._now) / 1e6 + ms - 1).tell("step", name="later")
    return story


def gap(allowed_ms: int) -> Story:
    """A step that allows so much; the longest gap of it lasts 5 ms."""
    story = Story("range", {"t": 1}).start("b").round()
    story.tell("step", name="a joins", gap_ms=allowed_ms)
    return story.start("a").round()


def zombie_commit(fenced_for_ms: float) -> Story:
    """b began its commit so long after a generation without it was committed; it was accepted."""
    story = told.two().records(14).consume("b", commit=False).pause("b").round()
    without = next(e for e in reversed(story.events) if e.kind == "generation_committed")
    story.tell("fault_end", member="b", fault="pause", target="b")
    ends = [{"topic": t, "partition": p, "offset": 2} for t, p in sorted(story._zombies["b"])]
    story.wait((without.mono_ns - story._now) / 1e6 + fenced_for_ms - 1)
    story.tell("commit_begin", "member", "b", offsets=ends)
    for end in ends:
        story.tell("offset_committed", "coordlog", **end)
    story.tell("commit_ok", "member", "b", offsets=ends)
    story._callback("b", "lost", story._zombies.pop("b"))
    return story


BOUNDS: dict[str, tuple[set[str], Callable[[float], Story], float]] = {
    "O1: a resumed member hears of it": ({"O1"}, lambda ms: resumed(ms - 1), ZOMBIE_MS),
    "S2: a fenced member stops": ({"O1", "S2"}, fenced, 2 * HEARTBEAT_MS + FENCED_MS),
    "T1: a dead member is missed": ({"T1"}, killed, SESSION_MS + HEARTBEAT_MS + LATE_MS),
    "T1: a member that left is missed": ({"T1"}, left, 2 * HEARTBEAT_MS + LATE_MS),
    "T1: a dead member is not missed too early": ({"T1"}, lambda ms: killed(2 * SOON_MS - ms), SOON_MS),
    "T2: one that doesn't poll is missed": ({"T2"}, stalled, POLL_MS + HEARTBEAT_MS + LATE_MS),
    "T2: one that doesn't poll is not missed too early": (
        {"T2"}, lambda ms: stalled(2 * SOON_POLL_MS - ms), SOON_POLL_MS),
    "C1: what a poll returned is told late": ({"C1"}, consumed_late, SLACK_MS),
    "G4: the coordinator's clock": ({"G4"}, adopted_early, SLACK_MS),
    "C5: the coordinator's clock": ({"C5"}, committed_early, SLACK_MS),
    "C5: the coordinator's clock, of a fenced one": ({"C5"}, zombie_commit, SLACK_MS),
    "O3: a generation stands": ({"O3"}, half_covered, SETTLED_MS - 1),
    "P1, T1: a group is left alone": ({"P1", "T1"}, orphaned, SESSION_MS + STANDSTILL_MS),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_a_millisecond_inside_is_true_and_one_outside_false(name: str) -> None:
    broken, build, bound_ms = BOUNDS[name]

    assert laws(build(bound_ms)) == set()
    assert laws(build(bound_ms + 1)) == broken


def test_a_gap_as_long_as_its_step_allows_is_true() -> None:
    assert laws(gap(5)) == set()
    assert laws(gap(4)) == {"O4"}


def test_a_static_restart_is_judged_only_if_it_is_back_well_within_its_session() -> None:
    """Closer to its end than `MARGIN_MS` and a heartbeat, the coordinator may have been faster."""
    bound_ms = SESSION_MS - HEARTBEAT_MS - MARGIN_MS

    inside, outside = check(restarted(bound_ms - 1).history), check(restarted(bound_ms).history)

    assert (inside.checked["S1"], outside.checked["S1"]) == (1, 0)
    assert outside.skipped["S1"] == {"it wasn't back within its session, or doesn't tell that": 1}


@pytest.mark.parametrize(("superseded", "broken"), [(3, set()), (4, {"R5"})])
def test_each_member_may_supersede_a_generation_once(superseded: int, broken: set[str]) -> None:
    """Three members after the join: one generation that all adopt, and three that somebody doesn't."""
    assert laws(told.storm(superseded)) == broken


def test_an_excuse_begins_with_the_generation_that_evicts_and_ends_with_the_next_callback() -> None:
    story = told.two().pause("b").round().resume("b", notice_ms=700).round()
    record = RunRecord.of(story.history).groups["g"]

    ((process, (excuse,)),) = excuses(record).items()

    evicting = [e for e in story.events if e.kind == "generation_committed"][1]
    heard = next(e for e in story.events if e.kind == "lost_begin")
    assert process == ("b", 0)
    assert (excuse.begin_ns, excuse.end_ns, excuse.evidence) == (evicting.mono_ns, heard.mono_ns, evicting)
