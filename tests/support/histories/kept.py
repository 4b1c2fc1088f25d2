"""A kept history of real members, and its figures as each reader of the coordinator's log tells them."""

from __future__ import annotations

import re
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


_FOLDERS = (
    ROOT / "docs" / "histories",
    ROOT / "benchmarks" / "results" / "histories",
    ROOT / "tests/vectors/histories",
)
_KEPT = {path.name.removesuffix(".tar.xz"): path for folder in _FOLDERS for path in sorted(folder.glob("*.tar.xz"))}
_PAGE = (ROOT / "docs" / "versions.md").read_text("utf-8")
_FALSE = {"migration.refused", *re.findall(r"\[false[^]]*\]\(histories/(\S+)\.tar\.xz\)", _PAGE)}
WALKED = tuple(name for name in _KEPT if ".false" not in name and name not in _FALSE)
"""The kept histories that are true: of each client, protocol and version in ``docs/histories``, of changes and
migrations in ``benchmarks/results``, of transforming and paused members in ``tests/vectors``."""


def unpacked(name: str, folder: Path) -> Path:
    """The folder of a kept history."""
    with tarfile.open(_KEPT[name]) as kept:
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
