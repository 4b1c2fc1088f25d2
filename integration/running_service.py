"""A user's service while a test acts on it: its replicas start, stop and are killed, and records are sent to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kafka_assignors.connection import Connection
from kafka_assignors.errors import ConfigError

from .errors import HarnessError
from .members.group import MemberGroup, Stable
from .members.service import (
    GAP_MS,
    JOIN_MS,
    MOST_PARTITIONS,
    PATIENCE_S,
    SERVICE,
    Asking,
    Service,
    is_topic,
    service_of,
)
from .proxy import FaultProxy, WireTap
from .records import Record, Sender, read_back, send
from .records.own import Function, Maker, matcher
from .records.sender import Sent, numbered

ASKING = Asking(
    "kafka_service", "environment={'NAME': '…'}", "tests share a broker, where it may only read what its test makes"
)
"""How a test asks for a service."""
_PARTITIONER = "default"


def require_valid(
    replicas: int, topics: Mapping[str, int], group: str, output: Mapping[str, int] | None = None
) -> None:
    """Check what a test asks for beside the command, before anything is made.

    Raises:
        ConfigError: There is no replica, no topic or no name of the group, a topic can't be made, or there is more than
            one output, or one that the service reads.
    """
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 1:
        raise ConfigError(f"replicas={replicas!r} is no number of processes of a service; give 1 or more")
    if not topics:
        raise ConfigError(f"topics={topics!r} has no topic for the service to read; give names and partition counts")
    output = output or {}
    if len(output) > 1 or output.keys() & topics.keys():
        raise ConfigError(f"output={dict(output)!r} is not one topic beside those that the service reads")
    for name, partitions in (*topics.items(), *output.items()):
        if not isinstance(partitions, int) or not is_topic(name, partitions):
            raise ConfigError(
                f"{'output' if name in output else 'topics'}={{{name!r}: {partitions!r}}} is not a name and 1 to "
                f"{MOST_PARTITIONS:,} partitions, such as {{'orders': 6}}, with letters, digits, '.', '_' or '-' in "
                "the name"
            )
    if not group.strip():
        raise ConfigError(f"group={group!r} is empty; name the group of your service")


def asked_service(
    command: str | Sequence[str],
    environment: Mapping[str, str],
    *,
    output: bool = False,
    exactly_once: bool = False,
    match: Function | None = None,
    network_faults: bool = False,
) -> Service:
    """The service that a test asks for.

    Raises:
        ConfigError: As of `service_of`; its outputs are judged and it isn't told their topic, or it promises something
            of outputs that aren't judged. The function that matches outputs isn't found, or there are none.
    """
    service = service_of(command, environment, ASKING, shared=True, network_faults=network_faults)
    if exactly_once and not output:
        raise ConfigError("exactly_once=True needs output={'NAME': PARTITIONS}, the topic of the outputs")
    if match is not None and not output:
        raise ConfigError(f"match={match!r} needs output={{'NAME': PARTITIONS}}, the topic of the outputs")
    if output and not service.takes("{output}"):
        raise ConfigError(
            f"{ASKING.command} {command!r}: tests share a broker, where it may only write what its test makes; "
            f"{ASKING.adding('{output}')}"
        )
    matched = None if match is None else matcher("match", match)
    return replace(service, exactly_once=exactly_once, match=matched)


class RunningService:
    """Replicas of a user's service, which are the members m1, m2, … of one group.

    Each method that starts, stops or kills a replica is a step of the group's history. Those that take a replica's
    number raise ConfigError if none with this number runs.

    Args:
        group: The group, without a member so far. It stays the caller's to close.
        service: How to start a replica.
        connection: How to reach the broker to which records are sent.
        topics: Name in the test -> name on the broker, of the topics that the service is expected to subscribe to.
        output: Name on the broker of the topic that it writes to; None: outputs are not judged.
        dated: Whether the broker dates the outputs, by this machine's clock.
        records: Makes each record that is sent by number or in the background; None: they are ours.
        via: Proxy that its replicas' connections pass, for network faults. They have their names as client ids.
        tap: What the connections of the replicas pass; the caller closes it after the group.
        gap_ms: How long a partition may be without an owner, such as after a kill (law O4); None: the longest session
            of the replicas, and the time to join.
        timeout_s: Limit for each wait.
    """

    def __init__(  # what a service is; the optional parts are given by name
        self,
        group: MemberGroup,
        service: Service,
        connection: Connection,
        topics: Mapping[str, str],
        *,
        output: str | None = None,
        dated: bool = False,
        records: Maker | None = None,
        via: FaultProxy | None = None,
        tap: WireTap | None = None,
        gap_ms: int | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> None:
        self.group, self.topics = group, dict(topics)
        self._service, self._connection = service, connection
        self._output, self._dated, self._via, self._tap = output, dated, via, tap
        self._values: Maker | tuple[bytes, ...] = records or ()
        self._gap_ms, self._timeout_s = gap_ms, timeout_s
        self._replicas = 0  # that were ever started
        self._senders: list[str] = []

    @property
    def running(self) -> tuple[int, ...]:
        """Numbers of the replicas that were started and neither stopped nor killed."""
        return tuple(sorted(int(name[1:]) for name in self.group.running))

    def begin(self, replicas: int) -> Stable:
        """Start the first replicas at the same time, and wait until the group is stable.

        Raises:
            ConfigError: The program can't be started.
            NotStable, MemberDied: As of `wait_stable`.
        """
        self._step(f"{replicas} start")
        for _ in range(replicas):
            self._start()
        return self.wait_stable()

    def start(self) -> int:
        """Start another replica, and return its number at once."""
        self._step(f"m{self._replicas + 1} starts")
        return self._start()

    def stop(self, number: int) -> None:
        """Send a replica SIGTERM, and wait for its end. It is killed if it doesn't end in time."""
        name = self._running(number)
        self._step(f"{name} gets SIGTERM")
        self.group.stop(name)

    def kill(self, number: int) -> None:
        """End a replica with SIGKILL. The coordinator notices when its session ends."""
        name = self._running(number)
        self._step(f"{name} is killed")
        self.group.kill(name)

    def pause(self, number: int) -> None:
        """Freeze a replica (SIGSTOP). Its group evicts it when its session ends. ConfigError if it is paused."""
        name = self._running(number)
        self._step(f"{name} is paused")
        self.group.pause(name)

    def resume(self, number: int) -> None:
        """Let a paused replica continue (SIGCONT). ConfigError if it is not paused."""
        name = self._running(number)
        self._step(f"{name} resumes")
        self.group.resume(name)

    def roll(self, surge: int = 1, grace_s: float | None = None) -> tuple[int, ...]:
        """Replace all running replicas, as a deployment does, and wait until the group is stable after each step.

        Args:
            surge: How many new ones start before as many old ones get SIGTERM; 0: an old one ends first.
            grace_s: Seconds from SIGTERM to SIGKILL. None: as of `stop`, after which the verdict is unknown.

        Returns:
            Numbers of the old ones that outlasted the grace and were killed.

        Raises:
            ConfigError: `surge` or `grace_s` is no such number.
            NotStable, MemberDied: As of `wait_stable`.
        """
        old = self.running
        if not isinstance(surge, int) or isinstance(surge, bool) or not 0 <= surge <= len(old):
            raise ConfigError(
                f"surge={surge!r} is no number of new replicas for {len(old)} old ones; give 0 to {len(old)}"
            )
        _require_time(grace_s)
        killed: list[int] = []
        for at in range(0, len(old), max(surge, 1)):
            batch = old[at : at + max(surge, 1)]
            if surge:
                self._start_all(batch)
                self.wait_stable()
            killed += self._end(batch, grace_s)
            if not surge:
                self._start_all(batch)
            self.wait_stable()
        return tuple(killed)

    def scale(self, replicas: int, grace_s: float | None = None) -> tuple[int, ...]:
        """Start or end replicas, one at a time, until so many run. The last one to start ends first.

        Args:
            replicas: How many shall run.
            grace_s: As of `roll`.

        Returns:
            As of `roll`.

        Raises:
            ConfigError: One of the two is no such number.
            NotStable, MemberDied: As of `wait_stable`, which follows each.
        """
        if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 1:
            raise ConfigError(f"scale({replicas!r}) is no number of replicas; give 1 or more")
        _require_time(grace_s)
        killed: list[int] = []
        while len(self.running) < replicas:
            self.start()
            self.wait_stable()
        while len(self.running) > replicas:
            killed += self._end(self.running[-1:], grace_s)
            self.wait_stable()
        return tuple(killed)

    def wait_stable(self) -> Stable:
        """Wait until the group is stable: all running replicas are in it, and each partition has an owner.

        Raises:
            NotStable: It isn't by the deadline; the message has what is due.
            MemberDied: A replica ended unasked.
        """
        return self.group.wait_stable(timeout_s=self._timeout_s)

    def send(self, records: int | Iterable[bytes | Record]) -> Sent:
        """Send records, and wait until the broker has answered for each.

        Args:
            records: How many of ours, whose values are JSON objects with an id, or of those that the test's function
                makes; or values; or whole records (`Record(topic, key, value=…)` of
                `kafka_assignors.integration.records`), whose topics are names on the broker. All but whole records go
                to all topics in turn; three of four have a key.

        Raises:
            ConfigError: A record is neither.
        """
        names = sorted(self.topics.values())
        if isinstance(records, int):
            chosen = [numbered(number, names, self._values) for number in range(records)]
        else:
            chosen = [_record(number, names, given) for number, given in enumerate(records)]
            self._require_ours(any(record.value is not None for record in chosen))
        sent = send(self._connection, self.group.folder, self.group.run, _PARTITIONER, chosen)
        self._senders.append(sent.sender)
        return sent

    def sending(self, rate_per_s: float = 100, values: Sequence[bytes] = ()) -> Sender:
        """Send in the background inside a block, ``with service.sending(): …``.

        Args:
            rate_per_s: Records per second over all topics.
            values: Of the records, in turn; empty: ours, with an id, or those that the test's function makes.
        """
        names = sorted(self.topics.values())
        self._require_ours(bool(values))
        sender = Sender(
            self._connection,
            self.group.folder,
            self.group.run,
            names,
            _PARTITIONER,
            rate_per_s,
            values=values or self._values,
        )
        self._senders.append(sender.id)
        return sender

    def wait_done(self) -> None:
        """Wait until the service has consumed and committed every record that its topics hold now.

        A commit that a rebalance refused must be repeated by the service, with later records or without.

        Raises:
            NotDrained: It hasn't by the deadline; the message lists what is left.
            MemberDied: A replica ended unasked.
        """
        self.group.drain(self._timeout_s, committed=True)

    def finish(self) -> None:
        """Let the service consume what its topics hold. If its outputs are judged, end it and read them back.

        Raises:
            NotDrained, MemberDied: As of `wait_done`.
        """
        if self.group.running:
            self.group.drain(self._timeout_s, committed=self._output is not None)
        if self._output is None:
            return
        self.group.end_members()  # what its replicas have not sent yet, they send before they end
        try:
            read_back(
                self._connection, self.group.folder, self.group.run, [self._output],
                committed=True, timeout_s=self._timeout_s, senders=self._senders, match=self._service.match,
                dated=self._dated,
            )  # fmt: skip
        except HarnessError as error:  # the verdict isn't true
            self.group.write("error", error=type(error).__name__, fatal=True, message=str(error))

    def _require_ours(self, others: bool) -> None:
        if others and self._output is not None:
            raise ConfigError(
                "values of your own have no id, which is looked for in the outputs; send a number of records, or make "
                "the service without output"
            )

    def _step(self, name: str) -> None:
        gap_ms, session_ms = self._gap_ms, self.group.longest_session_ms
        if gap_ms is None:
            gap_ms = GAP_MS if session_ms is None else session_ms + JOIN_MS
        self.group.step(name, gap_ms, beside_work=self._gap_ms is None)

    def _start_all(self, instead: Sequence[int]) -> None:
        """Start as many new replicas."""
        numbers = range(self._replicas + 1, self._replicas + 1 + len(instead))
        self._step(f"{', '.join(f'm{number}' for number in numbers)} start{'s' if len(instead) == 1 else ''}")
        for _ in instead:
            self._start()

    def _end(self, numbers: Sequence[int], grace_s: float | None) -> list[int]:
        """Send replicas SIGTERM, and wait for their ends; the numbers of those that outlasted the grace."""
        names = [self._running(number) for number in numbers]
        self._step(f"{', '.join(names)} get{'s' if len(names) == 1 else ''} SIGTERM")
        if grace_s is None:
            for name in names:
                self.group.stop(name)
            return []
        killed = self.group.end(*names, grace_s=grace_s, on_kill=lambda name: self._step(f"{name} is killed"))
        return [int(name[1:]) for name in killed]

    def _start(self) -> int:
        self._replicas += 1
        self.group.start(
            f"m{self._replicas}", list(self.topics.values()), [SERVICE],
            client=SERVICE, service=self._service, output=self._output, via=self._via, tap=self._tap,
        )  # fmt: skip
        return self._replicas

    def _running(self, number: int) -> str:
        if number not in self.running:
            numbers = ", ".join(map(str, self.running)) or "none"
            raise ConfigError(f"no replica {number!r} of the service runs; running: {numbers}")
        return f"m{number}"


def _require_time(grace_s: float | None) -> None:
    if grace_s is not None and not 0 < grace_s < math.inf:
        raise ConfigError(f"grace_s={grace_s!r} is no time from SIGTERM to SIGKILL; give seconds above 0, or None")


def _record(number: int, topics: Sequence[str], given: bytes | Record) -> Record:
    if isinstance(given, Record):
        return given
    if not isinstance(given, bytes):
        raise ConfigError(f"record {number} is {given!r}, neither bytes nor a Record; encode it")
    return numbered(number, topics, (given,))
