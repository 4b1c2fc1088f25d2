"""The configuration that a member process is started with, the same for every client, and the list of clients."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kafka_assignors.connection import Connection, from_settings
from kafka_assignors.connection.properties import parse, render
from kafka_assignors.core.declaration import is_ours
from kafka_assignors.errors import ConfigError, UnknownName

KAFKA_PYTHON, AIOKAFKA, CONFLUENT, JAVA = "kafka-python", "aiokafka", "confluent", "java"
VERIFIABLE, BRIDGE = "verifiable", "bridge"
JAVA_CONSUMER, CONFLUENT_CONSUMER = "java-consumer", "confluent-consumer"
CONFLUENT_KAFKA = "confluent-kafka"
"""librdkafka's client in a service, which is recorded in its process; `CONFLUENT` is the harness's own member."""
RECORDED = (KAFKA_PYTHON, CONFLUENT_KAFKA, AIOKAFKA)
"""Clients that a service may read with."""
CLIENTS = (KAFKA_PYTHON, JAVA, CONFLUENT, VERIFIABLE, AIOKAFKA, BRIDGE, JAVA_CONSUMER, CONFLUENT_CONSUMER)
BROKER_ASSIGNED = (JAVA_CONSUMER, CONFLUENT_CONSUMER)
"""Clients of the consumer protocol (KIP-848): their assignors are the broker's, and their timeouts the group's."""
BROKER_ASSIGNORS = ("uniform", "range")
"""Assignors of the broker. More can be configured there; the harness's brokers have these."""
_OF_CLASSIC = (
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "partition_assignment_strategy",
    "group_protocol_type",
    "group_protocol",
)
"""Settings that a client of the consumer protocol refuses, or that the harness sets."""
RESUBSCRIBING = (KAFKA_PYTHON, CONFLUENT_CONSUMER)
"""Clients whose members may subscribe to a pattern and change their subscription in place."""
_GUARDED = (KAFKA_PYTHON, VERIFIABLE, BRIDGE)
"""Clients whose consumer our assignors guard."""
LEAVING = (KAFKA_PYTHON, BRIDGE)
"""Clients whose members may hand their partitions over before they leave."""
TRANSFORMING = (KAFKA_PYTHON, AIOKAFKA, CONFLUENT, JAVA, *BROKER_ASSIGNED)
"""Clients that members with an output topic may run."""
MAX_POLL_INTERVAL_MS = 300_000
"""Kafka's default, in every client."""
METADATA_MAX_AGE_MS = 300_000
"""Kafka's default: how long a client trusts its metadata."""


