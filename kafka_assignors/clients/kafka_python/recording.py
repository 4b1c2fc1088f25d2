"""Records what a ``KafkaConsumer`` of kafka-python does in its group (`kafka_assignors.record`)."""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ...errors import ConfigError
from ..recorder.member import JoinedMember, ServiceMember, encoded
from ..recorder.sender import EventSender
from ..recorder.sinks import Producer, host
from . import private

CLIENT = "kafka-python"
_recorded: weakref.WeakSet[Any] = weakref.WeakSet()
"""Coordinators of recorded consumers."""


def producer_of(consumer: Any, topic: str) -> Callable[[], Producer]:
    """Makes a producer that sends events to a topic with the connection settings of a consumer."""
    group = str(private.recorded.settings(private.consumer.coordinator_of(consumer))["group_id"])
    return lambda: private.recorded.EventProducer(consumer, topic, group)


def record_consumer(consumer: Any, sender: EventSender) -> None:
    """Record a consumer from now on; a second call does nothing.

    Raises:
        ConfigError: It is no ``KafkaConsumer``, or has no group, or this kafka-python lacks a private name.
    """
    coordinator = private.consumer.coordinator_of(consumer)
    if lacks := private.names.lacks_for_record(coordinator):
        raise ConfigError(
            f"this consumer can't be recorded: kafka-python's coordinator lacks {', '.join(lacks)}; install "
            "kafka-python 3.0.12"
        )
    settings = private.recorded.settings(coordinator)
    if settings["group_id"] is None:
        raise ConfigError("this consumer can't be recorded: it has no group_id")
    if coordinator in _recorded:
        return
    _recorded.add(coordinator)
    member = ServiceMember(
        sender, group=str(settings["group_id"]), client=CLIENT, client_id=private.recorded.client_id(consumer),
        instance_id=private.consumer.instance_id(coordinator), host=host(),
        session_timeout_ms=int(settings["session_timeout_ms"]),
        rebalance_timeout_ms=int(settings["max_poll_interval_ms"]),
    )  # fmt: skip
    private.wrapping.wrap_record(
        coordinator,
        protocols=functools.partial(_joining, member),
        joined=functools.partial(_joined, member),
        assign=functools.partial(_assigning, member),
        synced=functools.partial(_synced, member),
        prepare=functools.partial(_preparing, member),
        adopt=functools.partial(_adopting, member),
        on_heartbeat=functools.partial(_beating, member),
        leave=functools.partial(_leaving, member),
        closing=functools.partial(_giving_up, member),
        close=functools.partial(_closing, member),
    )


def _joining(member: ServiceMember, coordinator: Any, original: Callable[[], Any]) -> Callable[[], Any]:
    @functools.wraps(original)
    def group_protocols() -> Any:
        protocols = original()
        member.guarded(_note_sent, member, coordinator, protocols)
        return protocols

    return group_protocols


def _note_sent(member: ServiceMember, coordinator: Any, protocols: Any) -> None:
    topics, pattern = private.recorded.subscription(coordinator)
    names = [str(name) for name, _ in protocols]
    settings = private.recorded.settings(coordinator)
    times = ("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms")
    config: dict[str, Any] = {
        "assignors": [f"{CLIENT}:{name}" for name in names], **{name: int(settings[name]) for name in times}
    }  # fmt: skip
    if pattern is not None:
        config["pattern"] = pattern
    member.start(topics, names, config)
    member.joining({str(name): encoded(metadata) for name, metadata in protocols})


