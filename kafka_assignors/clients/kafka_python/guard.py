"""The guard: a ``KafkaConsumer`` of kafka-python 3.0.12 stops, or reports lost partitions, when the group evicts it."""

from __future__ import annotations

import functools
import inspect
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as TheirCooperativeAssignor
from kafka.errors import FencedInstanceIdError, IllegalStateError, KafkaError, RebalanceInProgressError

from ...core.group import NO_GENERATION
from ...core.group.order import lasting_name
from ...errors import ConfigError
from . import private
from .commits import commits_of

# Not a mark on the methods, because a tracing tool may wrap the methods before or after us.
_guarded: weakref.WeakKeyDictionary[Any, _Join] = weakref.WeakKeyDictionary()
"""Coordinator of a guarded consumer -> its last join."""


def guard(consumer: Any) -> None:
    """Make a consumer stop when it is fenced, and report lost partitions through ``on_partitions_lost``.

    Our assignors guard their consumer already. For a consumer with other assignors, call this after its creation; a
    second call does nothing. It fixes fifteen defects:

    * **A fenced static member keeps consuming.** When another process takes its ``group_instance_id``, kafka-python
      only stops its heartbeats: ``poll`` keeps returning records that another member also gets. With the guard, each
      ``poll`` and ``commit`` raises ``FencedInstanceIdError`` after the next heartbeat response, as in Java, and
      ``close`` calls ``on_partitions_lost``.
    * **A cooperative member that is evicted during a join keeps its partitions**, for example a leader whose ``assign``
      takes longer than its session. It calls ``on_partitions_revoked`` when other members already own the partitions,
      and continues at an old position with partitions that it gets back. With the guard, it calls
      ``on_partitions_lost`` before it joins again, and starts from the committed offsets. An eager member, which has
      revoked all its partitions, also drops its positions.
    * **A leader assigns before it has metadata** of topics that only other members read, so their holders lose these
      partitions for a generation. With the guard, it waits for the metadata, as Java's leader does.
    * **A broker's outage ends the consumer.** When a broker is away and the following refresh of the metadata fails,
      too, ``poll`` raises ``KafkaConnectionError``, although it is retriable and Java's ``poll`` goes on. With the
      guard, ``poll`` tries again until its timeout, and returns no records. A call without a timeout still raises;
      kafka-python 3.1 gives each call one, ``default_api_timeout_ms``.
    * **A broker that is back is not tried again**, for up to 36 s after a long outage. With the guard, it is tried once
      a second, Java's default; ``reconnect_backoff_max_ms`` sets another limit.
    * **A join that ends between two polls is thrown away.** A consumer that polls briefly and pauses
      (``poll(timeout_ms=0)``) joins again at its next poll, which costs the group a generation, and may go on so for
      ever without partitions. With the guard, the next poll adopts the assignment, and heartbeats go on until then, as
      in Java.
    * **A group waits for a member that waits for records**, up to ``fetch_max_wait_ms`` (500 ms) for each join. With
      the guard, the news of a rebalance ends that wait, as in Java.
    * **The second round of a cooperative rebalance begins with a member's next heartbeat**, up to
      ``heartbeat_interval_ms`` (3 s) after the partitions that move were revoked, as with every client. With the guard,
      it begins within tens of milliseconds: after each adoption a cooperative member sends heartbeats at once and after
      25, 50, 75, 100, 150, 250 ms … up to the interval (`private.beating.Beats`). At rest it sends no more than before.
    * **Members of an eager group stop one after the other**, each at its next heartbeat, and wait for the last one.
      With the guard, they send heartbeats at the same moments of the clock (`private.beating.Phase`).
    * **A close during a join waits for it**, 20 to 32 s if a frozen member holds the join up, and leaves a ghost in the
      group: the broker reads no LeaveGroup from a connection whose JoinGroup is not answered. With the guard, ``close``
      gives the join up, commits and leaves on another connection, also after Ctrl-C in a ``poll``.
    * **A member of an eager group that is closed during a rebalance revokes twice**: once before it joins, and once as
      it closes. With the guard, ``on_partitions_revoked`` is called once, as in Java.
    * **A cooperative member does not read during a rebalance**, although it keeps its partitions: ``poll`` waits until
      all members have joined, which takes as long as the slowest ``on_partitions_revoked``. With the guard, ``poll``
      returns records meanwhile, as in Java.
    * **New partitions stay unread after a static leader's restart.** The restarted process is the leader to the broker,
      but does not know it: kafka-python joins by version 7 of the request. Nobody watches the topics, and partitions
      that are added have no owner until another rebalance. With the guard, the process watches, as Java's (KIP-814).
    * **An interrupted poll loses records** that it has taken and not returned, if a signal handler raises, as Ctrl-C
      does: ``close`` commits beyond them. With the guard, they are taken again.
    * **kafka-python's own cooperative assignor claims lost partitions**, and the leader takes them from their owners.
      With the guard, it then claims nothing.

    Args:
        consumer: A ``KafkaConsumer`` with a group; weakly referenced.

    Raises:
        ConfigError: This kafka-python lacks a private name that the guard uses.

    Source: kafka-python 3.0.12 ``kafka/coordinator/base.py`` and ``consumer.py``; Java's ``AbstractCoordinator``
    (``HeartbeatThread`` fails for good on FENCED_INSTANCE_ID) and ``ConsumerCoordinator.onJoinPrepare`` (KIP-429).
    """
    coordinator = private.consumer.coordinator_of(consumer)
    if lacks := private.names.lacks(coordinator, private.names.GUARD):
        raise ConfigError(
            f"this consumer can't be guarded: kafka-python's coordinator lacks {', '.join(lacks)}; install "
            "kafka-python 3.0.12"
        )
    guard_coordinator(coordinator, private.consumer.fetcher_of(consumer))


