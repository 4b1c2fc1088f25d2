"""A user's own service as a member: any program, as many processes as the scenario has members.

A Python service that reads by kafka-python, confluent-kafka or aiokafka is recorded without a line of its own; see
`recorder`. Of any other the history has what its connections show; see `proxy.wire_process`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from kafka_assignors.errors import ConfigError
from kafka_assignors.history.events import COMMON, WIRE, file_stem
from kafka_assignors.history.writer import EventWriter

from ..errors import HarnessError
from ..processes.child import ChildProgram
from ..proxy import WireTap
from ..recorder.kafka_assignors_recorder import FILE, GROUP, LOG
from .config import CONFLUENT_CONSUMER, RECORDED, MemberConfig
from .process import MemberProcess

SERVICE = "service"
"""Client of the members that are a service's processes."""
JOIN_MS = 16_000
GAP_MS = 45_000 + JOIN_MS
"""How long a partition of a service may rest after a kill: its session, by default 45 s, and the time to join."""
PATIENCE_S = 180.0
"""How long a step may take: a service keeps its own settings, and the run waits for them."""
MOST_PARTITIONS = 10_000
_RECORDER = Path(__file__).parents[1] / "recorder"
_UNSEEN = (
    f"no consumer of it has joined the group so far that the recorder sees; it sees {', '.join(RECORDED)}. None has "
    "joined through the addresses that {bootstrap} gives either"
)
_LONGEST = 300
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SECOND = (
    "its process has a second consumer in the group while the first is open; one member per process is judged: close "
    "the first before the next one joins"
)
_UNSEEN_READS = (
    "it commits offsets of records that the recorder did not see it read, so not all of its reading is known"
)
_STRANGE = "its record has lines that the recorder did not write; they are ignored"
_OURS = frozenset((*COMMON, "consumer")) - {"kind", "ts_ns", "mono_ns", "pid", "member_id"}
"""Fields that only the harness writes, and the one that only it reads."""
_TYPES = {"kind": str, "mono_ns": int, "ts_ns": int, "pid": int}
_CALLBACK = (("generation", int), ("partitions", list))
_FIELDS: Mapping[str, Sequence[tuple[str, type]]] = {
    "start": (("topics", list), ("assignors", list), ("config", dict), ("client", str)),
    "stop": (),
    "generation": (*_CALLBACK, ("protocol", str)),
    **{f"{name}_{edge}": _CALLBACK for name in ("assigned", "revoke", "lost") for edge in ("begin", "end")},
    **dict.fromkeys(("consume", "commit_begin", "commit_ok", "commit_fail", "rewound"), (("offsets", list),)),
    "error": (("error", str), ("message", str)),
}
"""Kinds of rows, and their fields' types."""
_PLACED = {"consume": ("last",), "commit_begin": ("offset",), "rewound": ("offset",)}
"""Kind -> what its topic-partitions have beside topic and partition, if the harness reads it."""


@dataclass(frozen=True)
class Service:
    """How to start a service.

    In `command` and `environment` ``{bootstrap}``, ``{topic}``, ``{topics}`` (with commas), ``{group}``, ``{replica}``
    (the member's name) and ``{output}`` are replaced.
    """

    command: tuple[str, ...]  # program and arguments
    environment: Mapping[str, str] = field(default_factory=dict)  # variables beside those of this process
    exactly_once: bool = False  # whether it promises exactly one output per record; else at least one
    match: Callable[[Any], str | None] | None = None  # the id of the record that an output is of; None: it has the id

    def takes(self, *names: str) -> bool:
        """Whether command or environment have one of these names in braces."""
        given = "\n".join((*self.command, *self.environment.values()))
        return any(name in given for name in names)

    def filled(self, config: MemberConfig) -> Service:
        """The same for one member."""
        values = {
            "bootstrap": config.bootstrap,
            "topic": config.topics[0],
            "topics": ",".join(config.topics),
            "group": config.group,
            "replica": config.member,
            "output": config.output or "",
        }

        def fill(text: str) -> str:
            for name, value in values.items():
                text = text.replace("{" + name + "}", value)
            return text

        environment = {name: fill(value) for name, value in self.environment.items()}
        return replace(self, command=tuple(map(fill, self.command)), environment=environment)


