"""Where two witnesses tell one fact, a history in which they differ is false, and its sound neighbour is true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import Subscription, encode_subscription
from kafka_assignors.history.events import WIRE
from kafka_assignors.integration.checker import check
from tests.support.damage import shifted
from tests.support.histories import rare
from tests.support.histories.stories import of_a_service
from tests.support.histories.story import COOPERATIVE, HEARTBEAT_MS, MS, SESSION_MS, Story, churn, given_up
from tests.support.histories.transactions import at_work


def ended(protocol: str = "range") -> Story:
    """A churn to its end: the harness closes the group, and its members leave."""
    story = churn(protocol)
    story.tell("closing")
    return story.stop("a").stop("d")


def made_anew(pid: int = 1) -> Story:
    """b closes its consumer, and the process `pid` makes another one; 1 is the process of all."""
    story = Story().start("a", "b").round().records(4)
    story._callback("b", "revoke", story.held.pop("b"))
    story.tell("stop", "member", "b")
    story.round()
    story._instances["b"] = None, 1
    story.start("b").round().records(4).drain()
    story.tell("closing")
    story.stop("a").stop("b")
    story.events = [
        replace(event, pid=pid) if (event.src, event.member, event.incarnation) == ("member", "b", 1) else event
        for event in story.events
    ]
    return story


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


def appended(story: Story, *ms: int) -> Story:
    """The broker appended the first records of a partition at these times."""
    for nth, one in enumerate(ms):
        story.change("read_back", set_(appended_ms=one), nth=nth, topic="t", partition=0)
    return story


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


WENT_ON: dict[str, tuple[bool, Callable[[Story], object]]] = {
    "nothing": (False, lambda story: story),
    "a little silence": (False, lambda story: story.wait(SESSION_MS - 200)),
    "the silence of a session": (True, lambda story: story.wait(SESSION_MS)),
    "a member left": (True, lambda story: story.stop("a")),
    "another one has started": (True, lambda story: story.start("c")),
    "it asked for a rebalance": (True, lambda story: story.tell("rebalance_request", "member", "b")),
    "a topic grew": (True, lambda story: story.tell(
        "admin_change", change="add_partitions", target="t", topics={**story.topics, "t": 5})),
    "another one had ended": (False, lambda story: None),
    "a member tells nothing": (True, lambda story: story.events.__setitem__(
        slice(None), [e for e in story.events if e.member != "a"])),
}  # fmt: skip
"""What happened before b lost its partitions -> whether the group may have gone on; no generation is in the log."""


@pytest.mark.parametrize("what", WENT_ON)
def test_a_loss_has_a_reason_if_the_group_may_have_gone_on(what: str) -> None:
    """The coordinator refuses a generation once all have joined the next, which is in the log once its leader assigned.

    If the last members leave then, it never is.
    """
    went_on, happens = WENT_ON[what]
    story = Story()
    if what == "another one had ended":
        story.start("c").round().stop("c").wait(1000)
    story.start("a", "b").round()
    happens(story)
    story._callback("b", "lost", story.held["b"])
    story.held["b"] = set()
    story.wait(500).stop("b")

    verdict = check(story.history)
    skipped = {"a generation may have begun that no leader completed": 1} if went_on else {}
    assert (any(v.law == "R7" for v in verdict.violations), verdict.skipped.get("R7", {})) == (not went_on, skipped)


def went_on(fatal: bool) -> Story:
    """a reports an error, and takes part in another round, with records."""
    story = Story().start("a", "b").round()
    story.tell("error", "member", "a", error="ValueError", fatal=fatal, message="its code raised")
    return story.round().records(14).consume()


def grows(*counts: int, after: Sequence[int] = ()) -> Story:
    """`t` grows from 4 partitions to 5; so many are seen while the brokers make that change, and after it."""
    story = rare.grown()
    made = story.events[story._find("admin_changed", {})[0]]
    for number, count in enumerate((*counts, *after)):
        at_ns = made.mono_ns + (number if number >= len(counts) else number - 500) * 1000
        seen = replace(made, kind="topics", seq=900 + number, mono_ns=at_ns, ts_ns=at_ns, data={"topics": {"t": count}})
        story.events.append(seen)
    return story


def as_client(story: Story, client: str, *names: str) -> Story:
    """These members are another client's."""
    of_them = [e.src == "member" and e.member in names for e in story.events]
    story.events = [replace(e, client=client) if mine else e for e, mine in zip(story.events, of_them, strict=True)]
    return story


