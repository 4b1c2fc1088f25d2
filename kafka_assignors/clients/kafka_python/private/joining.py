"""Joins: asking for one, carrying one out, giving one up, and what a member sends that joins to leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import attrgetter
from typing import Any

from kafka.structs import MemberState

from ....core.group import NO_GENERATION
from ....core.wire.protocol import AssignedPartitions, decode_subscription, encode_assignment, encode_subscription
from ....errors import ConfigError
from .consumer import coordinator_of
from .membership import generation, given_up
from .names import AWAIT_FOR, CLOSES, VERSION, get, missing
from .requests import run


def request_rebalance(coordinator: Any) -> None:
    """Make a consumer's next poll join the group again.

    The group rebalances if the consumer leads it, or if its subscription has changed.

    Source: KIP-568, ``enforceRebalance``, which kafka-python 3.0.12 doesn't have.
    """
    get(coordinator, "request_rejoin", lambda: None)()


def keep_rejoining(coordinator: Any) -> None:
    """Make a leader join again if its ``poll`` times out during this join; call it while the assignor assigns.

    kafka-python 3.0.12 stores the reason for which it rejoins. If the reason is changed metadata, the leader clears it
    as soon as it assigns. If that ``poll`` then times out before the SyncGroup response arrives, the next ``poll`` does
    nothing: no assignment, no heartbeats, no error, even after the coordinator has evicted the member. A third of the
    starts of a small group on a busy machine ended this way. This renews the request: the next ``poll`` joins again.
    """
    get(coordinator, "request_rejoin", lambda: None)()


def _needed(consumer: Any, name: str) -> Callable[..., Any]:
    method: Callable[..., Any] | None = get(coordinator_of(consumer), name, None)
    if method is None:
        raise ConfigError(
            f"kafka-python {VERSION} has no {name!r}, without which only its own poll() can maintain the group "
            "membership; install a newer kafka-assignors, or kafka-python 3.0.12"
        )
    return method


def must_rejoin(consumer: Any) -> bool:
    """Whether the consumer's next `rebalance` joins the group; cheap. `ConfigError` if the private name is missing."""
    return bool(_needed(consumer, "need_rejoin")())


def rebalance(consumer: Any, timeout_s: float) -> bool:
    """Do the group part of ``poll`` (join if due, liveness, callbacks) without fetching records.

    Returns whether the member is in its group's generation, as soon as the join is complete; ``poll`` would wait for
    records. The next call continues a join that outlasts `timeout_s`.

    Raises:
        KafkaError: A fatal response of the coordinator, or an error of a rebalance listener.
        ConfigError: This kafka-python does not have the private name.
    """
    return bool(_needed(consumer, "poll")(timeout_ms=1000 * timeout_s))


def give_up_join(coordinator: Any, before: tuple[int, str]) -> None:
    """Make a consumer that is being closed wait for no join; call it on any thread but kafka-python's own.

    While a JoinGroup or SyncGroup waits for other members, a broker reads nothing more from its connection, neither a
    commit nor a LeaveGroup, and kafka-python waits for the responses. So this closes that connection; the next
    request opens another one. Does nothing if a private name is missing. `before` is the consumer's `generation` when
    it last sent a JoinGroup.
    """
    if not any(missing(coordinator, path) for path in CLOSES):
        run(coordinator, _give_up_join, coordinator, before)


async def _give_up_join(coordinator: Any, before: tuple[int, str]) -> None:
    given_up.add(coordinator)
    task = coordinator._join_task
    if task is not None and not task.is_done and not generation(coordinator)[1]:
        # The coordinator gives a new member its id at once, and only by this id can the member leave.
        with suppress(Exception):
            await attrgetter(AWAIT_FOR)(coordinator)(task, MEMBER_ID_MS)
    now = generation(coordinator)
    if task is not None and not task.is_done and coordinator.coordinator_id is not None:
        coordinator._client.close(coordinator.coordinator_id)
        if now == before and now[0] != NO_GENERATION:
            # The join was not answered, so the member is still in its old generation, and may commit in it.
            coordinator.state = MemberState.STABLE
    elif now[1] and coordinator.state is MemberState.UNJOINED:
        coordinator.state = MemberState.REBALANCING  # else kafka-python doesn't leave: it only has an id yet


MEMBER_ID_MS = 500
"""How long a member that is being closed waits for its id."""


def joining_to_leave(coordinator: Any, protocols: Iterable[tuple[str, Any]], topics: bool) -> list[tuple[str, bytes]]:
    """What a member sends to join that will leave, in place of `protocols`: its owned partitions, and their generation.

    That generation is not the one sent with its last join: the coordinator would answer equal bytes with the old
    assignment. `topics`: whether it names its topics.
    """
    number, _ = generation(coordinator)
    leave_protocols = []
    for name, metadata in protocols:
        sent = decode_subscription(metadata if isinstance(metadata, bytes) else bytes(metadata.encode()))
        sent = sent._replace(generation=max(sent.generation, number), topics=sent.topics if topics else ())
        leave_protocols.append((name, encode_subscription(sent)))
    return leave_protocols


NOTHING = encode_assignment(AssignedPartitions({}))
"""The assignment of a member that gets no partitions."""
