"""Partitions by the location of their leader."""

from __future__ import annotations

from typing import Any

from ..core import geographic
from ..core.geographic import rack_is
from ..core.round_robin import RoundRobin
from ..core.topic import PartitionLeader, TopicView
from ..errors import ConfigError
from .fallback import FallbackPartitioner
from .interface.counters import Counters
from .interface.partitioner import OnChoice, is_partitioner
from .interface.record import Record


class GeographicPartitioner(FallbackPartitioner):
    """Partitions whose leader is in a preferred location, in turn; keys are ignored.

    Args:
        prefer: Preferences in order: a rack's name, or ``(leader, record) -> bool`` with the leader's ``id``, ``host``
            and ``rack`` and the record's ``topic``, ``key``, ``value``, e.g. from `rack_is` or `host_like`. The first
            preference that matches any partition with a leader is used.
        fallback: Another partitioner for records without a match; by default round robin over all partitions with a
            leader. A missing match never raises.
        on_choice, counters: See `CheckedPartitioner`.

    Within a match, the partitions' record counts differ by at most 1 while their leaders stay the same.

    Raises:
        ConfigError: No `prefer`, or one that is blank or not callable.
        NoPartitions: From ``send()``.

    Cost: O(leaders) per record, independent of the number of partitions.
    Source: ours; Java has none. KIP-1123, which prefers a rack by bytes, is ``UniformPartitioner(rack=...)``.

    >>> GeographicPartitioner("eu-1a", rack_is("eu-1b", "eu-1c")).name
    'geographic'
    """

    name = "geographic"
    needs_leaders = True

    def __init__(
        self,
        *prefer: str | geographic.Where,
        fallback: Any = None,
        on_choice: OnChoice | None = None,
        counters: Counters | None = None,
    ) -> None:
        super().__init__(on_choice=on_choice, counters=counters)
        if not prefer:
            raise ConfigError("GeographicPartitioner needs prefer: a rack's name or a function of (leader, record)")
        if fallback is not None and not is_partitioner(fallback):
            raise ConfigError(f"fallback must be an instance of kafka.partitioner.Partitioner, not {fallback!r}")
        self._preferences = tuple(_where(preference) for preference in prefer)
        self._fallback = fallback
        # By leaders, not by preference: records to different places would take turns out of each other's round.
        self._turns: dict[tuple[str, frozenset[PartitionLeader]], RoundRobin] = {}

    def choose(self, view: TopicView, record: Record) -> object:
        """The next partition of the first preference that matches."""
        match = geographic.matching(view, self._preferences, record)
        if match is None and self._fallback is not None:
            return self._fall_back(record)
        leaders, candidates = match or (frozenset(), view.candidates)
        turn = self._turns.get((view.topic, leaders))
        if turn is None:
            turn = self._turns.setdefault((view.topic, leaders), RoundRobin())
        self._last.placed_by = turn
        return turn.among(candidates)


def _where(prefer: object) -> geographic.Where:
    if isinstance(prefer, str):
        return rack_is(prefer)
    if not callable(prefer):
        raise ConfigError(f"prefer must be a rack's name or callable with (leader, record), not {prefer!r}")
    where: geographic.Where = prefer
    return where
