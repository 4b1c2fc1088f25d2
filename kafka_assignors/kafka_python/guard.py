"""Makes a ``KafkaConsumer`` notice that it has lost its place in the group: mends kafka-python 3.0.12 from outside."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as TheirCooperativeAssignor
from kafka.errors import FencedInstanceIdError

from ..errors import ConfigError
from . import private

# Not a mark on the methods: a tracing tool may have wrapped them before, and may wrap them again.
_guarded: weakref.WeakSet[Any] = weakref.WeakSet()


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
    * **A leader assigns before it has metadata** of topics that only others read, so that their holders lose them for
      a generation. Guarded, it waits for them, as Java's does.
    * **kafka-python's own cooperative assignor claims what was lost**, so that the leader takes it from those who have
      it. Guarded, it claims nothing then.

    Args:
        consumer: A ``KafkaConsumer`` with a group; not kept alive by this.

    Raises:
        ConfigError: This kafka-python is built in another way.

    Source: kafka-python 3.0.12 ``kafka/coordinator/base.py`` and ``consumer.py``; Java's ``AbstractCoordinator``
    (``HeartbeatThread`` fails for good on FENCED_INSTANCE_ID) and ``ConsumerCoordinator.onJoinPrepare`` (KIP-429).
    """
    coordinator = private.coordinator_of(consumer)
    if lacks := private.unguardable(coordinator):
        raise ConfigError(
            f"this consumer can't be guarded: kafka-python's coordinator lacks {', '.join(lacks)}; the guard is made "
            "for kafka-python 3.0.12"
        )
    guard_coordinator(coordinator)


def guard_coordinator(coordinator: Any) -> None:
    """As `guard`, for a consumer's coordinator; one that can't be guarded is left alone (`private.check`)."""
    if coordinator not in _guarded and not private.unguardable(coordinator):
        _guarded.add(coordinator)
        private.wrap(coordinator, on_heartbeat=_stopping, join=_joining, reset=_losing)
        private.learn_before_leading(coordinator)


def _stopping(coordinator: Any, handle: Callable[..., Any]) -> Callable[..., Any]:
    """A heartbeat's answer that fences the member ends it."""

    @functools.wraps(handle)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return handle(*args, **kwargs)
        except FencedInstanceIdError:
            private.fence(coordinator)
            raise

    return guarded


def _joining(coordinator: Any, join: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    """A fenced member doesn't join: it would fence the one that has its instance id now.

    A poll that had asked the latch just before would, as who is out must join again. Heartbeats are answered and joins
    are begun on one thread, so here it is known.
    """

    @functools.wraps(join)
    async def guarded() -> Any:
        if private.was_fenced(coordinator):
            mine = private.instance_id(coordinator)
            raise FencedInstanceIdError(f"another process has the group_instance_id {mine}")
        return await join()

    return guarded


def _losing(coordinator: Any, reset: Callable[..., Any]) -> Callable[..., Any]:
    """A member that is out, and in the middle of a join, has lost what it holds before it joins again."""

    @functools.wraps(reset)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        answer = reset(*args, **kwargs)
        for assignor in map(inspect.unwrap, private.assignors(coordinator)):
            if isinstance(assignor, TheirCooperativeAssignor):
                private.drop_claims(assignor)
        private.lose_in_join(coordinator)
        return answer

    return guarded