@dataclass(frozen=True)
class Asking:
    """The words of messages: how a person asks for a service."""

    command: str  # what has the command
    variable: str  # what sets a variable; ``…`` stands for its value
    shared: str  # why a process may read only what the run makes, and join only its group

    def adding(self, name: str) -> str:
        """The advice to pass a name in braces to the processes."""
        return f"add {name} to the command, or {self.variable.replace('…', name)}"


class ServiceProcess(MemberProcess):
    """A process of the service. What its recorder tells becomes its history; without one, what its connections show.

    If it closes its consumer and makes another one, that is a new incarnation of the member, as after a restart of the
    process: the number in `config` and the file of its history change.

    The topics in `config` are those that the service is expected to subscribe to. `stem` is the path of its files,
    without their endings; `next_incarnation` returns the number of the next one. Without a tap only its recorder can
    tell of it.

    Raises:
        ConfigError: The program can't be started.
        HarnessError: The tap has ended.
    """

    def __init__(  # what to run, where to, and the two that know what else the group has
        self,
        config: MemberConfig,
        service: Service,
        stem: Path,
        next_incarnation: Callable[[], int],
        tap: WireTap | None = None,
    ) -> None:
        super().__init__(config, stem.with_name(stem.name + ".log"))
        self._next_incarnation = next_incarnation
        self._tap, self._tapped = tap, None
        self._tap_failure = ""
        self._waiting: list[dict[str, Any]] = []  # rows of the tap, until it is known who tells of the process
        if tap is not None:
            self._tapped = tap.listen(config.group, stem.with_name(f".{stem.name}.wire"), self.output)
            self.config = config = replace(config, bootstrap=self._tapped.bootstrap)
        self._record = stem.with_name(f".{stem.name}.record")
        self._read: dict[Path, int] = {}
        self._source: tuple[Path, Any] | None = None  # file and consumer that are this member
        self._closed = False  # whether that consumer is
        self._objections: set[str] = set()
        self._taken_at: dict[str, int] = {}
        self._read_to: dict[tuple[str, int], int] = {}
        self._committed_to: dict[tuple[str, int], int] = {}
        filled = service.filled(config)
        self._promised: dict[str, Any] = {} if config.output is None else {"output": config.output}
        if config.output is not None and not service.exactly_once:
            self._promised["at_least_once"] = True
        python_path = filled.environment.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        environment = {
            "PYTHONUNBUFFERED": "1",  # what it prints before it is killed is in its log, and where it belongs
            **filled.environment,
            FILE: str(self._record.resolve()),
            GROUP: config.group,
            LOG: str(self.output.resolve()),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(_RECORDER), python_path))),
        }
        self.last_error = _UNSEEN
        self.program = ChildProgram(filled.command, self.output, environment=environment)
        if self.program.pid is None:
            raise ConfigError(f"member {config.member!r}: {self.output.read_text('utf-8', 'replace').strip()[-300:]}")
        self._client: str | None = None  # not known before its recorder tells
        self._asked_client = config.client
        self._writer = self._new_writer()

    def _new_writer(self) -> EventWriter:
        common = {**self.config.common, "client": None, "pid": self.program.pid}
        return EventWriter(Path(self.config.history), self.config.run, "member", **common)

    @property
    def clean(self) -> bool:
        """A service may end as it likes once it is asked to."""
        return self.returncode is not None

    def named(self, fault: str) -> dict[str, Any]:
        """The fields of a fault event for the incarnation that runs now."""
        self.catch_up()
        return super().named(fault)

    def epitaph(self) -> str:
        """How it ended, and the last line of its log, which is an error's message in a traceback."""
        return f"ended with exit code {self.returncode}: {last_line(self.output)} (its log: {self.output})"

    def end(self, timeout_s: float) -> None:
        """Wait for its end, kill it at the deadline, and with it the processes that it started."""
        session = self.program.pids()[:1]
        super().end(timeout_s)
        kill_session(session)
        if self._tap is not None and self._tapped is not None:
            try:
                self._tap.close_process(self._tapped)
            except HarnessError as error:
                self._tap_failure = str(error)
        self.catch_up()  # those processes may have been the member
        if self._tap_failure and self._client in (None, WIRE):
            self.incomplete = self._tap_failure
        self._writer.close()
        if not self.incomplete:  # all of it is in the history now
            for path in self._read:
                path.unlink(missing_ok=True)

    def catch_up(self) -> None:
        """Take over what the recorder, or without one the tap, has written since the last call."""
        if self._tapped is not None:  # first: a recorder writes of a join before it is on the wire
            self._waiting += map(json.loads, self._new_lines(self._tapped.rows))
        rows: list[tuple[Path, dict[str, Any]]] = []
        for path in sorted(self._record.parent.glob(f"{self._record.name}.*")):
            for line in self._new_lines(path):
                row = _row(line)
                if row is None:
                    self._object("StrangeLine", _STRANGE)
                else:
                    rows.append((path, row))
        for path, row in sorted(rows, key=lambda pair: pair[1]["mono_ns"]):  # which process started first
            self._take_row(path, row)
        if self._tapped is not None and self._waiting:
            self._take_wire(self._tapped.rows)

    def _new_lines(self, path: Path) -> list[bytes]:
        """The whole lines that a file has got since the last call."""
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read[path] = self._read.get(path, 0) + len(whole)
        return [line for line in whole.split(b"\n") if line]

    def _take_wire(self, path: Path) -> None:
        """Take over the tap's rows, if no recorder tells of the process once it has got its first assignment."""
        if self._source is None and all(row["kind"] != "generation" for row in self._waiting):
            self.last_error = next((row["message"] for row in self._waiting if "message" in row), self.last_error)
            return
        rows, self._waiting = self._waiting, []
        if self._source is None or self._source[0] == path:
            for row in rows:
                if row["kind"] == "error" and self._source is None:  # it may be earlier than what the member did first
                    self.incomplete = row["message"]
                    continue
                self._take_row(path, row)
                if row["kind"] == "generation":
                    self.topics = tuple(row["topics"])

    def _take_row(self, path: Path, row: Mapping[str, Any]) -> None:
        source, kind = (path, row.get("consumer", 0)), row["kind"]
        self._taken_at = {name: row[name] for name in ("mono_ns", "ts_ns")}
        first = self._source is None
        if kind == "start" and (first or self._closed):
            if not first:
                self._renew()
            self._source, self._client = source, row["client"]
            self.last_error = ""
            self.topics, self.pattern = tuple(row["topics"]), row["config"].get("pattern")
            by_broker = row["config"].get("protocol") == "consumer"  # of a group in which the broker assigns
            self.config = replace(self.config, client=CONFLUENT_CONSUMER if by_broker else self._asked_client)
        elif kind == "start" and source == self._source:  # the process has replaced its program
            self._source = (path, None)
        if kind == "error":  # the recorder's last word
            self.incomplete = row["message"]
        if source == self._source or (first and kind == "error"):
            given = {name: value for name, value in row.items() if name not in _OURS}
            if kind == "start":
                given["config"] = {**row["config"], **self._promised}
            if "instance_id" in row:
                given["instance_id"] = row["instance_id"]
            self.take(self._writer.write(**{**given, "client": self._client}))
            if self._client != WIRE:  # which shows no reading
                self._compare(row)
            if kind == "stop":  # its client may call no callback: from now on it is in no generation
                self._closed = True
                self.end_consumer()
        elif not first:
            self._object("SecondConsumer", _SECOND)

    def _renew(self) -> None:
        """The member's next incarnation begins: the process makes a consumer after it has closed the one before."""
        self._writer.close()
        config, number = self.config, self._next_incarnation()
        history = Path(config.history).with_name(f"{file_stem(config.group, config.member, number)}.jsonl")
        self.config = replace(config, incarnation=number, history=str(history))
        self._writer, self._closed = self._new_writer(), False
        self._read_to.clear()
        self._committed_to.clear()
        if self.via is not None:
            self.via.admit(config.member, config.group, number)

    def _compare(self, row: Mapping[str, Any]) -> None:
        """Object to commits that advance further than what it was seen reading: a framework may bypass its client."""
        if row["kind"] == "assigned_begin":
            for place in row["partitions"]:  # its first commit may be of where another member ended
                self._committed_to.pop((place["topic"], place["partition"]), None)
        for place in row.get("offsets", ()):
            tp = place["topic"], place["partition"]
            if row["kind"] == "consume":
                self._read_to[tp] = max(self._read_to.get(tp, 0), place["last"] + 1)
            elif row["kind"] == "commit_begin":
                before = self._committed_to.get(tp, place["offset"])
                if place["offset"] > max(before, self._read_to.get(tp, 0)):
                    self._object("UnseenReads", _UNSEEN_READS)
                self._committed_to[tp] = place["offset"]

    def _object(self, error: str, message: str) -> None:
        """Tell once that rows of a kind are not taken over."""
        if message not in self._objections:
            self._objections.add(message)
            self.incomplete = message
            # When it was done, not when it is read: by then the member may have stopped.
            fields: dict[str, Any] = {"client": self._client, "error": error, "message": message, **self._taken_at}
            self.take(self._writer.write("error", fatal=False, **fields))


