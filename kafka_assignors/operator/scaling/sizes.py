"""The delay of a group at each size. Pure: partitions with their rates and lags in, seconds out.

A member that owns the partitions S, at a pace of ``c`` records per second, has read everything that is there now after
``lag(S) / c`` seconds, and what is there after ``H`` more seconds another ``(rate(S) - c) * H / c`` seconds later. The
larger of both is the longest time that a record waits within ``H``: the delay of the member. That of the group is the
delay of its slowest member.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...core.group import TopicPartition
from ...errors import ConfigError
from .flows import Flow

LEAST_DELAY_S = 10.0
"""Committed offsets trail what is read by the clients' commit interval, 5 s by default: less doesn't show."""

Shares = Mapping[int, Sequence[Collection[TopicPartition]]]
"""Size of a group -> the partitions of each member."""


@dataclass(frozen=True)
class Rules:
    """What a group must keep, and what a change of its size must be worth.

    Args:
        delay_s: No record shall wait longer.
        least, most: Bounds of the number of members; None: as many as there are partitions.
        horizon_s: At the measured rates, a size must keep the delay for so long: what lasts shorter isn't worth a
            rebalance.
        spare: A size that the group changes to must also do with rates that are higher by this part.
        settle_s: Seconds after a change in which nothing is decided: members start, and rates settle.
        rest_s: A smaller size must do for so long, and since the last change, before the group shrinks.

    Raises:
        ConfigError: A value isn't possible.
    """

    delay_s: float
    least: int = 1
    most: int | None = None
    horizon_s: float = 300.0
    spare: float = 0.2
    settle_s: float = 60.0
    rest_s: float = 600.0

    def __post_init__(self) -> None:
        if not LEAST_DELAY_S <= self.delay_s < float("inf"):
            raise ConfigError(
                f"a delay of {self.delay_s:g} s can't be kept by committed offsets, which trail by the clients' commit "
                f"interval; give {LEAST_DELAY_S:g}s or more"
            )
        if self.least < 1:
            raise ConfigError(f"the least number of members must be 1 or more, not {self.least}")
        if self.most is not None and self.most < self.least:
            raise ConfigError(
                f"the greatest number of members must be {self.least} or more, as is the least, not {self.most}"
            )


@dataclass(frozen=True)
class SizeDelay:
    """A group at some size.

    Args:
        partitions: The most partitions of one member.
        rates: Of each member, the records that arrive per second, as a part of the pace; above 1 its lag grows.
        lags_s: Of each member, the seconds in which it reads what is there now.
    """

    members: int
    partitions: int
    rates: tuple[float, ...]
    lags_s: tuple[float, ...]

    @property
    def load(self) -> float:
        """The greatest rate at one member, as a part of the pace."""
        return max(self.rates, default=0.0)

    def delay_s(self, horizon_s: float, spare: float = 0.0) -> float:
        """The longest time that a record waits within the horizon if rates are higher by the part `spare`."""
        grown = (
            lag_s + ((1 + spare) * rate - 1) * horizon_s for rate, lag_s in zip(self.rates, self.lags_s, strict=True)
        )
        return max(map(max, self.lags_s, grown), default=0.0)


def steps(counts: Collection[int], most: int, *, by_topic: bool = False) -> list[int]:
    """The sizes at which the largest share is smaller than at all sizes below, ascending.

    At the sizes between them some member has as many partitions as with fewer members: they move partitions for
    nothing.

    Args:
        counts: Partition count of each topic.
        most: The largest size.
        by_topic: Whether each topic is shared out on its own, as ``range`` does; else all together.

    >>> steps([12], 20)
    [1, 2, 3, 4, 6, 12]
    >>> steps([3, 3], 20), steps([3, 3], 20, by_topic=True)
    ([1, 2, 3, 6], [1, 2, 3])
    """
    parts = list(counts) if by_topic else [sum(counts)]
    sizes, least = [], None
    for size in range(1, min(most, sum(counts)) + 1):
        share = sum(-(-count // size) for count in parts)
        if least is None or share < least:
            sizes.append(size)
            least = share
    return sizes


def delays(shares: Shares, flows: Mapping[TopicPartition, Flow], pace: float) -> tuple[SizeDelay, ...]:
    """Each size with what its members have to read, ascending.

    A partition that `flows` lacks counts as empty. `pace` is above 0, in records per second.

    Cost: O(partitions) per size.
    """
    empty = Flow(0.0, 0)
    made = []
    for size in sorted(shares):
        owned = [[flows.get(tp, empty) for tp in share] for share in shares[size]]
        rates = tuple(sum(flow.rate for flow in share) / pace for share in owned)
        lags_s = tuple(sum(flow.lag for flow in share) / pace for share in owned)
        made.append(SizeDelay(size, max(map(len, owned), default=0), rates, lags_s))
    return tuple(made)