@dataclass(frozen=True)
class MemberConfig:
    """Everything a member process needs to know; `MemberGroup.start` describes the fields that it is given.

    `access` to the cluster is as `Connection.portable`; None: plain text. It has secrets, so no file gets it: the
    member reads it from its standard input (`handed_over`).
    """

    bootstrap: str
    group: str
    member: str  # its name in the run; also its client id, by which the coordinator log distinguishes members
    topics: tuple[str, ...]
    assignors: tuple[str, ...]
    history: str
    run: str
    incarnation: int = 0  # processes of that name before it, also of a service's consumer that was made anew
    instance_id: str | None = None
    rack: str | None = None
    session_timeout_ms: int = 2000
    heartbeat_interval_ms: int = 300
    client: str = KAFKA_PYTHON
    pattern: str | None = None
    guarded: bool = False
    output: str | None = None
    consumer: Mapping[str, Any] = field(default_factory=dict)
    access: Mapping[str, str] | None = field(default=None, repr=False)
    program: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The configuration as JSON, for the file that a member process reads; without secrets.

        Its ``access`` is null, or the number of bytes that the member reads first from its standard input.
        """
        return json.dumps({**asdict(self), "access": None if self.access is None else len(self.handed_over())})

    def handed_over(self) -> bytes:
        """`access` as a ``client.properties``, for the member's standard input; empty if it has none."""
        return b"" if self.access is None else render(self.access).encode("ascii")

    def connection(self) -> Connection:
        """How its clients reach the cluster. ConfigError if a setting of `access` is invalid."""
        if self.access is None:
            return Connection(self.bootstrap)
        return from_settings({**self.access, "bootstrap.servers": self.bootstrap})

    def dotted(self) -> dict[str, Any]:
        """Its settings that librdkafka and Java name alike."""
        return {
            "client.id": self.member,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            **({} if self.instance_id is None else {"group.instance.id": self.instance_id}),
            **({} if self.rack is None else {"client.rack": self.rack}),
        }

    @property
    def broker_assigned(self) -> bool:
        """Whether it speaks the consumer protocol (KIP-848)."""
        return self.client in BROKER_ASSIGNED

    @property
    def guards(self) -> bool:
        """Whether the guard is to watch its consumer, which then sends early heartbeats in a cooperative group."""
        return self.client in _GUARDED and (self.guarded or any(map(is_ours, self.assignors)))

    def require_consumer_protocol(self) -> None:
        """Check the settings of a member that speaks the consumer protocol.

        Raises:
            ConfigError: It has several assignors, or a setting of the classic protocol as well.
            UnknownName: The broker doesn't have its assignor.
        """
        if len(self.assignors) != 1:
            raise ConfigError(
                f"member {self.member!r}, client {self.client!r}: the consumer protocol (KIP-848) takes one assignor "
                f"of the broker, not {', '.join(self.assignors)}"
            )
        if self.assignors[0] not in BROKER_ASSIGNORS:
            raise UnknownName("assignor of the broker", self.assignors[0], BROKER_ASSIGNORS)
        for name in _OF_CLASSIC:
            if name in self.consumer:
                raise ConfigError(
                    f"member {self.member!r}, client {self.client!r}: {name}={self.consumer[name]!r} belongs to the "
                    "classic protocol; under the consumer protocol (KIP-848) the group's settings on the broker hold: "
                    "remove it"
                )

    @property
    def common(self) -> dict[str, Any]:
        """Fields of every event of this member."""
        names = ("group", "member", "incarnation", "instance_id", "client")
        return {name: getattr(self, name) for name in names}

    def start(self, offered: Sequence[str], given: Sequence[str]) -> dict[str, Any]:
        """Fields of its ``start`` event: the protocol names that it offers, and the assignors given for them."""
        config = {
            "assignors": list(given),
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": self.heartbeat_interval_ms,
            "max_poll_interval_ms": self.consumer.get("max_poll_interval_ms", MAX_POLL_INTERVAL_MS),
            "metadata_max_age_ms": self.consumer.get("metadata_max_age_ms", METADATA_MAX_AGE_MS),
            **({} if self.pattern is None else {"pattern": self.pattern}),
            **({} if self.output is None else {"output": self.output}),
            **({"protocol": "consumer"} if self.broker_assigned else {}),
            **({"early_heartbeats": True} if self.guards else {}),
        }
        return {"assignors": list(offered), "topics": list(self.topics), "config": config}

    @property
    def transactional_id(self) -> str:
        """One id per member, so that a new process of its name ends the transaction that the old one left open."""
        return f"{self.group}.{self.member}"

    @classmethod
    def from_json(cls, text: str) -> MemberConfig:
        """Read a configuration, and the access to the cluster from standard input if it has one.

        Raises:
            ValueError: `text` is not a JSON object, or standard input ends too early.
            TypeError: A setting is missing or unknown.
        """
        row = json.loads(text)
        if not isinstance(row, dict):
            raise ValueError(f"a member's configuration is a JSON object, not {type(row).__name__}")
        if isinstance(row.get("access"), int):
            row["access"] = {line.key: line.value for line in parse(_first_of_stdin(row["access"]).decode("ascii"))}
        listed = {name: tuple(row.get(name, ())) for name in ("topics", "assignors", "program")}
        return cls(**{**row, **listed})


class StandardInput:
    """A member's settings "file" that is its standard input: no file gets the secrets that are written here."""

    def __init__(self) -> None:
        self.text = ""

    def __str__(self) -> str:
        return "/dev/stdin"

    def write_text(self, text: str, encoding: str) -> None:  # noqa: ARG002 - as `Path.write_text`
        """Keep what the member will be handed over."""
        self.text = text


def _first_of_stdin(size: int) -> bytes:
    """The first bytes of standard input; commands of `control` follow them."""
    data = b""
    while len(data) < size:
        block = os.read(0, size - len(data))
        if not block:
            raise ValueError(f"standard input ends after {len(data)} of {size} bytes of the access to the cluster")
        data += block
    return data
