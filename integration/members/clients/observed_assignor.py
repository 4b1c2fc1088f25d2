"""Listens at an assignor and a partitioner without changing what they do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

from kafka_assignors.kafka_python.leader import leader_racks, partition_counts, replica_racks


class Listening(Protocol):
    """Whom an `ObservedAssignor` tells."""

    def write(self, kind: str, **data: Any) -> None:
        """Write an event."""

    def adopted(self, generation: int, protocol: str, partitions: Sequence[tuple[str, int]]) -> None:
        """The assignment of a generation was taken over."""

    def joined_generation(self) -> int:
        """The generation that is being assigned."""

    def assigning(self) -> None:
        """The leader is about to assign, in the middle of a join."""

    def in_assign(self) -> None:
        """The leader assigns; what this takes, its assign takes."""


class ObservedAssignor(AbstractPartitionAssignor):
    """Any kafka-python assignor, with its calls told to a listener.

    kafka-python calls no rebalance callback when nothing changes, so `on_assignment` is the only sign of each
    generation.
    """

    def __init__(self, inner: Any, listener: Listening) -> None:
        self._inner, self._listener = inner, listener
        self.__wrapped__ = inner  # so that `inspect.unwrap` finds it

    @property
    def name(self) -> str:
        """The inner assignor's name: what members vote for."""
        return str(self._inner.name)

    def __getattr__(self, attribute: str) -> Any:
        # What the interface doesn't know (an attach hook, say) is the inner assignor's affair.
        return getattr(self._inner, attribute)

    def supported_protocols(self) -> Any:
        """As the inner assignor says."""
        return self._inner.supported_protocols()

    def metadata(self, topics: Any) -> Any:
        """As the inner assignor says."""
        return self._inner.metadata(topics)

    def assign(self, cluster: Any, members: Sequence[Any]) -> Any:
        """As the inner assignor does; told before and after, with the leader's view of the subscribed topics."""
        generation = self._listener.joined_generation()
        self._listener.assigning()
        topics = partition_counts(cluster, {topic for member in members for topic in member.metadata.topics})
        self._listener.write(
            "assign_begin",
            generation=generation,
            protocol=self.name,
            members=[member.member_id for member in members],
            topics=topics,
            racks={t: [sorted(racks) for racks in rows] for t, rows in replica_racks(cluster, topics).items()},
            leaders=leader_racks(cluster, topics),
        )
        begun = time.monotonic_ns()
        told: dict[str, Any] = {"generation": generation, "protocol": self.name}
        try:
            self._listener.in_assign()
            assignment = self._inner.assign(cluster, members)
        except BaseException as error:
            told["error"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            told["duration_us"] = (time.monotonic_ns() - begun) // 1000
            self._listener.write("assign_end", **told)
        return assignment

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """As the inner assignor does; told before, so that a crash in it is seen in its place."""
        self._listener.adopted(generation, self.name, assignment.partitions())
        self._inner.on_assignment(assignment, generation)
