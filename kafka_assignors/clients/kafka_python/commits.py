"""Commits of a cooperative ``KafkaConsumer`` during a rebalance, which kafka-python 3.0.12 rejects.

From its join until it gets its assignment, kafka-python rejects every commit (getsentry/arroyo#168), although the
member keeps its partitions and reads on. With this module, a commit is sent at once, on a connection of its own: a
broker accepts it until all members have joined, and again once the leader has assigned. In between it is tried again.

Partitions are given up after the commits of what was read from them: an adoption waits for the commits that are under
way, and with ``enable_auto_commit`` it commits before it revokes. A ``CommitFailedError`` names partitions that a
rebalance took from the member before they could be committed: their next owner reads these records again. An evicted
member commits nothing, even if it gets the same partitions back: another one may have committed later offsets.

Source: kafka-python 3.0.12 ``kafka/coordinator/consumer.py``, ``_send_offset_commit_request``; apache/kafka 4.3.0
``ClassicGroup.validateOffsetCommit``; KIP-429.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from kafka.errors import CommitFailedError, IllegalGenerationError, KafkaError, RebalanceInProgressError
from kafka.future import Future

from ..fact_log import log
from . import private

Offsets = Mapping[Any, Any]
"""Topic-partition -> offset to commit."""
RETRY_S = 0.025
END_S = 1.0
"""The longest that an adoption or a close waits for commits."""


class CommitQueue:
    """One consumer's commits while its group rebalances, in turn: a retried commit must not overwrite a later one."""

    def __init__(self, coordinator: Any) -> None:
        self._reference = weakref.ref(coordinator)  # no consumer is kept alive
        self._last: Future | None = None
        self.giving: Collection[Any] = ()
        """The partitions owned before the assignment that is being adopted: the member's callbacks may commit them."""

    async def commit(self, offsets: Offsets, timeout_s: float, member_id: str) -> None:
        """Commit in any state of the group, retrying for `timeout_s`. `member_id` is the member's when it was asked.

        Raises:
            CommitFailedError: The member does not own some of the partitions any more; the others are committed.
            KafkaError: The coordinator's answer, or none within the time limit.
        """
        before, self._last = self._last, (mine := Future())
        try:
            if before is not None:
                await private.requests.done_within(self._coordinator, before, None)
            await self._alone(offsets, time.monotonic() + timeout_s, member_id)
        finally:
            mine.success(None)

    async def _alone(self, offsets: Offsets, deadline: float, member_id: str) -> None:
        coordinator = self._coordinator
        while True:
            due, lost = self._split(member_id, offsets)
            try:
                if due:
                    await private.requests.commit_beside(coordinator, due, max(RETRY_S, deadline - time.monotonic()))
            except KafkaError as error:
                # Not in this generation any more, or not yet in the next one.
                passes = isinstance(error, (RebalanceInProgressError, IllegalGenerationError))
                ends = private.membership.gave_up(coordinator) or time.monotonic() + RETRY_S > deadline
                if ends or not (passes or private.consumer.is_retriable(error)):
                    raise
                await private.requests.sleep(coordinator, RETRY_S)
                continue
            if lost:
                raise _lost(lost)
            return

    def _split(self, member_id: str, offsets: Offsets) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Split offsets into those that the member may commit and the rest; an evicted member may commit none."""
        here = private.membership.member_id(self._coordinator) == member_id
        owned = {*private.membership.owned(self._coordinator), *self.giving} if here else ()
        mine = {tp: offset for tp, offset in offsets.items() if tp in owned}
        return mine, {tp: offset for tp, offset in offsets.items() if tp not in mine}

    @property
    def _coordinator(self) -> Any:
        return self._reference()

    @property
    def pending(self) -> bool:
        """Whether commits are under way."""
        return self._last is not None and not self._last.is_done

    async def settle(self) -> None:
        """Wait until the commits that are under way have their answers, for at most `END_S`."""
        if self._last is not None:
            await private.requests.done_within(self._coordinator, self._last, END_S)

    async def before_revoking(self, assignment: bytes) -> None:
        """Commit what was read from partitions that an assignment takes from the member, if it commits by itself."""
        await self.settle()
        coordinator = self._coordinator
        if not private.consumer.commits_by_itself(coordinator):
            return
        kept = private.membership.partitions_of(assignment)
        due = {tp: offset for tp, offset in private.membership.consumed(coordinator).items() if tp not in kept}
        if due:
            try:
                await self.commit(due, END_S, private.membership.member_id(coordinator))
            except KafkaError as error:
                names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(due))
                log.warning("offsets of %s are not committed; their next owner reads records again: %s", names, error)


_commits: weakref.WeakKeyDictionary[Any, CommitQueue] = weakref.WeakKeyDictionary()


def commits_of(coordinator: Any) -> CommitQueue:
    """The commits of a consumer's coordinator, whose own commit methods are wrapped by the first call.

    Under an eager protocol nothing changes, because a joining member owns no partitions.
    """
    if (queue := _commits.get(coordinator)) is None:
        queue = _commits[coordinator] = CommitQueue(coordinator)
        private.wrapping.wrap(
            coordinator,
            commit=functools.partial(_committing, queue),
            commit_later=functools.partial(_committing_later, queue),
            adopt=functools.partial(_adopting, queue),
            close=functools.partial(_closing, queue),
        )
    return queue


def _committing(
    commits: CommitQueue,
    coordinator: Any,
    commit: Callable[..., Any],
    offsets: Offsets,
    timeout_ms: float | None = None,
) -> Any:
    if not (private.membership.rebalancing(coordinator) or commits.pending):
        return commit(offsets, timeout_ms=timeout_ms)
    limit_ms = private.consumer.request_timeout_ms(coordinator) if timeout_ms is None else timeout_ms
    return private.requests.run(
        coordinator, commits.commit, offsets, limit_ms / 1000, private.membership.member_id(coordinator)
    )


def _committing_later(
    commits: CommitQueue,
    coordinator: Any,
    commit: Callable[..., Any],
    offsets: Offsets,
    callback: Callable[[Offsets, Any], None] | None = None,
) -> Any:
    if not (private.membership.rebalancing(coordinator) or commits.pending):
        return commit(offsets, callback)
    limit_s = private.consumer.request_timeout_ms(coordinator) / 1000
    member_id = private.membership.member_id(coordinator)

    async def later(given: Offsets) -> None:
        await commits.commit(given, limit_s, member_id)

    return private.requests.commit_later(coordinator, later, dict(offsets), callback)


async def _adopting(  # as kafka-python calls it
    commits: CommitQueue, coordinator: Any, joined: Callable[..., Awaitable[Any]],
    generation: int, member_id: str, protocol: str, assignment: bytes,
) -> Any:  # fmt: skip
    """Offsets of records that were read are committed before partitions are revoked."""
    if not private.membership.is_cooperative(coordinator):
        return await joined(generation, member_id, protocol, assignment)
    await commits.before_revoking(assignment)
    commits.giving = frozenset(private.membership.owned(coordinator))
    try:
        return await joined(generation, member_id, protocol, assignment)
    finally:
        commits.giving = ()


def _closing(commits: CommitQueue, coordinator: Any, close: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """The member leaves after its commits."""
    private.requests.run(coordinator, commits.settle)
    close(*args, **kwargs)


def _lost(lost: Offsets) -> CommitFailedError:
    names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(lost))
    return CommitFailedError(
        f"not committed, because the rebalance gave them to other members: {names}. Their next owner starts from the "
        "offsets committed before. Partitions that this consumer still owns were committed. To commit every partition "
        "before it is revoked, commit in on_partitions_revoked"
    )
