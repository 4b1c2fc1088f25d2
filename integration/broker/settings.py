"""The properties of a test broker: one KRaft node that is broker and controller."""

from __future__ import annotations

import base64
import uuid
from typing import NamedTuple

KAFKA_VERSION = "4.3.0"
"""The version that is started unless another is named; its jars are pinned."""
JVM_FLAGS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""A node that lives for seconds: the first compiler only, the collector with the least start-up."""

LOGGER_FLAGS = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
)
"""For the logger among the pinned jars; another logger does not know them."""


class Route(NamedTuple):
    """A node's second client listener, which a fault proxy stands in front of; both ports are on 127.0.0.1.

    Who bootstraps at `advertised` is told `advertised` ports alone, so that all of its connections pass the proxy; who
    bootstraps at the node's own port never meets it.

    Args:
        advertised: Where clients are told to connect, and a proxy listens; without a proxy nobody does.
        behind: Where the node listens.
    """

    advertised: int
    behind: int


def broker_settings(  # each is a property of its own in the file that this makes
    *,
    port: int,
    controller_port: int,
    data: str,
    rack: str,
    bind: str = "127.0.0.1",
    node_id: int = 1,
    route: Route | None = None,
) -> dict[str, str]:
    """Settings of one node.

    Args:
        port: Clients' port, advertised as ``127.0.0.1:port``.
        controller_port: The controller's port, for the node itself.
        data: Folder for the log.
        rack: ``broker.rack``.
        bind: Address the client listener binds to.
        node_id: ``node.id``.
        route: Its second client listener; None: it has none.
    """
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": f"{node_id}@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{bind}:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "broker.rack": rack,
        "log.dirs": data,
        # a misspelt topic shall fail, not appear
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # one partition puts the coordinator's log of all groups in one order
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        # scenarios count rebalances: the first join shall not wait for company
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
        # a killed node may register again after this, not after 9 s
        "broker.session.timeout.ms": "3000",
        # by default every 2 s: on a busy machine one late heartbeat would end a session of 3 s and move leaders
        "broker.heartbeat.interval.ms": "500",
        # the default of 128 MB is half of this heap: nodes were seen to freeze
        "log.cleaner.dedupe.buffer.size": "2097152",
        "controlled.shutdown.max.retries": "1",
        # a killed member's transaction ends when its time is over, not up to 10 s later
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        **({} if route is None else _proxied(port, controller_port, bind, route)),
    }


def _proxied(port: int, controller_port: int, bind: str, route: Route) -> dict[str, str]:
    """The listeners of a node with a second one for clients."""
    return {
        "listeners": (
            f"PLAINTEXT://{bind}:{port},PROXIED://{bind}:{route.behind},CONTROLLER://127.0.0.1:{controller_port}"
        ),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{route.advertised}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
        # mostly unused, and each listener has threads of its own
        "listener.name.proxied.num.network.threads": "1",
    }


def uuid_base64() -> str:
    """A new id in Kafka's form: 16 random bytes in base64url, never with a leading dash (an option to the tools)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
