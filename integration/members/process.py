"""One member process as the harness sees it: started, read, ended. The interface is the same for every client."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event, bodies, is_of

from ..errors import NotSupported
from ..processes.child import ChildProgram
from ..processes.python import python_command
from ..proxy import FaultProxy
from .config import BRIDGE, MemberConfig


@dataclass
class MemberProcess(ABC):
    """A member process and the state that its history shows so far.

    `topics` or `pattern` is its subscription. It owns partitions by its callbacks: they are removed as a revoke begins,
    and added as an assigned callback ends. In generation `revoked_in` it gave something up after learning its
    assignment, so it must rejoin: it rebalances incrementally. An eager member gives up partitions before it joins.
    """

    config: MemberConfig
    output: Path
    generation: int = -1
    member_id: str | None = None
    owned: set[TopicPartition] = field(default_factory=set)
    assigned_in: int = -2  # the generation of its last assigned callback
    revoked_in: int = -2
    adopted_ns: int = 0  # when it last adopted an assignment, or its assigned callback ended
    # next offset of what it has and has consumed from
    position: dict[TopicPartition, int] = field(default_factory=dict)
    view: tuple[int, Mapping[str, int]] | None = None  # what it last assigned as leader: generation, partition counts
    committed_ns: int = 0  # when a commit of its was last accepted
    answered_ns: int = 0  # when a commit of its was last accepted or refused
    last_error: str = ""
    started: bool = False  # whether it has begun: from then on it obeys SIGTERM
    session_ms: int | None = None  # its session timeout, as it told; None: it did not
    paused: bool = False
    stalled: bool = False  # whether it has stopped polling, or stalls in its assign
    at_work: bool = False  # whether it has consumed records that it hasn't begun to commit
    via: FaultProxy | None = None
    incomplete: str = ""  # why its events are not all that it did; empty if they are
    begun_ns: int = field(default_factory=time.monotonic_ns)  # when its process was started
    asked_ns: int | None = None  # when it was asked to end; None: it was not
    grace_s: float | None = None  # how long after that it was allowed to run; None: nobody limited it
    program: ChildProgram = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.topics, self.pattern = self.config.topics, self.config.pattern

    @property
    def returncode(self) -> int | None:
        """Exit code, -n after signal n; None while it runs."""
        code = self.program.returncode
        return code if code is None or code <= 128 else 128 - code

    @property
    def cut_off(self) -> bool:
        """Whether a proxy blocks all of its connections."""
        return self.via is not None and self.via.cuts_off(self.config.member)

    @property
    def away(self) -> bool:
        """Whether it can't take part in its group now: paused, stalled or cut off."""
        return self.paused or self.stalled or self.cut_off

    @property
    def clean(self) -> bool:
        """Whether it ended like a member that was asked to."""
        return self.returncode == 0

    def terminate(self) -> None:
        """Send SIGTERM, on which it leaves the group and ends; doesn't wait."""
        self.program.terminate()

    def kill(self) -> None:
        """Send SIGKILL; doesn't wait."""
        self.program.kill()

    def interrupt(self) -> None:
        """Send SIGINT. NotSupported if the member isn't bridged: it has no work that could be interrupted."""
        raise NotSupported(
            f"member {self.config.member!r}, client {self.config.client!r}: only bridged members are interrupted"
        )

    def pause(self) -> None:
        """Send SIGSTOP."""
        self.program.signal(signal.SIGSTOP)
        self.paused = True

    def stall(self) -> None:
        """Tell it to stop polling after its current poll. NotSupported if its client doesn't take this command."""
        self.command("stall")

    def command(self, what: str) -> None:
        """Send it a command of `control`. NotSupported if its client doesn't take this command."""
        member, client = self.config.member, self.config.client
        raise NotSupported(f"member {member!r} runs {client}, which does not support {what.partition(' ')[0]}")

    def resume(self) -> None:
        """Let it continue, by SIGCONT or a command. No effect if it is neither paused nor stalled."""
        if self.paused:
            self.program.signal(signal.SIGCONT)
            self.paused = False
        elif self.stalled:
            self.command("go")

    @abstractmethod
    def catch_up(self) -> None:
        """Read what the member has reported since the last call."""

    def end(self, timeout_s: float) -> None:
        """Wait for its end, kill it at the deadline, read the rest of its reports."""
        with suppress(subprocess.TimeoutExpired):
            self.program.wait(timeout_s)
        self.program.close()
        self.paused = False
        self.catch_up()

    def named(self, fault: str) -> dict[str, Any]:
        """The fields of a fault event for this member."""
        member = self.config.member
        return {"fault": fault, "target": member, "member": member, "incarnation": self.config.incarnation}

    def epitaph(self) -> str:
        """How it ended, and its last error or output."""
        words = self.last_error or self.output.read_text("utf-8", "replace").strip()[-500:] or "it said nothing"
        return f"ended with exit code {self.returncode}: {words}"

    def end_consumer(self) -> None:
        """Forget the state of a consumer that is closed, while the process goes on: it may make another one."""
        self.generation, self.member_id = -1, None
        self.assigned_in = self.revoked_in = -2
        self.owned, self.position = set(), {}
        self.view, self.at_work = None, False

    def take(self, event: Event) -> None:
        """Update the state from an event of its history."""
        self.member_id = event.member_id or self.member_id
        if event.kind in ("commit_ok", "commit_fail"):
            self.answered_ns = event.mono_ns
        if is_of(event, bodies.StartBody):
            self.started = True
            self.session_ms = event.body.config.session_timeout_ms
        elif is_of(event, bodies.GenerationBody):
            self.generation, self.adopted_ns = event.body.generation, event.mono_ns
        elif is_of(event, bodies.AssignBeginBody):
            self.view = event.body.generation, event.body.topics
        elif is_of(event, bodies.AssignedEndBody):
            self.owned |= set(event.body.partitions)
            self.assigned_in = event.body.generation
            self.adopted_ns = event.mono_ns
        elif is_of(event, bodies.RevokeBeginBody) or is_of(event, bodies.LostBeginBody):
            self.owned -= set(event.body.partitions)
            self.position = {tp: offset for tp, offset in self.position.items() if tp in self.owned}
            if self.assigned_in != event.body.generation:
                self.revoked_in = event.body.generation
        elif is_of(event, bodies.ConsumeBody):
            self.at_work = True
            reached = {run.tp: run.last + 1 for run in event.body.offsets}
            self.position |= {tp: offset for tp, offset in reached.items() if tp in self.owned}
        elif event.kind in ("fault_begin", "fault_end"):
            self.stalled = event.kind == "fault_begin"
        elif event.kind == "commit_begin":
            self.at_work = False
        elif event.kind == "commit_ok":
            self.committed_ns = event.mono_ns
        elif is_of(event, bodies.ErrorBody):
            self.last_error = event.body.message or event.body.error
        elif is_of(event, bodies.CommitFailBody):
            self.last_error = event.body.error


