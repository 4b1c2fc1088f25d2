"""Kept histories of cells: ``docs/histories/VERSION.MEMBERS.RUN.tar.xz``, judged again whenever they are read."""

from __future__ import annotations

import json
import lzma
import tarfile
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from kafka_assignors.integration.checker import Verdict, check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.history.manifest import NAME as MANIFEST
from tests.matrix.cells import MEMBERS

HISTORIES = Path(__file__).parents[2] / "docs" / "histories"
Partition = tuple[str, int]  # topic id, partition
BROKER = "broker.json"  # beside the history: the version that its broker was started with
SLUGS = {whose: whose.replace(",", "").replace(" ", "-").lower() for whose in MEMBERS}


class Kept(NamedTuple):
    """The name of a kept history."""

    version: str
    whose: str
    run: int

    @property
    def path(self) -> Path:
        return HISTORIES / f"{self.version}.{SLUGS[self.whose]}.{self.run}.tar.xz"


class Judged(NamedTuple):
    """What a kept history shows."""

    version: str  # of its broker
    members: dict[str, tuple[str, str]]  # member -> client, assignor
    verdict: Verdict

    @property
    def cell(self) -> str:
        """``true``, ``unknown``, or the broken laws."""
        if self.verdict.value is False:
            return "false: " + ", ".join(sorted({each.law for each in self.verdict.violations}))
        return "true" if self.verdict.value else "unknown"


def every_kept() -> list[Kept]:
    """All kept histories, by version, members and run."""
    named = {slug: whose for whose, slug in SLUGS.items()}
    found = []
    for path in HISTORIES.glob("*.tar.xz"):
        version, slug, run = path.name.removesuffix(".tar.xz").rsplit(".", 2)
        found.append(Kept(version, named[slug], int(run)))
    order = {whose: at for at, whose in enumerate(MEMBERS)}
    return sorted(
        found, key=lambda each: ([int(part) for part in each.version.split(".")], order[each.whose], each.run)
    )


def keep(folder: Path, version: str, path: Path) -> None:
    """Compress the history in a folder, with the version of its broker."""
    (folder / BROKER).write_text(json.dumps({"kafka": version}) + "\n", "utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wb", preset=9) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for each in sorted([*folder.glob("*.jsonl"), folder / MANIFEST, folder / BROKER]):
            tar.add(each, each.name)


def judge(path: Path) -> Judged:
    """Judge a kept history, and read from it whose members it had."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
        version = json.loads((folder / BROKER).read_text("utf-8"))["kafka"]
        history = History.load(folder)
        return Judged(version, dict(_members(folder)), check(history))


class HandedOn(NamedTuple):
    """Partitions that left a member's record although the coordinator hadn't asked the member to revoke them."""

    member_id: str
    epochs: tuple[int, int]  # of the member: before, after
    count: int


def handed_on_unasked(path: Path) -> list[HandedOn]:
    """What the coordinator of a kept KIP-848 group took for revoked without asking.

    A member's partitions go through ``partitionsPendingRevocation`` before they leave its record, unless its heartbeat
    says that it doesn't have them (Kafka 4.0 `CurrentAssignmentBuilder.ownsRevokedPartitions`).
    """
    found: list[HandedOn] = []
    held: dict[str, tuple[set[Partition], set[Partition], int]] = {}  # assigned and pending, pending alone, epoch
    with tarfile.open(path) as archive:
        (log,) = (name for name in archive.getnames() if name.endswith("coordlog.jsonl"))
        lines = archive.extractfile(log)
        assert lines is not None
        for event in map(json.loads, lines):
            if event.get("record") != "ConsumerGroupCurrentMemberAssignment":
                continue
            member, fields = event["member_id"], event.get("fields")
            had, asked, epoch = held.pop(member, (set(), set(), -1))
            if fields is None:  # the member is gone
                continue
            pending = _partitions(fields["partitionsPendingRevocation"])
            now = _partitions(fields["assignedPartitions"]) | pending
            if gone := had - now - asked:
                found.append(HandedOn(member, (epoch, fields["memberEpoch"]), len(gone)))
            held[member] = now, pending, fields["memberEpoch"]
    return found


def _partitions(topics: Iterable[dict[str, Any]]) -> set[Partition]:
    return {(topic["topicId"], partition) for topic in topics for partition in topic["partitions"]}


def _members(folder: Path) -> Iterable[tuple[str, tuple[str, str]]]:
    for path in folder.glob("*.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            event = json.loads(line)
            if event["kind"] == "start" and "member" in event:
                yield event["member"], (event["client"], event["config"]["assignors"][0])


def table(shown: dict[Kept, str]) -> str:
    """The table of the docs: a row per kind of member, a column per version, each cell linked to its histories."""
    versions = list(dict.fromkeys(kept.version for kept in shown))
    lines = ["| members | " + " | ".join(versions) + " |", "|---" * (len(versions) + 1) + "|"]
    for whose in MEMBERS:
        cells = []
        for version in versions:
            runs = [kept for kept in shown if (kept.version, kept.whose) == (version, whose)]
            cells.append(" ".join(f"[{shown[run]}](histories/{run.path.name})" for run in runs) or "–")
        if any(cell != "–" for cell in cells):
            lines.append(f"| {whose} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
