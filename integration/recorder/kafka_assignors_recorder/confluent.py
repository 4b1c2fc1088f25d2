"""Wraps confluent-kafka 2 (2.0 to 2.16 have the methods): the consumer, below its deserializing and asyncio ones.

Of the producer, the transactions that commit a member's offsets.

librdkafka calls back while the service polls. It tells its generation by the metadata for transactions. It commits in
a thread of its own, by itself or because the service asks. What it chooses to commit it tells with the answer, as the
service polls again, which may be much later. Such a commit is told as begun before that if a service asks for it and
names nothing, and if partitions are revoked.
"""

from __future__ import annotations

import contextlib
import functools
import struct
import threading
import weakref

from .calls import recorded, require
from .record import MEMBER, SETTINGS, RecordedMember, runs_of, say
from .transactions import TRANSACTIONS, wrapped

TYPE_CHECKING = False  # as in `record`
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .record import File
    from .transactions import Sent

_CLIENT = "confluent-kafka"
_DEFAULTS = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 3_000, "max.poll.interval.ms": 300_000}
"""librdkafka's, of the settings that are told."""
_LATEST_S = 0.02
"""Records that were handed out one by one are written after at most this time: the client may commit them by itself,
and the next poll may wait for long."""
_METADATA = b"CGMDv2:"
_COMMIT = ("message", "offsets", "async", "asynchronous")
_STORE = ("message", "offsets")
_SUBSCRIBE = ("topics", "on_assign", "on_revoke", "on_lost")
"""Positional parameters."""
_NONE = type(None)
_LACKS = object()
"""In place of an argument that a call lacks."""
_LIFE = "_kafka_assignors_life"
"""The attribute that holds the `_Life` of a consumer."""


class _Seen:
    """A record as `RecordedMember` reads it; the service may replace key and value of its message."""

    __slots__ = ("offset", "partition", "serialized_key_size", "serialized_value_size", "topic")

    def __init__(self, message: Any) -> None:
        self.topic, self.partition, self.offset = message.topic(), message.partition(), message.offset()
        self.serialized_key_size, self.serialized_value_size = _size(message.key()), _size(message.value())


def _size(part: Any) -> int:
    return len(part) if isinstance(part, (bytes, str)) else -1


def _runs(messages: Any) -> list[dict[str, Any]]:
    """Contiguous runs of what a consumer returned; errors among them are left out.

    A service may poll a million messages a second, so that what is done for each of them is done by C.
    """
    if messages and type(messages[0]) is _Seen:
        return runs_of(messages)
    if not messages:
        return []
    message_type = type(messages[0])  # its own methods are called five times as fast as those of each message
    errors = list(map(message_type.error, messages))
    if set(map(type, errors)) != {_NONE}:  # an error of the client can't be compared with None
        return _runs([message for message, error in zip(messages, errors) if error is None])  # noqa: B905 - Python 3.9
    topics, partitions = list(map(message_type.topic, messages)), list(map(message_type.partition, messages))
    count = len(messages)
    if topics.count(topics[0]) == count and partitions.count(partitions[0]) == count:
        return _runs_of_part((topics[0], partitions[0]), messages)
    parts: dict[Any, list[Any]] = {}
    for place, message in zip(zip(topics, partitions), messages):  # noqa: B905 - Python 3.9
        parts.setdefault(place, []).append(message)
    return [run for place, part in parts.items() for run in _runs_of_part(place, part)]


def _runs_of_part(place: tuple[str, int], messages: list[Any]) -> list[dict[str, Any]]:
    """Of one partition's records; most often there is one run."""
    first, last, count = messages[0].offset(), messages[-1].offset(), len(messages)
    if last - first + 1 != count:  # offsets of markers and of compacted records are missing
        return runs_of([_Seen(message) for message in messages])
    # Offsets of a partition ascend as a client hands them out, but for a seek, before which all is written.
    message_type = type(messages[0])
    count_bytes = sum(_sum(list(map(part, messages))) for part in (message_type.key, message_type.value))
    return [
        {
            "topic": place[0], "partition": place[1], "first": first, "last": last, "count": count,
            "bytes": count_bytes,
        }
    ]  # fmt: skip


def _sum(parts: list[Any]) -> int:
    """Of the sizes of keys or values."""
    types = set(map(type, parts))
    if types == {_NONE}:
        return 0
    if types <= {bytes, _NONE}:
        return sum(map(len, filter(None, parts)))
    return sum(size for size in map(_size, parts) if size > 0)


