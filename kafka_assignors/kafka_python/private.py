"""All of kafka-python that the assignors use and that is not its public interface. No other file names any of it.

kafka-python shows an assignor neither its consumer nor the rebalance protocol in force. But the consumer's coordinator
is in the call stack whenever kafka-python calls an assignor, so it is found there, and everything else through it.

`USED` says what stops working when a version renames one of these names. `check` tells that once, as a warning;
the functions here then answer what is safest and never raise `AttributeError`.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import FrameType
from typing import Any

import kafka
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.errors import BrokerResponseError, KafkaError, StaleMetadata
from kafka.protocol.consumer import JoinGroupRequest

from ..core.group import NO_GENERATION
from ..core.wire import bulk
from ..errors import ConfigError
from ..fact_log import log


@dataclass(frozen=True)
class PrivateName:
    """One use of a private name.

    Args:
        path: Attributes from the coordinator on, joined by dots.
        lost: What no longer works without it.
    """

    path: str
    lost: str


_GUARD = "guard() can't work: a member that was fenced or thrown out goes on consuming, and claims what it has lost"
GUARD = tuple(
    PrivateName(path, _GUARD)
    for path in (
        *("_handle_heartbeat_response", "_do_join_and_sync_async", "reset_generation"),
        *("_async_commit_fenced", "_assignors", "_rebalance_protocol", "rejoining"),
        *("_subscription.assign_from_subscribed", "_subscription.assigned_partitions"),
    )
)
"""What `guard` needs, all of it."""
_LEARN = "a leader assigns nothing of a topic that only others read until its metadata have come, and calls it absent"
LEARN = (
    *("_manager.send", "_manager.wait_for", "_cluster.request_update", "_cluster.set_topics"),
    *("_subscription.group_subscribe", "_subscription.group_subscription", "config"),
)
"""What `learn_before_leading` needs, all of it."""
_COMMITS = "a commit is refused while the group rebalances, also of partitions that the member keeps"
COMMITS = tuple(
    PrivateName(path, _COMMITS)
    for path in (
        *("commit_offsets_sync", "commit_offsets_async", "_on_join_complete_async"),
        *("ensure_active_group", "rebalance_in_progress"),
        *("_subscription.assigned_partitions", "_rebalance_protocol", "group_metadata"),
    )
)
"""What `commits` needs, all of it."""
USED = (
    *GUARD,
    *COMMITS,
    PrivateName(
        "_rebalance_protocol", "cooperative-sticky is COOPERATIVE only: beside an eager assignor it is refused"
    ),
    PrivateName("_rebalance_protocol", "one assignor instance in two open consumers isn't refused"),
    PrivateName("_heartbeat_closed", "one assignor instance in two open consumers isn't refused"),
    PrivateName("_subscription.assigned_partitions", "a member claims what it was assigned, held or not"),
    PrivateName("group_metadata", "a member that was fenced or thrown out claims what it has lost"),
    PrivateName("request_rejoin", "a leader whose poll ends during a rebalance falls out of its group in silence"),
    PrivateName("config", "group_instance_id isn't told to aiokafka's leaders, and a name listed twice isn't refused"),
    PrivateName("_client.close", "a consumer that an assignor refuses leaves its threads and sockets behind"),
    *(PrivateName(path, _LEARN) for path in LEARN),
    PrivateName("_cluster._partitions", "racks of brokers are not seen: members in a rack get any partition"),
)
"""What is used of a coordinator. Its class is recognised by ``group_protocols``, a consumer has it as ``_coordinator``:
without these two an assignor is not attached, and says so (`kafka_assignor.Assignor.attach`)."""

VERSION: str = kafka.__version__

_told: set[str] = set()


def tell(text: str) -> None:
    """Warn once in a process, however many consumers it is true of."""
    if text not in _told:
        _told.add(text)
        log.warning("%s", text)


def check(coordinator: Any) -> None:
    """Tell which private names this kafka-python doesn't have, and what no longer works: one warning per name, once."""
    lost: dict[str, dict[str, None]] = {}
    for use in USED:
        if name := missing(coordinator, use.path):
            lost.setdefault(name, {})[use.lost] = None
    for name, sentences in lost.items():
        tell(without(name, *sentences))


