"""Waits with a deadline: for a condition, for the end of a call."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], object], what: str, within_s: float = 30) -> None:
    """Wait for something true; fail by saying what did not come, and what there was instead."""
    deadline = time.monotonic() + within_s
    while not (outcome := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}; last: {outcome!r}"
        time.sleep(0.02)


def finished(call: Callable[[], T], within_s: float) -> T:
    """What a call returns or raises that must come to its end; of one that goes on, tell where it stands.

    The deadline is far from what the call takes, and far from what it would take if it did what it must not.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    try:
        return outcome.result(within_s)
    except TimeoutError:
        if outcome.done():  # the call's own
            raise
        frame = sys._current_frames().get(running.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame else ""
        raise AssertionError(f"not over within {within_s:g} s; it stands in\n{stack}") from None
