"""Base classes of the assignors for kafka-python: the subscription of one member, and the leader's assignment.

`core` makes all decisions; this module converts values.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from ...core.declaration import PROTOCOLS as PROTOCOLS  # noqa: PLC0414 (exported)
from ...core.declaration import CooperativeOptions, MemberOptions
from ...core.group import NO_GENERATION, TopicPartition
from ...core.group.order import utf16
from ...core.wire import userdata
from ...core.wire.protocol import VERSION, by_topic
from ...errors import ConfigError
from ...extras import install
from ..constructor import KeywordOptions
from ..fact_log import FactLog, log
from ..mistaken import NotForAiokafka, alone

try:
    from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    from . import preload, private
    from .guard import guard_coordinator
    from .leader import Assigned, leader_racks, partition_counts, replica_racks, subscriptions
except ImportError as error:
    raise ImportError(
        f"the assignors for kafka-python need kafka-python 3.0.12 or newer ({error}); "
        f"install it with: {install('kafka-python')}"
    ) from error

if TYPE_CHECKING:
    from ...core.strategy import Strategy

Self = TypeVar("Self", bound="Assignor")


def _close_calling() -> None:
    if (coordinator := private.consumer.calling_coordinator()) is not None:
        private.consumer.close_half_made(coordinator)


class _ClosesConsumerOnError(KeywordOptions):
    """Closes the calling consumer if the assignor's constructor raises.

    A consumer creates its assignors late in its own constructor, and would leave its threads and sockets open.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 (a metaclass)
        try:
            return super().__call__(*args, **kwargs)
        except Exception:
            _close_calling()
            raise

    def __iter__(cls) -> NoReturn:  # noqa: N805 (a metaclass)
        _close_calling()
        super().__iter__()


