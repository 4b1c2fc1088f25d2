"""Placement by work and by lag for kafka-python: see `kafka_assignors.core.weighted`."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from os import PathLike
from typing import Any

from ...core.group import options as options_
from ...core.weighted import loop as loop_
from ...core.weighted import options
from ...core.weighted.hysteresis import GROUP_S, OF_CAPACITY, PARTITION_S
from ...core.weighted.meter import Meter
from ...core.weighted.model import EPSILON, Weights
from ...core.wire import balance
from ..constructor import arguments
from ..fact_log import log
from ..weights.source import Figures
from .adapter import Cooperative  # first: its ImportError says what to install if kafka-python is missing

# isort: split
from . import meter as kafka_meter
from . import private

Progress = Callable[[], Iterable[tuple[Any, int, int | None]]]
"""Returns topic-partition, next record to hand out, and end offset if it is known."""
Requested = Callable[[str], None]
"""Is told why this member requests a rebalance."""


class MemberByWork(Cooperative):
    """Base class of the assignors by work: figures, a meter of the kind `measures` (None: no meter), a loop."""

    def __init__(
        self,
        declared: type[options.ByWorkOptions],
        measures: str | None,
        *,
        rack: str | None,
        protocol: str,
        **given: Any,
    ) -> None:
        self._given, self._meter_of = declared.chosen(**given), measures
        self._loop_of = given["check_every_s"], given["rest_s"], given["epsilon"]
        group = declared.of_group()
        super().__init__(
            rack=rack, protocol=protocol, **{name: value for name, value in given.items() if name in group}
        )

    def _start_anew(self) -> None:
        super()._start_anew()
        self._figures = Figures(self.name, self._given, self._meter_of)
        self._source = self._figures.source
        weighs_time = self._source.meter is not None and self._source.meter.kind == "work"
        self._loop = loop_.Loop(
            *self._loop_of, jitter=uuid.uuid4().int / (1 << 128), of_capacity=OF_CAPACITY if weighs_time else 0.0
        )
        self._measured: Any = None  # the coordinator of the consumer that is measured
        self._progress: Progress | None = None
        self._leads = False
        self._requested: Requested | None = None
        self._bound_after_rest: float | None = None  # the group's bound, if resting partitions kept the leader above it

    @property
    def meter(self) -> Meter | None:
        """This member's meter, if it has one."""
        return self._source.meter

    def measure_by(self, progress: Progress) -> None:
        """Let the meter see another consumer's offsets, whose messages its owner reports to the meter."""
        self._progress = progress

    def on_request(self, requested: Requested) -> None:
        """Call `requested` with the reason before each request of this member for a rebalance."""
        self._requested = requested

    def attach(self, consumer: Any) -> None:
        """Attach to a consumer; the meter needs it if the assignor could not see its consumer when that was made."""
        super().attach(consumer)
        self._measure(private.consumer.coordinator_of(consumer), private.consumer.fetcher_of(consumer))

    def supported_protocols(self) -> list[Any]:
        """COOPERATIVE and EAGER, or the one that `protocol` names. The meter finds its consumer here."""
        protocols = super().supported_protocols()
        self._measure(self._attached(), private.consumer.calling_fetcher())
        return protocols

    def _measure(self, coordinator: Any, fetcher: Any) -> None:
        """Let the meter and the loop see the consumer's polls, once."""
        meter = self._source.meter
        if (meter is None and not self._loop.on) or None in (coordinator, fetcher) or coordinator is self._measured:
            return
        self._measured = coordinator
        if lacks := private.names.lacks_for_meter(coordinator, fetcher):
            private.names.warn_once(private.names.without(lacks[0], "the work of partitions isn't measured"))
        else:
            kafka_meter.measure(coordinator, fetcher, meter, self._tick)

    def _tick(self, now: float) -> None:
        """Once a second, before a poll."""
        if (coordinator := self._attached()) is None:
            return
        if self._source.meter is not None:
            progress = private.membership.progress(coordinator) if self._progress is None else self._progress()
            for partition, position, end in progress:
                self._source.meter.saw(partition, position, end, now)
        # In a generation that another assignor of the list assigned, this one's figures are outdated, and its leader
        # would not move by work.
        if self._loop.due(now) and private.membership.is_in_generation(coordinator, self._generation):
            owned = private.membership.consumable_partitions(coordinator, self._owned or ())
            resting = self._figures.rests.resting(owned, now)
            if owned and len(resting) == len(owned):
                return  # none of them may move
            if not resting and self._bound_after_rest is not None:
                self._loop.refer(self._bound_after_rest)
                self._bound_after_rest = None
            verdict = self._loop.check(now, self._work_of(owned, now), self._figures.capacity)
            if verdict is not None and verdict.act:
                log.info("%s: this member asks for a rebalance: %s", self.name, verdict.why)
                if self._requested is not None:
                    self._requested(verdict.why)
                private.joining.request_rebalance(coordinator)

    def _work_of(self, owned: Collection[tuple[str, int]], now: float) -> float | None:
        """The work of these partitions as far as it is known; None if nothing is."""
        weights = self._source.weights(owned, self._generation, now)
        works = [float(weights[topic][p]) for topic, p in owned if topic in weights and p < len(weights[topic])]
        works = [work for work in works if not math.isnan(work)]
        return sum(works) if works else None

    def metadata(self, topics: Collection[str]) -> Any:
        """This member's subscription, with its capacity and the weights that it knows."""
        self._topics = topics
        if self._source.meter is not None and self._measured is None:
            self._source.warn(
                "the load meter can't see its consumer, so this member tells no weights: call the assignor's "
                "attach(consumer) before the first poll"
            )
        return super().metadata(topics)

    def _user_data(self) -> bytes | None:
        coordinator = self._attached()
        instance_id = None if coordinator is None else private.consumer.instance_id(coordinator)
        owned = self._still_held(self._topics)
        # An eager member gave up everything, but tells what it had; a cooperative one's subscription says what it has.
        had = () if self._incremental() else tuple(self._owned or ())
        return self._figures.user_data(
            had, owned or had, self._topics, self._generation, self._sent_rack(), instance_id,
            options_.tell(self._strategy.told_options()), time.monotonic(), self._loop.checks, self._loop.asked,
        )  # fmt: skip

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        """Assign partitions as the group's leader, and tell each member how the group stands (`core.wire.balance`)."""
        self._leads = True
        return super().assign(cluster, members)

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Remember what this member got, in which generation, and what the leader told."""
        had = set(self._owned or ())
        super().on_assignment(assignment, generation)
        group_balance = balance.decode(assignment.user_data)
        now, owned, rests = time.monotonic(), self._owned or (), self._figures.rests
        rests.adopted(
            had, owned, (group_balance.moved, group_balance.withheld) if group_balance is not None else (0, 0), now
        )
        reference, coverage, self._bound_after_rest = None, 0.0, None
        if group_balance is not None:
            if rests.resting(owned, now):
                self._bound_after_rest = group_balance.bound
            reference = loop_.reference(group_balance.bound, group_balance.greatest, self._loop_of[2])
            coverage = group_balance.measured / max(group_balance.partitions, 1)
            if self._source.meter is not None:
                self._source.meter.learn(group_balance.weights, owned, generation, settling=group_balance.withheld > 0)
        self._loop.rebalanced(now, reference, coverage, leads=self._leads)
        self._leads = False

    def _incremental(self) -> bool:
        coordinator = self._attached()
        return self._protocol != "eager" and (coordinator is None or private.membership.is_cooperative(coordinator))


class WeightedAssignor(MemberByWork):
    """``weighted``: see `kafka_assignors.core.weighted.placing.assign`.

    >>> consumer_options = {"partition_assignment_strategy": [WeightedAssignor.factory(meter="work", check_every_s=20)]}

    Each member reads its weights when it joins, and sends them with its subscription. The leader uses only the weights
    that members send, so every leader decides alike. A partition without a weight counts as its topic's median. If no
    member sends weights, partitions are counted.

    Args:
        weights: Work per second of partitions, in any unit that all members share (`core.weighted.model.work`):
            ``{("orders", 0): 12.5}``, ``{"orders": [12.5, 3.0]}``, or a callable that returns one of these. It is
            called on each join and check, on a thread of the consumer, and must not wait. One that raises, or returns
            something else, is warned of once; the member then tells no weights.
        weights_file: The pipeline's weights file (`kafka_assignors.clients.weights`), read on each join. One that is
            missing, torn, expired or written in the future is warned of once; the member then tells no weights.
        meter: Measure the weights while the consumer polls: ``"work"`` (seconds of processing per second),
            ``"records"`` (arrivals per second, if all records take equally long) or ``"lag"``; see
            `core.weighted.meter`. All members should measure the same.
        check_every_s: Seconds between checks whether this member's work stands out from the group's bound; if so, it
            asks for a rebalance (`core.weighted.loop`). None: it never asks.
        rest_s: Seconds after a rebalance in which this member doesn't ask for another.
        capacity: This member's share of the work, compared with other members' capacities; 0 for a hot standby.
        priority: Each topic goes to its subscribers of the highest priority; the others get it when those are gone.
        max_work: The most work that this member may have, in the unit of the weights. Caps that cannot hold are raised.
        state: Cost of moving a partition, for example bytes of local state, in the form of `weights`: the least cost is
            the goal then, instead of the fewest moves. Members send those of the partitions that they own.
        epsilon: How far above the bound the greatest work / capacity may be, if that saves moves.
        move_budget: The most partitions that may leave an owner that could keep them, until the group rests.
        hysteresis: Whether moves need a reason in a rebalance of another cause, too: see `core.weighted.hysteresis`.
        partition_rest_s: With `hysteresis`, seconds that a partition stays after it moved to this member.
        rack, protocol: See `Cooperative`. Cooperative unless another assignor in the consumer's list is eager.

    Raises:
        ConfigError: An argument is invalid, or a weight is NaN, negative or infinite.
    """

    name = "weighted"

    def __init__(
        self,
        *,
        weights: Weights | Callable[[], Weights] | None = None,
        weights_file: str | PathLike[str] | None = None,
        meter: str | None = None,
        check_every_s: float | None = None,
        rest_s: float = GROUP_S,
        capacity: float = 1.0,
        priority: int = 0,
        max_work: float | None = None,
        state: Weights | Callable[[], Weights] | None = None,
        epsilon: float = EPSILON,
        move_budget: int | None = None,
        hysteresis: bool = False,
        partition_rest_s: float = PARTITION_S,
        rack: str | None = None,
        protocol: str = "auto",
    ) -> None:
        super().__init__(options.WeightedOptions, meter, **arguments(locals()))


class LagAssignor(MemberByWork):
    """``lag``: as `WeightedAssignor`, by lag alone.

    >>> consumer_options = {"partition_assignment_strategy": [LagAssignor]}

    Args:
        lag: Records behind per topic-partition, as `WeightedAssignor` takes ``weights``. None: members measure it.
        parity: ``"grantneale"`` places by the rule of kafka-lag-based-assignor: per topic, the partition that lags most
            to the member that has the fewest, then the least lag, then the smallest id. It ignores what members hold.
            Members tell lags in steps of 4.4 %, so that lags closer than this may count as equal.
        check_every_s, rest_s, capacity, epsilon, move_budget, hysteresis, partition_rest_s, rack, protocol: See
            `WeightedAssignor`.

    Raises:
        ConfigError: An argument is not as described.
    """

    name = "lag"

    def __init__(
        self,
        *,
        lag: Weights | Callable[[], Weights] | None = None,
        parity: str | None = None,
        check_every_s: float | None = None,
        rest_s: float = GROUP_S,
        capacity: float = 1.0,
        epsilon: float = EPSILON,
        move_budget: int | None = None,
        hysteresis: bool = False,
        partition_rest_s: float = PARTITION_S,
        rack: str | None = None,
        protocol: str = "auto",
    ) -> None:
        super().__init__(options.LagOptions, "lag" if lag is None else None, **arguments(locals()))
