"""Events of a group: values <-> JSON lines, the format that members write, and the checker and Spark read.

A history is a folder of ``*.jsonl`` files, one per source, each with a gapless ``seq``. Events of all sources are
ordered by ``mono_ns``, the monotonic clock that all processes of one boot share. `bodies` has the kinds and their
fields. A member's events also have ``log_bytes``, if it is a service's process.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, TypeVar, cast
from urllib.parse import quote

from ...core.wire.protocol import decode_subscription
from ...errors import WireError
from ..coordinator_log import BrokerAssigned, CommittedMember, GroupCommitted, OffsetCommitted, assigned
from .bodies import KINDS, KINDS_OF, Body, GenerationCommittedBody, decoded, kinds_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar  # mypy has it; typing's own knows no default before 3.13

    B_co = DefaultTypeVar("B_co", bound=Body, covariant=True, default=Body)
else:
    B_co = TypeVar("B_co", covariant=True)
B = TypeVar("B", bound=Body)

VERSION = 1
INCOMPLETE = "IncompleteRecord"
"""The harness's error if a member's events are not whole, so that nobody can judge what it did."""
WIRE = "wire"
"""Client of a member that is seen on its connections alone: what it says to the brokers, and what they answer."""
TOPIC = "topic:"
"""Beginning of a place of recordings that is a topic; any other is a folder or a file."""
COMMON = (
    "v", "run", "src", "seq", "ts_ns", "mono_ns", "group", "member", "incarnation", "pid", "member_id", "instance_id",
    "client", "kind",
)  # fmt: skip
_REQUIRED = frozenset(("kind", "run", "src", "seq", "ts_ns", "mono_ns"))


@dataclass(frozen=True, slots=True)
class Event(Generic[B_co]):
    """One event of a history; an ``Event[AckBody]`` is an acknowledgement.

    Its `data` are the fields of its kind as JSON, which are written again as they were read. Laws and reports read the
    same fields as `body`.

    Args:
        src: member, harness, coordlog, proxy or producer.
        seq: Position in its source's file, from 0, without gaps.
        ts_ns: Wall clock, nanoseconds since the epoch.
        mono_ns: Monotonic clock, nanoseconds; orders events of all processes of one boot.
    """

    kind: str
    run: str
    src: str
    seq: int
    ts_ns: int
    mono_ns: int
    group: str | None = None
    member: str | None = None
    incarnation: int = 0
    pid: int = 0
    member_id: str | None = None
    instance_id: str | None = None
    client: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    _body: Any = field(default=None, init=False, repr=False, compare=False)

    @property
    def body(self) -> B_co:
        """The fields of its kind, decoded from `data` when they are first read.

        Raises:
            KeyError: A field is missing, or the kind does not exist. The events of a `History` that was read from files
                fit the schema, so they have all fields.
        """
        body = self._body
        if body is None:
            body = decoded(KINDS[self.kind], self.data)
            object.__setattr__(self, "_body", body)
        return body  # type: ignore[no-any-return]

    @property
    def log_bytes(self) -> int | None:
        """How long the log of a service's process was then; None for other members."""
        return self.data.get("log_bytes")

    def to_json(self) -> str:
        """One line, without the newline."""
        row: dict[str, Any] = {"v": VERSION}
        row.update({name: getattr(self, name) for name in COMMON[1:]})
        row.update(self.data)
        return json.dumps(_without_none(row), separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> Event:
        """Decode one line. Raises ValueError if it is no JSON, and what `from_row` raises."""
        return cls.from_row(json.loads(line))

    @classmethod
    def from_row(cls, row: Any) -> Event:
        """Decode a line's JSON object; the event takes over its fields.

        Raises:
            ValueError: Not an object, a missing common field, or an unknown version.
        """
        if not isinstance(row, dict):
            raise ValueError(f"an event is a JSON object, not {type(row).__name__}: {row!r:.80}")
        if row.pop("v", None) != VERSION:
            raise ValueError(f"unknown event version in {row!r:.80}; this reader knows {VERSION}")
        if missing := _REQUIRED - row.keys():
            raise ValueError(f"event lacks {', '.join(sorted(missing))}: {row!r:.80}")
        take = row.pop
        return cls(
            take("kind"), take("run"), take("src"), take("seq"), take("ts_ns"), take("mono_ns"), take("group", None),
            take("member", None), take("incarnation", 0), take("pid", 0), take("member_id", None),
            take("instance_id", None), take("client", None), row,
        )  # fmt: skip


def _without_none(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def is_of(event: Event, body: type[B]) -> TypeGuard[Event[B]]:
    """Whether an event is of the kind, or of one of the kinds, of a class of `bodies`."""
    return event.kind in KINDS_OF[body]


class EventsByKind(defaultdict[str, list[Event]]):
    """Kind -> its events; a kind without events has an empty list."""

    def __init__(self) -> None:
        super().__init__(list)

    def of(self, *bodies: type[B]) -> list[Event[B]]:
        """The events of these classes, kind by kind."""
        kinds = kinds_of(*bodies)
        events = self.get(kinds[0], []) if len(kinds) == 1 else [e for kind in kinds for e in self.get(kind, ())]
        return cast("list[Event[B]]", events)


def generation_in(event: Event) -> GenerationCommittedBody | None:
    """The generation that a record of the coordinator's log commits; None if it commits none.

    A record that completes a target of a KIP-848 group (``broker_assigned``) has the fields of a
    ``generation_committed`` as well, once the group's records were replayed.
    """
    if is_of(event, GenerationCommittedBody):
        return event.body
    if event.kind == "broker_assigned" and "members" in event.data:
        return decoded(GenerationCommittedBody, event.data)
    return None


def file_stem(*names: object) -> str:
    """A file name without extension, of a group, a member, …; characters that a path cannot contain are replaced."""
    return ".".join(quote(str(name), safe=" ") for name in names)


def partitions_json(partitions: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    """Topic-partitions as events carry them, sorted."""
    return [{"topic": t, "partition": p} for t, p in sorted(partitions)]


def committed(entry: GroupCommitted | OffsetCommitted | BrokerAssigned) -> tuple[str, dict[str, Any]]:
    """Kind and fields of the event for a coordinator record. Bytes that cannot be decoded stay as hex."""
    row: dict[str, Any]
    if isinstance(entry, BrokerAssigned):
        row = {"record": entry.record, "member_id": entry.member, "fields": entry.fields, "pattern": entry.pattern}
        return "broker_assigned", _without_none(row)
    if isinstance(entry, OffsetCommitted):
        return "offset_committed", {"topic": entry.topic, "partition": entry.partition, "offset": entry.offset}
    members = [member_json(member) for member in entry.members]
    row = {"generation": entry.generation, "ts_ms": entry.ts_ms, "members": members}
    return "generation_committed", _without_none({**row, "protocol": entry.protocol, "leader": entry.leader})


def member_json(member: CommittedMember) -> dict[str, Any]:
    """A member of a generation as events carry it (`bodies.MemberRow`). Bytes that cannot be decoded stay as hex."""
    row: dict[str, Any] = {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "subscription": member.subscription.hex(),
        "assignment": member.assignment.hex(),
        "assigned": [],
        "owned": [],
    }
    if member.instance_id is not None:
        row["instance_id"] = member.instance_id
    with suppress(WireError):
        row["assigned"] = partitions_json(assigned(member))
    with suppress(WireError):
        row["owned"] = partitions_json(decode_subscription(member.subscription).owned)
    return row
