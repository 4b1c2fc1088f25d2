"""Reads what members recorded (`kafka_assignors.record`): from folders, files, and topics of a cluster.

Nothing here joins a group or commits. kafka-python's errors pass through. Permission: Read on the topic.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from .connection import Connection, Right, needing
from .errors import AccessRefused, ClusterError, ConfigError, NoSuchGroup
from .history.events import TOPIC, Event
from .history.events.checked import checked_event
from .history.events.lines import MOST_FILES, Allowance, Unreadable, lines, opened
from .history.recorded import Recordings, recordings
from .output import many

MOST_READ = 1_000_000
"""Offsets of each partition of a topic that are read, the last ones."""
_SILENT_S = 15


class RecordingsTail:
    """Reads the events at some places, and at each later call those that came since.

    Args:
        places: Folders, whose ``*.jsonl`` are read, files, and ``topic:NAME``.
        connection: Asked only if one is a topic.
        note: Called with a sentence on what is left out.

    Raises:
        ConfigError: There is no such folder or file, or it can't be read; see `read`.
        AccessRefused: The user may not read the topic.
        ClusterError: The cluster has no such topic, or doesn't respond.
    """

    def __init__(
        self, places: Sequence[str], connection: Callable[[], Connection], note: Callable[[str], None]
    ) -> None:
        self._note = note
        self._places: list[_RecordedFiles | _RecordedTopic] = []
        try:
            for place in places:
                is_topic = place.startswith(TOPIC)
                name = place.removeprefix(TOPIC)
                self._places.append(_RecordedTopic(name, connection()) if is_topic else _RecordedFiles(Path(place)))
        except BaseException:
            self.close()
            raise

    def read(self, failed: Callable[[Exception], None] | None = None) -> list[Event]:
        """The events since the last call. A last line that is not whole yet, or never will be, is left out.

        Args:
            failed: Called with why a file or a topic can't be read now, instead of an exception; all others are read.

        Raises:
            ConfigError: A file is none (a pipe, a device), or has more bytes, or a longer line, than are read.
            ClusterError: A topic's leaders stop responding.
        """
        events, unread = [], 0
        for place in self._places:
            for line in place.read(failed):
                try:
                    events.append(checked_event(line))
                except ValueError:
                    unread += 1
        if unread:
            self._note(f"{many(unread, 'line')} left out: torn, or no events of this version")
        return events

    def close(self) -> None:
        """Close the connections."""
        for place in self._places:
            place.close()


def read_group(
    group: str, places: Sequence[str], connection: Callable[[], Connection], note: Callable[[str], None]
) -> Recordings:
    """What the recordings at some places tell of a group. The arguments beside its id are those of `RecordingsTail`.

    Raises:
        ConfigError: There is no such folder or file.
        NoSuchGroup: They have no event of the group; the message names those that they have.
        AccessRefused: The user may not read the topic.
        ClusterError: The cluster has no such topic, or stops responding.
    """
    with closing(RecordingsTail(places, connection, note)) as tail:
        events = tail.read()
    of_group = recordings(events, group)
    if not of_group.generations:
        groups = groups_in(events)
        others = f"it has {', '.join(sorted(groups))}" if groups else "it has no group"
        raise NoSuchGroup(f"no generation of group {group!r} is recorded in {', '.join(places)}; {others}")
    return of_group


def groups_in(events: Iterable[Event]) -> set[str]:
    """The groups of which a generation is recorded."""
    return {event.group for event in events if event.group and event.kind == "generation"}


class _RecordedFiles:
    """A file, or those of a folder. One that is renamed, as a full one is, goes on where it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets: dict[tuple[int, int], int] = {}  # device and inode -> how far it is read
        if not self._files() and path.is_dir():
            raise ConfigError(f"--from {path}: the folder has no *.jsonl; record(consumer, to=…) writes them")

    def _files(self) -> list[Path]:
        if not self._path.exists():
            raise ConfigError(f"--from {self._path}: no such folder or file; a topic is given as topic:NAME")
        if not self._path.is_dir():
            return [self._path]
        files = list(islice(self._path.glob("*.jsonl"), MOST_FILES + 1))
        if len(files) > MOST_FILES:
            raise ConfigError(f"--from {self._path}: the folder has more than {MOST_FILES:,} files; name fewer of them")
        return sorted(files)

    def read(self, failed: Callable[[Exception], None] | None = None) -> Iterator[bytes]:
        allowance, before = Allowance(), self._offsets
        try:
            paths = self._files()
        except ConfigError as error:
            if failed is None:
                raise
            failed(error)
            return
        self._offsets = {}  # of files that are there: a new one may get the number of one that is gone
        for path in paths:
            try:
                with opened(path) as file:
                    yield from self._read(file, before, allowance)
            except FileNotFoundError:
                continue  # a full one has another name since, and is read then
            except Unreadable as error:
                reason = ConfigError(f"--from {path}: {error}")
                if failed is None:
                    raise reason from error
                failed(reason)

    def _read(self, file: BinaryIO, before: Mapping[tuple[int, int], int], allowance: Allowance) -> Iterator[bytes]:
        status = os.fstat(file.fileno())
        key = status.st_dev, status.st_ino
        offset = self._offsets.get(key, before.get(key, 0))
        self._offsets[key] = offset = offset if offset <= status.st_size else 0  # a shorter one is another one
        file.seek(offset)
        for line in lines(file, allowance):
            if not line.endswith(b"\n"):
                break  # its rest is not written yet
            self._offsets[key] += len(line)
            if line != b"\n":
                yield line[:-1]

    def close(self) -> None:
        """Nothing is open between two calls."""


