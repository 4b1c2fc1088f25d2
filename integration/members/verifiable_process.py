"""Members that speak the protocol of Kafka's VerifiableConsumer: Java's own (one JVM each), librdkafka's, and ours.

They print a JSON object per callback, poll and commit, which become the events of `history.events`. Missing facts come
from the coordinator log: the generation of a callback, the member id, and whether partitions that Java reports as
revoked were lost (its tool doesn't override ``onPartitionsLost``). Their leader's view of the cluster is unknown.

Source: apache/kafka ``tools/src/main/java/org/apache/kafka/tools/VerifiableConsumer.java``, from the broker's jars.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from signal import SIGTERM
from typing import Any, Protocol

from kafka_assignors.connection.properties import render
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ConfigError, JarError, UnknownName
from kafka_assignors.history.events import partitions_json
from kafka_assignors.history.writer import EventWriter
from kafka_assignors.jvm import has_tools, java, kafka_jars

from ..broker import KAFKA_VERSION
from ..broker.settings import LOGGER_FLAGS
from ..names import JAVA_ASSIGNORS
from ..processes.child import ChildProgram
from ..processes.python import python_command
from ..registry import assignor_named
from .clients.events import runs
from .config import BROKER_ASSIGNED, CONFLUENT_CONSUMER, JAVA, JAVA_CONSUMER, VERIFIABLE, MemberConfig, StandardInput
from .coordinator_log import CoordinatorLog, Joined
from .process import Commands, MemberProcess
from .transformers import java as transformer

CONFLUENT_ASSIGNORS = ("range", "roundrobin", "cooperative-sticky")
"""librdkafka supports only these."""

_FLAGS = ("-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", *LOGGER_FLAGS)
_MS = 1_000_000


def java_command(
    config: MemberConfig, properties: Path | StandardInput, log: Path, version: str = KAFKA_VERSION
) -> list[str]:
    """The command line of a Java member. Writes `properties`, the settings for which the tool has no option.

    `properties` is a file, or the member's standard input if the settings have secrets. The configuration's further
    settings have Java's names, with ``_`` for ``.``: ``max_poll_interval_ms=3000``.

    Raises:
        ConfigError: There are several topics; the tool subscribes to one.
        UnknownName: Java doesn't have this assignor.
        MachineError: Java or jars are missing and cannot be fetched.
    """
    if config.broker_assigned:
        config.require_consumer_protocol()
    else:
        _check_names("assignor of Java", config, JAVA_ASSIGNORS)
    logger = (f"-Dorg.slf4j.simpleLogger.logFile={log}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
    flags = (*_FLAGS, *config.connection().java_options())
    if config.output is not None:
        program = transformer.arguments(config, _protocol_settings(config), properties, version)
        return [str(java().executable), *flags, *logger, *program]
    if not has_tools(version):
        raise JarError(
            f"a Java member of Kafka {version} can't run: its kafka-tools jar (VerifiableConsumer) is not published; "
            f"use a member of another version, for example of Kafka {KAFKA_VERSION}"
        )
    class_path = os.pathsep.join(map(str, kafka_jars(version)))
    return [
        *(str(java().executable), *flags, *logger, "-cp", class_path, "org.apache.kafka.tools.VerifiableConsumer"),
        *_options(config, properties),
    ]


def verifiable_command(config: MemberConfig, properties: Path | StandardInput) -> list[str]:
    """The command line of our own member, which has VerifiableConsumer's options. Writes `properties`.

    `registry.assignor_named` makes its assignors. Those that Java has go by Java's names.
    """
    return python_command("kafka_assignors.integration.verifiable_member", *_options(config, properties))


def _offered(config: MemberConfig) -> list[str]:
    """The protocol names of its assignors. Assignor classes report their own."""
    if config.client != VERIFIABLE:
        return list(config.assignors)
    return [str(assignor_named(name).name) for name in config.assignors]


def _options(config: MemberConfig, properties: Path | StandardInput) -> list[str]:
    """VerifiableConsumer's options. Writes `properties`."""
    if len(config.topics) != 1:
        raise ConfigError(
            f"member {config.member!r}: VerifiableConsumer subscribes to one topic, not to "
            f"{len(config.topics)} ({', '.join(config.topics)})"
        )
    connection = config.connection()
    access = connection.portable() if config.client == VERIFIABLE else connection.java()
    settings: dict[str, Any] = {
        **{name: value for name, value in access.items() if name != "bootstrap.servers"},
        "client.id": config.member,
        **({} if config.broker_assigned else {"heartbeat.interval.ms": config.heartbeat_interval_ms}),
        "retry.backoff.ms": 50,
        "fetch.max.wait.ms": 200,
        **({} if config.rack is None else {"client.rack": config.rack}),
        **{name.replace("_", "."): value for name, value in config.consumer.items()},
    }
    reset = settings.pop("auto.offset.reset", "earliest")
    java_settings = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in settings.items()
    }
    properties.write_text(render(java_settings), "ascii")
    arguments = {
        "--bootstrap-server": config.bootstrap,
        "--topic": config.topics[0],
        "--group-id": config.group,
        "--reset-policy": reset,
        **_protocol(config),
        "--command-config": str(properties),
        **({} if config.instance_id is None else {"--group-instance-id": config.instance_id}),
    }
    return [
        *(word for pair in arguments.items() for word in pair),
        "--verbose",  # print every record, so that missing offsets show
    ]


