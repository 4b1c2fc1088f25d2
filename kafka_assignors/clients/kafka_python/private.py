"""Access to the private parts of kafka-python. No other file uses its private names.

kafka-python passes an assignor neither its consumer nor the rebalance protocol in force. The consumer's coordinator
calls the assignor, so we find it on the call stack, and reach everything else through it.

`USED` lists each private name with the consequence of its absence. `check` warns once about names that this version
does not have. The functions here then fall back to the safest answer and never raise `AttributeError`.
"""

from __future__ import annotations

import functools
import math
import re
import struct
import sys
import time
import weakref
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from types import FrameType, SimpleNamespace
from typing import Any, NamedTuple

import kafka
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.errors import (
    BrokerResponseError,
    CoordinatorNotAvailableError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    StaleMetadata,
    for_code,
)
from kafka.future import Future
from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest, OffsetCommitRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.protocol.metadata import CoordinatorType
from kafka.structs import MemberState

from ...core.group import NO_GENERATION
from ...core.group.facts import Fact
from ...core.wire.protocol import (
    EMPTY,
    MALFORMED,
    AssignedPartitions,
    all_topics,
    completed,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    read_subscription,
)
from ...errors import ConfigError
from ..fact_log import FactLog, log

VERSION: str = kafka.__version__


def is_at_least(version: str, least: tuple[int, int]) -> bool:
    """Whether a version of kafka-python is at least another, by its first two numbers; a pre-release counts as its own.

    >>> is_at_least("3.1.0.dev", (3, 1)), is_at_least("3.0.12", (3, 1))
    (True, False)
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= least


AWAIT_FOR = "_net.await_for" if is_at_least(VERSION, (3, 1)) else "_manager.wait_for"
"""Waits for a future on kafka-python's own thread, with a time limit in ms. Coordinators and fetchers have it."""


class PrivateName(NamedTuple):
    """One use of a private name.

    Args:
        path: Attribute names, from the coordinator on, joined by dots.
        lost: The consequence if the name is missing.
    """

    path: str
    lost: str


_GUARD = "guard() does not work: a fenced or evicted member keeps consuming, and claims partitions that it has lost"
GUARD = tuple(
    PrivateName(path, _GUARD)
    for path in (
        *("_handle_heartbeat_response", "_do_join_and_sync_async", "reset_generation"),
        *("ensure_coordinator_ready_async", "_on_join_complete_async", "stable", "_enable_heartbeat", "group_metadata"),
        *("_async_commit_fenced", "_assignors", "_rebalance_protocol", "rejoining", "rebalance_in_progress"),
        *("need_rejoin", "time_to_next_poll", "_on_join_prepare_async"),
        *("_subscription.assign_from_subscribed", "_subscription.assigned_partitions"),
    )
)
"""All private names that `guard` uses."""
_LEARN = "a leader treats topics that only other members read as absent until it has their metadata"
LEARN = (
    *("_manager.send", AWAIT_FOR, "_cluster.request_update", "_cluster.set_topics"),
    *("_subscription.group_subscribe", "_subscription.group_subscription", "config"),
)
"""All private names that `learn_before_leading` uses."""
_COMMITS = "commits fail while the group rebalances, even for partitions that the member keeps"
COMMITS = tuple(
    PrivateName(path, _COMMITS)
    for path in (
        *("commit_offsets_sync", "commit_offsets_async", "_on_join_complete_async"),
        *("rebalance_in_progress", "_rebalance_protocol", "group_metadata", "config", "completed_offset_commits"),
        *("coordinator_id", "ensure_coordinator_ready_async", "_net", "_manager.send", "_manager.call_soon", AWAIT_FOR),
        *("_cluster.add_coordinator", "_cluster.broker_metadata"),
        *("_subscription.all_consumed_offsets", "_subscription.assigned_partitions"),
    )
)
"""All private names that `commits` uses."""
_WAITS = "a group waits up to fetch_max_wait_ms for a member that waits for records"
WAITS = ("_net.wait_for" if is_at_least(VERSION, (3, 1)) else "_net", AWAIT_FOR, "need_rejoin")
"""All private names of a coordinator that `Wait` uses; its fetcher has the first two as well."""
_BEATS = "the second round of a cooperative rebalance begins up to heartbeat_interval_ms late"
BEATS = (
    "heartbeat.time_to_next_heartbeat",
    "heartbeat.sent_heartbeat",
    "_heartbeat_wakeup.notify",
    "config",
)
"""All private names that `Beats` uses."""
_PHASE = "the members of an eager group stop one after the other, at their next heartbeats"
PHASE = (
    *("heartbeat.time_to_next_heartbeat", "heartbeat.sent_heartbeat"),
    *("heartbeat.reset_timeouts", "heartbeat.heartbeat_failed", "config"),
)
"""All private names that `Phase` uses."""
_CLOSES = (
    "close() takes up to half a minute during a join that another member holds up, and leaves a ghost in the group"
)
CLOSES = ("_net", "_join_task", "state", "coordinator_id", "_client.close", AWAIT_FOR)
"""All private names that `give_up_join` uses."""
_LEAVE = "leave() closes the consumer at once: the group learns of it by the next heartbeats of its members"
LEAVE = (
    *("_do_join_and_sync_async", "_on_join_complete_async", "_on_close_prepare_async", "reset_generation"),
    *("time_to_next_poll", "need_rejoin", "request_rejoin", "_is_leader", "_disable_heartbeat"),
    *("fetch_committed_offsets", "_subscription.partitions_auto_assigned", *(use.path for use in COMMITS)),
)
"""All private names that `leaving` uses."""
USED = (
    *GUARD,
    *COMMITS,
    PrivateName("_rebalance_protocol", "kafka-python rejects cooperative-sticky beside an eager assignor"),
    PrivateName("_rebalance_protocol", "one assignor instance in two open consumers is not detected"),
    PrivateName("_heartbeat_closed", "one assignor instance in two open consumers is not detected"),
    PrivateName("_subscription.assigned_partitions", "a member claims its last assignment, held or not"),
    PrivateName("group_metadata", "a fenced or evicted member claims partitions that it has lost"),
    PrivateName("request_rejoin", "a leader whose poll ends during a rebalance drops out of its group silently"),
    PrivateName("config", "aiokafka leaders do not learn group_instance_id, and a name listed twice is not detected"),
    PrivateName("_client.close", "if an assignor's constructor raises, the consumer's threads and sockets stay open"),
    *(PrivateName(path, _LEARN) for path in LEARN),
    *(PrivateName(path, _BEATS) for path in BEATS),
    *(PrivateName(path, _PHASE) for path in PHASE),
    *(PrivateName(path, _LEAVE) for path in LEAVE),
    *(PrivateName(path, _WAITS) for path in WAITS),
    *(PrivateName(path, _CLOSES) for path in CLOSES),
    PrivateName("_cluster._partitions", "racks of brokers are unknown: members in a rack get any partition"),
)
"""All private names that we use of a coordinator. We recognise its class by ``group_protocols``, and a consumer has it
as ``_coordinator``. Without these two names an assignor is not attached, and logs a warning (`adapter.Assignor`)."""

