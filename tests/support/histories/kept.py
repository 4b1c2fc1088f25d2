"""A kept history of real members, and its figures as each reader of the coordinator's log tells them."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kafka_assignors.history.coordinator_log import CommittedMember, GroupCommitted, OffsetCommitted
from kafka_assignors.history.events import Event
from kafka_assignors.history.generations import Log, Logged
from kafka_assignors.integration.history import History
from tests.support.places import ROOT

COOPERATIVE, EAGER = "4.3.1.ours.0", "4.3.1.everyone.0"
"""Four members join, one leaves, one is killed: ours, cooperative; and of four clients, eager (range)."""


class Figures(NamedTuple):
    """What happened in a group, in the words of ``docs/glossary.md``."""

    rebalances: int
    moves: int
    needless: int
    returned: int


def unpacked(name: str, folder: Path) -> Path:
    """The folder of a kept history of ``docs/histories``."""
    with tarfile.open(ROOT / "docs" / "histories" / f"{name}.tar.xz") as kept:
        kept.extractall(folder, filter="data")
    return folder


def log_of(history: History) -> Log:
    """The coordinator's log as `why` reads it from a broker: the raw bytes of the events, no run's clock."""
    events = sorted((event for event in history.events if event.src == "coordlog"), key=lambda event: event.seq)
    return Log(tuple(_records(events)), whole=True)


def _records(events: Iterable[Event]) -> Iterable[Logged]:
    for event in events:
        data, ts_ms = event.data, event.ts_ns // 1_000_000
        if event.kind == "offset_committed":
            place = data["topic"], data["partition"], data["offset"]
            yield Logged(ts_ms, OffsetCommitted(event.group or "", *place, -1, ts_ms))
        elif event.kind == "generation_committed":
            members = tuple(
                CommittedMember(
                    row["member_id"], row.get("instance_id"), row["client_id"], "/127.0.0.1",
                    row["rebalance_timeout_ms"], row["session_timeout_ms"], bytes.fromhex(row["subscription"]),
                    bytes.fromhex(row["assignment"]),
                )
                for row in data["members"]
            )  # fmt: skip
            decided = data["generation"], data.get("protocol"), data.get("leader"), data["ts_ms"]
            yield Logged(ts_ms, GroupCommitted(event.group or "", "consumer", *decided, members))