def _protocol(config: MemberConfig) -> dict[str, str]:
    if config.broker_assigned:
        return {"--group-protocol": "consumer", "--group-remote-assignor": config.assignors[0]}
    return {
        "--session-timeout": str(config.session_timeout_ms),
        "--assignment-strategy": ",".join(JAVA_ASSIGNORS.get(name, name) for name in config.assignors),
    }


def _protocol_settings(config: MemberConfig) -> dict[str, Any]:
    if config.broker_assigned:
        return {"group.protocol": "consumer", "group.remote.assignor": config.assignors[0]}
    return {
        "session.timeout.ms": config.session_timeout_ms,
        "heartbeat.interval.ms": config.heartbeat_interval_ms,
        "partition.assignment.strategy": ",".join(JAVA_ASSIGNORS[name] for name in config.assignors),
    }


def confluent_command(config: MemberConfig, path: Path) -> list[str]:
    """A librdkafka member's command line. Writes its configuration to `path`. UnknownName if it lacks an assignor."""
    if config.broker_assigned:
        config.require_consumer_protocol()
    else:
        _check_names("assignor of librdkafka", config, CONFLUENT_ASSIGNORS)
    path.write_text(config.to_json(), "utf-8")
    what = (
        "kafka_assignors.integration.members.clients.confluent"
        if config.output is None
        else "kafka_assignors.integration.members.transformers.confluent"
    )
    return python_command(what, str(path))


def program_command(config: MemberConfig, path: Path) -> list[str]:
    """The command line of a client that the harness doesn't know: its program, then the path of its configuration.

    The program prints VerifiableConsumer's objects as `members.clients.confluent` does, and leaves the group on
    SIGTERM. The configuration's ``access`` is the number of bytes of a ``client.properties`` that the program reads
    first from its standard input, or null. It may announce records by ``records_taken`` if it doesn't tell how commits
    end. Writes `path`.

    Raises:
        ConfigError: The program isn't an executable file.
    """
    program = Path(config.program[0])
    if not os.access(program, os.X_OK):
        raise ConfigError(f"member {config.member!r}: its program {program} is not an executable file; build it first")
    path.write_text(config.to_json(), "utf-8")
    return [*config.program, str(path)]


def _check_names(what: str, config: MemberConfig, supported_names: Collection[str]) -> None:
    for name in config.assignors:
        if name not in supported_names:
            raise UnknownName(what, name, supported_names)


class Lookup(Protocol):
    """Facts that `EventTranslator` looks up in the coordinator log."""

    def joined(self, client_id: str, at_ms: int) -> Joined | None:
        """The last generation with a client that was committed by a time of the wall clock."""

    def reconciled(self, client_id: str, at_ms: int, owned_partitions: frozenset[TopicPartition]) -> Joined | None:
        """The last current assignment of a client in a KIP-848 group that was committed by a time."""

    def mono_ns(self, ts_ns: int) -> int:
        """Convert wall-clock time to the monotonic clock."""


