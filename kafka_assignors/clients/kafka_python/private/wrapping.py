"""Replacing a coordinator's methods by others that call them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Replacement = Callable[..., Any]
"""Called in place of a method, with the coordinator, the original method, and the arguments of the call."""

_METHODS = {
    "protocols": "group_protocols",
    "find": "ensure_coordinator_ready_async",
    "poll": "poll",
    "pause": "time_to_next_poll",
    "on_heartbeat": "_handle_heartbeat_response",
    "stable": "stable",
    "prepare": "_on_join_prepare_async",
    "join": "_do_join_and_sync_async",
    "answered": "_process_join_group_response",
    "assign": "_perform_assignment",
    "synced": "_process_sync_group_response",
    "adopt": "_on_join_complete_async",
    "reset": "reset_generation",
    "commit": "commit_offsets_sync",
    "commit_later": "commit_offsets_async",
    "leave": "maybe_leave_group_async",
    "give_up": "_on_close_prepare_async",
    "close": "close",
}
"""A place in a member's life -> the coordinator's method.

``pause`` is how long ``poll`` may wait for records, in seconds; ``stable``, whether to send heartbeats.
"""


def wrap(coordinator: Any, **replacements: Replacement) -> None:
    """Replace methods of a coordinator, given by the places in `_METHODS`."""
    for place, replacement in replacements.items():
        original = getattr(coordinator, _METHODS[place])
        replaced = functools.partial(replacement, coordinator, original)
        setattr(coordinator, _METHODS[place], functools.update_wrapper(replaced, original))
