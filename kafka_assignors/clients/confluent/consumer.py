"""The bridge's consumer: a kafka-python group member and a confluent consumer, used as one."""

from __future__ import annotations

import inspect
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import Any

import confluent_kafka
from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import CommitFailedError, KafkaError, RetriableError

from ...core.group import TopicPartition
from ...core.weighted.meter import Meter
from ...errors import ConfigError
from ..kafka_python import private
from ..kafka_python.guard import give_up_join, guard
from ..kafka_python.leaving import END_S, Departure, Left, Pace, in_group, may_leave
from ..kafka_python.weighted import MemberByWork
from .delivery import Delivery, partition_of
from .settings import planes

log = logging.getLogger("kafka_assignors")

Callback = Callable[["BridgedConsumer", list[Any]], None]

_SLICE_S = 0.1
"""Maximum time that the data plane waits for a message before the group's work runs again."""
_AT_ONCE = 1000
"""Maximum messages taken before the group's work runs again."""
_JOIN_S = 3.0
_RETRY_S = 1.0
"""Delay before retrying a commit that the coordinator could not answer."""
_LAST_COMMIT_MS = 10_000
_NOT_COMMITTED = "offsets of %s are not committed, so the next owner reads these records again: %s"
_LEAVING_SLICE_S = 0.02
"""`_SLICE_S` of a member that leaves: it must be told early that its group has joined."""