class EventTranslator:
    """Output of one VerifiableConsumer -> events, in order. `log` knows the client by `client_id`.

    A member of a KIP-848 group (by its `client`) reports changes only. Its generation is the epoch in which the
    coordinator's log gives it the partitions that it then owns.
    """

    def __init__(self, client_id: str, log: Lookup, client: str = JAVA) -> None:
        self._client_id, self._log = client_id, log
        self._broker_assigned, self._tells_losses = client in BROKER_ASSIGNED, client == CONFLUENT_CONSUMER
        self._owned: set[TopicPartition] = set()
        self._read: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)  # (offset, bytes)
        self._generation, self._last_ns = -1, 0

    def events(self, consumer_event: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """(kind, fields) of the events of one JSON object. The coordinator log must be read up to it.

        The object's time has whole milliseconds, rounded down. Gains are dated to the end of that millisecond and
        losses to its start, so that rounding makes no overlap.
        """
        name, at_ms = consumer_event["name"], consumer_event["timestamp"]
        done: dict[str, Any]
        if name == "startup_complete":
            # Not earlier: while the JVM starts, for seconds, no member could join.
            yield "start", self._at(at_ms)
        partitions = {TopicPartition(p["topic"], p["partition"]) for p in consumer_event.get("partitions", ())}
        rows = partitions_json(partitions)
        if name == "partitions_assigned":
            # Java calls it once per completed generation, even if nothing was added.
            joined = self._joined(at_ms, self._owned | partitions)
            self._generation = -1 if joined is None else joined.generation
            common = {**self._at(at_ms, late=True), "generation": self._generation}
            if joined is not None:
                common["member_id"] = joined.member_id
            self._owned |= partitions
            protocol = "" if joined is None else joined.protocol
            yield "generation", {**common, "protocol": protocol, "partitions": partitions_json(self._owned)}
            yield "assigned_begin", {**common, "partitions": rows}
            yield "assigned_end", {**common, "partitions": rows}
        elif name in ("partitions_revoked", "partitions_lost"):
            joined = self._joined(at_ms, self._owned - partitions)
            lost = name == "partitions_lost" or (joined is not None and joined.gone and not self._tells_losses)
            if joined is not None and joined.owns:
                # An eager member revokes before it joins. A cooperative one revokes when it learns its new
                # assignment, in a generation that it joined with its partitions.
                self._generation = joined.generation
            self._owned -= partitions
            kind = "lost" if lost else "revoke"
            for edge in ("begin", "end"):
                yield f"{kind}_{edge}", {**self._at(at_ms), "generation": self._generation, "partitions": rows}
        elif name == "record_data":
            size = len((consumer_event["key"] or "").encode()) + len((consumer_event["value"] or "").encode())
            self._read[TopicPartition(consumer_event["topic"], consumer_event["partition"])].append(
                (consumer_event["offset"], size)
            )
        elif name in ("records_consumed", "records_taken"):
            yield from self._consumed(at_ms, commits=name == "records_consumed")
        elif name == "transaction_ending":
            done = {"offsets": consumer_event["offsets"], "transaction": consumer_event["transaction"]}
            yield "commit_begin", {**self._at(at_ms, late=True), **done}
        elif name == "offsets_committed":
            done = {**self._at(at_ms, late=True), "offsets": consumer_event["offsets"]}
            if "transaction" in consumer_event:
                done["transaction"] = consumer_event["transaction"]
            if not consumer_event["success"]:
                done["error"] = consumer_event.get("error", "")
            yield "commit_ok" if consumer_event["success"] else "commit_fail", done
        elif name == "rewound":
            yield "rewound", {**self._at(at_ms, late=True), "offsets": consumer_event["offsets"]}
        elif name == "error":
            details = {"error": str(consumer_event.get("error")), "message": str(consumer_event.get("message"))}
            yield "error", {**self._at(at_ms, late=True), **details, "fatal": False}
        elif name in ("stalled", "resumed"):
            edge = "begin" if name == "stalled" else "end"
            yield f"fault_{edge}", {**self._at(at_ms), "fault": "stall", "target": self._client_id}
        elif name == "shutdown_complete":
            yield "stop", self._at(at_ms, late=True)

    def _consumed(self, at_ms: int, commits: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        """The records since the last call. A member that `commits` does so at once, and reports only the result."""
        if not self._read:
            return
        read = sorted(self._read.items())
        self._read.clear()
        offsets = [run for tp, records in read for run in runs(tp, records)]
        yield "consume", {**self._at(at_ms, late=True), "offsets": offsets}
        if commits:
            ends = [
                {"topic": tp.topic, "partition": tp.partition, "offset": records[-1][0] + 1} for tp, records in read
            ]
            yield "commit_begin", {**self._at(at_ms, late=True), "offsets": ends}

    def _joined(self, at_ms: int, owned_partitions: Collection[TopicPartition]) -> Joined | None:
        by_epoch = self._log.reconciled(self._client_id, at_ms, frozenset(owned_partitions))
        if self._broker_assigned:
            return by_epoch
        # In a group in migration a classic member has epochs too. They continue the generations' numbers.
        joined = self._log.joined(self._client_id, at_ms)
        return max(filter(None, (joined, by_epoch)), key=lambda candidate: candidate.generation, default=None)

    def _at(self, ms: int, late: bool = False) -> dict[str, Any]:
        ts_ns = ms * _MS + (_MS - 1 if late else 0)
        self._last_ns = max(self._last_ns, self._log.mono_ns(ts_ns))  # its own events stay in order
        return {"ts_ns": ts_ns, "mono_ns": self._last_ns}


class VerifiableProcess(MemberProcess):
    """A member that prints JSON lines, from which its history is written here.

    `log` supplies facts that it doesn't print. `stem` is the path of its files, without their endings.

    Raises:
        ConfigError: It has several topics, or its program isn't an executable file.
        UnknownName: Its client doesn't have an assignor.
        MachineError: Java or jars are missing and cannot be fetched.
    """

    def __init__(self, config: MemberConfig, log: CoordinatorLog, stem: Path) -> None:
        super().__init__(config, stem.with_name(stem.name + ".log"))
        self._stdout_path = stem.with_name(stem.name + ".out")
        settings = stem.with_name(stem.name + ".properties") if config.access is None else StandardInput()
        if config.client in (JAVA, JAVA_CONSUMER):
            line = java_command(config, settings, self.output)
        elif config.program:
            line = program_command(config, stem.with_name(stem.name + ".json"))
        elif config.client == VERIFIABLE:
            line = verifiable_command(config, settings)
        else:
            line = confluent_command(config, stem.with_name(stem.name + ".json"))
        self.output.touch()
        self._log, self._read, self._over = log, 0, False
        if isinstance(settings, StandardInput) and settings.text:
            self._commands = Commands(settings.text.encode("ascii"), more=False)
        else:
            self._commands = Commands(config.handed_over())
        self.program = ChildProgram(line, self._stdout_path, stdin=self._commands.stdin)
        self._commands.begun()
        self._translator = EventTranslator(config.member, log, config.client)
        pid = self.program.pid or 0
        self._writer = EventWriter(Path(config.history), config.run, "member", **config.common, pid=pid)
        self._member_id: str | None = None

    @property
    def clean(self) -> bool:
        """Whether it ended in order. A JVM that does so on SIGTERM still exits with that signal's code."""
        return self.returncode in (0, -SIGTERM) and self._over

    def command(self, what: str) -> None:
        """Tell a member of librdkafka in a KIP-848 group to resubscribe or to stall. Others: NotSupported."""
        if self.config.client != CONFLUENT_CONSUMER or what == "stall-assign":
            super().command(what)
        self._commands.send(what)

    def end(self, timeout_s: float) -> None:
        """Wait for its end, kill it at the deadline, read and translate the rest."""
        super().end(timeout_s)
        self._commands.close()
        self._translate(final=True)
        self._writer.close()

    def catch_up(self) -> None:
        """Translate what it has printed since the last call."""
        self._translate()

    def epitaph(self) -> str:
        """How it ended. It prints a fatal error among its JSON lines: Java the cause first, ours after its log."""
        output = self._stdout_path.read_text("utf-8", "replace").splitlines()
        lines = [line[:500] for line in output if line and not line.startswith("{")]
        ours = (line for line in lines if line.startswith(("error: ", "fenced: ")))
        self.last_error = next(ours, lines[0] if lines else self.last_error)
        return super().epitaph()

    def _translate(self, final: bool = False) -> None:
        with self._stdout_path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]  # a torn last line waits for its rest, or remains after a kill
        consumer_events = [json_object for line in data.splitlines() if (json_object := _object(line)) is not None]
        if any(s["name"].startswith("partitions_") for s in consumer_events) and not (self._log.catch_up() or final):
            return  # the broker is away, so the generation of these callbacks is unknown
        self._read += len(data)
        for consumer_event in consumer_events:
            self._over = self._over or consumer_event["name"] == "shutdown_complete"
            for kind, fields in self._translator.events(consumer_event):
                if kind == "start":
                    config = self.config
                    given = [f"{config.client}:{name}" for name in config.assignors]
                    fields |= config.start(_offered(config), given)
                self._member_id = fields.setdefault("member_id", self._member_id)
                self.take(self._writer.write(kind, **fields))


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and "name" in row and "timestamp" in row else None