_warned: set[str] = set()


def warn_once(text: str) -> None:
    """Log a warning once per process, even if it concerns several consumers."""
    if text not in _warned:
        _warned.add(text)
        log.warning("%s", text)


def check(coordinator: Any) -> None:
    """Warn about each private name that this kafka-python does not have, with the consequences; once per process."""
    lost: dict[str, dict[str, None]] = {}
    for use in USED:
        if name := missing(coordinator, use.path):
            lost.setdefault(name, {})[use.lost] = None
    for name, sentences in lost.items():
        warn_once(without(name, *sentences))


def without(name: str, *lost: str) -> str:
    """The warning that kafka-python does not have a name."""
    return (
        f"kafka-python {VERSION} has no {name!r}, which kafka-assignors uses. Without it: "
        f"{'; '.join(lost)}. Install a newer kafka-assignors, or kafka-python 3.0.12"
    )


def missing(thing: Any, path: str) -> str | None:
    """The first missing name of a path of attributes."""
    for name in path.split("."):
        if not hasattr(thing, name):
            return name
        thing = getattr(thing, name)
    return None


def _get(thing: Any, path: str, default: Any) -> Any:
    return default if missing(thing, path) else attrgetter(path)(thing)


def calling_coordinator() -> Any:
    """The coordinator that calls an assignor: while its consumer is created, joins the group or leads it.

    Returns:
        kafka-python's ``ConsumerCoordinator``; None if it is not on the call stack of this thread.
    """
    return next((this for this in _callers() if hasattr(type(this), "group_protocols")), None)


def calling_fetcher() -> Any:
    """What hands out the records of the consumer that is being made, joins or polls; None if it isn't in the stack."""
    return next((found for this in _callers() if (found := getattr(this, "_fetcher", None)) is not None), None)


def fetcher_of(consumer: Any) -> Any:
    """What hands out a consumer's records; None if it isn't known."""
    return _get(consumer, "_fetcher", None)


def calling_client_rack() -> str | None:
    """The ``client_rack`` of the consumer that is being created. kafka-python itself sends it only with fetches."""
    for this in _callers():
        config = getattr(this, "config", None)
        if isinstance(config, Mapping) and "partition_assignment_strategy" in config:
            return config.get("client_rack") or None
    return None


def _callers() -> Iterable[Any]:
    """The objects whose methods are on the call stack, innermost first. No class check: tests may replace classes."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if (this := frame.f_locals.get("self")) is not None:
            yield this
        frame = frame.f_back


def coordinator_of(consumer: Any) -> Any:
    """A consumer's coordinator.

    Raises:
        ConfigError: It is not a ``KafkaConsumer`` of a supported version.
    """
    if (coordinator := _get(consumer, "_coordinator", None)) is None:
        raise ConfigError(
            f"{type(consumer).__name__} has no coordinator; pass a KafkaConsumer of kafka-python 3.0.12 (installed: "
            f"kafka-python {VERSION})"
        )
    return coordinator


def is_open(coordinator: Any) -> bool:
    """Whether the coordinator's consumer is fully created and not closed."""
    made = _get(coordinator, "_rebalance_protocol", None) is not None
    return made and not _get(coordinator, "_heartbeat_closed", True)


def close_half_made(coordinator: Any) -> None:
    """Close the resources of a consumer whose constructor is about to raise; its caller never gets the consumer.

    A consumer opens its client, with a thread and three file descriptors, before it calls its assignors.
    """
    if _get(coordinator, "_rebalance_protocol", None) is not None:
        return  # the consumer is complete and is joining
    metrics = _get(coordinator, "config", {}).get("metrics")
    for close in (_get(metrics, "close", None), _get(coordinator, "_client.close", None)):
        if close is not None:
            close()


def listed_twice(coordinator: Any) -> str | None:
    """A name that two entries of the consumer's ``partition_assignment_strategy`` share, or None.

    kafka-python would use the last of them and drop the other silently. Entries without a name are skipped.
    """
    seen: set[str] = set()
    for name in _names(_get(coordinator, "config", {}).get("assignors", ())):
        if name in seen:
            return name
        seen.add(name)
    return None


def _names(entries: Iterable[Any]) -> Iterable[str]:
    for entry in entries:
        name = getattr(getattr(entry, "func", entry), "name", None)  # a partial has its class in `func`
        if isinstance(name, str):
            yield name


def instance_id(coordinator: Any) -> str | None:
    """The ``group_instance_id`` of a static member."""
    found: str | None = _get(coordinator, "config", {}).get("group_instance_id")
    return found


def shows_protocol(coordinator: Any) -> bool:
    """Whether the coordinator shows which rebalance protocol is in force."""
    return missing(coordinator, "_rebalance_protocol") is None


def is_cooperative(coordinator: Any) -> bool:
    """Whether the COOPERATIVE rebalance protocol is in force: the best protocol that all its assignors support."""
    # If the coordinator does not show it, our assignor supports COOPERATIVE only, so no other can be in force.
    in_force = _get(coordinator, "_rebalance_protocol", RebalanceProtocol.COOPERATIVE)
    return bool(in_force == RebalanceProtocol.COOPERATIVE)


