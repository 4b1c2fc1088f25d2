"""What a coordinator knows of its member: generation, protocol, partitions; starts heartbeats, ends its membership."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from typing import Any

from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from ....core.group import NO_GENERATION
from .names import get, missing, warn_once, without


def shows_protocol(coordinator: Any) -> bool:
    """Whether the coordinator shows which rebalance protocol is in force."""
    return missing(coordinator, "_rebalance_protocol") is None


def is_cooperative(coordinator: Any) -> bool:
    """Whether the COOPERATIVE rebalance protocol is in force: the best protocol that all its assignors support."""
    # If the coordinator does not show it, our assignor supports COOPERATIVE only, so no other can be in force.
    in_force = get(coordinator, "_rebalance_protocol", RebalanceProtocol.COOPERATIVE)
    return bool(in_force == RebalanceProtocol.COOPERATIVE)


def is_fenced(member: Any) -> bool:
    """Whether a coordinator, or a consumer, is in no generation: it never joined, it left, or it was evicted."""
    tells: Callable[[], Any] | None = get(member, "group_metadata", None)
    return tells is not None and bool(tells().generation_id == NO_GENERATION)


def generation(coordinator: Any) -> tuple[int, str]:
    """A guarded consumer's generation, and its member id in it."""
    metadata = coordinator.group_metadata()
    return int(metadata.generation_id), str(metadata.member_id)


def start_heartbeats(coordinator: Any) -> None:
    """Send heartbeats from now on, also between two polls; while ``stable`` says that the member is in its group."""
    coordinator._enable_heartbeat()


def is_in_generation(coordinator: Any, generation: int) -> bool:
    """Whether a consumer's group is in this generation; True if the coordinator does not show it."""
    tells: Callable[[], Any] | None = get(coordinator, "group_metadata", None)
    return tells is None or bool(tells().generation_id == generation)


def consumable_partitions(coordinator: Any, assigned: Collection[tuple[str, int]]) -> Collection[tuple[str, int]]:
    """The partitions that a consumer may consume at this moment; none once it is fenced.

    `assigned`, its last assignment, is the fallback if the coordinator does not show what it holds.
    """
    # A member that is evicted during a join keeps its assignment in memory until the next one arrives.
    if is_fenced(coordinator):
        return ()
    tells: Callable[[], Collection[tuple[str, int]]] = get(
        coordinator, "_subscription.assigned_partitions", lambda: assigned
    )
    return tells()


def progress(coordinator: Any) -> list[tuple[Any, int, int | None]]:
    """Of each partition that a consumer has: the next record to hand out, and the end offset as last fetched."""
    positions = []
    for partition, state in tuple(coordinator._subscription.assignment.items()):
        if state.position is not None and not state.paused:
            positions.append((partition, state.position.offset, state.highwater))
    return positions


given_up: weakref.WeakSet[Any] = weakref.WeakSet()


def gave_up(coordinator: Any) -> bool:
    """Whether the consumer is being closed and must not join (`give_up_join`)."""
    return coordinator in given_up


def rebalancing(coordinator: Any) -> bool:
    """Whether a cooperative member has joined and waits for its assignment; it keeps its partitions meanwhile."""
    return bool(is_cooperative(coordinator) and coordinator.rebalance_in_progress() and not gave_up(coordinator))


def joins(coordinator: Any) -> bool:
    """Whether the member has sent a join whose assignment it has not adopted yet."""
    return bool(coordinator.rebalance_in_progress())


def must_join(coordinator: Any) -> bool:
    """Whether the member's next ``poll`` joins or waits for a join."""
    return bool(coordinator.need_rejoin())


def reads_on(coordinator: Any) -> bool:
    """Whether the member must join, and keeps partitions until the group has joined.

    Not if kafka-python forgets a join that outlasts a poll.
    """
    return (
        must_join(coordinator)
        and not missing(coordinator, "request_rejoin")
        and is_cooperative(coordinator)
        and not is_fenced(coordinator)
        and bool(coordinator._subscription.assigned_partitions())
    )


