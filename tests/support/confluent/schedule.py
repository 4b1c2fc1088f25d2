"""Random schedules: a bridged member in a small group, and what happens to them, all of it drawn from a seed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_assignors.integration.checker import Verdict, check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Record, send

SESSION_MS, POLL_INTERVAL_MS = 3000, 5000
"""Long enough that a busy machine evicts nobody: who is evicted without a fault breaks laws of ownership."""
DEADLINE_S = 90
_TICK_S = 0.05
_ASSIGNORS = (
    *("cooperative-sticky", "cooperative-sticky", "range", "sticky"),
    *("kafka-python:cooperative-sticky", "kafka-python:roundrobin"),
)
_ACTIONS = ("interrupt", "kill", "evict by poll", "evict by session", "fail", "join", "leave", "rush")


@dataclass(frozen=True)
class Schedule:
    """What happens, drawn from `seed`.

    Args:
        partitions: Of its one topic.
        assignor: Of all members.
        app: Settings of the bridged member's application, and of its queues.
        other: The client of the second member.
        actions: What happens, one after another, while records come.
    """

    seed: int
    partitions: int
    assignor: str
    app: dict[str, Any]
    other: str
    actions: tuple[str, ...] = field(default=())

    @classmethod
    def drawn(cls, seed: int) -> Schedule:
        """The schedule of a seed."""
        rng = random.Random(seed)
        queues: dict[str, Any] = {
            "queued_min_messages": 1,
            "queued_max_messages_kbytes": 1,
            "fetch_message_max_bytes": 500,
            # librdkafka otherwise waits a second before it fetches again into a queue that was full, so that a schedule
            # may not be worked off by its deadline.
            "fetch_queue_backoff_ms": 50,
        }
        batch = rng.choice([1, 5, 20, 200])
        app = {
            "app_batch": batch,
            # slow, and yet fast enough to call again in time: else it would never get on
            "app_work_ms": min(rng.choice([0, 1, 5, 40]), POLL_INTERVAL_MS // 5 // batch),
            "app_commits": rng.choice(["auto", "auto", "auto", "batch", "message"]),
            "app_interrupt": rng.choice(["ends", "goes-on"]),
            **rng.choice([queues, {}]),  # queues that are always full, or that hold all there is
        }
        if app["app_commits"] == "message":
            app["app_batch"] = min(batch, 20)  # each commit is a round trip, and takes its time on a busy machine
        actions = [rng.choice(_ACTIONS) for _ in range(rng.randint(2, 4))]
        return cls(
            seed, rng.randint(2, 4), rng.choice(_ASSIGNORS), app, rng.choice(["bridge", "kafka-python"]), tuple(actions)
        )

    def play(self, bootstrap: str, topic: str, folder: Path) -> Verdict:
        """Make it happen on a broker and judge what it left; the topic must be there, with `partitions`."""
        with MemberGroup(
            bootstrap, topic, folder, "run", session_timeout_ms=SESSION_MS, heartbeat_interval_ms=200
        ) as group:
            play = _Play(self, group, topic)
            play.records(150)
            play.start("a")
            for action in self.actions:
                play.wait_for_progress("a")
                play.act(action)
                play.records(60)
            if "a" not in group.running:
                play.start("a")
            group.drain(DEADLINE_S)
            play.wait_for_commits()
        return check(History.load(folder), require=["C6"])


class _Play:
    """A schedule while it is played."""

    def __init__(self, schedule: Schedule, group: MemberGroup, topic: str) -> None:
        self._schedule, self._group, self._topic = schedule, group, topic
        self._sent = 0

    def records(self, number: int) -> None:
        """Send records, each partition as many."""
        rows = [Record(self._topic, partition=index % self._schedule.partitions) for index in range(number)]
        send(self._group.bootstrap, self._group.folder, "run", "explicit", rows)

    def start(self, name: str, **app: Any) -> None:
        """Start a member: "a" is bridged, "b" what the schedule says."""
        poll = {"max_poll_interval_ms": POLL_INTERVAL_MS}
        bridged = name == "a" or self._schedule.other == "bridge"
        more = {**self._schedule.app, **app} if bridged else {}
        client = "bridge" if bridged else "kafka-python"
        self._group.start(name, [self._topic], [self._schedule.assignor], client=client, **poll, **more)
        process = self._group._members.get(name)
        self._until(lambda: process.catch_up() or process.generation >= 0, DEADLINE_S)

    def act(self, action: str) -> None:
        """Let something happen, to "a" unless it says otherwise."""
        group = self._group
        if action == "join":
            if "b" not in group.running:
                self.start("b")
                self.wait_for_progress("b")
        elif action == "leave":
            if "b" in group.running:
                group.stop("b")
        elif action == "rush":  # more than it has worked off when the next thing happens
            self.records(300)
        elif action == "interrupt":
            group.interrupt("a")
            if self._schedule.app["app_interrupt"] == "ends":
                group.wait_end("a", DEADLINE_S)
                self.start("a")
        elif action == "kill":
            group.kill("a")
            self.start("a")
        elif action == "fail":
            group.stop("a")
            self.start("a", app_fails_at=random.Random(self._schedule.seed).randint(1, 20))
            failing = group._members.get("a")
            for _ in range(5):  # until it got enough to fail: another member may have read what came before it joined
                self.records(120)
                self._until(lambda: failing.returncode is not None, 5)
            group.wait_end("a", DEADLINE_S)
            self.start("a")
        elif action == "evict by poll":
            group.stall("a")
            self._until(lambda: not self._in_group("a"))
            group.resume("a")
        else:
            group.pause("a")
            self._until(lambda: not self._in_group("a"))
            group.resume("a")

    def wait_for_progress(self, name: str) -> None:
        """Until a member of the last generation has got records, or has none to get."""
        process = self._group._members.get(name)
        before = dict(process.position)
        self._until(lambda: process.catch_up() or process.position not in ({}, before), 3)

    def wait_for_commits(self) -> None:
        """Until the members that run have committed what they finished by themselves, for a while at most."""
        log, ends = self._group._log, self._group.drain(DEADLINE_S)
        self._until(lambda: all(log.offsets.get(tp, 0) >= end for tp, end in ends.items()), 3)

    def _in_group(self, name: str) -> bool:
        committed = self._group._log.generation
        return committed is not None and name in {member.client_id for member in committed.members}

    def _until(self, condition: Callable[[], object], most_s: float = 10) -> None:
        """Wait for something that is likely, and no part of the promise: that holds whether or not it comes."""
        deadline = time.monotonic() + most_s
        while not condition() and time.monotonic() < deadline:
            self._group._log.wait(_TICK_S)


def told(schedule: Schedule, verdict: Verdict) -> str | None:
    """What isn't as promised."""
    broken = [f"{violation.law}: {violation.message}" for violation in verdict.violations]
    return f"{schedule}: {broken or verdict.unknown}" if broken or verdict.unknown else None