class _Life:
    """Lives as long as the consumer that has it: librdkafka's own object has no weak references."""

    __slots__ = ("__weakref__",)


class _Group:
    """What a consumer in the group does; a `plain` one is no subclass, which may replace keys and values."""

    def __init__(self, file: File, settings: Any, *, plain: bool) -> None:
        self.member = RecordedMember(file, _CLIENT, lambda: self._member_id, self.runs)
        self._settings, self._member_id, self.plain = settings, "", plain
        self._owned: set[Any] = set()
        self._stored: dict[Any, int] = {}  # topic and partition -> offset that the client commits if it is told none
        self._commits_itself = _is_on(settings, "enable.auto.commit")
        self._stores_itself = _is_on(settings, "enable.auto.offset.store")
        self._named: list[frozenset[Any]] = []  # what the service has begun to commit, its outcome unknown
        self._chosen: list[frozenset[Any]] = []  # the same of what the client chose
        self._closed = False
        self.is_awake = False  # the thread that writes: it will write what is pending
        self.waiting, self._over = threading.Event(), threading.Event()
        threading.Thread(target=self._write_soon, name="kafka-assignors recorder", daemon=True).start()

    def _write_soon(self) -> None:
        while self.waiting.wait() and not self._over.wait(_LATEST_S):
            self.waiting.clear()
            self.is_awake = False  # before it writes: what comes then wakes it again
            self.member.guarded(self.member.flush)

    def end(self) -> None:
        """The consumer is gone, or the process ends."""
        self._over.set()
        self.waiting.set()
        self.member.guarded(self.member.flush)

    def runs(self, messages: Any) -> list[dict[str, Any]]:
        """Runs of what the consumer returned, as `_runs` makes them."""
        runs = _runs(messages)
        if self._stores_itself:
            self._stored.update({(run["topic"], run["partition"]): run["last"] + 1 for run in runs})
        return runs

    def store(self, offsets: frozenset[Any]) -> None:
        """The service says what the client may commit."""
        self._stored.update({(topic, partition): offset for topic, partition, offset in offsets})

    def start(self, topics: Iterable[str]) -> None:
        names = list(topics)
        patterns = [name for name in names if name.startswith("^")]
        more: dict[str, Any] = {"pattern": patterns[0]} if len(patterns) == len(names) == 1 else {}
        values = {**_DEFAULTS, **self._settings}
        if str(values.get("group.protocol", "classic")).lower() == "consumer":
            assignors, settings = [values.get("group.remote.assignor") or "uniform"], {}
            more["protocol"] = "consumer"
        else:
            assignors = str(values.get("partition.assignment.strategy", "range,roundrobin")).split(",")
            settings = {name: int(values[name.replace("_", ".")]) for name in SETTINGS}
        more["auto_commit"] = self._commits_itself
        given = [f"{_CLIENT}:{name.strip()}" for name in assignors]
        self.member.start(
            () if "pattern" in more else names, [name.strip() for name in assignors], given, settings,
            values.get("group.instance.id"), **more,
        )  # fmt: skip

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.member.tell("stop")

    def begin(self, name: str, consumer: Any, partitions: Any) -> None:
        generation = self._learn(consumer)
        if name == "assigned":
            self._owned |= partitions
            for place in partitions:
                self._stored.pop(place, None)
            self.member.join(generation, "", self._owned)
        else:
            if name == "revoke":
                self._commit_itself(partitions)
            self.member.generation = generation
        self.member.callback(name, "begin", partitions)

    def end_callback(self, name: str, partitions: Any) -> None:
        """The service's callback has ended; it may have committed what goes."""
        if name != "assigned":
            self._owned -= partitions
        self.member.callback(name, "end", partitions)

    def _commit_itself(self, partitions: Any) -> None:
        """The client commits what goes, after its callback: what it tells of that comes when others may have it."""
        self.member.flush()
        due = frozenset((*place, self._stored[place]) for place in partitions if place in self._stored)
        if due and self._commits_itself:
            self._choose(due)

    def _learn(self, consumer: Any) -> int:
        """Learn the member id, and return the generation; a member that was removed keeps its last ones."""
        generation, _, member_id = _metadata(bytes(consumer.consumer_group_metadata()))
        self._member_id = member_id or self._member_id
        return generation if generation >= 0 else self.member.generation

    def commit_begins(self, offsets: frozenset[Any]) -> frozenset[Any]:
        """The service commits; of an asynchronous commit, a callback tells the outcome.

        One that names nothing commits what is stored as the client sends it. The client tells what that was as it is
        answered, or as the service polls again: a process may be killed before. Returns what is known of it.
        """
        if offsets:
            self._named.append(offsets)
            self.member.commit("begin", offsets)
            return offsets
        stored = tuple(self._stored.items())  # at once: another thread may read on
        chosen = frozenset((*place, offset) for place, offset in stored if place in self._owned)
        if chosen:
            self._choose(chosen)
        return chosen

    def _choose(self, chosen: frozenset[Any]) -> None:
        """A commit begins of what the client chooses; it may choose more as it sends it."""
        self._chosen.append(chosen)
        self.member.commit("begin", chosen, by_client=True)

    def _answered(self, places: frozenset[Any]) -> None:
        """The outcome of a commit is known; one that was not begun with these offsets is begun now."""
        if places in self._named:
            self._named.remove(places)
            return
        if places not in self._chosen:
            del self._chosen[:1]  # it is the first that waits, with more
            self._choose(places)
        self._chosen.remove(places)

    def commit_fails(self, begun: Any, error: BaseException) -> None:
        """The commit was not sent, or was refused."""
        if begun:
            self._answered(begun)
            self.member.commit("fail", begun, error=f"{type(error).__name__}: {error}")

    def committed(self, partitions: Any, error: Any = None) -> None:
        """The outcome of a commit: what the client tells, partitions with offset and error; `error` is the commit's."""
        rows = [tp for tp in partitions or () if tp.offset >= 0]
        places = frozenset((tp.topic, tp.partition, tp.offset) for tp in rows)
        if places:
            self._answered(places)
        refused = [tp for tp in rows if error or tp.error]
        accepted = [tp for tp in rows if not (error or tp.error)]
        if accepted:
            self.member.commit("ok", [(tp.topic, tp.partition, tp.offset) for tp in accepted])
            for tp in accepted:
                if self._stored.get((tp.topic, tp.partition)) == tp.offset:
                    self._stored.pop((tp.topic, tp.partition), None)  # the client does not commit it again
        if refused:
            offsets = [(tp.topic, tp.partition, tp.offset) for tp in refused]
            self.member.commit("fail", offsets, error=str(error or refused[0].error))