def further(by: int, row: int = 0) -> Callable[[dict[str, Any]], None]:
    """A row of what a member consumed reaches so much further."""

    def alter(data: dict[str, Any]) -> None:
        rows = [*data["offsets"]]
        rows[row] = {**rows[row], "last": rows[row]["last"] + by, "count": rows[row]["count"] + by}
        data["offsets"] = rows

    return alter


def with_another_topic(data: dict[str, Any]) -> None:
    """A member consumed a record of a topic to which no sender of the run sent, before all others."""
    data["offsets"] = [{"topic": "w", "partition": 0, "first": 0, "last": 0, "count": 1, "bytes": 1}, *data["offsets"]]


def answered_in_part(story: Story, *, logged: bool) -> Story:
    """The last commit is answered for its first partition alone; the log has the others as well, or not."""
    at = story._find("commit_ok", {})[-1]
    first, *others = story.events[at].data["offsets"]
    assert others
    story.events[at] = replace(story.events[at], data={"offsets": [first]})
    for _ in others if not logged else ():
        story.drop("offset_committed")
    return story


def ended_early(asked_after_ns: int) -> Story:
    """The end of a partition lies one record too low; the harness asked for it so long after the record's answer."""
    story = rare.lost()
    acks = story._find("ack", {"topic": "t", "partition": 0})
    asked_ns = story.events[acks[-1]].mono_ns + asked_after_ns
    return story.change("step", first_offset(-1), name="drained").change(
        "step", set_(asked_ns=asked_ns), name="drained"
    )


def nothing_lost() -> Story:
    story = Story().start("a", "b").round()
    story._callback("b", "lost", [])
    return story.wait(500).round()


def lost_again(story: Story, name: str = "b") -> Story:
    """A member, too, says that it lost what it has, though nothing follows."""
    story._callback(name, "lost", story.held[name])
    story.held[name] = set()
    return story


def hit_and_lost() -> Story:
    """a was hit by a proxy, and says that it lost its partitions."""
    story = Story().start("a", "b").round()
    for edge in ("begin", "end"):
        story.tell(f"fault_{edge}", "proxy", "a", fault="drop", target="a", params={})
    return lost_again(story, "a")


def lost_before_it_adopted() -> Story:
    story = Story().start("a", "b")
    story._callback("a", "lost", [TopicPartition("t", 0)])
    return story.round()


def without_reading(story: Story, name: str) -> Story:
    """A member tells its commits, and not what it reads."""
    story.events = [e for e in story.events if not (e.kind == "consume" and e.member == name)]
    return story


def beside_another(story: Story) -> Story:
    """a produces nothing, and commits first."""
    return story.change("start", lambda data: data["config"].pop("output"), member="a")


def assigned_in_vain() -> Story:
    """b was elected in a round that was never committed."""
    story = Story().start("a", "b").round()
    round_ = {"generation": 9, "protocol": "range"}
    story.tell("assign_begin", "member", "b", members=["b-id"], topics=story.topics, racks={}, **round_)
    story.tell("assign_end", "member", "b", duration_us=100, error="ValueError", **round_)
    return story.round()


def of_an_earlier_run() -> Story:
    """A partition has records of an earlier run, which members read as well."""
    story = Story().start("a", "b")
    story._offsets["t", 0] = 5
    story.round().records(14).consume().drain().read_back().tell("closing")
    return story.stop("a").stop("b")


