"""A condition waited for, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], what: str, within_s: float = 30) -> None:
    """Wait for something true; fail by saying what did not come, and what there was instead."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}; last: {found!r}"
        time.sleep(0.02)
