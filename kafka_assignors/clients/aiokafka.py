"""The assignors for aiokafka: the same strategies, for ``AIOKafkaConsumer(partition_assignment_strategy=…)``.

Give *instances*, one consumer each; aiokafka would use a class as it stands:

>>> consumer_options = {"partition_assignment_strategy": [StickyAssignor(rack="eu-1a")]}

aiokafka differs from kafka-python in three ways:

* It is EAGER: every member revokes all partitions before a rebalance, so there are no cooperative assignors here.
* aiokafka passes its leader's assignor the topics and user data of each member, but no rack and no instance id. Members
  still send Java's bytes, including racks and generations, and a leader reads them from the JoinGroup response on the
  call stack. If an aiokafka version hid this response, the leader would ignore racks and treat static members as
  dynamic. Other names (`compact-sticky`, `consistent-hash`, …) carry both in their user data (`core.wire.compact`).
* Each assignor in the list costs one more JoinGroup and generation at the start: list one, or two while you migrate.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import FrameType
from typing import Any, NoReturn

from ..core.declaration import MemberOptions, Needs, Options, unknown
from ..core.group import NO_GENERATION, TopicPartition
from ..core.group import options as options_
from ..core.group.facts import Fact, hidden
from ..core.group.order import utf16
from ..core.reading import decode
from ..core.sticky import GOALS, Matrix
from ..core.strategies import strategy
from ..core.weighted import options as by_work
from ..core.weighted.hysteresis import PARTITION_S
from ..core.weighted.model import EPSILON, Weights
from ..core.wire import balance, compact
from ..core.wire.protocol import Subscription, encode_subscription, read_subscription
from ..errors import ConfigError
from ..extras import install
from .constructor import KeywordOptions, arguments
from .fact_log import FactLog, log
from .mistaken import alone, of_aiokafka
from .weights.source import Figures

try:
    from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator
    from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
    from aiokafka.errors import KafkaError
except ImportError as error:
    raise ImportError(
        f"the assignors for aiokafka need aiokafka 0.12 or newer ({error}); install it with: {install('aiokafka')}"
    ) from error


_COOPERATIVE = {
    "cooperative-sticky": "StickyAssignor() or CompactStickyAssignor()",
    "cooperative-copartitioned": "CoPartitionedAssignor()",
}
"""Cooperative assignor -> its eager forms."""


class Refused(ConfigError, KafkaError):  # type: ignore[misc]
    """An assignor that aiokafka cannot use; raised by ``AIOKafkaConsumer.start``.

    If topics are subscribed after the start, the next call that fetches messages raises it. It is a ``KafkaError``,
    because aiokafka passes no other error to its caller: its background task logs a traceback and ends.
    """

    __str__ = Exception.__str__  # a KafkaError names its class


class _OfInstance:
    """A method that raises a clear error if aiokafka got the class instead of an instance.

    aiokafka calls the methods of any object in the list, including a class.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        if instance is not None:
            bound: Callable[..., Any] = self.method.__get__(instance, owner)
            return bound

        def refuse(*_arguments: Any) -> Any:
            raise Refused(
                f"aiokafka takes assignors as instances: partition_assignment_strategy=[{owner.__name__}()], "
                f"not [{owner.__name__}]"
            )

        return refuse


class _Listed(KeywordOptions):
    def __iter__(cls) -> NoReturn:  # noqa: N805 (a metaclass)
        raise Refused(str(alone(cls)).replace(f"[{cls.__name__}]", f"[{cls.__name__}()]"))


