"""Records what the kafka-python consumer of a service does, without a change to the service.

A process records if its environment variable `FILE` names a file. The events are those of
`kafka_assignors.history.events`, one JSON object per line, with the number of the consumer in its process (`consumer`).
They are written before the service goes on; records that an iterator hands out quickly are written together. The
harness adds them to the history.

The service's interpreter may lack kafka-assignors, and may be older, so this module uses the standard library of
Python 3.8 alone. It wraps methods of kafka-python's classes as they are imported. A wrapper returns what the method
returns and raises what it raises. If the recorder itself fails, it says so once in its file and stops, and the service
goes on.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import json
import operator
import os
import sys
import threading
import time
import weakref

TYPE_CHECKING = False  # typing's own would be imported in every process of a service
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any

    Steps = Generator[None, BaseException | None, None]

FILE = "KAFKA_ASSIGNORS_RECORD"
GROUP = "KAFKA_ASSIGNORS_RECORD_GROUP"
_CALLBACKS = {"on_partitions_revoked": "revoke", "on_partitions_assigned": "assigned", "on_partitions_lost": "lost"}
_FLUSH_NS = 20_000_000
"""Records that an iterator hands out quickly are written together: those of at most about this time."""
_STEP = 64
"""The rate of an iterator is checked after at most this many records; a slow iterator's are written one by one."""
_MEMBER = "_kafka_assignors_member"
"""The attribute of a coordinator in the group that holds its `_Member`."""
_PARTITION, _OFFSET = operator.attrgetter("topic", "partition"), operator.attrgetter("offset")
_SIZES = operator.attrgetter("serialized_key_size"), operator.attrgetter("serialized_value_size")


def _say(text: str) -> None:
    """Tell the service's operator; a process may have no standard error."""
    with contextlib.suppress(Exception):
        sys.stderr.write(f"kafka-assignors: {text}\n")


def _plain(value: Any) -> Any:
    """Convert a value that json cannot write: an offset may be an integer of NumPy's."""
    try:
        return operator.index(value)
    except TypeError:
        return str(value)


_encode = json.JSONEncoder(separators=(",", ":"), default=_plain).encode


