"""Where two witnesses tell one fact, a history in which they differ is false, and its sound neighbour is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_assignors.core.wire.protocol import Subscription, encode_subscription
from kafka_assignors.integration.checker import check
from tests.support.damage import shifted
from tests.support.histories import rare
from tests.support.histories.story import COOPERATIVE, MS, SESSION_MS, Story, churn
from tests.support.histories.transactions import at_work


def ended(protocol: str = "range") -> Story:
    """A churn to its end: the harness closes the group, and its members leave."""
    story = churn(protocol)
    story.tell("closing")
    return story.stop("a").stop("d")


def set_(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.update(fields)


def first_offset(by: int) -> Callable[[dict[str, Any]], None]:
    def alter(data: dict[str, Any]) -> None:
        first, *rest = data["offsets"]
        data["offsets"] = [{**first, "offset": first["offset"] + by}, *rest]

    return alter


def of_another_partition(data: dict[str, Any]) -> None:
    *others, last = data["offsets"]
    data["offsets"] = [*others, {**last, "partition": last["partition"] + 1}]


def of_member(name: str, **fields: Any) -> Callable[[dict[str, Any]], None]:
    def alter(data: dict[str, Any]) -> None:
        data["members"] = [{**m, **fields} if m["client_id"] == name else m for m in data["members"]]

    return alter


def again(story: Story, kind: str, by_ms: float, nth: int = 0, **match: Any) -> Story:
    """The same event once more, some time later."""
    event = story.events[story._find(kind, match)[nth]]
    seq = max(e.seq for e in story.events if (e.src, e.member) == (event.src, event.member)) + 1
    by_ns = round(by_ms * MS)
    story.events.append(replace(event, seq=seq, mono_ns=event.mono_ns + by_ns, ts_ns=event.ts_ns + by_ns))
    return story


def answered(story: Story, error: str | None, nth: int = 0) -> Story:
    """A commit had this answer, or none."""
    at = story._find("commit_ok", {})[nth]
    if error is None:
        del story.events[at]
    else:
        event = story.events[at]
        story.events[at] = replace(event, kind="commit_fail", data={**event.data, "error": error})
    return story


def as_process(story: Story, kind: str, nth: int = 0, **fields: Any) -> Story:
    """An event with other common fields."""
    at = story._find(kind, {})[nth]
    story.events[at] = replace(story.events[at], **fields)
    return story


def lost_for_nothing() -> Story:
    """b says that it lost its partitions, though the group is as it was."""
    story = Story().start("a", "b").round()
    story._callback("b", "lost", story.held["b"])
    story.held["b"] = set()
    return story.wait(500).round()


def went_on() -> Story:
    """a reports a fatal error, and takes part in another round."""
    story = Story().start("a", "b").round()
    story.tell("error", "member", "a", error="ValueError", fatal=True, message="its code raised")
    return story.round()


FALSE: dict[str, tuple[str, Callable[[], Story]]] = {
    "an accepted commit is not in the log": ("C7", lambda: ended().drop("offset_committed", nth=0)),
    "the log has another offset": ("C7", lambda: ended().change("offset_committed", set_(offset=3), nth=0)),
    "a member began another offset": ("C7", lambda: ended().change("commit_begin", first_offset(-1), nth=0).change(
        "commit_ok", first_offset(-1), nth=0)),
    "the log has a commit of nobody": ("C7", lambda: again(ended(), "offset_committed", 5000)),
    "a refused commit is in the log": ("C7", lambda: answered(ended(), "CommitFailedError: rejoin the group")),
    "a commit is in the log before its begin": ("C7", lambda: ended().shift("offset_committed", -200, nth=0)),
    "a commit is in the log after its answer": ("C7", lambda: ended().shift("offset_committed", 200, nth=0)),
    "a member commits what another read": ("C5", lambda: ended().change("commit_begin", first_offset(1), nth=0)),
    "a generation with members has no assignor": ("G3", lambda: ended().change(
        "generation_committed", set_(protocol=None), nth=0)),
    "a process never ended": ("E2", lambda: ended().drop("exit", member="a")),
    "a process ended twice": ("E2", lambda: again(ended(), "exit", 20, member="b")),
    "a process started twice": ("E2", lambda: again(ended(), "start", 20, member="b")),
    "a signal without its code": ("E2", lambda: ended().change("exit", set_(signal="SIGTERM"), member="b")),
    "a code without its signal": ("E2", lambda: ended().change("exit", lambda d: d.pop("signal"), member="c")),
    "killed, and ended by itself": ("E2", lambda: ended().change("exit", set_(code=-15, signal="SIGTERM"), member="c")),
    "told to leave, killed, and ended in order without a stop": ("E2", lambda: ended().change(
        "exit", lambda d: d.pop("signal") and d.update(code=0, asked=True, asked_ns=1), member="c")),
    "ended before it was killed": ("E2", lambda: ended().shift("exit", -5, member="c")),
    "ended, and never stopped": ("E2", lambda: ended().drop("stop", member="b")),
    "a fault ended that had not begun": ("E2", lambda: again(ended(), "fault_end", 10)),
    "a kill never ended": ("E2", lambda: ended().drop("fault_end", member="c")),
    "went on after a fatal error": ("E2", lambda: went_on()),
    "a topic grew by itself": ("E2", lambda: ended().change(
        "step", set_(topics={"t": 4, "u": 9}), nth=1, name="stable")),
    "closed twice": ("E2", lambda: again(ended(), "closing", 1)),
    "started after the end": ("E2", lambda: ended().start("e")),
    "another name": ("G5", lambda: ended().change("start", set_(), member="a").change(
        "generation_committed", of_member("d", client_id="x"))),
    "another session timeout": ("G5", lambda: ended().change(
        "generation_committed", of_member("a", session_timeout_ms=999))),
    "another poll interval": ("G5", lambda: ended().change(
        "generation_committed", of_member("a", rebalance_timeout_ms=1))),
    "other topics": ("G5", lambda: ended().change("start", set_(topics=["t"]), member="a")),
    "a leader that is no member": ("G5", lambda: ended().change("generation_committed", set_(leader="x-id"), nth=0)),
    "another leader": ("G5", lambda: as_process(ended(), "assign_begin", member_id="b-id")),
    "assigned to others": ("G5", lambda: ended().change("assign_begin", set_(members=["a-id"]), nth=0)),
    "assigned by another assignor": ("G5", lambda: ended().change("assign_begin", set_(protocol="sticky"), nth=0)),
    "ended another assignment": ("G5", lambda: ended().change("assign_end", set_(generation=9), nth=0)),
    "never began to assign": ("G5", lambda: ended().drop("assign_begin", nth=0)),
    "failed, and was committed": ("G5", lambda: ended().change("assign_end", set_(error="ValueError"), nth=0)),
    "assigned for longer than it took": ("G5", lambda: ended().change("assign_end", set_(duration_us=200_000), nth=0)),
    "adopted another protocol": ("G5", lambda: ended().change("generation", set_(protocol="sticky"), nth=0)),
    "one id of two members": ("G5", lambda: as_process(ended(), "consume", member_id="b-id")),
    "one member of two processes": ("G5", lambda: as_process(ended(), "consume", pid=2)),
    "two records at one offset": ("K3", lambda: ended().change("ack", set_(offset=0), nth=9)),
    "one record twice": ("K3", lambda: ended().change("ack", set_(value_id="p-1"), nth=9)),
    "a record without an answer": ("K3", lambda: ended().drop("ack", nth=9).drop("read_back", nth=9)),
    "read what nobody sent": ("K3", lambda: ended().change(
        "consume", lambda d: d["offsets"][0].update(last=d["offsets"][0]["last"] + 1))),
    "read back what nobody sent": ("K3", lambda: ended().change("read_back", set_(offset=999), nth=3)),
    "an end behind the last record": ("K3", lambda: ended().change(
        "step", lambda d: d["offsets"][0].update(offset=99), name="drained")),
    "a callback of two generations": ("R8", lambda: ended().change("assigned_end", set_(generation=9), nth=0)),
    "gave up what it had not adopted": ("R8", lambda: ended().change("revoke_begin", set_(generation=9)).change(
        "revoke_end", set_(generation=9))),
    "left with partitions": ("R8", lambda: ended().drop("revoke_begin", member="b").drop("revoke_end", member="b")),
    "lost for nothing": ("R7", lost_for_nothing),
    "ends of other partitions": ("K3", lambda: ended().change("step", of_another_partition, name="drained")),
    "paused while it was paused": ("E2", lambda: again(rare.lost(), "fault_begin", 1)),
    "committed what it had not read again": ("C5", lambda: rare.aborted().change(
        "consume", set_(offsets=[]), nth=-1, member="a")),
    "refused twice": ("K3", lambda: again(rare.refused(), "nack", 1)),
    "read back twice": ("K3", lambda: again(ended(), "read_back", 0.5)),
    "read back in another order": ("K3", lambda: ended().shift("read_back", 20, nth=0)),
    "read back behind the end": ("K3", lambda: rare.aborted().change("read_back", set_(offset=999))),
    "read back where no end is told": ("K3", lambda: rare.aborted().change("read_back", set_(partition=7))),
    "never ended to assign": ("G5", lambda: ended().drop("assign_end", nth=-1)),
    "joined with topics that it left": ("G5", lambda: rare.subscribed().change(
        "admin_change", set_(subscription={"topics": ["u"]}))),
    "finished what it had not read": ("C6", lambda: rare.finished().change(
        "finished", lambda d: d.update(offsets=[{**d["offsets"][0], "first": 0, "last": 99, "count": 100}]), nth=0)),
    "an output of no transaction": ("X2", lambda: rare.aborted().change("read_back", lambda d: d.pop("author"), nth=0)),
    "an output of a later transaction": ("X2", lambda: rare.aborted().change("read_back", by_transaction(2), nth=8)),
    "an output of an earlier transaction": ("X2", lambda: rare.aborted().change("read_back", by_transaction(1))),
    "a transaction never ended": ("X2", lambda: rare.aborted().drop("commit_ok", member="b", nth=0)),
    "the last transaction never ended": ("X2", lambda: rare.aborted().drop("commit_ok", member="b")),
    "a transaction ended as another": ("X2", lambda: rare.aborted().change("commit_ok", set_(transaction=9))),
    "a transaction failed with other offsets": ("X2", lambda: rare.aborted().change("commit_fail", first_offset(1))),
    "a transaction began twice": ("X2", lambda: again(rare.aborted(), "commit_begin", 0.5)),
}  # fmt: skip


def killed_in_a_transaction() -> Story:
    story = at_work()
    story.drain()
    return story.read_committed()


SOUND: dict[str, Callable[[], Story]] = {
    "a static member that was away in the next generation": lambda: shifted.adopted_late(200, static=True),
    "a whole churn": ended,
    "a whole cooperative churn": lambda: ended(COOPERATIVE[0]),
    "a commit is never answered": lambda: answered(ended(), None, nth=-1),
    "a commit in the log timed out": lambda: answered(ended(), "KafkaTimeoutError: no answer in 5000 ms"),
    "a commit is in the log a little early": lambda: ended().shift("offset_committed", -95, nth=0),
    "a commit is in the log a little late": lambda: ended().shift("offset_committed", 95, nth=0),
    "a commit is sent twice before its answer": lambda: again(ended(), "offset_committed", 0.5, nth=-1),
    "an assignment takes a little longer than it says": lambda: ended().change(
        "assign_end", set_(duration_us=90_000), nth=0),
    "a fault in force at the end of a history": lambda: told_open(churn()),
    "a fault in force as the harness closes the group": lambda: closed(told_open(churn())),
    "a position is committed before any record is read": lambda: began_at_zero(),
    "a killed member revokes before the signal reaches it": lambda: killed_as_it_revokes(),
    "a member has left as its kill comes": lambda: killed_too_late(told=False),
    "a member that was told to leave has ended as its kill comes": lambda: killed_too_late(told=True),
    **rare.RARE,
    "a transaction of a member that was killed": killed_in_a_transaction,
    "a subscription to a pattern": lambda: rare.subscribed().change(
        "admin_change", set_(subscription={"pattern": "t.*"})),
    "a service's output names nobody": lambda: of_a_service(rare.aborted()),
}  # fmt: skip


@pytest.mark.parametrize("told", [True, False])
def test_a_member_joins_without_topics_only_once_it_was_told_to_end(told: bool) -> None:
    story = ended()
    last = story.events[story._find("generation_committed", {})[-1]]
    story.change(
        "generation_committed", of_member("a", subscription=encode_subscription(Subscription(())).hex()), nth=-1
    )
    if told:
        story.change("exit", set_(asked=True, asked_ns=last.mono_ns - 1), member="a")

    assert any(violation.law == "G5" for violation in check(story.history).violations) is not told


def killed_as_it_revokes() -> Story:
    """b is killed, and gives up what it has between the begin of its kill and its exit."""
    story = Story().start("a", "b").round()
    story.tell("fault_begin", member="b", fault="kill", target="b")
    story._callback("b", "revoke", story.held["b"])
    story.tell("exit", member="b", code=-9, signal="SIGKILL")
    story.tell("fault_end", member="b", fault="kill", target="b")
    del story.held["b"]
    return story.wait(SESSION_MS).round()


def killed_too_late(told: bool) -> Story:
    """a leaves, and its kill finds it ended; the harness has told it to leave, or not."""
    story = ended()
    at = story._find("exit", {"member": "a"})[0]
    end = story.events[at]
    begin = story.tell("fault_begin", member="a", fault="kill", target="a")
    story.events.remove(begin)
    story.events.insert(at, replace(begin, mono_ns=end.mono_ns - 1, ts_ns=end.ts_ns - 1))
    if told:
        story.change("exit", set_(asked=True, asked_ns=end.mono_ns - 5 * MS), member="a")
    story.tell("fault_end", member="a", fault="kill", target="a")
    return story


def by_transaction(number: int) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.update(author={**data["author"], "transaction": number})


def of_a_service(story: Story) -> Story:
    """The members are a service's processes, one output does not say whose it is."""
    story.events = [replace(e, data={**e.data, "log_bytes": 0}) if e.src == "member" else e for e in story.events]
    return story.change("read_back", lambda data: data.pop("author"), nth=0)


def closed(story: Story) -> Story:
    story.tell("closing")
    return story.stop("a").stop("d")


def began_at_zero() -> Story:
    """A client commits where it begins, and no member says so."""
    story = Story().start("a", "b").round()
    story.tell("offset_committed", "coordlog", topic="t", partition=0, offset=0)
    return story.records(14).consume()


def told_open(story: Story) -> Story:
    story.tell("fault_begin", member="a", fault="cut", target="a")
    return story


@pytest.mark.parametrize("name", FALSE)
def test_witnesses_that_differ_are_found(name: str) -> None:
    law, story = FALSE[name]

    verdict = check(story().history)

    assert verdict.value is False
    assert law in {violation.law for violation in verdict.violations}, verdict.violations


@pytest.mark.parametrize("name", SOUND)
def test_sound_neighbours_are_true(name: str) -> None:
    verdict = check(SOUND[name]().history)

    assert (verdict.value, verdict.violations, verdict.unknown) == (True, (), ())