class Assignor(AbstractPartitionAssignor, metaclass=_ClosesConsumerOnError):
    """Base class of the assignors. One instance belongs to one consumer, and finds it when the consumer is created.

    Creating a second consumer with the same instance while the first is open raises a `ConfigError`. A list with two
    assignors of the same name raises it, too. A copied or unpickled instance starts without a consumer.

    Args:
        rack: This member's rack (KIP-881), sent with its subscription. None: the consumer's ``client_rack``; "": none.
        options: The strategy's options (`core.strategies`).

    Raises:
        ConfigError: `rack` is not a string, the strategy has no such option, or the option's value is invalid.
    """

    name: str
    _strategy_name: str  # the first `name` of its bases: a subclass can use the same strategy under another name
    _java: ClassVar[type[MemberOptions] | None] = None
    """The declaration of the strategy's options, if its name is one of Java's. With their defaults a member needs no
    strategy before it leads, and imports none: NumPy and the strategies take longer to import than kafka-python."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "name" in vars(cls) and not hasattr(cls, "_strategy_name"):
            cls._strategy_name = cls.name

    def __init__(self, *, rack: str | None = None, **options: Any) -> None:
        self._options = options
        if not self._as_java:
            self._strategy.load()
        self.rack: str | None = MemberOptions.rack.of_consumer(rack)
        self._start_anew()

    def __iter__(self) -> NoReturn:
        """Always raises `AloneError`: kafka-python got the instance where a list belongs."""
        _close_calling()
        raise alone(self)

    @functools.cached_property
    def _strategy(self) -> Strategy:
        from ...core.strategies import strategy

        return strategy(self._strategy_name, **self._options)

    @functools.cached_property
    def _as_java(self) -> bool:
        """Whether a member needs no strategy before it leads."""
        if self._java is None:
            return False
        try:
            return self._options == {name: option.default for name, option in self._java.of_group().items()}
        except ValueError:  # an array equals nothing: its strategy names the option
            return False

    def _start_anew(self) -> None:
        self._coordinator: weakref.ref[Any] | None = None
        self._client_rack: str | None = None
        self._unseen = False  # the last caller was not recognised as a consumer
        self._fact_log = FactLog()
        self._forget()

    def _forget(self) -> None:
        self._owned: tuple[TopicPartition, ...] | None = None  # None: no assignment yet
        self._generation = NO_GENERATION

    def __getstate__(self) -> dict[str, Any]:
        """The configuration alone; the consumer, the assignment and the generation stay with the original."""
        one = object.__new__(type(self))
        one.__dict__.update(self.__dict__)
        one._start_anew()
        return one.__dict__

    @classmethod
    def factory(cls: type[Self], **config: Any) -> Callable[[], Self]:
        """A callable that makes a new instance per consumer. An invalid configuration raises here, not in the join."""
        cls(**config)
        return functools.partial(cls, **config)

    def attach(self, consumer: Any) -> None:
        """Attach the assignor to its consumer, for the rare case in which it does not find the consumer.

        The assignor looks for a ``KafkaConsumer`` on the call stack. It cannot find one that calls its assignors on
        another thread than kafka-python's own; a warning says so. With a consumer attached, a leader does not drop out
        of the group silently (`keep_rejoining`), a member stops when it is fenced (`guard`), a cooperative member
        claims what the consumer really holds, and the group learns the consumer's ``client_rack``. The consumer must
        have this instance in its ``partition_assignment_strategy``; the assignor keeps only a weak reference.

        Raises:
            ConfigError: The instance is attached to another open consumer, the list has two assignors of the same
                name, or `consumer` is not a ``KafkaConsumer`` of a supported version.
        """
        coordinator = private.consumer.coordinator_of(consumer)
        self._attach(coordinator, consumer.config.get("client_rack") or None)
        guard_coordinator(coordinator, private.consumer.fetcher_of(consumer))

    def _attach(self, coordinator: Any, client_rack: str | None) -> None:
        current_coordinator = self._attached()
        if current_coordinator is coordinator:
            self._client_rack = client_rack or self._client_rack
            return
        name = type(self).__name__
        if current_coordinator is not None and private.consumer.is_open(current_coordinator):
            raise ConfigError(
                f"this {name} is attached to another consumer; give each its own instance, for example by "
                f"{name}.factory(), or close the other first"
            )
        if twice := private.consumer.listed_twice(coordinator):
            raise ConfigError(
                f"partition_assignment_strategy lists {twice!r} twice; kafka-python would use the last one and drop "
                "the other silently: remove one"
            )
        if current_coordinator is not None:
            self._forget()  # its assignment belongs to the previous consumer
        self._coordinator, self._client_rack = weakref.ref(coordinator), client_rack
        private.names.check(coordinator)

    def _attached(self) -> Any:
        return self._coordinator() if self._coordinator else None

    def supported_protocols(self) -> list[Any]:
        """EAGER. kafka-python calls this while it creates the consumer, so the assignor attaches itself here."""
        self._find_consumer()
        return [RebalanceProtocol.EAGER]

    def _find_consumer(self) -> Any:
        """Attach to the consumer that is being created, and guard it: its first ``poll`` may already meet an outage.

        Returns its coordinator; None if it was not found.
        """
        if (coordinator := private.consumer.calling_coordinator()) is not None:
            try:
                self._attach(coordinator, private.consumer.calling_client_rack())
            except ConfigError:
                private.consumer.close_half_made(coordinator)
                raise
            guard_coordinator(coordinator, private.consumer.calling_fetcher())
        self._unseen = coordinator is None
        return coordinator

    def _find_joining(self) -> None:
        """Attach to the consumer that joins, if it was not found when it was created."""
        if (coordinator := private.consumer.calling_coordinator()) is not None:
            if self._attached() is not coordinator:
                self._attach(coordinator, None)
                guard_coordinator(coordinator, None)
                if self.rack is None:
                    log.warning(
                        "%s: the assignor did not find its consumer when the consumer was created, so the group does "
                        "not learn its client_rack: give the assignor a rack, or call its attach(consumer)", self.name
                    )  # fmt: skip
        elif self._coordinator is None and self._unseen:
            self._unseen = False
            log.warning(
                "%s: the assignor can't find its consumer, because kafka-python %s calls it on another thread or in an "
                "unknown way. An evicted member would keep consuming, and a leader may drop out of its group silently: "
                "call the assignor's attach(consumer) before the first poll",
                self.name, private.names.VERSION
            )  # fmt: skip

    @NotForAiokafka
    def metadata(self, topics: Collection[str]) -> Any:
        """This member's subscription, version 3, byte for byte as Java encodes it."""
        self._find_joining()
        preload.start(racks=self._sent_rack() is not None)
        return ConsumerProtocolSubscription(
            version=VERSION,
            topics=sorted(topics, key=utf16),
            user_data=self._user_data(),
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
                for topic, partitions in by_topic(self._still_held(topics)).items()
            ],
            generation_id=self._generation,
            rack_id=self._sent_rack(),
        )

    def _sent_rack(self) -> str | None:
        return (self._client_rack if self.rack is None else self.rack) or None

    def _user_data(self) -> bytes | None:
        # An aiokafka leader passes only topics and user data to its assignor, so user data repeat the other fields.
        if self._as_java:
            return userdata.of_java(self._strategy_name, self._owned, self._generation)
        coordinator = self._attached()
        instance_id = None if coordinator is None else private.consumer.instance_id(coordinator)
        data, why = self._strategy.user_data(self._owned, self._generation, self._sent_rack(), instance_id)
        if why:
            log.warning("%s: %s", self.name, why)
        return data

    def _still_held(self, topics: Collection[str]) -> Collection[tuple[str, int]]:  # noqa: ARG002 (for cooperative)
        return ()  # an eager member revokes everything before it joins

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Store this member's assignment and generation."""
        self._owned = tuple(TopicPartition(*partition) for partition in assignment.partitions())
        self._generation = generation
        preload.settled()

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        """Assign partitions to all members, as the group's leader.

        Takes kafka-python's ``ClusterMetadata`` and ``JoinGroupResponseMember``s, with metadata decoded or as bytes.
        Returns a ``ConsumerProtocolAssignment`` per member id, for every member; decoded on first access.
        """
        if (coordinator := self._attached()) is not None:
            private.joining.keep_rejoining(coordinator)
        joined = list(members)
        decoded = subscriptions([member.metadata for member in joined])
        # Equal subscriptions share one tuple, so each distinct tuple is added once.
        subscribed = set().union(*{id(subscription.topics): subscription.topics for subscription in decoded}.values())
        partitions = partition_counts(cluster, subscribed)
        sent = [(member.member_id, member.group_instance_id, own) for member, own in zip(joined, decoded, strict=True)]
        if self._as_java:
            from ...core import small  # a member that restarts leads nothing: its start need not wait for this

            simple = small.assigned(self._strategy_name, sent, partitions)
            if simple is not None:
                self._fact_log.warn(self.name, ())
                return {member_id: Assigned(data) for member_id, data in simple.items()}
        # Loaded by `preload`, unless the group has just been created.
        from ...core.group.facts import hidden
        from ...core.reading import decode

        strategy, differing = self._strategy.agreed(sent, partitions)
        needs = strategy.needs() if any(subscription.rack for subscription in decoded) else ()
        racks = replica_racks(cluster, partitions) if "racks" in needs else None
        leaders = leader_racks(cluster, partitions) if "leaders" in needs else None
        group = decode(strategy.name, sent, partitions, racks, leaders)
        assigned, facts = strategy.assign_bytes(group)
        assigned = strategy.echoing(assigned, sent, private.membership.joined_generation(coordinator))
        reported = (hidden(fact, cluster.unauthorized_topics) for fact in (*differing, *group.facts, *facts))
        self._fact_log.warn(self.name, reported)
        return {member_id: Assigned(data) for member_id, data in assigned.items()}