def kill_session(session: Collection[int]) -> None:
    """Kill the processes of these sessions: those that a service's process has started."""
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getsid(process.pid) in session:
                process.kill()


def last_line(log: Path) -> str:
    """The last line that a process printed."""
    lines = log.read_text("utf-8", "replace").split("\n")
    return next((line.strip()[:_LONGEST] for line in reversed(lines) if line.strip()), "it printed nothing")


def _row(line: bytes) -> dict[str, Any] | None:
    """The recorder's row in a line; None if it is none, as a service can write into that file."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or any(not isinstance(row.get(name), kind) for name, kind in _TYPES.items()):
        return None
    kind = row["kind"]
    if kind == "start" and row.get("client") not in RECORDED:
        return None
    if type(row.get("log_bytes", 0)) is not int or row.get("log_bytes", 0) < 0:
        return None
    if type(row.get("transaction", 0)) is not int or not isinstance(row.get("instance_id", ""), str):
        return None
    if kind not in _FIELDS or any(not isinstance(row.get(name), type_) for name, type_ in _FIELDS[kind]):
        return None
    places = (*row.get("partitions", ()), *row.get("offsets", ()))
    numbers = ("partition", *_PLACED.get(kind, ()))
    if not all(
        isinstance(place, dict)
        and isinstance(place.get("topic"), str)
        and all(isinstance(place.get(name), int) for name in numbers)
        for place in places
    ):
        return None
    return row


def service_of(
    command: str | Sequence[str],
    environment: Mapping[str, str],
    asking: Asking,
    *,
    shared: bool,
    network_faults: bool = False,
) -> Service:
    """How to start a process of a service, checked. A command that is a text is split into words as in a shell.

    `environment` has variables beside those of this process. `shared`: the broker has topics and groups of others, so
    the service must read those of the run. `network_faults`: the scenario has faults of one process's network, and the
    proxy tells processes apart by the client id, which must be the member's name.

    Raises:
        ConfigError: The command or a variable is invalid, the program isn't found, or a process isn't told where the
            broker is, on a shared one its group and topics, with faults of the network its name.
    """
    command_text = command if isinstance(command, str) else shlex.join(map(str, command))
    asked = f"{asking.command} {command_text!r}"
    try:
        words = shlex.split(command) if isinstance(command, str) else list(map(str, command))
    except ValueError as error:
        raise ConfigError(f"{asked}: {str(error).lower()}; quote its words as in a shell") from error
    if not words:
        raise ConfigError(
            f"{asked} has no words; give the command that starts one process of your service, such as "
            "'python worker.py {bootstrap} {group} {topic}'"
        )
    for name, value in environment.items():
        if not isinstance(value, str):
            raise ConfigError(f"{asked}: the variable {name!r} has the value {value!r}, which is no text; quote it")
    service, program = Service(tuple(words), dict(environment)), words[0]
    if "{" not in program and shutil.which(program, path=environment.get("PATH")) is None:
        raise ConfigError(f"{asked}: no program {program!r} is found from this folder; check its name or path")
    if not service.takes("{bootstrap}"):
        raise ConfigError(f"{asked}: its processes aren't told where the broker is; {asking.adding('{bootstrap}')}")
    needed = {"{group}": ("{group}",), "{topic}": ("{topic}", "{topics}")} if shared else {}
    for name, either in needed.items():
        if not service.takes(*either):
            raise ConfigError(f"{asked}: {asking.shared}; {asking.adding(name)}")
    if network_faults and not service.takes("{replica}"):
        raise ConfigError(
            f"{asked}: the scenario has faults of one process's network, which find it by its client_id; "
            f"{asking.adding('{replica}')}, and use it as client_id"
        )
    return service


def is_topic(name: str, partitions: int) -> bool:
    """Whether a run can make this topic: Kafka takes the name, and there are 1 to `MOST_PARTITIONS` partitions."""
    return _TOPIC.fullmatch(name) is not None and 1 <= partitions <= MOST_PARTITIONS