class _RecordedTopic:
    """All partitions of a topic; at first their last `MOST_READ` offsets. It joins no group."""

    def __init__(self, topic: str, connection: Connection) -> None:
        from kafka import KafkaConsumer
        from kafka import TopicPartition as KafkaTopicPartition

        self._topic, self._connection = topic, connection
        self._partitions = [KafkaTopicPartition(topic, number) for number in _partitions(topic, connection)]
        self._consumer = KafkaConsumer(
            **connection.kafka_python(), group_id=None, enable_auto_commit=False, auto_offset_reset="earliest",
            allow_auto_create_topics=False, metrics_enabled=False, fetch_max_wait_ms=100,
        )  # fmt: skip
        self._consumer.assign(self._partitions)
        self._begun = False

    def read(self, failed: Callable[[Exception], None] | None = None) -> Iterator[bytes]:
        from kafka.errors import KafkaError

        try:
            yield from self._read()
        except (AccessRefused, ClusterError, KafkaError, OSError) as error:
            if failed is None:
                raise
            failed(error)

    def _read(self) -> Iterator[bytes]:
        with needing(self._connection, Right("Read", "Topic", self._topic)):
            consumer, partitions = self._consumer, self._partitions
            ends = consumer.end_offsets(partitions)
            if not self._begun:
                self._begun = True
                for tp, begin in consumer.beginning_offsets(partitions).items():
                    consumer.seek(tp, max(begin, ends[tp] - MOST_READ))
            deadline = time.monotonic() + _SILENT_S
            while any(consumer.position(tp) < ends[tp] for tp in partitions):
                batches = consumer.poll(timeout_ms=500)
                for record in (record for records in batches.values() for record in records):
                    yield from filter(None, (record.value or b"").split(b"\n"))
                if batches:
                    deadline = time.monotonic() + _SILENT_S
                elif time.monotonic() > deadline:
                    raise ClusterError(
                        f"no record of topic {self._topic!r} came for {_SILENT_S} s; are the leaders up?"
                    )

    def close(self) -> None:
        self._consumer.close()


def _partitions(topic: str, connection: Connection) -> list[int]:
    """The partitions of a topic, asked for in a way that never creates it."""
    from kafka.admin import KafkaAdminClient
    from kafka.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError

    with (
        needing(connection, Right("Describe", "Topic", topic)),
        closing(KafkaAdminClient(**connection.kafka_python())) as admin,
    ):
        try:
            (described,) = admin.describe_topics([topic])
        except UnknownTopicOrPartitionError:
            described = {"error_code": UnknownTopicOrPartitionError.errno}
        if described["error_code"] == TopicAuthorizationFailedError.errno:
            raise TopicAuthorizationFailedError(topic)
    if described["error_code"]:
        raise ClusterError(f"{connection} has no topic {topic!r}")
    return sorted(int(partition["partition_index"]) for partition in described["partitions"])