def is_fenced(member: Any) -> bool:
    """Whether a coordinator, or a consumer, is in no generation: it never joined, it left, or it was evicted."""
    tells: Callable[[], Any] | None = _get(member, "group_metadata", None)
    return tells is not None and bool(tells().generation_id == NO_GENERATION)


def generation(coordinator: Any) -> tuple[int, str]:
    """A guarded consumer's generation, and its member id in it."""
    metadata = coordinator.group_metadata()
    return int(metadata.generation_id), str(metadata.member_id)


def start_heartbeats(coordinator: Any) -> None:
    """Send heartbeats from now on, also between two polls; while ``stable`` says that the member is in its group."""
    coordinator._enable_heartbeat()


def is_in_generation(coordinator: Any, generation: int) -> bool:
    """Whether a consumer's group is in this generation; True if the coordinator does not show it."""
    tells: Callable[[], Any] | None = _get(coordinator, "group_metadata", None)
    return tells is None or bool(tells().generation_id == generation)


def held(coordinator: Any, assigned: Collection[tuple[str, int]]) -> Collection[tuple[str, int]]:
    """The partitions that a consumer may consume at this moment; none once it is fenced.

    Args:
        coordinator: The consumer's coordinator.
        assigned: Its last assignment, the fallback if the coordinator does not show what it holds.
    """
    # A member that is evicted during a join keeps its assignment in memory until the next one arrives.
    if is_fenced(coordinator):
        return ()
    tells: Callable[[], Collection[tuple[str, int]]] = _get(
        coordinator, "_subscription.assigned_partitions", lambda: assigned
    )
    return tells()


def request_rebalance(coordinator: Any) -> None:
    """Make a consumer's next poll join the group again.

    The group rebalances if the consumer leads it, or if its subscription has changed.

    Source: KIP-568, ``enforceRebalance``, which kafka-python 3.0.12 doesn't have.
    """
    _get(coordinator, "request_rejoin", lambda: None)()


def progress(coordinator: Any) -> list[tuple[Any, int, int | None]]:
    """Of each partition that a consumer has: the next record to hand out, and the end offset as last fetched."""
    found = []
    for partition, state in tuple(coordinator._subscription.assignment.items()):
        if state.position is not None and not state.paused:
            found.append((partition, state.position.offset, state.highwater))
    return found


def lacks_for_meter(coordinator: Any, fetcher: Any) -> list[str]:
    """The names that measuring needs and this kafka-python doesn't have."""
    found = [missing(coordinator, path) for path in ("poll", "_subscription.assignment", "request_rejoin")]
    return [name for name in (*found, missing(fetcher, "fetch_records")) if name]


def keep_rejoining(coordinator: Any) -> None:
    """Make a leader join again if its ``poll`` times out during this join; call it while the assignor assigns.

    kafka-python 3.0.12 stores the reason for which it rejoins. If the reason is changed metadata, the leader clears it
    as soon as it assigns. If that ``poll`` then times out before the SyncGroup response arrives, the next ``poll`` does
    nothing: no assignment, no heartbeats, no error, even after the coordinator has evicted the member. A third of the
    starts of a small group on a busy machine ended this way. This function renews the request, so the next ``poll``
    joins again.

    Args:
        coordinator: The coordinator of the consumer whose assignor assigns.
    """
    _get(coordinator, "request_rejoin", lambda: None)()


def _needed(consumer: Any, name: str) -> Callable[..., Any]:
    method: Callable[..., Any] | None = _get(coordinator_of(consumer), name, None)
    if method is None:
        raise ConfigError(
            f"kafka-python {VERSION} has no {name!r}, without which only its own poll() can maintain the group "
            "membership; install a newer kafka-assignors, or kafka-python 3.0.12"
        )
    return method


def must_rejoin(consumer: Any) -> bool:
    """Whether the consumer's next `rebalance` joins the group. Cheap.

    Raises:
        ConfigError: This kafka-python does not have the private name.
    """
    return bool(_needed(consumer, "need_rejoin")())


def rebalance(consumer: Any, timeout_s: float) -> bool:
    """Do the group part of ``poll`` (join if due, liveness, callbacks) without fetching records.

    Returns as soon as the join is complete, where ``poll`` would wait for records.

    Args:
        consumer: A subscribed ``KafkaConsumer``.
        timeout_s: Time limit of the join, seconds. The next call continues a join that outlasts it.

    Returns:
        Whether the member is in its group's generation.

    Raises:
        KafkaError: A fatal response of the coordinator, or an error of a rebalance listener.
        ConfigError: This kafka-python does not have the private name.
    """
    return bool(_needed(consumer, "poll")(timeout_ms=1000 * timeout_s))


SKIP_EVERY_S = 0.5
"""A consumer that must join again does not wait for records, at most so often: no storm of joins that lead nowhere."""


