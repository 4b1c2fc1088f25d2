"""Real brokers on this machine: one node, or a cluster of several with one rack each by default.

By default each node is a JVM of its own. With ``backend="shared"`` the nodes run in one JVM: three boot in half the
time and one restarts in half a second, but a node can neither crash nor stall alone. Containers (``backend="docker"``)
can also be cut off from each other.

>>> with start_cluster() as cluster:                                        # doctest: +SKIP
...     cluster.nodes[0].kill()
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from kafka_assignors.errors import ConfigError, UnknownName

from ..errors import BrokerNotReady, BrokerUnreachable
from .broker import Broker
from .diagnosis import not_ready
from .node import Node
from .nodes.node import NodeProcess
from .nodes.place import Place
from .ports import free_ports, hold, require_free
from .ready import await_ready
from .secured import Certificates, Secured, with_secured
from .settings import JVM_FLAGS, KAFKA_VERSION, Route, broker_settings, uuid_base64

BACKENDS = ("jvm", "shared", "docker")

_SMALL_JVM_FLAGS = ("-Xmx128m", *JVM_FLAGS[1:])
"""Half the heap of a single broker, because several nodes share a machine."""

_STOP_TIMEOUT_S = 15


class Cluster(Broker):
    """One node or more, made by `start_broker` or `start_cluster`. As a context manager it ends all of them."""

    def __init__(  # options of the nodes, given by name but for the racks
        self,
        racks: Sequence[str],
        *,
        backend: str,
        version: str,
        timeout_s: float,
        settings: Mapping[str, str],
        certificates: Certificates | None = None,
        port: int | None = None,
        directory: Path | None = None,
    ) -> None:
        """Start one node per rack. `port` and `directory` are of the first, and given only where it is alone."""
        super().__init__(backend, version)
        if port is not None:
            require_free(port)
        self._port, self._directory, self._certificates = port, directory, certificates
        self._timeout_s = timeout_s
        self._reservation = ExitStack()  # the ports where a proxy may listen
        try:
            for attempt in range(3):
                try:
                    self._launch(racks, settings)
                    self.await_ready()
                    if certificates is not None:
                        faces = ",".join(f"localhost:{number}" for number in self._secured_ports)
                        self.secured = Secured(faces, self.bootstrap, certificates.ca)
                    return
                except BrokerNotReady as error:
                    # another process may have bound a port after we chose it
                    if attempt == 2 or "Address already in use" not in error.log_tail:
                        raise
                    self.close()
        except BaseException:
            self.close()
            raise

    @property
    def routes(self) -> tuple[Route, ...]:
        """The listeners of all nodes in front of which a `FaultProxy` can stand."""
        return tuple(node.route for node in self.nodes)

    def pids(self) -> list[int]:
        """Process ids of all nodes."""
        return list(dict.fromkeys(pid for node in self.nodes for pid in node.pids()))

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the log; of each log under the name of its node, or of the nodes that share it."""
        if len(self.nodes) == 1:
            return self.nodes[0].log_tail(lines)
        logs: dict[str, list[str]] = {}
        for node in self.nodes:
            logs.setdefault(node.log_tail(lines), []).append(repr(node))
        return "\n".join(f"{' '.join(names)}\n{log}" for log, names in logs.items())

    def node(self, node_id: int) -> Node:
        """The node with this ``node.id``, by which metadata names leaders and replicas. ConfigError if none has it."""
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise ConfigError(f"no node {node_id} in this cluster; its nodes are {[n.node_id for n in self.nodes]}")

    def await_ready(self) -> None:
        """Wait until every node that runs, neither paused nor cut off, answers and lists all of them as live.

        Raises:
            BrokerNotReady: A node ended, or not all of them serve in time.
        """
        live = [node for node in self.nodes if node.runs and not node.paused and not node.cut_off]
        deadline = time.monotonic() + self._timeout_s

        def check_alive() -> None:
            for node in live:
                node.place.check_alive()

        for node in live:
            try:
                left_s = max(min(1, self._timeout_s), deadline - time.monotonic())
                await_ready(node.bootstrap, left_s, check_alive, brokers=len(live))
            except BrokerUnreachable as error:
                which = f"{node}: " if len(self.nodes) > 1 else ""
                raise not_ready(f"{which}{error} ({node.place.traces})", node.log_tail()) from error

    def kill(self) -> None:
        """Send SIGKILL to every node. NotSupported if they share a JVM."""
        for node in self.nodes:
            node.kill()

    def restart(self) -> None:
        """Stop all nodes that run, and start all. After `kill` this waits until their old sessions end (3 s)."""
        for node in self.nodes:
            node.place.stop(_STOP_TIMEOUT_S)
        self.restore()

    def restore(self) -> None:
        """Bring back all stopped, killed, paused or cut-off nodes, wait until all serve. BrokerNotReady otherwise."""
        for node in self.nodes:
            node.resume()
            node.connect()
            if not node.runs:
                node.launch()
        self.await_ready()

    def close(self) -> None:
        """End all nodes and remove their data. A clean end isn't necessary, because Kafka recovers its log."""
        for node in self.nodes:
            node.place.close()
        self._reservation.close()

    def _launch(self, racks: Sequence[str], settings: Mapping[str, str]) -> None:
        """Start one node per rack, all at once, because the first nodes wait for a majority."""
        count, cluster_id = len(racks), uuid_base64()
        # drawn at once: two draws could give two listeners the same port
        ports = [number for number in free_ports(5 * count + 1) if number != self._port]
        if self._port is not None:
            ports.insert(0, self._port)
        self._secured_ports = ports[4 * count : 5 * count]
        controllers = ports[count : 2 * count]
        self._reservation = hold(ports[2 * count : 3 * count])  # reserved for a proxy
        self.nodes = []
        for i, place in enumerate(self._places(count)):
            route = Route(ports[2 * count + i], ports[3 * count + i])
            self.nodes.append(Node(i + 1, racks[i], f"127.0.0.1:{ports[i]}", route, place, self.await_ready))
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes)
        voters = [f"{n.node_id}@{n.place.host}:{number}" for n, number in zip(self.nodes, controllers, strict=True)]
        for node, port, controller_port in zip(self.nodes, ports, controllers, strict=False):
            node.place.format(node.node_id, cluster_id)
            own = broker_settings(
                port=port,
                controller_port=controller_port,
                data=str(node.place.data),
                rack=node.rack,
                node_id=node.node_id,
                route=node.route,
            )
            placed = node.place.listeners(port, controller_port, node.route)
            ours = {**own, **_common_settings(voters), **placed}
            if self._certificates is not None:
                ours = with_secured(ours, self._secured_ports[node.node_id - 1], self._certificates)
            node.place.configure({**ours, **settings})
        for node in self.nodes:
            node.launch()

    def _places(self, count: int) -> Iterator[Place]:
        if self.backend == "shared":
            from .nodes.shared import SharedJvm, SharedNode

            jvm = SharedJvm(self.version)
            yield from (SharedNode(jvm, f"node-{number}") for number in range(1, count + 1))
        elif self.backend == "docker":
            from .nodes.containers import ContainerNode, Containers

            containers = Containers(self.version, network=count > 1)
            yield from (ContainerNode(containers, f"kafka-{number}") for number in range(1, count + 1))
        else:
            flags = JVM_FLAGS if count == 1 else _SMALL_JVM_FLAGS
            yield from (NodeProcess(self.version, self._directory, flags) for _ in range(count))


