"""The file of a process, and the events of its consumers: the same for every client."""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import operator
import os
import sys
import threading
import time
import weakref

TYPE_CHECKING = False  # typing's own would be imported in every process of a service
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MEMBER = "_kafka_assignors_member"
"""The attribute that holds the `RecordedMember` of a client's object."""
SETTINGS = ("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms")
"""What a ``start`` tells of the client's configuration, by kafka-python's names."""
_FLUSH_NS = 20_000_000
"""Records that are handed out quickly one by one are written together: those of at most about this time."""
_APART_NS = 1_000_000
"""Records that come at least so far apart are written one by one: a kill takes what is not written."""
_STEP = 64
"""Their rate is checked after at most this many records; slow ones are written one by one."""
_CHUNK = 256
"""So many that wait become runs: with fewer a run takes longer per record, more leave no room in the cache."""
_PARTITION = operator.attrgetter("topic", "partition")
_TOPIC, _NUMBER = operator.attrgetter("topic"), operator.attrgetter("partition")
_SIZES = operator.attrgetter("serialized_key_size"), operator.attrgetter("serialized_value_size")


def say(text: str) -> None:
    """Tell the service's operator; a process may have no standard error."""
    with contextlib.suppress(Exception):
        sys.stderr.write(f"kafka-assignors: {text}\n")


def _plain(value: Any) -> Any:
    """Convert a value that json cannot write: an offset may be an integer of NumPy's."""
    try:
        return operator.index(value)
    except TypeError:
        return str(value)


_encode = json.JSONEncoder(separators=(",", ":"), default=_plain).encode


