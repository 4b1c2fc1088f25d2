"""One member process as the harness sees it: started, read, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.events import Event

from .member import MemberConfig


@dataclass
class MemberProcess:
    """A member process and what its history has told so far.

    Args:
        held: What it owns, by its callbacks: empty inside a revoke, filled when an assigned callback is over.
        revoked_in: The generation in which it last gave something up.
        adopted_ns: When it last adopted an assignment, or heard what that added.
        view: Generation that it last assigned as leader, and the partition counts it saw then.
    """

    config: MemberConfig
    popen: subprocess.Popen[bytes]
    log: Path
    generation: int = -1
    held: set[TopicPartition] = field(default_factory=set)
    revoked_in: int = -2
    adopted_ns: int = 0
    view: tuple[int, Mapping[str, int]] | None = None
    last_error: str = ""
    _read: int = 0  # bytes of its history
    _waker: subprocess.Popen[bytes] | None = None

    @classmethod
    def spawn(cls, config: MemberConfig, path: Path, log: Path) -> MemberProcess:
        """Start a member; `path` gets its configuration, `log` its output."""
        path.write_text(config.to_json(), "utf-8")
        # What the harness can import, its members can: planted assignors are named as module:Class.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *filter(None, sys.path)])}
        with log.open("wb") as output:
            popen = subprocess.Popen(
                [sys.executable, "-m", "integration.member", str(path)],
                stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, env=environment,
                # A Ctrl-C at the terminal is the harness's to handle: it ends its members in order.
                start_new_session=True,
            )  # fmt: skip
        return cls(config, popen, log)

    @property
    def paused(self) -> bool:
        """Whether it was paused and not resumed."""
        return self._waker is not None

    def pause(self) -> None:
        """SIGSTOP. A process that stands still can't notice that the harness is gone, so another waits to wake it."""
        wake = 'read line; kill -CONT "$0"'
        self._waker = subprocess.Popen(
            ["/bin/sh", "-c", wake, str(self.popen.pid)], stdin=subprocess.PIPE, start_new_session=True
        )
        self.popen.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT; nothing happens to one that isn't paused."""
        if self._waker is not None:
            self._waker.communicate()  # closes its input, on which it wakes the member and ends
            self._waker = None

    def end(self, timeout_s: float) -> None:
        """Wait for its end, kill it at the deadline, read the rest of its history."""
        try:
            self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        self.resume()
        if self.popen.stdin is not None:
            self.popen.stdin.close()
        self.catch_up()

    def catch_up(self) -> None:
        """Read what the member has written since the last time."""
        with suppress(FileNotFoundError), Path(self.config.history).open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                self._take(Event.from_json(line.decode()))

    def epitaph(self) -> str:
        """How it ended and what it said last."""
        words = self.last_error or self.log.read_text("utf-8", "replace").strip()[-500:] or "it said nothing"
        return f"ended with exit code {self.popen.returncode}: {words}"

    def _take(self, event: Event) -> None:
        partitions = {TopicPartition(p["topic"], p["partition"]) for p in event.data.get("partitions", ())}
        if event.kind == "generation":
            self.generation, self.adopted_ns = event.data["generation"], event.mono_ns
        elif event.kind == "assign_begin":
            self.view = event.data["generation"], event.data["topics"]
        elif event.kind == "assigned_end":
            self.held |= partitions
            self.adopted_ns = event.mono_ns
        elif event.kind in ("revoke_begin", "lost_begin"):
            self.held -= partitions
            self.revoked_in = self.generation
        elif event.kind in ("error", "commit_fail"):
            self.last_error = str(event.data.get("message") or event.data.get("error"))


def brief(partitions: Collection[TopicPartition]) -> str:
    """Topic-partitions in few words."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return " ".join(f"{t}{p}" for t, p in by_topic.items()) or "nothing"