def _is_on(settings: Any, name: str) -> bool:
    """A switch of the configuration, which is on unless it is turned off."""
    return str(settings.get(name, True)).lower() not in ("false", "f", "0")


def _metadata(data: bytes) -> tuple[int, str, str]:
    """Generation, group and member id of a consumer's metadata for transactions. ValueError: it is of another form."""
    if not data.startswith(_METADATA):
        raise ValueError(f"unknown group metadata {data[:40]!r}")
    (generation,) = struct.unpack_from("=i", data, len(_METADATA))
    group, member_id, _ = data[len(_METADATA) + 4 :].split(b"\0", 2)
    return int(generation), group.decode(), member_id.decode()


def _rebalancing(group: _Group, name: str, own: Any) -> Any:
    """The callback that the client gets: the service's, recorded. Without one the client assigns as it does then."""

    def callback(consumer: Any, partitions: Any) -> Any:
        places = {(tp.topic, tp.partition) for tp in partitions}  # the service may change it
        group.member.guarded(group.begin, name, consumer, places)
        try:
            return None if own is None else own(consumer, partitions)
        finally:
            group.member.guarded(group.end_callback, name, places)

    return callback


def _telling_commits(group: _Group, own: Any) -> Any:
    """The configuration's ``on_commit``: the service's, recorded."""

    def callback(error: Any, partitions: Any) -> Any:
        group.member.guarded(group.committed, partitions, error)
        return None if own is None else own(error, partitions)

    return callback


def _offsets(message: Any = None, offsets: Any = None, **_: Any) -> frozenset[Any]:
    """What a commit names; nothing if it commits what was stored, or the client will refuse its arguments."""
    try:
        if message is not None:
            place = message.topic(), message.partition(), message.offset() + 1
            return frozenset() if message.error() else frozenset([place])
        return frozenset((tp.topic, tp.partition, tp.offset) for tp in offsets or () if tp.offset >= 0)
    except (AttributeError, TypeError):
        return frozenset()