def guard_coordinator(coordinator: Any, fetcher: Any) -> None:
    """Guard a consumer by its coordinator and fetcher (None if unknown); does nothing if a private name is missing."""
    if coordinator not in _guarded and not private.names.lacks(coordinator, private.names.GUARD):
        private.consumer.cap_reconnects(coordinator)
        keeps_commits = not private.names.lacks(coordinator, private.names.COMMITS)
        join, wait, beats, reading = _Join(), private.waiting.Wait(), private.beating.Beats(), _Reading(keeps_commits)
        _guarded[coordinator] = join
        if keeps_commits:
            commits_of(coordinator)
        wait.watch(coordinator, fetcher)
        private.beating.Phase().watch(coordinator)
        beats.watch(coordinator)
        private.waiting.Interrupted().watch(fetcher)
        private.wrapping.wrap(
            coordinator,
            on_heartbeat=functools.partial(_stopping, join, wait, beats),
            reset=_losing,
            find=_finding,
            poll=functools.partial(_polling, reading, join),
            prepare=functools.partial(_preparing, reading),
            pause=_pausing,
            join=functools.partial(_joining, join, wait),
            adopt=functools.partial(_adopting, join, beats),
            stable=functools.partial(_stable, join),
            close=_closing,
        )
        if not private.names.lacks(coordinator, private.names.GIVING):
            private.wrapping.wrap(coordinator, give_up=_giving)
        private.learning.learn_before_leading(coordinator)
        if not private.names.lacks(coordinator, private.names.RETURN):
            private.wrapping.wrap(coordinator, answered=functools.partial(_leading_again, join))


def give_up_join(coordinator: Any) -> None:
    """Make a guarded consumer join no more, because it is being closed: none of its requests waits for other members.

    A `poll` that waits for a join raises ``IllegalStateError``. Do not call this on kafka-python's own thread.
    """
    if (join := _guarded.get(coordinator)) is not None:
        private.joining.give_up_join(coordinator, join.before)


