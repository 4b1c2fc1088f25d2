"""Faults of single members: a proxy that reads Kafka's frames and identifies members by their client id.

>>> with FaultProxy(broker.routes, folder, run) as proxy:                       # doctest: +SKIP
...     group.start("m1", ["orders"], ["cooperative-sticky"], via=proxy)
...     with proxy.apply(Cut("m1")):
...         group.wait_stable()     # of the others
...     group.wait_stable()         # of all

The proxy is a process of its own, because a busy harness would delay heartbeats. A connection on which it drops a
response stays silent: a later response would be a protocol error.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import count
from pathlib import Path
from typing import IO, Any

from kafka_assignors.errors import ConfigError

from ..broker.settings import Route
from ..errors import HarnessError, NotOver, PortTaken
from ..processes.piped import PipedProcess
from ..recording import seal
from .rules import Cut, NetworkFault

_ANSWER_S = 15.0


class Applied(AbstractContextManager["Applied"]):
    """A fault in force, made by `FaultProxy.apply`. As a context manager it heals the fault."""

    def __init__(self, fault: NetworkFault, number: int, proxy: FaultProxy) -> None:
        self.fault, self.number = fault, number
        self._proxy = proxy
        self.times = 0
        self.over = False

    def wait(self, timeout_s: float = 30) -> None:
        """Wait until the fault and its effects are over.

        Raises:
            ConfigError: The fault lasts until it is healed.
            NotOver: It wasn't over by the deadline; the message says how often it hit.
        """
        if not self.fault.ends and not self.over:
            raise ConfigError(f"{self.fault} lasts until it is healed: heal it, or give it a duration")
        self._proxy.wait_for(
            lambda: self.over, timeout_s, lambda: f"{self.fault} is not over: {self._effect_description}"
        )

    def wait_hit(self, times: int = 1, timeout_s: float = 30) -> None:
        """Wait until the fault has hit this many times. NotOver if it hadn't by the deadline."""
        self._proxy.wait_for(
            lambda: self.times >= times, timeout_s, lambda: f"{self.fault}: {self._effect_description}"
        )

    def heal(self) -> None:
        """End the fault unless it is over. Frames that it delays pass; connections that lost a frame to it end."""
        self._proxy.heal([self])

    @property
    def _effect_description(self) -> str:
        return (
            f"it took effect {self.times} times"
            if self.times
            else "it never took effect; was the member started with via=proxy?"
        )

    def __exit__(self, *_: object) -> None:
        self.heal()


