"""Wraps aiokafka (0.10 to 0.14 have the methods): the consumer and its coordinator, and a producer's transactions.

aiokafka adopts an assignment in its own task, and hands records out from then on, also while the service's callback
runs. A member that leaves calls no callback.
"""

from __future__ import annotations

import asyncio
import functools

from .calls import recorded, recorded_async, require
from .coordinators import committing, giving_up, member_of_group, of_consumer, wrap_class
from .record import MEMBER, RecordedMember
from .transactions import wrapped

TYPE_CHECKING = False  # as in `record`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .calls import Steps
    from .record import File
    from .transactions import Sent

_CLIENT = "aiokafka"
_LATEST_S = 0.02
"""Records that were handed out one by one are written after at most this time."""


def _start(member: RecordedMember, coordinator: Any) -> None:
    subscription, pattern = coordinator._subscription, coordinator._subscription.subscribed_pattern
    names = [str(assignor.name) for assignor in coordinator._assignors]
    settings = {
        "session_timeout_ms": coordinator._session_timeout_ms,
        "heartbeat_interval_ms": coordinator._heartbeat_interval_ms,
        "max_poll_interval_ms": int(coordinator._max_poll_interval * 1000),
    }
    more = {} if pattern is None else {"pattern": pattern.pattern}
    given, instance_id = [f"{_CLIENT}:{name}" for name in names], getattr(coordinator, "_group_instance_id", None)
    member.start(subscription.topics or (), names, given, settings, instance_id, **more)


def _preparing(member: RecordedMember, coordinator: Any, previous_assignment: Any) -> Steps:
    """A rebalance begins: a member gives up all partitions, after a last auto-commit."""
    _start(member, coordinator)
    yield from giving_up(member, "revoke", () if previous_assignment is None else set(previous_assignment.tps))


def _completing(
    decode: Callable[[Any], Any], member: RecordedMember, _: Any,
    generation: Any, member_id: Any, protocol: Any, member_assignment_bytes: Any,  # noqa: ARG001 - the client's names
) -> Steps:  # fmt: skip
    """A member adopts its assignment, from where on it may read."""
    partitions = set(decode(member_assignment_bytes).partitions())
    member.join(generation, protocol, partitions)
    for edge in ("begin", "end"):
        member.callback("assigned", edge, partitions)
    yield


def _committing(member: RecordedMember, coordinator: Any, assignment: Any, offsets: Any) -> Steps:  # noqa: ARG001 - the client's names
    return committing(member, coordinator, offsets)


def _leaving(member: RecordedMember, coordinator: Any) -> Steps:
    """A consumer that is closed leaves; one that is idle leaves too, and joins again."""
    if coordinator._closing.done():
        member.tell("stop")  # before it leaves, as another member may begin before the answer comes
    yield


def _unsubscribing(member: RecordedMember, consumer: Any, *refused: Any, **too: Any) -> Steps:
    """A member gives up its partitions and leaves, and the client calls no listener."""
    if not (refused or too) and consumer._subscription.partitions_auto_assigned():
        yield from giving_up(member, "revoke", set(consumer._subscription.assigned_partitions()))


def _seeking(member: RecordedMember, *_: Any, **__: Any) -> Steps:
    """Records before it are written before those after it."""
    member.flush()
    yield


def _seeking_to(member: RecordedMember, _: Any, tp: Any, offset: Any) -> Steps:
    """The consumer's ``seek`` and ``seek_to_committed`` end here."""
    if (yield) is None:
        member.seek(tp.topic, tp.partition, offset)


def _sent(offsets: Any, group_id: Any) -> Sent:
    """Offsets are given with metadata or without."""
    rows = [(tp.topic, tp.partition, at if isinstance(at, int) else at[0]) for tp, at in offsets.items()]
    return group_id, "", rows


def wrap_coordinator(file: File, group: str, module: Any) -> None:
    """Wrap aiokafka's GroupCoordinator: joins, callbacks and commits."""
    cls = module.GroupCoordinator
    steps_of = {
        "_on_join_prepare": _preparing,
        "_on_join_complete": functools.partial(_completing, module.ConsumerProtocol.ASSIGNMENT.decode),
        "_do_commit_offsets": _committing,
        "_maybe_leave_group": _leaving,
    }

    def made(coordinator: Any) -> RecordedMember | None:
        member = member_of_group(coordinator, file, _CLIENT, group, lambda its: str(its.member_id))
        if member is not None:
            setattr(coordinator._subscription, MEMBER, member)  # which the fetcher has too
        return member

    wrap_class(cls, _CLIENT, steps_of, made)


def wrap_fetcher(module: Any) -> None:
    """Wrap aiokafka's Fetcher: the records that it hands out. Frameworks ask it, and not the consumer."""
    cls = module.Fetcher
    require(cls, ("fetched_records", "next_record", "seek_to"), _CLIENT)
    many_original, one_original = cls.fetched_records, cls.next_record

    @functools.wraps(many_original)
    async def fetched_records(self: Any, *args: Any, **kwargs: Any) -> Any:
        batches = await many_original(self, *args, **kwargs)
        member = getattr(self._subscriptions, MEMBER, None)
        if batches and member is not None:
            member.guarded(member.hand_out, batches.values())
        return batches

    @functools.wraps(one_original)
    async def next_record(self: Any, *args: Any, **kwargs: Any) -> Any:
        record = await one_original(self, *args, **kwargs)
        member = getattr(self._subscriptions, MEMBER, None)
        if member is None:
            return record
        # This much for every record: appending is all.
        pending = member.pending
        if not pending:
            member.guarded(_write_soon, member)
        pending.append(record)
        if len(pending) >= member.limit:
            member.guarded(member.check)
        return record

    cls.fetched_records, cls.next_record = fetched_records, next_record
    cls.seek_to = recorded(cls.seek_to, _seeking_to, lambda fetcher: getattr(fetcher._subscriptions, MEMBER, None))


def wrap_consumer(module: Any) -> None:
    """Wrap aiokafka's AIOKafkaConsumer: what changes its position or ends its membership."""
    cls = module.AIOKafkaConsumer
    cls.unsubscribe = recorded(cls.unsubscribe, _unsubscribing, of_consumer)
    cls.seek = recorded(cls.seek, _seeking, of_consumer)
    for name in ("seek_to_beginning", "seek_to_end", "seek_to_committed"):
        setattr(cls, name, recorded_async(getattr(cls, name), _seeking, of_consumer))


def wrap_producer(file: File, group: str, module: Any) -> None:
    """Wrap aiokafka's AIOKafkaProducer: its transactions; sending is the client's own."""
    cls = module.AIOKafkaProducer
    for name, method in wrapped(cls, file, group, _sent, recorded_async).items():
        setattr(cls, name, method)


def _write_soon(member: RecordedMember) -> None:
    asyncio.get_running_loop().call_later(_LATEST_S, member.guarded, member.flush)
