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


def wrap_close(coordinator: Any, closing: Wrap) -> None:
    """Wrap the coordinator's public method ``close``."""
    _wrap(coordinator, {"close": closing})


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