class FaultProxy(AbstractContextManager["FaultProxy"]):
    """A proxy in front of the second listeners of a broker or cluster, in a process that ends with this one.

    All connections of a member started ``via`` the proxy pass it, including those to coordinator and leaders. Without
    faults it only relays. A context manager. A broker has at most one proxy at a time.

    Args:
        routes: Routes of the broker or the cluster.
        folder: Folder of the history, which records each fault before it acts on a member, and when it is over.
        run: Id of the run, on every event.

    Raises:
        PortTaken: Another proxy is in front of this broker, or its port has been taken.
        HarnessError: The process doesn't start.

    Cost: a process of 37 MB; 0.25 ms of CPU time for a request and its answer, 0.1 ms of delay on an idle machine.
    """

    def __init__(self, routes: Sequence[Route], folder: Path, run: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.bootstrap = ",".join(f"127.0.0.1:{route.advertised}" for route in routes)
        self._folder, self._run = folder, run
        self._groups: dict[str, str] = {}  # member name -> its group
        self._applied: dict[int, Applied] = {}
        self._number = 0
        self._answers: dict[int, dict[str, Any]] = {}  # number of the command -> answer; 0: the proxy serves
        self._answer_s = _ANSWER_S
        self._ended = False
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._commands = 0
        # Each proxy has its own file: sequence numbers count per file, and a folder may have had a proxy before.
        log = _new_log(folder)
        self._output = Path(log.name)
        history = self._output.with_suffix(".jsonl")
        arguments = [str(history), run, *(f"{r.advertised}:{r.behind}" for r in routes)]
        with log:
            self._process = PipedProcess(f"{__package__}.relay", *arguments, log=log)
        self._reader = threading.Thread(target=self._listen, name="fault-proxy", daemon=True)
        self._reader.start()
        try:
            answer = self._answer(0)
            if "taken" in answer:
                raise PortTaken(
                    f"port {answer['taken']}, which the broker advertises for a fault proxy, is taken "
                    f"({answer['error']}): one proxy at a time stands in front of a broker; close the other, or "
                    "share it"
                )
        except BaseException:
            self.close()
            raise

    def admit(self, member: str, group: str, incarnation: int) -> str:
        """Register a member before it starts, and return the address where it must bootstrap.

        Raises:
            ConfigError: A member of another group has this name, which is its client id.
        """
        if self._groups.setdefault(member, group) != group:
            raise ConfigError(
                f"member {member!r} of group {group!r} has the name of one of group {self._groups[member]!r}, and the "
                "proxy tells members apart by their names; give it another"
            )
        self._command({"do": "admit", "member": member, "group": group, "incarnation": incarnation})
        return self.bootstrap

    def apply(self, fault: NetworkFault) -> Applied:
        """Put a fault in force, and return when it is. It lasts until it is over or healed.

        Raises:
            HarnessError: The proxy has ended.
        """
        with self._changed:
            self._number += 1
            applied = self._applied[self._number] = Applied(fault, self._number, self)
        values = {"member": fault.member, **fault.params}
        self._command({"do": "apply", "number": applied.number, "fault": fault.name, **values})
        return applied

    @property
    def in_force(self) -> list[Applied]:
        """The faults that aren't over."""
        with self._changed:
            return [applied for applied in self._applied.values() if not applied.over]

    def heal(self, faults: Iterable[Applied] | None = None) -> None:
        """Heal these faults; None: all that are in force."""
        numbers = [applied.number for applied in (self.in_force if faults is None else faults) if not applied.over]
        if numbers and not self._ended:
            self._command({"do": "heal", "numbers": numbers})

    def cuts_off(self, member: str) -> bool:
        """Whether a member is cut off now."""
        return any(isinstance(applied.fault, Cut) and applied.fault.of(member) for applied in self.in_force)

    def wait_for(self, condition: Callable[[], bool], timeout_s: float, missed: Callable[[], str]) -> None:
        """Wait until the proxy's reports make a condition true.

        Raises:
            NotOver: It wasn't by the deadline; `missed` returns the message.
            HarnessError: The proxy has ended.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: condition() or self._ended, timeout_s):
                raise NotOver(f"{missed()}, after {timeout_s:g} s")
            if not condition():
                raise HarnessError(self._epitaph())

    def close(self) -> None:
        """End the proxy, and with it every connection through it. Safe to call twice."""
        self._process.end(_ANSWER_S)
        self._reader.join()
        self._process.answers.close()
        seal(self._folder, self._run)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _command(self, command: dict[str, Any]) -> None:
        with self._sending:
            self._commands += 1
            try:
                self._process.tell({**command, "command": self._commands})
            except (BrokenPipeError, ValueError) as error:
                raise HarnessError(self._epitaph()) from error
            answer = self._answer(self._commands)
        if "error" in answer:
            raise ConfigError(answer["error"])

    def _answer(self, command: int) -> dict[str, Any]:
        with self._changed:
            if not self._changed.wait_for(lambda: command in self._answers or self._ended, self._answer_s):
                raise HarnessError(f"the fault proxy at {self.bootstrap} doesn't answer within {self._answer_s:g} s")
            if command not in self._answers:
                raise HarnessError(self._epitaph())
            return self._answers.pop(command)

    def _listen(self) -> None:
        for line in self._process.answers:
            message = json.loads(line)
            with self._changed:
                if "hit" in message:
                    self._applied[message["hit"]].times = message["times"]
                elif "over" in message:
                    self._applied[message["over"]].over = True
                else:
                    self._answers[message["command"]] = message
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _epitaph(self) -> str:
        words = self._output.read_text("utf-8", "replace").strip()[-500:] or "it said nothing"
        return f"the fault proxy at {self.bootstrap} has ended: {words}"


def _new_log(folder: Path) -> IO[bytes]:
    """The open log of a new proxy, whose name no other proxy gets."""
    for number in count():
        log = folder / f"proxy-{number}.log"
        if not log.with_suffix(".jsonl").exists():
            with suppress(FileExistsError):
                return log.open("xb")
    raise AssertionError("there is always another number")
