"""A broker as a child process, or in one: real Kafka, from pip's packages and pinned jars alone."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from ..errors import BrokerNotReady, BrokerUnreachable, NotSupported
from . import Broker
from .node import NodeProcess
from .ports import free_ports, require_free
from .ready import await_ready
from .settings import Route, broker_settings
from .shared import SharedJvm, SharedNode

_STOP_TIMEOUT_S = 15


class JvmBroker(Broker):
    """One KRaft node in a JVM, which ends with this process; see `start_broker` for the arguments.

    Args:
        shared: The node is a server within a JVM that goes on when it stops: it restarts in half a second and cannot be
            killed.
    """

    def __init__(
        self,
        *,
        shared: bool,
        port: int | None,
        rack: str,
        directory: Path | None,
        version: str,
        timeout_s: float,
        settings: Mapping[str, str],
    ) -> None:
        if port is not None:
            require_free(port)
        self._timeout_s = timeout_s
        self._node = SharedNode(SharedJvm(version), "node-1") if shared else NodeProcess(version, directory)
        try:
            self._node.format()
            for attempt in range(3):
                controller_port, *behind, chosen = (*free_ports(3), port) if port is not None else free_ports(4)
                self._route = Route(*behind)
                data = str(self._node.data)
                ours = broker_settings(
                    port=chosen, controller_port=controller_port, data=data, rack=rack, route=self._route
                )
                self._node.configure({**ours, **settings})
                super().__init__(f"127.0.0.1:{chosen}", "shared" if shared else "jvm", version)
                try:
                    self._start()
                    return
                except BrokerNotReady as error:
                    # between choosing a port and the JVM's bind another process may have taken it
                    if attempt == 2 or "Address already in use" not in error.log_tail:
                        raise
        except BaseException:
            self.close()
            raise

    @property
    def routes(self) -> tuple[Route, ...]:
        """As every broker's."""
        return (self._route,)

    @property
    def log_path(self) -> Path:
        """The broker's log file."""
        return self._node.log_path

    def pids(self) -> list[int]:
        """The watchdog and the JVM."""
        return self._node.pids()

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of `log_path`."""
        return self._node.log_tail(lines)

    def kill(self) -> None:
        """SIGKILL to the JVM; refused where it is shared."""
        self._node.kill()

    def restart(self) -> None:
        """A clean stop if it runs, then a new JVM. After `kill` it waits for its old session to end first (3 s)."""
        self._node.stop(_STOP_TIMEOUT_S)
        self._start()

    def close(self) -> None:
        """SIGKILL to the JVM: nothing needs a clean end, as Kafka recovers its log."""
        self._node.close()

    def _start(self) -> None:
        self._node.launch(self.bootstrap)
        try:
            await_ready(self.bootstrap, self._timeout_s, self._node.check_alive)
        except BrokerUnreachable as error:
            tail = self.log_tail()
            with contextlib.suppress(NotSupported):
                self.kill()
            raise BrokerNotReady(f"{error} ({self._node.java}, log {self.log_path})", tail) from error
