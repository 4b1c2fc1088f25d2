"""The harness's commands to a running member: lines on the member's standard input.

=====================  ==============================================================================================
``stall``              stop polling, as a task that takes too long does
``stall-assign``       stall in the next ``assign``
``go``                 continue after either
``subscribe {…}``      change the subscription between two polls: ``{"topics": […]}`` or ``{"pattern": "…"}``
``leave SECONDS``      end by `kafka_assignors.leave` with this time limit; sends SIGTERM to this process
=====================  ==============================================================================================
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any


class Control:
    """The commands sent to a member, for its own threads to read. Without `listen` there are none."""

    def __init__(self) -> None:
        self._may_poll, self._may_assign = threading.Event(), threading.Event()
        self._subscription: Mapping[str, Any] | None = None
        self.leave_s: float | None = None
        """The time limit within which the member hands its partitions over before it ends; None: it doesn't."""
        self.go()

    @property
    def stalls(self) -> bool:
        """Whether the member must stop polling."""
        return not self._may_poll.is_set()

    @property
    def stalls_assign(self) -> bool:
        """Whether the member must stall in its assign."""
        return not self._may_assign.is_set()

    def go(self) -> None:
        """End any stall."""
        self._may_poll.set()
        self._may_assign.set()

    def wait_to_poll(self, timeout_s: float) -> bool:
        """Wait until the member may poll, at most `timeout_s` seconds. Return whether it may."""
        return self._may_poll.wait(timeout_s)

    def wait_to_assign(self, timeout_s: float) -> bool:
        """Wait until the member may assign, at most `timeout_s` seconds. Return whether it may."""
        return self._may_assign.wait(timeout_s)

    def subscription(self) -> Mapping[str, Any] | None:
        """The subscription to change to, returned once; None: no change."""
        taken, self._subscription = self._subscription, None
        return taken

    def listen(self) -> None:
        """Read commands in the background."""
        threading.Thread(target=self._listen, name="commands", daemon=True).start()

    def _listen(self) -> None:
        rest = b""
        while chunk := os.read(0, 4096):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                try:
                    self._obey(line.decode())
                except ValueError as error:
                    print(f"not a command: {line!r}: {error}", file=sys.stderr, flush=True)

    def _obey(self, line: str) -> None:
        what, _, rest = line.partition(" ")
        if what == "stall":
            self._may_poll.clear()
        elif what == "stall-assign":
            self._may_assign.clear()
        elif what == "subscribe":
            self._subscription = _subscription(rest)
        elif what == "go":
            self.go()
        elif what == "leave":
            self.leave_s = _seconds(rest)
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            raise ValueError(f"{what!r} is not one of stall, stall-assign, go, subscribe, leave")


def _subscription(text: str) -> Mapping[str, Any]:
    """Parse the argument of `subscribe`. ValueError if it is neither a list of topics nor a pattern."""
    wanted = json.loads(text)
    if isinstance(wanted, dict) and set(wanted) == {"pattern"} and isinstance(wanted["pattern"], str):
        return wanted
    if isinstance(wanted, dict) and set(wanted) == {"topics"} and isinstance(wanted["topics"], list):
        return wanted
    raise ValueError('subscribe takes {"topics": […]} or {"pattern": "…"}')


def _seconds(text: str) -> float:
    """Parse a time limit. ValueError if it is no number of seconds from 0."""
    seconds = float(text)
    if not 0 <= seconds < math.inf:
        raise ValueError(f"leave takes seconds from 0, not {text!r}")
    return seconds