class Wait:
    """A consumer's wait for records in ``poll``, which a rebalance ends.

    kafka-python 3.0.12 waits for the response to a fetch, up to ``fetch_max_wait_ms`` (500 ms) if no records come, even
    if a heartbeat has told that the group rebalances, or if it must join again itself after it has revoked partitions.
    With no partitions, as a new member, it sleeps for ``retry_backoff_ms``. The group waits for it meanwhile. Java's
    consumer wakes up.
    """

    _OF_FETCHER = (*WAITS[:2], "fetch_records")

    def __init__(self) -> None:
        self._net: Any = None
        self._coordinator: Any = None
        self._wakeup: Any = None
        self._await_for: Any = None
        self._skipped_s = -math.inf

    def watch(self, coordinator: Any, fetcher: Any) -> None:
        """Take hold of the wait of a consumer, once; does nothing without its fetcher or a private name."""
        if self._net is not None or fetcher is None:
            return
        if missing(coordinator, "need_rejoin") or any(missing(fetcher, name) for name in self._OF_FETCHER):
            return
        self._coordinator, self._net = weakref.proxy(coordinator), fetcher._net
        self._await_for = attrgetter(AWAIT_FOR)(fetcher)
        fetcher._net = self
        fetcher.fetch_records = self._fetching(fetcher.fetch_records)

    def end(self) -> None:
        """End it; call it on kafka-python's own thread."""
        if self._wakeup is not None and not self._wakeup.is_done:
            self._wakeup.success(None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._net, name)

    def run(self, what: Any, *args: Any, **settings: Any) -> Any:
        """What the fetcher runs on kafka-python's thread; in 3.0, its wait for records among it."""
        if getattr(what, "__name__", "") == "wait_for":
            return self._net.run(self._wait, *args)
        return self._net.run(what, *args, **settings)

    def wait_for(self, fetched: Any, timeout_ms: float | None, raise_error: bool = True) -> None:
        """The fetcher's wait for records in 3.1."""
        try:
            self._net.run(self._wait, fetched, timeout_ms, timeout_ms=timeout_ms)
        except Exception:
            if raise_error:
                raise

    def _fetching(self, fetch: Callable[..., Any]) -> Callable[..., Any]:
        """Wait here if there is nothing to fetch, where the consumer would sleep."""

        @functools.wraps(fetch)
        def fetch_records(*args: Any, timeout_ms: float | None = None, **kwargs: Any) -> tuple[Any, bool]:
            records, idle = fetch(*args, timeout_ms=timeout_ms, **kwargs)
            if records or not idle or not timeout_ms or timeout_ms <= 0:
                return records, idle
            with suppress(KafkaTimeoutError, KafkaConnectionError):  # the latter if the consumer is closed meanwhile
                self._net.run(self._wait, Future(), min(timeout_ms, 1000 * backoff_s(self._coordinator)))
            return records, False

        return fetch_records

    async def _wait(self, fetched: Any, timeout_ms: float | None) -> None:
        self._wakeup = Future()
        fetched.add_both(lambda _: self.end())
        if self._coordinator.need_rejoin() and time.monotonic() >= self._skipped_s + SKIP_EVERY_S:
            self._skipped_s = time.monotonic()
            self.end()
        await self._await_for(self._wakeup, timeout_ms)


class Interrupted:
    """Records that an interrupted ``poll`` has taken and not returned: the next ``poll`` takes them again.

    kafka-python 3.0.12 moves a partition's position when it takes records, so a signal handler that raises (Ctrl-C) in
    ``poll`` loses them: the next commit, also that of ``close``, is beyond them.
    """

    _OF_FETCHER = ("fetch_records", "_append", "_subscriptions.assignment")

    def __init__(self) -> None:
        self._before: dict[Any, Any] = {}  # topic-partition -> its position before this poll

    def watch(self, fetcher: Any) -> None:
        """Take hold of a fetcher; does nothing without it, or without a private name."""
        if fetcher is None or any(missing(fetcher, name) for name in self._OF_FETCHER):
            return
        fetch, append, subscriptions = fetcher.fetch_records, fetcher._append, fetcher._subscriptions

        @functools.wraps(append)
        def taking(drained: Any, part: Any, *args: Any) -> Any:
            state = subscriptions.assignment.get(part.topic_partition) if part else None
            if state is not None and state.position is not None:
                self._before.setdefault(part.topic_partition, state.position)
            return append(drained, part, *args)

        @functools.wraps(fetch)
        def fetching(*args: Any, **kwargs: Any) -> Any:
            self._before.clear()
            try:
                return fetch(*args, **kwargs)
            except Exception:
                raise  # kafka-python keeps what it has taken
            except BaseException:
                for tp, position in self._before.items():
                    if (state := subscriptions.assignment.get(tp)) is not None:
                        state.seek(position)
                raise

        fetcher._append, fetcher.fetch_records = taking, fetching


class Beats:
    """Early heartbeats of a cooperative member that has adopted an assignment.

    A cooperative rebalance has two rounds: the second one begins when the members that had to revoke partitions join
    again, and all others learn of it by their next heartbeat, up to ``heartbeat_interval_ms`` later (3 s by default).
    Until then nobody reads these partitions. So a member sends a heartbeat as soon as it has adopted an assignment,
    the next one after `FIRST_WAIT_S`, then after twice as long each time, until one tells of a rebalance or the wait
    reaches the interval: 8 requests in 3 s. Each waits for the answer to the one before.
    """

    FIRST_WAIT_S = 0.025

    def __init__(self) -> None:
        self._due_s = self._wait_s = math.inf
        self._interval_s = 0.0
        self._notify: Callable[[], None] | None = None

    def watch(self, coordinator: Any) -> None:
        """Take hold of a coordinator's heartbeats; does nothing if a private name is missing."""
        if any(missing(coordinator, path) for path in BEATS):
            return
        heartbeat = coordinator.heartbeat
        self._interval_s = coordinator.config["heartbeat_interval_ms"] / 1000
        self._notify = coordinator._heartbeat_wakeup.notify
        usual, sent = heartbeat.time_to_next_heartbeat, heartbeat.sent_heartbeat

        def time_to_next_heartbeat() -> float:
            return min(float(usual()), max(0.0, self._due_s - time.monotonic()))

        def sent_heartbeat() -> None:
            sent()
            early = self._wait_s < self._interval_s
            self._due_s = time.monotonic() + self._wait_s if early else math.inf
            self._wait_s = 2 * self._wait_s if early else math.inf

        heartbeat.time_to_next_heartbeat, heartbeat.sent_heartbeat = time_to_next_heartbeat, sent_heartbeat

    def begin(self) -> None:
        """The member has adopted an assignment; call it on kafka-python's own thread."""
        if self._notify is not None:
            self._due_s, self._wait_s = time.monotonic(), self.FIRST_WAIT_S
            self._notify()

    def end(self) -> None:
        """The group rebalances again, or the member is in it no more."""
        self._due_s = self._wait_s = math.inf


