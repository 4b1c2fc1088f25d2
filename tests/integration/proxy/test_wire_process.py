"""What the connections of a process show of its members: eager, cooperative, lost, leaving, two at a time."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import AssignedPartitions, Subscription, encode_assignment, encode_subscription
from kafka_assignors.integration.proxy.conversation import (
    BeatCall,
    CommitCall,
    ConsumerBeatCall,
    EndCall,
    JoinCall,
    LeaveCall,
    Reply,
    SentOffsets,
    SyncCall,
    TopicNames,
    Unread,
)
from kafka_assignors.integration.proxy.wire_process import Row, WireProcess

ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 22, 25, 27, 79
FENCED_MEMBER_EPOCH, TOPIC_ID = 110, UUID(int=7)


class Talk:
    """The conversations of one process, each step a millisecond after the one before."""

    def __init__(self) -> None:
        self.process, self.rows, self.ms = WireProcess(), list[Row](), 0
        self.process.opened(1)

    def ask(self, call: Any, connection: int = 1, client_id: str = "app") -> None:
        self.ms += 1
        self.rows += self.process.asked(connection, client_id, call, self.ms)

    def answer(self, call: Any, error: int = 0, **fields: Any) -> None:
        self.ms += 1
        self.rows += self.process.answered(Reply(call, error, **fields), self.ms)

    def join(
        self, member_id: str = "", owned: str = "", error: int = 0, given_id: str = "", connection: int = 1,
        client_id: str = "app", **more: Any,
    ) -> JoinCall:  # fmt: skip
        """Ask to join, and be answered with an id."""
        subscription = encode_subscription(Subscription(("t",), owned=[TopicPartition("t", int(n)) for n in owned]), 1)
        call = JoinCall(member_id, more.get("instance_id"), 10_000, 60_000, (("range", subscription),))
        self.ask(call, connection, client_id)
        self.answer(call, error, member_id=given_id or member_id, generation=1, protocol="range")
        return call

    def sync(self, member_id: str, generation: int, assigned: str, error: int = 0) -> SyncCall:
        """Ask for an assignment, and be answered with partitions of t."""
        call = SyncCall(member_id, generation)
        self.ask(call)
        partitions = {"t": list(map(int, assigned))} if assigned else {}
        self.answer(call, error, assignment=encode_assignment(AssignedPartitions(partitions)))
        return call

    def told(self, since: int = 0) -> list[str]:
        """The rows since a number of them, in short."""
        return [f"{row['kind']} {_numbers(row)}".strip() for row in self.rows[since:]]


def _numbers(row: Row) -> str:
    places = row.get("partitions", row.get("offsets", ()))
    return " ".join(f"{p['partition']}@{p['offset']}" if "offset" in p else str(p["partition"]) for p in places)


def begun() -> Talk:
    """A member that has joined by two calls (KIP-394) and was assigned two partitions."""
    talk = Talk()
    talk.join(error=MEMBER_ID_REQUIRED, given_id="a")
    talk.join("a", given_id="a")
    talk.sync("a", 1, "01")
    return talk


def test_the_first_join_tells_what_the_member_offers() -> None:
    talk = begun()

    start = talk.rows[0]
    assert (start["kind"], start["client"], start["assignors"], start["topics"]) == ("start", "wire", ["range"], ["t"])
    assert start["config"] == {
        "assignors": ["wire:range"], "session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, "client_id": "app",
    }  # fmt: skip
    assert talk.told(1) == ["generation 0 1", "assigned_begin 0 1", "assigned_end 0 1"]
    assert {row["member_id"] for row in talk.rows[1:]} == {"a"}


def test_an_eager_member_gives_up_all_when_it_joins_again() -> None:
    talk = begun()
    before, ms = len(talk.rows), talk.ms
    talk.join("a")
    talk.sync("a", 2, "0")

    assert talk.told(before) == [
        "revoke_begin 0 1", "revoke_end 0 1", "generation 0", "assigned_begin 0", "assigned_end 0",
    ]  # fmt: skip
    assert talk.rows[before]["mono_ns"] == ms + 1  # when it asked, not when it was answered
    assert talk.rows[before]["generation"] == 1


def test_a_cooperative_member_keeps_what_it_claims() -> None:
    talk = begun()
    before = len(talk.rows)
    talk.join("a", owned="01")
    talk.sync("a", 2, "0")
    assert talk.told(before) == ["generation 0", "assigned_begin", "assigned_end"]
    talk.join("a", owned="0")
    talk.sync("a", 3, "02")

    assert talk.told(before + 3) == [
        "revoke_begin 1", "revoke_end 1", "generation 0 2", "assigned_begin 2", "assigned_end 2",
    ]  # fmt: skip


def test_partitions_are_lost_once_the_coordinator_said_so() -> None:
    talk = begun()
    before, beat = len(talk.rows), BeatCall("a", 1)
    talk.ask(beat)
    talk.answer(beat, UNKNOWN_MEMBER_ID)
    talk.join(given_id="b")
    talk.sync("b", 3, "1")

    assert talk.told(before) == ["lost_begin 0 1", "lost_end 0 1", "generation 1", "assigned_begin 1", "assigned_end 1"]
    assert [row["member_id"] for row in talk.rows[before:]] == ["a", "a", "b", "b", "b"]


def test_a_member_that_joins_as_a_new_one_has_lost_its_partitions() -> None:
    talk = begun()
    before = len(talk.rows)
    talk.join(given_id="b")

    assert talk.told(before) == ["lost_begin 0 1", "lost_end 0 1"]


def test_an_answer_of_an_older_membership_tells_nothing() -> None:
    talk = begun()
    before, old = len(talk.rows), BeatCall("a", 1)
    talk.ask(old)
    talk.join("a", owned="01")
    talk.answer(old, ILLEGAL_GENERATION)  # of a heartbeat that the join has overtaken
    talk.join("a")

    assert talk.told(before) == ["revoke_begin 0 1", "revoke_end 0 1"]


def test_an_assignment_that_comes_after_the_next_join_is_not_adopted() -> None:
    talk = begun()
    talk.join("a")
    before, late = len(talk.rows), SyncCall("a", 2)
    talk.ask(late)
    talk.join("a")
    talk.answer(late, assignment=encode_assignment(AssignedPartitions({"t": [0]})))
    talk.sync("a", 3, "", error=REBALANCE_IN_PROGRESS)

    assert talk.told(before) == []


def test_a_commit_is_told_with_its_answer_of_each_partition() -> None:
    talk = begun()
    before, call = len(talk.rows), CommitCall("a", 1, {("t", 0): 5, ("t", 1): 7})
    talk.ask(call)
    talk.answer(call, errors={("t", 0): 0, ("t", 1): ILLEGAL_GENERATION})

    assert talk.told(before) == ["commit_begin 0@5 1@7", "commit_ok 0@5", "commit_fail 1@7"]
    assert talk.rows[-1]["error"] == "IllegalGenerationError"


def test_what_goes_beyond_all_that_was_sent_is_told() -> None:
    talk = Talk()
    talk.rows += talk.process.answered(SentOffsets({("t", 0): 3}), 1)  # before anybody joins
    assert talk.rows == []
    talk.join(given_id="a")
    for offsets in ({("t", 0): 3}, {("t", 0): 2, ("t", 1): 7}, {("t", 0): 9, ("t", 1): 7}):
        talk.rows += talk.process.answered(SentOffsets(offsets), 9)

    assert talk.told() == ["start", "sent 0@3", "sent 1@7", "sent 0@9"]


def test_a_transaction_commits_its_offsets_at_its_end() -> None:
    talk = begun()
    before, call = len(talk.rows), CommitCall("a", 1, {("t", 0): 5}, "tx")
    talk.ask(call)
    talk.answer(call, errors={("t", 0): 0})
    for code in (51, 0):  # the coordinator is busy with the transaction before
        end = EndCall("tx", commits=True)
        talk.ask(end)
        talk.answer(end, code)
    aborted = CommitCall("a", 1, {("t", 0): 9}, "tx")
    talk.ask(aborted)
    talk.answer(aborted, errors={("t", 0): 0})
    talk.ask(EndCall("tx", commits=False))
    talk.answer(EndCall("tx", commits=False))
    talk.ask(EndCall("tx", commits=True))

    assert talk.told(before) == ["commit_begin 0@5", "commit_ok 0@5"]


def test_a_member_that_has_left_has_stopped_when_its_process_ends() -> None:
    talk = begun()
    before, leaving = len(talk.rows), LeaveCall((("a", None),))
    commit = CommitCall("a", 1, {("t", 0): 5})
    talk.ask(commit)
    talk.ask(leaving)
    talk.answer(commit, errors={("t", 0): 0})
    talk.answer(leaving)

    assert talk.told(before) == ["commit_begin 0@5", "revoke_begin 0 1", "revoke_end 0 1", "commit_ok 0@5"]
    (stop,) = talk.process.ended()
    assert (stop["kind"], stop["mono_ns"]) == ("stop", talk.rows[-1]["mono_ns"])  # nothing comes after a stop


def test_a_member_that_leaves_and_joins_again_has_not_stopped() -> None:
    talk = begun()
    talk.ask(LeaveCall((("a", None),)))
    talk.join(given_id="b")

    assert talk.process.ended() == []
    assert begun().process.ended() == []  # it never left


def test_two_consumers_of_a_process_are_told_apart() -> None:
    talk = begun()
    talk.process.opened(2)
    talk.join(given_id="b", connection=2)

    assert [row["consumer"] for row in talk.rows] == [0, 0, 0, 0, 1]
    assert talk.rows[-1]["kind"] == "start"


def test_a_consumer_whose_connection_has_ended_joins_on_another_one() -> None:
    talk = begun()
    talk.process.closed(1)
    talk.process.opened(2)
    talk.join(given_id="b", connection=2)

    assert {row["consumer"] for row in talk.rows} == {0}
    talk.process.opened(3)
    talk.join("b", connection=3)  # with its id, wherever
    assert {row["consumer"] for row in talk.rows} == {0}


class Beats:
    """The conversations of one KIP-848 member, a millisecond each."""

    def __init__(self) -> None:
        self.names = {TOPIC_ID: "t"}
        self.process, self.rows, self.ms = WireProcess(self.names), list[Row](), 0
        self.process.opened(1)

    def beat(
        self, epoch: int, owned: str | None = None, *, error: int = 0, given: str | None = None, now: int = 0,
        answered: bool = True,
    ) -> list[str]:  # fmt: skip
        """A heartbeat at an epoch that tells what it owns, and its answer: partitions of t, and the epoch `now`."""
        before = len(self.rows)
        places = None if owned is None else frozenset(("t", int(number)) for number in owned)
        call = ConsumerBeatCall("m", epoch, None, 300_000, ("t",), None, "uniform", places)
        self.ms += 1
        self.rows += self.process.asked(1, "app", call, self.ms)
        if answered:
            self.ms += 1
            partitions = None if given is None else {TOPIC_ID: tuple(map(int, given))}
            reply = Reply(call, error, "m", now or epoch, given=partitions)
            self.rows += self.process.answered(reply, self.ms)
        return [f"{row['kind']} {_numbers(row)}".strip() for row in self.rows[before:]]


def test_a_kip_848_member_joins_reconciles_and_leaves() -> None:
    talk = Beats()

    assert talk.beat(0, "", given="", now=3) == ["start", "generation", "assigned_begin", "assigned_end"]
    config = talk.rows[0]["config"]
    assert (config["protocol"], config["assignors"]) == ("consumer", ["wire:uniform"])
    assert talk.beat(3, given="01") == ["generation 0 1", "assigned_begin 0 1", "assigned_end 0 1"]
    assert talk.rows[-1]["generation"] == 3
    assert talk.beat(3) == []
    assert talk.beat(3, given="0") == []  # it still owns 1
    assert talk.beat(3, "0", now=4, given="0") == [
        "revoke_begin 1", "revoke_end 1", "generation 0", "assigned_begin", "assigned_end",
    ]  # fmt: skip
    assert talk.beat(4, now=5) == ["generation 0", "assigned_begin", "assigned_end"]
    assert talk.beat(-1) == ["revoke_begin 0", "revoke_end 0"]
    assert [row["kind"] for row in talk.process.ended()] == ["stop"]


def test_a_kip_848_member_that_was_fenced_has_lost_what_it_owned() -> None:
    talk = Beats()
    talk.beat(0, "", given="01", now=3)

    assert talk.beat(3, error=FENCED_MEMBER_EPOCH) == []
    assert talk.beat(0, "", given="0", now=3) == [
        "lost_begin 0 1", "lost_end 0 1", "generation 0", "assigned_begin 0", "assigned_end 0",
    ]  # fmt: skip


def test_partitions_count_from_when_the_name_of_their_topic_is_known() -> None:
    talk = Beats()
    del talk.names[TOPIC_ID]

    assert talk.beat(0, "", given="01", now=3) == ["start"]
    assert talk.process.answered(TopicNames(), 10) == []
    talk.names[TOPIC_ID] = "t"
    rows = talk.process.answered(TopicNames(), 11)
    assert [(row["kind"], row["mono_ns"]) for row in rows] == [
        ("generation", 11), ("assigned_begin", 11), ("assigned_end", 11),
    ]  # fmt: skip
    assert talk.process.answered(TopicNames(), 12) == []


def test_an_answer_after_a_kip_848_member_has_left_says_nothing() -> None:
    talk = Beats()
    talk.beat(0, "", given="0", now=3)
    late = ConsumerBeatCall("m", 3, None, 300_000, None, None, None, None)
    talk.process.asked(1, "app", late, 5)
    talk.beat(-1, answered=False)

    assert talk.process.answered(Reply(late, 0, "m", 4, given={TOPIC_ID: (0, 1)}), 9) == []


def test_what_is_not_read_is_told_once() -> None:
    talk = begun()
    before = len(talk.rows)
    for _ in range(2):
        talk.ask(Unread("JoinGroup v12"))

    assert talk.told(before) == ["error"]
    assert "JoinGroup v12" in talk.rows[-1]["message"]
    call = JoinCall("a", None, 1, 1, (("range", b"\x00"),))
    talk.ask(call)
    assert "a subscription" in talk.rows[-1]["message"]
