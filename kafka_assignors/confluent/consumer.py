"""The bridge's consumer: a group member of kafka-python's and a confluent consumer, used as one."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import Any

import confluent_kafka
from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import CommitFailedError, KafkaError, RetriableError

from ..core.group import TopicPartition
from ..errors import ConfigError
from ..kafka_python import consumer as kafka_consumer
from ..kafka_python.guard import guard
from .delivery import Delivery, partition_of
from .settings import planes

log = logging.getLogger("kafka_assignors")

Callback = Callable[["BridgedConsumer", list[Any]], None]

_SLICE_S = 0.1
"""How long the data plane may wait for a message before the group is looked after again."""
_AT_ONCE = 1000
"""How many messages it may take before the group is looked after again."""
_JOIN_S = 3.0
_RETRY_S = 1.0
"""When a commit is tried again that the coordinator couldn't answer."""
_LAST_COMMIT_MS = 10_000


class BridgedConsumer:
    """A confluent consumer whose partitions one of our assignors chooses. For one thread; see the module for limits.

    Args:
        config: As for ``confluent_kafka.Consumer``. With ``enable.auto.commit`` (the default) a message is committed
            after the `poll` that follows the one that returned it: every ``auto.commit.interval.ms``, before a
            partition is given up, and by `close`.
        assignors: As kafka-python's ``partition_assignment_strategy``.
        control: Further settings of the control plane, by kafka-python's names; they overrule what is translated. With
            an ``ssl_context`` no TLS setting is translated, with a ``sasl_mechanism`` none of SASL.

    Raises:
        ConfigError: No ``group.id``, no ``bootstrap.servers``, no assignors, or a setting that the bridge can't honour;
            the message names it.
    """

    def __init__(
        self, config: Mapping[str, Any], assignors: Sequence[Any], *, control: Mapping[str, Any] | None = None
    ) -> None:
        if not assignors:
            raise ConfigError("assignors must be a list such as [CooperativeStickyAssignor], not empty")
        divided = planes(config, control or {})
        self._auto_commit, self._commit_every_s = divided.auto_commit, divided.commit_every_s
        self.consumer: Any = confluent_kafka.Consumer(divided.data)
        """The data plane, for what needs no group: ``pause``, ``seek``, ``position``, watermarks; None once closed."""
        strategy = {"partition_assignment_strategy": list(assignors), "enable_auto_commit": False}
        with ExitStack() as undo:
            undo.callback(self.consumer.close)
            self._control = KafkaConsumer(**divided.control, **strategy)
            undo.callback(self._control.close)
            guard(self._control)  # it must be told what it lost, whatever its assignors are
            undo.pop_all()
        self._delivery = Delivery()
        self._taking = False  # set as long as messages come over from the data plane
        self._callback_thread = 0  # the thread that runs a callback, while one runs
        self._asked: dict[TopicPartition, int] = {}  # what that callback wants committed
        self._next_ask = time.monotonic() + self._commit_every_s
        self._next_try = 0.0
        self._next_turn = 0.0
        self._on_assign: Callback | None = None
        self._on_revoke: Callback | None = None
        self._on_lost: Callback | None = None
        self._closed = False
        # The group's work has a thread of its own: an interrupt ends the caller's wait for it, and not the work.
        self._worker = ThreadPoolExecutor(1, "bridge-group")
        self._working = False  # unless the end of that work was seen

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Join the group for these topics, from the next `poll` on; a topic that starts with ^ is a pattern.

        Args:
            topics: Names, or patterns alone.
            on_assign: Called with the partitions that are new. An ``offset`` it sets on one is where reading starts.
            on_revoke: Called with the partitions that go, when they are no longer fetched and what is processed is
                committed; it may `commit` more.
            on_lost: Called with partitions that are gone already, as the member was thrown out; without one,
                `on_revoke` is.

        Raises:
            ConfigError: No topics, or names and patterns in one list.
        """
        patterns = [topic for topic in topics if topic.startswith("^")]
        if isinstance(topics, str) or not topics or len(patterns) not in (0, len(topics)):
            raise ConfigError(f"topics must be a list of names, or a list of patterns (^…), not {topics!r}")
        self._must_be_open()
        self._await_work()
        self._on_assign, self._on_revoke, self._on_lost = on_assign, on_revoke, on_lost or on_revoke
        what = {"pattern": "|".join(f"(?:{each})" for each in patterns)} if patterns else {"topics": list(topics)}
        self._control.subscribe(listener=_Listener(self), **what)

    def poll(self, timeout: float | None = None) -> Any:
        """The next message; whatever was returned before counts as processed.

        Args:
            timeout: Seconds; None: as long as it takes. A rebalance may take longer.

        Returns:
            A ``confluent_kafka.Message`` (look at its ``error()``), or None when there was none in time.

        Raises:
            KafkaError: kafka-python's: a fatal answer of the coordinator, or an error of a callback.
            RuntimeError: The consumer is closed, or subscribes to nothing yet.
        """
        batch = self.consume(1, timeout)
        return batch[0] if batch else None

    def consume(self, num_messages: int = 1, timeout: float | None = None) -> list[Any]:
        """As `poll`, for up to that many messages; fewer when the time is over.

        If a partition is revoked during the call, its collected messages are dropped: its next owner reads them.
        """
        self._must_be_open()
        if self._control.subscription() is None:
            raise RuntimeError("the consumer subscribes to nothing yet; call subscribe(topics) first")
        if num_messages < 1:
            raise ValueError(f"num_messages must be 1 or more, not {num_messages}")
        deadline = float("inf") if timeout is None or timeout < 0 else time.monotonic() + timeout
        delivery = self._delivery
        self._await_work()
        delivery.finish()
        if self._taking:
            self._take_again()
        while True:
            self._look_after_the_group()
            room = num_messages - len(delivery.messages)
            left = deadline - time.monotonic()
            if room > 0:
                self._take(room, max(0.0, min(left, _SLICE_S)))
            # What a fenced member has is somebody else's by now, and forgotten as soon as it joins again.
            fenced = kafka_consumer.is_fenced(self._control)
            if left <= 0 or not (fenced or len(delivery.messages) < num_messages):
                break
        batch = [] if fenced else delivery.messages[:num_messages]
        number = len(batch)
        # CPython handles signals at calls and jumps back. With neither from here on, "returned" and the return are one,
        # since 3.11; 3.10 looks once more before the caller's assignment.
        delivery.returned = number
        return batch

    def commit(
        self, message: Any = None, offsets: Iterable[Any] | None = None, asynchronous: bool = False
    ) -> list[Any] | None:
        """Commit. In a callback, what is asked for is committed right after the callback.

        Args:
            message: A message that is finished, or
            offsets: confluent ``TopicPartition``s with the offsets to read next. Neither: all that `poll` and
                `consume` returned, which counts as finished with that.
            asynchronous: Return at once. A commit that fails is logged and tried again. (confluent-kafka's default
                is True; here it is False.)

        Returns:
            What was committed, as confluent ``TopicPartition``s; None if it wasn't waited for.

        Raises:
            KafkaError: kafka-python's, such as ``CommitFailedError`` when the member is out of its group, or doesn't
                own a partition any more.
            ConfigError: A message and offsets.
        """
        if message is not None and offsets is not None:
            raise ConfigError("commit a message or offsets, not both")
        inside = self._callback_thread == threading.get_ident()
        if not inside:
            self._must_be_open()
            self._await_work()
        if message is not None:
            wanted = {partition_of(message): message.offset() + 1}
        elif offsets is not None:
            wanted = {TopicPartition(each.topic, each.partition): each.offset for each in offsets}
        else:
            self._delivery.finish()
            wanted = dict(self._delivery.finished)
        if strange := wanted.keys() - self._delivery.owned:
            raise CommitFailedError(f"{_named(strange)}: not owned any more, so the next owner reads that again")
        if inside:
            self._asked.update(wanted)  # sent when the callback is over, as its thread must not wait
        elif asynchronous:
            self._delivery.ask(wanted)
            self._commit_in_background()
        elif wanted:
            self._do(self._control.commit, _offsets(wanted))
            self._delivery.committed(wanted)
        if inside or asynchronous:
            return None
        return [confluent_kafka.TopicPartition(*each, offset) for each, offset in sorted(wanted.items())]

    def assignment(self) -> list[Any]:
        """The partitions it owns now, as confluent ``TopicPartition``s."""
        return _confluent(self._delivery.owned)

    def memberid(self) -> str:
        """Its member id; "" outside of a group."""
        return str(self._control.group_metadata().member_id or "")

    def close(self) -> None:
        """Stop fetching, commit what is finished if it commits by itself, leave the group. Twice is once.

        What was returned last counts as finished, unless an exception is being handled: a ``finally`` that closes also
        runs when the processing of these messages failed. Nobody can tell here that an ``except`` before has ended such
        an exception: use ``with``, which sees it, around the loop and inside the ``try``.

        Raises:
            KafkaError: kafka-python's: an error of a callback; all is closed nevertheless.
        """
        self._close(orderly=sys.exc_info()[1] is None)

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
            self._await_work()
            if orderly:
                delivery.finish()
            else:
                delivery.abandon()
            if self._auto_commit:
                delivery.ask(delivery.finished)
                self._commit_before_leaving(delivery.due(delivery.owned))
            self._do(self._control.close)  # calls the listener for all it has, which does the rest, and leaves
        finally:
            self.consumer.close()
            self.consumer = None  # librdkafka's threads live as long as the last reference to it
            self._worker.shutdown(wait=False)

    def _commit_before_leaving(self, due: Mapping[TopicPartition, int]) -> None:
        """Unlike the commit in a callback this one is tried again while the coordinator moves or loads."""
        if not due or kafka_consumer.is_fenced(self._control):
            return
        try:
            self._do(self._control.commit, _offsets(due), _LAST_COMMIT_MS)
        except KafkaError as error:
            log.warning("offsets of %s are not committed, the next owner reads again: %s", _named(due), error)
        else:
            self._delivery.committed(due)

    def _do(self, work: Callable[..., Any], *args: Any) -> Any:
        """Let the worker do something for the group, and wait for it."""
        self._await_work()
        self._working = True
        future = self._worker.submit(work, *args)
        try:
            return future.result()
        finally:
            self._working = not future.done()

    def _await_work(self) -> None:
        """Wait for work whose end an interrupt didn't let the caller see: it changes what is known of messages."""
        if self._working:
            self._worker.submit(int).result()  # the worker does one thing after another
            self._working = False

    def _look_after_the_group(self) -> None:
        due = kafka_consumer.must_rejoin(self._control)
        if due or time.monotonic() >= self._next_turn:
            self._do(kafka_consumer.rebalance, self._control, _JOIN_S if due else _SLICE_S)
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
        """Called by kafka-python in a later turn of the group's work."""
        failed = isinstance(answer, Exception)
        self._delivery.answered(not failed)
        if failed:
            retry_s = _RETRY_S if isinstance(answer, RetriableError) else self._commit_every_s
            self._next_try = time.monotonic() + retry_s
            partitions = [TopicPartition(*each) for each in offsets]
            log.warning(
                "offsets of %s are not committed yet, next try in %g s: %s", _named(partitions), retry_s, answer
            )

    def _take(self, room: int, wait_s: float) -> None:
        """Take messages from the data plane: the first that comes, and what is there beside it.

        One by one, as of a batch that is interrupted nobody could tell what it had; by `list.extend`, so that Python
        handles no signal between a message's arrival and its place in the list.
        """
        messages, poll = self._delivery.messages, self.consumer.poll
        before = len(messages)
        self._taking = True
        messages.extend(islice(iter(partial(poll, wait_s), None), 1))
        if len(messages) > before:
            messages.extend(islice(iter(partial(poll, 0), None), min(room, _AT_ONCE) - 1))
        self._taking = False

    def _take_again(self) -> None:
        """Go back to a message that confluent-kafka had when it was interrupted, and dropped: one at most, its last."""
        known = self.consumer.position(_confluent(self._delivery.owned))
        positions = {TopicPartition(each.topic, each.partition): each.offset for each in known if each.offset >= 0}
        for place, offset in self._delivery.dropped(positions).items():
            self.consumer.seek(confluent_kafka.TopicPartition(*place, offset))
        self._taking = False


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """kafka-python's callbacks -> the data plane. The caller of `poll` waits meanwhile, so nothing else touches it."""

    def __init__(self, bridge: BridgedConsumer) -> None:
        self._bridge = bridge

    async def on_partitions_assigned(self, assigned: Iterable[tuple[str, int]]) -> None:
        bridge = self._bridge
        added = {TopicPartition(*each) for each in assigned} - bridge._delivery.owned
        bridge._delivery.gain(added)
        told = _confluent(added)
        try:
            self._call(bridge._on_assign, told)
        finally:
            bridge.consumer.incremental_assign(told)
            await self._commit(bridge._asked)

    async def on_partitions_revoked(self, revoked: Iterable[tuple[str, int]]) -> None:
        bridge, delivery = self._bridge, self._bridge._delivery
        partitions = self._stop_fetching(revoked)
        if bridge._auto_commit:
            delivery.ask({each: delivery.finished[each] for each in partitions & delivery.finished.keys()})
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
        gone = {TopicPartition(*each) for each in partitions} & self._bridge._delivery.owned
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
            log.warning("offsets of %s are not committed, the next owner reads again: %s", _named(offsets), error)
        else:
            self._bridge._delivery.committed(offsets)


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{each.topic}-{each.partition}" for each in sorted(partitions))


def _offsets(offsets: Mapping[TopicPartition, int]) -> dict[Any, Any]:
    return {KafkaTopicPartition(*each): OffsetAndMetadata(offset, "", -1) for each, offset in offsets.items()}


def _confluent(partitions: Iterable[TopicPartition]) -> list[Any]:
    return [confluent_kafka.TopicPartition(each.topic, each.partition) for each in sorted(partitions)]
