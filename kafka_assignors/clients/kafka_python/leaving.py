"""Leave a group without a stop: a member reads on until the whole group has joined, then the others take over at once.

The other members learn of a ``close`` by their next heartbeats, up to ``heartbeat_interval_ms`` (3 s by default) later.
Until then nobody reads the partitions. `leave` takes two rebalances instead:

1. The member joins again, and goes on reading and committing while the others join.
2. As soon as the group has joined, the member stops reading, commits, and leaves, whatever it was assigned. The others
   have adopted that round at the same moment and send early heartbeats (`private.beating.Beats`), so they learn of the
   leave within tens of milliseconds.

A member that leads its group joins without topics: its assignor then gives its partitions to others, for instance to a
member that has just joined, and withholds them for that round because the member still holds them. Under another leader
it joins as it is, because not every leader does so: librdkafka's gives these partitions to others at once, while they
are still read (2.16), and Java's overlooks a member without topics that comes first in its map (4.3.0,
``AbstractStickyAssignor.allSubscriptionsEqual``).
"""

from __future__ import annotations

import functools
import math
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from kafka.errors import CommitFailedError, KafkaError

from ...errors import ConfigError, KafkaAssignorsError
from ..fact_log import log
from . import private
from .commits import RETRY_S, Offsets, commits_of
from .guard import guard_coordinator

Records = Mapping[Any, list[Any]]
"""The result of ``poll``: topic-partition -> records."""

END_S = 1.0
"""Time limit of each request at the end: the last commit, the leave, the close."""
_POLL_S = 0.1
_BATCH_S = 0.05
"""The caller's work on one batch should not take longer: the group's assignment is adopted between two batches."""
_FIRST_BATCH = 10

_leaving: weakref.WeakSet[Any] = weakref.WeakSet()


def leave(consumer: Any, timeout_s: float = 30.0, *, commit: bool = True) -> Iterator[Records]:
    """Hand a consumer's partitions over to its group, and close it. Call it where you would call ``poll`` again.

    ::

        for records in leave(consumer, timeout_s=20):   # after SIGTERM: read on until the others take over
            process(records)

    The loop ends when the consumer is closed. A batch counts as processed once the loop asks for the next one; what
    ``poll`` returned before the call counts as processed, too. Only processed records are committed. If the loop is
    left early, by ``break`` or by an exception, the consumer leaves at once and commits without the last batch.

    Without a stop for the others: the assignor is cooperative (ours, or kafka-python's own). An eager member, and one
    without partitions, commits and leaves as ``close()`` does, and nothing is yielded. So does any member when the time
    is up, because another one does not join. A consumer without a subscription is closed. A static member leaves for
    good: for a restart within its session, call ``close()``.

    Args:
        consumer: A ``KafkaConsumer`` of kafka-python; closed at the end, also after an error.
        timeout_s: How long it may read on, seconds. What follows takes 1 s each at most: the last commit, the leave.
        commit: Commit what was processed, whatever ``enable_auto_commit`` says. False: commit nothing; for offsets that
            are kept elsewhere, or that a transaction commits.

    Returns:
        Yields what ``poll`` returns, never empty; in small batches, so that the work on one takes about 50 ms.

    Raises:
        ConfigError: No ``KafkaConsumer``; a negative time; the consumer is leaving already; or a thread is in its
            ``poll``: call `leave` in the thread that polls, not in a signal handler.
        KafkaError: From ``poll``, or an error in a rebalance callback; the consumer is closed before.
    """
    private.consumer.coordinator_of(consumer)
    may_leave(consumer, timeout_s, consumer in _leaving and not private.consumer.is_closed(consumer))
    return _left(consumer, float(timeout_s), commit)


def may_leave(consumer: Any, timeout_s: float, leaving: bool) -> None:
    """Check a call of `leave`, and raise its `ConfigError`s; `leaving`: an earlier one is not over."""
    if not isinstance(timeout_s, (int, float)) or isinstance(timeout_s, bool) or not 0 <= timeout_s < math.inf:
        raise ConfigError(f"timeout_s must be seconds from 0, not {timeout_s!r}")
    if leaving:
        raise ConfigError("this consumer is leaving already; go on with the loop over the first leave()")
    if private.consumer.polls(consumer):
        raise ConfigError(
            "a thread is in this consumer's poll(); call leave() in that thread, after poll() has returned. A signal "
            "handler only sets a flag"
        )


