"""Wraps kafka-python 3.0: the consumer and its coordinator, and a producer's transactions."""

from __future__ import annotations

import functools

from .calls import recorded, recorded_async, require
from .coordinators import committing, giving_up, member_of_group, of_consumer, of_coordinator, wrap_class
from .record import MEMBER, RecordedMember
from .transactions import wrapped

TYPE_CHECKING = False  # as in `record`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .calls import Steps
    from .record import File
    from .transactions import Sent

_CLIENT = "kafka-python"
_CALLBACKS = {"on_partitions_revoked": "revoke", "on_partitions_assigned": "assigned", "on_partitions_lost": "lost"}


def _start(member: RecordedMember, coordinator: Any) -> None:
    subscription, pattern = coordinator._subscription, coordinator._subscription.subscribed_pattern
    assignors = list(coordinator._assignors.values())
    ours = [type(assignor).__module__.startswith("kafka_assignors.") for assignor in assignors]
    prefixes = ["service" if is_ours else _CLIENT for is_ours in ours]
    given = [f"{prefix}:{assignor.name}" for prefix, assignor in zip(prefixes, assignors)]  # noqa: B905 - Python 3.9
    more = {} if pattern is None else {"pattern": pattern.pattern}
    if any(ours):
        more["early_heartbeats"] = True
    names = [assignor.name for assignor in assignors]
    config = coordinator.config
    member.start(subscription.subscription or (), names, given, config, config.get("group_instance_id"), **more)


def _preparing(member: RecordedMember, coordinator: Any, *_: Any, **__: Any) -> Steps:
    """A rebalance begins: an eager member gives up all partitions; a removed member has lost them."""
    _start(member, coordinator)
    before, lost = member.kept(_owned(coordinator)), coordinator._generation.is_lost()
    yield
    gone = before if lost or _eager(coordinator) else before - _owned(coordinator)
    if gone and _silent(coordinator):
        for edge in ("begin", "end"):
            member.callback("lost" if lost else "revoke", edge, gone)


def _completing(
    decode: Callable[[Any], Any], member: RecordedMember, coordinator: Any,
    generation: Any, member_id: Any, protocol: Any, member_assignment_bytes: Any,  # noqa: ARG001 - the client's names
) -> Steps:  # fmt: skip
    """A member adopts its assignment."""
    before, partitions = _owned(coordinator), set(decode(member_assignment_bytes).partitions())
    member.join(generation, protocol, partitions)
    yield
    after = _owned(coordinator)
    if not _silent(coordinator) or after != partitions:  # the client refuses one of a topic that is not subscribed
        return
    eager = _eager(coordinator)
    for name, changed in (
        ("revoke", set() if eager else before - after),
        ("assigned", after if eager else after - before),
    ):
        for edge in ("begin", "end") if changed else ():
            member.callback(name, edge, changed)


def _closing(member: RecordedMember, coordinator: Any, *_: Any, **__: Any) -> Steps:
    """A member gives up its partitions to leave."""
    if _silent(coordinator):
        yield from _leaving(member, coordinator)


def _calling(member: RecordedMember, _: Any, method_name: Any, arg: Any) -> Steps:
    """The client calls the service's rebalance listener."""
    name = _CALLBACKS.get(method_name)
    if name is not None:
        partitions = set(arg)  # the service may change it
        member.callback(name, "begin", partitions)
        yield
        member.callback(name, "end", partitions)


def _unsubscribing(member: RecordedMember, consumer: Any, *refused: Any, **too: Any) -> Steps:
    """A member gives up its partitions and leaves, and the client calls no listener."""
    if not (refused or too):
        yield from _leaving(member, consumer._coordinator)


def _leaving(member: RecordedMember, coordinator: Any) -> Steps:
    if coordinator._subscription.partitions_auto_assigned():
        how = "lost" if coordinator._generation.is_lost() else "revoke"
        yield from giving_up(member, how, _owned(coordinator))