class _Join:
    """A consumer's last join, from its end until a poll adopts the assignment."""

    def __init__(self) -> None:
        self.before = (NO_GENERATION, "")
        """Generation and member id under which the join was sent."""
        self._generation: tuple[int, str] | None = None
        self.assignment: Any = None
        self.outdated = False
        """Whether a heartbeat said that the group rebalances again."""
        self.leads_again = False
        """Whether the member is the successor of a static member that led, and does not watch topics yet."""

    def end(self, coordinator: Any, assignment: Any) -> None:
        self._generation, self.assignment, self.outdated = private.membership.generation(coordinator), assignment, False

    def waits(self, coordinator: Any) -> bool:
        """Whether the assignment is not adopted yet, and the member is still in that generation."""
        return self._generation is not None and private.membership.generation(coordinator) == self._generation

    def adopt(self) -> None:
        self._generation = self.assignment = None


def _stopping(
    join: _Join,
    wait: private.waiting.Wait,
    beats: private.beating.Beats,
    coordinator: Any,
    handle: Callable[..., Any],
    *args: Any,
    **kwargs: Any,
) -> Any:
    """A heartbeat response that fences the member stops it; a response about a rebalance ends the wait for records."""
    try:
        return handle(*args, **kwargs)
    except FencedInstanceIdError:
        private.membership.fence(coordinator)
        raise
    except RebalanceInProgressError:
        join.outdated = True
        beats.end()
        wait.end()
        raise


def _stable(join: _Join, coordinator: Any, stable: Callable[[], bool]) -> bool:
    """kafka-python sends heartbeats while the member is stable; the guard makes it stable from the end of its join."""
    return stable() or join.waits(coordinator)


class _Reading:
    """How long the group part of a ``poll`` may take while the member must join and keeps partitions to read."""

    JOINING_MS = 1
    """The time while the join is under way. The end of the join ends the wait for records that follows."""
    STARTING_MS = 100
    """The time until the join is under way; it doubles each time. Metadata come before a join by a pattern."""
    PAUSE_S = 0.5
    """The wait for records in one round of ``poll``."""

    def __init__(self, able: bool) -> None:
        self.able = able
        """Whether records that are read meanwhile may be committed."""
        self.limit_ms: float | None = None
        self._starting_ms = self.STARTING_MS

    def wait_ms(self, coordinator: Any, timeout_ms: float | None) -> float:
        if not private.membership.joins(coordinator):
            wait_ms, self._starting_ms = self._starting_ms, 2 * self._starting_ms
        else:
            self._starting_ms = self.STARTING_MS
            wait_ms = self.STARTING_MS if private.membership.by_pattern(coordinator) else self.JOINING_MS
        return wait_ms if timeout_ms is None else min(wait_ms, timeout_ms)


async def _preparing(  # as kafka-python calls it
    reading: _Reading, _coordinator: Any, prepare: Callable[..., Awaitable[Any]],
    generation: int, member_id: str, timeout_ms: float | None = None,
) -> Any:  # fmt: skip
    """The preparation of a join (the commit, ``on_partitions_revoked``) may take the time of the whole ``poll``."""
    limit_ms, reading.limit_ms = reading.limit_ms, None
    return await prepare(generation, member_id, timeout_ms=timeout_ms if limit_ms is None else limit_ms)


def _pausing(coordinator: Any, pause: Callable[[], float]) -> float:
    """No heartbeat is due while the member waits for a join."""
    return _Reading.PAUSE_S if private.membership.joins(coordinator) else pause()


async def _joining(
    last: _Join, wait: private.waiting.Wait, coordinator: Any, join: Callable[[], Awaitable[Any]]
) -> Any:
    """A join that ended between two polls is not sent again; a fenced or closed member does not join.

    The end of a join ends a wait for records, so that the assignment is adopted at once.

    A fenced member's join would fence the process that now has its instance id. ``poll`` may have read the fenced flag
    just before a heartbeat response set it, so the flag is checked again here, on the thread of heartbeat responses.
    """
    if private.membership.was_fenced(coordinator):
        mine = private.consumer.instance_id(coordinator)
        raise FencedInstanceIdError(f"another process has the group_instance_id {mine}")
    if private.membership.gave_up(coordinator):
        raise IllegalStateError("the consumer is closed")  # not retriable: it ends the poll that wanted to join
    if not last.waits(coordinator):
        last.before = private.membership.generation(coordinator)
        # Until the assignment is adopted: a leader may forget why it joins, see `private.joining.keep_rejoining`.
        private.joining.request_rebalance(coordinator)
        try:
            last.end(coordinator, await join())
            private.membership.start_heartbeats(coordinator)
        finally:
            wait.end()
    return last.assignment