class Phase:
    """The heartbeats of an eager member: at the same moments as those of the other members of its group.

    An eager member stops reading when a heartbeat tells it of a rebalance, and nobody reads its partitions until the
    last member has heard of it. kafka-python sends each heartbeat an interval after the one before, so members drift
    apart with every delay of one of them. This sends them at multiples of the interval on the wall clock, later by an
    offset that is a hash of the group's id, because not all groups should send theirs at once.

    Clocks that differ cost no more than heartbeats at any phase. There are never more heartbeats than intervals, and
    at most 1.1 intervals from one to the next.
    """

    LEAST_SHARE = 0.1
    """Of an interval: a multiple that is nearer than this is left out, else a timer that ends early sends two."""

    def __init__(self) -> None:
        self._due_s = 0.0
        self._interval_s = self._offset_s = 0.0

    def watch(self, coordinator: Any) -> None:
        """Take hold of a coordinator's heartbeats; does nothing if a private name is missing."""
        if any(missing(coordinator, path) for path in PHASE):
            return
        heartbeat = coordinator.heartbeat
        config = coordinator.config
        self._interval_s = config["heartbeat_interval_ms"] / 1000
        self._offset_s = zlib.crc32(str(config["group_id"]).encode()) / 2**32 * self._interval_s
        usual, sent, reset = heartbeat.time_to_next_heartbeat, heartbeat.sent_heartbeat, heartbeat.reset_timeouts

        def time_to_next_heartbeat() -> float:
            if heartbeat.heartbeat_failed or is_cooperative(coordinator):
                return float(usual())
            return max(0.0, self._due_s - time.monotonic())

        def sent_heartbeat() -> None:
            sent()
            self._plan()

        def reset_timeouts() -> None:
            reset()
            self._plan()

        heartbeat.time_to_next_heartbeat = time_to_next_heartbeat
        heartbeat.sent_heartbeat, heartbeat.reset_timeouts = sent_heartbeat, reset_timeouts
        self._plan()

    def _plan(self) -> None:
        wait_s = self._interval_s - (time.time() - self._offset_s) % self._interval_s
        if wait_s < self.LEAST_SHARE * self._interval_s:
            wait_s += self._interval_s
        self._due_s = time.monotonic() + wait_s


_gave_up: weakref.WeakSet[Any] = weakref.WeakSet()


def give_up_join(coordinator: Any, before: tuple[int, str]) -> None:
    """Make a consumer that is being closed wait for no join; call it on any thread but kafka-python's own.

    While a JoinGroup or SyncGroup waits for other members, a broker reads nothing more from its connection, neither a
    commit nor a LeaveGroup, and kafka-python waits for the responses. So this closes that connection; the next
    request opens another one. Does nothing if a private name is missing.

    Args:
        coordinator: The consumer's coordinator.
        before: Its `generation` when it last sent a JoinGroup.
    """
    if not any(missing(coordinator, path) for path in CLOSES):
        run(coordinator, _give_up_join, coordinator, before)


async def _give_up_join(coordinator: Any, before: tuple[int, str]) -> None:
    _gave_up.add(coordinator)
    task = coordinator._join_task
    if task is not None and not task.is_done and not generation(coordinator)[1]:
        # The coordinator gives a new member its id at once, and only by this id can the member leave.
        with suppress(Exception):
            await attrgetter(AWAIT_FOR)(coordinator)(task, MEMBER_ID_MS)
    now = generation(coordinator)
    if task is not None and not task.is_done and coordinator.coordinator_id is not None:
        coordinator._client.close(coordinator.coordinator_id)
        if now == before and now[0] != NO_GENERATION:
            # The join was not answered, so the member is still in its old generation, and may commit in it.
            coordinator.state = MemberState.STABLE
    elif now[1] and coordinator.state is MemberState.UNJOINED:
        coordinator.state = MemberState.REBALANCING  # else kafka-python doesn't leave: it only has an id yet


MEMBER_ID_MS = 500
"""How long a member that is being closed waits for its id."""


def gave_up(coordinator: Any) -> bool:
    """Whether the consumer is being closed and must not join (`give_up_join`)."""
    return coordinator in _gave_up


def learn_before_leading(coordinator: Any) -> None:
    """Make an elected leader wait for the metadata of all topics of the group before its assignor is called.

    kafka-python 3.0.12 requests the metadata of topics that only other members read, but does not wait for them. All
    members that hold partitions of these topics would lose them for a generation. Java's leader waits
    (``ConsumerCoordinator.onLeaderElected``, ``ensureFreshMetadata``), and so do the leaders of librdkafka, franz-go
    and aiokafka. A consumer that lacks one of the private names (`LEARN`) is not changed.
    """
    if not any(missing(coordinator, path) for path in LEARN) and not isinstance(coordinator._manager, _Learning):
        coordinator._manager = _Learning(coordinator)


class _Learning:
    """A coordinator's connection manager. It delays a leader's JoinGroup response until its metadata are complete.

    Args:
        coordinator: The owner of the connection manager; weakly referenced.
    """

    def __init__(self, coordinator: Any) -> None:
        self._coordinator, self._manager = weakref.proxy(coordinator), coordinator._manager
        self._fact_log = FactLog()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        sent = self._manager.send(request, *args, **kwargs)
        return self._joined(sent) if isinstance(request, JoinGroupRequest) else sent

    async def _joined(self, sent: Any) -> Any:
        answer = await sent
        if not answer.error_code and answer.leader == answer.member_id:
            subscriptions = completed([bytes(member.metadata) for member in answer.members])
            facts = []
            for m, why in _undecodable(subscriptions):  # kafka-python would fail on it, and so the whole group
                member_id, subscriptions[m] = answer.members[m].member_id, EMPTY
                facts.append(Fact("unread", member_id, f"member {member_id!r} {why}"))
            self._fact_log.warn(str(answer.protocol_name), facts)
            for member, subscription in zip(answer.members, subscriptions, strict=True):
                member.metadata = subscription
            await learn(self._coordinator, all_topics(subscriptions))
        return answer


def _undecodable(data: Sequence[bytes]) -> Iterator[tuple[int, str]]:
    """The members, by number, whose subscriptions kafka-python can't decode, and why."""
    if len(data) > _FEW:
        from ...core.wire import bulk  # see `preload`

        read = bulk.subscriptions(data)
    else:
        read = [read_subscription(each) for each in data]
    for m, each in enumerate(read):
        if each.version == MALFORMED and not _decodes(data[m]):
            yield m, each.unread


_FEW = 32
"""Up to so many members, decoding one by one is as fast as together, and needs no NumPy."""


def _decodes(data: bytes) -> bool:
    """Whether kafka-python, which takes more for a subscription than others, makes a sound one of these bytes."""
    try:
        decoded = ConsumerProtocolSubscription.decode(data)
        owned = decoded.owned_partitions or ()
        names = [*decoded.topics, *(run.topic for run in owned)]
        return all(isinstance(each, str) for each in names) and all(run.partitions is not None for run in owned)
    except (ValueError, TypeError, IndexError, struct.error):
        return False