class File:
    """The file of one process. A forked process gets its own file, because both would write to one."""

    def __init__(self, prefix: str, log: str | None = None) -> None:
        self._prefix, self._log, self._pid, self._fd = prefix, log, 0, -1
        self._place: Any = None  # device and inode
        self._torn = False
        self._numbers, self._transactions = itertools.count(), itertools.count(1)
        self._members: Any = weakref.WeakSet()
        self.aborted = False  # whether the last transaction of a producer that ended was
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        """Make a new lock: at a fork, a thread that the child lacks may hold the old one."""
        self.lock = threading.RLock()

    def add(self, member: RecordedMember) -> int:
        """The number of a new consumer."""
        with self.lock:
            self._members.add(member)
        return next(self._numbers)

    def transaction(self) -> int:
        """The number of the next transaction."""
        return next(self._transactions)

    def member(self, member_id: str) -> RecordedMember | None:
        """The member of this process with an id, or the last one that has joined; None without one."""
        with self.lock:
            members = list(self._members)
        joined = sorted((member for member in members if member.has_joined_here), key=lambda its: its.number)
        return next((member for member in joined if member.id == member_id), joined[-1] if joined else None)

    def log_bytes(self) -> int | None:
        """How long the log of the process is; None if there is none that it sees, such as from a container."""
        try:
            return os.stat(self._log).st_size if self._log else None  # noqa: PTH116 - pathlib takes a while to import
        except OSError:
            return None

    def write(self, row: Any) -> None:
        """Write one line."""
        self._open()
        # A line that the disk took a part of is ended, so that it damages no other one.
        line = b"\n" * self._torn + _encode(row).encode() + b"\n"
        while line:
            self._torn = True
            line = line[os.write(self._fd, line) :]
        self._torn = False

    def _open(self) -> None:
        pid = os.getpid()
        if pid == self._pid:
            try:  # a daemon closes what it finds open, and its own files take the numbers
                status = os.fstat(self._fd)
                if (status.st_dev, status.st_ino) == self._place:
                    return
            except OSError:
                pass
        self._fd = os.open(f"{self._prefix}.{pid}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        status = os.fstat(self._fd)
        self._pid, self._place = pid, (status.st_dev, status.st_ino)


class RecordedMember:
    """What a consumer in the group does, as events.

    `read_id` returns the member id, "" without one; it must not keep the client's objects alive. `runs` makes the runs
    of pending records, as `runs_of` does. `number` is the consumer's in its process.
    """

    def __init__(
        self, file: File, client: str, read_id: Callable[[], str], runs: Callable[[Any], Any] | None = None
    ) -> None:
        self._file, self._client, self._read_id, self._runs = file, client, read_id, runs or runs_of
        self.number, self._pid = file.add(self), os.getpid()
        self._home = self._pid
        self.generation, self._member_id, self._instance_id = -1, "", ""  # the generation that was adopted last
        self._started = self._failed = False
        self._given_up: set[Any] = set()
        self._accepted: dict[Any, Any] = {}  # (topic, partition) -> offset, since it was assigned
        self.pending: Any = []  # records that were handed out one by one and are not written yet
        self._condensed: list[dict[str, Any]] = []
        self._last_runs: dict[Any, dict[str, Any]] = {}
        self.limit = self._step = 1  # at so many pending records `check` is called
        self._checked_ns = self._flushed_ns = 0

    @property
    def id(self) -> str:
        """Its member id, or its last one; "" before it had one."""
        self._member_id = self._read_id() or self._member_id
        return self._member_id

    @property
    def has_joined_here(self) -> bool:
        """Whether it subscribed in this process, which may be a fork of the member's."""
        return self._started and self._home == os.getpid()

    def guarded(self, step: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        """Do a step of the recorder, and return its answer. If it fails (None), the recorder stops, not the service."""
        try:
            return None if self._failed else step(*given, **named)
        except Exception as error:
            self.fail(error)
        return None

    def fail(self, error: Any) -> None:
        """Say that recording ended here: what comes later is not in the file. Never raises."""
        text = "the recorder stopped"
        try:
            with self._file.lock:
                if self._failed:
                    return
                self._failed = True
                self.pending = collections.deque(maxlen=0)  # takes nothing
                text = f"{text}: {type(error).__name__}: {error}"
                self._write("error", {"error": type(error).__name__, "fatal": False, "message": text})
        except Exception:
            say(text)

    def tell(self, kind: str, /, **fields: Any) -> None:
        """Write the records that were handed out, then this event. A consumer that never joins has no events."""
        if self._started:
            with self._file.lock:
                self.flush()
                self._write(kind, fields)

    def start(
        self, topics: Any, assignors: Any, given: Any, settings: Any, instance_id: Any = None, **more: Any
    ) -> None:
        """Tell the subscription and settings once, before the first join.

        `topics` are names, none with a pattern; `assignors` protocol names, `given` the same as ``CLIENT:NAME``; of
        `settings`, the client's configuration, `SETTINGS` are told, and the fields in `more`.
        """
        if self._started:
            return
        self._started, self._instance_id = True, str(instance_id or "")
        config = {name: settings[name] for name in SETTINGS if name in settings}
        names = [str(name) for name in assignors]
        config = {"assignors": list(given), **config, **more}
        self.tell("start", client=self._client, topics=sorted(topics), assignors=names, config=config)

    def join(self, generation: Any, protocol: Any, partitions: Any) -> None:
        """The member adopts the assignment of a generation."""
        self.generation = generation
        self.tell("generation", generation=generation, protocol=protocol, partitions=_rows(partitions))

    def callback(self, name: str, edge: str, partitions: Any) -> None:
        """A rebalance callback begins or ends, or would if the service had set one."""
        places = {(tp[0], tp[1]) for tp in partitions}
        self._given_up = self._given_up - places if name == "assigned" else self._given_up | places
        if name == "assigned":  # meanwhile another member may have committed
            self._accepted = {place: at for place, at in self._accepted.items() if place not in places}
        self.tell(f"{name}_{edge}", generation=self.generation, partitions=_rows(partitions))

    def kept(self, partitions: Any) -> set[Any]:
        """Those that it has not given up since they were assigned: a client lists them until its next assignment."""
        return {tp for tp in partitions if (tp[0], tp[1]) not in self._given_up}

    def commit(self, edge: str, offsets: Any, **more: Any) -> None:
        """A commit begins, is accepted or is refused (`edge`: ``begin``, ``ok``, ``fail``).

        `offsets` are (topic, partition, offset). `more`: why it is refused (``error``), the number of its
        ``transaction``, and whether what is committed was chosen ``by_client``.
        """
        if edge == "ok":
            self._accepted.update(((topic, number), offset) for topic, number, offset in offsets)
        self.tell(f"commit_{edge}", offsets=_places(offsets), **more)

    def seek(self, topic: Any, number: Any, offset: Any) -> None:
        """The service has sought: after an aborted transaction it goes back to the committed offset.

        Elsewhere than there it goes for another reason. Where nothing was accepted since the partition was assigned,
        the committed offset is not known here.
        """
        if self._file.aborted and self._accepted.get((topic, number), offset) == offset:
            self.tell("rewound", offsets=_places([(topic, number, offset)]))

    def hand_out(self, batches: Any) -> None:
        """The service gets what a poll returns: records, by partition."""
        self.tell("consume", offsets=[run for records in batches for run in _runs(records)])

    def check(self) -> None:
        """Write the pending records, which reached the limit, if they come slowly or have waited."""
        now_ns = time.monotonic_ns()
        elapsed_ns, self._checked_ns = now_ns - self._checked_ns, now_ns
        is_slow = elapsed_ns > self._step * _APART_NS
        self._step = 1 if is_slow else min(_STEP, 2 * self._step)
        if is_slow or now_ns - self._flushed_ns > _FLUSH_NS:
            self.flush()
        elif len(self.pending) >= _CHUNK:
            with self._file.lock:
                self._condense()
        self.limit = len(self.pending) + self._step

    def flush(self) -> None:
        """Write the records that were handed out one by one."""
        if not self.pending and not self._condensed:
            return
        with self._file.lock:
            self._condense()
            runs, self._condensed, self._last_runs = self._condensed, [], {}
            self._flushed_ns = time.monotonic_ns()
            if self._flushed_ns - self._checked_ns > self._step * _APART_NS:
                self._step = 1  # fewer came than were waited for
            self.limit = self._step
            if self._pid != (pid := os.getpid()):  # those of the parent, which writes them itself
                self._pid = pid
            elif runs and self._started:
                self._write("consume", {"offsets": runs})

    def _condense(self) -> None:
        """Keep runs in place of records, which would leave no room in the processor's cache for the service."""
        records = self.pending[:]
        del self.pending[: len(records)]  # in place: the thread that reads may add to it now
        for run in self._runs(records):
            place = run["topic"], run["partition"]
            before = self._last_runs.get(place)
            if before is not None and before["last"] + 1 == run["first"]:
                before["last"] = run["last"]
                before["count"] += run["count"]
                before["bytes"] += run["bytes"]
            else:
                self._last_runs[place] = run
                self._condensed.append(run)

    def _write(self, kind: str, fields: Any) -> None:
        member_id = self.id  # the old one, for the events of the loss of a membership
        row = {
            "kind": kind, "mono_ns": time.monotonic_ns(), "ts_ns": time.time_ns(), "pid": os.getpid(),
            "consumer": self.number, **fields,
        }  # fmt: skip
        if member_id:
            row["member_id"] = member_id
        if self._instance_id:
            row["instance_id"] = self._instance_id
        if (log_bytes := self._file.log_bytes()) is not None:
            row["log_bytes"] = log_bytes
        self._file.write(row)


def _rows(partitions: Any) -> list[dict[str, Any]]:
    return [{"topic": tp[0], "partition": tp[1]} for tp in sorted(partitions)]


def _places(offsets: Any) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": number, "offset": offset} for topic, number, offset in sorted(offsets)]


def by_partition(records: Any) -> list[list[Any]]:
    """The records of each partition, in their order."""
    if not records:
        return []
    count, topics, numbers = len(records), list(map(_TOPIC, records)), list(map(_NUMBER, records))
    if topics.count(topics[0]) == count and numbers.count(numbers[0]) == count:
        return [records]
    parts: dict[Any, list[Any]] = {}
    for record in records:
        parts.setdefault(_PARTITION(record), []).append(record)
    return list(parts.values())


def runs_of(records: Any) -> list[dict[str, Any]]:
    """Contiguous runs of records of any partitions."""
    return [run for part in by_partition(records) for run in _runs(part)]


def _runs(records: Any) -> Iterator[dict[str, Any]]:
    """Contiguous runs of one partition's records, whose offsets ascend; most often there is one run."""
    if not records:
        return
    first, last = records[0].offset, records[-1].offset
    if last - first + 1 == len(records):
        yield _run(records)
        return
    # Offsets of markers and of compacted records are missing.
    numbered = enumerate(records)
    for _, part in itertools.groupby(numbered, lambda pair: pair[1].offset - pair[0]):
        yield _run([record for _, record in part])


def _run(records: Any) -> dict[str, Any]:
    count = 0
    for size in _SIZES:
        sizes = list(map(size, records))
        count += sum(sizes) + sizes.count(-1)  # -1: without a key, or without a value
    topic, partition = _PARTITION(records[0])
    first, last = records[0].offset, records[-1].offset
    return {
        "topic": topic, "partition": partition, "first": first, "last": last, "count": len(records), "bytes": count,
    }  # fmt: skip
