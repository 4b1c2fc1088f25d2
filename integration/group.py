"""A group of members, each a process of its own: start, stop, kill, and wait until the group is stable."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition

from kafka_assignors.core.assignment import moves
from kafka_assignors.core.coordlog import GroupCommitted
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ConfigError, UnknownName
from kafka_assignors.events import EventWriter

from .coordreader import CoordinatorLog
from .errors import MemberDied, NotDrained, NotStable
from .member import CLIENT, MemberConfig
from .process import MemberProcess, PythonProcess
from .rest import Stable, assigned_to, due, seen
from .verifiable import CONFLUENT, JAVA, VERIFIABLE, VerifiableProcess

__all__ = ["CLIENTS", "MemberGroup", "Stable"]

CLIENTS = (CLIENT, JAVA, CONFLUENT, VERIFIABLE)
"""What members may run."""
_TICK_S = 0.02
_STOP_S = 15


class MemberGroup:
    """The members of one group, the reader of their coordinator log, and the harness's own events.

    A context manager; leaving it ends every member, also after an exception or Ctrl-C. `bootstrap`, `group`, `folder`
    and `run` stay readable.

    Args:
        bootstrap: ``host:port``, several with commas.
        group: Group id; use a new one per run, or the members meet an older group's commits.
        folder: Where the history goes; made when missing.
        run: Id of the run, on every event.
        session_timeout_ms: How long the coordinator waits for a silent member.
        heartbeat_interval_ms: At most a third of it; bounds how fast a member notices a rebalance.

    Raises:
        BrokerUnreachable: No broker answers.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        folder: Path,
        run: str,
        *,
        session_timeout_ms: int = 2000,
        heartbeat_interval_ms: int = 300,
    ) -> None:
        self.group, self.folder = group, folder
        self.bootstrap, self.run = bootstrap, run
        self._timeouts = {"session_timeout_ms": session_timeout_ms, "heartbeat_interval_ms": heartbeat_interval_ms}
        self._processes: dict[str, MemberProcess] = {}
        self._incarnations: dict[str, int] = {}
        self._owners: dict[TopicPartition, str] = {}
        self._last_ns: int | None = None  # the event that the next `Stable` counts from
        self._writer = EventWriter(folder / f"{group}.harness.jsonl", run, "harness", group=group)
        log_writer = EventWriter(folder / f"{group}.coordlog.jsonl", run, "coordlog", group=group)
        try:
            self._log = CoordinatorLog(bootstrap, group, log_writer)
            self._metadata = KafkaConsumer(
                bootstrap_servers=bootstrap.split(","), allow_auto_create_topics=False, metrics_enabled=False
            )
        except BaseException:
            with suppress(AttributeError):
                self._log.close()
            log_writer.close()
            self._writer.close()
            raise

    @property
    def running(self) -> tuple[str, ...]:
        """Names of the members that were started and neither stopped nor killed, sorted."""
        return tuple(sorted(self._processes))

    def step(self, name: str, gap_ms: int | None = None) -> None:
        """Begin a named step of the scenario: the next `wait_stable` counts from here.

        Args:
            name: What happens in it.
            gap_ms: How long a topic-partition may be without an owner in it, which law O4 judges; None: any time.
        """
        bound = {} if gap_ms is None else {"gap_ms": gap_ms}
        self._last_ns = self._writer.write("step", name=name, **bound).mono_ns

    def start(
        self,
        name: str,
        topics: Collection[str],
        assignors: Sequence[str],
        *,
        client: str = CLIENT,
        instance_id: str | None = None,
        rack: str | None = None,
        **consumer: Any,
    ) -> None:
        """Start a member and return at once.

        Args:
            name: Its name in the run; free again once it was stopped or killed.
            topics: Its subscription.
            assignors: Names, most wanted first; with another client than kafka-python its own assignors.
            client: Which client it runs, one of `CLIENTS`; ``java`` is Java's VerifiableConsumer in a JVM,
                ``confluent`` librdkafka, ``verifiable`` ours by VerifiableConsumer's command line.
            instance_id: Makes it a static member.
            rack: Its ``client.rack``.
            **consumer: Settings for the client, named as kafka-python names them; they win over the harness's own.

        Raises:
            ConfigError: The name is taken, there are no topics or assignors, or several topics for a Java member.
            UnknownName: No such client, or it has no such assignor.
            MachineError: Java or jars are missing and cannot be fetched.
        """
        if name in self._processes:
            raise ConfigError(
                f"member {name!r} of group {self.group!r} is running; stop or kill it, or take another name"
            )
        if isinstance(topics, str) or isinstance(assignors, str) or not topics or not assignors:
            raise ConfigError(f"member {name!r} needs lists of topics and assignors, not {topics!r} and {assignors!r}")
        if client not in CLIENTS:
            raise UnknownName("client", client, CLIENTS)
        incarnation = self._incarnations.get(name, -1) + 1
        self._incarnations[name] = incarnation
        stem = f"{self.group}.{name}.{incarnation}"
        config = MemberConfig(
            bootstrap=self.bootstrap,
            group=self.group,
            member=name,
            topics=tuple(sorted(topics)),
            assignors=tuple(assignors),
            history=str(self.folder / f"{stem}.jsonl"),
            run=self.run,
            incarnation=incarnation,
            instance_id=instance_id,
            rack=rack,
            client=client,
            **{**self._timeouts, **{k: consumer.pop(k) for k in tuple(consumer) if k in self._timeouts}},
            consumer=consumer,
        )
        self._count_from_here()
        self._processes[name] = self._spawn(config, self.folder / stem)

    def stop(self, name: str, timeout_s: float = _STOP_S) -> None:
        """Ask a member to leave the group and wait for the end of its process.

        Raises:
            ConfigError: No such member is running, or it is paused.
            MemberDied: It didn't end within `timeout_s` (it is killed then), or not cleanly.
        """
        process = self._running(name)
        if process.paused:
            raise ConfigError(f"member {name!r} of group {self.group!r} is paused; resume or kill it")
        self._count_from_here()
        process.terminate()
        self._ended(name, timeout_s)
        if not process.clean:
            raise MemberDied(f"member {name!r} of group {self.group!r} {process.epitaph()}")

    def kill(self, name: str) -> None:
        """End a member with SIGKILL: the coordinator learns of it when its session ends.

        Raises:
            ConfigError: No such member is running.
        """
        process = self._running(name)
        self._count_from_here()
        self._writer.write("fault_begin", **process.named("kill"))
        process.kill()
        self._ended(name, _STOP_S)
        self._writer.write("fault_end", **process.named("kill"))

    def pause(self, name: str) -> None:
        """Make a member stand still (SIGSTOP): the coordinator evicts it when its session ends, unless it is resumed.

        Raises:
            ConfigError: No such member is running, or it is paused already.
        """
        process = self._running(name)
        if process.paused:
            raise ConfigError(f"member {name!r} of group {self.group!r} is paused already")
        self._count_from_here()
        self._writer.write("fault_begin", **process.named("pause"))
        process.pause()

    def stall(self, name: str, timeout_s: float = 15) -> None:
        """Make a member stop polling, its heartbeats go on: it is out once its ``max_poll_interval_ms`` is over.

        It stops between two polls, so records must come; one that was just started stops before its first.

        Raises:
            ConfigError: No such member is running.
            NotSupported: Its client can't be told to.
            NotStable: It still polls after `timeout_s`.
            MemberDied: It ended by itself.
        """
        process = self._running(name)
        self._count_from_here()
        process.stall()
        deadline = time.monotonic() + timeout_s
        while not process.stalled:
            if time.monotonic() > deadline:
                raise NotStable(
                    f"member {name!r} of group {self.group!r} still polls after {timeout_s:g} s; send records"
                )
            self._check_alive()
            self._log.wait(_TICK_S)
            process.catch_up()

    def resume(self, name: str) -> None:
        """Let a member go on that was paused (SIGCONT) or stalled.

        Raises:
            ConfigError: No such member is running, or it is neither paused nor stalled.
        """
        process = self._running(name)
        if not (process.paused or process.stalled):
            raise ConfigError(f"member {name!r} of group {self.group!r} isn't paused")
        self._count_from_here()
        paused = process.paused
        process.resume()
        process.stalled = False  # of its stall it tells itself
        if paused:
            self._writer.write("fault_end", **process.named("pause"))

    def wait_stable(
        self, members: Collection[str] | None = None, timeout_s: float = 30, complete: bool = True
    ) -> Stable:
        """Wait until the group is at rest.

        That is: the last committed generation has exactly these members, each of them has adopted it, holds what it
        was assigned and gave up nothing in it (under a cooperative assignor that makes another generation due), its
        leader saw the subscribed topics as they are, and every partition of those is owned.

        Args:
            members: Names; default: all that run and are neither paused nor stalled.
            timeout_s: Deadline.
            complete: False: partitions that nobody owns are no reason to wait.

        Raises:
            NotStable: The deadline passed; tells the last committed generation, what each member holds, and errors.
            MemberDied: A member ended by itself.
        """
        if members is None:
            members = [name for name, each in self._processes.items() if not (each.paused or each.stalled)]
        wanted = set(members)
        deadline = time.monotonic() + timeout_s
        while True:
            self._log.wait(_TICK_S)
            self._check_alive()
            committed = self._log.generation
            for process in self._processes.values():
                process.catch_up()
            left = due(committed, self._processes, wanted, self._partitions, complete)
            if not left and committed is not None:
                return self._stable(committed)
            if time.monotonic() > deadline:
                raise NotStable(self._unstable(left, committed, timeout_s))

    def drain(self, timeout_s: float = 30) -> dict[TopicPartition, int]:
        """Wait until the group has consumed every record that its topics hold now; then say so in the history.

        Returns:
            topic-partition -> end offset when this call began.

        Raises:
            NotDrained: The deadline passed; tells what is left.
            MemberDied: A member ended by itself.
        """
        tps = [KafkaTopicPartition(t, p) for t, n in self._partitions().items() for p in range(n)]
        ends, begins = self._metadata.end_offsets(tps), self._metadata.beginning_offsets(tps)
        # Where everything was deleted there is nothing to read, and so nothing will be committed.
        left = {TopicPartition(*tp): end for tp, end in ends.items() if end > begins[tp]}
        deadline = time.monotonic() + timeout_s
        while True:
            self._check_alive()
            # What killed members consumed without a commit is read again, so commits are what counts; but a commit that
            # a rebalance refused isn't made good while no record follows, so what an owner has consumed counts as well.
            offsets = self._log.offsets
            for process in self._processes.values():
                process.catch_up()
                offsets |= {tp: max(at, offsets.get(tp, 0)) for tp, at in process.position.items()}
            left = {tp: end for tp, end in left.items() if offsets.get(tp, 0) < end}
            if not left:
                break
            if time.monotonic() > deadline:
                behind = ", ".join(f"{tp.topic}-{tp.partition}: {end - offsets.get(tp, 0)}" for tp, end in left.items())
                raise NotDrained(f"group {self.group!r} has records left after {timeout_s:g} s: {behind}")
            self._log.wait(_TICK_S)
        rows = [{"topic": tp.topic, "partition": tp.partition, "offset": end} for tp, end in sorted(ends.items())]
        self._writer.write("step", name="drained", offsets=rows)
        return {TopicPartition(*tp): end for tp, end in ends.items()}

    def close(self) -> None:
        """End all members, by terminate and then kill, and the reader of the log. Never raises for what they did."""
        try:
            for process in self._processes.values():
                with suppress(OSError):
                    process.terminate()
                process.resume()
            deadline = time.monotonic() + _STOP_S
            for name in tuple(self._processes):
                self._ended(name, max(0.1, deadline - time.monotonic()))
        finally:
            for process in self._processes.values():
                process.kill()
            self._log.close()
            self._metadata.close()
            self._writer.close()

    def __enter__(self) -> MemberGroup:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _count_from_here(self) -> None:
        if self._last_ns is None:
            self._last_ns = time.monotonic_ns()

    def _spawn(self, config: MemberConfig, stem: Path) -> MemberProcess:
        if config.client != CLIENT:
            return VerifiableProcess(config, self._log, stem)
        endings = (stem.with_name(f"{stem.name}.{ending}") for ending in ("json", "log"))
        return PythonProcess(config, "integration.member", *endings)

    def _running(self, name: str) -> MemberProcess:
        if name not in self._processes:
            raise ConfigError(f"no member {name!r} runs in group {self.group!r}; running: {', '.join(self.running)}")
        return self._processes[name]

    def _ended(self, name: str, timeout_s: float) -> None:
        """Wait for the end of a process, kill it at the deadline, write its ``exit`` event."""
        process = self._processes[name]
        process.end(timeout_s)
        del self._processes[name]
        code = process.returncode
        assert code is not None
        fields: dict[str, Any] = {"member": name, "incarnation": process.config.incarnation, "code": code}
        if code < 0:
            fields["signal"] = signal.Signals(-code).name
        self._writer.write("exit", **fields)

    def _check_alive(self) -> None:
        for name, process in tuple(self._processes.items()):
            if process.returncode is not None:
                self._ended(name, _STOP_S)
                raise MemberDied(f"member {name!r} of group {self.group!r} {process.epitaph()}")

    def _partitions(self) -> dict[str, int]:
        topics = {topic for process in self._processes.values() for topic in process.config.topics}
        return {topic: len(self._metadata.partitions_for_topic(topic)) for topic in sorted(topics)}

    def _stable(self, committed: GroupCommitted) -> Stable:
        names = {m.member_id: m.client_id for m in committed.members}
        owned: dict[str, dict[str, list[int]]] = {}
        for member in committed.members:
            topics: dict[str, list[int]] = {}
            for topic, partition in sorted(assigned_to(member)):
                topics.setdefault(topic, []).append(partition)
            owned[member.client_id] = topics
        owners = {TopicPartition(t, p): m for m, topics in owned.items() for t, ps in topics.items() for p in ps}
        adopted_ns = max((p.adopted_ns for p in self._processes.values()), default=time.monotonic_ns())
        begun_ns = adopted_ns if self._last_ns is None else self._last_ns
        moved = moves(self._owners, owners)
        self._owners, self._last_ns = owners, None
        fields: dict[str, Any] = {"generation": committed.generation, "topics": self._partitions()}
        self._writer.write("step", name="stable", **fields, adopted_ns=adopted_ns)
        return Stable(
            committed.generation,
            committed.protocol or "",
            names.get(committed.leader or "", ""),
            owned,
            moved,
            max(0.0, (adopted_ns - begun_ns) / 1e9),
            begun_ns,
        )

    def _unstable(self, left: Sequence[str], committed: GroupCommitted | None, timeout_s: float) -> str:
        said = "none" if committed is None else f"{committed.generation} ({committed.protocol})"
        lines = [f"group {self.group!r} isn't stable after {timeout_s:g} s; last committed generation: {said}"]
        lines += [f"  due: {each}" for each in left]
        return "\n".join([*lines, *(f"  {line}" for line in seen(self._processes))])