def _stopping(member: RecordedMember, consumer: Any, *_: Any, **__: Any) -> Steps:
    """The service closes its consumer."""
    if consumer._closed:
        return
    yield
    if consumer._closed:  # not by wrong arguments
        member.tell("stop")


def _seeking(member: RecordedMember, _: Any, partition: Any, offset: Any) -> Steps:
    """Records before it are written before those after it."""
    member.flush()
    if (yield) is None:
        member.seek(partition.topic, partition.partition, offset)


def _sent(offsets: Any, group_metadata: Any) -> Sent:
    """The group alone is given, or what a consumer tells of its membership."""
    rows = [(tp.topic, tp.partition, place.offset) for tp, place in offsets.items()]
    if isinstance(group_metadata, str):
        return group_metadata, "", rows
    return group_metadata.group_id, group_metadata.member_id, rows


def _owned(coordinator: Any) -> set[Any]:
    return set(coordinator._subscription.assigned_partitions())


def _silent(coordinator: Any) -> bool:
    """Whether the client calls no rebalance listener; then only the subscription shows changes."""
    return not coordinator._subscription.rebalance_listener


def _eager(coordinator: Any) -> bool:
    return bool(coordinator._rebalance_protocol.name == "EAGER")


def wrap_coordinator(file: File, group: str, module: Any) -> None:
    """Wrap the ConsumerCoordinator of kafka-python 3.0: joins, callbacks and commits."""
    cls = module.ConsumerCoordinator
    steps_of = {
        "_on_join_prepare_async": _preparing,
        "_on_join_complete_async": functools.partial(_completing, module.ConsumerProtocolAssignment.decode),
        "_on_close_prepare_async": _closing,
        "_invoke_rebalance_listener_async": _calling,
        "_send_offset_commit_request": committing,
    }
    wrap_class(
        cls, _CLIENT, steps_of,
        lambda made: member_of_group(made, file, _CLIENT, group, lambda its: str(its._generation.member_id)),
    )  # fmt: skip


def wrap_guard(module: Any) -> None:
    """Wrap the commits of `kafka_assignors`'s guard, which it sends during a rebalance on a connection of its own."""
    require(module, ("commit_beside",), "kafka_assignors")
    module.commit_beside = recorded_async(module.commit_beside, committing, of_coordinator)


def wrap_consumer(module: Any) -> None:
    """Wrap kafka-python's KafkaConsumer: the records that it hands out, and its end."""
    cls = module.KafkaConsumer
    poll_original, next_original = cls.poll, cls.__next__

    @functools.wraps(poll_original)
    def poll(self: Any, *args: Any, **kwargs: Any) -> Any:
        member = of_consumer(self)
        if member is None:
            return poll_original(self, *args, **kwargs)
        member.guarded(member.flush)
        batches = poll_original(self, *args, **kwargs)
        # An iterator polls too, without updating offsets, and hands the records out one by one.
        if batches and (args[2] if len(args) > 2 else kwargs.get("update_offsets", True)):
            member.guarded(member.hand_out, batches.values())
        return batches

    @functools.wraps(next_original)
    def following(self: Any) -> Any:
        record = next_original(self)
        member = getattr(self._coordinator, MEMBER, None)
        if member is None:
            return record
        # This much for every record: appending is all.
        pending = member.pending
        pending.append(record)
        if len(pending) >= member.limit:
            member.guarded(member.check)
        return record

    cls.poll, cls.__next__ = poll, following
    cls.seek = recorded(cls.seek, _seeking, of_consumer)
    cls.unsubscribe = recorded(cls.unsubscribe, _unsubscribing, of_consumer)
    cls.close = recorded(cls.close, _stopping, of_consumer)


def wrap_producer(file: File, group: str, module: Any) -> None:
    """Wrap kafka-python's KafkaProducer: its transactions; sending is the client's own."""
    cls = module.KafkaProducer
    for name, method in wrapped(cls, file, group, _sent, recorded).items():
        setattr(cls, name, method)
