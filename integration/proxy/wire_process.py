"""What a process's connections show of its members: facts of `conversation` -> rows of a history. Pure.

Nobody sees into the process. What is told of a member is what it says, and what it was answered:

==============  =======================================================================================================
``start``       its first join: the assignors that it offers, its topics and its timeouts
``generation``  a SyncGroup was answered with its assignment, and it has not joined again since it asked for it
``assigned``    with that: the partitions that it did not own. It has them at this time at the earliest
``revoke``      it joins again without claiming them (an eager member claims none), or leaves: it owned them until this
                time at the latest. ``lost`` if the coordinator had told it that it is out of the group, or if it joins
                as a new member
``sent``        an answer to Fetch, OffsetFetch or ListOffsets: it can have read below these offsets, or begin at them
``commit_…``    OffsetCommit, or EndTxn of a transaction with offsets, and the answer
``stop``        it has left and not joined again when the process ends
==============  =======================================================================================================

A KIP-848 member says all that by its heartbeats (`consumer_heartbeat`): it joins with epoch 0, is given an epoch and
partitions, which are its ``generation``, tells what it owns once it has given something up, and leaves with epoch -1.
Partitions are given by topic id: they count from when metadata have told the name, which the client needs as well.

What it reads of what it was sent, and when its callbacks run, is not on the wire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import for_code

from kafka_assignors.core.wire.protocol import Subscription, decode_assignment, decode_subscription
from kafka_assignors.errors import WireError
from kafka_assignors.history.events import WIRE

from .consumer_heartbeat import JOIN
from .conversation import (
    BeatCall,
    Call,
    CommitCall,
    ConsumerBeatCall,
    EndCall,
    JoinCall,
    LeaveCall,
    Names,
    Offsets,
    Reply,
    SentOffsets,
    SyncCall,
    TopicNames,
    UnknownTopicId,
    Unread,
    named,
)

Row = dict[str, Any]
"""A row of a service's record: kind, consumer, mono_ns and the kind's fields."""
TopicPartitions = frozenset[tuple[str, int]]

_NEEDS_ID = 79
"""MEMBER_ID_REQUIRED: the answer has the id with which the member joins again (KIP-394)."""
_OUT = frozenset({22, 25, 82, 110})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH: the member is out of the group, or
another has its id."""
_AGAIN = frozenset({7, 14, 15, 16, 51})
"""Errors on which a client ends its transaction once more: the coordinator moved, loads or is busy."""


@dataclass
class WireConsumer:
    """One consumer of a process."""

    number: int  # its number in the process, from 0
    client_id: str | None
    connection: int  # where it last asked to join
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    protocol: str = ""
    topics: tuple[str, ...] = ()
    owned: TopicPartitions = frozenset()  # partitions that it was assigned and has not given up
    join: JoinCall | None = None  # the last of these calls, while its answer counts; likewise the next two
    sync: SyncCall | None = None
    beat: ConsumerBeatCall | None = None
    given: Reply | None = None  # the last answer to a KIP-848 member that names topics of which no metadata have told
    out: bool = False  # whether it knows, or says, that it is out of the group
    left_ns: int | None = None  # when it left the group; None: it has not, or has joined again
    last_ns: int = 0  # time of its last row
    started: bool = False

    def row(self, at_ns: int, kind: str, **fields: Any) -> Row:
        """A row of this consumer's."""
        self.last_ns = max(self.last_ns, at_ns)
        row: Row = {"kind": kind, "consumer": self.number, "mono_ns": at_ns, **fields}
        if self.member_id:
            row["member_id"] = self.member_id
        if self.instance_id is not None:
            row["instance_id"] = self.instance_id
        return row

    def callback(self, at_ns: int, name: str, partitions: Collection[tuple[str, int]]) -> Iterator[Row]:
        """The rows of ``NAME_begin`` and ``NAME_end``."""
        for edge in ("begin", "end"):
            yield self.row(at_ns, f"{name}_{edge}", generation=self.generation, partitions=_places(partitions))

    def adopt(self, at_ns: int, generation: int, protocol: str, given: TopicPartitions) -> list[Row]:
        """It has a generation and its assignment, and gets what it did not own."""
        gained = given - self.owned
        self.generation, self.out, self.owned = generation, False, self.owned | gained
        fields = {"protocol": protocol, "partitions": _places(given), "topics": list(self.topics)}
        row = self.row(at_ns, "generation", generation=generation, **fields)
        return [row, *self.callback(at_ns, "assigned", gained)]

    def give_up(self, at_ns: int, partitions: Collection[tuple[str, int]]) -> Iterator[Row]:
        """It no longer owns these partitions, of which it has some."""
        self.owned -= frozenset(partitions)
        return self.callback(at_ns, "lost" if self.out else "revoke", partitions)