class _File:
    """The file of one process. A forked process gets its own file, because both would write to one."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._pid, self._fd = prefix, 0, -1
        self._place: Any = None  # device and inode
        self._torn = False
        self._numbers = itertools.count()
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        """Make a new lock: at a fork, a thread that the child lacks may hold the old one."""
        self.lock = threading.RLock()

    def number(self) -> int:
        """The number of the next consumer."""
        return next(self._numbers)

    def write(self, row: Any) -> None:
        """Write one line."""
        self._open()
        # A line that the disk took a part of is ended, so that it damages no other one.
        line = b"\n" * self._torn + _encode(row).encode() + b"\n"
        while line:
            self._torn = True
            line = line[os.write(self._fd, line) :]
        self._torn = False

    def _open(self) -> None:
        pid = os.getpid()
        if pid == self._pid:
            try:  # a daemon closes what it finds open, and its own files take the numbers
                status = os.fstat(self._fd)
                if (status.st_dev, status.st_ino) == self._place:
                    return
            except OSError:
                pass
        self._fd = os.open(f"{self._prefix}.{pid}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        status = os.fstat(self._fd)
        self._pid, self._place = pid, (status.st_dev, status.st_ino)


class _Member:
    """What a consumer in the group does, as events.

    Args:
        file: Where the events go.
        coordinator: The consumer's coordinator; weakly referenced, as its end must not depend on the recorder.
        pending: Records that an iterator has handed out and that are not written yet.
        limit: The number of pending records at which `check` is called.
    """

    def __init__(self, file: _File, coordinator: Any) -> None:
        self._file, self._coordinator = file, weakref.ref(coordinator)
        self._number, self._pid = file.number(), os.getpid()
        self._generation, self._member_id = -1, ""
        self._started = self._failed = False
        self.pending: Any = []
        self.limit = self._step = 1
        self._checked_ns = self._flushed_ns = 0

    def guarded(self, step: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        """Do a step of the recorder. If the step fails, the recorder stops, and the service goes on.

        Returns:
            What the step returns; None if it failed, or the recorder has stopped.
        """
        try:
            return None if self._failed else step(*given, **named)
        except Exception as error:
            self.fail(error)
        return None

    def fail(self, error: Any) -> None:
        """Say that recording ended here: what comes later is not in the file. Never raises."""
        text = "the recorder stopped"
        try:
            with self._file.lock:
                if self._failed:
                    return
                self._failed = True
                self.pending = collections.deque(maxlen=0)  # takes nothing
                text = f"{text}: {type(error).__name__}: {error}"
                self._write("error", {"error": type(error).__name__, "fatal": False, "message": text})
        except Exception:
            _say(text)

    def tell(self, kind: str, **fields: Any) -> None:
        """Write the records that were handed out, then this event. A consumer that never joins has no events."""
        if self._started:
            with self._file.lock:
                self.flush()
                self._write(kind, fields)

    def start(self, coordinator: Any) -> None:
        """Tell the subscription and settings once, before the first join."""
        if self._started:
            return
        self._started = True
        config, subscription = coordinator.config, coordinator._subscription
        assignors = list(coordinator._assignors.values())
        ours = [type(assignor).__module__.startswith("kafka_assignors.") for assignor in assignors]
        prefixes = ["service" if is_ours else "kafka-python" for is_ours in ours]
        names = ("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms")
        settings = {name: config[name] for name in names if name in config}
        pattern = subscription.subscribed_pattern
        given = [f"{prefix}:{assignor.name}" for prefix, assignor in zip(prefixes, assignors)]  # noqa: B905 - Python 3.9
        more = {} if pattern is None else {"pattern": pattern.pattern}
        if any(ours):
            more["early_heartbeats"] = True
        self.tell(
            "start",
            topics=sorted(subscription.subscription or ()),
            assignors=[str(assignor.name) for assignor in assignors],
            config={"assignors": given, **settings, **more},
        )

    def join(self, generation: Any, protocol: Any, partitions: Any) -> None:
        """The member adopts the assignment of a generation."""
        self._generation = generation
        self.tell("generation", generation=generation, protocol=protocol, partitions=_rows(partitions))

    def callback(self, name: str, edge: str, partitions: Any) -> None:
        """A rebalance callback begins or ends, or would if the service had set one."""
        self.tell(f"{name}_{edge}", generation=self._generation, partitions=_rows(partitions))

    def commit(self, edge: str, offsets: Any, **error: str) -> None:
        """A commit begins, is accepted or is refused."""
        ordered = sorted(offsets.items())
        rows = [{"topic": tp.topic, "partition": tp.partition, "offset": om.offset} for tp, om in ordered]
        self.tell(f"commit_{edge}", offsets=rows, **error)

    def hand_out(self, batches: Any) -> None:
        """The service gets what a poll returns."""
        self.tell("consume", offsets=[run for records in batches.values() for run in _runs(records)])

    def check(self) -> None:
        """Write the pending records, which reached the limit, if they come slowly or have waited."""
        now_ns = time.monotonic_ns()
        elapsed_ns, self._checked_ns = now_ns - self._checked_ns, now_ns
        if elapsed_ns > _FLUSH_NS:
            self._step = 1
        elif 4 * elapsed_ns < _FLUSH_NS:
            self._step = min(_STEP, 2 * self._step)
        if now_ns - self._flushed_ns > _FLUSH_NS:
            self.flush()
        self.limit = len(self.pending) + self._step

    def flush(self) -> None:
        """Write the records that an iterator has handed out."""
        if not self.pending:
            return
        with self._file.lock:
            records = self.pending[:]
            del self.pending[: len(records)]  # in place: the thread of the iterator may add to it now
            self.limit = self._step
            self._flushed_ns = time.monotonic_ns()
            if self._pid != (pid := os.getpid()):  # those of the parent, which writes them itself
                self._pid = pid
            elif records and self._started:
                # Pending are records of one poll, whose partitions follow each other.
                same = _PARTITION(records[0]) == _PARTITION(records[-1])
                parts = [records] if same else [list(part) for _, part in itertools.groupby(records, _PARTITION)]
                self._write("consume", {"offsets": [run for part in parts for run in _runs(part)]})

    def _write(self, kind: str, fields: Any) -> None:
        # The id is empty after the membership is lost, but the events of that loss belong to the old id.
        coordinator = self._coordinator()
        if coordinator is not None:
            self._member_id = coordinator._generation.member_id or self._member_id
        row = {
            "kind": kind, "mono_ns": time.monotonic_ns(), "ts_ns": time.time_ns(), "pid": os.getpid(),
            "consumer": self._number, **fields,
        }  # fmt: skip
        if self._member_id:
            row["member_id"] = self._member_id
        self._file.write(row)


def _rows(partitions: Any) -> list[dict[str, Any]]:
    return [{"topic": tp[0], "partition": tp[1]} for tp in sorted(partitions)]


def _runs(records: Any) -> Iterator[dict[str, Any]]:
    """Contiguous runs of one partition's records, whose offsets ascend; most often there is one run."""
    if not records:
        return
    first, last = records[0].offset, records[-1].offset
    if last - first + 1 == len(records):
        yield _run(records)
        return
    # Offsets of markers and of compacted records are missing.
    numbered = enumerate(records)
    for _, part in itertools.groupby(numbered, lambda pair: pair[1].offset - pair[0]):
        yield _run([record for _, record in part])


