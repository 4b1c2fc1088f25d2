"""The running members of one group by name. Their ends and faults are recorded in the group's history."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from kafka_assignors.errors import ConfigError
from kafka_assignors.history.events import INCOMPLETE, Event
from kafka_assignors.history.writer import EventWriter

from ..errors import MemberDied, NotStable
from .process import MemberProcess

STOP_S = 15
TICK_S = 0.02


class RunningMembers:
    """The processes of one group's members. Iterating yields the processes."""

    def __init__(self, group: str, writer: EventWriter) -> None:
        self.group, self._writer = group, writer
        self.by_name: dict[str, MemberProcess] = {}
        self.counted_from_ns: int | None = None  # when the step began that the next `Stable` counts from

    def __iter__(self) -> Iterator[MemberProcess]:
        return iter(tuple(self.by_name.values()))

    def get(self, name: str) -> MemberProcess:
        """The process of a running member. ConfigError if no running member has this name."""
        if name not in self.by_name:
            running = ", ".join(sorted(self.by_name))
            raise ConfigError(f"no member {name!r} runs in group {self.group!r}; running: {running}")
        return self.by_name[name]

    def named(self, name: str) -> str:
        """The member in messages."""
        return f"member {name!r} of group {self.group!r}"

    def write(self, kind: str, **data: Any) -> Event:
        """Write an event of the harness into the group's history."""
        return self._writer.write(kind, **data)

    def count_from_here(self) -> None:
        """Let the next `Stable` count from now, unless a step or another change came before."""
        if self.counted_from_ns is None:
            self.counted_from_ns = time.monotonic_ns()

    def ended(self, name: str, timeout_s: float, asked: bool = True) -> None:
        """Wait for a process's end, kill it at the deadline, and write its ``exit`` event.

        `asked`: whether the process was told to end, or its end was awaited.
        """
        process = self.by_name[name]
        process.end(timeout_s)
        del self.by_name[name]
        code = process.returncode
        assert code is not None
        number: dict[str, Any] = {"signal": signal.Signals(-code).name} if code < 0 else {}
        incarnation = process.config.incarnation
        times = {"begun_ns": process.begun_ns, "asked_ns": process.asked_ns, "grace_s": process.grace_s}
        more = number | {field: value for field, value in times.items() if value is not None}
        self.write("exit", member=name, incarnation=incarnation, code=code, asked=asked, **more)
        if process.incomplete:
            self.write("error", error=INCOMPLETE, fatal=True, message=f"{self.named(name)}: {process.incomplete}")

    def check_alive(self, *but: str) -> None:
        """Check that every member runs, except those named `but`. MemberDied if a member ended unasked."""
        for name, process in tuple(self.by_name.items()):
            if name not in but and process.returncode is not None:
                self.ended(name, STOP_S, asked=False)
                raise MemberDied(f"{self.named(name)} {process.epitaph()}")

    def wait_until(self, condition: Callable[[], bool], failure: Callable[[], str], timeout_s: float) -> None:
        """Wait for a condition on the members' reports.

        Raises:
            NotStable: It wasn't met by the deadline; the message is the failure's.
            MemberDied: A member ended unasked.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            self.check_alive()
            for process in self:
                process.catch_up()
            if condition():
                return
            if time.monotonic() > deadline:
                raise self.missed(failure(), timeout_s)
            time.sleep(TICK_S)

    def wait_started(self, name: str, timeout_s: float) -> None:
        """Wait until a process has begun or ended, at most until a deadline."""
        process, deadline = self.by_name[name], time.monotonic() + timeout_s
        process.catch_up()
        while not process.started and process.returncode is None and time.monotonic() < deadline:
            time.sleep(TICK_S)
            process.catch_up()

    def missed(self, message: str, timeout_s: float) -> NotStable:
        """Record that something awaited did not happen, and return the error to raise."""
        self.write("not_over", waited_s=timeout_s, awaited=message)
        return NotStable(message)
