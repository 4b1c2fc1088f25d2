"""Follows one group in the coordinator log, and writes its records to the history."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError, TopicAuthorizationFailedError

from kafka_assignors.connection import Connection, Right, needing
from kafka_assignors.coordinator import log_consumer, log_partition, printed_id, reading_log
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import decode_subscription
from kafka_assignors.errors import WireError
from kafka_assignors.history.broker_group import (
    CURRENT,
    MEMBER,
    STABLE,
    BrokerGroup,
    as_generation,
    named,
    told_names,
    topic_ids,
)
from kafka_assignors.history.coordinator_log import (
    COORDINATOR_TOPIC,
    BrokerAssigned,
    CommittedMember,
    Decoded,
    GroupCommitted,
    OffsetCommitted,
    Tombstone,
    Unknown,
    decode,
)
from kafka_assignors.history.events import committed
from kafka_assignors.history.writer import EventWriter

from ..broker.ready import require_broker
from ..errors import BrokerUnreachable

_CLOSE_S = 20
"""Limit for reading records that are already in the log."""
_ASK_MS, _FIRST_ASK_MS = 1000, 5000
"""Limits for one question where the log ends. A new consumer's first answer can take seconds on a busy machine."""


class Joined(NamedTuple):
    """The generation that a client was in at a time, according to the coordinator log."""

    generation: int
    protocol: str
    member_id: str
    gone: bool  # a newer generation without it was committed by then
    owns: bool  # it claimed partitions when it joined, so it rebalances incrementally (KIP-429): eager ones give up all


class _Reconciled(NamedTuple):
    """A member of a KIP-848 group from `at_ms` (the broker's clock) on; `assigned` is None once it has left."""

    at_ms: int
    client_id: str
    member_id: str
    epoch: int
    assigned: frozenset[TopicPartition] | None