class Commands:
    """The pipe to a member's standard input (`stdin`): first what it is handed over, then `control`'s commands.

    `first` is, for example, its access to the cluster, which no file gets. Without `more` no commands follow.
    """

    def __init__(self, first: bytes = b"", *, more: bool = True) -> None:
        self.stdin, end = os.pipe()
        self._pipe = os.fdopen(end, "wb", buffering=0)
        self._first, self._more = first, more
        self._handing = threading.Thread(target=self._hand_over, name="hands over", daemon=True)

    def begun(self) -> None:
        """The program has been started."""
        os.close(self.stdin)
        self._handing.start()  # a thread, as the pipe may hold less than a file of certificates has

    def send(self, what: str) -> None:
        """Send a line."""
        self._handing.join()
        self._write(what.encode() + b"\n")

    def close(self) -> None:
        """The program has ended."""
        self._handing.join()
        self._pipe.close()

    def _hand_over(self) -> None:
        self._write(self._first)
        if not self._more:
            self._pipe.close()

    def _write(self, data: bytes) -> None:
        with suppress(BrokenPipeError, ValueError):  # it ended, or takes no commands; callers that wait will notice
            while data:
                data = data[self._pipe.write(data) :]


class PythonProcess(MemberProcess):
    """A member that writes its own history: `module` prints to `output` and reads `config` from the file `path`."""

    def __init__(self, config: MemberConfig, module: str, path: Path, output: Path) -> None:
        super().__init__(config, output)
        self._read = 0  # bytes read of its history
        path.write_text(config.to_json(), "utf-8")
        self._commands = Commands(config.handed_over())
        self.program = ChildProgram(python_command(module, str(path)), output, stdin=self._commands.stdin)
        self._commands.begun()

    def interrupt(self) -> None:
        """Send SIGINT to a bridged member."""
        if self.config.client != BRIDGE:
            super().interrupt()
        self.program.signal(signal.SIGINT)

    def command(self, what: str) -> None:
        """Send a line to its standard input."""
        self._commands.send(what)

    def end(self, timeout_s: float) -> None:
        """Wait for its end, kill it at the deadline, read the rest of its history."""
        super().end(timeout_s)
        self._commands.close()

    def catch_up(self) -> None:
        """Read the new part of its history."""
        with suppress(FileNotFoundError), Path(self.config.history).open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                self.take(Event.from_json(line.decode()))


def brief(partitions: Collection[TopicPartition]) -> str:
    """Topic-partitions as short text."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return " ".join(f"{t}{p}" for t, p in by_topic.items()) or "nothing"
