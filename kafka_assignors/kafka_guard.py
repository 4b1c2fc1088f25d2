"""Makes a ``KafkaConsumer`` notice that it has lost its place in the group: mends kafka-python 3.0.12 from outside."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as TheirCooperativeAssignor
from kafka.errors import FencedInstanceIdError

from .errors import ConfigError

_NEEDED = (
    *("_handle_heartbeat_response", "reset_generation", "_do_join_and_sync_async", "_async_commit_fenced"),
    *("rejoining", "_subscription", "_assignors", "_rebalance_protocol"),
)


def guard(consumer: Any) -> None:
    """Make a consumer stop when it is fenced, and give up for lost what it lost.

    A consumer with an assignor of ours is guarded already. For others, call this once they are made; a second call does
    nothing. What it mends:

    * **A fenced static member goes on consuming.** When another process takes its ``group_instance_id``, kafka-python
      only stops its heartbeats: ``poll`` returns records that somebody else has got, for good. Guarded, each ``poll``
      and ``commit`` raises ``FencedInstanceIdError`` once the next heartbeat is answered, as Java's do, and ``close``
      calls ``on_partitions_lost``.
    * **Thrown out in the middle of a join** (a leader whose ``assign`` outlasts its session), a cooperative member
      keeps what it had: it is told ``revoked`` when others have it already, and goes on at an old position with what it
      gets back. Guarded, it is told ``on_partitions_lost`` before it joins again, and begins anew where the group has
      committed; an eager member, which has given all up, forgets its positions as well.
    * **kafka-python's own cooperative assignor claims what was lost**, so that the leader takes it from those who have
      it. Guarded, it claims nothing then.

    Args:
        consumer: A ``KafkaConsumer`` with a group; not kept alive by this.

    Raises:
        ConfigError: This kafka-python is built in another way, or the consumer has no group.

    Source: kafka-python 3.0.12 ``kafka/coordinator/base.py`` and ``consumer.py``; Java's ``AbstractCoordinator``
    (``HeartbeatThread`` fails for good on FENCED_INSTANCE_ID) and ``ConsumerCoordinator.onJoinPrepare`` (KIP-429).
    """
    coordinator = getattr(consumer, "_coordinator", None)
    if missing := [name for name in _NEEDED if not hasattr(coordinator, name)]:
        raise ConfigError(
            f"this consumer can't be guarded: kafka-python's coordinator lacks {', '.join(missing)}; the guard is made "
            "for kafka-python 3.0.12 and consumers with a group_id"
        )
    for name, wrap in _WRAPS.items():
        method = getattr(coordinator, name)
        if not hasattr(method, "__wrapped__"):
            setattr(coordinator, name, wrap(method))


def _stopping(handle: Callable[..., Any]) -> Callable[..., Any]:
    """A heartbeat's answer that fences the member ends it."""

    @functools.wraps(handle)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return handle(*args, **kwargs)
        except FencedInstanceIdError:
            coordinator = handle.__self__  # type: ignore[attr-defined]
            coordinator.reset_generation()  # what it holds is lost, not to be revoked
            # kafka-python's own latch for asynchronous commits: all that polls or commits asks it first.
            coordinator._async_commit_fenced = True
            raise

    return guarded


def _joining(join: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    """A fenced member doesn't join: it would fence the one that has its instance id now.

    A poll that had asked the latch just before would, as who is out must join again. Heartbeats are answered and joins
    are begun on one thread, so here it is known.
    """

    @functools.wraps(join)
    async def guarded() -> Any:
        coordinator = join.__self__  # type: ignore[attr-defined]
        if coordinator._async_commit_fenced:
            raise FencedInstanceIdError(f"another process has the group_instance_id {coordinator.group_instance_id}")
        return await join()

    return guarded


def _losing(reset: Callable[..., Any]) -> Callable[..., Any]:
    """A member that is out, and in the middle of a join, has lost what it holds before it joins again."""

    @functools.wraps(reset)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        answer = reset(*args, **kwargs)
        coordinator = reset.__self__  # type: ignore[attr-defined]
        for assignor in map(inspect.unwrap, coordinator._assignors.values()):
            if isinstance(assignor, TheirCooperativeAssignor):
                assignor.member_assignment = None
        if coordinator.rejoining and coordinator._subscription.assigned_partitions():
            if coordinator._rebalance_protocol == RebalanceProtocol.COOPERATIVE:
                coordinator.rejoining = False  # so that the next try prepares its join anew, which tells what is lost
            else:
                coordinator._subscription.assign_from_subscribed([])
        return answer

    return guarded


_WRAPS: Mapping[str, Callable[..., Any]] = {
    "_handle_heartbeat_response": _stopping,
    "_do_join_and_sync_async": _joining,
    "reset_generation": _losing,
}