class CoordinatorLog:
    """Reads one group's part of the coordinator log in a thread and writes it to the history.

    It covers records from the moment this object exists. A completed generation becomes ``generation_committed``, a
    commit ``offset_committed``, a record of a KIP-848 group ``broker_assigned``, and a record of this group that can't
    be decoded ``unread``. The events have the broker's time (record timestamp), converted to this machine's monotonic
    clock, not the time of reading. `close` closes the writer, too.

    Raises:
        BrokerUnreachable: No broker answers, or the offsets topic doesn't exist, within `timeout_s`.
    """

    def __init__(self, bootstrap: str | Connection, group: str, writer: EventWriter, timeout_s: float = 30) -> None:
        self._group, self._writer, self._connection = group, writer, Connection.of(bootstrap)
        self._consumer, self._ask_anew = _open(bootstrap, group, timeout_s)
        self._asker: KafkaConsumer | None = None
        self._changed = threading.Condition()
        self._generations: list[tuple[int, GroupCommitted]] = []  # ms of the broker's clock
        self._offsets: dict[TopicPartition, int] = {}
        self._broker_group = BrokerGroup(group)
        self._names: dict[str, str] = {}  # topic id -> name
        self._reconciled: list[_Reconciled] = []
        self._error: BaseException | None = None
        self._closing = False
        self._asked = self._caught_up = 0  # number of calls of `catch_up`, and of those completed
        self._wall_minus_mono_ns = time.time_ns() - time.monotonic_ns()
        self._thread = threading.Thread(target=self._follow, name=f"coordinator-log-{group}", daemon=True)
        self._thread.start()

    @property
    def generation(self) -> GroupCommitted | None:
        """The last committed generation, None before the first. RuntimeError, with its cause, if the reader failed."""
        with self._changed:
            if self._error is not None:
                raise RuntimeError(f"the reader of the coordinator log failed: {self._error}") from self._error
            if self._broker_group.members:
                return as_generation(self._broker_group, self._names)
            return self._generations[-1][1] if self._generations else None

    @property
    def unsettled(self) -> list[str]:
        """What the coordinator of a KIP-848 group must still do; empty for a classic group."""
        with self._changed:
            return unsettled(self._broker_group)

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The last committed offset per topic-partition."""
        with self._changed:
            return dict(self._offsets)

    def joined(self, client_id: str, at_ms: int) -> Joined | None:
        """The last generation with this client that was committed by a time (wall clock, ms); None before its first."""
        with self._changed:
            committed = [generation for ms, generation in self._generations if ms <= at_ms]
        for generation in reversed(committed):
            for member in generation.members:
                if member.client_id == client_id:
                    gone = committed[-1] is not generation
                    protocol = generation.protocol or ""
                    return Joined(generation.generation, protocol, member.member_id, gone, _owns(member))
        return None

    def reconciled(self, client_id: str, at_ms: int, owned_partitions: frozenset[TopicPartition]) -> Joined | None:
        """The last current assignment of a client in a KIP-848 group that was committed by a time (wall clock, ms).

        The coordinator may be ahead of the client, which reconciles one assignment after the other: the last assignment
        of exactly `owned_partitions` is preferred to the last one.
        """
        with self._changed:
            rows = [row for row in self._reconciled if row.client_id == client_id and row.at_ms <= at_ms]
        if not rows:
            return None
        there = [row for row in rows if row.assigned is not None]
        same = [row for row in there if row.assigned == owned_partitions]
        row = (same or there or rows)[-1]
        return Joined(row.epoch, "", row.member_id, rows[-1].assigned is None, True)

    def mono_ns(self, ts_ns: int) -> int:
        """Convert wall-clock time to the monotonic clock."""
        return ts_ns - self._wall_minus_mono_ns

    def catch_up(self, timeout_s: float = 10) -> bool:
        """Read everything that is in the log at the call. False: that didn't succeed in time."""
        with self._changed:
            self._asked += 1
            mine = self._asked
            done = self._changed.wait_for(lambda: self._caught_up >= mine or self._error is not None, timeout_s)
            return done and self._error is None

    def wait(self, timeout_s: float) -> None:
        """Wait until something new was read, at most `timeout_s` seconds."""
        with self._changed:
            self._changed.wait(timeout_s)

    def close(self) -> None:
        """Read to the current end of the log, end the thread, close the file. Safe to call twice.

        The file gets no seal if it may be incomplete because the reader failed or the broker is gone.
        """
        if self._closing:
            return
        whole = self.catch_up(_CLOSE_S)
        self._closing = True
        self._thread.join(timeout=10)
        if whole and not self._thread.is_alive():
            self._writer.close()
        else:
            self._writer.abandon()

    def _follow(self) -> None:
        asked, end = 0, None  # the newest call of `catch_up`, and where the log ended then
        try:
            while True:
                if end is None and self._asked > self._caught_up:
                    asked, end = self._asked, self._end()
                polled = self._consumer.poll(timeout_ms=100) if end is None or self._position() < end else {}
                for records in polled.values():
                    self._take([(decode(record.key, record.value), record.timestamp) for record in records])
                if end is not None and self._position() >= end:
                    end = None
                    with self._changed:
                        self._caught_up = asked
                        self._changed.notify_all()
                if self._closing:
                    return
        except BaseException as error:  # raised by `generation`
            with self._changed:
                self._error = error
                self._changed.notify_all()
        finally:
            self._consumer.close()
            if self._asker is not None:
                self._asker.close()

    def _end(self) -> int | None:
        """The end offset of the log, including open transactions; None if the broker doesn't answer now."""
        (at,) = self._consumer.assignment()
        limit_ms = _FIRST_ASK_MS if self._asker is None else _ASK_MS
        try:
            if self._asker is None:
                self._asker = self._ask_anew()
            return int(self._asker.end_offsets([at], timeout_ms=limit_ms)[at])
        except KafkaError:
            # A consumer of kafka-python 3.0.12 that was idle while all its nodes were replaced times out each time.
            if self._asker is not None:
                self._asker.close()
            self._asker = None
            return None

    def _position(self) -> int:
        (at,) = self._consumer.assignment()
        return int(self._consumer.position(at))

    def _take(self, read: Sequence[tuple[Decoded, int]]) -> None:
        """Write records (each with its ms) to the history, then publish the state that they leave, all at once.

        A coordinator appends one decision of a KIP-848 group as a batch: a member's new subscription is followed by the
        epoch that it causes. Whoever saw the first without the second would take the group to be at rest.
        """
        ours = [(d, ms) for d, ms in read if not isinstance(d, Tombstone) and d.group == self._group]
        for decoded, record_ms in ours:
            self._write(decoded, record_ms)
        with self._changed:
            for decoded, record_ms in ours:
                if isinstance(decoded, BrokerAssigned):
                    self._reconcile(decoded, record_ms)
                elif isinstance(decoded, GroupCommitted):
                    self._generations.append((record_ms, decoded))
                elif isinstance(decoded, OffsetCommitted):
                    self._offsets[TopicPartition(decoded.topic, decoded.partition)] = decoded.offset
            if ours:
                self._changed.notify_all()

    def _write(self, decoded: Decoded, record_ms: int) -> None:
        ts_ns = record_ms * 1_000_000
        stamp: dict[str, Any] = {"ts_ns": ts_ns, "mono_ns": self.mono_ns(ts_ns)}
        if isinstance(decoded, Unknown):
            self._writer.write("unread", **stamp, reason=decoded.reason)
        elif not isinstance(decoded, Tombstone):
            kind, fields = committed(decoded)
            if isinstance(decoded, BrokerAssigned) and (names := self._named(decoded)):
                fields["names"] = names
            self._writer.write(kind, **stamp, **fields)

    def _named(self, entry: BrokerAssigned) -> dict[str, str]:
        """The names of the topics whose ids a record has. Brokers are asked once per topic: ids are never reused."""
        self._names |= told_names(entry)
        wanted = topic_ids(entry.fields)
        if missing := wanted - self._names.keys():
            with suppress(KafkaError), closing(KafkaAdminClient(**self._connection.kafka_python())) as admin:
                topic_names = {
                    printed_id(t["topic_id"]): t["name"] for t in admin.describe_topics() if t.get("topic_id")
                }
                self._names |= {topic_id: topic_names[topic_id] for topic_id in missing if topic_id in topic_names}
        return {topic_id: self._names[topic_id] for topic_id in wanted if topic_id in self._names}

    def _reconcile(self, entry: BrokerAssigned, at_ms: int) -> None:
        before = self._broker_group.members.get(entry.member or "")
        self._broker_group.take(entry)
        member = self._broker_group.members.get(entry.member or "")
        if entry.record == MEMBER and member is None and before is not None:
            self._reconciled.append(_Reconciled(at_ms, before.client_id, before.member_id, before.epoch, None))
        elif entry.record == CURRENT and entry.fields is not None and member is not None:
            assigned = named(member.assigned, self._names)
            self._reconciled.append(_Reconciled(at_ms, member.client_id, member.member_id, member.epoch, assigned))