def silent_commits() -> Story:
    story = ended()
    story.events = [e for e in story.events if e.member != "a" or not e.kind.startswith("commit_")]
    return story


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
    "a process never ended, and another one came": ("E2", lambda: made_anew(pid=2)),
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
    "went on after a fatal error": ("E2", lambda: went_on(fatal=True)),
    "a topic grew by itself": ("E2", lambda: ended().change(
        "step", set_(topics={"t": 4, "u": 9}), nth=1, name="stable")),
    "closed twice": ("E2", lambda: again(ended(), "closing", 1)),
    "started after the end": ("E2", lambda: ended().start("e")),
    "never started": ("E2", lambda: ended().drop("start", member="b")),
    "stopped twice": ("E2", lambda: again(ended(), "stop", 0.5, member="b")),
    "killed twice": ("E2", lambda: again(ended(), "fault_begin", 0.1, member="c")),
    "a topic shrank once it had grown": ("E2", lambda: grows(after=(5, 4))),
    "a topic grew by too much": ("E2", lambda: grows(4, 6)),
    "a change of topics ended that had not begun": ("E2", lambda: rare.grown().drop("admin_change")),
    "a topic grew while the harness waited": ("E2", lambda: given_up().change(
        "not_stable", set_(topics={"t": 4, "u": 9}))),
    "another name": ("G5", lambda: ended().change("start", set_(), member="a").change(
        "generation_committed", of_member("d", client_id="x"))),
    "another session timeout": ("G5", lambda: ended().change(
        "generation_committed", of_member("a", session_timeout_ms=999))),
    "another poll interval": ("G5", lambda: ended().change(
        "generation_committed", of_member("a", rebalance_timeout_ms=1))),
    **{
        f"another poll interval, of {client}": ("G5", lambda client=client: as_client(ended(), client, "a").change(
            "generation_committed", of_member("a", rebalance_timeout_ms=1)))
        for client in ("kafka-python", "confluent", "confluent-kafka", "java", "bridge")
    },
    "killed while its kill was in force": ("E2", lambda: again(churn().drop("fault_end", member="c"),
                                                                "fault_begin", 0.1, member="c")),
    "another instance id": ("G5", lambda: ended().change("generation_committed", of_member("a", instance_id="x"))),
    "other topics": ("G5", lambda: ended().change("start", set_(topics=["t"]), member="a")),
    "other topics of a member that was told to end": ("G5", lambda: ended().change(
        "start", set_(topics=["t"]), member="a").change("exit", set_(asked=True, asked_ns=1), member="a")),
    "other topics, though one of them grew": ("G5", lambda: rare.grown().change(
        "start", set_(topics=["u"]), member="a")),
    "other topics, behind a subscription that cannot be read": ("G5", lambda: ended().change(
        "generation_committed", of_member("a", subscription="ff")).change("start", set_(topics=["t"]), member="d")),
    "one member of two processes, and one of the harness's own": ("G5", lambda: as_process(
        ended(), "commit_ok", nth=-1, pid=2)),
    "in a generation before its start": ("G5", lambda: ended().shift("start", 500, member="a")),
    "a leader that is no member": ("G5", lambda: ended().change("generation_committed", set_(leader="x-id"), nth=0)),
    "another leader": ("G5", lambda: as_process(ended(), "assign_begin", member_id="b-id")),
    "assigned to others": ("G5", lambda: ended().change("assign_begin", set_(members=["a-id"]), nth=0)),
    "assigned by another assignor": ("G5", lambda: ended().change("assign_begin", set_(protocol="sticky"), nth=0)),
    "ended another assignment": ("G5", lambda: ended().change("assign_end", set_(generation=9), nth=0)),
    "never began to assign": ("G5", lambda: ended().drop("assign_begin", nth=0)),
    "failed, and was committed": ("G5", lambda: ended().change("assign_end", set_(error="ValueError"), nth=0)),
    "assigned for longer than it took": ("G5", lambda: ended().change("assign_end", set_(duration_us=200_000), nth=0)),
    "began to assign twice": ("G5", lambda: again(ended(), "assign_begin", 0.5, nth=0)),
    "adopted another protocol": ("G5", lambda: ended().change("generation", set_(protocol="sticky"), nth=0)),
    "one id of two members": ("G5", lambda: as_process(ended(), "consume", member_id="b-id")),
    "one member of two processes": ("G5", lambda: as_process(ended(), "consume", pid=2)),
    "one member of two processes, behind a service's": ("G5", lambda: as_process(
        of_a_service(ended(), "a"), "consume", nth=1, pid=2)),
    "one member of two clients": ("G5", lambda: as_process(ended(), "consume", client="java")),
    "one member of two instance ids": ("G5", lambda: as_process(ended(), "consume", instance_id="x")),
    "two records at one offset": ("K3", lambda: ended().change("ack", set_(offset=0), nth=9)),
    "one record twice": ("K3", lambda: ended().change("ack", set_(value_id="p-1"), nth=9)),
    "a record without an answer": ("K3", lambda: ended().drop("ack", nth=9).drop("read_back", nth=9)),
    "read what nobody sent": ("K3", lambda: ended().change(
        "consume", lambda d: d["offsets"][0].update(last=d["offsets"][0]["last"] + 1))),
    "read what nobody sent, behind a user's topic": ("K3", lambda: ended().change(
        "consume", with_another_topic).change("consume", further(1, row=-1))),
    "read more than was refused": ("K3", lambda: rare.refused().change("consume", further(2))),
    "read more of a topic of which nothing was refused": ("K3", lambda: rare.refused().change(
        "consume", further(1, row=-1))),
    "read back what nobody sent": ("K3", lambda: ended().change("read_back", set_(offset=999), nth=3)),
    "an end behind the last record": ("K3", lambda: ended().change(
        "step", lambda d: d["offsets"][0].update(offset=99), name="drained")),
    "an end before the last two records": ("K3", lambda: rare.lost().change("step", first_offset(-2), name="drained")),
    "an end before a record that was acknowledged in time": ("K3", lambda: ended_early(1)),
    "a callback without its begin, and one of two generations": ("R8", lambda: ended().drop(
        "assigned_begin", nth=0).change("assigned_end", set_(generation=9))),
    "a callback of two generations": ("R8", lambda: ended().change("assigned_end", set_(generation=9), nth=0)),
    "gave up what it had not adopted": ("R8", lambda: ended().change("revoke_begin", set_(generation=9)).change(
        "revoke_end", set_(generation=9))),
    "left with partitions": ("R8", lambda: ended().drop("revoke_begin", member="b").drop("revoke_end", member="b")),
    "gave up what it had not adopted, and nobody had": ("R8", lambda: as_client(ended(), "java", "d").change(
        "revoke_begin", set_(generation=9)).change("revoke_end", set_(generation=9))),
    "lost for nothing": ("R7", lost_for_nothing),
    "lost for nothing, by another client": ("R7", lambda: as_client(lost_for_nothing(), "confluent-kafka", "b")),
    "lost for nothing, behind a loss of nothing": ("R7", lambda: lost_again(nothing_lost())),
    "lost for nothing, behind another client's": ("R7", lambda: lost_again(
        as_client(lost_for_nothing(), "aiokafka", "b"), "a")),
    "lost for nothing, behind a member that was hit": ("R7", lambda: lost_again(hit_and_lost(), "b")),
    "lost for nothing, behind one that adopted nothing": ("R7", lambda: lost_again(lost_before_it_adopted())),
    "lost for nothing, behind one seen on its connections": ("R7", lambda: lost_again(
        as_client(lost_for_nothing(), WIRE, "b"), "a")),
    "gave up what it had not adopted, behind one seen on its connections": ("R8", lambda: as_client(
        ended(), WIRE, "a").change("revoke_begin", set_(generation=9)).change("revoke_end", set_(generation=9))),
    "a commit beyond its reading, behind one that does not tell what it reads": ("C5", lambda: without_reading(
        ended().change("commit_begin", first_offset(1), nth=-1), "a")),
    "a first commit without a transaction": ("X2", lambda: rare.aborted().change(
        "commit_begin", lambda d: d.pop("transaction"), member="a", nth=0).change(
        "commit_ok", lambda d: d.pop("transaction"), member="a", nth=0)),
    "a transaction never ended, beside a member that does not transform": ("X2", lambda: beside_another(
        rare.aborted().drop("commit_ok", member="b", nth=0))),
    "a commit of nobody, behind one that was sent again": ("C7", lambda: again(again(
        ended(), "offset_committed", 0.5, nth=0), "offset_committed", 5000, nth=0)),
    "ends of other partitions": ("K3", lambda: ended().change("step", of_another_partition, name="drained")),
    "paused while it was paused": ("E2", lambda: again(rare.lost(), "fault_begin", 1)),
    "committed what it had not read again": ("C5", lambda: rare.aborted().change(
        "consume", set_(offsets=[]), nth=-1, member="a")),
    "refused twice": ("K3", lambda: again(rare.refused(), "nack", 1)),
    "read back twice": ("K3", lambda: again(ended(), "read_back", 0.5)),
    "read back in another order": ("K3", lambda: ended().shift("read_back", 20, nth=0)),
    "read back behind the end": ("K3", lambda: rare.aborted().change("read_back", set_(offset=999))),
    "read back where no end is told": ("K3", lambda: rare.aborted().change("read_back", set_(partition=7))),
    "appended before the one before it": ("K3", lambda: appended(ended(), 1000, 899)),
    "never ended to assign": ("G5", lambda: ended().drop("assign_end", nth=-1)),
    "joined with topics that it left": ("G5", lambda: rare.subscribed().change(
        "admin_change", set_(subscription={"topics": ["u"]}))),
    "finished what it had not read": ("C6", lambda: rare.finished().change(
        "finished", lambda d: d.update(offsets=[{**d["offsets"][0], "first": 0, "last": 99, "count": 100}]), nth=0)),
    "an output of no transaction": ("X2", lambda: rare.aborted().change("read_back", lambda d: d.pop("author"), nth=0)),
    "an output of another group, and one of a later transaction": ("X2", lambda: rare.aborted().change(
        "read_back", of_another_group, nth=0).change("read_back", by_transaction(2), nth=8)),
    "outputs of a partition that no transaction commits": ("X2", lambda: rare.aborted().change(
        "commit_begin", of_one_partition, member="a", nth=0).change("commit_ok", of_one_partition, member="a", nth=0)),
    "a commit that was not begun is answered, behind that of a service": (
        "C7", lambda: answered_for_nothing(ended(), "a", "b")),
    "an output of a later transaction": ("X2", lambda: rare.aborted().change("read_back", by_transaction(2), nth=8)),
    "an output of an earlier transaction": ("X2", lambda: rare.aborted().change("read_back", by_transaction(1))),
    "an output of a transaction that nobody began, and one of a later": ("X2", lambda: rare.aborted().change(
        "read_back", by_transaction(99), nth=0).change("read_back", by_transaction(2), nth=8)),
    "an output of no input, and one of a later transaction": ("X2", lambda: rare.aborted().change(
        "read_back", set_(value_id="x-1"), nth=0).change("read_back", by_transaction(2), nth=8)),
    "two outputs of no transaction": ("X2", lambda: rare.aborted().change(
        "read_back", lambda d: d.pop("author"), nth=0).change("read_back", lambda d: d.pop("author"), nth=8)),
    "answered for a part, and all of it is in the log": ("C7", lambda: answered_in_part(ended(), logged=True)),
    "a transaction never ended": ("X2", lambda: rare.aborted().drop("commit_ok", member="b", nth=0)),
    "the last transaction never ended": ("X2", lambda: rare.aborted().drop("commit_ok", member="b")),
    "a transaction ended without its number": ("X2", lambda: rare.aborted().change(
        "commit_ok", lambda d: d.pop("transaction"), member="b", nth=0)),
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
    "a process closes its consumer and makes another one": made_anew,
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
    "a member is killed between its adoption and its callback": lambda: killed_as_it_adopts(),
    "a member has left as its kill comes": lambda: killed_too_late(told=False),
    "a member that was told to leave has ended as its kill comes": lambda: killed_too_late(told=True),
    **rare.RARE,
    "a transaction of a member that was killed": killed_in_a_transaction,
    "a subscription to a pattern": lambda: rare.subscribed().change(
        "admin_change", set_(subscription={"pattern": "t.*"})),
    "an error that is not fatal": lambda: went_on(fatal=False),
    "aiokafka's members leave without a callback": lambda: as_client(ended(), "aiokafka", "b").drop(
        "revoke_begin", member="b").drop("revoke_end", member="b"),
    "a service's members leave without a callback": lambda: of_a_service(ended(), "b").drop(
        "revoke_begin", member="b").drop("revoke_end", member="b"),
    "a service's members end without a stop": lambda: of_a_service(ended(), "b").drop("stop", member="b"),
    "a service has several processes": lambda: as_process(of_a_service(ended(), "a"), "consume", pid=2),
    "a service chooses its client id": lambda: of_a_service(ended(), "d").change(
        "generation_committed", of_member("d", client_id="x")),
    "a static member chooses its client id": lambda: Story().start("a", "b", static=True).round().change(
        "generation_committed", of_member("a", client_id="x")),
    "nothing is lost for nothing": nothing_lost,
    "another client's loss is not judged": lambda: as_client(lost_for_nothing(), "aiokafka", "b"),
    "a loss is told in no generation": lambda: rare.lost().change("lost_begin", set_(generation=-1)).change(
        "lost_end", set_(generation=-1)),
    "another client's rebalance timeout is its own": lambda: as_client(ended(), "aiokafka", "a").change(
        "generation_committed", of_member("a", rebalance_timeout_ms=1)),
    "the coordinator's session timeout is not told": lambda: ended().change(
        "generation_committed", of_member("a", session_timeout_ms=None)),
    "a member does not tell its timeouts": lambda: ended().change(
        "start", set_(config={"assignors": ["range"], "heartbeat_interval_ms": HEARTBEAT_MS}), member="a"),
    "another member assigned in vain": assigned_in_vain,
    "a client does not tell its protocol": lambda: ended().change("generation", set_(protocol=""), nth=0),
    "a kill has not ended as the history does": lambda: churn().drop("fault_end", member="c"),
    "two faults of the network at once": lambda: told_open(told_open(churn())),
    "both counts are seen while a topic grows": lambda: grows(4, 5, 4, 5, after=(5, 5)),
    "a refused record was written": lambda: rare.refused().change("consume", further(1)),
    "an end behind a refused record": lambda: rare.refused().change("step", first_offset(1), name="read_back"),
    "an end that was asked for as the record was acknowledged": lambda: ended_early(0),
    "records of an earlier run": of_an_earlier_run,
    "the broker's clock goes back a little": lambda: appended(ended(), 1000, 900),
    "a commit is answered for a part": lambda: answered_in_part(ended(), logged=False),
    "a position is committed once more": lambda: again(ended(), "offset_committed", 500, nth=-1),
    "a member does not tell its commits": silent_commits,
    "a service's output names nobody": lambda: of_a_service(rare.aborted()).change(
        "read_back", lambda data: data.pop("author"), nth=0),
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


