"""Replacing a coordinator's methods by others that call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Wrap = Callable[[Any, Callable[..., Any]], Callable[..., Any]]
"""(coordinator, its original method) -> the replacement."""


def wrap(coordinator: Any, *, on_heartbeat: Wrap, reset: Wrap, find: Wrap, poll: Wrap) -> None:
    """Wrap the heartbeat response, the generation's reset, the search for the coordinator, ``poll``'s group part."""
    _wrap(
        coordinator,
        {
            "ensure_coordinator_ready_async": find,
            "poll": poll,
            "_handle_heartbeat_response": on_heartbeat,
            "reset_generation": reset,
        },
    )


def wrap_pauses(coordinator: Any, *, prepare: Wrap, pause: Wrap) -> None:
    """Wrap the preparation of a join, and the time that ``poll`` may wait for records, in seconds."""
    _wrap(coordinator, {"_on_join_prepare_async": prepare, "time_to_next_poll": pause})


def wrap_joins(coordinator: Any, *, join: Wrap, joined: Wrap, stable: Wrap) -> None:
    """Wrap the coordinator's methods for a join, the adoption of its assignment, and whether to send heartbeats."""
    _wrap(coordinator, {"_do_join_and_sync_async": join, "_on_join_complete_async": joined, "stable": stable})


def wrap_answer(coordinator: Any, answered: Wrap) -> None:
    """Wrap the JoinGroup response."""
    _wrap(coordinator, {"_process_join_group_response": answered})


def wrap_close(coordinator: Any, closing: Wrap) -> None:
    """Wrap the coordinator's public method ``close``."""
    _wrap(coordinator, {"close": closing})


def wrap_giving(coordinator: Any, giving: Wrap) -> None:
    """Wrap the call of ``on_partitions_revoked`` or ``on_partitions_lost`` by ``close``."""
    _wrap(coordinator, {"_on_close_prepare_async": giving})


def wrap_commits(coordinator: Any, *, sync: Wrap, asynchronous: Wrap, joined: Wrap) -> None:
    """Wrap the coordinator's two commit methods and the method that adopts a new assignment."""
    _wrap(
        coordinator,
        {"commit_offsets_async": asynchronous, "commit_offsets_sync": sync, "_on_join_complete_async": joined},
    )


def _wrap(coordinator: Any, replacements: Mapping[str, Wrap]) -> None:
    for name, around in replacements.items():
        setattr(coordinator, name, around(coordinator, getattr(coordinator, name)))


def wrap_departure(coordinator: Any, *, protocols: Wrap, poll: Wrap) -> None:
    """Wrap the protocols that a member sends to join, and the group part of ``poll``."""
    _wrap(coordinator, {"group_protocols": protocols, "poll": poll})


def wrap_record(  # a place in a member's life each
    coordinator: Any, *, protocols: Wrap, joined: Wrap, assign: Wrap, synced: Wrap, prepare: Wrap, adopt: Wrap,
    on_heartbeat: Wrap, leave: Wrap, closing: Wrap, close: Wrap,
) -> None:  # fmt: skip
    """Wrap what happens to a member: what it sends to join, the answers, its assignment as a leader, and its end."""
    _wrap(
        coordinator,
        {
            "group_protocols": protocols,
            "_process_join_group_response": joined,
            "_perform_assignment": assign,
            "_process_sync_group_response": synced,
            "_on_join_prepare_async": prepare,
            "_on_join_complete_async": adopt,
            "_handle_heartbeat_response": on_heartbeat,
            "maybe_leave_group_async": leave,
            "_on_close_prepare_async": closing,
            "close": close,
        },
    )
