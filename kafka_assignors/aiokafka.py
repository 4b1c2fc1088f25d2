"""The assignors for aiokafka: the same strategies, for ``AIOKafkaConsumer(partition_assignment_strategy=…)``.

Give *instances*, one consumer each; aiokafka would use a class as it stands:

>>> consumer_options = {"partition_assignment_strategy": [StickyAssignor(rack="eu-1a")]}

What aiokafka makes different:

* It is EAGER: every member gives up everything before a rebalance. So there is no ``cooperative-sticky``.
* Its leader is shown topics and user data of each member, no rack, no instance id, no owned partitions. Under Java's
  names (range, roundrobin, sticky) members send Java's bytes, rack and all, but an aiokafka *leader* places without
  racks and takes static members for dynamic ones; any other leader sees all. Under other names (`compact-sticky` and
  every strategy that is not Java's) racks and instance ids ride in user data (`core.compact`), so that all leaders see
  the same.
* Each assignor in the list costs one more JoinGroup and generation at the start: list one, or two while you migrate.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any

from .core import compact, userdata
from .core.facts import Fact
from .core.group import NO_GENERATION, TopicPartition
from .core.order import utf16
from .core.protocol import Subscription, encode_subscription
from .core.strategies import read, strategy
from .errors import ConfigError
from .news import News, log

try:
    from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator
    from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
except ImportError as error:
    raise ImportError(
        f"the assignors for aiokafka need aiokafka 0.12 or newer ({error}); "
        "install it with: pip install 'kafka-assignors[aiokafka]'"
    ) from error


class _OfInstance:
    """A method that says what to do when aiokafka was given the class: it calls methods of whatever it gets."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        if instance is not None:
            bound: Callable[..., Any] = self.method.__get__(instance, owner)
            return bound

        def refuse(*_arguments: Any) -> Any:
            raise ConfigError(
                f"aiokafka takes assignors as instances: partition_assignment_strategy=[{owner.__name__}()], "
                f"not [{owner.__name__}]"
            )

        return refuse


class Assignor(AbstractPartitionAssignor):  # type: ignore[misc]
    """Any strategy by its name; one instance belongs to one consumer.

    Args:
        name: A name of `core.strategies.STRATEGIES`, but for ``cooperative-sticky``.
        rack: This member's rack, told to the group; see the module for who can use it.
        options: Those of the strategy (`core.strategies.Strategy.settings`).

    Raises:
        UnknownName: No strategy has the name.
        ConfigError: ``cooperative-sticky``, which aiokafka cannot do; `rack` is no string; or an option that the
            strategy does not have, or not with that value.
    """

    name = ""

    def __init__(self, name: str, *, rack: str | None = None, **options: Any) -> None:
        self._strategy = strategy(name, **options)
        if name == "cooperative-sticky":
            raise ConfigError(
                "aiokafka can't do cooperative-sticky: its members revoke everything before they join, and its leader "
                "can't see what others hold; use StickyAssignor() or CompactStickyAssignor()"
            )
        if rack is not None and not isinstance(rack, str):
            raise ConfigError(f"rack must be a string like 'eu-1a' or None, not {rack!r}")
        self.name, self.rack = name, rack or None
        self._owned: tuple[TopicPartition, ...] | None = None  # None: was never assigned anything
        self._generation = NO_GENERATION
        self._coordinator: weakref.ref[Any] | None = None
        self._news = News()
        self._strategy.load()

    @_OfInstance
    def metadata(self, topics: Iterable[str]) -> bytes:
        """This member's subscription, version 3; under Java's names in the bytes Java writes for the same state.

        Raises:
            ConfigError: The instance serves another consumer already.
        """
        coordinator = _asking()
        self._serve(coordinator)
        instance_id = None if coordinator is None else coordinator._group_instance_id
        data = self._user_data(instance_id)
        return encode_subscription(Subscription(tuple(topics), data, (), self._generation, self.rack))

    def _serve(self, coordinator: Any) -> None:
        known = None if self._coordinator is None else self._coordinator()
        if coordinator is None or known is coordinator:
            return
        if known is not None and not known._closing.done():
            raise ConfigError(f"this {type(self).__name__} serves another consumer; give each its own instance")
        if known is not None:
            self._owned, self._generation = None, NO_GENERATION  # that was in another consumer's group
        self._coordinator = weakref.ref(coordinator)

    def _user_data(self, instance_id: str | None) -> bytes | None:
        if self.name == "sticky":
            return None if self._owned is None else userdata.encode_sticky(self._owned, self._generation)
        if self.name in compact.JAVAS:
            return None
        owned = self._owned if self._strategy.claim else None
        data, why = compact.encode_within(
            owned or (), NO_GENERATION if owned is None else self._generation, self.rack, instance_id
        )
        if why:
            log.warning("%s: %s", self.name, why)
        return data

    @_OfInstance
    def on_assignment(self, assignment: Any) -> None:
        """Remember what this member got, and in which generation."""
        coordinator = _asking()
        self._owned = tuple(TopicPartition(*partition) for partition in assignment.partitions())
        self._generation = NO_GENERATION if coordinator is None else coordinator.generation

    @_OfInstance
    def assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, bytes]:
        """Answer as the group's leader.

        Args:
            cluster: aiokafka's ``ClusterMetadata``.
            members: member id -> aiokafka's ``ConsumerProtocolMemberMetadata``.

        Returns:
            member id -> the bytes of its assignment, for every member.
        """
        carried = {m: self._carried(member.user_data) for m, member in members.items()}
        joined = [
            (m, said.instance_id, _subscription(member, said))
            for (m, member), said in zip(members.items(), carried.values(), strict=True)
        ]
        partitions = _partition_counts(cluster, set().union(*(set(each.topics) for _, _, each in joined)))
        places: tuple[Any, ...] = ()
        if any(said.rack for said in carried.values()):  # looking up racks takes long: only where a member can use them
            places = _racks(cluster, partitions)
        reading = read(self.name, joined, partitions, *places)
        answer, facts = self._strategy.answer_bytes(reading)
        given = {member_id: bytes(each) for member_id, each in answer.items()}
        sent = sum(len(member.user_data or b"") + sum(map(len, member.subscription)) for member in members.values())
        size = sent + sum(map(len, given.values()))
        self._news.tell(self.name, {*reading.facts, *facts, *_garbage(carried), *_size(size, len(members))})
        return given

    def _carried(self, data: bytes | None) -> compact.Carried:
        return compact.Carried() if self.name in compact.JAVAS else compact.decode(data)