ANSWERS = 2
"""Number of metadata responses without a topic that prove its absence. The first response may belong to a request that
did not name the topic."""


async def learn(coordinator: Any, topics: Collection[str]) -> None:
    """Wait until the consumer has metadata of all topics, or until `ANSWERS` responses came without them.

    Raises:
        StaleMetadata: No broker answered within half a session timeout; kafka-python joins again.
    """
    cluster, await_for = coordinator._cluster, attrgetter(AWAIT_FOR)(coordinator)
    coordinator._subscription.group_subscribe(topics)
    cluster.set_topics(coordinator._subscription.group_subscription())
    deadline = time.monotonic() + coordinator.config["session_timeout_ms"] / 2000
    answers = 0
    while answers < ANSWERS and len(partitions(cluster, topics)) < len(topics):
        left_ms = 1000 * (deadline - time.monotonic())
        if left_ms <= 0:
            raise StaleMetadata(
                f"the group's leader got no metadata of {', '.join(sorted(topics)[:3])} within half a session timeout"
            )
        try:
            await await_for(cluster.request_update(), left_ms)
        except BrokerResponseError:
            pass  # this is a response: the only requested topic is unavailable
        except KafkaError:
            continue  # no response: a broker disconnected, and kafka-python retries with another; or time is up
        answers += 1


def partitions(cluster: Any, topics: Iterable[str]) -> dict[str, Mapping[int, Any]]:
    """Topic -> partition id -> its metadata (``leader_id``, ``replica_nodes``), for the topics that the cluster has.

    If the private name is missing, the metadata are None. The public methods take a call per partition and broker,
    which is too slow for a join in a large cluster.
    """
    known: Mapping[str, Mapping[int, Any]] | None = _get(cluster, "_partitions", None)
    if known is not None:
        return {topic: known[topic] for topic in topics if topic in known}
    ids = {topic: cluster.partitions_for_topic(topic) for topic in topics}
    return {topic: dict.fromkeys(found) for topic, found in ids.items() if found is not None}


def replica_nodes(partition: Any) -> tuple[int, ...]:
    """Node ids of a partition's replicas, from its metadata; () if unknown."""
    try:
        return () if partition is None else tuple(partition.replica_nodes)
    except AttributeError:
        warn_once(without("replica_nodes", "racks of replicas are unknown: members in a rack get any partition"))
        return ()


def leader_node(partition: Any) -> int | None:
    """Node id of a partition's leader, from its metadata; None if unknown."""
    try:
        return None if partition is None else int(partition.leader_id)
    except AttributeError:
        warn_once(without("leader_id", "racks of leaders are unknown: members in a rack get any partition"))
        return None


def unguardable(coordinator: Any) -> list[str]:
    """The missing names among those that `guard` uses."""
    return _lacks(coordinator, GUARD)


def lacks_for_commits(coordinator: Any) -> list[str]:
    """The missing names among those that `commits` uses."""
    return _lacks(coordinator, COMMITS)


def _lacks(coordinator: Any, needed: Iterable[PrivateName]) -> list[str]:
    found = (missing(coordinator, use.path) for use in needed)
    return list(dict.fromkeys(name for name in found if name))


Wrap = Callable[[Any, Callable[..., Any]], Callable[..., Any]]
"""(coordinator, its original method) -> the replacement."""


def wrap(coordinator: Any, *, on_heartbeat: Wrap, reset: Wrap, find: Wrap, poll: Wrap) -> None:
    """Wrap the coordinator's methods for a heartbeat response, a reset of the generation, the search for the group's
    coordinator, and the group part of ``poll``.
    """
    _wrap(
        coordinator,
        {
            "ensure_coordinator_ready_async": find,
            "poll": poll,
            "_handle_heartbeat_response": on_heartbeat,
            "reset_generation": reset,
        },
    )


def wrap_pauses(coordinator: Any, *, prepare: Wrap, pause: Wrap) -> None:
    """Wrap what the coordinator does before a join, and how long ``poll`` may wait for records, in seconds."""
    _wrap(coordinator, {"_on_join_prepare_async": prepare, "time_to_next_poll": pause})


def wrap_joins(coordinator: Any, *, join: Wrap, joined: Wrap, stable: Wrap) -> None:
    """Wrap the coordinator's methods for a join, the adoption of its assignment, and whether to send heartbeats."""
    _wrap(coordinator, {"_do_join_and_sync_async": join, "_on_join_complete_async": joined, "stable": stable})


def wrap_close(coordinator: Any, closing: Wrap) -> None:
    """Wrap the coordinator's public method ``close``."""
    _wrap(coordinator, {"close": closing})


def wrap_commits(coordinator: Any, *, sync: Wrap, asynchronous: Wrap, joined: Wrap) -> None:
    """Wrap the coordinator's two commit methods and the method that adopts a new assignment."""
    _wrap(
        coordinator,
        {"commit_offsets_async": asynchronous, "commit_offsets_sync": sync, "_on_join_complete_async": joined},
    )


def _wrap(coordinator: Any, replacements: Mapping[str, Wrap]) -> None:
    for name, around in replacements.items():
        setattr(coordinator, name, around(coordinator, getattr(coordinator, name)))


def is_retriable(error: KafkaError) -> bool:
    """Whether kafka-python calls an error retriable: a broker that is away, metadata that are not known yet."""
    return bool(getattr(error, "retriable", False))


RECONNECT_MAX_MS = 1000
"""Default of Java's ``reconnect.backoff.max.ms``."""


def cap_reconnects(coordinator: Any) -> None:
    """Make a consumer try at least once in `RECONNECT_MAX_MS` to reach a broker, unless its user chose another limit.

    kafka-python's default for ``reconnect_backoff_max_ms``, 30 s, lets a consumer go on without a broker that has been
    back for a long time. A user who sets that same value can't be told from one who sets none.
    """
    config = _get(coordinator, "_manager.config", {})
    if config.get("reconnect_backoff_max_ms") == kafka.KafkaConsumer.DEFAULT_CONFIG["reconnect_backoff_max_ms"]:
        config["reconnect_backoff_max_ms"] = max(RECONNECT_MAX_MS, config["reconnect_backoff_ms"])