class WithoutOptions(Assignor):
    """An assignor whose strategy has no options."""

    def __init__(self, *, rack: str | None = None) -> None:
        super().__init__(rack=rack)


class Cooperative(Assignor):
    """An assignor whose members may keep their partitions during a rebalance.

    Args:
        rack: This member's rack, sent with its subscription. None: the consumer's ``client_rack``; "": none.
        protocol: ``"auto"`` supports both rebalance protocols and follows its consumer. ``"cooperative"`` and
            ``"eager"`` support only that protocol: kafka-python rejects a list that implies the other.

    Raises:
        ConfigError: `protocol` is not one of the three, `rack` is not a string, or an option is unknown or invalid.
    """

    def __init__(self, *, rack: str | None = None, protocol: str = "auto", **options: Any) -> None:
        self._protocol: str = CooperativeOptions.protocol.of_consumer(protocol)
        super().__init__(rack=rack, **options)

    def supported_protocols(self) -> list[Any]:
        """COOPERATIVE and EAGER, or the one that `protocol` names. Also attaches the assignor to its consumer."""
        coordinator = self._find_consumer()
        if self._protocol == "eager":
            return [RebalanceProtocol.EAGER]
        # Without its consumer the assignor can't know which of two protocols is in force, and might claim partitions
        # that it has revoked. So it supports one alone: kafka-python then rejects a list that needs the other.
        if self._protocol == "cooperative" or coordinator is None or not private.membership.shows_protocol(coordinator):
            return [RebalanceProtocol.COOPERATIVE]
        return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]

    def lost(self) -> None:
        """Drop the assignment because the member was fenced. An attached assignor does this itself."""
        self._forget()

    @NotForAiokafka
    def metadata(self, topics: Collection[str]) -> Any:
        """This member's subscription, with the partitions that its consumer holds now."""
        if (coordinator := self._attached()) is not None and private.membership.is_fenced(coordinator):
            self._forget()
        return super().metadata(topics)

    def _still_held(self, topics: Collection[str]) -> Collection[tuple[str, int]]:
        if self._protocol == "eager":
            return ()
        owned: Collection[tuple[str, int]] = self._owned or ()
        if self._coordinator is not None:
            coordinator = self._attached()
            if coordinator is None or not private.membership.is_cooperative(coordinator):
                return ()
            owned = private.membership.consumable_partitions(coordinator, owned)
        # Partitions of topics that it no longer subscribes to were revoked before this join.
        return [(topic, partition) for topic, partition in owned if topic in topics]
