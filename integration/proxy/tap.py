"""A tap between a service's processes and the brokers: what each says to them becomes rows of its record.

>>> with WireTap(broker.routes) as tap:                                           # doctest: +SKIP
...     tapped = tap.listen("billing", rows, log)
...     start_process(tapped.bootstrap)
...     tap.close_process(tapped)

It is a process of its own, because a busy harness would delay heartbeats. It changes nothing but the ports in answers
that name brokers. Each process of the service has ports of its own, by which its connections are told apart.
"""

from __future__ import annotations

import json
import select
import tempfile
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..broker import Broker
from ..broker.settings import Route
from ..errors import HarnessError, NotSupported
from ..processes.piped import PipedProcess

_ANSWER_S = 20.0


@dataclass(frozen=True)
class Tapped:
    """A process behind the tap. `bootstrap` is the address that it gets, `rows` the file that what it says goes to."""

    number: int
    bootstrap: str
    rows: Path


class WireTap(AbstractContextManager["WireTap"]):
    """The tap of one run. A context manager.

    Args:
        routes: Routes of the broker or the cluster.
        faulty: A fault proxy stands in front of these routes, and stays between the tap and the brokers.

    Raises:
        HarnessError: The process doesn't start.

    Cost: a process of 37 MB; 0.4 ms of CPU time for a heartbeat and its answer, on a busy machine.
    """

    def __init__(self, routes: Sequence[Route], *, faulty: bool = False) -> None:
        self._routes = [(route.advertised, route.advertised if faulty else route.behind) for route in routes]
        self._number = 0
        self._calling = threading.Lock()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._process = PipedProcess(f"{__package__}.tap_relay", log=self._log)

    @classmethod
    def before(cls, broker: Broker, *, faulty: bool = False) -> WireTap | None:
        """The tap before a broker or cluster; None before one that the harness did not start, which names itself."""
        try:
            return cls(broker.routes, faulty=faulty)
        except NotSupported:
            return None

    def listen(self, group: str, rows: Path, log: Path) -> Tapped:
        """Open the ports of a process that is about to start.

        The calls of the group's members go to the file `rows`, each with the length of `log`, which the process prints
        to.

        Raises:
            HarnessError: The tap has ended, or can't write the file.
        """
        self._number += 1
        paths = {"rows": str(rows.resolve()), "log": str(log.resolve())}
        answer = self._call({"do": "listen", "number": self._number, "group": group, "routes": self._routes, **paths})
        return Tapped(self._number, ",".join(f"127.0.0.1:{port}" for port in answer["ports"]), rows)

    def close_process(self, tapped: Tapped) -> None:
        """Close the ports of a process that has ended, once all that it said is in its file.

        Raises:
            HarnessError: The tap has ended, not all could be written, or connections of the process go on.
        """
        self._call({"do": "close", "number": tapped.number})

    def close(self) -> None:
        """End the tap, and with it every connection through it. Safe to call twice."""
        self._process.end(_ANSWER_S)
        self._process.answers.close()
        self._log.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, command: dict[str, Any]) -> dict[str, Any]:
        with self._calling:
            answers = self._process.answers
            try:
                self._process.tell(command)
            except (BrokenPipeError, ValueError) as error:
                raise HarnessError(self._epitaph()) from error
            waiting = select.poll()
            waiting.register(answers, select.POLLIN | select.POLLHUP)
            if not waiting.poll(1000 * _ANSWER_S):
                raise HarnessError(f"the tap of the service's connections doesn't answer within {_ANSWER_S:g} s")
            line = answers.readline()
        if not line:
            raise HarnessError(self._epitaph())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise HarnessError(f"the tap of the service's connections: {answer['error']}")
        return answer

    def _epitaph(self) -> str:
        words = "it was closed"
        if not self._log.closed:
            self._log.seek(0)
            words = self._log.read().decode("utf-8", "replace").strip()[-500:] or "it said nothing"
        return f"the tap of the service's connections has ended: {words}"