def _run(records: Any) -> dict[str, Any]:
    count = 0
    for size in _SIZES:
        sizes = list(map(size, records))
        count += sum(sizes) + sizes.count(-1)  # -1: without a key, or without a value
    topic, partition = _PARTITION(records[0])
    first, last = records[0].offset, records[-1].offset
    return {
        "topic": topic, "partition": partition, "first": first, "last": last, "count": len(records), "bytes": count,
    }  # fmt: skip


# What is recorded of a method: a generator that yields where the method runs, and then gets its exception or None.
# One that ends before records nothing more.


def _preparing(member: _Member, coordinator: Any, *_: Any, **__: Any) -> Steps:
    """A rebalance begins: an eager member gives up all partitions; a removed member has lost them."""
    member.start(coordinator)
    before, lost = _owned(coordinator), coordinator._generation.is_lost()
    yield
    gone = before if lost or _eager(coordinator) else before - _owned(coordinator)
    if gone and _silent(coordinator):
        for edge in ("begin", "end"):
            member.callback("lost" if lost else "revoke", edge, gone)


def _completing(
    decode: Callable[[Any], Any], member: _Member, coordinator: Any,
    generation: Any, member_id: Any, protocol: Any, member_assignment_bytes: Any,  # noqa: ARG001 - the client's names
) -> Steps:  # fmt: skip
    """A member adopts its assignment."""
    before, partitions = _owned(coordinator), set(decode(member_assignment_bytes).partitions())
    member.join(generation, protocol, partitions)
    yield
    after = _owned(coordinator)
    if not _silent(coordinator) or after != partitions:  # the client refuses one of a topic that is not subscribed
        return
    eager = _eager(coordinator)
    for name, changed in (
        ("revoke", set() if eager else before - after),
        ("assigned", after if eager else after - before),
    ):
        for edge in ("begin", "end") if changed else ():
            member.callback(name, edge, changed)


def _closing(member: _Member, coordinator: Any, *_: Any, **__: Any) -> Steps:
    """A member gives up its partitions to leave."""
    before = _owned(coordinator)
    if not before or not _silent(coordinator) or not coordinator._subscription.partitions_auto_assigned():
        return
    name = "lost" if coordinator._generation.is_lost() else "revoke"
    member.callback(name, "begin", before)
    yield
    member.callback(name, "end", before)