def killed_as_it_adopts() -> Story:
    """b is killed after it adopted a generation, and is told its partitions before the signal reaches it."""
    story = Story().start("a", "b").round(stable=False)
    at = story._find("assigned_begin", {"member": "b"})[0]
    start = story.events[at]
    begin = story.tell("fault_begin", member="b", fault="kill", target="b")
    story.events.remove(begin)
    story.events.insert(at, replace(begin, mono_ns=start.mono_ns - 1, ts_ns=start.ts_ns - 1))
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


def answered_for_nothing(story: Story, service: str, member: str) -> Story:
    """A process of a service reads and commits first; then the member is answered a commit that it had not begun."""
    of_a_service(story, service)
    assert next(e for e in story.events if e.kind == "commit_ok").member == service
    at = story._find("commit_ok", {"member": member})[0]
    story.events[at] = replace(story.events[at], data={"offsets": [{"topic": "t", "partition": 0, "offset": 77}]})
    return story


def of_one_partition(data: dict[str, Any]) -> None:
    data["offsets"] = data["offsets"][:1]


def of_another_group(data: dict[str, Any]) -> None:
    data["author"] = {**data["author"], "group": "another"}


def by_transaction(number: int) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.update(author={**data["author"], "transaction": number})


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


def one_commit(offset: int = 1) -> Story:
    """a reads one record, and commits up to that offset: each event a millisecond after the one before."""
    story = Story("range", {"t": 1}).start("a").round().wait(1000).records(1).consume()
    for kind in ("commit_begin", "commit_ok"):
        story.change(kind, lambda data: data.update(offsets=[{**data["offsets"][0], "offset": offset}]))
    return story.change("offset_committed", set_(offset=offset))