class Assignor(AbstractPartitionAssignor, metaclass=_Listed):  # type: ignore[misc]
    """An assignor with any strategy, by its name. One instance belongs to one consumer.

    A copied or unpickled instance starts without a consumer.

    Args:
        name: A name in `core.strategies.STRATEGIES`, except the cooperative ones.
        rack: This member's rack, sent with its subscription; the module's docstring says which leaders read it.
        options: The strategy's options (`core.strategies`).

    Raises:
        UnknownName: No strategy has the name.
        ConfigError: `name` is a cooperative assignor's, which aiokafka does not support; `rack` is not a string; the
            strategy has no such option; or the option's value is invalid.
    """

    name = ""

    def __init__(self, name: str, *, rack: str | None = None, **options: Any) -> None:
        declarations = strategy(name).declared.of_consumers()
        for option in options:
            if option not in declarations:
                raise unknown(f"assignor {name!r}", option, declarations)
        self._strategy = strategy(name, **options)
        if name in ("weighted", "lag") and not isinstance(self, _ByWork):
            instead = "WeightedAssignor(weights=…)" if name == "weighted" else "LagAssignor(lag=…)"
            raise ConfigError(f"{name!r} needs weights that the member tells: use {instead}")
        if name in _COOPERATIVE:
            raise ConfigError(
                f"aiokafka does not support {name}: its members revoke all partitions before they join, and "
                f"its leader can't see what others hold; use {_COOPERATIVE[name]}"
            )
        self.name, self.rack = name, MemberOptions.rack.of_consumer(rack) or None
        self._start_anew()
        self._strategy.load()

    def __iter__(self) -> NoReturn:
        """Always raises `Refused`: aiokafka got the instance where a list belongs."""
        raise Refused(str(alone(self)))

    def __call__(self) -> NoReturn:
        """Always raises `Refused`: kafka-python, which makes an instance of each assignor in its list, got this one."""
        raise Refused(of_aiokafka(type(self).__name__))

    supported_protocols = __call__  # kafka-python calls it of the instance that it has made of a class

    def _start_anew(self) -> None:
        self._owned: tuple[TopicPartition, ...] | None = None  # None: no assignment yet
        self._generation = NO_GENERATION
        self._coordinator: weakref.ref[Any] | None = None
        self._fact_log = FactLog()

    def __getstate__(self) -> dict[str, Any]:
        """The configuration alone; the consumer, the assignment and the generation stay with the original."""
        one = object.__new__(type(self))
        one.__dict__.update(self.__dict__)
        one._start_anew()
        return one.__dict__

    @_OfInstance
    def metadata(self, topics: Iterable[str]) -> bytes:
        """This member's subscription, version 3; for Java's assignors byte for byte as Java encodes it.

        Raises `Refused` if the instance belongs to another open consumer.
        """
        coordinator = _calling_coordinator()
        self._serve(coordinator)
        instance_id = None if coordinator is None else coordinator._group_instance_id
        data = self._user_data(instance_id)
        return encode_subscription(Subscription(tuple(topics), data, (), self._generation, self.rack))

    def _serve(self, coordinator: Any) -> None:
        current_coordinator = None if self._coordinator is None else self._coordinator()
        if coordinator is None or current_coordinator is coordinator:
            return
        if current_coordinator is not None and not current_coordinator._closing.done():
            raise Refused(
                f"this {type(self).__name__} serves another consumer; give each its own instance, or stop the other"
            )
        if current_coordinator is not None:
            self._owned, self._generation = None, NO_GENERATION  # they belong to the previous consumer
        self._coordinator = weakref.ref(coordinator)

    def _user_data(self, instance_id: str | None) -> bytes | None:
        data, why = self._strategy.user_data(self._owned, self._generation, self.rack, instance_id)
        if why:
            log.warning("%s: %s", self.name, why)
        return data

    @_OfInstance
    def on_assignment(self, assignment: Any) -> None:
        """Store this member's assignment and generation."""
        coordinator = _calling_coordinator()
        self._owned = tuple(TopicPartition(*partition) for partition in assignment.partitions())
        self._generation = NO_GENERATION if coordinator is None else coordinator.generation

    @_OfInstance
    def assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, bytes]:
        """Assign partitions to all members, as the group's leader.

        Takes aiokafka's ``ClusterMetadata``, and a ``ConsumerProtocolMemberMetadata`` per member id. Returns the bytes
        of an assignment for every member id.
        """
        joined, garbage = self._decoded(members)
        partitions = partition_counts(
            cluster, set().union(*(set(subscription.topics) for _, _, subscription in joined))
        )
        rack_maps: tuple[Any, ...] = ()
        if any(
            subscription.rack for _, _, subscription in joined
        ):  # the lookup is slow, so only if a member has a rack
            rack_maps = racks(cluster, partitions)
        strategy, differing = self._strategy.agreed(joined, partitions)
        group = decode(self.name, joined, partitions, *rack_maps)
        assigned, facts = strategy.assign_bytes(group)
        coordinator = _calling_coordinator()
        assigned = strategy.echoing(assigned, joined, NO_GENERATION if coordinator is None else coordinator.generation)
        given = {member_id: bytes(assignment) for member_id, assignment in assigned.items()}
        sent = sum(len(member.user_data or b"") + sum(map(len, member.subscription)) for member in members.values())
        size = sent + sum(map(len, given.values()))
        reported = [hidden(fact, cluster.unauthorized_topics) for fact in (*differing, *group.facts, *facts)]
        self._fact_log.warn(self.name, {*reported, *garbage, *_size(size, len(members))})
        return given

    def _decoded(self, members: Mapping[str, Any]) -> tuple[list[tuple[str, str | None, Subscription]], list[Fact]]:
        """The members' subscriptions, from the JoinGroup response or else from aiokafka's values; garbage user data."""
        response = _join_response()
        if response.keys() == members.keys():
            return [(m, instance_id, read_subscription(data)) for m, (instance_id, data) in response.items()], []
        joined, garbage = [], []
        for member_id, member in members.items():
            fields = self._strategy.compact_data(member.user_data)
            topics = tuple(member.subscription)
            sent = Subscription(topics, member.user_data, fields.owned, fields.generation, fields.rack)
            joined.append((member_id, fields.instance_id, sent))
            if fields.garbage:
                text = f"member {member_id!r}: {fields.garbage}; ignored"
                garbage.append(Fact("garbage-user-data", member_id, text))
        return joined, garbage


