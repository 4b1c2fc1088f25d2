"""What members that write their own history share: where their events go, and how they tell what happens to them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from kafka_assignors.history.events import partitions_json

from ..config import MemberConfig
from ..control import Control

TICK_S = 0.02
CLOSE_MS = 5000
"""Limit for a member to leave its group."""


class Writing(Protocol):
    """Receives a member's events, e.g. an `EventWriter`."""

    def write(self, kind: str, **data: Any) -> object:
        """Take one event."""


@dataclass
class Commit:
    """A commit of this member, and what the client said of it."""

    refused: bool = False


class ReportingMember(ABC):
    """A member that writes its own events. A subclass owns the client. It leaves `writer` open."""

    def __init__(self, config: MemberConfig, writer: Writing, control: Control) -> None:
        self._config, self._writer, self._control = config, writer, control
        self._generation, self._member_id = -1, ""
        self._lock = threading.Lock()  # a client may call back on its own thread

    @abstractmethod
    def client_member_id(self) -> str:
        """The member id as the client has it now; empty without membership."""

    def write(self, kind: str, **data: Any) -> None:
        """Write an event under this member's id."""
        # The id is empty after the membership is lost, but the events of that loss belong to the old id.
        self._member_id = self.client_member_id() or self._member_id
        with self._lock:
            self._writer.write(kind, member_id=self._member_id or None, **data)

    def adopted(self, generation: int, protocol: str, partitions: Collection[tuple[str, int]]) -> None:
        """The client has adopted the assignment of a generation. Callbacks that report changes come later."""
        self._generation = generation
        self.write("generation", generation=generation, protocol=protocol, partitions=partitions_json(partitions))

    @contextmanager
    def called_back(self, name: str, partitions: Iterable[tuple[str, int]]) -> Iterator[None]:
        """Tell a rebalance callback: ``revoke``, ``assigned`` or ``lost``, before and after what is done in it."""
        rows = partitions_json(partitions)
        self.write(f"{name}_begin", generation=self._generation, partitions=rows)
        yield
        self.write(f"{name}_end", generation=self._generation, partitions=rows)

    def consumed(self, polled: Mapping[Any, Sequence[Any]]) -> None:
        """Report records of kafka-python or aiokafka, per topic-partition."""
        self.tell_records(
            "consume",
            {tp: [(record.offset, record_size(record)) for record in records] for tp, records in polled.items()},
        )

    def tell_records(self, kind: str, read: Mapping[tuple[str, int], Iterable[tuple[int, int]]]) -> None:
        """Report records, (offset, bytes) each, per topic-partition."""
        self.write(kind, offsets=[run for tp, offsets in read.items() for run in runs(tp, offsets)])

    @contextmanager
    def committing(self, ends: Mapping[Any, int], *refusals: type[Exception]) -> Iterator[Commit]:
        """Tell a commit of these ends per topic-partition, and how it ended.

        A refusal is told and not raised: the generation is over, or the broker is slow, and the next owner reads these
        records again.
        """
        rows, commit = offset_rows(ends), Commit()
        self.write("commit_begin", offsets=rows)
        try:
            yield commit
        except refusals as error:
            commit.refused = True
            self.write("commit_fail", offsets=rows, error=f"{type(error).__name__}: {error}")
        else:
            self.write("commit_ok", offsets=rows)

    def settings(self, assignors: Sequence[Any]) -> dict[str, Any]:
        """What kafka-python and aiokafka take alike, beside the connection."""
        config = self._config
        return {
            "client_id": config.member,
            "group_id": config.group,
            "group_instance_id": config.instance_id,
            "session_timeout_ms": config.session_timeout_ms,
            "heartbeat_interval_ms": config.heartbeat_interval_ms,
            "partition_assignment_strategy": assignors,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "retry_backoff_ms": 50,
            "fetch_max_wait_ms": 200,
        }

    def stand_still(self, fault: str, told_to_go_on: Callable[[float], bool], ends: Callable[[], bool]) -> None:
        """Wait until the member is told to go on, or ends."""
        with self.standing_still(fault):
            while not told_to_go_on(TICK_S) and not ends():
                pass
            self._control.go()

    @contextmanager
    def standing_still(self, fault: str) -> Iterator[None]:
        """Tell a fault that the harness asked this member for, before and after it."""
        named = {"fault": fault, "target": self._config.member}
        self.write("fault_begin", **named)
        yield
        self.write("fault_end", **named)


def offset_rows(ends: Mapping[Any, int]) -> list[dict[str, Any]]:
    """Offsets per topic-partition as events have them, in order."""
    return [{"topic": tp[0], "partition": tp[1], "offset": end} for tp, end in sorted(ends.items())]


def runs(tp: tuple[str, int], read: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    """Join records of one partition, (offset, bytes) each, into runs of contiguous offsets for ``consume`` events.

    A gap ends a run, so that a lost record shows.
    """
    ranges: list[dict[str, Any]] = []
    for offset, size in read:
        if ranges and offset == ranges[-1]["last"] + 1:
            ranges[-1]["last"] = offset
            ranges[-1]["count"] += 1
            ranges[-1]["bytes"] += size
        else:
            first = {"first": offset, "last": offset, "count": 1, "bytes": size}
            ranges.append({"topic": tp[0], "partition": tp[1], **first})
    return ranges


def record_size(record: Any) -> int:
    """Bytes of a record's key and value."""
    return max(0, int(record.serialized_key_size)) + max(0, int(record.serialized_value_size))