def unsettled(group: BrokerGroup) -> list[str]:
    """What the coordinator of a KIP-848 group must still do before every member has its target."""
    if not group.members:
        return []
    reasons = []
    if group.epoch != group.target_epoch:
        reasons.append(f"the broker's assignment for epoch {group.epoch} (it has that of {group.target_epoch})")
    reasons += [
        f"{member.client_id} is in epoch {member.epoch} of {group.target_epoch}, "
        + ("revoking" if member.revoking else "without partitions that others still have")
        for _, member in sorted(group.members.items())
        if member.epoch != group.target_epoch or member.state != STABLE or member.assigned != member.target
    ]
    return reasons


def _open(
    bootstrap: str | Connection, group: str, timeout_s: float
) -> tuple[KafkaConsumer, Callable[[], KafkaConsumer]]:
    """A consumer at the end of the group's partition of the coordinator log; makes consumers that ask for that end."""
    require_broker(bootstrap)
    deadline = time.monotonic() + timeout_s
    user = Connection.of(bootstrap)
    consumer = log_consumer(user)
    try:
        while (at := log_partition(consumer, user, group)) is None:
            if time.monotonic() > deadline:
                raise BrokerUnreachable(f"{bootstrap} has no {COORDINATOR_TOPIC} after {timeout_s:g} s")
            with needing(user, Right("Read", "Group", group)):
                _make_offsets_topic(user, group, deadline)
        consumer.assign([at])
        with reading_log(user):
            end = consumer.end_offsets([at])[at]
            # read an existing record, so that a missing right fails here and not in the thread
            consumer.seek(at, max(0, end - 1))
            consumer.poll(timeout_ms=1000 if end else 0)
        consumer.seek(at, end)
        # the end includes transactions that are still open
        return consumer, partial(log_consumer, user, isolation_level="read_uncommitted")
    except BaseException:
        consumer.close()
        raise


def _owns(member: CommittedMember) -> bool:
    with suppress(WireError):
        return bool(decode_subscription(member.subscription).owned)
    return False


def _make_offsets_topic(user: Connection, group: str, deadline: float) -> None:
    # The broker creates the topic when a client first looks for a group's coordinator, e.g. to fetch commits.
    config = {**user.kafka_python(), "allow_auto_create_topics": False, "metrics_enabled": False}
    with KafkaConsumer(group_id=group, enable_auto_commit=False, **config) as asker:
        left_ms = max(1, int((deadline - time.monotonic()) * 1000))
        # when the broker refuses access to that topic, the coordinator has already been looked up
        with suppress(KafkaTimeoutError, TopicAuthorizationFailedError):
            asker.committed(KafkaTopicPartition("any", 0), timeout_ms=left_ms)