class RangeAssignor(Assignor):
    """``range``: see `kafka_assignors.core.stateless.range.assign`."""

    def __init__(self, *, rack: str | None = None) -> None:
        super().__init__("range", rack=rack)


class RoundRobinAssignor(Assignor):
    """``roundrobin``: see `kafka_assignors.core.stateless.roundrobin.assign`."""

    def __init__(self, *, rack: str | None = None) -> None:
        super().__init__("roundrobin", rack=rack)


class _Sticky(Assignor):
    _strategy_name = ""

    def __init__(
        self,
        *,
        rack: str | None = None,
        parity: str | None = None,
        rack_costs: str | Matrix = "replica",
        goals: Sequence[str] = GOALS[0],
    ) -> None:
        super().__init__(self._strategy_name, rack=rack, parity=parity, rack_costs=rack_costs, goals=goals)


class StickyAssignor(_Sticky):
    """``sticky``: see `kafka_assignors.core.sticky.sticky.assign`. Members send claims and generation in Java's format.

    The options are those of `kafka_assignors.StickyAssignor`.
    """

    _strategy_name = "sticky"


class CompactStickyAssignor(_Sticky):
    """``compact-sticky``: as `StickyAssignor`, including racks and static members, with user data a tenth as large."""

    _strategy_name = "compact-sticky"


class CoPartitionedAssignor(Assignor):
    """``copartitioned``: see `kafka_assignors.core.copartitioned.assign`.

    The options are those of `kafka_assignors.CoPartitionedAssignor`.
    """

    def __init__(
        self,
        *,
        rack: str | None = None,
        topics: Sequence[Sequence[str]] | None = None,
        rack_costs: str | Matrix = "replica",
        goals: Sequence[str] = GOALS[2],
    ) -> None:
        super().__init__("copartitioned", rack=rack, topics=topics, rack_costs=rack_costs, goals=goals)


_WITHOUT = {
    Needs.METER: (
        "aiokafka's consumers have no load meter: give {} instead, from your own measurements or the pipeline's file"
    ),
    Needs.REQUEST: "aiokafka's members can't ask for a rebalance",
    Needs.COOPERATIVE: "aiokafka supports eager rebalancing only",
}


def _lacking(declared: type[Options]) -> Mapping[str, str]:
    """Options that need what aiokafka's consumers can't do -> the reason."""
    return {
        name: _WITHOUT[option.needs].format("weights= or weights_file=")
        for name, option in declared.of_consumers().items()
        if option.needs is not None
    }


class _ByWork(Assignor):
    """Base class of the assignors by work; they measure nothing themselves, as aiokafka's consumers have no meter."""

    def __init__(self, name: str, declared: type[by_work.ByWorkOptions], *, rack: str | None, **given: Any) -> None:
        self._given, self._figures_of = declared.chosen(**given), name
        group = declared.of_group()
        super().__init__(name, rack=rack, **{option: value for option, value in given.items() if option in group})

    def _start_anew(self) -> None:
        super()._start_anew()
        self._figures = Figures(self._figures_of, self._given)

    @_OfInstance
    def metadata(self, topics: Iterable[str]) -> bytes:
        """This member's subscription, with its capacity and the weights that it knows."""
        self._topics = tuple(topics)
        data: bytes = super().metadata(self._topics)
        return data

    def _user_data(self, instance_id: str | None) -> bytes | None:
        owned = self._owned or ()
        option_bytes = options_.tell(self._strategy.told_options())
        return self._figures.user_data(
            owned, owned, self._topics, self._generation, self.rack, instance_id, option_bytes, time.monotonic()
        )

    @_OfInstance
    def on_assignment(self, assignment: Any) -> None:
        """Also remember which partitions moved here, as the leader tells."""
        had = self._owned or ()
        super().on_assignment(assignment)
        group_balance = balance.decode(assignment.user_data)
        moves = (group_balance.moved, group_balance.withheld) if group_balance is not None else (0, 0)
        self._figures.rests.adopted(set(had), self._owned or (), moves, time.monotonic())


