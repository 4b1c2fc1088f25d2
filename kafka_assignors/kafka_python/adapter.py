"""What the assignors for kafka-python share: one consumer's side of the group, and the leader's.

Thin: what is decided is decided in `core`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from ..constructor import KeywordOptions
from ..core.group import NO_GENERATION, TopicPartition
from ..core.group.facts import hidden
from ..core.group.order import utf16
from ..core.reading import decode
from ..core.strategy import Strategy
from ..core.wire.protocol import VERSION, by_topic
from ..errors import ConfigError
from ..fact_log import FactLog, log

try:
    from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    from . import private
    from .commits import keep_commits
    from .guard import guard_coordinator
    from .leader import Assigned, leader_racks, partition_counts, replica_racks, subscriptions
except ImportError as error:
    raise ImportError(
        f"the assignors for kafka-python need kafka-python 3.0.12 or newer ({error}); "
        "install it with: pip install 'kafka-assignors[kafka-python]'"
    ) from error

Self = TypeVar("Self", bound="Assignor")


class _ClosingWhatItRefuses(KeywordOptions):
    """A consumer makes its assignors late: one that refuses its options leaves it half-made, with threads running."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 (a metaclass)
        try:
            return super().__call__(*args, **kwargs)
        except Exception:
            if (coordinator := private.calling_coordinator()) is not None:
                private.close_half_made(coordinator)
            raise


