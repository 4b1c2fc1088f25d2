"""Observes an assignor of kafka-python without changing its behaviour."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

from kafka_assignors.clients.kafka_python.leader import leader_racks, partition_counts, replica_racks


class Listening(Protocol):
    """Receives the calls of an `ObservedAssignor`."""

    def write(self, kind: str, **data: Any) -> None:
        """Write an event."""

    def adopted(self, generation: int, protocol: str, partitions: Sequence[tuple[str, int]]) -> None:
        """The assignment of a generation was adopted."""

    def joined_generation(self) -> int:
        """The generation that is being assigned."""

    def assigning(self) -> None:
        """The leader is about to assign, during a join."""

    def in_assign(self) -> None:
        """The leader is assigning. The time spent here counts as the assignor's."""


class ObservedAssignor(AbstractPartitionAssignor):
    """Any kafka-python assignor, with its calls reported to a listener.

    kafka-python calls no rebalance callback if nothing changes, so only `on_assignment` shows every generation.
    """

    def __init__(self, inner: Any, listener: Listening) -> None:
        self._inner, self._listener = inner, listener
        self.__wrapped__ = inner  # so that `inspect.unwrap` finds it
        if hasattr(inner, "on_request"):
            inner.on_request(lambda why: listener.write("rebalance_request", why=why))

    @property
    def name(self) -> str:
        """The inner assignor's name, for which members vote."""
        return str(self._inner.name)

    def __getattr__(self, attribute: str) -> Any:
        # Attributes outside the interface (e.g. an attach hook) belong to the inner assignor.
        return getattr(self._inner, attribute)

    def supported_protocols(self) -> Any:
        """The inner assignor's protocols."""
        return self._inner.supported_protocols()

    def metadata(self, topics: Any) -> Any:
        """The inner assignor's metadata."""
        return self._inner.metadata(topics)

    def assign(self, cluster: Any, members: Sequence[Any]) -> Any:
        """Assign like the inner assignor. Report begin and end, with the leader's view of the subscribed topics."""
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
        fields: dict[str, Any] = {"generation": generation, "protocol": self.name}
        try:
            self._listener.in_assign()
            assignment = self._inner.assign(cluster, members)
        except BaseException as error:
            fields["error"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            fields["duration_us"] = (time.monotonic_ns() - begun) // 1000
            self._listener.write("assign_end", **fields)
        return assignment

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Report the assignment, then pass it to the inner assignor, so that a crash there comes after its report."""
        self._listener.adopted(generation, self.name, assignment.partitions())
        self._inner.on_assignment(assignment, generation)