class WeightedAssignor(_ByWork):
    """``weighted``: see `kafka_assignors.core.weighted.placing.assign`. Members are eager.

    The options are those of `kafka_assignors.WeightedAssignor`, without `meter`, `check_every_s`, `rest_s` and
    `protocol`: aiokafka's consumers have no load meter, and its members can't ask for a rebalance.

    Raises:
        ConfigError: An argument is not as described.
    """

    lacks = _lacking(by_work.WeightedOptions)

    def __init__(
        self,
        *,
        weights: Weights | Callable[[], Weights] | None = None,
        weights_file: str | PathLike[str] | None = None,
        capacity: float = 1.0,
        priority: int = 0,
        max_work: float | None = None,
        state: Weights | Callable[[], Weights] | None = None,
        epsilon: float = EPSILON,
        move_budget: int | None = None,
        hysteresis: bool = False,
        partition_rest_s: float = PARTITION_S,
        rack: str | None = None,
    ) -> None:
        super().__init__("weighted", by_work.WeightedOptions, **arguments(locals()))


class LagAssignor(_ByWork):
    """``lag``: as `WeightedAssignor`, by lag alone.

    The options are those of `kafka_assignors.LagAssignor`, without `check_every_s`, `rest_s` and `protocol`. `lag` must
    be given, because members measure none.

    Raises:
        ConfigError: An argument is not as described, or `lag` is missing.
    """

    lacks = _lacking(by_work.LagOptions)

    def __init__(
        self,
        *,
        lag: Weights | Callable[[], Weights] | None = None,
        parity: str | None = None,
        capacity: float = 1.0,
        epsilon: float = EPSILON,
        move_budget: int | None = None,
        hysteresis: bool = False,
        partition_rest_s: float = PARTITION_S,
        rack: str | None = None,
    ) -> None:
        if lag is None:
            raise ConfigError(_WITHOUT[Needs.METER].format("lag="))
        super().__init__("lag", by_work.LagOptions, **arguments(locals()))


def _calling_frames() -> Iterator[dict[str, Any]]:
    """The local variables of the coordinator's functions on the call stack, innermost first.

    aiokafka passes an assignor neither its consumer, nor its generation, nor the JoinGroup response; all are here.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), GroupCoordinator | CoordinatorGroupRebalance):
            yield frame.f_locals
        frame = frame.f_back


def _calling_coordinator() -> Any:
    """The group coordinator that calls the assignor; None if it is not on the call stack."""
    for names in _calling_frames():
        this = names["self"]
        return this._coordinator if isinstance(this, CoordinatorGroupRebalance) else this
    return None


def _join_response() -> dict[str, tuple[str | None, bytes]]:
    """Member id -> instance id and subscription, from the JoinGroup response; empty if not on the call stack."""
    for names in _calling_frames():
        # (member id, instance id, subscription); before version 5 without the instance id.
        members = [tuple(member) for member in getattr(names.get("response"), "members", ())]
        if members and all(len(member) in (2, 3) and isinstance(member[-1], bytes) for member in members):
            return {member[0]: (member[1] if len(member) == 3 else None, member[-1]) for member in members}
    return {}


def partition_counts(cluster: Any, topics: Iterable[str]) -> dict[str, int]:
    """Partition count per topic, from aiokafka's ``ClusterMetadata``; topics without metadata are absent."""
    partition_ids = {topic: cluster.partitions_for_topic(topic) for topic in sorted(topics, key=utf16)}
    return {topic: max(ids, default=-1) + 1 for topic, ids in partition_ids.items() if ids is not None}


def racks(cluster: Any, partitions: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Per topic and partition, the racks of all its replicas and the leader's rack; empty if no broker has a rack."""
    rack_of = {broker.nodeId: broker.rack for broker in cluster.brokers() if broker.rack}
    if not rack_of:
        return {}, {}
    metadata = {topic: cluster._partitions[topic] for topic in partitions}
    replicas = {
        topic: [
            frozenset(rack_of[node] for node in metadata[topic][p].replicas if node in rack_of) if p in metadata[topic]
            else frozenset()
            for p in range(count)
        ]
        for topic, count in partitions.items()
    }  # fmt: skip
    leaders = {
        topic: [rack_of.get(metadata[topic][p].leader) if p in metadata[topic] else None for p in range(count)]
        for topic, count in partitions.items()
    }
    return replicas, leaders


def _size(record: int, members: int) -> Iterable[Fact]:
    if record > compact.RECORD_LIMIT:
        text = (
            f"the group's {members} members and their assignments take {record:,} bytes, {compact.LIMIT_TEXT}: raise "
            "the limit, or use compact-sticky, before rebalances start to fail"
        )
        yield Fact("record-size", "", text)