def _calling(member: _Member, _: Any, method_name: Any, arg: Any) -> Steps:
    """The client calls the service's rebalance listener."""
    name = _CALLBACKS.get(method_name)
    if name is None:
        return
    partitions = set(arg)  # the service may change it
    member.callback(name, "begin", partitions)
    yield
    member.callback(name, "end", partitions)


def _committing(member: _Member, _: Any, offsets: Any) -> Steps:
    """The client sends a commit."""
    committed = dict(offsets or {})  # the service may change its own while it is sent
    if not committed:
        return
    member.commit("begin", committed)
    error = yield
    if error is None:
        member.commit("ok", committed)
    else:
        member.commit("fail", committed, error=f"{type(error).__name__}: {error}")


def _unsubscribing(member: _Member, consumer: Any, *_: Any, **__: Any) -> Steps:
    """A member gives up its partitions and leaves, and the client calls no listener."""
    coordinator = consumer._coordinator
    before = _owned(coordinator)
    if not before or not coordinator._subscription.partitions_auto_assigned():
        return
    name = "lost" if coordinator._generation.is_lost() else "revoke"
    member.callback(name, "begin", before)
    yield
    member.callback(name, "end", before)


def _stopping(member: _Member, consumer: Any, *_: Any, **__: Any) -> Steps:
    """The service closes its consumer."""
    if consumer._closed:
        return
    yield
    member.tell("stop")


def _owned(coordinator: Any) -> set[Any]:
    return set(coordinator._subscription.assigned_partitions())


def _silent(coordinator: Any) -> bool:
    """Whether the client calls no rebalance listener; then only the subscription shows changes."""
    return not coordinator._subscription.rebalance_listener


def _eager(coordinator: Any) -> bool:
    return bool(coordinator._rebalance_protocol.name == "EAGER")


class _Course:
    """The recording of one call of a method.

    Args:
        member: The member that makes the call; None if the consumer is not in the group.
        steps: One of the generators above.
        subject, given, named: The coordinator or consumer, and the arguments of its method.
    """

    def __init__(self, member: _Member | None, steps: Any, subject: Any, given: Any, named: Any) -> None:
        self._member, self._running = member, None
        if member is not None:
            self._running = member.guarded(self._begin, steps, member, subject, *given, **named)

    @staticmethod
    def _begin(steps: Any, /, *given: Any, **named: Any) -> Any:
        running = steps(*given, **named)
        for _ in running:
            return running
        return None

    def end(self, error: BaseException | None = None) -> None:
        """The method has returned, or raised an error."""
        if self._member is not None and self._running is not None:
            self._member.guarded(self._finish, self._running, error)

    @staticmethod
    def _finish(running: Any, error: BaseException | None) -> None:
        with contextlib.suppress(StopIteration):
            running.send(error)


def _of_coordinator(coordinator: Any) -> Any:
    return getattr(coordinator, _MEMBER, None)


def _of_consumer(consumer: Any) -> Any:
    return getattr(getattr(consumer, "_coordinator", None), _MEMBER, None)


def _recorded_async(original: Any, steps: Any) -> Any:
    """Wrap a coordinator's method: its calls are recorded."""

    @functools.wraps(original)
    async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        course = _Course(_of_coordinator(self), steps, self, args, kwargs)
        try:
            answer = await original(self, *args, **kwargs)
        except BaseException as error:
            course.end(error)
            raise
        course.end()
        return answer

    return method


def _recorded(original: Any, steps: Any) -> Any:
    """Wrap a consumer's method: its calls are recorded."""

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        course = _Course(_of_consumer(self), steps, self, args, kwargs)
        try:
            answer = original(self, *args, **kwargs)
        except BaseException as error:
            course.end(error)
            raise
        course.end()
        return answer

    return method