def backoff_s(coordinator: Any) -> float:
    """The consumer's ``retry_backoff_ms``, in seconds."""
    return float(_get(coordinator, "config", {}).get("retry_backoff_ms", 100)) / 1000


async def sleep(coordinator: Any, seconds: float) -> None:
    """Sleep on kafka-python's own thread; not at all if its event loop is unknown."""
    if (pause := _get(coordinator, "_net.sleep", None)) is not None:
        await pause(seconds)


def rebalancing(coordinator: Any) -> bool:
    """Whether a cooperative member has joined and waits for its assignment; it keeps its partitions meanwhile."""
    return bool(is_cooperative(coordinator) and coordinator.rebalance_in_progress() and not gave_up(coordinator))


def joins(coordinator: Any) -> bool:
    """Whether the member has sent a join whose assignment it has not adopted yet."""
    return bool(coordinator.rebalance_in_progress())


def must_join(coordinator: Any) -> bool:
    """Whether the member's next ``poll`` joins or waits for a join."""
    return bool(coordinator.need_rejoin())


def reads_on(coordinator: Any) -> bool:
    """Whether the member must join, and keeps partitions until the group has joined.

    Not if kafka-python forgets a join that outlasts a poll.
    """
    return (
        must_join(coordinator)
        and not missing(coordinator, "request_rejoin")
        and is_cooperative(coordinator)
        and not is_fenced(coordinator)
        and bool(coordinator._subscription.assigned_partitions())
    )


def by_pattern(coordinator: Any) -> bool:
    """Whether the member subscribes to a pattern."""
    return coordinator._subscription.subscribed_pattern is not None


def joined_generation(coordinator: Any) -> int:
    """The generation that a member is joining, while its assignor assigns; `NO_GENERATION` if it is unknown."""
    tells: Callable[[], Any] | None = _get(coordinator, "group_metadata", None)
    return NO_GENERATION if tells is None else int(tells().generation_id)


def owned(coordinator: Any) -> Collection[Any]:
    """The topic-partitions of the consumer's assignment in memory."""
    found: Collection[Any] = coordinator._subscription.assigned_partitions()
    return found


def member_id(coordinator: Any) -> str:
    """The member id; an evicted member gets a new one when it joins again."""
    return str(coordinator.group_metadata().member_id)


def default_callback(coordinator: Any) -> Callable[[Any, Any], None]:
    """The callback of an asynchronous commit that has no callback."""
    return _get(coordinator, "config", {}).get("default_offset_commit_callback") or (lambda _offsets, _answer: None)


def fence(coordinator: Any) -> None:
    """Stop a member: its partitions are lost (not revoked), and each later ``poll`` and ``commit`` raises."""
    coordinator.reset_generation()
    # kafka-python's own flag for asynchronous commits: every poll and commit checks it first.
    coordinator._async_commit_fenced = True


def was_fenced(coordinator: Any) -> bool:
    """Whether `fence` stopped the member, or an asynchronous commit found that it is fenced."""
    return bool(coordinator._async_commit_fenced)


def assignors(coordinator: Any) -> Iterable[Any]:
    """The assignors of the coordinator's consumer."""
    return tuple(coordinator._assignors.values())


def drop_claims(assignor: Any) -> None:
    """Make kafka-python's own cooperative assignor claim nothing after its member has lost its partitions."""
    if missing(assignor, "member_assignment"):
        lost = "kafka-python's cooperative assignor claims partitions that a guarded member has lost"
        warn_once(without("member_assignment", lost))
    assignor.member_assignment = None


def lose_in_join(coordinator: Any) -> None:
    """If a member is evicted during a join, report its partitions as lost before it joins again."""
    if coordinator.rejoining and coordinator._subscription.assigned_partitions():
        if coordinator._rebalance_protocol == RebalanceProtocol.COOPERATIVE:
            coordinator.rejoining = False  # the next attempt then prepares its join again and reports lost partitions
        else:
            coordinator._subscription.assign_from_subscribed([])


def forbid_topic_creation(consumer: Any) -> None:
    """Stop a new ``KafkaConsumer`` from creating topics with its metadata requests on brokers that auto-create topics.

    kafka-python 3.0.12 accepts ``allow_auto_create_topics=False`` but does not pass it to its metadata requests.
    """
    consumer._client.cluster.config["allow_auto_create_topics"] = False


# ------------------------------------------------------------------------------------------------ leaving


def lacks_for_leave(coordinator: Any) -> list[str]:
    """The missing names among those that `leaving` uses."""
    return [name for name in (missing(coordinator, path) for path in LEAVE) if name]


def is_closed(consumer: Any) -> bool:
    """Whether a consumer was closed."""
    return bool(_get(consumer, "_closed", False))


def is_subscribed(coordinator: Any) -> bool:
    """Whether a consumer has a group and a subscription: no topics by ``assign``."""
    return coordinator.config["group_id"] is not None and bool(coordinator._subscription.partitions_auto_assigned())


def polls(consumer: Any) -> bool:
    """Whether a thread is in this consumer's ``poll`` (or ``consume``), also below a signal handler of that thread."""
    for frame in sys._current_frames().values():
        found: FrameType | None = frame
        while found is not None:
            if found.f_code.co_name in ("poll", "consume") and found.f_locals.get("self") is consumer:
                return True
            found = found.f_back
    return False


def forget_iterator(consumer: Any) -> None:
    """Drop the records that a ``for`` loop over the consumer has fetched and not handed out: they are polled again."""
    consumer._iterator = None


def consumed(coordinator: Any) -> dict[Any, Any]:
    """Topic-partition -> ``OffsetAndMetadata`` of the next record to hand out, for those with a known position."""
    found: dict[Any, Any] = coordinator._subscription.all_consumed_offsets()
    return found


def commits_by_itself(coordinator: Any) -> bool:
    """Whether the consumer has ``enable_auto_commit``."""
    return bool(coordinator.config["enable_auto_commit"])


def request_timeout_ms(coordinator: Any) -> float:
    """The consumer's ``request_timeout_ms``."""
    return float(coordinator.config["request_timeout_ms"])