class Assignor(AbstractPartitionAssignor, metaclass=_ClosingWhatItRefuses):
    """What the assignors share. One instance belongs to one consumer, which it finds by itself when that is made.

    A second consumer that is made with the same instance, while the first is open, gets a `ConfigError`; so does one
    whose list has two assignors of one name. A copy, or a pickled one, starts as if it were new.

    Args:
        rack: This member's rack (KIP-881), sent with its subscription. None: the consumer's ``client_rack``; "": none.
        options: Those of the strategy (`core.strategies`).

    Raises:
        ConfigError: `rack` is no string, or an option that the strategy does not have, or not with that value.
    """

    name: str
    _strategy: Strategy  # apart from the name: a subclass places alike under a name of its own

    def __init__(self, *, rack: str | None = None, **options: Any) -> None:
        self._strategy = type(self)._strategy.with_options(**options)
        if rack is not None and not isinstance(rack, str):
            raise ConfigError(f"rack must be a string like 'eu-1a' or None, not {rack!r}")
        self.rack = rack
        self._start_anew()
        self._strategy.load()

    def _start_anew(self) -> None:
        self._coordinator: weakref.ref[Any] | None = None
        self._client_rack: str | None = None
        self._unseen = False  # was asked by something that is not its consumer, as far as it can be seen
        self._fact_log = FactLog()
        self._forget()

    def _forget(self) -> None:
        self._owned: tuple[TopicPartition, ...] | None = None  # None: was never assigned anything
        self._generation = NO_GENERATION

    def __getstate__(self) -> dict[str, Any]:
        """What it was made with: consumer, assignment and generation are the original's."""
        one = object.__new__(type(self))
        one.__dict__.update(self.__dict__)
        one._start_anew()
        return one.__dict__

    @classmethod
    def factory(cls: type[Self], **config: Any) -> Callable[[], Self]:
        """A callable that makes a fresh instance per consumer. A wrong configuration raises here, not in the join."""
        cls(**config)
        return functools.partial(cls, **config)

    def attach(self, consumer: Any) -> None:
        """Tell the assignor its consumer. It finds a ``KafkaConsumer`` by itself: this is for one that it cannot see.

        It looks for it on the call stack, so it can't see one whose assignors are called on another thread than
        kafka-python's own; a warning says so. What it does with it: a leader can't fall out of the group in silence
        (`keep_rejoining`), a member notices what it lost (`guard`), a cooperative member claims what the
        consumer really holds, and the consumer's ``client_rack`` is told to the group.

        Args:
            consumer: The ``KafkaConsumer`` that has this instance in its ``partition_assignment_strategy``; it is
                not kept alive.

        Raises:
            ConfigError: The instance has the state of another consumer, the list has two assignors of one name, or
                it is no ``KafkaConsumer`` of a version that is known.
        """
        self._attach(private.coordinator_of(consumer), consumer.config.get("client_rack") or None)

    def _attach(self, coordinator: Any, client_rack: str | None) -> None:
        known = self._attached()
        if known is coordinator:
            self._client_rack = client_rack or self._client_rack
            return
        name = type(self).__name__
        if known is not None and private.is_open(known):
            raise ConfigError(
                f"this {name} is attached to another consumer; give each its own instance, for example by "
                f"{name}.factory(), or close the other first"
            )
        if twice := private.listed_twice(coordinator):
            raise ConfigError(
                f"partition_assignment_strategy lists {twice!r} twice; kafka-python would use the last one and drop "
                "the other in silence: remove one"
            )
        if known is not None:
            self._forget()  # that was in another consumer's group
        self._coordinator, self._client_rack = weakref.ref(coordinator), client_rack
        private.check(coordinator)

    def _attached(self) -> Any:
        return self._coordinator() if self._coordinator else None

    def supported_protocols(self) -> list[Any]:
        """EAGER. Asked while the consumer is made, it attaches itself."""
        self._find_consumer()
        return [RebalanceProtocol.EAGER]

    def _find_consumer(self) -> Any:
        """Attach to the consumer that is being made; its coordinator, None when it can't be seen."""
        if (coordinator := private.calling_coordinator()) is not None:
            try:
                self._attach(coordinator, private.calling_client_rack())
            except ConfigError:
                private.close_half_made(coordinator)
                raise
        self._unseen = coordinator is None
        return coordinator

    def _find_joining(self) -> None:
        """Attach to the consumer that joins, if it couldn't be seen when it was made."""
        if (coordinator := private.calling_coordinator()) is not None:
            if self._attached() is not coordinator:
                self._attach(coordinator, None)
                if self.rack is None:
                    log.warning(
                        "%s: its consumer was not seen when it was made, so its client_rack is not told to the group: "
                        "give the assignor a rack, or call its attach(consumer)", self.name
                    )  # fmt: skip
        elif self._coordinator is None and self._unseen:
            self._unseen = False
            log.warning(
                "%s: can't see its consumer, as kafka-python %s calls it on another thread or in a way that is not "
                "known: a member that was thrown out goes on consuming, and a leader may fall out of its group in "
                "silence; call its attach(consumer) before the first poll",
                self.name, private.VERSION
            )  # fmt: skip

    def metadata(self, topics: Collection[str]) -> Any:
        """This member's subscription, version 3, in the bytes Java writes for the same state; mends its consumer."""
        self._find_joining()
        if (coordinator := self._attached()) is not None:
            # Only now: what is just being made is not complete.
            guard_coordinator(coordinator)
            keep_commits(coordinator)
        return ConsumerProtocolSubscription(
            version=VERSION,
            topics=sorted(topics, key=utf16),
            user_data=self._user_data(),
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
                for topic, partitions in by_topic(self._still_held(topics)).items()
            ],
            generation_id=self._generation,
            rack_id=self._told_rack(),
        )

    def _told_rack(self) -> str | None:
        return (self._client_rack if self.rack is None else self.rack) or None

    def _user_data(self) -> bytes | None:
        # Of all that this member sends, aiokafka hands nothing else to the leader's assignor but topics.
        coordinator = self._attached()
        instance_id = None if coordinator is None else private.instance_id(coordinator)
        data, why = self._strategy.user_data(self._owned, self._generation, self._told_rack(), instance_id)
        if why:
            log.warning("%s: %s", self.name, why)
        return data

    def _still_held(self, topics: Collection[str]) -> Collection[tuple[str, int]]:  # noqa: ARG002 (for cooperative)
        return ()  # an eager member revokes everything before it joins

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Remember what this member got, and in which generation."""
        self._owned = tuple(TopicPartition(*partition) for partition in assignment.partitions())
        self._generation = generation

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        """Answer as the group's leader.

        Args:
            cluster: kafka-python's ``ClusterMetadata``.
            members: kafka-python's ``JoinGroupResponseMember``s; their metadata decoded or still bytes.

        Returns:
            member id -> ``ConsumerProtocolAssignment``, for every member; bytes until somebody looks into it.

        Raises:
            WireError: A member's metadata are bytes that are no subscription.
        """
        if (coordinator := self._attached()) is not None:
            private.keep_rejoining(coordinator)
        joined = list(members)
        said = subscriptions([member.metadata for member in joined])
        subscribed = set().union(*{id(each.topics): each.topics for each in said}.values())  # equal ones are one tuple
        partitions = partition_counts(cluster, subscribed)
        heard = [(each.member_id, each.group_instance_id, sent) for each, sent in zip(joined, said, strict=True)]
        strategy, differing = self._strategy.agreed(heard)
        needs = strategy.needs() if any(subscription.rack for subscription in said) else ()
        racks = replica_racks(cluster, partitions) if "racks" in needs else None
        leaders = leader_racks(cluster, partitions) if "leaders" in needs else None
        group = decode(strategy.name, heard, partitions, racks, leaders)
        answer, facts = strategy.assign_bytes(group)
        told = (hidden(fact, cluster.unauthorized_topics) for fact in (*differing, *group.facts, *facts))
        self._fact_log.warn(self.name, told)
        return {member_id: Assigned(data) for member_id, data in answer.items()}
