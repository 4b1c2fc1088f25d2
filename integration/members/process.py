"""One member process as the harness sees it: started, read, ended. Members of every client look alike from here."""

from __future__ import annotations

import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event

from ..errors import NotSupported
from ..processes.python import python_command
from ..proxy import FaultProxy
from .config import BRIDGE, MemberConfig


@dataclass
class MemberProcess(ABC):
    """A member process and what its history has told so far.

    Args:
        config: What it was started with.
        topics, pattern: What it subscribes to, one of the two.
        output: What it prints.
        member_id: Its id in the group, as it last told.
        held: What it owns, by its callbacks: empty inside a revoke, filled when an assigned callback is over.
        assigned_in: The generation in which its callback for what it was assigned came last.
        revoked_in: The generation for which it gave something up as it learned its assignment, and must rejoin: it
            rebalances incrementally. An eager member has been assigned what it gives up before it joins again.
        adopted_ns: When it last adopted an assignment, or heard what that added.
        position: Per topic-partition that it holds and has consumed of, the offset that it consumes next.
        view: Generation that it last assigned as leader, and the partition counts it saw then.
        committed_ns: When a commit of its was last accepted.
        answered_ns: When one was last accepted or refused.
        paused: Whether it was paused and not resumed.
        stalled: Whether it has stopped polling, or stands still as it assigns.
        at_work: Whether it has consumed what it hasn't begun to commit.
        via: The proxy that its connections pass.
    """

    config: MemberConfig
    output: Path
    generation: int = -1
    member_id: str | None = None
    held: set[TopicPartition] = field(default_factory=set)
    assigned_in: int = -2
    revoked_in: int = -2
    adopted_ns: int = 0
    position: dict[TopicPartition, int] = field(default_factory=dict)
    view: tuple[int, Mapping[str, int]] | None = None
    committed_ns: int = 0
    answered_ns: int = 0
    last_error: str = ""
    paused: bool = False
    stalled: bool = False
    at_work: bool = False
    via: FaultProxy | None = None

    def __post_init__(self) -> None:
        self.topics, self.pattern = self.config.topics, self.config.pattern

    @property
    @abstractmethod
    def returncode(self) -> int | None:
        """Exit code, -n after signal n; None while it runs."""

    @property
    def cut_off(self) -> bool:
        """Whether a proxy lets nothing of it pass."""
        return self.via is not None and self.via.cuts_off(self.config.member)

    @property
    def away(self) -> bool:
        """Whether it can't take part in its group now: paused, stalled or cut off."""
        return self.paused or self.stalled or self.cut_off

    @property
    def clean(self) -> bool:
        """Whether it ended as one that was asked to."""
        return self.returncode == 0

    @abstractmethod
    def terminate(self) -> None:
        """Ask it to leave the group and end; doesn't wait."""

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL; doesn't wait."""

    def interrupt(self) -> None:
        """SIGINT.

        Raises:
            NotSupported: Its program has no work of its own that could be interrupted.
        """
        raise NotSupported(
            f"member {self.config.member!r}, client {self.config.client!r}: only bridged members are interrupted"
        )

    @abstractmethod
    def pause(self) -> None:
        """SIGSTOP; it still ends with the harness."""

    @abstractmethod
    def stall(self) -> None:
        """Tell it to stop polling, as soon as the poll ends that it is in.

        Raises:
            NotSupported: Its client can't be told to.
        """

    @abstractmethod
    def command(self, what: str) -> None:
        """Tell it something else of `control`.

        Raises:
            NotSupported: Its client can't be told to.
        """

    @abstractmethod
    def resume(self) -> None:
        """Let it go on; nothing happens to one that is neither paused nor stalled."""

    @abstractmethod
    def catch_up(self) -> None:
        """Read what the member has told since the last time."""

    @abstractmethod
    def end(self, timeout_s: float) -> None:
        """Wait for its end, kill it at the deadline, read the rest of what it told."""

    def named(self, fault: str) -> dict[str, Any]:
        """The fields of a fault event that hits it."""
        member = self.config.member
        return {"fault": fault, "target": member, "member": member, "incarnation": self.config.incarnation}

    def epitaph(self) -> str:
        """How it ended and what it said last."""
        words = self.last_error or self.output.read_text("utf-8", "replace").strip()[-500:] or "it said nothing"
        return f"ended with exit code {self.returncode}: {words}"

    def take(self, event: Event) -> None:
        """Remember what an event of its history tells."""
        partitions = {TopicPartition(p["topic"], p["partition"]) for p in event.data.get("partitions", ())}
        self.member_id = event.member_id or self.member_id
        if event.kind in ("commit_ok", "commit_fail"):
            self.answered_ns = event.mono_ns
        if event.kind == "generation":
            self.generation, self.adopted_ns = event.data["generation"], event.mono_ns
        elif event.kind == "assign_begin":
            self.view = event.data["generation"], event.data["topics"]
        elif event.kind == "assigned_end":
            self.held |= partitions
            self.assigned_in = event.data["generation"]
            self.adopted_ns = event.mono_ns
        elif event.kind in ("revoke_begin", "lost_begin"):
            self.held -= partitions
            self.position = {tp: offset for tp, offset in self.position.items() if tp in self.held}
            if self.assigned_in != event.data["generation"]:
                self.revoked_in = event.data["generation"]
        elif event.kind == "consume":
            self.at_work = True
            reached = {TopicPartition(run["topic"], run["partition"]): run["last"] + 1 for run in event.data["offsets"]}
            self.position |= {tp: offset for tp, offset in reached.items() if tp in self.held}
        elif event.kind in ("fault_begin", "fault_end"):
            self.stalled = event.kind == "fault_begin"
        elif event.kind == "commit_begin":
            self.at_work = False
        elif event.kind == "commit_ok":
            self.committed_ns = event.mono_ns
        elif event.kind in ("error", "commit_fail"):
            self.last_error = str(event.data.get("message") or event.data.get("error"))