def forget_fetched_offsets(coordinator: Any) -> None:
    """Drop committed offsets that were asked for before, and whose answer no poll waited for.

    kafka-python keeps them by the set of partitions: whoever gets the same ones back would begin at the old offsets.
    """
    get(coordinator, "_offset_fetch_futures", {}).clear()


def by_pattern(coordinator: Any) -> bool:
    """Whether the member subscribes to a pattern."""
    return coordinator._subscription.subscribed_pattern is not None


def joined_generation(coordinator: Any) -> int:
    """The generation that a member is joining, while its assignor assigns; `NO_GENERATION` if it is unknown."""
    tells: Callable[[], Any] | None = get(coordinator, "group_metadata", None)
    return NO_GENERATION if tells is None else int(tells().generation_id)


def owned(coordinator: Any) -> Collection[Any]:
    """The topic-partitions of the consumer's assignment in memory."""
    partitions: Collection[Any] = coordinator._subscription.assigned_partitions()
    return partitions


def member_id(coordinator: Any) -> str:
    """The member id; an evicted member gets a new one when it joins again."""
    return str(coordinator.group_metadata().member_id)


def fence(coordinator: Any) -> None:
    """Stop a member: its partitions are lost (not revoked), and each later ``poll`` and ``commit`` raises."""
    coordinator.reset_generation()
    # kafka-python's own flag for asynchronous commits: every poll and commit checks it first.
    coordinator._async_commit_fenced = True


def was_fenced(coordinator: Any) -> bool:
    """Whether `fence` stopped the member, or an asynchronous commit found that it is fenced."""
    return bool(coordinator._async_commit_fenced)


def drop_claims(assignor: Any) -> None:
    """Make kafka-python's own cooperative assignor claim nothing after its member has lost its partitions."""
    if missing(assignor, "member_assignment"):
        lost = "kafka-python's cooperative assignor claims partitions that a guarded member has lost"
        warn_once(without("member_assignment", lost))
    assignor.member_assignment = None


def lose_in_join(coordinator: Any) -> None:
    """If a member is evicted during a join, report its partitions as lost before it joins again."""
    if coordinator.rejoining and coordinator._subscription.assigned_partitions():
        if coordinator._rebalance_protocol == RebalanceProtocol.COOPERATIVE:
            coordinator.rejoining = False  # the next attempt then prepares its join again and reports lost partitions
        else:
            coordinator._subscription.assign_from_subscribed([])


def drop_revoked(coordinator: Any) -> None:
    """Take from a member of an eager group that is joining what it has revoked for that."""
    if coordinator.rejoining and not is_cooperative(coordinator) and not is_fenced(coordinator):
        coordinator._subscription.assign_from_subscribed([])


def is_subscribed(coordinator: Any) -> bool:
    """Whether a consumer has a group and a subscription: no topics by ``assign``."""
    return coordinator.config["group_id"] is not None and bool(coordinator._subscription.partitions_auto_assigned())


def consumed(coordinator: Any) -> dict[Any, Any]:
    """Topic-partition -> ``OffsetAndMetadata`` of the next record to hand out, for those with a known position."""
    offsets: dict[Any, Any] = coordinator._subscription.all_consumed_offsets()
    return offsets


def partitions_of(assignment: bytes) -> set[Any]:
    """The topic-partitions of an assignment as a leader sends it; zero bytes have none."""
    return set(ConsumerProtocolAssignment.decode(assignment).partitions()) if assignment else set()


def leads(coordinator: Any) -> bool:
    """Whether the member led its generation."""
    return bool(coordinator._is_leader)


def watch_topics(coordinator: Any) -> bool:
    """Make the member join again when its topics change, as a leader does, until it has joined again.

    Not before it has the metadata of all its topics, whose arrival would be a change; returns whether it watches.
    """
    topics = coordinator._metadata_snapshot
    if not topics or not all(topics.values()):
        return False
    coordinator._assignment_snapshot = topics
    return True