def partitions_of(assignment: bytes) -> set[Any]:
    """The topic-partitions of an assignment as a leader sends it; zero bytes have none."""
    return set(ConsumerProtocolAssignment.decode(assignment).partitions()) if assignment else set()


def stop_auto_commits(coordinator: Any) -> None:
    """From now on, commit only when asked to."""
    coordinator.config["enable_auto_commit"] = False


def wrap_departure(coordinator: Any, *, protocols: Wrap, poll: Wrap) -> None:
    """Wrap what a member sends to join, and the group part of ``poll``."""
    _wrap(coordinator, {"group_protocols": protocols, "poll": poll})


def leads(coordinator: Any) -> bool:
    """Whether the member led its generation."""
    return bool(coordinator._is_leader)


def joining_to_leave(coordinator: Any, protocols: Iterable[tuple[str, Any]], topics: bool) -> list[tuple[str, bytes]]:
    """What a member sends to join that will leave: its owned partitions, and the generation that assigned them.

    The generation differs from that of its last join. The coordinator would answer equal bytes with the old assignment.

    Args:
        coordinator: Its coordinator.
        protocols: What it would send.
        topics: Whether it names its topics.
    """
    number, _ = generation(coordinator)
    found = []
    for name, metadata in protocols:
        sent = decode_subscription(metadata if isinstance(metadata, bytes) else bytes(metadata.encode()))
        sent = sent._replace(generation=max(sent.generation, number), topics=sent.topics if topics else ())
        found.append((name, encode_subscription(sent)))
    return found


def await_commits(coordinator: Any, timeout_s: float) -> None:
    """Wait until the coordinator has answered all commits that were sent: it answers a connection in order.

    Raises:
        KafkaError: It doesn't answer in time.
    """
    some = tuple(coordinator._subscription.assigned_partitions())[:1]
    coordinator.fetch_committed_offsets(some, timeout_ms=1000 * timeout_s)


NOTHING = encode_assignment(AssignedPartitions({}))
"""The assignment of a member that gets no partitions."""


def run(coordinator: Any, work: Callable[..., Any], *args: Any) -> Any:
    """Run a coroutine function on kafka-python's own thread, and wait for it; if that is unknown, only return None."""
    return None if missing(coordinator, "_net") else coordinator._net.run(work, *args)


async def done_within(coordinator: Any, future: Any, seconds: float) -> bool:
    """Wait on kafka-python's own thread until a future is done; False after the time limit."""
    with suppress(KafkaTimeoutError):
        await attrgetter(AWAIT_FOR)(coordinator)(future, 1000 * seconds)
    return bool(future.is_done)


def commit_later(
    coordinator: Any, work: Callable[..., Any], offsets: Any, callback: Callable[[Any, Any], None] | None
) -> Any:
    """Run a commit on kafka-python's own thread; the next ``poll`` calls back. Returns its future."""
    future = coordinator._manager.call_soon(work, offsets)
    told = callback or default_callback(coordinator)
    future.add_both(lambda answer: coordinator.completed_offset_commits.appendleft((told, offsets, answer)))
    return future


async def give_up(coordinator: Any) -> None:
    """Call ``on_partitions_revoked`` for all partitions that are left (or ``on_partitions_lost``), as ``close`` does.

    Raises:
        KafkaError: The callback raised.
    """
    await coordinator._on_close_prepare_async()


async def _beside(coordinator: Any, request: Any, timeout_s: float) -> Any:
    """Send a request to the group's coordinator on a connection of its own.

    A broker answers the requests of one connection in order. While it holds a join back until all members have joined,
    nothing else gets an answer on that connection.

    Raises:
        KafkaError: No answer within the time limit.
    """
    begun = time.monotonic()
    if not await coordinator.ensure_coordinator_ready_async(timeout_ms=1000 * timeout_s):
        raise KafkaTimeoutError(f"the group's coordinator is not known after {timeout_s:.1f} s")
    node = coordinator._cluster.broker_metadata(coordinator.coordinator_id)
    if node is None:
        raise CoordinatorNotAvailableError
    other = SimpleNamespace(
        error_code=0, error_message="", node_id=f"{node.node_id}-beside", host=node.host, port=node.port
    )
    key = f"{coordinator.config['group_id']} (beside)"
    node_id = coordinator._cluster.add_coordinator(other, CoordinatorType.GROUP, key)
    left_s = max(0.0, begun + timeout_s - time.monotonic())
    sent = coordinator._manager.send(request, node_id=node_id)
    return await attrgetter(AWAIT_FOR)(coordinator)(sent, 1000 * left_s)


async def commit_beside(coordinator: Any, offsets: Mapping[Any, Any], timeout_s: float) -> None:
    """Commit, even while the member waits for a join: a broker accepts it until all members have joined.

    Raises:
        KafkaError: The coordinator's answer, or none within the time limit.

    Source: apache/kafka 4.3.0 ``ClassicGroup.validateOffsetCommit``.
    """
    number, member = generation(coordinator)
    topics: dict[str, list[Any]] = {}
    for tp, offset in offsets.items():
        partition = OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
            partition_index=tp.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            committed_metadata=offset.metadata,
        )
        topics.setdefault(tp.topic, []).append(partition)
    request = OffsetCommitRequest(
        max_version=8,
        group_id=coordinator.config["group_id"],
        generation_id_or_member_epoch=number,
        member_id=member,
        group_instance_id=instance_id(coordinator),
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )
    response = await _beside(coordinator, request, timeout_s)
    for topic, partitions in response.topics:
        for partition, code in partitions:
            if code:
                raise for_code(code)(f"commit of {topic}-{partition}")


async def leave_group(coordinator: Any, member: str, timeout_s: float) -> None:
    """Tell the coordinator that a member leaves, also a static one, and reset its generation.

    Raises:
        KafkaError: No answer within the time limit.
    """
    identity = LeaveGroupRequest.MemberIdentity(
        member_id=member, group_instance_id=instance_id(coordinator), reason="leaves its group after a hand-over"
    )
    request = LeaveGroupRequest(group_id=coordinator.config["group_id"], member_id=member, members=[identity])
    coordinator._disable_heartbeat()  # else the answer to one would be a warning
    try:
        await _beside(coordinator, request, timeout_s)
    finally:
        coordinator.reset_generation()