class PythonProcess(MemberProcess):
    """A member that writes its history by itself: a module of `members.clients`, say.

    Args:
        config: What to do.
        module: What to run.
        path: Gets the configuration.
        output: Gets what the process prints.
    """

    def __init__(self, config: MemberConfig, module: str, path: Path, output: Path) -> None:
        super().__init__(config, output)
        self._read = 0  # bytes of its history
        self._waker: subprocess.Popen[bytes] | None = None
        path.write_text(config.to_json(), "utf-8")
        with output.open("wb") as file:
            self._popen = subprocess.Popen(
                python_command(module, str(path)),
                stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT, bufsize=0,
                # A Ctrl-C at the terminal is the harness's to handle: it ends its members in order.
                start_new_session=True,
            )  # fmt: skip

    @property
    def returncode(self) -> int | None:
        """As subprocess says it."""
        return self._popen.poll()

    def terminate(self) -> None:
        """SIGTERM."""
        self._popen.terminate()

    def kill(self) -> None:
        """SIGKILL."""
        self._popen.kill()

    def interrupt(self) -> None:
        """SIGINT, to bridged members."""
        if self.config.client != BRIDGE:
            super().interrupt()
        self._popen.send_signal(signal.SIGINT)

    def pause(self) -> None:
        """SIGSTOP. A process that stands still can't notice that the harness is gone, so another waits to wake it."""
        wake = 'read line; kill -CONT "$0" 2>/dev/null'  # it may have been killed meanwhile
        self._waker = subprocess.Popen(
            ["/bin/sh", "-c", wake, str(self._popen.pid)], stdin=subprocess.PIPE, start_new_session=True
        )
        self._popen.send_signal(signal.SIGSTOP)
        self.paused = True

    def stall(self) -> None:
        """By a line on its standard input."""
        self.command("stall")

    def command(self, what: str) -> None:
        """By a line on its standard input."""
        assert self._popen.stdin is not None
        if self._popen.stdin.closed:
            return
        with suppress(BrokenPipeError):  # it ended by itself, which whoever waits for it will see
            self._popen.stdin.write(what.encode() + b"\n")

    def resume(self) -> None:
        """SIGCONT, by closing the waker's input, on which it wakes the member and ends; or a line on its input."""
        if self._waker is not None:
            self._waker.communicate()
            self._waker, self.paused = None, False
        elif self.stalled:
            self.command("go")

    def end(self, timeout_s: float) -> None:
        """As every member."""
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self.resume()
        if self._popen.stdin is not None:
            self._popen.stdin.close()
        self.catch_up()

    def catch_up(self) -> None:
        """Read its history on."""
        with suppress(FileNotFoundError), Path(self.config.history).open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                self.take(Event.from_json(line.decode()))


def brief(partitions: Collection[TopicPartition]) -> str:
    """Topic-partitions in few words."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return " ".join(f"{t}{p}" for t, p in by_topic.items()) or "nothing"