def start_cluster(  # options of one cluster, given by name
    nodes: int = 3,
    racks: Sequence[str] = ("a", "b", "c"),
    *,
    backend: str = "jvm",
    version: str = KAFKA_VERSION,
    timeout_s: float = 90,
    settings: Mapping[str, str] | None = None,
    certificates: Certificates | None = None,
) -> Cluster:
    """Start brokers that are also controllers, and wait until each of them lists all of them as live.

    They end with this process, however it ends (SIGKILL included).

    Args:
        nodes: Number of nodes. Two of three are a majority and can elect a leader; one of three cannot.
        racks: ``broker.rack`` of node 1, 2, …; repeated if there are more nodes than racks.
        backend: ``jvm`` (a JVM per node, which can crash and stall alone), ``shared`` (one JVM for all: it boots
            faster, and a node restarts in half a second; `Node.kill` and `Node.pause` raise NotSupported) or ``docker``
            (a container per node, which can also be cut off the network).
        version: Kafka's version; it must be pinned (or, for ``docker``, be the image's tag).
        timeout_s: Seconds until all nodes must be ready, also after a restart.
        settings: Broker settings of every node that extend or replace the harness's own. By default topics have a
            replica on each of up to three nodes, and writes need two of them.
        certificates: Every node gets a second listener, for users, with these certificates (not with ``docker``).

    Raises:
        ConfigError: `nodes` is below 1, or there are no racks.
        UnknownName: The backend is unknown, or the version is not pinned.
        BrokerNotReady: A node died or was too slow; the message has the end of its log.
        MachineError: Java or jars are missing and cannot be fetched.

    Cost: a JVM per node takes about 160 MB and 1.6 s of one core each; one JVM for three nodes takes 250 MB and 3 s.
    """
    if backend not in BACKENDS:
        raise UnknownName("cluster backend", backend, BACKENDS)
    if type(nodes) is not int or nodes < 1:
        raise ConfigError(f"nodes must be an int of at least 1, not {nodes!r}")
    if isinstance(racks, str) or not racks:
        raise ConfigError(f"racks must be a list of names like ('a', 'b', 'c'), not {racks!r}")
    if certificates is not None and backend == "docker":
        raise ConfigError("a secured listener needs backend 'jvm' and 'shared', not 'docker'")
    placed = [racks[i % len(racks)] for i in range(nodes)]
    return Cluster(
        placed, backend=backend, version=version, timeout_s=timeout_s, settings=settings or {},
        certificates=certificates,
    )  # fmt: skip


def _common_settings(voters: Sequence[str]) -> dict[str, str]:
    """Settings that all nodes share: the voters (``id@host:port``) and the replication factors."""
    copies = min(3, len(voters))
    majority = copies // 2 + 1
    return {
        "controller.quorum.voters": ",".join(voters),
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(majority),
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(majority),
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": str(majority),
    }
