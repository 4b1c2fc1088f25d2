"""Strategies with a planted fault, named as ``tests.support.integration.planted:Class``: the checker must find each."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

from kafka_assignors.clients.kafka_python import CooperativeStickyAssignor, RangeAssignor, private
from kafka_assignors.producers.kafka_python import DefaultPartitioner


class Planted(AbstractPartitionAssignor):
    """Range's answer, to be damaged. A name of its own: to the broker it is another assignor."""

    name = "planted"

    def __init__(self) -> None:
        self._range = RangeAssignor()

    def metadata(self, topics: Collection[str]) -> Any:
        return self._range.metadata(topics)

    def on_assignment(self, assignment: Any, generation: int) -> None:
        self._range.on_assignment(assignment, generation)

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        answer = self._range.assign(cluster, members)
        given = {m: {topic: list(ps) for topic, ps in a.assigned_partitions} for m, a in answer.items()}
        self.damage(given)
        for member_id, assignment in answer.items():
            assignment.assigned_partitions = list(given[member_id].items())
        return answer

    def damage(self, given: dict[str, dict[str, list[int]]]) -> None:
        """member id -> topic -> partitions, to be changed in place."""


class Custom(Planted):
    """No fault: a team's own assignor."""

    name = "custom"


class Dropping(Planted):
    """Partition 0 of each topic goes to nobody."""

    name = "dropping"

    def damage(self, given: dict[str, dict[str, list[int]]]) -> None:
        for topics in given.values():
            for partitions in topics.values():
                if 0 in partitions:
                    partitions.remove(0)


class Doubling(Planted):
    """Partition 0 of each topic goes to every member."""

    name = "doubling"

    def damage(self, given: dict[str, dict[str, list[int]]]) -> None:
        for topics in given.values():
            for partitions in topics.values():
                if 0 not in partitions:
                    partitions.append(0)


class Cheating(RangeAssignor):
    """Calls itself range, which promises range's answer, and swaps two members."""

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        answer = super().assign(cluster, members)
        ids = sorted(answer)
        return dict(zip(ids, [answer[m] for m in ids[1:] + ids[:1]], strict=True))


class Raising(Planted):
    """Fails when it leads."""

    name = "raising"

    def damage(self, given: dict[str, dict[str, list[int]]]) -> None:
        raise RuntimeError("planted: no answer")


class Elsewhere(DefaultPartitioner):
    """Says one partition and answers the next."""

    name = "elsewhere"

    def partition(self, topic: str, *rest: Any) -> int:
        choice = super().partition(topic, *rest)
        return (choice + 1) % len(rest[-1].partitions_for_topic(topic))


class Incremental(CooperativeStickyAssignor):
    """No fault: a team's own cooperative assignor, which nobody knows by its name."""

    name = "of-a-team"


class Deaf(CooperativeStickyAssignor):
    """Ours, in a process that sends no early heartbeats: it waits for its next one, as every other client does."""

    def __init__(self) -> None:
        super().__init__()
        private.beating.Beats.begin = lambda _: None  # type: ignore[method-assign]
