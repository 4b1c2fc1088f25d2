"""Records what an ``AIOKafkaConsumer`` of aiokafka does in its group (`kafka_assignors.record`).

All that its coordinator sends and gets passes one method, ``_send_req``: the recorder reads joins, their answers, what
a leader assigns, and leaves from there. aiokafka makes the coordinator in ``start``, so the recorder waits for that.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from ..errors import ConfigError
from .recorder.member import JoinedMember, ServiceMember, encoded
from .recorder.sender import EventSender
from .recorder.sinks import host
from .recorder.watching import Steps, assigning, watched_async

CLIENT = "aiokafka"
_NAMES = (
    *("_send_req", "_on_join_prepare", "_on_join_complete", "_perform_assignment", "_maybe_leave_group", "close"),
    *("_subscription", "_closing", "_assignors", "_session_timeout_ms", "_rebalance_timeout_ms", "_max_poll_interval"),
    *("_heartbeat_interval_ms", "_group_instance_id", "group_id", "generation", "member_id"),
)
"""Private names of a coordinator that the recorder uses."""
_recorded: weakref.WeakSet[Any] = weakref.WeakSet()
"""Recorded consumers."""


def record_consumer(consumer: Any, sender: EventSender) -> None:
    """Record a consumer from its start or from now on; ConfigError without a group, or if a private name is missing."""
    if getattr(consumer, "_group_id", None) is None:
        raise ConfigError("this consumer can't be recorded: it has no group_id")
    if missing := [name for name in ("_subscription", "_client", "start") if not hasattr(consumer, name)]:
        raise ConfigError(f"this consumer can't be recorded: this version of aiokafka lacks {', '.join(missing)}")
    if consumer in _recorded:
        return
    _recorded.add(consumer)
    if getattr(consumer, "_coordinator", None) is not None:
        _watch(consumer, sender)
        return
    done: list[bool] = []

    def watch_once() -> None:
        if not done and getattr(consumer, "_coordinator", None) is not None:
            done.append(True)
            _watch(consumer, sender)

    start, wait = consumer.start, consumer._subscription.wait_for_assignment

    @functools.wraps(start)
    async def started(*args: Any, **kwargs: Any) -> Any:
        answer = await start(*args, **kwargs)
        watch_once()  # of a consumer that subscribes later
        return answer

    @functools.wraps(wait)
    def wait_for_assignment(*args: Any, **kwargs: Any) -> Any:
        watch_once()  # `start` calls it as soon as there is a coordinator, which has done nothing yet
        return wait(*args, **kwargs)

    consumer.start, consumer._subscription.wait_for_assignment = started, wait_for_assignment


def _watch(consumer: Any, sender: EventSender) -> None:
    coordinator = consumer._coordinator
    member = ServiceMember(
        sender, group=str(coordinator.group_id), client=CLIENT, client_id=str(consumer._client._client_id),
        instance_id=getattr(coordinator, "_group_instance_id", None) or None, host=host(),
        session_timeout_ms=int(getattr(coordinator, "_session_timeout_ms", 0)),
        rebalance_timeout_ms=int(getattr(coordinator, "_rebalance_timeout_ms", 0)),
    )  # fmt: skip
    member.guarded(_require, coordinator)
    member.guarded(_wrap, member, coordinator)


def _require(coordinator: Any) -> None:
    if missing := [name for name in _NAMES if not hasattr(coordinator, name)]:
        raise AttributeError(f"this version of aiokafka lacks {', '.join(missing)}")


def _wrap(member: ServiceMember, coordinator: Any) -> None:
    for name, watch in (
        ("_send_req", _sending),
        ("_perform_assignment", assigning),
        ("_on_join_prepare", _preparing),
        ("_on_join_complete", _adopting),
        ("_maybe_leave_group", _leaving),
        ("close", _closing),
    ):
        original = getattr(coordinator, name)
        replaced = functools.partial(watched_async, member, watch, coordinator, original)
        setattr(coordinator, name, functools.update_wrapper(replaced, original))


def _sending(member: ServiceMember, coordinator: Any, request: Any, *_args: Any, **_kwargs: Any) -> Steps:
    kind = type(request).__name__
    if kind == "JoinGroupRequest":
        _note_sent(member, coordinator, request)
    response = yield
    _note_answer(member, kind, response)


def _note_sent(member: ServiceMember, coordinator: Any, request: Any) -> None:
    state = coordinator._subscription
    names = [str(assignor.name) for assignor in coordinator._assignors]
    config: dict[str, Any] = {
        "assignors": [f"{CLIENT}:{name}" for name in names],
        "session_timeout_ms": int(coordinator._session_timeout_ms),
        "heartbeat_interval_ms": int(coordinator._heartbeat_interval_ms),
        "max_poll_interval_ms": int(1000 * coordinator._max_poll_interval),
    }
    if state.subscribed_pattern is not None:
        config["pattern"] = str(state.subscribed_pattern.pattern)
    member.start(state.topics or (), names, config)
    member.joining({str(name): encoded(metadata) for name, metadata in request._group_protocols})


def _note_answer(member: ServiceMember, kind: str, response: Any) -> None:
    code = getattr(response, "error_code", None)
    if kind == "JoinGroupRequest" and code == 0:
        leads = response.leader_id == response.member_id
        members = [_joined_member(row) for row in response.members] if leads else ()
        member.joined(
            str(response.member_id), int(response.generation_id), str(response.group_protocol),
            str(response.leader_id), members,
        )  # fmt: skip
    elif kind == "SyncGroupRequest" and code == 0:
        member.synced()
    elif kind == "HeartbeatRequest" and code:
        from aiokafka.errors import for_code

        member.refused(for_code(code).__name__)


def _joined_member(row: Any) -> JoinedMember:
    """A member in a JoinGroup response: id, since version 5 the instance id, and metadata."""
    member_id, *instance, metadata = row
    return JoinedMember(str(member_id), (instance[0] or None) if instance else None, bytes(metadata))


def _preparing(member: ServiceMember, coordinator: Any, *_args: Any, **_kwargs: Any) -> Steps:
    lost = coordinator.generation < 0
    try:
        yield
    finally:
        member.gives_up(member.owned, lost=lost)  # it is eager


def _adopting(  # as aiokafka calls it
    member: ServiceMember, coordinator: Any, generation: Any, _member_id: Any, protocol: Any, assignment: Any,
    *_args: Any, **_kwargs: Any,
) -> Steps:  # fmt: skip
    member.adopting(int(generation), str(protocol), bytes(assignment or b""))
    try:
        yield
    finally:
        member.owns(coordinator._subscription.assigned_partitions())


def _leaving(member: ServiceMember, coordinator: Any, *_args: Any, **_kwargs: Any) -> Steps:
    _note_leave(member, coordinator)
    yield


def _note_leave(member: ServiceMember, coordinator: Any) -> None:
    if coordinator.generation <= 0 or coordinator._group_instance_id is not None:
        return
    idle_s, limit_s = coordinator._subscription.fetcher_idle_time, coordinator._max_poll_interval
    if coordinator._closing.done():
        member.gives_up(member.owned)
        member.stop("its consumer was closed")
    elif idle_s >= limit_s:
        member.stop(f"it took no records for max_poll_interval_ms ({limit_s:g} s)")
    else:
        member.gives_up(member.owned)
        member.stop("it unsubscribed")


def _closing(member: ServiceMember, coordinator: Any, *_args: Any, **_kwargs: Any) -> Steps:
    try:
        yield
    finally:
        member.close(static=coordinator._group_instance_id is not None)