async def _adopting(
    join: _Join,
    beats: private.beating.Beats,
    coordinator: Any,
    joined: Callable[..., Awaitable[Any]],
    *args: Any,
    **kwargs: Any,
) -> Any:
    """An assignment is adopted once; if the group rebalances again meanwhile, the next poll joins at once.

    Its positions are the offsets that are committed by then.

    A cooperative member then asks early whether the second round has begun.
    """
    join.adopt()
    private.membership.forget_fetched_offsets(coordinator)
    if join.outdated:
        private.joining.request_rebalance(coordinator)
    answer = await joined(*args, **kwargs)
    if join.leads_again:
        join.leads_again = not private.membership.watch_topics(coordinator)
    if private.membership.is_cooperative(coordinator):
        beats.begin()
    return answer


def _leading_again(
    join: _Join, coordinator: Any, answered: Callable[..., Any], answer: Any, *args: Any, **kwargs: Any
) -> Any:
    """To the successor of a static leader's process, the broker names that process as the leader."""
    mine = private.consumer.instance_id(coordinator)
    is_other = answer.leader != answer.member_id
    join.leads_again = bool(mine) and is_other and lasting_name(answer.leader, None) == mine
    return answered(answer, *args, **kwargs)


def _closing(coordinator: Any, close: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """A consumer that is closed during a join commits and leaves without waiting for the join."""
    give_up_join(coordinator)
    close(*args, **kwargs)


async def _giving(coordinator: Any, give: Callable[[], Awaitable[Any]]) -> Any:
    """What was revoked before a join is not revoked again by a close, whose commit has come before."""
    private.membership.drop_revoked(coordinator)
    return await give()


async def _finding(coordinator: Any, find: Callable[..., Awaitable[Any]], timeout_ms: float | None = None) -> Any:
    """The search for the group's coordinator tries again after a retriable error, within its time limit.

    kafka-python refreshes its metadata between two tries, and raises an error of that refresh.
    """
    if timeout_ms is None:
        return await find()
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            return await find(timeout_ms=max(0.0, 1000 * (deadline - time.monotonic())))
        except KafkaError as error:
            left = deadline - time.monotonic()
            if not private.consumer.is_retriable(error):
                raise
            if left <= 0:
                return False
            await private.requests.sleep(coordinator, min(private.consumer.backoff_s(coordinator), left))


def _polling(
    reading: _Reading, join: _Join, coordinator: Any, poll: Callable[..., Any], timeout_ms: float | None = None
) -> Any:
    """The group part of ``poll`` ends early on a retriable error, as it does when its time is up.

    It does not wait for the join if the member keeps partitions meanwhile.
    """
    begun = time.monotonic()
    if join.leads_again and not private.membership.must_join(coordinator):
        join.leads_again = not private.membership.watch_topics(coordinator)
    try:
        if not (reading.able and private.membership.reads_on(coordinator)):
            return poll(timeout_ms=timeout_ms)
        reading.limit_ms = timeout_ms
        return poll(timeout_ms=reading.wait_ms(coordinator, timeout_ms)) or private.membership.reads_on(coordinator)
    except KafkaError as error:
        if timeout_ms is None or not private.consumer.is_retriable(error):
            raise
        left = begun + timeout_ms / 1000 - time.monotonic()
        time.sleep(max(0.0, min(private.consumer.backoff_s(coordinator), left)))
        return False


def _losing(coordinator: Any, reset: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A member that is evicted during a join loses its partitions before it joins again."""
    answer = reset(*args, **kwargs)
    for assignor in map(inspect.unwrap, private.consumer.assignors(coordinator)):
        if isinstance(assignor, TheirCooperativeAssignor):
            private.membership.drop_claims(assignor)
    private.membership.lose_in_join(coordinator)
    return answer
