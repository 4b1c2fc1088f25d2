"""Every grace, slack and timeout of the judge: one history a millisecond inside, one a millisecond outside.

A history is shifted, not a number of the laws: what is inside and outside is written out here.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from kafka_assignors.history.events import Event
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.checker.laws.excuses import excuses
from kafka_assignors.integration.checker.ledger import RunRecord
from kafka_assignors.integration.history.clocks import problems, retimed
from tests.mutation.__main__ import files as judges
from tests.support.damage import shifted
from tests.support.histories import handovers, reconciled
from tests.support.histories import stories as told
from tests.support.histories.faults import AGE_MS, changed
from tests.support.histories.faults import fenced as fenced_and_told
from tests.support.histories.reconciled import Reconciled
from tests.support.histories.story import HEARTBEAT_MS, MS, SESSION_MS, Story
from tests.support.histories.transactions import Transforming, at_work, early_of_broker, late_of_broker, zombie
from tests.support.histories.truncation import END, before, read_back, truncate

from . import test_busy, test_cut_off, test_witnesses

ZOMBIE_MS, FENCED_MS, SLACK_MS, SETTLED_MS = 5000, 1000, 100, 5000
EARLY_MS, LATE_MS, NOTICED_MS, BEAT_MS, HANDOVER_MS = 500, 3000, 1000, 300, 1500
STANDSTILL_MS, MARGIN_MS = 30_000, 300
APART_MS, BACK_MS, MOVED_MS = 250, 100, 20
KAFKAS_SESSION_MS, KAFKAS_POLL_MS, KAFKAS_METADATA_AGE_MS = 45_000, 300_000, 300_000
POLL_MS, ASSIGNMENT_INTERVAL_MS, REGEX_REFRESH_MS = 3000, 1000, 10_000
SOON_MS, SOON_POLL_MS = SESSION_MS - HEARTBEAT_MS - EARLY_MS, POLL_MS - HEARTBEAT_MS - EARLY_MS


def laws(story: Story | Reconciled) -> set[str]:
    verdict = check(story.history)
    broken = {violation.law for violation in verdict.violations}
    assert verdict.value is (not broken), verdict.unknown
    return broken


def unreported(build: Callable[[float], Story]) -> Callable[[float], Story]:
    """The same story, whose members report no commits: C7 would compare them with the coordinator's log."""
    return lambda ms: told.unreported(build(ms))


class Bound(NamedTuple):
    """A history that is shifted over a bound.

    Args:
        use: The number in the code, as `uses` names it.
        broken: The laws that are broken outside.
        build: The history, a time in ms from or to something.
        bound_ms: The longest such time that is lawful.
    """

    use: str
    broken: set[str]
    build: Callable[[float], Story | Reconciled]
    bound_ms: float