def _named(names: Any, given: Any, more: Any) -> dict[str, Any]:
    return {**dict(zip(names, given)), **more}  # noqa: B905 - Python 3.9


def _subscribes(args: Any, kwargs: Any) -> dict[str, Any] | None:
    """What a subscription names; None of one that the client refuses, by its arguments."""
    named = _named(_SUBSCRIBE, args, kwargs)
    topics = named.get("topics")
    if len(named) < len(args) + len(kwargs) or not set(named) <= set(_SUBSCRIBE):
        return None
    if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
        return None
    return named if all(callable(given) for name, given in named.items() if name != "topics") else None


class _Recording:
    """Stands before the client's Consumer, and records what passes between it and the service."""

    __slots__ = ()  # the client's own takes no attributes
    place: Any = None  # where the events go, and the group whose members are recorded

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        try:
            settings = {**(args[0] if args else {}), **kwargs}
            file, group_id = self.place
            own = settings.get("on_commit")
            if settings.get("group.id") == group_id and ("on_commit" not in settings or callable(own)):
                group = _Group(file, settings, plain=type(self).__mro__[1] is _Recording)
                life = _Life()
                weakref.finalize(life, group.end)
                setattr(self, _LIFE, life)
                setattr(self, MEMBER, group)
                # As it was given: one part of the settings may be a dictionary, the other one keywords.
                if args:
                    args = ({**args[0], "on_commit": _telling_commits(group, own)}, *args[1:])
                    kwargs = {name: value for name, value in kwargs.items() if name != "on_commit"}
                else:
                    kwargs["on_commit"] = _telling_commits(group, own)
        except Exception as error:
            say(f"a consumer is not recorded: {error!r}")
        if kwargs:
            super().__init__(*args, **kwargs)
        else:  # the client tells an empty one from none
            super().__init__(*args)

    def subscribe(self, *args: Any, **kwargs: Any) -> Any:
        client: Any = super()
        group = getattr(self, MEMBER, None)
        if group is None:
            return client.subscribe(*args, **kwargs)
        named = group.member.guarded(_subscribes, args, kwargs)
        if named is None:
            return client.subscribe(*args, **kwargs)
        callbacks = {name: named.get(name) for name in _SUBSCRIBE[1:]}
        group.member.guarded(group.start, named["topics"])
        on_lost = callbacks["on_lost"] or callbacks["on_revoke"]  # as the client falls back
        named["on_assign"] = _rebalancing(group, "assigned", callbacks["on_assign"])
        named["on_revoke"] = _rebalancing(group, "revoke", callbacks["on_revoke"])
        named["on_lost"] = _rebalancing(group, "lost", on_lost)
        return client.subscribe(**named)

    def consume(self, *args: Any, **kwargs: Any) -> Any:
        client: Any = super()
        group = getattr(self, MEMBER, None)
        if group is None:
            return client.consume(*args, **kwargs)
        group.member.guarded(group.member.flush)
        messages = client.consume(*args, **kwargs)
        if messages:
            group.member.guarded(lambda: group.member.tell("consume", offsets=group.runs(messages)))
        return messages

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        client: Any = super()
        group = getattr(self, MEMBER, None)
        if group is None:
            return client.commit(*args, **kwargs)
        guarded = group.member.guarded
        guarded(group.member.flush)
        named = _named(_COMMIT, args, kwargs)
        asynchronous = bool(named.get("asynchronous", named.get("async", True)))
        offsets = guarded(_offsets, **named)
        begun = guarded(group.commit_begins, offsets)
        try:
            answer = client.commit(*args, **kwargs)
        except BaseException as error:
            guarded(group.commit_fails, begun, error)
            raise
        if not asynchronous:
            guarded(group.committed, answer)
        return answer

    def store_offsets(self, *args: Any, **kwargs: Any) -> Any:
        _flush(self)
        client: Any = super()
        answer = client.store_offsets(*args, **kwargs)
        group = getattr(self, MEMBER, None)
        if group is not None:
            group.store(group.member.guarded(_offsets, **_named(_STORE, args, kwargs)) or frozenset())
        return answer

    def seek(self, *args: Any, **kwargs: Any) -> Any:
        _flush(self)
        client: Any = super()
        answer = client.seek(*args, **kwargs)
        group = getattr(self, MEMBER, None)
        if group is not None:
            group.member.guarded(_sought, group.member, *args, **kwargs)
        return answer

    def assign(self, *args: Any, **kwargs: Any) -> Any:
        _flush(self)
        client: Any = super(_Recording, type(self))  # as a method of the class: a subclass is named in errors else
        return client.assign(self, *args, **kwargs)

    def incremental_assign(self, *args: Any, **kwargs: Any) -> Any:
        _flush(self)
        client: Any = super(_Recording, type(self))
        return client.incremental_assign(self, *args, **kwargs)

    def close(self, *args: Any, **kwargs: Any) -> Any:
        client: Any = super(_Recording, type(self))
        with _closing(self, args or kwargs):
            return client.close(self, *args, **kwargs)


