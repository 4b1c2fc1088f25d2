"""The properties of a test broker: one KRaft node that is broker and controller."""

from __future__ import annotations

import base64
import uuid
from typing import NamedTuple

KAFKA_VERSION = "4.3.1"
"""Default version of Kafka; its jars are pinned."""
JVM_FLAGS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a node that lives for seconds: only the first compiler, and the garbage collector with the least start-up."""

LOGGER_FLAGS = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
)
"""For the logger among the pinned jars. Other loggers ignore these options."""


class Route(NamedTuple):
    """A node's second client listener, in front of which a fault proxy stands. Both ports are on 127.0.0.1.

    A client that bootstraps at `advertised` only learns `advertised` ports, so all of its connections pass the proxy. A
    client that bootstraps at the node's own port never meets the proxy.
    """

    advertised: int  # the port that clients connect to, where a proxy listens. Without a proxy nobody listens there.
    behind: int  # where the node listens


def broker_settings(  # each becomes a property
    *,
    port: int,
    controller_port: int,
    data: str,
    rack: str,
    bind: str = "127.0.0.1",
    node_id: int = 1,
    route: Route | None = None,
) -> dict[str, str]:
    """Settings of one node. Clients use `port`, advertised as ``127.0.0.1:port``, and the `route` if there is one."""
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
        # a misspelt topic must fail instead of being created
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # with one partition, the coordinator's log has one order over all groups
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        # scenarios count rebalances: the first join must not wait for other members
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
        # the same for the consumer protocol (KIP-848), whose groups set their timeouts on the broker
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "100",
        # a group may change its protocol while it runs, in both directions (Kafka's default)
        "group.consumer.migration.policy": "bidirectional",
        # a killed node may register again after this time; the default is 9 s
        "broker.session.timeout.ms": "3000",
        # the default is 2 s: on a busy machine one late heartbeat would end a session of 3 s and move leaders
        "broker.heartbeat.interval.ms": "500",
        # the default of 128 MB is half of this heap; nodes froze with it
        "log.cleaner.dedupe.buffer.size": "2097152",
        "controlled.shutdown.max.retries": "1",
        # records with times of long ago stay; the first look, 30 s after the start, would delete them
        "log.retention.ms": "-1",
        # leaders move when a scenario moves them, not every 5 minutes
        "auto.leader.rebalance.enable": "false",
        # a killed member's transaction ends at its timeout, not up to 10 s later
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        **({} if route is None else _proxied(port, controller_port, bind, route)),
    }


def _proxied(port: int, controller_port: int, bind: str, route: Route) -> dict[str, str]:
    """The listeners of a node that has a second one for clients."""
    return {
        "listeners": (
            f"PLAINTEXT://{bind}:{port},PROXIED://{bind}:{route.behind},CONTROLLER://127.0.0.1:{controller_port}"
        ),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{route.advertised}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
        # this listener is rarely used, and each listener has its own threads
        "listener.name.proxied.num.network.threads": "1",
    }


def uuid_base64() -> str:
    """A new id in Kafka's form: 16 random bytes in base64url. It never starts with a dash (an option to tools)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
