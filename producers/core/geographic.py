"""Choose partitions by the location of their leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ..errors import ConfigError
from .topic import PartitionLeader, TopicView

Where = Callable[[PartitionLeader, Any], bool]
"""(a leader, the record) -> whether the record may go to the partitions it leads."""


def rack_is(*racks: str) -> Where:
    """Leaders in one of these racks (``broker.rack``).

    >>> rack_is("eu-1a")(PartitionLeader(1, "kafka1", "eu-1a"), None)
    True
    """
    _names("rack_is", racks)
    return lambda leader, _record: leader.rack in racks


def host_like(*patterns: str) -> Where:
    """Leaders whose host matches one of these shell patterns.

    >>> host_like("*.south.example")(PartitionLeader(1, "kafka1.south.example", None), None)
    True
    """
    _names("host_like", patterns)
    return lambda leader, _record: any(fnmatchcase(leader.host, pattern) for pattern in patterns)


def matching(
    view: TopicView, preferences: Sequence[Where], record: object
) -> tuple[frozenset[PartitionLeader], tuple[int, ...]] | None:
    """The leaders that the first matching preference selects, and their partitions; None if no preference matches.

    Only partitions with a leader match. Cost: O(preferences * leaders) per record, independent of partitions.
    """
    for matches in preferences:
        leaders = frozenset(leader for leader in view.brokers if matches(leader, record))
        if leaders:
            return leaders, view.led_by(leaders)
    return None


def _names(what: str, names: Sequence[str]) -> None:
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise ConfigError(f"{what} takes one or more names, not blank, not {names!r}")
