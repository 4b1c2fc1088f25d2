"""What a member process is started with: the clients that there are, and one configuration that all of them take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kafka_assignors.connection import Connection, from_file

KAFKA_PYTHON, AIOKAFKA, CONFLUENT, JAVA = "kafka-python", "aiokafka", "confluent", "java"
VERIFIABLE, BRIDGE = "verifiable", "bridge"
CLIENTS = (KAFKA_PYTHON, JAVA, CONFLUENT, VERIFIABLE, AIOKAFKA, BRIDGE)
"""What members may run."""
TRANSFORMING = (KAFKA_PYTHON, AIOKAFKA, CONFLUENT, JAVA)
"""What members may run that have an output topic."""
MAX_POLL_INTERVAL_MS = 300_000
"""Kafka's default, in every client."""
METADATA_MAX_AGE_MS = 300_000
"""Kafka's default: how long a client believes what it knows of topics."""


@dataclass(frozen=True)
class MemberConfig:
    """Everything a member process needs to know.

    Args:
        member: Its name in the run; also its client id, by which the coordinator log tells members apart.
        assignors: Names, most wanted first; see `names.assignor_named`.
        history: The file it writes.
        incarnation: 0 for the first process of that name, then counted up.
        client: Which client it runs; every client has its own process, and all take this configuration.
        pattern: It subscribes to the topics whose name matches this regular expression, instead of `topics`.
        guarded: `kafka_assignors.guard` its consumer, also where no assignor of ours does that by itself.
        output: It transforms: this topic gets an output for each record, in transactions; see `members.transformers`.
        consumer: Further settings, passed to the client as they are.
        access: A ``client.properties`` that says how to get in; None: in plain text. It holds secrets, this doesn't.
    """

    bootstrap: str
    group: str
    member: str
    topics: tuple[str, ...]
    assignors: tuple[str, ...]
    history: str
    run: str
    incarnation: int = 0
    instance_id: str | None = None
    rack: str | None = None
    session_timeout_ms: int = 2000
    heartbeat_interval_ms: int = 300
    client: str = KAFKA_PYTHON
    pattern: str | None = None
    guarded: bool = False
    output: str | None = None
    consumer: Mapping[str, Any] = field(default_factory=dict)
    access: str | None = None

    def to_json(self) -> str:
        """The configuration as the file that a member process reads."""
        return json.dumps(asdict(self))

    def connection(self) -> Connection:
        """How its clients reach the cluster.

        Raises:
            ConfigError: `access` can't be read.
        """
        return Connection(self.bootstrap) if self.access is None else from_file(Path(self.access), self.bootstrap)

    def private(self, path: Path) -> Path:
        """Where a file goes that may hold secrets: beside `access`, which ends with the group; else `path`."""
        return path if self.access is None else Path(self.access).with_name(path.name)

    @property
    def common(self) -> dict[str, Any]:
        """Fields of every event of this member."""
        names = ("group", "member", "incarnation", "instance_id", "client")
        return {name: getattr(self, name) for name in names}

    def start(self, offered: Sequence[str], given: Sequence[str]) -> dict[str, Any]:
        """Fields of its ``start`` event: the protocol names that it offers, and what stands for each."""
        config = {
            "assignors": list(given),
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": self.heartbeat_interval_ms,
            "max_poll_interval_ms": self.consumer.get("max_poll_interval_ms", MAX_POLL_INTERVAL_MS),
            "metadata_max_age_ms": self.consumer.get("metadata_max_age_ms", METADATA_MAX_AGE_MS),
            **({} if self.pattern is None else {"pattern": self.pattern}),
            **({} if self.output is None else {"output": self.output}),
        }
        return {"assignors": list(offered), "topics": list(self.topics), "config": config}

    @property
    def transactional_id(self) -> str:
        """One per member, so that a new process of its name ends the transaction that the old one left open."""
        return f"{self.group}.{self.member}"

    @classmethod
    def from_json(cls, text: str) -> MemberConfig:
        """Read a configuration.

        Raises:
            ValueError: Not a JSON object.
            TypeError: A missing or unknown setting.
        """
        row = json.loads(text)
        if not isinstance(row, dict):
            raise ValueError(f"a member's configuration is a JSON object, not {type(row).__name__}")
        return cls(**{**row, "topics": tuple(row.get("topics", ())), "assignors": tuple(row.get("assignors", ()))})