def _joined(member: ServiceMember, coordinator: Any, original: Callable[..., Any]) -> Callable[..., Any]:  # noqa: ARG001 - as all wrappers
    @functools.wraps(original)
    def _process_join_group_response(response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(response, *args, **kwargs)
        member.guarded(_note_joined, member, response)
        return answer

    return _process_join_group_response


def _note_joined(member: ServiceMember, response: Any) -> None:
    leads = response.leader == response.member_id
    members = [
        JoinedMember(str(m.member_id), m.group_instance_id or None, bytes(m.metadata)) for m in response.members
    ] if leads else ()  # fmt: skip
    member.joined(
        str(response.member_id), int(response.generation_id), str(response.protocol_name), str(response.leader), members
    )


def _assigning(member: ServiceMember, coordinator: Any, original: Callable[..., Any]) -> Callable[..., Any]:  # noqa: ARG001 - as all wrappers
    @functools.wraps(original)
    def _perform_assignment(*args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        assignments: Mapping[str, Any] = original(*args, **kwargs)
        member.guarded(member.assigned, assignments, time.perf_counter() - begun)
        return assignments

    return _perform_assignment


def _synced(member: ServiceMember, coordinator: Any, original: Callable[..., Any]) -> Callable[..., Any]:  # noqa: ARG001 - as all wrappers
    @functools.wraps(original)
    def _process_sync_group_response(*args: Any, **kwargs: Any) -> Any:
        assignment = original(*args, **kwargs)  # raises if the coordinator refuses it
        member.guarded(member.synced)
        return assignment

    return _process_sync_group_response


def _preparing(
    member: ServiceMember, coordinator: Any, original: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(original)
    async def _on_join_prepare_async(*args: Any, **kwargs: Any) -> Any:
        lost = [False]
        member.guarded(lambda: lost.__setitem__(0, private.recorded.is_lost(coordinator)))
        try:
            return await original(*args, **kwargs)
        finally:
            member.guarded(_note_prepared, member, coordinator, lost[0])

    return _on_join_prepare_async


def _note_prepared(member: ServiceMember, coordinator: Any, lost: bool) -> None:
    gone = member.owned if lost else private.recorded.revoked_before_join(coordinator, member.owned)
    member.gives_up(gone, lost=lost)


def _adopting(
    member: ServiceMember, coordinator: Any, original: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(original)
    async def _on_join_complete_async(
        generation: Any, member_id: Any, protocol: Any, assignment: Any, *args: Any, **kwargs: Any
    ) -> Any:
        member.guarded(lambda: member.adopting(int(generation), str(protocol), bytes(assignment or b"")))
        try:
            return await original(generation, member_id, protocol, assignment, *args, **kwargs)
        finally:
            member.guarded(lambda: member.owns(private.membership.owned(coordinator)))

    return _on_join_complete_async


def _beating(member: ServiceMember, coordinator: Any, original: Callable[..., Any]) -> Callable[..., Any]:  # noqa: ARG001 - as all wrappers
    @functools.wraps(original)
    def _handle_heartbeat_response(response: Any, *args: Any, **kwargs: Any) -> Any:
        member.guarded(lambda: member.refused(private.recorded.error_of(response)))
        return original(response, *args, **kwargs)

    return _handle_heartbeat_response


def _leaving(
    member: ServiceMember, coordinator: Any, original: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(original)
    async def maybe_leave_group_async(*args: Any, **kwargs: Any) -> Any:
        member.guarded(_note_leave, member, coordinator)
        return await original(*args, **kwargs)

    return maybe_leave_group_async


def _note_leave(member: ServiceMember, coordinator: Any) -> None:
    reason = private.recorded.reason_to_leave(coordinator)
    if reason is not None:
        member.stop(reason)


def _giving_up(
    member: ServiceMember, coordinator: Any, original: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(original)
    async def _on_close_prepare_async(*args: Any, **kwargs: Any) -> Any:
        lost = [False]
        member.guarded(lambda: lost.__setitem__(0, private.recorded.is_lost(coordinator)))
        try:
            return await original(*args, **kwargs)
        finally:
            member.guarded(lambda: member.gives_up(member.owned, lost=lost[0]))

    return _on_close_prepare_async


def _closing(member: ServiceMember, coordinator: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    static = private.consumer.instance_id(coordinator) is not None

    @functools.wraps(original)
    def close(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            member.guarded(member.close, static=static)

    return close