def broken(story: Story, law: str) -> list[str]:
    return [violation.message for violation in check(story.history).violations if violation.law == law]


@pytest.mark.parametrize(("by_ns", "beyond"), [(-1, 0), (0, 1)])
def test_a_commit_beyond_ones_reading_is_granted_if_the_log_had_it_before_that(by_ns: int, beyond: int) -> None:
    story = one_commit(2)
    begin = next(e for e in story.events if e.kind == "commit_begin")
    logged = story.events[story._find("offset_committed", {})[0]]
    story.shift("offset_committed", (begin.mono_ns + by_ns - logged.mono_ns) / MS)

    assert len([m for m in broken(story, "C5") if "although it had read only up to" in m]) == beyond


def test_where_a_client_begins_it_has_read_nothing() -> None:
    """The log has offset 0, and a commits 1 of a partition of which it read nothing."""
    story = Story("range", {"t": 2}).start("a").round().records(2)
    story.tell("offset_committed", "coordlog", topic="t", partition=0, offset=0)
    row = {"topic": "t", "partition": 1, "first": 0, "last": 0, "count": 1, "bytes": 1}
    story.tell("consume", "member", "a", offsets=[row])
    story.tell("commit_begin", "member", "a", offsets=[{"topic": "t", "partition": 0, "offset": 1}])

    assert any("although it had read only up to 0" in message for message in broken(story, "C5"))


