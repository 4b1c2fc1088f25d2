"""A group of members, one process each: start, stop, and wait until the group is stable."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kafka.errors import KafkaError

from kafka_assignors.connection import Connection
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.group.assignment import moves
from kafka_assignors.errors import ConfigError, UnknownName
from kafka_assignors.extras import install
from kafka_assignors.history.coordinator_log import GroupCommitted
from kafka_assignors.history.events import Event, file_stem
from kafka_assignors.history.writer import EventWriter

from ..errors import HarnessError, MemberDied, NotDrained, NotStable, NotSupported
from ..processes.child import uninterrupted
from ..proxy import FaultProxy, WireTap
from ..recording import RunFile
from ..topics import Topics
from .config import AIOKAFKA, BRIDGE, CLIENTS, KAFKA_PYTHON, LEAVING, RESUBSCRIBING, TRANSFORMING, MemberConfig
from .coordinator_log import CoordinatorLog
from .faults import MemberFaults
from .group_topics import GroupTopics
from .process import MemberProcess, PythonProcess
from .running import STOP_S, TICK_S, RunningMembers
from .service import Service, ServiceProcess
from .stability import Stable, assigned_to, due, names_of, seen
from .verifiable_process import VerifiableProcess

__all__ = ["MemberGroup", "Stable"]

_PROGRAMS = {
    KAFKA_PYTHON: ("kafka_assignors.integration.members.clients.kafka_python", "kafka"),
    AIOKAFKA: ("kafka_assignors.integration.members.clients.aiokafka", "aiokafka"),
    BRIDGE: ("kafka_assignors.integration.members.clients.bridge", "confluent_kafka"),
}
"""Client -> the module of members that write their own history, and the package that it needs."""
_TRANSFORMERS = {
    KAFKA_PYTHON: ("kafka_assignors.integration.members.transformers.kafka_python", "kafka"),
    AIOKAFKA: ("kafka_assignors.integration.members.transformers.aiokafka", "aiokafka"),
}
LEAVE_S = 20
"""Default time in seconds that a member may read on while it hands its partitions over."""


class MemberGroup(MemberFaults, AbstractContextManager["MemberGroup"]):
    """The members of one group, the reader of their coordinator log, and the harness's own events.

    A context manager: leaving it ends every member, also after an exception or Ctrl-C. `bootstrap`, `group`, `folder`
    and `run` stay readable. `topics` has the group's topics.

    Args:
        bootstrap: ``host:port``, several with commas; or a connection, which its members share.
        group: Group id. Use a new one per run, or the members start at an older group's commits.
        folder: Folder of the history, created if missing.
        run: Id of the run, on every event.
        session_timeout_ms: How long the coordinator waits for a silent member.
        heartbeat_interval_ms: At most a third of the session timeout; bounds how fast a member notices a rebalance.

    Raises:
        BrokerUnreachable: No broker answers.
    """

    def __init__(
        self,
        bootstrap: str | Connection,
        group: str,
        folder: Path,
        run: str,
        *,
        session_timeout_ms: int = 2000,
        heartbeat_interval_ms: int = 300,
    ) -> None:
        self.group, self.folder = group, folder
        self._connection = Connection.of(bootstrap)
        self.bootstrap, self.run = self._connection.bootstrap, run
        secured = self._connection.tls or self._connection.sasl
        self._access = self._connection.portable() if secured else None
        self._timeouts = {"session_timeout_ms": session_timeout_ms, "heartbeat_interval_ms": heartbeat_interval_ms}
        self._incarnations: dict[str, int] = {}
        self._owners: dict[TopicPartition, str] = {}
        self._closing = self._timeouts_set = False
        self._writer = RunFile(folder / f"{file_stem(group)}.harness.jsonl", run, "harness", group=group)
        log_writer = EventWriter(folder / f"{file_stem(group)}.coordlog.jsonl", run, "coordlog", group=group)
        try:
            self._log = CoordinatorLog(bootstrap, group, log_writer)
            self._topics = Topics(bootstrap)
            super().__init__(RunningMembers(group, self._writer))
            self.topics = GroupTopics(self._members, self._topics)
        except BaseException:
            with suppress(AttributeError):
                self._log.close()
            log_writer.close()
            self._writer.close()
            raise

    @property
    def running(self) -> tuple[str, ...]:
        """Names of the members that were started and neither stopped nor killed, sorted."""
        return tuple(sorted(self._members.by_name))

    def step(self, name: str, gap_ms: int | None = None, *, beside_work: bool = False) -> None:
        """Begin a named step of the scenario: the next `wait_stable` counts from here.

        `gap_ms` bounds how long a topic-partition may be without an owner in this step (law O4); None: no limit. With
        `beside_work` the time in which a service may have worked on records is left out.
        """
        bound = {} if gap_ms is None else {"gap_ms": gap_ms, **({"beside_work": True} if beside_work else {})}
        self._members.counted_from_ns = self._writer.write("step", name=name, **bound).mono_ns

    @property
    def longest_session_ms(self) -> int | None:
        """The longest session timeout of the running members; None if there are none, or one has not told its own."""
        sessions = [process.session_ms for process in self._members]
        return None if None in sessions else max((ms for ms in sessions if ms is not None), default=None)

    @property
    def broker_assigned(self) -> bool:
        """Whether a running member speaks the consumer protocol (KIP-848)."""
        return any(process.config.broker_assigned for process in self._members)

    def write(self, kind: str, **data: Any) -> Event:
        """Write an event of the harness into the group's history."""
        return self._writer.write(kind, **data)

    def start(  # options of a member, given by name
        self,
        name: str,
        topics: Collection[str],
        assignors: Sequence[str],
        *,
        client: str = KAFKA_PYTHON,
        instance_id: str | None = None,
        rack: str | None = None,
        pattern: str | None = None,
        guarded: bool = False,
        output: str | None = None,
        via: FaultProxy | None = None,
        program: Sequence[str] = (),
        service: Service | None = None,
        tap: WireTap | None = None,
        **consumer: Any,
    ) -> None:
        """Start a member and return at once.

        Args:
            name: Its name in the run; free again after it was stopped or killed.
            topics: Its subscription; empty with a `pattern`.
            assignors: Names, most wanted first; of its client's own assignors unless that is kafka-python.
            client: Its client, one of `CLIENTS`; ``java`` is Java's VerifiableConsumer in a JVM, ``confluent``
                librdkafka, ``verifiable`` ours with VerifiableConsumer's command line, ``aiokafka`` aiokafka,
                ``bridge`` an application with confluent-kafka and our assignors; ``java-consumer`` and
                ``confluent-consumer`` speak the consumer protocol (KIP-848), with an assignor of the broker.
            instance_id: Makes it a static member.
            rack: Its ``client.rack``.
            pattern: Regular expression: it subscribes to all topics whose names it matches from their beginning on.
                For the clients in `RESUBSCRIBING`.
            guarded: Apply `kafka_assignors.guard` to its consumer. Our assignors do so without this.
            output: It transforms: each record gets an output in this topic, exactly once; see `members.transformers`.
            via: Proxy that all of its connections pass, for network faults.
            program: Executable and first arguments of another client; `client` is then any name. It gets the path of
                the member's configuration and prints VerifiableConsumer's objects.
            service: It is a process of this service, which chooses assignors and settings itself. `topics` are those
                that it should read, and `client` is any name.
            tap: What the connections of a service's process pass, so that they tell of it if its recorder does not.
            **consumer: Settings of the client, by kafka-python's names. They override the harness's own.

        Raises:
            ConfigError: The name is taken, topics or assignors are missing, both topics and a pattern are given, or a
                Java member gets several topics.
            UnknownName: The client is unknown, or has no such assignor.
            MachineError: Java or jars are missing and cannot be fetched.
        """
        if name in self._members.by_name:
            raise ConfigError(
                f"{self._members.named(name)} is already running; stop or kill it, or choose another name"
            )
        needs_assignors = service is None
        if (
            isinstance(topics, str)
            or isinstance(assignors, str)
            or (needs_assignors and not assignors)
            or not (topics or pattern)
        ):
            raise ConfigError(f"member {name!r} needs lists of topics and assignors, not {topics!r} and {assignors!r}")
        if pattern is not None and (topics or client not in RESUBSCRIBING):
            raise ConfigError(
                f"member {name!r} has the pattern {pattern!r}: it needs client {' or '.join(map(repr, RESUBSCRIBING))} "
                "and takes no topics"
            )
        if service is None and (client not in CLIENTS) != bool(program):
            if program:
                raise ConfigError(f"member {name!r}: client {client!r} is the harness's own and takes no program")
            raise UnknownName("client", client, CLIENTS)
        if service is None and output is not None and client not in TRANSFORMING:
            raise UnknownName("client that transforms", client, TRANSFORMING)
        incarnation = self._next_incarnation(name)
        stem = file_stem(self.group, name, incarnation)
        config = MemberConfig(
            bootstrap=self.bootstrap if via is None else via.admit(name, self.group, incarnation),
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
            pattern=pattern,
            guarded=guarded,
            output=output,
            program=tuple(program),
            access=self._access,
            **{**self._timeouts, **{k: consumer.pop(k) for k in tuple(consumer) if k in self._timeouts}},
            consumer=consumer,
        )
        if config.broker_assigned:
            self._set_timeouts(config)
        self._members.count_from_here()
        with uninterrupted():  # else a member that joins now would outlive Ctrl-C, and its group the run
            process = self._members.by_name[name] = self._spawn(config, self.folder / stem, service, tap)
        process.via = via
        if counts := self._counts():
            self._writer.write("topics", topics=counts)

    def stop(self, name: str, timeout_s: float = STOP_S) -> None:
        """Ask a member to leave the group and wait for the end of its process.

        A process that has just been started is asked once it has begun: before that SIGTERM would kill it.

        Raises:
            ConfigError: No running member has this name, or it is paused or cut off.
            MemberDied: It didn't end within `timeout_s` and was killed, or didn't end cleanly.
        """
        self._ended(name, timeout_s, asked=self._ask_to_end(name, timeout_s, MemberProcess.terminate))

    def leave(self, *names: str, hand_over_s: float = LEAVE_S) -> None:
        """Let members hand their partitions over, as `kafka_assignors.leave` does, then leave; wait for their ends.

        Args:
            *names: Running members that leave at the same time; their clients are among `LEAVING`.
            hand_over_s: How long they may read on, in seconds.

        Raises:
            NotSupported: A client can't.
            ConfigError: No running member has this name, or it is paused or cut off.
            MemberDied: A member didn't end in time and was killed, or didn't end cleanly.
        """
        asked = {name: self.ask_to_leave(name, hand_over_s) for name in names}
        for name in names:
            self._ended(name, hand_over_s + STOP_S, asked[name])

    def ask_to_leave(self, name: str, hand_over_s: float = LEAVE_S) -> bool:
        """Begin a `leave`, and return at once whether the member still ran: what happens meanwhile is up to the caller.

        The end of the member counts as asked for if `wait_end` or `kill` follows.
        """
        config = self._members.get(name).config
        if config.client not in LEAVING or config.output is not None:
            raise NotSupported(
                f"{self._members.named(name)} can't hand its partitions over: that takes client "
                f"{' or '.join(map(repr, LEAVING))} without an output topic; stop it instead"
            )
        return self._ask_to_end(name, STOP_S, lambda process: process.command(f"leave {hand_over_s:g}"))

    def end(
        self, *names: str, grace_s: float, hand_over_s: float = 0, on_kill: Callable[[str], object] | None = None
    ) -> tuple[str, ...]:
        """End members as an orchestrator does: ask all of them at once, and kill those that outlast the grace.

        Args:
            *names: Running members.
            grace_s: Seconds from the request to SIGKILL.
            hand_over_s: Above 0, they hand their partitions over first, as by `leave`, for at most so many seconds.
            on_kill: Called with the name of a member before it is killed.

        Returns:
            The names of those that were killed.

        Raises:
            NotSupported: A client can't hand its partitions over.
            ConfigError: No running member has this name, or it is paused or cut off.
            MemberDied: A member didn't end cleanly, or another one ended unasked.
        """
        asked, killed = {}, []
        for name in names:
            if hand_over_s:
                asked[name] = self.ask_to_leave(name, hand_over_s)
            else:
                asked[name] = self._ask_to_end(name, STOP_S, MemberProcess.terminate)
            self._members.get(name).grace_s = grace_s
        while asked:
            self._members.check_alive(*asked)
            overdue = None
            for name, runs in tuple(asked.items()):
                process = self._members.get(name)
                process.catch_up()
                if process.returncode is not None:
                    del asked[name]
                    self._ended(name, STOP_S, runs)
                elif time.monotonic_ns() - (process.asked_ns or 0) >= grace_s * 1e9:
                    overdue = name
            if overdue is not None:  # only after the ends that came in time are recorded
                del asked[overdue]
                killed.append(overdue)
                if on_kill is not None:
                    on_kill(overdue)
                self.kill(overdue)
            elif asked:
                time.sleep(TICK_S)
        return tuple(killed)

    def _ask_to_end(self, name: str, timeout_s: float, ask: Callable[[MemberProcess], None]) -> bool:
        process = self._members.get(name)
        if process.paused or process.cut_off:
            what = "paused; resume" if process.paused else "cut off; heal the fault"
            raise ConfigError(f"{self._members.named(name)} is {what} or kill it")
        self._members.count_from_here()
        self._members.wait_started(name, timeout_s)
        runs = process.returncode is None
        process.asked_ns = time.monotonic_ns()
        ask(process)
        return runs

    def _ended(self, name: str, timeout_s: float, asked: bool) -> None:
        process = self._members.get(name)
        self._members.ended(name, timeout_s, asked)
        if not process.clean:
            raise MemberDied(f"{self._members.named(name)} {process.epitaph()}")

    def wait_stable(
        self, members: Collection[str] | None = None, timeout_s: float = 30, complete: bool = True
    ) -> Stable:
        """Wait until the group is stable.

        In a stable group the last committed generation has exactly these members. Each of them has adopted it, holds
        its assignment, and gave up nothing in it (a cooperative member that did must rejoin). The leader saw the
        subscribed topics as they are, and all their partitions are owned.

        Args:
            members: Names; default: all that run and are neither paused, stalled nor cut off.
            timeout_s: Deadline.
            complete: False: don't wait for partitions without an owner.

        Raises:
            NotStable: The deadline passed; the message has the last generation, each member's partitions, and errors.
            MemberDied: A member ended unasked.
        """
        if members is None:
            members = [member.config.member for member in self._members if not member.away]
        wanted = set(members)
        deadline = time.monotonic() + timeout_s
        while True:
            self._log.wait(TICK_S)
            self._members.check_alive()
            read_ns = time.monotonic_ns()
            committed = self._log.generation
            unsettled = self._log.unsettled
            for process in self._members:
                process.catch_up()
            try:
                left = unsettled or due(committed, self._members.by_name, wanted, self.topics.subscribed, complete)
            except KafkaError as error:  # a broker is gone; another will answer
                left = [f"the brokers do not list their topics: {type(error).__name__}: {error}"]
            if not left and committed is not None:
                return self._stable(committed, read_ns)
            if time.monotonic() > deadline:
                self._tell_unstable(wanted, left, committed, timeout_s)
                raise NotStable(self._unstable(left, committed, timeout_s))

    def drain(self, timeout_s: float = 30, *, committed: bool = False) -> dict[TopicPartition, int]:
        """Wait until the group has consumed every record that its topics hold now, then record that in the history.

        With `committed` it waits for commits too. Outputs of members that transform are committed with them.

        Returns:
            topic-partition -> end offset when this call began.

        Raises:
            NotDrained: The deadline passed; the message lists what is left.
            MemberDied: A member ended unasked.
        """
        tps = [TopicPartition(t, p) for t, n in self.topics.subscribed().items() for p in range(n)]
        asked_ns = time.monotonic_ns()
        bounds = self._topics.begins_and_ends(tps)
        # A partition whose records were all deleted has nothing to read, so nothing will be committed.
        left = {tp: end for tp, (begin, end) in bounds.items() if end > begin}
        deadline = time.monotonic() + timeout_s
        while True:
            self._members.check_alive()
            # Records that a killed member consumed without a commit are read again, so commits count. A commit that a
            # rebalance refused isn't repeated until a record follows, so an owner's consumed position counts as well.
            offsets = self._log.offsets
            for process in self._members:
                process.catch_up()
                if committed:
                    continue
                offsets |= {tp: max(at, offsets.get(tp, 0)) for tp, at in process.position.items()}
            left = {tp: end for tp, end in left.items() if offsets.get(tp, 0) < end}
            if not left:
                break
            if time.monotonic() > deadline:
                reached = [(tp, offsets.get(tp, 0), end) for tp, end in sorted(left.items())]
                rows = [{"topic": tp.topic, "partition": tp.partition, "offset": at, "end": e} for tp, at, e in reached]
                self._writer.write("not_drained", waited_s=timeout_s, left=rows)
                behind = ", ".join(f"{tp.topic}-{tp.partition}: {end - at}" for tp, at, end in reached)
                raise NotDrained(f"group {self.group!r} has records left after {timeout_s:g} s: {behind}")
            self._log.wait(TICK_S)
        ends = {tp: end for tp, (_, end) in sorted(bounds.items())}
        rows = [{"topic": tp.topic, "partition": tp.partition, "offset": end} for tp, end in ends.items()]
        self._writer.write("step", name="drained", offsets=rows, asked_ns=asked_ns)
        return ends

    def wait_committed(self, ends: Mapping[TopicPartition, int], timeout_s: float = 30) -> None:
        """Wait until the group has committed up to these offsets.

        Raises:
            NotStable: It had not by the deadline.
            MemberDied: A member ended unasked.
        """
        self._members.wait_until(
            lambda: all(self._log.offsets.get(tp, 0) >= end for tp, end in ends.items()),
            lambda: f"group {self.group!r} has not committed all sent records after {timeout_s:g} s",
            timeout_s,
        )

    def end_members(self) -> None:
        """End all members: terminate them, and kill those that remain. Never raises for failures of members."""
        if not self._closing:
            self._closing = True
            self._writer.write("closing")
        running = {process.config.member for process in self._members if process.returncode is None}
        for process in self._members:
            with suppress(OSError, HarnessError):  # the member or its proxy has ended
                if process.via is not None:
                    process.via.heal()
            with suppress(OSError):
                process.terminate()
            process.resume()
        deadline = time.monotonic() + STOP_S
        for name in tuple(self._members.by_name):
            self._members.ended(name, max(0.1, deadline - time.monotonic()), asked=name in running)

    def close(self) -> None:
        """End all members as `end_members` does, and the reader of the log."""
        try:
            self.end_members()
        finally:
            for process in self._members:
                process.kill()
            self._log.close()
            self._topics.close()
            self._writer.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _spawn(self, config: MemberConfig, stem: Path, service: Service | None, tap: WireTap | None) -> MemberProcess:
        if service is not None:
            return ServiceProcess(config, service, stem, partial(self._next_incarnation, config.member), tap)
        if config.client not in _PROGRAMS:
            return VerifiableProcess(config, self._log, stem)
        module, package = (_PROGRAMS if config.output is None else _TRANSFORMERS)[config.client]
        if find_spec(package) is None:
            missing = package.replace("_", "-")
            raise ConfigError(
                f"member {config.member!r} runs {missing}, which is missing: {install(missing.removesuffix('-kafka'))}"
            )
        endings = (stem.with_name(f"{stem.name}.{ending}") for ending in ("json", "log"))
        return PythonProcess(config, module, *endings)

    def _next_incarnation(self, name: str) -> int:
        """Count a process of a member, or the consumer that a process makes anew: each is an incarnation."""
        number = self._incarnations[name] = self._incarnations.get(name, -1) + 1
        return number

    def _set_timeouts(self, config: MemberConfig) -> None:
        """Set the session timeout and heartbeat interval, which the broker holds per group of this protocol."""
        timeouts = {name: getattr(config, name) for name in self._timeouts}
        if timeouts != self._timeouts:
            own = ", ".join(f"{name}={value}" for name, value in timeouts.items() if value != self._timeouts[name])
            raise ConfigError(
                f"member {config.member!r}, client {config.client!r}: {own} is the group's under the consumer protocol "
                "(KIP-848), not a member's; give it to the group"
            )
        config.require_consumer_protocol()
        if not self._timeouts_set:
            self._topics.set_consumer_group(self.group, **timeouts)
            self._timeouts_set = True

    def _counts(self) -> dict[str, int]:
        """`GroupTopics.subscribed` for the history; empty if no broker answers."""
        with suppress(KafkaError):
            return self.topics.subscribed()
        return {}

    def _stable(self, committed: GroupCommitted, read_ns: int) -> Stable:
        names = names_of(committed, self._members.by_name)
        owned: dict[str, dict[str, list[int]]] = {}
        for member in committed.members:
            topics: dict[str, list[int]] = {}
            for topic, partition in sorted(assigned_to(member)):
                topics.setdefault(topic, []).append(partition)
            owned[names[member.member_id]] = topics
        owners = {TopicPartition(t, p): m for m, topics in owned.items() for t, ps in topics.items() for p in ps}
        adopted_ns = max((p.adopted_ns for p in self._members), default=time.monotonic_ns())
        begun_ns = adopted_ns if self._members.counted_from_ns is None else self._members.counted_from_ns
        moved = moves(self._owners, owners)
        self._owners, self._members.counted_from_ns = owners, None
        fields: dict[str, Any] = {"generation": committed.generation, "topics": self.topics.subscribed()}
        # The group was stable when we read it, or when the last member adopted; it may have changed since.
        ago_ns = time.monotonic_ns() - max(read_ns, adopted_ns + 1)
        at = {"ts_ns": time.time_ns() - ago_ns, "mono_ns": time.monotonic_ns() - ago_ns}
        self._writer.write("step", name="stable", **at, **fields, adopted_ns=adopted_ns)
        return Stable(
            committed.generation,
            committed.protocol or "",
            names.get(committed.leader or "", ""),
            owned,
            moved,
            max(0.0, (adopted_ns - begun_ns) / 1e9),
            begun_ns,
        )

    def _tell_unstable(
        self, wanted: Collection[str], left: Sequence[str], committed: GroupCommitted | None, timeout_s: float
    ) -> None:
        fields: dict[str, Any] = {"members": sorted(wanted), "due": list(left)}
        if committed is not None:
            fields["generation"] = committed.generation
        if counts := self._counts():
            fields["topics"] = counts
        self._writer.write("not_stable", waited_s=timeout_s, **fields)

    def _unstable(self, left: Sequence[str], committed: GroupCommitted | None, timeout_s: float) -> str:
        generation = "none" if committed is None else f"{committed.generation} ({committed.protocol})"
        lines = [f"group {self.group!r} is not stable after {timeout_s:g} s; last committed generation: {generation}"]
        lines += [f"  due: {reason}" for reason in left]
        return "\n".join([*lines, *(f"  {line}" for line in seen(self._members.by_name))])