def without(name: str, *lost: str) -> str:
    """The warning that kafka-python has a name no more."""
    return (
        f"kafka-python {VERSION} has no {name!r}, which kafka-assignors uses; without it: "
        f"{'; '.join(lost)}. Install a newer kafka-assignors, or kafka-python 3.0.12"
    )


def missing(thing: Any, path: str) -> str | None:
    """The first name of a path of attributes that isn't there."""
    for name in path.split("."):
        if not hasattr(thing, name):
            return name
        thing = getattr(thing, name)
    return None


def _get(thing: Any, path: str, default: Any) -> Any:
    return default if missing(thing, path) else attrgetter(path)(thing)


def calling_coordinator() -> Any:
    """The coordinator that is calling an assignor: its consumer is being made, or it joins, or it leads.

    Returns:
        kafka-python's ``ConsumerCoordinator``; None when it isn't in the call stack of this thread.
    """
    return next((this for this in _callers() if hasattr(type(this), "group_protocols")), None)


def calling_client_rack() -> str | None:
    """The ``client_rack`` of the consumer that is being made. kafka-python itself sends it with fetches alone."""
    for this in _callers():
        config = getattr(this, "config", None)
        if isinstance(config, Mapping) and "partition_assignment_strategy" in config:
            return config.get("client_rack") or None
    return None


