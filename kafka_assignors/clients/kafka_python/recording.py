"""Records what a ``KafkaConsumer`` of kafka-python does in its group (`kafka_assignors.record`)."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from ...errors import ConfigError
from ..recorder.member import JoinedMember, ServiceMember, encoded
from ..recorder.sender import EventSender
from ..recorder.sinks import Producer, host
from ..recorder.watching import Steps, Watch, assigning, watched, watched_async
from . import private

CLIENT = "kafka-python"
_recorded: weakref.WeakSet[Any] = weakref.WeakSet()
"""Coordinators of recorded consumers."""


def producer_of(consumer: Any, topic: str) -> Callable[[], Producer]:
    """Makes a producer that sends events to a topic with the connection settings of a consumer."""
    group = str(private.recorded.settings(private.consumer.coordinator_of(consumer))["group_id"])
    return lambda: private.recorded.EventProducer(consumer, topic, group)


def record_consumer(consumer: Any, sender: EventSender) -> None:
    """Record a consumer from now on, once; ConfigError without a group, or if a private name is missing."""
    coordinator = private.consumer.coordinator_of(consumer)
    if lacks := private.names.lacks(coordinator, private.names.RECORD):
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
    watches: dict[str, Watch] = {
        "protocols": _joining, "answered": _joined, "assign": assigning, "synced": _synced, "on_heartbeat": _beating,
        "close": _closing,
    }  # fmt: skip
    coroutines: dict[str, Watch] = {"prepare": _preparing, "adopt": _adopting, "leave": _leaving, "give_up": _giving_up}
    private.wrapping.wrap(
        coordinator,
        **{place: functools.partial(watched, member, watch) for place, watch in watches.items()},
        **{place: functools.partial(watched_async, member, watch) for place, watch in coroutines.items()},
    )


def _joining(member: ServiceMember, coordinator: Any) -> Steps:
    protocols = yield
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


def _joined(member: ServiceMember, _coordinator: Any, response: Any, *_args: Any, **_kwargs: Any) -> Steps:
    yield
    leads = response.leader == response.member_id
    members = [
        JoinedMember(str(m.member_id), m.group_instance_id or None, bytes(m.metadata)) for m in response.members
    ] if leads else ()  # fmt: skip
    member.joined(
        str(response.member_id), int(response.generation_id), str(response.protocol_name), str(response.leader), members
    )


def _synced(member: ServiceMember, *_args: Any, **_kwargs: Any) -> Steps:
    yield  # raises if the coordinator refuses it
    member.synced()


def _preparing(member: ServiceMember, coordinator: Any, *_args: Any, **_kwargs: Any) -> Steps:
    lost = private.recorded.is_lost(coordinator)
    try:
        yield
    finally:
        gone = member.owned if lost else private.recorded.revoked_before_join(coordinator, member.owned)
        member.gives_up(gone, lost=lost)


def _adopting(  # as kafka-python calls it
    member: ServiceMember, coordinator: Any, generation: Any, _member_id: Any, protocol: Any, assignment: Any,
    *_args: Any, **_kwargs: Any,
) -> Steps:  # fmt: skip
    member.adopting(int(generation), str(protocol), bytes(assignment or b""))
    try:
        yield
    finally:
        member.owns(private.membership.owned(coordinator))


def _beating(member: ServiceMember, _coordinator: Any, response: Any, *_args: Any, **_kwargs: Any) -> Steps:
    member.refused(private.recorded.error_of(response))
    yield


def _leaving(member: ServiceMember, coordinator: Any, *_args: Any, **_kwargs: Any) -> Steps:
    reason = private.recorded.reason_to_leave(coordinator)
    if reason is not None:
        member.stop(reason)
    yield


def _giving_up(member: ServiceMember, coordinator: Any, *_args: Any, **_kwargs: Any) -> Steps:
    lost = private.recorded.is_lost(coordinator)
    try:
        yield
    finally:
        member.gives_up(member.owned, lost=lost)


def _closing(member: ServiceMember, coordinator: Any, *_args: Any, **_kwargs: Any) -> Steps:
    try:
        yield
    finally:
        member.close(static=private.consumer.instance_id(coordinator) is not None)