class RangeAssignor(Assignor):
    """``range``: see `kafka_assignors.core.range.assign`."""

    def __init__(self, *, rack: str | None = None) -> None:
        super().__init__("range", rack=rack)


class RoundRobinAssignor(Assignor):
    """``roundrobin``: see `kafka_assignors.core.roundrobin.assign`."""

    def __init__(self, *, rack: str | None = None) -> None:
        super().__init__("roundrobin", rack=rack)


class StickyAssignor(Assignor):
    """``sticky``: see `kafka_assignors.core.sticky.assign`. Claims and generation travel as Java writes them.

    Args:
        rack: See the module: an aiokafka leader does not see it.
        options: As of kafka-python's `kafka_assignors.StickyAssignor`.
    """

    def __init__(self, *, rack: str | None = None, **options: Any) -> None:
        super().__init__("sticky", rack=rack, **options)


class CompactStickyAssignor(Assignor):
    """``compact-sticky``: as `StickyAssignor`, racks and static members included, with user data a tenth as large."""

    def __init__(self, *, rack: str | None = None, **options: Any) -> None:
        super().__init__("compact-sticky", rack=rack, **options)


def _asking() -> Any:
    """The group coordinator that is calling; aiokafka shows an assignor neither generation nor instance id."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        this = frame.f_locals.get("self")
        if isinstance(this, CoordinatorGroupRebalance):
            return this._coordinator
        if isinstance(this, GroupCoordinator):
            return this
        frame = frame.f_back
    return None


def _subscription(member: Any, said: compact.Carried) -> Subscription:
    return Subscription(tuple(member.subscription), member.user_data, said.owned, said.generation, said.rack)


def _partition_counts(cluster: Any, topics: Iterable[str]) -> dict[str, int]:
    known = {topic: cluster.partitions_for_topic(topic) for topic in sorted(topics, key=utf16)}
    return {topic: max(ids, default=-1) + 1 for topic, ids in known.items() if ids is not None}


def _racks(cluster: Any, partitions: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Per topic and partition the racks of all its replicas, and that of its leader; empty where no broker has one."""
    rack_of = {broker.nodeId: broker.rack for broker in cluster.brokers() if broker.rack}
    if not rack_of:
        return {}, {}
    known = {topic: cluster._partitions[topic] for topic in partitions}
    replicas = {
        topic: [
            frozenset(rack_of[node] for node in known[topic][p].replicas if node in rack_of) if p in known[topic]
            else frozenset()
            for p in range(count)
        ]
        for topic, count in partitions.items()
    }  # fmt: skip
    leaders = {
        topic: [rack_of.get(known[topic][p].leader) if p in known[topic] else None for p in range(count)]
        for topic, count in partitions.items()
    }
    return replicas, leaders


def _garbage(carried: Mapping[str, compact.Carried]) -> Iterable[Fact]:
    for member_id, said in carried.items():
        if said.garbage:
            yield Fact("garbage-user-data", member_id, f"member {member_id!r}: {said.garbage}; ignored")


def _size(record: int, members: int) -> Iterable[Fact]:
    if record > compact.RECORD_LIMIT:
        text = (
            f"the group's {members} members and their assignments take {record:,} bytes, {compact.LIMIT_TEXT}: raise "
            "it, or use compact-sticky, before no rebalance completes"
        )
        yield Fact("record-size", "", text)
