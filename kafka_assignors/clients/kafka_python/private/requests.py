"""Work and requests on kafka-python's own thread, and on a connection beside the member's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from kafka.errors import CoordinatorNotAvailableError, KafkaTimeoutError, for_code
from kafka.protocol.consumer import LeaveGroupRequest, OffsetCommitRequest
from kafka.protocol.metadata import CoordinatorType

from .consumer import default_callback, instance_id
from .membership import generation
from .names import AWAIT_FOR, get, missing


async def sleep(coordinator: Any, seconds: float) -> None:
    """Sleep on kafka-python's own thread; not at all if its event loop is unknown."""
    if (pause := get(coordinator, "_net.sleep", None)) is not None:
        await pause(seconds)


def await_commits(coordinator: Any, timeout_s: float) -> None:
    """Wait until the coordinator has answered all commits that were sent: it answers a connection in order.

    Raises `KafkaError` if it doesn't answer in time.
    """
    some = tuple(coordinator._subscription.assigned_partitions())[:1]
    coordinator.fetch_committed_offsets(some, timeout_ms=1000 * timeout_s)


def run(coordinator: Any, work: Callable[..., Any], *args: Any) -> Any:
    """Run a coroutine function on kafka-python's own thread, and wait for it; if that is unknown, only return None."""
    return None if missing(coordinator, "_net") else coordinator._net.run(work, *args)


async def done_within(coordinator: Any, future: Any, seconds: float | None) -> bool:
    """Wait on kafka-python's own thread until a future is done; False after the time limit, if there is one.

    Not by ``await``: from version 3.1 on, kafka-python's futures of any thread refuse it.
    """
    with suppress(KafkaTimeoutError):
        await attrgetter(AWAIT_FOR)(coordinator)(future, None if seconds is None else 1000 * seconds)
    return bool(future.is_done)


def commit_later(
    coordinator: Any, work: Callable[..., Any], offsets: Any, callback: Callable[[Any, Any], None] | None
) -> Any:
    """Run a commit on kafka-python's own thread; the next ``poll`` calls back. Returns its future."""
    future = coordinator._manager.call_soon(work, offsets)
    listener = callback or default_callback(coordinator)
    future.add_both(lambda answer: coordinator.completed_offset_commits.appendleft((listener, offsets, answer)))
    return future


async def give_up(coordinator: Any) -> None:
    """Call ``on_partitions_revoked`` (or ``on_partitions_lost``) for all partitions that are left, as ``close`` does.

    Raises `KafkaError` if the callback does.
    """
    await coordinator._on_close_prepare_async()


async def _beside(coordinator: Any, request: Any, timeout_s: float) -> Any:
    """Send a request to the group's coordinator on a connection of its own.

    A broker answers the requests of one connection in order. While it holds a join back until all members have joined,
    nothing else gets an answer on that connection. Raises `KafkaError` without an answer in time.
    """
    begun = time.monotonic()
    if not await coordinator.ensure_coordinator_ready_async(timeout_ms=1000 * timeout_s):
        raise KafkaTimeoutError(f"the group's coordinator is not known after {timeout_s:.1f} s")
    node = coordinator._cluster.broker_metadata(coordinator.coordinator_id)
    if node is None:
        raise CoordinatorNotAvailableError
    other = SimpleNamespace(
        error_code=0, error_message="", node_id=f"{node.node_id}-beside", host=node.host, port=node.port
    )
    key = f"{coordinator.config['group_id']} (beside)"
    node_id = coordinator._cluster.add_coordinator(other, CoordinatorType.GROUP, key)
    left_s = max(0.0, begun + timeout_s - time.monotonic())
    sent = coordinator._manager.send(request, node_id=node_id)
    return await attrgetter(AWAIT_FOR)(coordinator)(sent, 1000 * left_s)


async def commit_beside(coordinator: Any, offsets: Mapping[Any, Any], timeout_s: float) -> None:
    """Commit, even while the member waits for a join: a broker accepts it until all members have joined.

    Raises `KafkaError`: the coordinator's answer, or none within the time limit.

    Source: apache/kafka 4.3.0 ``ClassicGroup.validateOffsetCommit``.
    """
    number, member = generation(coordinator)
    topics: dict[str, list[Any]] = {}
    for tp, offset in offsets.items():
        partition = OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
            partition_index=tp.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            committed_metadata=offset.metadata,
        )
        topics.setdefault(tp.topic, []).append(partition)
    request = OffsetCommitRequest(
        max_version=8,
        group_id=coordinator.config["group_id"],
        generation_id_or_member_epoch=number,
        member_id=member,
        group_instance_id=instance_id(coordinator),
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )
    response = await _beside(coordinator, request, timeout_s)
    for topic, partitions in response.topics:
        for partition, code in partitions:
            if code:
                raise for_code(code)(f"commit of {topic}-{partition}")


async def leave_group(coordinator: Any, member: str, timeout_s: float) -> None:
    """Tell the coordinator that a member leaves, also a static one, and reset its generation.

    Raises `KafkaError` without an answer in time.
    """
    identity = LeaveGroupRequest.MemberIdentity(
        member_id=member, group_instance_id=instance_id(coordinator), reason="leaves its group after a hand-over"
    )
    request = LeaveGroupRequest(group_id=coordinator.config["group_id"], member_id=member, members=[identity])
    coordinator._disable_heartbeat()  # else the answer to one would be a warning
    try:
        await _beside(coordinator, request, timeout_s)
    finally:
        coordinator.reset_generation()
