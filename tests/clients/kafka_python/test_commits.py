"""Commits while a group rebalances, of a real consumer's coordinator that never reaches a broker.

`tests/integration/members/test_commits.py` shows it live.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as TheirAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.base import Generation
from kafka.errors import CommitFailedError, RebalanceInProgressError
from kafka.structs import MemberState, OffsetAndMetadata, TopicPartition

from kafka_assignors.clients.kafka_python import private
from kafka_assignors.clients.kafka_python.commits import commits_of
from kafka_assignors.core.wire.protocol import AssignedPartitions, encode_assignment
from tests.support.kafka_python.silent import holding, silent_consumers
from tests.support.waiting import finished, until

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
BOTH = {A: OffsetAndMetadata(5, "", -1), B: OffsetAndMetadata(6, "", -1)}


def seen(offsets: Any) -> dict[Any, int]:
    return {tp: each.offset for tp, each in offsets.items()}


class Group:
    """A member of a group whose coordinator is the test.

    Args:
        consumer: Owns `A` and `B`.
    """

    def __init__(self, consumer: Any) -> None:
        self.coordinator = consumer._coordinator
        self.story: list[Any] = []
        """Offsets that were committed, and ``"adopted"``."""
        self.refused, self.assigning = 0, threading.Event()
        self.in_callback: Any = None
        self.coordinator.commit_offsets_sync = lambda offsets, timeout_ms=None: self.story.append(seen(offsets))
        self.coordinator._on_join_complete_async = self._joined
        commits_of(self.coordinator)

    def rebalance(self) -> None:
        self.coordinator.state = MemberState.REBALANCING

    async def commit_beside(self, _coordinator: Any, offsets: Any, _timeout_s: float) -> None:
        if self.assigning.is_set():
            self.refused += 1
            raise RebalanceInProgressError
        self.story.append(seen(offsets))

    def adopt(self, *partitions: TopicPartition, member_id: str = "m-1") -> None:
        """The join ends with these partitions."""
        self.coordinator._generation = Generation(8, member_id, "cooperative-sticky")
        self.coordinator.state = MemberState.STABLE
        assignment = encode_assignment(AssignedPartitions({"t": [tp.partition for tp in partitions]}))
        self.coordinator._net.run(
            self.coordinator._on_join_complete_async, 8, member_id, "cooperative-sticky", assignment
        )

    async def _joined(self, _generation: int, _member_id: str, _protocol: str, assignment: bytes) -> None:
        self.story.append("adopted")
        self.coordinator._subscription.assign_from_subscribed(sorted(private.membership.partitions_of(assignment)))
        if self.in_callback is not None:
            await self.in_callback()


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Group]]:
    with silent_consumers() as make:

        def made(strategy: Any = TheirAssignor, auto: bool = False) -> Group:
            one = holding(make(strategy, enable_auto_commit=auto), A.partition, B.partition)
            one._coordinator.state = MemberState.STABLE
            member = Group(one)
            monkeypatch.setattr(private.requests, "commit_beside", member.commit_beside)
            return member

        yield made
        for each in make.made:  # type: ignore[attr-defined]
            each._coordinator.state = MemberState.UNJOINED


def test_a_commit_outside_a_rebalance_is_the_clients_own(group: Callable[..., Group]) -> None:
    member = group()
    member.coordinator.commit_offsets_sync(BOTH)

    assert member.story == [{A: 5, B: 6}]


def test_a_commit_does_not_wait_for_the_members_that_still_join(group: Callable[..., Group]) -> None:
    member, told = group(), []
    member.rebalance()
    member.coordinator.commit_offsets_sync(BOTH)
    later = member.coordinator.commit_offsets_async({A: OffsetAndMetadata(7, "", -1)}, lambda *said: told.append(said))
    until(lambda: later.is_done, "the asynchronous one is over")

    assert member.story == [{A: 5, B: 6}, {A: 7}]
    member.coordinator._invoke_completed_offset_commit_callbacks()
    assert told == [({A: OffsetAndMetadata(7, "", -1)}, None)]


def test_between_the_joins_and_the_assignment_it_is_tried_again(group: Callable[..., Group]) -> None:
    member = group()
    member.rebalance()
    member.assigning.set()
    committing = threading.Thread(target=member.coordinator.commit_offsets_sync, args=(BOTH,))
    committing.start()
    until(lambda: member.refused >= 2, "it is tried again")
    member.assigning.clear()
    finished(committing.join, 10)

    assert member.story == [{A: 5, B: 6}]


def test_nothing_is_revoked_before_the_commits_under_way(group: Callable[..., Group]) -> None:
    member = group()
    member.rebalance()
    member.assigning.set()
    answer = member.coordinator.commit_offsets_async(BOTH)
    until(lambda: member.refused, "it is under way")
    threading.Timer(0.1, member.assigning.clear).start()
    member.adopt(A)

    assert member.story == [{A: 5, B: 6}, "adopted"]
    assert answer.succeeded()


def test_a_consumer_that_commits_by_itself_does_so_before_it_revokes(group: Callable[..., Group]) -> None:
    member = group(auto=True)
    for tp, offset in BOTH.items():
        member.coordinator._subscription.seek(tp, offset.offset)
    member.rebalance()
    member.adopt(A)
    member.rebalance()
    member.adopt(A)

    assert member.story == [{B: 6}, "adopted", "adopted"]


@pytest.mark.slow
def test_a_callback_may_commit_what_is_revoked(group: Callable[..., Group]) -> None:
    member = group()
    member.rebalance()
    member.assigning.set()
    before = member.coordinator.commit_offsets_async({A: OffsetAndMetadata(3, "", -1)})
    until(lambda: member.refused, "so that the next one waits for it")

    async def callback() -> None:
        sent = member.coordinator.commit_offsets_async(BOTH)
        member.assigning.clear()
        await sent

    member.in_callback = callback
    member.adopt(A)

    assert member.story == ["adopted", {A: 3}, {A: 5, B: 6}]
    assert before.succeeded()


def test_what_went_to_others_is_named_and_the_rest_is_committed(group: Callable[..., Group]) -> None:
    member = group()
    member.rebalance()
    member.adopt(A)
    member.rebalance()
    with pytest.raises(CommitFailedError, match=r"gave them to other members: t-1\."):
        member.coordinator.commit_offsets_sync(BOTH)

    assert member.story == ["adopted", {A: 5}]


def test_who_was_thrown_out_meanwhile_commits_nothing_though_it_has_got_the_same_again(
    group: Callable[..., Group],
) -> None:
    """Others may have committed further while it was out."""
    member = group()
    member.rebalance()
    member.assigning.set()
    answer = member.coordinator.commit_offsets_async(BOTH)
    until(lambda: member.refused, "it is under way")
    member.coordinator._generation = Generation(8, "m-2", "cooperative-sticky")
    member.assigning.clear()
    until(lambda: answer.is_done, "it ends")

    assert isinstance(answer.exception, CommitFailedError)
    assert "t-0, t-1" in str(answer.exception)
    assert member.story == []


def test_a_rebalance_that_does_not_end_in_time_refuses_as_the_client_does(group: Callable[..., Group]) -> None:
    member = group()
    member.rebalance()
    member.assigning.set()
    with pytest.raises(RebalanceInProgressError):
        member.coordinator.commit_offsets_sync(BOTH, timeout_ms=60)

    assert member.refused >= 2


def test_a_later_commit_does_not_overtake_one_that_is_tried_again(group: Callable[..., Group]) -> None:
    member = group()
    member.rebalance()
    member.assigning.set()
    first = member.coordinator.commit_offsets_async({A: OffsetAndMetadata(3, "", -1)})
    until(lambda: member.refused, "it is under way")
    member.coordinator.state = MemberState.STABLE  # the join is over, its assignment is not adopted
    threading.Timer(0.1, member.assigning.clear).start()
    member.coordinator.commit_offsets_sync(BOTH)

    assert member.story == [{A: 3}, {A: 5, B: 6}]
    assert first.succeeded()


def test_an_eager_member_is_left_as_it_is(group: Callable[..., Group]) -> None:
    member = group(RangePartitionAssignor)
    member.rebalance()
    member.coordinator.commit_offsets_sync(BOTH)

    assert member.story == [{A: 5, B: 6}], "kafka-python's own method decides"
    assert member.refused == 0