BOUNDS: dict[str, Bound] = {
    "O1: a resumed member hears of it": Bound(
        "excuses._of_faults ZOMBIE_MS", {"O1"}, lambda ms: shifted.resumed(ms - 1), ZOMBIE_MS),
    "S2: a fenced member stops": Bound(
        "excuses.heard_by_ns FENCED_MS", {"O1", "S2"}, shifted.fenced, 2 * HEARTBEAT_MS + FENCED_MS + SLACK_MS),
    "S2: the coordinator's clock": Bound(
        "excuses.heard_by_ns SLACK_MS", {"O1", "S2"}, shifted.fenced, 2 * HEARTBEAT_MS + FENCED_MS + SLACK_MS),
    "T1: a dead member is missed": Bound(
        "rests.noticed_in_time LATE_MS", {"T1"}, shifted.killed, SESSION_MS + HEARTBEAT_MS + LATE_MS),
    "T1: a member that left is missed": Bound(
        "rests.noticed_in_time LATE_MS", {"T1"}, shifted.left, 2 * HEARTBEAT_MS + LATE_MS),
    "T1: a dead member is not missed too early": Bound(
        "rests.noticed_in_time EARLY_MS", {"T1"}, lambda ms: shifted.killed(2 * SOON_MS - ms), SOON_MS),
    "T2: one that doesn't poll is missed": Bound(
        "rests.noticed_in_time LATE_MS", {"T2"}, shifted.stalled, POLL_MS + HEARTBEAT_MS + LATE_MS),
    "T2: one that doesn't poll is not missed too early": Bound(
        "rests.noticed_in_time EARLY_MS", {"T2"}, lambda ms: shifted.stalled(2 * SOON_POLL_MS - ms), SOON_POLL_MS),
    "T3: new partitions are assigned": Bound(
        "rests.topics_noticed NOTICED_MS", {"T3"},
        lambda ms: changed("add_partitions", "t", 7, after_ms=ms), AGE_MS + NOTICED_MS),
    "T3: new partitions are assigned, with a slow heartbeat": Bound(
        "rests.topics_noticed BEAT_MS", {"T3"},
        lambda ms: changed("add_partitions", "t", 7, after_ms=ms, heartbeat_interval_ms=BEAT_MS + 1),
        AGE_MS + NOTICED_MS + 1),
    "O4: members that ask early hand over": Bound(
        "planned.limit HANDOVER_MS", {"O4"}, handovers.joined, handovers.GIVEN_UP_MS + HANDOVER_MS),
    "O4: an eager group's members hear at their next heartbeat": Bound(
        "planned.limit LATE_MS", {"O4"}, lambda ms: handovers.eager(ms, 1000), 1000 + LATE_MS),
    "O4: the broker waits before it assigns": Bound(
        "planned._slowest ASSIGNMENT_INTERVAL_MS", {"O4"}, handovers.reconciled,
        reconciled.HEARTBEAT_MS + ASSIGNMENT_INTERVAL_MS + LATE_MS),
    "R7: who asked for a rebalance, by the coordinator's clock": Bound(
        "callbacks._may_have_begun SLACK_MS", {"R7"}, lambda ms: asked_and_lost(ms), SLACK_MS),
    "C1: what a poll returned is told late": Bound(
        "records.consumed_by_owner SLACK_MS", {"C1"}, shifted.consumed_late, SLACK_MS),
    "C1, C3: what a poll returned last is told late": Bound(
        "records.runs_of_spans SLACK_MS", {"C1", "C3"}, shifted.drained_late, SLACK_MS),
    "C2, C4: the last commit was on its way": Bound(
        "records._committed SLACK_MS", {"C2", "C4"}, unreported(shifted.began_before_the_last_commit), SLACK_MS),
    "C2: the coordinator's clock": Bound(
        "records._committed SLACK_MS", {"C2"}, unreported(shifted.began_after_a_later_commit), SLACK_MS),
    "C5: a commit was on its way": Bound(
        "records._accepted_from_owners SLACK_MS", {"C5"}, shifted.committed_late, SLACK_MS),
    "C5: a delayed commit arrives": Bound("records.brings SLACK_MS", {"C5"}, shifted.delayed_commit, SLACK_MS),
    "C5: the coordinator's clock": Bound(
        "records._reached SLACK_MS", {"C5"}, unreported(shifted.committed_early), SLACK_MS),
    "C5: the coordinator's clock, of a fenced one": Bound(
        "records._out_of SLACK_MS", {"C5"}, told.zombie_commit, SLACK_MS),
    "C5: the coordinator's clock, of one that joins again": Bound(
        "records._out_of SLACK_MS", {"C5"}, shifted.rejoined, SLACK_MS),
    "C6: the coordinator's clock": Bound(
        "finished.commits_what_is_finished SLACK_MS", {"C6"}, shifted.finished_late, SLACK_MS),
    "G4: the coordinator's clock": Bound("progress.adoption SLACK_MS", {"G4"}, shifted.adopted_early, SLACK_MS),
    "G4: the coordinator's clock, of the next generation": Bound(
        "progress.adoption SLACK_MS", {"G4"}, shifted.adopted_late, SLACK_MS),
    "O3: a generation stands": Bound("generations.settled_ms SETTLED_MS", {"O3"}, shifted.half_covered, SETTLED_MS - 1),
    "O3: two generations stand": Bound(
        "generations.settled_ms SETTLED_MS", {"O3"}, shifted.half_covered_twice, SETTLED_MS - 1),
    "O3: a generation stands, with a slow heartbeat": Bound(
        "generations.settled_ms BEAT_MS", {"O3"},
        lambda ms: handovers.beating(shifted.half_covered(ms), (), 1300), SETTLED_MS + 2000 - 1),
    "O3: two generations stand, with a slow heartbeat": Bound(
        "generations.settled_ms BEAT_MS", {"O3"},
        lambda ms: handovers.beating(shifted.half_covered_twice(ms), (), 1300), SETTLED_MS + 2000 - 1),
    "P1, T1: a group is left alone": Bound(
        "progress.quiet_times STANDSTILL_MS", {"P1", "T1"}, shifted.orphaned, SESSION_MS + STANDSTILL_MS),
    "P1, T1: one whose members don't tell their session is left alone": Bound(
        "progress.quiet_times SESSION_MS", {"P1", "T1"},
        lambda ms: shifted.untold(shifted.orphaned(ms), "session_timeout_ms"),
        KAFKAS_SESSION_MS + STANDSTILL_MS),
    "P1: partitions are added, and members look for them": Bound(
        "progress.quiet_times STANDSTILL_MS", {"P1"}, shifted.grown, 10_000 + SESSION_MS + STANDSTILL_MS),
    "P1: partitions are added, and members don't tell when they look": Bound(
        "progress._learned_ns METADATA_AGE_MS", {"P1"},
        lambda ms: shifted.untold(shifted.grown(ms), "metadata_max_age_ms"),
        KAFKAS_METADATA_AGE_MS + SESSION_MS + STANDSTILL_MS),
    "P1: a leader may stand still in its assign for a poll interval": Bound(
        "progress.quiet_times STANDSTILL_MS", {"P1"}, shifted.stuck_in_assign, SESSION_MS + STANDSTILL_MS + POLL_MS),
    "P1: a leader that doesn't tell its poll interval stands still in its assign": Bound(
        "progress.quiet_times POLL_MS", {"P1"},
        lambda ms: shifted.untold(shifted.stuck_in_assign(ms), "max_poll_interval_ms"),
        SESSION_MS + STANDSTILL_MS + KAFKAS_POLL_MS),
    "E1: a member tells something before its start": Bound(
        "progress.asked_to_end SLACK_MS", {"E1"}, shifted.told_before_start, SLACK_MS),
    "E1: a member tells something after its end": Bound(
        "progress.asked_to_end SLACK_MS", {"E1"}, shifted.told_after_end, SLACK_MS),
    "G2: the coordinator's clock, of a KIP-848 group": Bound(
        "generations._agreement_by_epoch SLACK_MS", {"G2"}, reconciled.adopted_before_its_record, SLACK_MS),
    "R6: the coordinator's clock": Bound(
        "ownership._true_acknowledgements SLACK_MS", {"R6"}, reconciled.revoked_after_its_acknowledgement, SLACK_MS),
    "R7: the coordinator's clock": Bound(
        "ownership._removed_is_lost SLACK_MS", {"R7"}, reconciled.revoked_after_its_removal, SLACK_MS),
    "T3: the broker waits before it assigns new partitions": Bound(
        "rests.topics_noticed ASSIGNMENT_INTERVAL_MS", {"T3"}, reconciled.grown, ASSIGNMENT_INTERVAL_MS + NOTICED_MS),
    "T3: the broker waits before it resolves a pattern again": Bound(
        "rests.topics_noticed REGEX_REFRESH_MS", {"T3"}, reconciled.created,
        REGEX_REFRESH_MS + reconciled.HEARTBEAT_MS + ASSIGNMENT_INTERVAL_MS + NOTICED_MS),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_a_millisecond_inside_is_true_and_one_outside_false(name: str) -> None:
    _, broken, build, bound_ms = BOUNDS[name]

    assert laws(build(bound_ms)) == set()
    assert laws(build(bound_ms + 1)) == broken


def test_a_generation_may_be_adopted_as_late_as_a_group_may_be_left_alone() -> None:
    """c starts, and the next generation is committed a second later; nobody adopts it."""

    def stood_for(ms: float) -> Story:
        story = told.two().start("c").wait(1000)
        story.generation += 1
        story._commit(["a", "b", "c"])
        told.since(story, story.events[-1], ms).tell("step", name="later")
        return story

    bound_ms = SESSION_MS + STANDSTILL_MS
    assert laws(stood_for(bound_ms)) == set()
    assert laws(stood_for(bound_ms + 1)) == {"G4"}


def test_a_gap_as_long_as_its_step_allows_is_true() -> None:
    assert laws(shifted.gap(5)) == set()
    assert laws(shifted.gap(4)) == {"O4"}


def test_a_static_restart_is_judged_only_if_it_is_back_well_within_its_session() -> None:
    """Closer to its end than `MARGIN_MS` and a heartbeat, the coordinator may have been faster."""
    bound_ms = SESSION_MS - HEARTBEAT_MS - MARGIN_MS

    inside, outside = check(shifted.restarted(bound_ms - 1).history), check(shifted.restarted(bound_ms).history)

    assert (inside.checked["S1"], outside.checked["S1"]) == (1, 0)
    assert outside.skipped["S1"] == {
        "it did not return within its session, or the history does not have the session timeout": 1
    }


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
    assert (excuse.begin_ns, excuse.end_ns, excuse.evidence) == (
        evicting.mono_ns - SLACK_MS * MS,
        heard.mono_ns,
        evicting,
    )


def zombie_ms(story: Story) -> float:
    """The longest time that a member couldn't know what it had lost."""
    measured: float = check(story.history).measures["zombie_ms"]
    return measured


@pytest.mark.parametrize("build", [shifted.resumed, shifted.cut_off])
def test_how_long_a_member_could_not_know_is_measured_up_to_the_bound(build: Callable[[float], Story]) -> None:
    """Later than `ZOMBIE_MS` after the fault it should have known."""
    inside, on, outside = (zombie_ms(build(ZOMBIE_MS - 1 + ms)) for ms in (-1, 0, 1))

    assert (on - inside, outside - on) == (1, 0)


def test_how_long_a_fenced_member_could_not_know_is_measured_up_to_the_bound() -> None:
    bound_ms = 2 * HEARTBEAT_MS + FENCED_MS
    inside, on, outside = (zombie_ms(fenced_and_told(bound_ms + ms)) for ms in (-1, 0, 1))

    assert (inside, on, outside) == (bound_ms - 1, bound_ms, bound_ms)


def written(events: Sequence[Event]) -> dict[str, list[Event]]:
    """The files of a history, as they are read."""
    files: dict[str, list[Event]] = {}
    for event in events:
        files.setdefault(f"{event.member or ''}.{event.src}.jsonl", []).append(event)
    return files


@pytest.mark.parametrize("sign", [1, -1])
def test_a_clock_may_be_apart_by_so_much(sign: int) -> None:
    def told_of(ns: int) -> list[str]:
        story = Story().wait(1000).start("a", "b", "c", "d", "e").round()
        late = [replace(e, ts_ns=e.ts_ns + sign * ns) if e.member == "b" else e for e in story.events]
        return [problem[:15] for problem in problems(written(late))]

    assert told_of(APART_MS * MS) == []
    assert told_of(APART_MS * MS + 1) == ["b.member.jsonl:"]


def test_time_may_fall_by_so_much_within_a_file() -> None:
    def told_of(ms: int) -> list[str]:
        story = told.two().wait(1000)
        last = story.tell("step", name="later")
        told.since(story, last, -ms).tell("step", name="told later")
        return [*problems(written(story.events))]

    assert told_of(BACK_MS) == []
    assert len(told_of(BACK_MS + 1)) == 1


@pytest.mark.parametrize("sign", [1, -1])
def test_a_wall_clock_that_moved_by_so_much_is_taken_as_still(sign: int) -> None:
    def moved(ns: int) -> bool:
        story = told.two().records(40).consume().wait(1000).records(40).consume()
        half = story.events[len(story.events) // 2].mono_ns
        walls = [replace(e, ts_ns=e.ts_ns + (sign * ns if e.mono_ns > half else 0)) for e in story.events]
        files = written([replace(e, mono_ns=e.ts_ns) if e.src == "coordlog" else e for e in walls])
        return retimed(files) != files

    assert not moved(MOVED_MS * MS)
    assert moved(MOVED_MS * MS + 1)


@pytest.mark.parametrize(("after_ms", "broken"), [(100, False), (101, True)])
def test_who_begins_to_commit_as_it_is_evicted_is_no_zombie_yet(after_ms: float, broken: bool) -> None:
    """The coordinator's clock is the broker's: 100 ms are granted between the two."""
    assert ("X2" in laws(zombie(after_ms=after_ms))) is broken


@pytest.mark.parametrize("how", ["revoked", "removed"])
@pytest.mark.parametrize(("after_ms", "broken"), [(100, False), (101, True)])
def test_who_begins_to_commit_as_the_broker_takes_its_input_is_no_zombie_yet(
    how: str, after_ms: float, broken: bool
) -> None:
    assert ("X2" in laws(late_of_broker(after_ms, how))) is broken


@pytest.mark.slow
@pytest.mark.parametrize(("before_ms", "broken"), [(100, False), (101, True)])
def test_who_begins_to_commit_before_the_log_gives_it_its_input_is_no_zombie(before_ms: float, broken: bool) -> None:
    assert ("X2" in laws(early_of_broker(before_ms))) is broken


@pytest.mark.parametrize(("after_ms", "broken"), [(100, {"K1"}), (101, {"C5", "K1"})])
def test_a_commit_of_what_was_lost_may_be_on_its_way(after_ms: float, broken: set[str]) -> None:
    """By the coordinator's clock it lies a little behind the read that tells that the group has heard of it."""
    story = truncate(before())
    old = [e for e in story.events if e.kind == "offset_committed"][-2]
    assert old.data == {"topic": "t", "partition": 0, "offset": END}
    story.wait(1000).records(6).wait(300).consume()
    read = next(e for e in reversed(story.events) if e.kind == "consume" and e.member == "a")
    story.shift("offset_committed", (read.mono_ns - old.mono_ns) / MS + after_ms, offset=END, partition=0)
    story.shift("offset_committed", 200, offset=13, partition=0)

    assert laws(told.unreported(read_back(story.wait(300)))) == broken


def asked_and_lost(before_ms: float) -> Story:
    """b asks for a rebalance so long before a generation is committed, and loses its partitions in it."""
    story = Story("range", {"t": 2}).start("a", "b").round().wait(10)
    story.tell("rebalance_request", "member", "b")
    request, committed = (
        story.events[story._find(kind, {})[0]] for kind in ("rebalance_request", "generation_committed")
    )
    story.shift("rebalance_request", (committed.mono_ns - request.mono_ns) / MS - before_ms)
    story._callback("b", "lost", story.held["b"])
    return story


def one_commit() -> Story:
    """a reads one record, and commits it: each event a millisecond after the one before."""
    return Story("range", {"t": 1}).start("a").round().wait(1000).records(1).consume()


@pytest.mark.parametrize(("by_ms", "broken"), [(-101, set()), (-102, {"C7"}), (101, set()), (102, {"C7"})])
def test_a_commit_is_in_the_log_between_its_begin_and_its_answer(by_ms: float, broken: set[str]) -> None:
    assert laws(one_commit().shift("offset_committed", by_ms)) == broken


@pytest.mark.parametrize(("by_ms", "broken"), [(101, set()), (102, {"C5"})])
def test_a_poll_may_be_told_a_little_after_the_commit_of_its_records(by_ms: float, broken: set[str]) -> None:
    assert laws(one_commit().shift("consume", by_ms)) == broken


@pytest.mark.parametrize(("took_us", "broken"), [(101_000, set()), (101_001, {"G5"})])
def test_an_assignment_takes_as_long_as_it_says(took_us: int, broken: set[str]) -> None:
    story = Story("range", {"t": 1}).start("a").round()

    assert laws(story.change("assign_end", lambda data: data.update(duration_us=took_us))) == broken


def test_a_busy_machine_may_stop_a_process_between_the_events_of_an_assignment() -> None:
    """Its own measure of the time does not have that."""
    story = Story("range", {"t": 1}).start("a").round()
    later = story.events[story._find("assign_end", {})[0] :]
    story.events[-len(later) :] = [replace(e, mono_ns=e.mono_ns + 500 * MS, ts_ns=e.ts_ns + 500 * MS) for e in later]

    assert laws(story) == set()


@pytest.mark.parametrize(("after_ms", "broken"), [(100, set()), (101, {"R7"})])
def test_a_loss_is_for_a_generation_that_is_in_the_log_by_then(after_ms: float, broken: set[str]) -> None:
    story = Story("range", {"t": 2}).start("a", "b").round()
    story._callback("b", "lost", story.held["b"])
    story.held["b"] = set()
    lost = next(e for e in story.events if e.kind == "lost_begin")
    story.round()
    committed = [e for e in story.events if e.kind == "generation_committed"][-1]
    story.shift("generation_committed", (lost.mono_ns - committed.mono_ns) / MS + after_ms)

    assert ("R7" in {v.law for v in check(story.history).violations}) is bool(broken)


@pytest.mark.parametrize(("after_ms", "broken"), [(100, False), (101, True)])
def test_a_loss_may_be_for_a_member_that_tells_its_leave_by_then(after_ms: float, broken: bool) -> None:
    story = Story("range", {"t": 2}).start("a", "b").round()
    story._callback("b", "lost", story.held["b"])
    story.tell("stop", "member", "a")
    lost, stop = (next(e for e in story.events if e.kind == kind) for kind in ("lost_begin", "stop"))
    story.shift("stop", (lost.mono_ns - stop.mono_ns) / MS + after_ms)

    assert ("R7" in {v.law for v in check(story.history).violations}) is broken


@pytest.mark.parametrize(("after_ms", "broken"), [(100, False), (101, True)])
def test_librdkafka_may_revoke_in_the_generation_after_the_last_in_the_log(after_ms: float, broken: bool) -> None:
    story = Story("range", {"t": 2}).start("a", "b").round().stop("a").stop("b")
    for kind in ("revoke_begin", "revoke_end"):
        story.change(kind, lambda data: data.update(generation=2), member="b")
    revoke, committed = (story.events[story._find(kind, {})[-1]] for kind in ("revoke_begin", "generation_committed"))
    story.shift("generation_committed", (revoke.mono_ns - committed.mono_ns) / MS + after_ms)

    history = test_witnesses.as_client(story, "confluent-kafka", "b").history
    assert ("R8" in {v.law for v in check(history).violations}) is broken


@pytest.mark.parametrize(("before_ms", "broken"), [(100, False), (101, True)])
def test_an_output_is_read_once_its_transaction_was_being_committed(before_ms: float, broken: bool) -> None:
    story = at_work().drain()
    assert isinstance(story, Transforming)
    story.read_committed()
    at = story._find("read_back", {})[-1]
    author = story.events[at].data["author"]
    begin = next(e for e in story.events if e.kind == "commit_begin" and e.member == author["member"]
                 and e.data["transaction"] == author["transaction"])  # fmt: skip
    ns = begin.mono_ns - round(before_ms * MS)
    story.events[at] = replace(story.events[at], mono_ns=ns, ts_ns=ns)

    assert ("X2" in {v.law for v in check(story.history).violations}) is broken


@pytest.mark.parametrize(("before_ms", "broken"), [(100, False), (101, True)])
def test_a_generation_has_members_that_have_started(before_ms: float, broken: bool) -> None:
    story = Story("range", {"t": 1}).start("a").round()
    start, committed = (story.events[story._find(kind, {})[0]] for kind in ("start", "generation_committed"))
    story.shift("generation_committed", (start.mono_ns - committed.mono_ns) / MS - before_ms)

    assert ("G5" in {v.law for v in check(story.history).violations}) is broken


def test_a_broker_dates_what_it_appends_later_no_earlier_by_more() -> None:
    for ms, laws in ((900, set()), (899, {"K3"})):
        story = test_witnesses.appended(test_witnesses.ended(), 1000, ms)
        assert {violation.law for violation in check(story.history).violations} == laws


ELSEWHERE = {
    "places._went_back SLACK_MS": test_a_broker_dates_what_it_appends_later_no_earlier_by_more,
    "ledger.cut_off_at SLACK_MS": test_cut_off.test_a_process_that_has_ended_commits_nothing,
    "commits._told_later SLACK_MS": test_cut_off.test_whoever_told_a_later_commit_had_told_the_one_before,
    "records._is_of_cut_off SLACK_MS": test_cut_off.test_what_was_handed_out_just_before_may_not_be_on_record,
    "records._is_of_cut_off WRITTEN_MS": test_cut_off.test_what_was_handed_out_just_before_may_not_be_on_record,
    "commits._may_be SLACK_MS": test_cut_off.test_a_client_may_commit_more_than_was_told_as_it_was_asked,
    "callbacks._follows SLACK_MS": test_witnesses.test_librdkafka_revokes_once_the_generation_is_in_the_log,
    "commits._of_partitions SLACK_MS": test_a_commit_is_in_the_log_between_its_begin_and_its_answer,
    "commits.own_reading SLACK_MS": test_a_poll_may_be_told_a_little_after_the_commit_of_its_records,
    "roles.joined_as_configured SLACK_MS": test_a_generation_has_members_that_have_started,
    "roles._ended SLACK_MS": test_an_assignment_takes_as_long_as_it_says,
    "callbacks._is_begun SLACK_MS": test_librdkafka_may_revoke_in_the_generation_after_the_last_in_the_log,
    "callbacks._may_have_begun SLACK_MS": test_a_loss_may_be_for_a_member_that_tells_its_leave_by_then,
    "callbacks.lost_for_a_reason SLACK_MS": test_a_loss_is_for_a_generation_that_is_in_the_log_by_then,
    "exactly_once.no_zombies SLACK_MS": test_an_output_is_read_once_its_transaction_was_being_committed,
    "exactly_once._standing SLACK_MS": test_who_begins_to_commit_as_it_is_evicted_is_no_zombie_yet,
    "exactly_once._taken SLACK_MS": test_who_begins_to_commit_as_the_broker_takes_its_input_is_no_zombie_yet,
    "records._may_fall SLACK_MS": test_a_commit_of_what_was_lost_may_be_on_its_way,
    "records._reached SLACK_MS": test_a_commit_of_what_was_lost_may_be_on_its_way,
    "static._in_session MARGIN_MS": test_a_static_restart_is_judged_only_if_it_is_back_well_within_its_session,
    "zombies._cut_off ZOMBIE_MS": test_how_long_a_member_could_not_know_is_measured_up_to_the_bound,
    "zombies._still_or_fenced ZOMBIE_MS": test_how_long_a_member_could_not_know_is_measured_up_to_the_bound,
    "zombies._still_or_fenced FENCED_MS": test_how_long_a_fenced_member_could_not_know_is_measured_up_to_the_bound,
    "busy._unseen POLL_MS": test_busy.test_a_service_that_reads_on_soon_polls,
    "clocks.problems APART_MS": test_a_clock_may_be_apart_by_so_much,
    "clocks.problems BACK_MS": test_time_may_fall_by_so_much_within_a_file,
    "clocks.retimed MOVED_MS": test_a_wall_clock_that_moved_by_so_much_is_taken_as_still,
}
"""Bounds that decide whether something is judged, what is measured, or whether a run's clocks can be believed."""

APART = (
    "commits._of_partitions SLACK_MS",
    *(f"excuses.{name} SLACK_MS" for name in ("zombie_of", "excuses", "_of_fencing", "_of_deaths", "_excuse")),
    *(f"progress.{name} SLACK_MS" for name in ("progress", "quiet_times", "_owners_live", "_at_rest", "_rests_in")),
    *("progress._epochs SLACK_MS", "transitions.transitions SLACK_MS", "static.fenced SLACK_MS"),
    *("static._refused SLACK_MS", "generations._counted_ns SLACK_MS"),
    *("ownership._has_at SLACK_MS", "finished.commits_what_is_finished SLACK_MS", "records._may_fall SLACK_MS"),
)
"""Where the clocks of broker and members are compared, and `test_clocks_apart` has sound histories inside the slack."""


def uses() -> Counter[str]:
    """Every place in the judge's functions where a number of milliseconds has a name: ``module.function NAME``.

    `surely_before` and `around` are one where they are called.
    """
    found: Counter[str] = Counter()
    for file in (file for file in judges() if file.stem != "slack"):
        for function in (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)):
            names = (node.id for node in ast.walk(function) if isinstance(node, ast.Name))
            names = ("SLACK_MS" if name in ("surely_before", "around") else name for name in names)
            timed = (name.strip("_") for name in names if re.fullmatch(r"[A-Z_]+_[MN]S", name))
            found.update(
                f"{file.stem}.{function.name} {name.removesuffix('_NS').removesuffix('_MS')}_MS" for name in timed
            )
    return found


@pytest.mark.slow
def test_every_grace_slack_and_timeout_has_a_history_on_either_side() -> None:
    """Each place in the code that reads one, so that a new one, or a second use of one, can't be forgotten."""
    told_here = Counter([bound.use for bound in BOUNDS.values()] + list(ELSEWHERE) + list(APART))

    assert set(told_here) == set(uses())
    assert not uses() - told_here