def _left(consumer: Any, timeout_s: float, commit: bool) -> Iterator[Records]:
    may_leave(consumer, timeout_s, consumer in _leaving and not private.consumer.is_closed(consumer))
    if private.consumer.is_closed(consumer):
        return
    _leaving.add(consumer)
    coordinator = private.consumer.coordinator_of(consumer)
    if not in_group(coordinator):
        consumer.close()
        return
    departure = Departure(coordinator, private.consumer.fetcher_of(consumer), commit=commit)
    private.consumer.forget_iterator(consumer)
    consumer.poll = _only_here(consumer.poll)
    deadline = time.monotonic() + timeout_s
    try:
        if timeout_s and departure.hands_over:
            departure.begin()
            yield from _read(consumer, departure, deadline)
    finally:
        try:
            if not private.consumer.is_closed(consumer):
                departure.end()
        finally:
            consumer.close(autocommit=False, timeout_ms=1000 * END_S)


def _read(consumer: Any, departure: Departure, deadline: float) -> Iterator[Records]:
    pace = Pace(int(consumer.config["max_poll_records"]))
    while departure.reads and not private.consumer.is_closed(consumer) and (left := deadline - time.monotonic()) > 0:
        try:
            records = consumer.poll(timeout_ms=1000 * min(left, _POLL_S), max_records=pace.size)
        except Left:
            return
        except KafkaError as error:
            if not private.consumer.is_retriable(error):
                raise
            continue
        if records:
            begun = time.monotonic()
            yield records
            pace.took(sum(map(len, records.values())), time.monotonic() - begun)
            departure.processed()


def _only_here(poll: Callable[..., Any]) -> Callable[..., Any]:
    """``poll``, in this thread alone: kafka-python's consumers are not made for two."""
    here = threading.get_ident()

    @functools.wraps(poll)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != here:
            raise ConfigError("this consumer leaves its group in another thread, which alone may poll it")
        return poll(*args, **kwargs)

    return guarded


class Left(KafkaAssignorsError):
    """Raised by the group part of ``poll`` once the member has left its group."""


class Pace:
    """How many records a batch may have (at most `most`), so that the caller's work on it takes about 50 ms."""

    def __init__(self, most: int) -> None:
        self.size, self._most = min(_FIRST_BATCH, most), most

    def took(self, records: int, seconds: float) -> None:
        """The caller has worked on a batch."""
        self.size = max(1, min(self._most, int(_BATCH_S * records / max(1e-6, seconds))))


def in_group(coordinator: Any) -> bool:
    """Whether a `Departure` can be made: of a member of a group, whose kafka-python has all private names."""
    able = not private.names.lacks(coordinator, (*private.names.GUARD, *private.names.LEAVE))
    return able and private.membership.is_subscribed(coordinator) and not private.membership.is_fenced(coordinator)


