"""Commits while a group rebalances, of a real consumer's coordinator that never reaches a broker.

`tests/integration/members/test_commits.py` shows it live.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.base import Generation
from kafka.errors import CommitFailedError, RebalanceInProgressError
from kafka.future import Future
from kafka.structs import MemberState, OffsetAndMetadata, TopicPartition

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor
from kafka_assignors.kafka_python.commits import keep_commits

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
BOTH = {A: OffsetAndMetadata(5, "", -1), B: OffsetAndMetadata(6, "", -1)}


class Group:
    """A member of a group of which a test says how its rebalance ends.

    Args:
        consumer: Owns `A` and `B`.
    """

    def __init__(self, consumer: Any) -> None:
        self.coordinator = consumer._coordinator
        self.committed: list[dict[Any, int]] = []
        self.owned, self.member_id, self.in_time = {A, B}, "m-1", True
        self.coordinator.commit_offsets_sync = self._commit
        self.coordinator.commit_offsets_async = self._commit_async
        self.coordinator.ensure_active_group = self._finish
        self.coordinator._on_join_complete_async = self._joined
        keep_commits(self.coordinator)

    def rebalance(self) -> None:
        self.coordinator.state = MemberState.REBALANCING

    def _commit(self, offsets: Any, timeout_ms: Any = None) -> None:
        if self.coordinator.rebalance_in_progress():
            raise RebalanceInProgressError
        self.committed.append({tp: each.offset for tp, each in offsets.items()})

    def _commit_async(self, offsets: Any, callback: Any = None) -> Future:
        answer = Future()
        try:
            self._commit(offsets)
        except RebalanceInProgressError as error:
            answer.failure(error)
        else:
            answer.success(None)
        if callback is not None:
            callback(offsets, answer.exception or answer.value)
        return answer

    def _finish(self, timeout_ms: Any = None) -> bool:
        if self.in_time and self.coordinator.rebalance_in_progress():
            self.coordinator._generation = Generation(8, self.member_id, "cooperative-sticky")
            self.coordinator.state = MemberState.STABLE
            asyncio.run(self.coordinator._on_join_complete_async())
        return self.in_time

    async def _joined(self) -> None:
        self.coordinator._subscription.assign_from_subscribed(sorted(self.owned))


@pytest.fixture
def group() -> Iterator[Callable[..., Group]]:
    made, silent = [], socket.create_server(("127.0.0.1", 0))

    def make(strategy: Any = CooperativeStickyAssignor) -> Group:
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        made.append(
            KafkaConsumer(
                bootstrap_servers=at, api_version=(2, 5), group_id="g", enable_auto_commit=False,
                partition_assignment_strategy=[strategy],
            )
        )  # fmt: skip
        made[-1].subscribe(["t"])
        made[-1]._coordinator._generation = Generation(7, "m-1", "cooperative-sticky")
        made[-1]._coordinator.state = MemberState.STABLE
        made[-1]._subscription.assign_from_subscribed([A, B])
        return Group(made[-1])

    yield make
    for each in made:
        each._coordinator.state = MemberState.UNJOINED
        each.close(autocommit=False, timeout_ms=100)
    silent.close()


def test_a_commit_outside_a_rebalance_is_the_clients_own(group: Callable[..., Group]) -> None:
    member = group()
    member.coordinator.commit_offsets_sync(BOTH)

    assert member.committed == [{A: 5, B: 6}]


def test_a_commit_finishes_the_rebalance_first_and_then_commits_what_is_kept(group: Callable[..., Group]) -> None:
    member = group()
    member.rebalance()
    member.coordinator.commit_offsets_sync(BOTH)

    assert member.committed == [{A: 5, B: 6}]


def test_what_went_to_others_is_named_and_the_rest_is_committed(group: Callable[..., Group]) -> None:
    member = group()
    member.owned = {A}
    member.rebalance()
    with pytest.raises(CommitFailedError, match=r"gave them to other members: t-1\."):
        member.coordinator.commit_offsets_sync(BOTH)

    assert member.committed == [{A: 5}]


def test_who_was_thrown_out_meanwhile_commits_nothing_though_it_has_got_the_same_again(
    group: Callable[..., Group],
) -> None:
    """Others may have committed further while it was out."""
    member = group()
    member.member_id = "m-2"
    member.rebalance()
    with pytest.raises(CommitFailedError, match="t-0, t-1"):
        member.coordinator.commit_offsets_sync(BOTH)

    assert member.committed == []


def test_a_rebalance_that_does_not_end_in_time_refuses_as_the_client_does(group: Callable[..., Group]) -> None:
    member = group()
    member.in_time = False
    member.rebalance()
    with pytest.raises(RebalanceInProgressError):
        member.coordinator.commit_offsets_sync(BOTH, timeout_ms=10)


def test_an_asynchronous_commit_waits_for_the_end_of_the_rebalance(group: Callable[..., Group]) -> None:
    member, told = group(), []
    member.owned = {B}
    member.rebalance()
    answer = member.coordinator.commit_offsets_async(BOTH, lambda *said: told.append(said))
    assert (member.committed, told, answer.is_done) == ([], [], False)

    member.coordinator.ensure_active_group()

    assert member.committed == [{B: 6}]
    (lost, error), (kept, value) = told
    assert (list(lost), list(kept), value) == ([A], [B], None)
    assert isinstance(error, CommitFailedError)
    assert answer.exception is error


def test_what_waited_is_committed_before_what_comes_later(group: Callable[..., Group]) -> None:
    member = group()
    member.rebalance()
    first = member.coordinator.commit_offsets_async({A: OffsetAndMetadata(3, "", -1)})
    member.coordinator.commit_offsets_sync(BOTH)

    assert member.committed == [{A: 3}, {A: 5, B: 6}]
    assert first.succeeded()


def test_an_eager_member_is_left_as_it_is(group: Callable[..., Group]) -> None:
    member = group(functools.partial(RangeAssignor))
    member.rebalance()
    with pytest.raises(RebalanceInProgressError):
        member.coordinator.commit_offsets_sync(BOTH)