def _wrap_coordinator(file: _File, group: str, module: Any) -> None:
    """Wrap the ConsumerCoordinator of kafka-python 3.0: joins, callbacks and commits."""
    cls = module.ConsumerCoordinator
    steps_of = {
        "_on_join_prepare_async": _preparing,
        "_on_join_complete_async": functools.partial(_completing, module.ConsumerProtocolAssignment.decode),
        "_on_close_prepare_async": _closing,
        "_invoke_rebalance_listener_async": _calling,
        "_send_offset_commit_request": _committing,
    }
    if missing := [name for name in steps_of if not hasattr(cls, name)]:
        raise AttributeError(f"this version of kafka-python lacks {', '.join(missing)}")
    original = cls.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            if self.group_id == group:
                member = _Member(file, self)
                weakref.finalize(self, member.guarded, member.flush)  # also at exit, of a consumer that is not closed
                setattr(self, _MEMBER, member)
        except Exception as error:
            _say(f"a consumer is not recorded: {error!r}")

    cls.__init__ = init
    for name, steps in steps_of.items():
        setattr(cls, name, _recorded_async(getattr(cls, name), steps))


def _wrap_consumer(module: Any) -> None:
    """Wrap kafka-python's KafkaConsumer: the records that it hands out, and its end."""
    cls = module.KafkaConsumer
    poll_original, next_original = cls.poll, cls.__next__

    @functools.wraps(poll_original)
    def poll(self: Any, *args: Any, **kwargs: Any) -> Any:
        member = _of_consumer(self)
        if member is None:
            return poll_original(self, *args, **kwargs)
        member.guarded(member.flush)
        batches = poll_original(self, *args, **kwargs)
        # An iterator polls too, without updating offsets, and hands the records out one by one.
        if batches and (args[2] if len(args) > 2 else kwargs.get("update_offsets", True)):
            member.guarded(member.hand_out, batches)
        return batches

    @functools.wraps(next_original)
    def following(self: Any) -> Any:
        record = next_original(self)
        try:
            member = self._coordinator._kafka_assignors_member
        except AttributeError:
            return record
        # This much for every record: appending is all.
        pending = member.pending
        pending.append(record)
        if len(pending) >= member.limit:
            member.guarded(member.check)
        return record

    cls.poll, cls.__next__ = poll, following
    cls.unsubscribe, cls.close = _recorded(cls.unsubscribe, _unsubscribing), _recorded(cls.close, _stopping)


class _Loader:
    """Loads a module by the module's own loader, then wraps it. Modules may share a loader, so no loader is changed."""

    def __init__(self, spec: Any, wrap: Callable[[Any], None]) -> None:
        self._spec, self._original, self._wrap = spec, spec.loader, wrap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def create_module(self, spec: Any) -> Any:
        """Create the module by its own loader."""
        return self._original.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """Execute the module by its own loader, then wrap it. The module does not show this loader."""
        module.__loader__ = self._spec.loader = self._original
        self._original.exec_module(module)
        try:
            self._wrap(module)
        except Exception as error:
            _say(f"{module.__name__} is not recorded: {error!r}")


class _Wrapping:
    """Wraps modules right after their import; they are found and loaded as usual."""

    def __init__(self, wrappers: Any) -> None:
        self._wrappers = wrappers

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module that is wrapped; None for all others."""
        wrap = self._wrappers.get(name)
        if wrap is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec, wrap)
                else:
                    _say(f"{name} is not recorded: its loader is {type(spec.loader).__name__}")
                return spec
        return None


def install() -> None:
    """Record this process's consumers in the group that the environment names."""
    prefix, group = os.environ.get(FILE), os.environ.get(GROUP)
    if prefix and group:
        wrappers: dict[str, Any] = {
            "kafka.coordinator.consumer": functools.partial(_wrap_coordinator, _File(prefix), group),
            "kafka.consumer.group": _wrap_consumer,
        }
        sys.meta_path.insert(0, _Wrapping(wrappers))
        for name, wrap in wrappers.items():
            if name in sys.modules:  # a .pth file has imported it
                wrap(sys.modules[name])