@pytest.mark.parametrize(
    ("fault", "judged"), [("kill", True), ("stall", True), ("pause", True), ("cut", False), ("broker_kill", False)]
)
def test_only_a_fault_of_the_network_or_of_a_broker_makes_a_client_send_a_commit_twice(
    fault: str, judged: bool
) -> None:
    """A commit is in the log once more, behind another."""
    story = Story("range", {"t": 1}).start("a", "b").round().records(1).consume().records(1).consume()
    story.tell("fault_begin", member="b", fault=fault, target="b")
    again(story, "offset_committed", 5000, nth=0)

    verdict = check(story.history)

    assert (len(broken(story, "C7")) == 1) is judged
    twice = "a fault of the network or of a broker may have made a client send a commit twice"
    assert verdict.skipped.get("C7", {}) == ({} if judged else {twice: 1})


def test_a_broker_that_was_hit_may_have_kept_any_member_from_its_coordinator() -> None:
    story = Story().start("a", "b").round()
    for edge in ("begin", "end"):
        story.tell(f"fault_{edge}", fault="broker_restart", target="node 1")

    verdict = check(lost_again(story).history)

    assert verdict.skipped["R7"] == {"a fault may have kept the member from its coordinator": 1}


@pytest.mark.parametrize(
    ("change", "broken_laws"), [("create_topic", set()), ("delete_topic", set()), ("add_partitions", {"G5"})]
)
def test_members_may_join_for_a_topic_that_came_or_went(change: str, broken_laws: set[str]) -> None:
    """b joins with a topic more than it started with."""
    story = Story().start("a", "b").round()
    story.tell("admin_change", change=change, target="w", topics={"w": 1})
    more = encode_subscription(Subscription(("t", "u", "w"))).hex()
    story.round().change("generation_committed", of_member("b", subscription=more))

    assert {v.law for v in check(story.history).violations} & {"G5"} == broken_laws


