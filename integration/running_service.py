"""A user's service while a test acts on it: its replicas start, stop and are killed, and records are sent to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafka_assignors.connection import Connection
from kafka_assignors.errors import ConfigError

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
from .records import Record, Sender, send
from .records.sender import Sent, numbered

ASKING = Asking(
    "kafka_service",
    "environment={'NAME': '…'}",
    "tests share a broker, where it may only read what its test makes",
)
"""How a test asks for a service."""
_PARTITIONER = "default"


def require_valid(replicas: int, topics: Mapping[str, int], group: str) -> None:
    """Check what a test asks for beside the command, before anything is made.

    Raises:
        ConfigError: There is no replica, no topic or no name of the group, or a topic can't be made.
    """
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 1:
        raise ConfigError(f"replicas={replicas!r} is no number of processes of a service; give 1 or more")
    if not topics:
        raise ConfigError(f"topics={topics!r} has no topic for the service to read; give names and partition counts")
    for name, partitions in topics.items():
        if not isinstance(partitions, int) or not is_topic(name, partitions):
            raise ConfigError(
                f"topics={{{name!r}: {partitions!r}}} is not a name and 1 to {MOST_PARTITIONS:,} partitions, such as "
                "{'orders': 6}, with letters, digits, '.', '_' or '-' in the name"
            )
    if not group.strip():
        raise ConfigError(f"group={group!r} is empty; name the group of your service")


def asked_service(command: str | Sequence[str], environment: Mapping[str, str]) -> Service:
    """The service that a test asks for. ConfigError as of `service_of`."""
    return service_of(command, environment, ASKING, shared=True)


class RunningService:
    """Replicas of a user's service, which are the members m1, m2, … of one group.

    Each method that starts, stops or kills a replica is a step of the group's history.

    Args:
        group: The group, without a member so far. It stays the caller's to close.
        service: How to start a replica.
        connection: How to reach the broker to which records are sent.
        topics: Name in the test -> name on the broker, of the topics that the service is expected to subscribe to.
        gap_ms: How long a partition may be without an owner, such as after a kill (law O4); None: the longest session
            of the replicas, and the time to join.
        timeout_s: Limit for each wait.
    """

    def __init__(
        self,
        group: MemberGroup,
        service: Service,
        connection: Connection,
        topics: Mapping[str, str],
        *,
        gap_ms: int | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> None:
        self.group, self.topics = group, dict(topics)
        self._service, self._connection = service, connection
        self._gap_ms, self._timeout_s = gap_ms, timeout_s
        self._replicas = 0  # that were ever started

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
        """Send a replica SIGTERM, and wait for its end. It is killed if it doesn't end in time.

        Raises:
            ConfigError: No replica with this number runs.
        """
        name = self._running(number)
        self._step(f"{name} gets SIGTERM")
        self.group.stop(name)

    def kill(self, number: int) -> None:
        """End a replica with SIGKILL. The coordinator notices when its session ends.

        Raises:
            ConfigError: No replica with this number runs.
        """
        name = self._running(number)
        self._step(f"{name} is killed")
        self.group.kill(name)

    def roll(self) -> None:
        """Replace each running replica in turn, as a deployment does: a new one starts, then the old one gets SIGTERM.

        Raises:
            NotStable, MemberDied: As of `wait_stable`, which follows each of both.
        """
        for number in self.running:
            self.start()
            self.wait_stable()
            self.stop(number)
            self.wait_stable()

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
            records: How many of ours, whose values are JSON objects with an id; or values; or whole records, whose
                topics are names on the broker. Ours and values go to all topics in turn; three of four have a key.

        Raises:
            ConfigError: A record is neither.
        """
        names = sorted(self.topics.values())
        if isinstance(records, int):
            chosen = [numbered(number, names) for number in range(records)]
        else:
            chosen = [_record(number, names, given) for number, given in enumerate(records)]
        return send(self._connection, self.group.folder, self.group.run, _PARTITIONER, chosen)

    def sending(self, rate_per_s: float = 100, values: Sequence[bytes] = ()) -> Sender:
        """Send in the background inside a block, ``with service.sending(): …``.

        Args:
            rate_per_s: Records per second over all topics.
            values: Of the records, in turn; empty: ours, with an id.
        """
        names = sorted(self.topics.values())
        return Sender(
            self._connection, self.group.folder, self.group.run, names, _PARTITIONER, rate_per_s, values=values
        )

    def wait_done(self) -> None:
        """Wait until the service has consumed and committed every record that its topics hold now.

        Raises:
            NotDrained: It hasn't by the deadline; the message lists what is left.
            MemberDied: A replica ended unasked.
        """
        self.group.drain(self._timeout_s, committed=True)

    def _step(self, name: str) -> None:
        gap_ms, session_ms = self._gap_ms, self.group.longest_session_ms
        if gap_ms is None:
            gap_ms = GAP_MS if session_ms is None else session_ms + JOIN_MS
        self.group.step(name, gap_ms)

    def _start(self) -> int:
        self._replicas += 1
        self.group.start(
            f"m{self._replicas}", list(self.topics.values()), [SERVICE], client=SERVICE, service=self._service
        )
        return self._replicas

    def _running(self, number: int) -> str:
        if number not in self.running:
            numbers = ", ".join(map(str, self.running)) or "none"
            raise ConfigError(f"no replica {number!r} of the service runs; running: {numbers}")
        return f"m{number}"


def _record(number: int, topics: Sequence[str], given: bytes | Record) -> Record:
    if isinstance(given, Record):
        return given
    if not isinstance(given, bytes):
        raise ConfigError(f"record {number} is {given!r}, neither bytes nor a Record; encode it")
    return numbered(number, topics, (given,))