def _callers() -> Iterable[Any]:
    """What calls, the nearest first. Of the objects' classes nothing is imported: a test may have replaced them."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if (this := frame.f_locals.get("self")) is not None:
            yield this
        frame = frame.f_back


def coordinator_of(consumer: Any) -> Any:
    """A consumer's coordinator.

    Raises:
        ConfigError: It is no ``KafkaConsumer`` of a version that is known.
    """
    if (coordinator := _get(consumer, "_coordinator", None)) is None:
        raise ConfigError(
            f"{type(consumer).__name__} has no coordinator: a KafkaConsumer of kafka-python 3.0.12 is needed, and this "
            f"is kafka-python {VERSION}"
        )
    return coordinator


def is_open(coordinator: Any) -> bool:
    """Whether its consumer was made completely and not closed since."""
    made = _get(coordinator, "_rebalance_protocol", None) is not None
    return made and not _get(coordinator, "_heartbeat_closed", True)


def close_half_made(coordinator: Any) -> None:
    """Close what a consumer has opened so far, as its constructor is about to raise and nobody else can close it.

    A consumer opens its client, with a thread and three descriptors, before it calls its assignors.
    """
    if _get(coordinator, "_rebalance_protocol", None) is not None:
        return  # it is complete, and this its join
    metrics = _get(coordinator, "config", {}).get("metrics")
    for close in (_get(metrics, "close", None), _get(coordinator, "_client.close", None)):
        if close is not None:
            close()


def listed_twice(coordinator: Any) -> str | None:
    """A name that two entries of its ``partition_assignment_strategy`` have, as far as entries tell their names.

    kafka-python would use the last of them and drop the other in silence.
    """
    seen: set[str] = set()
    for name in _names(_get(coordinator, "config", {}).get("assignors", ())):
        if name in seen:
            return name
        seen.add(name)
    return None


def _names(entries: Iterable[Any]) -> Iterable[str]:
    for entry in entries:
        name = getattr(getattr(entry, "func", entry), "name", None)  # of a partial, its class's
        if isinstance(name, str):
            yield name


def instance_id(coordinator: Any) -> str | None:
    """The ``group_instance_id`` of a static member."""
    found: str | None = _get(coordinator, "config", {}).get("group_instance_id")
    return found


def tells_protocol(coordinator: Any) -> bool:
    """Whether it tells which rebalance protocol is in force."""
    return missing(coordinator, "_rebalance_protocol") is None


def is_cooperative(coordinator: Any) -> bool:
    """Whether the COOPERATIVE rebalance protocol is in force: the best one that all its assignors support."""
    # One that doesn't tell was told of COOPERATIVE alone, so no other can be in force.
    in_force = _get(coordinator, "_rebalance_protocol", RebalanceProtocol.COOPERATIVE)
    return bool(in_force == RebalanceProtocol.COOPERATIVE)


def is_fenced(member: Any) -> bool:
    """Whether a coordinator, or a consumer, is in no generation: it never was, it left, or it was thrown out."""
    tells: Callable[[], Any] | None = _get(member, "group_metadata", None)
    return tells is not None and bool(tells().generation_id == NO_GENERATION)


def held(coordinator: Any, assigned: Collection[tuple[str, int]]) -> Collection[tuple[str, int]]:
    """The partitions it may consume at this moment; none once it is fenced, whatever it still has in memory.

    Args:
        coordinator: A consumer's.
        assigned: What it was assigned, which counts if it doesn't tell what it holds.
    """
    # A member that is thrown out in the middle of a join keeps its assignment in memory until the next one arrives.
    if is_fenced(coordinator):
        return ()
    tells: Callable[[], Collection[tuple[str, int]]] = _get(
        coordinator, "_subscription.assigned_partitions", lambda: assigned
    )
    return tells()


def keep_rejoining(coordinator: Any) -> None:
    """Make a consumer finish the join it is in, whatever its polls do; to be called while its assignor assigns.

    kafka-python 3.0.12 remembers why it rejoins. When the reason is changed metadata, the leader forgets it as soon as
    it assigns; if that `poll` then runs out of time before the SyncGroup answer is read, the next one sees nothing to
    do: no assignment, no heartbeats, no error, until the coordinator evicts the member – and then still nothing. Seen
    in a third of the starts of a small group on a busy machine. With the request renewed, the next `poll` joins again.

    Args:
        coordinator: That of the consumer whose assignor is assigning.
    """
    _get(coordinator, "request_rejoin", lambda: None)()


def _needed(consumer: Any, name: str) -> Callable[..., Any]:
    method: Callable[..., Any] | None = _get(coordinator_of(consumer), name, None)
    if method is None:
        raise ConfigError(
            f"kafka-python {VERSION} has no {name!r}, without which nothing but its own poll() can look after a group; "
            "install a newer kafka-assignors, or kafka-python 3.0.12"
        )
    return method


def must_rejoin(consumer: Any) -> bool:
    """Whether its next `rebalance` joins the group; cheap.

    Raises:
        ConfigError: This kafka-python doesn't tell.
    """
    return bool(_needed(consumer, "need_rejoin")())


def rebalance(consumer: Any, timeout_s: float) -> bool:
    """What ``poll`` does for the group – the due join, signs of life, callbacks – without fetching anything.

    Returns as soon as the join is done, where ``poll`` would go on waiting for records.

    Args:
        consumer: A subscribed ``KafkaConsumer``.
        timeout_s: How long a join may take; kafka-python 3.0.12 throws one away that ends between two calls.

    Returns:
        Whether the member is in its group's generation.

    Raises:
        KafkaError: A fatal answer of the coordinator, or an error of a rebalance listener.
        ConfigError: This kafka-python can't.
    """
    return bool(_needed(consumer, "poll")(timeout_ms=1000 * timeout_s))


def learn_before_leading(coordinator: Any) -> None:
    """Make a consumer that is elected leader have metadata of all topics of the group before its assignor is asked.

    kafka-python 3.0.12 asks for those of topics that only others read, but doesn't wait for them, so that all who hold
    partitions there would lose them for a generation. Java's leader waits (``ConsumerCoordinator.onLeaderElected``,
    ``ensureFreshMetadata``), and so do librdkafka's, franz-go's and aiokafka's. A consumer that lacks one of the names
    (`LEARN`) is left alone.
    """
    if not any(missing(coordinator, path) for path in LEARN) and not isinstance(coordinator._manager, _Learning):
        coordinator._manager = _Learning(coordinator)


class _Learning:
    """A coordinator's connections. The answer to its join comes later if it leads and lacks metadata.

    Args:
        coordinator: Whose connections these are; not kept alive.
    """

    def __init__(self, coordinator: Any) -> None:
        self._coordinator, self._manager = weakref.proxy(coordinator), coordinator._manager

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        sent = self._manager.send(request, *args, **kwargs)
        return self._joined(sent) if isinstance(request, JoinGroupRequest) else sent

    async def _joined(self, sent: Any) -> Any:
        answer = await sent
        if not answer.error_code and answer.leader == answer.member_id:
            await learn(self._coordinator, bulk.topics([bytes(member.metadata) for member in answer.members]))
        return answer


ANSWERS = 2
"""So many answers without a topic say that it is absent: the first may be to a request that did not name it."""


async def learn(coordinator: Any, topics: Collection[str]) -> None:
    """Wait until a coordinator's consumer has metadata of the topics, or was told `ANSWERS` times that there are none.

    Raises:
        StaleMetadata: No broker answered in half a session; kafka-python joins again.
    """
    cluster, manager = coordinator._cluster, coordinator._manager
    coordinator._subscription.group_subscribe(topics)
    cluster.set_topics(coordinator._subscription.group_subscription())
    deadline = time.monotonic() + coordinator.config["session_timeout_ms"] / 2000
    answers = 0
    while answers < ANSWERS and len(partitions(cluster, topics)) < len(topics):
        left_ms = 1000 * (deadline - time.monotonic())
        if left_ms <= 0:
            raise StaleMetadata(f"the group's leader got no metadata of {', '.join(sorted(topics)[:3])} in time")
        try:
            await manager.wait_for(cluster.request_update(), left_ms)
        except BrokerResponseError:
            pass  # an answer: the single topic that was asked for can't be had
        except KafkaError:
            continue  # none: a broker went away, and kafka-python asks another after a pause; or time is up
        answers += 1


def partitions(cluster: Any, topics: Iterable[str]) -> dict[str, Mapping[int, Any]]:
    """Partition id -> its metadata (``leader_id``, ``replica_nodes``), of those topics that the cluster has.

    From a cluster that hides it, ids alone: the public methods cost a call per partition and broker, and a join has no
    time for that in a large cluster.
    """
    known: Mapping[str, Mapping[int, Any]] | None = _get(cluster, "_partitions", None)
    if known is not None:
        return {topic: known[topic] for topic in topics if topic in known}
    ids = {topic: cluster.partitions_for_topic(topic) for topic in topics}
    return {topic: dict.fromkeys(found) for topic, found in ids.items() if found is not None}


def replica_nodes(partition: Any) -> tuple[int, ...]:
    """Node ids of a partition's replicas, from its metadata; () where it isn't known."""
    try:
        return () if partition is None else tuple(partition.replica_nodes)
    except AttributeError:
        tell(without("replica_nodes", "racks of replicas are not seen: members in a rack get any partition"))
        return ()


def leader_node(partition: Any) -> int | None:
    """Node id of a partition's leader, from its metadata; None where it isn't known."""
    try:
        return None if partition is None else int(partition.leader_id)
    except AttributeError:
        tell(without("leader_id", "racks of leaders are not seen: members in a rack get any partition"))
        return None


def unguardable(coordinator: Any) -> list[str]:
    """The names that `wrap` and what follows it need, and that are missing."""
    return _lacks(coordinator, GUARD)


def lacks_for_commits(coordinator: Any) -> list[str]:
    """The names that `wrap_commits` and what follows it need, and that are missing."""
    return _lacks(coordinator, COMMITS)


def _lacks(coordinator: Any, needed: Iterable[PrivateName]) -> list[str]:
    found = (missing(coordinator, use.path) for use in needed)
    return list(dict.fromkeys(name for name in found if name))


Wrap = Callable[[Any, Callable[..., Any]], Callable[..., Any]]
"""(coordinator, its method as it was) -> what is called instead."""


def wrap(coordinator: Any, *, on_heartbeat: Wrap, join: Wrap, reset: Wrap) -> None:
    """Put something around what handles a heartbeat's answer, what joins, and what forgets the generation."""
    for name, around in (
        ("_handle_heartbeat_response", on_heartbeat),
        ("_do_join_and_sync_async", join),
        ("reset_generation", reset),
    ):
        setattr(coordinator, name, around(coordinator, getattr(coordinator, name)))