class Departure:
    """How a cooperative member leaves: it joins again, reads on, and leaves after that round.

    `fetcher` is None if it isn't known, or fetches nothing.
    """

    def __init__(self, coordinator: Any, fetcher: Any, *, commit: bool) -> None:
        self._coordinator, self._commits = coordinator, commit
        self._member_id = private.membership.member_id(coordinator)
        self._processed: dict[Any, Any] = {}
        self._committed: dict[Any, Any] = {}
        self._leads = False
        self._going = self._gone = False
        private.consumer.stop_auto_commits(coordinator)
        guard_coordinator(coordinator, fetcher)
        self._beside = commits_of(coordinator)
        self.processed()

    @property
    def hands_over(self) -> bool:
        """Whether the member has partitions to hand over, and may keep them during a rebalance."""
        return private.membership.is_cooperative(self._coordinator) and self.reads

    @property
    def reads(self) -> bool:
        """Whether the member still owns partitions."""
        coordinator = self._coordinator
        return (
            not self._going
            and not private.membership.is_fenced(coordinator)
            and bool(private.membership.owned(coordinator))
        )

    def processed(self) -> None:
        """Everything that was handed out counts as processed."""
        self._processed.update(private.membership.consumed(self._coordinator))

    def begin(self) -> None:
        """Commit what was processed, and let the next ``poll`` join."""
        coordinator = self._coordinator
        self._leads = private.membership.leads(coordinator)
        try:
            # Else one could arrive after those of another connection.
            private.requests.await_commits(coordinator, END_S)
        except KafkaError as error:
            log.debug("leave: %s", error)
        private.wrapping.wrap(
            coordinator,
            protocols=self._joining,
            poll=self._polling,
            commit=self._committing,
            commit_later=self._committing_later,
            adopt=self._adopting,
        )
        private.requests.run(coordinator, self._commit_processed)
        private.joining.request_rebalance(coordinator)

    def end(self) -> None:
        """Commit what was processed and leave, unless that is done."""
        private.requests.run(self._coordinator, self._go)

    async def _go(self) -> None:
        if self._going:  # an interrupted poll goes on with it, on this thread
            while not self._gone:
                await private.requests.sleep(self._coordinator, RETRY_S)
            return
        self._going = True
        if not private.membership.is_fenced(self._coordinator):
            await self._commit_processed()
        await self._leave()

    async def _leave(self) -> None:
        # A member whose generation is over, or that was evicted, may still be in the group under this id.
        member_id = private.membership.member_id(self._coordinator) or self._member_id
        try:
            await private.requests.give_up(self._coordinator)
        finally:
            try:
                await private.requests.leave_group(self._coordinator, member_id, END_S)
            except KafkaError as error:
                log.warning("the group learns by the end of the member's session that it has left: %s", error)
            finally:
                self._gone = True

    async def _commit_processed(self) -> None:
        owned = private.membership.owned(self._coordinator)
        # A request less while the others wait: a caller may have committed each batch.
        due = {tp: at for tp, at in self._processed.items() if tp in owned and self._committed.get(tp) != at}
        if not self._commits or not due:
            return
        try:
            await self._commit(due, END_S)
        except KafkaError as error:
            names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(due))
            log.warning(
                "offsets of %s are not committed, so the next owner reads these records again: %s", names, error
            )

    async def _commit(self, offsets: Offsets, timeout_s: float) -> None:
        await self._beside.commit(offsets, timeout_s, private.membership.member_id(self._coordinator))
        self._processed.update(offsets)
        self._committed.update(offsets)

    def _joining(self, coordinator: Any, protocols: Callable[[], Any]) -> Any:
        return private.joining.joining_to_leave(coordinator, protocols(), topics=not self._leads)

    async def _adopting(  # as kafka-python calls it
        self, _coordinator: Any, joined: Callable[..., Awaitable[Any]],
        generation: int, member_id: str, protocol: str, assignment: bytes,
    ) -> None:  # fmt: skip
        """The group has joined: commit, revoke, leave. A join that was under way before counts as well."""
        if self._going:
            return
        self._going = True
        try:
            await self._commit_processed()
            # librdkafka's leader has no entry for a member without topics, and the coordinator sends zero bytes.
            await joined(generation, member_id, protocol, assignment or private.joining.NOTHING)
        finally:
            await self._leave()

    def _polling(self, _coordinator: Any, poll: Callable[..., Any], timeout_ms: float | None = None) -> Any:
        if self._going:
            raise Left
        done = poll(timeout_ms=timeout_ms)
        if self._going:
            raise Left
        return done

    def _committing(self, coordinator: Any, _commit: Any, offsets: Offsets, timeout_ms: float | None = None) -> None:
        """The caller's commit; kafka-python refuses it during a join."""
        limit_ms = coordinator.config["request_timeout_ms"] if timeout_ms is None else timeout_ms
        private.requests.run(coordinator, self._commit_for_caller, offsets, limit_ms / 1000)

    def _committing_later(
        self, coordinator: Any, _commit: Any, offsets: Offsets, callback: Callable[[Offsets, Any], None] | None = None
    ) -> Any:
        return private.requests.commit_later(coordinator, self._commit_for_caller, offsets, callback)

    async def _commit_for_caller(self, offsets: Offsets, timeout_s: float = END_S) -> None:
        try:
            await self._commit(offsets, timeout_s)
        except KafkaError as error:
            if private.consumer.is_retriable(error):
                raise
            raise CommitFailedError(f"not committed, because the member is out of its group: {error}") from error
