"""Assignors for confluent-kafka, whose librdkafka takes none from outside: two connections that act as one member.

The control plane is a kafka-python consumer: it is the group's member, runs the assignor, sends heartbeats, commits,
and fetches nothing. The data plane is a confluent ``Consumer`` that is assigned what the member owns, and fetches.

    with BridgedConsumer({"bootstrap.servers": "…", "group.id": "billing"}, [CooperativeStickyAssignor]) as consumer:
        consumer.subscribe(["orders"])
        message = consumer.poll(1.0)

What is different from a ``Consumer``:

* Each process has two connections to the cluster, and both clients must support its security settings.
* Commits go through the control plane: the broker takes none from the data plane, which is no member. So
  ``send_offsets_to_transaction`` of a confluent producer can't fence it: no exactly-once across groups.
* The group's work is done in `poll`, in the caller's thread. A rebalance may take `poll` longer than its timeout, and
  ``max.poll.interval.ms`` between two calls of `poll` ends the membership, as with any consumer.
* Callbacks run during `poll`, on a thread of kafka-python's, while the caller waits; they may `commit`, not `poll`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .core.group import TopicPartition
from .errors import ConfigError

try:
    import confluent_kafka
    from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata
    from kafka import TopicPartition as KafkaTopicPartition
    from kafka.errors import KafkaError

    from . import kafka_consumer
except ImportError as error:
    raise ImportError(
        f"the bridge for confluent-kafka needs confluent-kafka 2.13 and kafka-python 3.0.12 or newer ({error}); "
        "install them with: pip install 'kafka-assignors[confluent,kafka-python]'"
    ) from error

log = logging.getLogger("kafka_assignors")

Callback = Callable[["BridgedConsumer", list[Any]], None]

_SLICE_S = 0.1
"""How long the data plane may wait for a message before the group is looked after again."""
_JOIN_S = 3.0
_SHARED = {
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "client.rack": "client_rack",
    "group.id": "group_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
_CONTROL = {
    "group.instance.id": "group_instance_id",
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "max.poll.interval.ms": "max_poll_interval_ms",
}
_OURS = {"enable.auto.commit": True, "auto.commit.interval.ms": 5000}
_REFUSED = {
    "partition.assignment.strategy": "give the assignors as the second argument",
    "group.protocol": "the bridge speaks the classic protocol alone, as assignors of clients have no part in another",
    "enable.auto.offset.store": "the bridge commits what `poll` returned before, or what you `commit`",
    "on_commit": "`commit` waits for the answer and raises",
}


class BridgedConsumer:
    """A confluent consumer whose partitions one of our assignors chooses. For one thread; see the module for limits.

    Args:
        config: As for ``confluent_kafka.Consumer``. With ``enable.auto.commit`` (the default) a message is committed
            after the `poll` that follows the one that returned it: every ``auto.commit.interval.ms``, before a
            partition is given up, and by `close`.
        assignors: As kafka-python's ``partition_assignment_strategy``.
        control: Further settings of the control plane, by kafka-python's names; they overrule what is translated.

    Raises:
        ConfigError: No ``group.id``, no assignors, or a setting that the bridge cannot honour; the message says which.
    """

    def __init__(
        self, config: Mapping[str, Any], assignors: Sequence[Any], *, control: Mapping[str, Any] | None = None
    ) -> None:
        for name, why in _REFUSED.items():
            if name in config and not (name == "group.protocol" and str(config[name]).lower() == "classic"):
                raise ConfigError(f"{name}={config[name]!r} has no meaning here: {why}")
        if not config.get("group.id"):
            raise ConfigError("'group.id' is missing: the assignor needs a group")
        if not assignors:
            raise ConfigError("assignors must be a list such as [CooperativeStickyAssignor], not empty")
        ours = {**_OURS, **{name: config[name] for name in _OURS if name in config}}
        self._auto_commit = str(ours["enable.auto.commit"]).lower() == "true"
        self._commit_every_s = int(ours["auto.commit.interval.ms"]) / 1000
        translated = {there: config[here] for here, there in {**_SHARED, **_CONTROL}.items() if here in config}
        if "security_protocol" in translated:
            translated["security_protocol"] = str(translated["security_protocol"]).upper()
        translated["bootstrap_servers"] = str(config.get("bootstrap.servers", "localhost:9092")).split(",")
        own = {*_CONTROL, *_OURS, "group.protocol"}
        self.consumer: Any = confluent_kafka.Consumer(
            {**{name: value for name, value in config.items() if name not in own}, "enable.auto.commit": False}
        )
        """The data plane, for what needs no group: ``pause``, ``seek``, ``position``, watermarks; None once closed."""
        try:
            self._control = KafkaConsumer(
                **{
                    **translated,
                    "partition_assignment_strategy": list(assignors),
                    "enable_auto_commit": False,
                    **(control or {}),
                }
            )
        except BaseException:
            self.consumer.close()
            raise
        self._owned: set[TopicPartition] = set()
        self._processed: dict[TopicPartition, int] = {}  # the offset after the last message that is done with
        self._returned: list[Any] = []  # messages the caller may still be busy with
        self._committing: dict[TopicPartition, int] | None = None  # what a callback wants committed
        self._sent: dict[TopicPartition, int] = {}  # what was committed in the background last
        self._next_commit = time.monotonic() + self._commit_every_s
        self._next_turn = 0.0
        self._on_assign: Callback | None = None
        self._on_revoke: Callback | None = None
        self._on_lost: Callback | None = None
        self._closed = False

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
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, num_messages: int = 1, timeout: float | None = None) -> list[Any]:
        """As `poll`, for up to that many messages; fewer when the time is over."""
        if self._closed:
            raise RuntimeError("the consumer is closed")
        if self._control.subscription() is None:
            raise RuntimeError("the consumer subscribes to nothing yet; call subscribe(topics) first")
        deadline = float("inf") if timeout is None or timeout < 0 else time.monotonic() + timeout
        self._take_note(self._returned)
        self._returned = []
        while True:
            if not self._returned:
                self._look_after_the_group()
            elif kafka_consumer.must_rejoin(self._control):
                return self._returned  # to be processed, and then committed, before their partitions may go
            left = deadline - time.monotonic()
            messages = self.consumer.consume(num_messages - len(self._returned), max(0.0, min(left, _SLICE_S)))
            if messages and not kafka_consumer.is_fenced(self._control):
                self._returned += messages  # of a fenced member they are somebody else's by now
            if len(self._returned) >= num_messages or time.monotonic() >= deadline:
                return self._returned

    def commit(self, message: Any = None, offsets: Iterable[Any] | None = None) -> None:
        """Commit, and wait for it; from a callback it is done right after that.

        Args:
            message: A message that is processed, or
            offsets: confluent ``TopicPartition``s with the offsets to read next. Neither: all that `poll` returned.

        Raises:
            KafkaError: kafka-python's, such as ``CommitFailedError`` when the member is out of its group.
            ConfigError: Both.
        """
        if message is not None and offsets is not None:
            raise ConfigError("commit a message or offsets, not both")
        if message is not None:
            wanted = {TopicPartition(message.topic(), message.partition()): message.offset() + 1}
        elif offsets is not None:
            wanted = {TopicPartition(each.topic, each.partition): each.offset for each in offsets}
        else:
            self._take_note(self._returned)
            wanted = dict(self._processed)
        if self._committing is not None:  # from a callback: sent when that is over, as its thread must not wait
            self._committing.update(wanted)
        elif wanted:
            self._control.commit(_offsets(wanted))
            self._processed.update({each: wanted[each] for each in wanted.keys() & self._owned})

    def assignment(self) -> list[Any]:
        """The partitions it owns now, as confluent ``TopicPartition``s."""
        return _confluent(self._owned)

    def memberid(self) -> str:
        """Its member id; "" outside of a group."""
        return str(self._control.group_metadata().member_id or "")

    def close(self) -> None:
        """Stop fetching, commit what is processed if it does so by itself, leave the group. Twice is once.

        Raises:
            KafkaError: kafka-python's: an error of a callback; all is closed nevertheless.
        """
        if self._closed:
            return
        self._closed = True
        self._take_note(self._returned)
        try:
            self._control.close()  # calls the listener for all it has, which does the rest, and leaves
        finally:
            self.consumer.close()
            self.consumer = None  # librdkafka's threads live as long as the last reference to it

    def __enter__(self) -> BridgedConsumer:
        return self

    def __exit__(self, *_exception: Any) -> None:
        self.close()

    def _look_after_the_group(self) -> None:
        now = time.monotonic()
        if kafka_consumer.must_rejoin(self._control):
            kafka_consumer.rebalance(self._control, _JOIN_S)
        elif now >= self._next_turn:
            kafka_consumer.rebalance(self._control, _SLICE_S)
        else:
            return
        self._next_turn = now + _SLICE_S
        if self._auto_commit and now >= self._next_commit and self._processed != self._sent:
            self._next_commit, self._sent = now + self._commit_every_s, dict(self._processed)
            self._control.commit_async(_offsets(self._sent))

    def _take_note(self, messages: Iterable[Any]) -> None:
        for message in messages:
            if message.error() is None:
                partition = TopicPartition(message.topic(), message.partition())
                if partition in self._owned:
                    self._processed[partition] = message.offset() + 1

    def _start_fetching(self, partitions: set[TopicPartition]) -> None:
        added = _confluent(partitions - self._owned)
        try:
            if self._on_assign is not None:
                self._on_assign(self, added)
        finally:
            self.consumer.incremental_assign(added)
            self._owned |= partitions

    def _stop_fetching(self, partitions: set[TopicPartition]) -> None:
        if gone := _confluent(partitions & self._owned):
            self.consumer.incremental_unassign(gone)

    def _drop(self, partitions: set[TopicPartition]) -> None:
        self._owned -= partitions
        for each in partitions:
            self._processed.pop(each, None)


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """kafka-python's callbacks -> the data plane. The caller of `poll` waits meanwhile, so nothing else touches it."""

    def __init__(self, bridge: BridgedConsumer) -> None:
        self._bridge = bridge

    async def on_partitions_assigned(self, assigned: Iterable[tuple[str, int]]) -> None:
        bridge = self._bridge
        bridge._committing = {}
        try:
            bridge._start_fetching({TopicPartition(*each) for each in assigned})
        finally:
            await self._commit()

    async def on_partitions_revoked(self, revoked: Iterable[tuple[str, int]]) -> None:
        bridge = self._bridge
        partitions = {TopicPartition(*each) for each in revoked} & bridge._owned
        bridge._stop_fetching(partitions)
        done = {each: bridge._processed[each] for each in partitions & bridge._processed.keys()}
        bridge._committing = done if bridge._auto_commit else {}
        try:
            if bridge._on_revoke is not None and partitions:
                bridge._on_revoke(bridge, _confluent(partitions))
        finally:
            bridge._drop(partitions)
            await self._commit()

    async def on_partitions_lost(self, lost: Iterable[tuple[str, int]]) -> None:
        bridge = self._bridge
        partitions = {TopicPartition(*each) for each in lost}
        bridge._stop_fetching(partitions)
        bridge._committing = {}
        try:
            if bridge._on_lost is not None:
                bridge._on_lost(bridge, _confluent(partitions))
        finally:
            bridge._drop(partitions)
            offsets, bridge._committing = bridge._committing, None
            if offsets:
                log.warning("offsets of %s are not committed: the member is out of its group", _named(offsets))

    async def _commit(self) -> None:
        offsets, self._bridge._committing = self._bridge._committing, None
        try:
            if offsets:
                await self._bridge._control.commit_async(_offsets(offsets))
        except KafkaError as error:
            log.warning("offsets of %s are not committed, the next owner reads again: %s", _named(offsets or {}), error)


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{each.topic}-{each.partition}" for each in sorted(partitions))


def _offsets(offsets: Mapping[TopicPartition, int]) -> dict[Any, Any]:
    return {KafkaTopicPartition(*each): OffsetAndMetadata(offset, "", -1) for each, offset in offsets.items()}


def _confluent(partitions: Iterable[TopicPartition]) -> list[Any]:
    return [confluent_kafka.TopicPartition(each.topic, each.partition) for each in sorted(partitions)]