@dataclass
class _Transaction:
    """Offsets that a transaction will commit."""

    consumer: WireConsumer
    number: int
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    begun: bool = False

    def row(self, at_ns: int, edge: str, **error: str) -> Row:
        offsets = _offsets(self.offsets)
        return self.consumer.row(at_ns, f"commit_{edge}", offsets=offsets, transaction=self.number, **error)


class WireProcess:
    """All connections of one process. `names` of topics are those that its connections have told."""

    def __init__(self, names: Names | None = None) -> None:
        self._names: Names = {} if names is None else names
        self._consumers: list[WireConsumer] = []
        self._by_id: dict[str, WireConsumer] = {}
        self._open: set[int] = set()
        self._transactions: dict[str, _Transaction] = {}
        self._ordinal = -1  # of the last transaction with offsets
        self._unread: set[str] = set()
        self._sent: dict[tuple[str, int], int] = {}

    def opened(self, connection: int) -> None:
        """The process has opened a connection, of this number."""
        self._open.add(connection)

    def closed(self, connection: int) -> None:
        """A connection has ended."""
        self._open.discard(connection)

    def asked(self, connection: int, client_id: str | None, call: Call | Unread | None, at_ns: int) -> list[Row]:
        """The rows of what a client's frame asks."""
        if isinstance(call, Unread):
            return self.not_read(call.reason, at_ns)
        if isinstance(call, JoinCall):
            return self._joins(self._joining(connection, client_id, call.member_id), connection, call, at_ns)
        if isinstance(call, ConsumerBeatCall):
            return self._beats(self._joining(connection, client_id, call.member_id), connection, call, at_ns)
        if isinstance(call, EndCall):
            return self._ends(call, at_ns)
        if isinstance(call, LeaveCall):
            return self._leaves(call, at_ns)
        consumer = None if call is None else self._of(call)
        if consumer is None:
            return []
        if isinstance(call, SyncCall):
            consumer.sync = call
        elif isinstance(call, CommitCall) and call.transaction is None and call.offsets:
            return [consumer.row(at_ns, "commit_begin", offsets=_offsets(call.offsets))]
        return []

    def answered(self, reply: Reply | SentOffsets | TopicNames | Unread | None, at_ns: int) -> list[Row]:
        """The rows of what a broker's frame answers. They are written before the client gets it."""
        if isinstance(reply, SentOffsets):
            return self._is_sent(reply.offsets, at_ns)
        if isinstance(reply, Unread):
            return self.not_read(reply.reason, at_ns)
        if isinstance(reply, TopicNames):
            waiting = [(consumer, consumer.given) for consumer in self._consumers]
            return [row for one, given in waiting if given is not None for row in self._beaten(one, given, at_ns)]
        if reply is None:
            return []
        call = reply.call
        if isinstance(call, EndCall):
            return self._ended(call, reply, at_ns)
        if isinstance(call, LeaveCall):
            return []
        consumer = self._of(call)
        if consumer is None:
            return []
        if isinstance(call, JoinCall):
            self._joined(consumer, call, reply)
        elif isinstance(call, SyncCall):
            return self._synced(consumer, call, reply, at_ns)
        elif isinstance(call, ConsumerBeatCall):
            return self._beaten(consumer, reply, at_ns)
        elif isinstance(call, CommitCall):
            return self._committed(consumer, call, reply, at_ns)
        elif isinstance(call, BeatCall) and reply.error in _OUT:
            consumer.out = consumer.out or self._is_current(consumer, call)
        return []

    def ended(self) -> list[Row]:
        """The rows of its end: its consumers that had left have stopped."""
        return [
            consumer.row(max(consumer.left_ns, consumer.last_ns), "stop")
            for consumer in self._consumers
            if consumer.left_ns is not None
        ]

    def not_read(self, reason: str, at_ns: int) -> list[Row]:
        """The row of something that can't be read, once for each reason."""
        if reason in self._unread:
            return []
        self._unread.add(reason)
        return [{"kind": "error", "consumer": 0, "mono_ns": at_ns, "error": "Unread", "fatal": False,
                 "message": f"its connections have what is not read: {reason}"}]  # fmt: skip

    def _is_sent(self, offsets: Offsets, at_ns: int) -> list[Row]:
        """A row of what goes beyond all that it was sent before. Which consumer of several gets it is not known."""
        more = {place: offset for place, offset in offsets.items() if offset > self._sent.get(place, 0)}
        self._sent |= more
        if not more or not self._consumers:
            return []
        return [self._consumers[0].row(at_ns, "sent", offsets=_offsets(more))]

    def _joining(self, connection: int, client_id: str | None, member_id: str) -> WireConsumer:
        """The consumer that asks to join. Without an id it is the one of this connection, or of one that has ended."""
        if member_id in self._by_id:
            return self._by_id[member_id]
        alike = [consumer for consumer in self._consumers if consumer.client_id == client_id]
        for consumer in alike:
            if consumer.connection == connection:
                return consumer
        for consumer in alike:
            if consumer.connection not in self._open:
                return consumer
        consumer = WireConsumer(len(self._consumers), client_id, connection)
        self._consumers.append(consumer)
        return consumer

    def _of(self, call: Call) -> WireConsumer | None:
        """The consumer whose call this is; None: it is none's."""
        if isinstance(call, JoinCall | ConsumerBeatCall):
            return next((one for one in self._consumers if one.join is call or one.beat is call), None)
        member_id = getattr(call, "member_id", "")
        if member_id or len(self._consumers) != 1:
            return self._by_id.get(member_id)
        return self._consumers[0]

    def _joins(self, consumer: WireConsumer, connection: int, call: JoinCall, at_ns: int) -> list[Row]:
        try:
            subscriptions = [decode_subscription(subscription) for _, subscription in call.protocols]
        except WireError as error:
            return self.not_read(f"a subscription: {error}", at_ns)
        rows: list[Row] = []
        if not call.member_id and consumer.member_id:
            consumer.out = True  # it joins as a new member
        consumer.connection, consumer.instance_id = connection, call.instance_id
        consumer.topics = tuple(sorted({topic for subscription in subscriptions for topic in subscription.topics}))
        rows += self._starts(consumer, _classic_start(call), at_ns)
        if gone := consumer.owned - _claims(subscriptions):
            rows += consumer.give_up(at_ns, gone)
        consumer.join, consumer.sync, consumer.left_ns = call, None, None
        return rows

    def _starts(self, consumer: WireConsumer, offers: Row, at_ns: int) -> Iterator[Row]:
        """The rows of the first time that it asks to join, with the fields of its ``start``."""
        if consumer.started:
            return
        consumer.started = True
        offers["config"]["client_id"] = consumer.client_id or ""
        yield consumer.row(at_ns, "start", client=WIRE, topics=list(consumer.topics), **offers)
        if self._sent:  # by then, to whomever
            yield consumer.row(at_ns, "sent", offsets=_offsets(self._sent))

    def _beats(self, consumer: WireConsumer, connection: int, call: ConsumerBeatCall, at_ns: int) -> list[Row]:
        """The rows of what a KIP-848 member's heartbeat says."""
        consumer.connection, consumer.beat = connection, call
        if call.topics is not None:
            consumer.topics = tuple(sorted(call.topics))
        if call.epoch < JOIN:
            rows = [*consumer.give_up(at_ns, consumer.owned)] if consumer.owned else []
            consumer.left_ns, consumer.beat, consumer.given = at_ns, None, None
            return rows
        rows = []
        if call.epoch == JOIN:
            consumer.instance_id, consumer.left_ns = call.instance_id, None
            consumer.out = consumer.out or bool(consumer.owned)  # it begins anew
            if call.member_id:
                self._by_id[call.member_id], consumer.member_id = consumer, call.member_id
            rows += self._starts(consumer, _consumer_start(call), at_ns)
        owned = frozenset[tuple[str, int]]() if call.epoch == JOIN else call.owned
        if owned is not None and (gone := consumer.owned - owned):
            rows += consumer.give_up(at_ns, gone)
        if call.epoch == JOIN:
            consumer.generation = -1
        return rows

    def _beaten(self, consumer: WireConsumer, reply: Reply, at_ns: int) -> list[Row]:
        """The rows of the answer to a KIP-848 member's heartbeat: a new epoch, or partitions that it did not have."""
        if reply.error:
            consumer.out = consumer.out or reply.error in _OUT
            return []
        if reply.member_id:
            self._by_id[reply.member_id], consumer.member_id = consumer, reply.member_id
        consumer.given = None
        try:
            given = consumer.owned if reply.given is None else named(reply.given, self._names)
        except UnknownTopicId:
            consumer.given = reply
            return []
        if reply.generation == consumer.generation and not consumer.out and given <= consumer.owned:
            return []
        return consumer.adopt(at_ns, reply.generation, "", given)

    def _joined(self, consumer: WireConsumer, call: JoinCall, reply: Reply) -> None:
        if consumer.join is not call:
            return  # it has asked again
        if reply.error in (0, _NEEDS_ID):
            consumer.member_id = reply.member_id
            self._by_id[reply.member_id] = consumer
        if reply.error == 0:
            consumer.protocol = reply.protocol
        elif reply.error in _OUT:
            consumer.out = True

    def _synced(self, consumer: WireConsumer, call: SyncCall, reply: Reply, at_ns: int) -> list[Row]:
        if consumer.sync is not call:
            return []
        if reply.error:
            consumer.out = consumer.out or reply.error in _OUT
            return []
        try:
            assigned = decode_assignment(reply.assignment).partitions if reply.assignment else {}
        except WireError as error:
            return self.not_read(f"an assignment: {error}", at_ns)
        given = frozenset((topic, partition) for topic, ids in assigned.items() for partition in ids)
        consumer.join, consumer.sync = None, None
        return consumer.adopt(at_ns, call.generation, consumer.protocol, given)

    @staticmethod
    def _is_current(consumer: WireConsumer, call: BeatCall | CommitCall) -> bool:
        """Whether a call is of the membership that the consumer has, and has not begun to renew."""
        mine = (consumer.member_id, consumer.generation)
        return consumer.join is None and mine == (call.member_id, call.generation)

    def _committed(self, consumer: WireConsumer, call: CommitCall, reply: Reply, at_ns: int) -> list[Row]:
        accepted = {place: offset for place, offset in call.offsets.items() if not reply.errors.get(place, 0)}
        if call.transaction is not None:
            if accepted:
                if call.transaction not in self._transactions:
                    self._ordinal += 1
                    self._transactions[call.transaction] = _Transaction(consumer, self._ordinal)
                transaction = self._transactions[call.transaction]
                transaction.offsets |= accepted
            return []
        codes = {reply.errors[place] for place in call.offsets if place not in accepted}
        if codes & _OUT and self._is_current(consumer, call):
            consumer.out = True
        rows = [consumer.row(at_ns, "commit_ok", offsets=_offsets(accepted))] if accepted else []
        for code in sorted(codes):
            refused = {place: call.offsets[place] for place, its in reply.errors.items() if its == code}
            rows.append(consumer.row(at_ns, "commit_fail", offsets=_offsets(refused), error=_error(code)))
        return rows

    def _leaves(self, call: LeaveCall, at_ns: int) -> list[Row]:
        rows: list[Row] = []
        for consumer in self._consumers:
            if any(
                (member_id and member_id == consumer.member_id)
                or (instance_id is not None and instance_id == consumer.instance_id)
                for member_id, instance_id in call.members
            ):
                if consumer.owned:
                    rows += consumer.give_up(at_ns, consumer.owned)
                consumer.left_ns, consumer.join, consumer.sync = at_ns, None, None
        return rows

    def _ends(self, call: EndCall, at_ns: int) -> list[Row]:
        transaction = self._transactions.get(call.transaction)
        if transaction is None or transaction.begun or not call.commits:
            return []
        transaction.begun = True
        return [transaction.row(at_ns, "begin")]

    def _ended(self, call: EndCall, reply: Reply, at_ns: int) -> list[Row]:
        transaction = self._transactions.get(call.transaction)
        if transaction is None or reply.error in _AGAIN:
            return []
        del self._transactions[call.transaction]
        if not call.commits:
            return []
        return [
            transaction.row(at_ns, "fail", error=_error(reply.error)) if reply.error else transaction.row(at_ns, "ok")
        ]