def test_a_record_without_a_number_hides_none_that_lies_in_the_wrong_order() -> None:
    """Of the first partition's records one has no number; in the last partition two of them have been swapped."""
    story = Story("range", {"t": 2}).start("a").round().records(8)
    story.change("ack", set_(value_id="by-hand"), nth=0, partition=0)
    story.change("ack", set_(value_id="p-3"), nth=0, partition=1).change(
        "ack", set_(value_id="p-1"), nth=1, partition=1
    )

    assert len(broken(story, "K2")) == 1


def test_a_service_ends_its_transactions_as_it_likes() -> None:
    story = of_a_service(rare.aborted(), "b").drop("commit_ok", member="b", nth=0)

    assert not [message for message in broken(story, "X2") if "never ended" in message]


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


@pytest.mark.parametrize(
    "error",
    [
        *("CommitFailedError: rejoin", "[Error 22] IllegalGenerationError", "[Error 25] UnknownMemberIdError"),
        *("[Error 82] FencedInstanceIdError", "RebalanceInProgressError: [Error 27]", "FencedMemberEpochException: m"),
        *("StaleMemberEpochException: m", "ProducerFencedException: p", "[Error 47] InvalidProducerEpochError"),
        *("KafkaError{code=ILLEGAL_GENERATION,val=22}", "KafkaError{code=UNKNOWN_MEMBER_ID,val=25}"),
        *("KafkaError{code=FENCED_INSTANCE_ID,val=82}", "KafkaError{code=REBALANCE_IN_PROGRESS,val=27}"),
        *("KafkaError{code=FENCED_MEMBER_EPOCH,val=110}", "KafkaError{code=STALE_MEMBER_EPOCH,val=113}"),
        *("the group is undergoing a rebalance, so a re-join is needed", "kafka server: stale member epoch"),
    ],
)
def test_a_refusal_is_known_by_the_words_of_each_client(error: str) -> None:
    """By the name of a class, the name of a code, or a sentence."""
    verdict = check(answered(ended(), error).history)

    assert "was refused, and is in the log" in " ".join(broken.message for broken in verdict.violations)