class BridgedConsumer:
    """A confluent consumer whose partitions one of our assignors chooses. Not thread-safe; see the package for limits.

    Args:
        config: As for ``confluent_kafka.Consumer``. With ``enable.auto.commit`` (the default) a message is committed
            after the `poll` that follows the one that returned it: every ``auto.commit.interval.ms``, before a
            partition is revoked, and by `close`.
        assignors: As kafka-python's ``partition_assignment_strategy``.
        control: More settings of the control plane, by kafka-python's names; they override translated ones. With an
            ``ssl_context`` no TLS setting is translated, with a ``sasl_mechanism`` no SASL setting.

    Raises:
        ConfigError: No ``group.id``, no ``bootstrap.servers``, no assignors, or an unsupported setting.
    """

    def __init__(
        self, config: Mapping[str, Any], assignors: Sequence[Any], *, control: Mapping[str, Any] | None = None
    ) -> None:
        if isinstance(assignors, str) or not (listed := list(assignors)) or any(isinstance(a, str) for a in listed):
            given = repr(assignors) if assignors else "empty"
            raise ConfigError(f"assignors must be a list such as [CooperativeStickyAssignor], not {given}")
        divided = planes(config, control or {})
        self._auto_commit, self._commit_every_s = divided.auto_commit, divided.commit_every_s
        self.consumer: Any = confluent_kafka.Consumer(divided.data)
        """The data plane, for use outside the group: ``pause``, ``seek``, ``position``, watermarks; None if closed."""
        strategy = {"partition_assignment_strategy": listed, "enable_auto_commit": False}
        with ExitStack() as undo:
            undo.callback(self.consumer.close)
            self._control = KafkaConsumer(**divided.control, **strategy)
            undo.callback(self._control.close)
            guard(self._control)  # report lost partitions with every assignor
            undo.pop_all()
        self._delivery = Delivery()
        self._meters = self._load_meters()
        self._taking = False  # True while messages are taken from the data plane
        self._callback_thread = 0  # id of the thread that runs a callback, else 0
        self._asked: dict[TopicPartition, int] = {}  # offsets that the callback asked to commit
        self._next_ask = time.monotonic() + self._commit_every_s
        self._next_try = 0.0
        self._next_turn = 0.0
        self._on_assign: Callback | None = None
        self._on_revoke: Callback | None = None
        self._on_lost: Callback | None = None
        self._closed = self._leaves = False
        self._slice_s = _SLICE_S
        self._departure: Departure | None = None
        # The group's work has its own thread: an interrupt ends the caller's wait, but not the work.
        self._worker = ThreadPoolExecutor(1, "bridge-group")
        self._working = False  # True until the caller has seen the work end

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Join the group for these topics at the next `poll`; a topic that starts with ^ is a pattern.

        Args:
            topics: Either names or patterns.
            on_assign: Called with new partitions. Reading starts at the ``offset`` that it sets on one.
            on_revoke: Called with revoked partitions, after fetching has stopped and finished messages are committed;
                it may `commit` more.
            on_lost: Called with partitions that are lost because the member was fenced; `on_revoke` by default.

        Raises:
            ConfigError: No topics, or names and patterns in one list.
        """
        patterns = [topic for topic in topics if topic.startswith("^")]
        if isinstance(topics, str) or not topics or len(patterns) not in (0, len(topics)):
            raise ConfigError(f"topics must be a list of names, or a list of patterns (^…), not {topics!r}")
        self._must_be_open()
        self._await_work()
        self._on_assign, self._on_revoke, self._on_lost = on_assign, on_revoke, on_lost or on_revoke
        what = {"pattern": "|".join(f"(?:{pattern})" for pattern in patterns)} if patterns else {"topics": list(topics)}
        self._control.subscribe(listener=_BridgeListener(self), **what)

    def poll(self, timeout: float | None = None) -> Any:
        """Return the next message. All messages returned before count as processed.

        Args:
            timeout: Seconds; None waits forever. A rebalance may take longer.

        Returns:
            A ``confluent_kafka.Message`` (check its ``error()``), or None if none arrived in time.

        Raises:
            KafkaError: kafka-python's: a fatal error of the coordinator, or an error in a callback.
            RuntimeError: The consumer is closed, or has no subscription yet.
        """
        batch = self.consume(1, timeout)
        return batch[0] if batch else None

    def consume(self, num_messages: int = 1, timeout: float | None = None) -> list[Any]:
        """Return up to `num_messages` messages, fewer at the timeout; otherwise as `poll`.

        If a partition is revoked during the call, its collected messages are dropped: its next owner reads them.
        """
        self._must_be_open()
        if self._control.subscription() is None:
            raise RuntimeError("the consumer has no subscription; call subscribe(topics) first")
        if num_messages < 1:
            raise ValueError(f"num_messages must be 1 or more, not {num_messages}")
        deadline = float("inf") if timeout is None or timeout < 0 else time.monotonic() + timeout
        delivery = self._delivery
        self._await_work()
        delivery.finish()
        for meter in self._meters:
            meter.asked(time.monotonic())
        if self._taking:
            self._take_again()
        while True:
            self._look_after_the_group()
            room = num_messages - len(delivery.messages)
            left = deadline - time.monotonic()
            if room > 0:
                self._take(room, max(0.0, min(left, self._slice_s)))
            # Another member may own a fenced member's partitions by now; they are forgotten when it rejoins.
            fenced = private.membership.is_fenced(self._control)
            if left <= 0 or not (fenced or len(delivery.messages) < num_messages):
                break
        batch = [] if fenced else delivery.messages[:num_messages]
        if batch and self._meters:
            counts: dict[tuple[str, int], int] = Counter(
                partition_of(message) for message in batch if message.error() is None
            )
            for meter in self._meters:
                meter.handed(counts, time.monotonic())
        number = len(batch)
        # CPython handles signals at calls and backward jumps. Neither follows from here on, so setting "returned" and
        # the return are atomic since 3.11; 3.10 checks once more before the caller's assignment.
        delivery.returned = number
        return batch

    def commit(
        self, message: Any = None, offsets: Iterable[Any] | None = None, asynchronous: bool = False
    ) -> list[Any] | None:
        """Commit offsets. In a callback, the commit is sent right after the callback.

        Args:
            message: A finished message, or
            offsets: confluent ``TopicPartition``s with the next offsets to read. Without either: all messages that
                `poll` and `consume` returned, which then count as finished.
            asynchronous: Return at once. A failed commit is logged and retried. (confluent-kafka's default: True.)

        Returns:
            The committed offsets as confluent ``TopicPartition``s; None if asynchronous.

        Raises:
            KafkaError: kafka-python's, for example ``CommitFailedError`` if the member is out of its group or no longer
                owns a partition.
            ConfigError: Both a message and offsets are given.
        """
        if message is not None and offsets is not None:
            raise ConfigError("pass a message or offsets, not both")
        inside = self._callback_thread == threading.get_ident()
        if not inside:
            self._must_be_open()
            self._await_work()
        if message is not None:
            wanted = {partition_of(message): message.offset() + 1}
        elif offsets is not None:
            wanted = {TopicPartition(tp.topic, tp.partition): tp.offset for tp in offsets}
        else:
            self._delivery.finish()
            wanted = dict(self._delivery.finished)
        if strange := wanted.keys() - self._delivery.owned:
            raise CommitFailedError(f"{_named(strange)}: not owned any more; the next owner reads these records again")
        if inside:
            self._asked.update(wanted)  # sent after the callback, whose thread must not wait
        elif asynchronous:
            self._delivery.ask(wanted)
            self._commit_in_background()
        elif wanted:
            self._do(self._control.commit, _offsets(wanted))
            self._delivery.committed(wanted)
        if inside or asynchronous:
            return None
        return [confluent_kafka.TopicPartition(*tp, offset) for tp, offset in sorted(wanted.items())]

    def assignment(self) -> list[Any]:
        """The partitions owned now, as confluent ``TopicPartition``s."""
        return _confluent(self._delivery.owned)

    def memberid(self) -> str:
        """The member id; "" outside of a group."""
        return str(self._control.group_metadata().member_id or "")

    def close(self) -> None:
        """Stop fetching, commit finished messages if auto-commit is on, leave the group. Idempotent.

        A join that waits for other members is given up: the close does not wait for them.

        The messages returned last count as finished, unless an exception is being handled: a ``finally`` that closes
        also runs if their processing failed. An exception that an ``except`` has already ended is invisible here: use
        ``with``, which sees it, around the loop and inside the ``try``.

        Raises:
            KafkaError: kafka-python's: an error in a callback; everything is closed anyway.
        """
        self._close(orderly=sys.exc_info()[1] is None)

    def leave(self, timeout_s: float = 30.0, num_messages: int = 100, *, commit: bool = True) -> Iterator[list[Any]]:
        """Hand the partitions over to the group, and close. See `kafka_assignors.leave`, whose rules hold here, too.

        ::

            for messages in consumer.leave(timeout_s=20):   # after SIGTERM: read on until the others take over
                for message in messages:
                    process(message)

        Args:
            timeout_s: How long it may read on, seconds. The last commit, the leave and the close follow.
            num_messages: The most messages of one batch.
            commit: Commit finished messages, whatever ``enable.auto.commit`` says. False: commit nothing.

        Returns:
            Yields what `consume` returns, never empty; in small batches, so that the work on one takes about 50 ms.

        Raises:
            ConfigError: A negative time; the consumer is leaving already; or a thread is in its `poll` or `consume`.
            KafkaError: As `poll` and `close`; the consumer is closed before.
        """
        if num_messages < 1:
            raise ValueError(f"num_messages must be 1 or more, not {num_messages}")
        may_leave(self, timeout_s, self._leaves and not self._closed)
        return self._left(float(timeout_s), num_messages, commit)

    def _left(self, timeout_s: float, num_messages: int, commit: bool) -> Iterator[list[Any]]:
        may_leave(self, timeout_s, self._leaves and not self._closed)
        if self._closed:
            return
        self._leaves, orderly = True, False
        try:
            self._await_work()
            self._auto_commit = commit
            coordinator = private.consumer.coordinator_of(self._control)
            if in_group(coordinator):
                # It commits nothing itself: the listener commits what is finished.
                self._departure = Departure(coordinator, private.consumer.fetcher_of(self._control), commit=False)
                yield from self._read_on(self._departure, time.monotonic() + timeout_s, num_messages)
            orderly = True
        finally:
            self._close(orderly)

    def _read_on(self, departure: Departure, deadline: float, num_messages: int) -> Iterator[list[Any]]:
        if time.monotonic() >= deadline or not departure.hands_over:
            return
        self._do(departure.begin)
        self._slice_s, pace = _LEAVING_SLICE_S, Pace(num_messages)
        while departure.reads and not self._closed and (left := deadline - time.monotonic()) > 0:
            try:
                messages = self.consume(pace.size, min(left, _SLICE_S))
            except Left:
                return
            if messages:
                begun = time.monotonic()
                yield messages
                pace.took(len(messages), time.monotonic() - begun)

    def __enter__(self) -> BridgedConsumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exception: Any) -> None:
        self._close(orderly=kind is None)

    def _must_be_open(self) -> None:
        if self._closed:
            raise RuntimeError("the consumer is closed")

    def _close(self, orderly: bool) -> None:
        if self._closed:
            return
        self._closed = True
        delivery = self._delivery
        try:
            # not for the worker, which may wait for a join: this ends its wait, and the commit below needs no join
            give_up_join(private.consumer.coordinator_of(self._control))
            self._await_work()
            if orderly:
                delivery.finish()
            else:
                delivery.abandon()
            if self._auto_commit:
                delivery.ask(delivery.finished)
                self._commit_before_leaving(delivery.due(delivery.owned))
            if self._departure is not None:
                self._do(self._departure.end)
            self._do(self._control.close)  # calls the listener for all partitions, which does the rest, and leaves
        finally:
            self.consumer.close()
            self.consumer = None  # librdkafka's threads live as long as the last reference to it
            self._worker.shutdown(wait=False)

    def _commit_before_leaving(self, due: Mapping[TopicPartition, int]) -> None:
        """Unlike a commit in a callback, this one is retried while the coordinator moves or loads."""
        if not due or private.membership.is_fenced(self._control):
            return
        try:
            self._do(self._control.commit, _offsets(due), 1000 * END_S if self._leaves else _LAST_COMMIT_MS)
        except KafkaError as error:
            log.warning(_NOT_COMMITTED, _named(due), error)
        else:
            self._delivery.committed(due)

    def _do(self, work: Callable[..., Any], *args: Any) -> Any:
        """Run work for the group on the worker, and wait for it."""
        self._await_work()
        self._working = True
        future = self._worker.submit(work, *args)
        try:
            return future.result()
        finally:
            self._working = not future.done()

    def _load_meters(self) -> list[Meter]:
        """The meters of its assignors. They see this consumer's messages; the control plane has none."""
        meters = []
        for assignor in private.consumer.assignors(private.consumer.coordinator_of(self._control)):
            assignor = inspect.unwrap(assignor)
            if isinstance(assignor, MemberByWork) and assignor.meter is not None:
                assignor.measure_by(self._progress)
                meters.append(assignor.meter)
        return meters

    def _progress(self) -> list[tuple[TopicPartition, int, int | None]]:
        """Of each owned partition with a known position: the next message to hand out, and the known end offset."""
        positions = []
        for tp in self.consumer.position(_confluent(self._delivery.owned)):
            if tp.offset >= 0:
                low_high = self.consumer.get_watermark_offsets(tp, cached=True)
                end = low_high[1] if low_high is not None and low_high[1] >= 0 else None
                positions.append((TopicPartition(tp.topic, tp.partition), tp.offset, end))
        return positions

    def _await_work(self) -> None:
        """Wait for work whose end the caller missed due to an interrupt, because it changes the state of messages."""
        if self._working:
            self._worker.submit(int).result()  # the worker runs one task at a time
            self._working = False

    def _look_after_the_group(self) -> None:
        due = private.joining.must_rejoin(self._control)
        if due or time.monotonic() >= self._next_turn:
            self._do(private.joining.rebalance, self._control, _JOIN_S if due else _SLICE_S)
            self._next_turn = time.monotonic() + _SLICE_S
            if self._auto_commit and time.monotonic() >= self._next_ask:
                self._next_ask = time.monotonic() + self._commit_every_s
                self._delivery.ask(self._delivery.finished)
            if time.monotonic() >= self._next_try:
                self._commit_in_background()

    def _commit_in_background(self) -> None:
        if due := self._delivery.due():
            self._delivery.send(due)
            try:
                self._control.commit_async(_offsets(due), self._answered)
            except BaseException:
                self._delivery.answered(accepted=False)
                raise

    def _answered(self, offsets: Mapping[Any, Any], answer: Any) -> None:
        """Called by kafka-python during later work for the group."""
        failed = isinstance(answer, Exception)
        self._delivery.answered(not failed)
        if failed:
            retry_s = _RETRY_S if isinstance(answer, RetriableError) else self._commit_every_s
            self._next_try = time.monotonic() + retry_s
            partitions = [TopicPartition(*tp) for tp in offsets]
            text = "offsets of %s are not committed yet; the next attempt is in %g s: %s"
            log.warning(text, _named(partitions), retry_s, answer)

    def _take(self, room: int, wait_s: float) -> None:
        """Take messages from the data plane: wait for the first, then take those already there.

        Messages are taken one by one, because an interrupted batch would not reveal its messages, and with
        `list.extend`, so that Python handles no signal between a message's arrival and its place in the list.
        """
        messages, poll = self._delivery.messages, self.consumer.poll
        before = len(messages)
        self._taking = True
        messages.extend(islice(iter(partial(poll, wait_s), None), 1))
        if len(messages) > before:
            messages.extend(islice(iter(partial(poll, 0), None), min(room, _AT_ONCE) - 1))
        self._taking = False

    def _take_again(self) -> None:
        """Seek back to the message that an interrupted confluent-kafka call dropped: at most one, the last."""
        partitions = self.consumer.position(_confluent(self._delivery.owned))
        positions = {TopicPartition(tp.topic, tp.partition): tp.offset for tp in partitions if tp.offset >= 0}
        for place, offset in self._delivery.dropped(positions).items():
            self.consumer.seek(confluent_kafka.TopicPartition(*place, offset))
        self._taking = False


class _BridgeListener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Forward kafka-python's callbacks to the data plane. The caller of `poll` waits, so nothing else uses it."""

    def __init__(self, bridge: BridgedConsumer) -> None:
        self._bridge = bridge

    async def on_partitions_assigned(self, assigned: Iterable[tuple[str, int]]) -> None:
        bridge = self._bridge
        added = {TopicPartition(*tp) for tp in assigned} - bridge._delivery.owned
        bridge._delivery.gain(added)
        partitions = _confluent(added)
        try:
            self._call(bridge._on_assign, partitions)
        finally:
            bridge.consumer.incremental_assign(partitions)
            await self._commit(bridge._asked)

    async def on_partitions_revoked(self, revoked: Iterable[tuple[str, int]]) -> None:
        bridge, delivery = self._bridge, self._bridge._delivery
        partitions = self._stop_fetching(revoked)
        if bridge._auto_commit:
            delivery.ask({tp: delivery.finished[tp] for tp in partitions & delivery.finished.keys()})
        try:
            self._call(bridge._on_revoke if partitions else None, _confluent(partitions))
        finally:
            due = {**delivery.due(partitions), **bridge._asked}
            delivery.lose(partitions)
            await self._commit(due)

    async def on_partitions_lost(self, lost: Iterable[tuple[str, int]]) -> None:
        bridge = self._bridge
        partitions = self._stop_fetching(lost)
        try:
            self._call(bridge._on_lost if partitions else None, _confluent(partitions))
        finally:
            bridge._delivery.lose(partitions)
            if bridge._asked:
                log.warning("offsets of %s are not committed: the member is out of its group", _named(bridge._asked))

    def _stop_fetching(self, partitions: Iterable[tuple[str, int]]) -> set[TopicPartition]:
        gone = {TopicPartition(*tp) for tp in partitions} & self._bridge._delivery.owned
        if gone:
            self._bridge.consumer.incremental_unassign(_confluent(gone))
        return gone

    def _call(self, callback: Callback | None, partitions: list[Any]) -> None:
        bridge = self._bridge
        bridge._asked = {}
        if callback is None:
            return
        bridge._callback_thread = threading.get_ident()
        try:
            callback(bridge, partitions)
        finally:
            bridge._callback_thread = 0

    async def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if not offsets:
            return
        try:
            await self._bridge._control.commit_async(_offsets(offsets))
        except KafkaError as error:
            log.warning(_NOT_COMMITTED, _named(offsets), error)
        else:
            self._bridge._delivery.committed(offsets)


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions))


def _offsets(offsets: Mapping[TopicPartition, int]) -> dict[Any, Any]:
    return {KafkaTopicPartition(*tp): OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items()}


def _confluent(partitions: Iterable[TopicPartition]) -> list[Any]:
    return [confluent_kafka.TopicPartition(tp.topic, tp.partition) for tp in sorted(partitions)]
