"""Reset state after a fork: a thread of the parent process may hold a lock forever."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any

_alive: dict[int, tuple[weakref.ref[Any], Callable[[Any], object]]] = {}  # id of an owner -> (owner, renew)


def after_fork(owner: Any, renew: Callable[[Any], object]) -> None:
    """Call ``renew(owner)`` in each process that is forked from this one while the owner lives."""
    number = id(owner)  # an owner may not be hashable
    _alive[number] = weakref.ref(owner, lambda _: _alive.pop(number, None)), renew


def _renew_all() -> None:
    for reference, renew in list(_alive.values()):
        owner = reference()
        if owner is not None:
            renew(owner)


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_renew_all)