def revoked_first(client: str, after_ms: float = 1) -> Story:
    """In a cooperative rebalance a revokes, and then adopts the generation of which that is.

    Args:
        after_ms: From the commit of that generation to the revocation.
    """
    story = Story("cooperative-sticky", {"t": 2}).start("a").round().wait(1000).start("b").round(stable=False)
    committed = next(e for e in story.events if e.kind == "generation_committed" and e.data["generation"] == 2)
    for number, kind in enumerate(("revoke_begin", "revoke_end", "generation")):
        told = [e for e in story.events if e.kind == kind and e.member == "a" and e.data["generation"] == 2][-1]
        by_ms = (committed.mono_ns - told.mono_ns) / MS + after_ms + number / 10
        at = story.events.index(told)
        ns = told.mono_ns + round(by_ms * MS)
        story.events[at] = replace(told, mono_ns=ns, ts_ns=ns)
    story.events.sort(key=lambda e: e.mono_ns)
    return as_client(story, client, "a")


def test_librdkafka_revokes_in_the_generation_that_it_adopts_next() -> None:
    assert broken(revoked_first("confluent-kafka"), "R8") == []
    assert broken(revoked_first("kafka-python"), "R8") == [
        "a gave partitions up in generation 2, which it had not adopted"
    ]


@pytest.mark.parametrize("generation", [9, -1])
def test_librdkafka_revokes_in_no_generation_that_the_log_lacks(generation: int) -> None:
    story = revoked_first("confluent-kafka")
    for kind in ("revoke_begin", "revoke_end"):
        story.change(kind, set_(generation=generation), member="a", generation=2)

    assert broken(story, "R8") == [f"a gave partitions up in generation {generation}, which it had not adopted"]


@pytest.mark.parametrize(("number", "left", "broken_laws"), [(2, True, []), (2, False, ["R8"]), (3, True, ["R8"])])
def test_librdkafka_may_revoke_in_a_generation_that_no_leader_completed(
    number: int, left: bool, broken_laws: list[str]
) -> None:
    """All members joined it, and left before its leader had assigned."""
    story = Story().start("a", "b").round().wait(SESSION_MS / 2)
    if left:
        story.stop("a")
    story.stop("b")
    for kind in ("revoke_begin", "revoke_end"):
        story.change(kind, set_(generation=number), member="b")

    verdict = check(as_client(story, "confluent-kafka", "b").history)
    assert [violation.law for violation in verdict.violations] == broken_laws
    assert ("R8" in verdict.skipped) is not bool(broken_laws)


@pytest.mark.parametrize(("after_ms", "broken_laws"), [(-100, 0), (-101, 1)])
def test_librdkafka_revokes_once_the_generation_is_in_the_log(after_ms: float, broken_laws: int) -> None:
    assert len(broken(revoked_first("confluent-kafka", after_ms), "R8")) == broken_laws
