"""A broker as a child process, or a server within one: real Kafka from pip's packages and pinned jars."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from ..errors import BrokerNotReady, BrokerUnreachable, NotSupported
from .diagnosis import not_ready
from .nodes.node import NodeProcess
from .nodes.place import PlacedBroker
from .nodes.shared import SharedJvm, SharedNode
from .ports import free_ports, require_free
from .secured import Certificates, Secured, with_secured
from .settings import Route, broker_settings


class JvmBroker(PlacedBroker):
    """One KRaft node in a JVM, which ends with this process. `start_broker` describes the arguments.

    A `shared` node is a server within a JVM that outlives it: it restarts in 0.5 s and cannot be killed.
    """

    _node: NodeProcess | SharedNode

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
        certificates: Certificates | None = None,
    ) -> None:
        if port is not None:
            require_free(port)
        self._timeout_s = timeout_s
        self._node = SharedNode(SharedJvm(version), "node-1") if shared else NodeProcess(version, directory)
        try:
            self._node.format()
            for attempt in range(3):
                # drawn at once: two draws could give two listeners the same port
                secured_port, controller_port, *behind, drawn = [
                    free_port for free_port in free_ports(6) if free_port != port
                ][:5]
                chosen = drawn if port is None else port
                self._take(Route(*behind))
                data = str(self._node.data)
                ours = broker_settings(
                    port=chosen, controller_port=controller_port, data=data, rack=rack, route=self._route
                )
                if certificates is not None:
                    ours = with_secured(ours, secured_port, certificates)
                self._node.configure({**ours, **settings})
                super().__init__(f"127.0.0.1:{chosen}", "shared" if shared else "jvm", version)
                try:
                    self._start()
                    if certificates is not None:
                        self.secured = Secured(f"localhost:{secured_port}", self.bootstrap, certificates.ca)
                    return
                except BrokerNotReady as error:
                    # another process may have bound the port after we chose it
                    if attempt == 2 or "Address already in use" not in error.log_tail:
                        raise
        except BaseException:
            self.close()
            raise

    @property
    def log_path(self) -> Path:
        """The broker's log file."""
        return self._node.log_path

    def _silent(self, error: BrokerUnreachable) -> BrokerNotReady:
        tail = self.log_tail()
        with contextlib.suppress(NotSupported):
            self.kill()
        return not_ready(f"{error} ({self._node.java}, log {self.log_path})", tail)
