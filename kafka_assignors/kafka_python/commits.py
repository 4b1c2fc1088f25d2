"""Lets a cooperative ``KafkaConsumer`` commit while its group rebalances: mends kafka-python 3.0.12 from outside.

From the moment when it joins until it learns its assignment, kafka-python refuses every commit, also of partitions that
the member keeps (getsentry/arroyo#168). Here ``commit`` first finishes the rebalance, as ``poll`` would, callbacks
included; ``commit_async`` is held until ``poll`` has. Then what the member still owns is committed, and what it doesn't
is named by a ``CommitFailedError``: its next owner reads that again. A member that was evicted meanwhile commits
nothing, even if it gets the same partitions back: another member may have committed further.

Source: kafka-python 3.0.12 ``kafka/coordinator/consumer.py``, ``_send_offset_commit_request``; Java's
``KafkaConsumer.commitSync``, which tells its caller to poll and to try again (KIP-429).
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from kafka.errors import CommitFailedError
from kafka.future import Future

from . import private

_kept: weakref.WeakSet[Any] = weakref.WeakSet()
Offsets = Mapping[Any, Any]
"""Topic-partition -> what to commit."""


def keep_commits(coordinator: Any) -> None:
    """Do it for a consumer's coordinator, once; one that is built in another way is left alone.

    Nothing changes under an eager protocol, where a member that joins owns nothing.
    """
    if coordinator not in _kept and not private.lacks_for_commits(coordinator):
        _kept.add(coordinator)
        held = _Held()
        private.wrap_commits(
            coordinator,
            sync=_finishing,
            asynchronous=functools.partial(_holding, held),
            joined=functools.partial(_flushing, held),
        )


class _Commit(NamedTuple):
    """An asynchronous commit that waits for the end of a rebalance."""

    member_id: str
    offsets: Offsets
    callback: Callable[[Offsets, Any], None] | None
    answer: Future


class _Held:
    """The commits of one consumer that wait."""

    def __init__(self) -> None:
        self.commits: list[_Commit] = []
        self.send: Callable[..., Any] | None = None  # the client's own asynchronous commit

    def flush(self, coordinator: Any) -> None:
        """Send them, in order, once no rebalance is under way."""
        if self.send is None or private.rebalancing(coordinator):
            return
        due, self.commits = self.commits, []
        for commit in due:
            mine, lost = _split(coordinator, commit.member_id, commit.offsets)
            error = _lost(lost) if lost else None
            if error is not None:
                (commit.callback or private.default_callback(coordinator))(lost, error)
            if mine:
                _answer(commit.answer, self.send(mine, commit.callback), error)
            elif error is not None:
                commit.answer.failure(error)


def _answer(to: Future, sent: Any, error: Exception | None) -> None:
    sent.add_callback(lambda value: to.success(value) if error is None else to.failure(error))
    sent.add_errback(to.failure)


def _holding(held: _Held, coordinator: Any, commit: Callable[..., Any]) -> Callable[..., Any]:
    """An asynchronous commit during a rebalance waits."""
    held.send = commit

    @functools.wraps(commit)
    def kept(offsets: Offsets, callback: Callable[[Offsets, Any], None] | None = None) -> Any:
        if not private.rebalancing(coordinator):
            return commit(offsets, callback)
        answer = Future()
        held.commits.append(_Commit(private.member_id(coordinator), dict(offsets), callback, answer))
        return answer

    return kept


def _flushing(held: _Held, coordinator: Any, joined: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """What waited is sent as soon as the rebalance is over, also if a callback raised."""

    @functools.wraps(joined)
    async def kept(*args: Any, **kwargs: Any) -> Any:
        try:
            return await joined(*args, **kwargs)
        finally:
            held.flush(coordinator)

    return kept


def _finishing(coordinator: Any, commit: Callable[..., Any]) -> Callable[..., Any]:
    """A commit during a rebalance finishes that first."""

    @functools.wraps(commit)
    def kept(offsets: Offsets, timeout_ms: float | None = None) -> Any:
        if not private.rebalancing(coordinator):
            return commit(offsets, timeout_ms=timeout_ms)
        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        member_id = private.member_id(coordinator)
        if not private.finish_join(coordinator, timeout_ms):
            return commit(offsets, timeout_ms=1)  # which raises, and says that it is rebalancing
        mine, lost = _split(coordinator, member_id, offsets)
        if mine:
            commit(mine, timeout_ms=None if deadline is None else max(1.0, 1000 * (deadline - time.monotonic())))
        if lost:
            raise _lost(lost)
        return None

    return kept


def _split(coordinator: Any, member_id: str, offsets: Offsets) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """What a member may still commit, and what it may not: what went to others, and all if it was out meanwhile."""
    owned = private.owned(coordinator) if private.member_id(coordinator) == member_id else ()
    mine = {tp: offset for tp, offset in offsets.items() if tp in owned}
    return mine, {tp: offset for tp, offset in offsets.items() if tp not in mine}


def _lost(lost: Offsets) -> CommitFailedError:
    names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(lost))
    return CommitFailedError(
        f"not committed, as the rebalance gave them to other members: {names}; their next owner begins at what was "
        "committed before. What is still this consumer's was committed. To commit all before a rebalance takes it, "
        "commit in on_partitions_revoked"
    )
