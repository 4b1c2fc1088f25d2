"""What the harness tells a running member: a line each on the member's standard input, whose end is the harness's end.

=====================  ==============================================================================================
``stall``              poll no more, as work that takes too long would
``stall-assign``       stand still in the next ``assign``
``go``                 go on, from either
``subscribe {…}``      change the subscription between two polls: ``{"topics": […]}`` or ``{"pattern": "…"}``
=====================  ==============================================================================================
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

_GRACE_S = 13
"""For a clean close once the harness is gone; it may never come."""


class Control:
    """The commands that a member has been sent, read by its own threads; without `listen` there are none."""

    def __init__(self) -> None:
        self._may_poll, self._may_assign = threading.Event(), threading.Event()
        self._subscription: Mapping[str, Any] | None = None
        self.go()

    @property
    def stalls(self) -> bool:
        """It is to poll no more."""
        return not self._may_poll.is_set()

    @property
    def stalls_assign(self) -> bool:
        """It is to stand still when it assigns."""
        return not self._may_assign.is_set()

    def go(self) -> None:
        """Stand still no more."""
        self._may_poll.set()
        self._may_assign.set()

    def wait_to_poll(self, timeout_s: float) -> bool:
        """Return when it may poll, or after `timeout_s`; whether it may."""
        return self._may_poll.wait(timeout_s)

    def wait_to_assign(self, timeout_s: float) -> bool:
        """Return when it may assign, or after `timeout_s`; whether it may."""
        return self._may_assign.wait(timeout_s)

    def subscription(self) -> Mapping[str, Any] | None:
        """The subscription to change to, handed out once; None: as it is."""
        taken, self._subscription = self._subscription, None
        return taken

    def listen(self) -> None:
        """Take commands in the background; end this process when the harness is gone: it alone holds the other end."""
        threading.Thread(target=self._listen, name="parent-watch", daemon=True).start()

    def _listen(self) -> None:
        rest = b""
        while told := os.read(0, 4096):
            *lines, rest = (rest + told).split(b"\n")
            for line in lines:
                try:
                    self._obey(line.decode())
                except ValueError as error:  # this thread also ends the process with its harness
                    print(f"not a command: {line!r}: {error}", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE_S)
        os._exit(3)

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
        else:
            raise ValueError(f"{what!r} is none of stall, stall-assign, go, subscribe")


def _subscription(text: str) -> Mapping[str, Any]:
    """Read what `subscribe` names.

    Raises:
        ValueError: Neither a list of topics nor a pattern.
    """
    wanted = json.loads(text)
    if isinstance(wanted, dict) and set(wanted) == {"pattern"} and isinstance(wanted["pattern"], str):
        return wanted
    if isinstance(wanted, dict) and set(wanted) == {"topics"} and isinstance(wanted["topics"], list):
        return wanted
    raise ValueError('subscribe takes {"topics": […]} or {"pattern": "…"}')
