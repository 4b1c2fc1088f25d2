"""Commits of a cooperative ``KafkaConsumer`` during a rebalance, which kafka-python 3.0.12 rejects.

From its join until it gets its assignment, kafka-python rejects every commit, even for partitions that the member keeps
(getsentry/arroyo#168). With this module, ``commit`` first completes the rebalance and its callbacks, as ``poll`` would;
``commit_async`` waits until ``poll`` has completed it. Then the offsets of partitions that the member still owns are
committed. A ``CommitFailedError`` names the others: their next owner reads these records again. A member that was
evicted meanwhile commits nothing, even if it gets the same partitions back, because another member may have committed
later offsets. A ``close`` doesn't wait for the rebalance: it sends the waiting commits, and the coordinator decides.

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
from .guard import give_up_join

_kept: weakref.WeakSet[Any] = weakref.WeakSet()
Offsets = Mapping[Any, Any]
"""Topic-partition -> offset to commit."""


def keep_commits(coordinator: Any) -> None:
    """Wrap the commits of a consumer's coordinator, once; does nothing if a private name is missing.

    Under an eager protocol nothing changes, because a joining member owns no partitions.
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
        private.wrap_close(coordinator, functools.partial(_closing, held))


class _Commit(NamedTuple):
    """An asynchronous commit that waits for the end of a rebalance."""

    member_id: str
    offsets: Offsets
    callback: Callable[[Offsets, Any], None] | None
    answer: Future


class _Held:
    """The pending asynchronous commits of one consumer."""

    def __init__(self) -> None:
        self.commits: list[_Commit] = []
        self.send: Callable[..., Any] | None = None  # the consumer's original asynchronous commit

    def flush(self, coordinator: Any) -> None:
        """Send the pending commits in order, unless a rebalance is in progress."""
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
    """An asynchronous commit during a rebalance is held."""
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
    """Held commits are sent as soon as the rebalance is over, even if a callback raised."""

    @functools.wraps(joined)
    async def kept(*args: Any, **kwargs: Any) -> Any:
        try:
            return await joined(*args, **kwargs)
        finally:
            held.flush(coordinator)

    return kept


def _closing(held: _Held, coordinator: Any, close: Callable[..., None]) -> Callable[..., None]:
    """A close, which gives the join up, sends the held commits before the member leaves."""

    @functools.wraps(close)
    def kept(*args: Any, **kwargs: Any) -> None:
        give_up_join(coordinator)
        private.run(coordinator, held.flush, coordinator)
        close(*args, **kwargs)

    return kept


def _finishing(coordinator: Any, commit: Callable[..., Any]) -> Callable[..., Any]:
    """A synchronous commit during a rebalance first completes the rebalance."""

    @functools.wraps(commit)
    def kept(offsets: Offsets, timeout_ms: float | None = None) -> Any:
        if not private.rebalancing(coordinator):
            return commit(offsets, timeout_ms=timeout_ms)
        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        member_id = private.member_id(coordinator)
        if not private.finish_join(coordinator, timeout_ms):
            return commit(offsets, timeout_ms=1)  # raises kafka-python's error for a commit during a rebalance
        mine, lost = _split(coordinator, member_id, offsets)
        if mine:
            commit(mine, timeout_ms=None if deadline is None else max(1.0, 1000 * (deadline - time.monotonic())))
        if lost:
            raise _lost(lost)
        return None

    return kept


def _split(coordinator: Any, member_id: str, offsets: Offsets) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Split offsets into those that the member may commit and the rest; an evicted member may commit none."""
    owned = private.owned(coordinator) if private.member_id(coordinator) == member_id else ()
    mine = {tp: offset for tp, offset in offsets.items() if tp in owned}
    return mine, {tp: offset for tp, offset in offsets.items() if tp not in mine}


def _lost(lost: Offsets) -> CommitFailedError:
    names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(lost))
    return CommitFailedError(
        f"not committed, because the rebalance gave them to other members: {names}. Their next owner starts from the "
        "offsets committed before. Partitions that this consumer still owns were committed. To commit every partition "
        "before it is revoked, commit in on_partitions_revoked"
    )