def wrap_commits(coordinator: Any, *, sync: Wrap, asynchronous: Wrap, joined: Wrap) -> None:
    """Put something around what commits, and around what takes over an assignment."""
    for name, around in (
        ("commit_offsets_async", asynchronous),
        ("commit_offsets_sync", sync),
        ("_on_join_complete_async", joined),
    ):
        setattr(coordinator, name, around(coordinator, getattr(coordinator, name)))


def rebalancing(coordinator: Any) -> bool:
    """Whether a cooperative member has joined, and hasn't learned its assignment: what it owns stays its own."""
    return bool(is_cooperative(coordinator) and coordinator.rebalance_in_progress())


def finish_join(coordinator: Any, timeout_ms: float | None) -> bool:
    """Wait for the end of the join that is under way, with its callbacks, as a poll does; False: not in time."""
    return bool(coordinator.ensure_active_group(timeout_ms=timeout_ms))


def owned(coordinator: Any) -> Collection[Any]:
    """The topic-partitions that a consumer has in memory as its own."""
    found: Collection[Any] = coordinator._subscription.assigned_partitions()
    return found


def member_id(coordinator: Any) -> str:
    """Its id in the group; another one after it was thrown out and joined anew."""
    return str(coordinator.group_metadata().member_id)


def default_callback(coordinator: Any) -> Callable[[Any, Any], None]:
    """What is called behind a commit without a callback of its own."""
    return _get(coordinator, "config", {}).get("default_offset_commit_callback") or (lambda _offsets, _answer: None)