def _polling(original: Any) -> Any:
    """The client's poll, recorded: little is done here, as a service may poll a million messages a second."""

    def poll(self: Any, timeout: Any = _LACKS, /, *more: Any, **named: Any) -> Any:
        if more or named or timeout is _LACKS:
            given = more if timeout is _LACKS else (timeout, *more)
            message = original(self, *given, **named)
        else:  # most often; half the time of the line above
            message = original(self, timeout)
        group = getattr(self, MEMBER, None)
        if group is None:
            return message
        member = group.member
        if message is None:
            member.guarded(member.flush)
            return None
        pending = member.pending
        if group.plain:
            pending.append(message)
        elif message.error() is None:
            pending.append(_Seen(message))  # now: a subclass may replace key and value
        if len(pending) >= member.limit:
            member.guarded(member.check)
        if not group.is_awake and pending:
            group.is_awake = True
            group.waiting.set()
        return message

    return poll


def _exit(self: Any, *args: object) -> Any:
    client: Any = super(_Recording, self)
    with _closing(self):
        return client.__exit__(*args)


def _flush(consumer: Any) -> None:
    """Write the records before a change of position, or before they can be committed."""
    group = getattr(consumer, MEMBER, None)
    if group is not None:
        group.member.guarded(group.member.flush)


def _sought(member: RecordedMember, partition: Any) -> None:
    """The client took it, so that it is a topic-partition; its offset may be a name for one, below 0."""
    if partition.offset >= 0:
        member.seek(partition.topic, partition.partition, partition.offset)


def _sent(positions: Any, group_metadata: Any, timeout: Any = None) -> Sent:  # noqa: ARG001 - the client's names
    _, group, member_id = _metadata(bytes(group_metadata))
    return group, member_id, [(tp.topic, tp.partition, tp.offset) for tp in positions if tp.offset >= 0]


@contextlib.contextmanager
def _closing(consumer: Any, refused: Any = ()) -> Iterator[None]:
    """A close; `refused`: arguments, which the client doesn't take."""
    group = getattr(consumer, MEMBER, None)
    try:
        yield
    finally:
        if group is not None and not refused:
            group.member.guarded(group.close)


def wrap_consumer(file: File, group_id: str, module: Any) -> None:
    """Replace confluent-kafka's Consumer by a subclass that records; its own methods can't be changed."""
    client = module.Consumer
    methods = {name: method for name, method in vars(_Recording).items() if callable(method)}
    require(client, [*methods, "poll", "consumer_group_metadata"], _CLIENT)
    methods["poll"] = _polling(client.poll)
    if hasattr(client, "__exit__"):  # since 2.13
        methods["__exit__"] = _exit
    looks = {name: functools.wraps(getattr(client, name))(method) for name, method in methods.items()}
    same = {
        "__module__": client.__module__, "__doc__": client.__doc__, "place": (file, group_id),
        "__slots__": (MEMBER, _LIFE),
    }  # fmt: skip
    module.Consumer = type(client.__name__, (_Recording, client), {**looks, **same})


def wrap_producer(file: File, group: str, module: Any) -> None:
    """Replace confluent-kafka's Producer by a subclass that records its transactions; sending is the client's own."""
    client = module.Producer
    methods = wrapped(client, file, group, _sent, recorded)
    same = {"__module__": client.__module__, "__doc__": client.__doc__, "__slots__": (TRANSACTIONS,)}
    module.Producer = type(client.__name__, (client,), {**methods, **same})