def _classic_start(call: JoinCall) -> Row:
    names = [name for name, _ in call.protocols]
    config = {
        "assignors": [f"{WIRE}:{name}" for name in names],
        "session_timeout_ms": call.session_timeout_ms,
        "rebalance_timeout_ms": call.rebalance_timeout_ms,
    }
    return {"assignors": names, "config": config}


def _consumer_start(call: ConsumerBeatCall) -> Row:
    names = [] if call.assignor is None else [call.assignor]
    config = {
        "assignors": [f"{WIRE}:{name}" for name in names],
        "rebalance_timeout_ms": call.rebalance_timeout_ms,
        "protocol": "consumer",
        **({"pattern": call.pattern} if call.pattern else {}),  # librdkafka sends an empty one
    }
    return {"assignors": names, "config": config}


def _claims(subscriptions: Iterable[Subscription]) -> TopicPartitions:
    """What a member says that it owns, under any of its assignors."""
    return frozenset((topic, partition) for subscription in subscriptions for topic, partition in subscription.owned)


def _places(partitions: Iterable[tuple[str, int]]) -> list[Row]:
    return [{"topic": topic, "partition": partition} for topic, partition in sorted(partitions)]


def _offsets(offsets: Offsets) -> list[Row]:
    return [{"topic": topic, "partition": number, "offset": at} for (topic, number), at in sorted(offsets.items())]


def _error(code: int) -> str:
    return str(for_code(code).__name__)