def fence(coordinator: Any) -> None:
    """End a member: what it holds is lost, not to be revoked, and it polls and commits no more."""
    coordinator.reset_generation()
    # kafka-python's own latch for asynchronous commits: all that polls or commits asks it first.
    coordinator._async_commit_fenced = True


def was_fenced(coordinator: Any) -> bool:
    """Whether `fence` ended it, or an asynchronous commit found out."""
    return bool(coordinator._async_commit_fenced)


def assignors(coordinator: Any) -> Iterable[Any]:
    """The assignors of its consumer."""
    return tuple(coordinator._assignors.values())


def drop_claims(assignor: Any) -> None:
    """Make kafka-python's own cooperative assignor claim nothing, as its member has lost what it had."""
    if missing(assignor, "member_assignment"):
        tell(without("member_assignment", "kafka-python's cooperative assignor claims what a guarded member has lost"))
    assignor.member_assignment = None


def lose_in_join(coordinator: Any) -> None:
    """Of a member that is thrown out in the middle of a join: make what it holds lost before it joins again."""
    if coordinator.rejoining and coordinator._subscription.assigned_partitions():
        if coordinator._rebalance_protocol == RebalanceProtocol.COOPERATIVE:
            coordinator.rejoining = False  # so that the next try prepares its join anew, which tells what is lost
        else:
            coordinator._subscription.assign_from_subscribed([])


def forbid_topic_creation(consumer: Any) -> None:
    """Keep a new ``KafkaConsumer`` from creating topics by asking for them, on brokers that auto-create topics.

    kafka-python 3.0.12 takes ``allow_auto_create_topics=False`` and never passes it on to what asks.
    """
    consumer._client.cluster.config["allow_auto_create_topics"] = False
