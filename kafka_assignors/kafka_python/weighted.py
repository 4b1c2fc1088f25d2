"""Placement by work and by lag for kafka-python: see `kafka_assignors.core.weighted`."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from os import PathLike
from typing import Any

from ..core.group import options as options_
from ..core.weighted import loop as loop_
from ..core.weighted.hysteresis import GROUP_S, OF_CAPACITY, PARTITION_S
from ..core.weighted.meter import Meter
from ..core.weighted.model import EPSILON, Weights, one_capacity, one_limit
from ..core.wire import balance
from ..core.wire import weighted as carried
from ..errors import ConfigError
from ..fact_log import log
from ..weight_source import WeightSource
from .adapter import Cooperative  # first: its ImportError says what to install if kafka-python is missing

# isort: split
from . import meter as kafka_meter
from . import private

Progress = Callable[[], Iterable[tuple[Any, int, int | None]]]
"""Returns topic-partition, next record to hand out, and end offset if it is known."""
Requested = Callable[[str], None]
"""Is told why this member requests a rebalance."""


class ByWork(Cooperative):
    """What the assignors by work share: a source of weights, a meter, a loop.

    Args:
        source: Arguments of `WeightSource`.
        check_every_s, rest_s, epsilon, capacity, priority, max_work, state, partition_rest_s: See `WeightedAssignor`.
        options: Those of `Cooperative` and of the strategy.
    """

    def __init__(
        self,
        source: tuple[Any, Any, str | None],
        *,
        check_every_s: float | None,
        rest_s: float,
        epsilon: float,
        capacity: float,
        priority: int = 0,
        max_work: float | None = None,
        state: Weights | Callable[[], Weights] | None = None,
        partition_rest_s: float = PARTITION_S,
        **options: Any,
    ) -> None:
        self._source_of, self._state_of = source, state
        self._loop_of = check_every_s, rest_s, epsilon
        if (
            isinstance(partition_rest_s, bool)
            or not isinstance(partition_rest_s, int | float)
            or not 0 <= partition_rest_s < math.inf
        ):
            raise ConfigError(f"partition_rest_s must be a number of seconds from 0, not {partition_rest_s!r}")
        self._partition_rest_s = float(partition_rest_s)
        self._capacity = one_capacity(capacity)
        self._limit = one_limit(priority, max_work)
        super().__init__(epsilon=epsilon, **options)

    def _start_anew(self) -> None:
        super()._start_anew()
        number = uuid.uuid4()
        self._number = number.hex
        self._source = WeightSource(self.name, *self._source_of)
        weighs_time = self._source.meter is not None and self._source.meter.kind == "work"
        self._loop = loop_.Loop(
            *self._loop_of, jitter=number.int / (1 << 128), of_capacity=OF_CAPACITY if weighs_time else 0.0
        )
        self._measured: Any = None  # the coordinator of the consumer that is measured
        self._progress: Progress | None = None
        self._leads = False
        self._requested: Requested | None = None
        self._state = WeightSource(self.name, self._state_of, of="state")
        self._moved_at: dict[tuple[str, int], float] = {}  # when a partition moved to this member
        self._handing_over = False  # the last assignment withheld partitions for the next one
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
        """As `Assignor.attach`; the meter needs it if the assignor could not see its consumer when that was made."""
        super().attach(consumer)
        self._measure(private.coordinator_of(consumer), private.fetcher_of(consumer))

    def supported_protocols(self) -> list[Any]:
        """As `Cooperative.supported_protocols`."""
        found = super().supported_protocols()
        self._measure(self._attached(), private.calling_fetcher())
        return found

    def _measure(self, coordinator: Any, fetcher: Any) -> None:
        """Let the meter and the loop see the consumer's polls, once."""
        meter = self._source.meter
        if (meter is None and not self._loop.on) or None in (coordinator, fetcher) or coordinator is self._measured:
            return
        self._measured = coordinator
        if lacks := private.lacks_for_meter(coordinator, fetcher):
            private.warn_once(private.without(lacks[0], "the work of partitions isn't measured"))
        else:
            kafka_meter.measure(coordinator, fetcher, meter, self._tick)

    def _tick(self, now: float) -> None:
        """Once a second, before a poll."""
        if (coordinator := self._attached()) is None:
            return
        if self._source.meter is not None:
            progress = private.progress(coordinator) if self._progress is None else self._progress()
            for partition, position, end in progress:
                self._source.meter.saw(partition, position, end, now)
        # In a generation that another assignor of the list assigned, this one's figures are outdated, and its leader
        # would not move by work.
        if self._loop.due(now) and private.is_in_generation(coordinator, self._generation):
            owned = private.held(coordinator, self._owned or ())
            resting = self._resting(owned, now)
            if owned and len(resting) == len(owned):
                return  # none of them may move
            if not resting and self._bound_after_rest is not None:
                self._loop.refer(self._bound_after_rest)
                self._bound_after_rest = None
            verdict = self._loop.check(now, self._work_of(owned, now), self._capacity)
            if verdict is not None and verdict.act:
                log.info("%s: this member asks for a rebalance: %s", self.name, verdict.why)
                if self._requested is not None:
                    self._requested(verdict.why)
                private.request_rebalance(coordinator)

    def _work_of(self, owned: Collection[tuple[str, int]], now: float) -> float | None:
        """The work of these partitions as far as it is known; None if nothing is."""
        known = self._source.known(owned, self._generation, now)
        works = [float(known[topic][p]) for topic, p in owned if topic in known and p < len(known[topic])]
        works = [each for each in works if not math.isnan(each)]
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
        instance_id = None if coordinator is None else private.instance_id(coordinator)
        held = self._still_held(self._topics)
        # An eager member gave up everything, but tells what it had; a cooperative one's subscription says what it has.
        had = () if self._incremental() else tuple(self._owned or ())
        known = self._source.known(held or had, self._generation, time.monotonic())
        known = {topic: each for topic, each in known.items() if topic in self._topics}
        data, why = carried.encode_within(
            had,
            self._generation,
            self._sent_rack(),
            instance_id,
            options_.tell(self._strategy.told_options()),
            carried.Own(self._capacity, self._loop.checks, self._loop.asked, *self._limit),
            carried.chosen(known, held or had, instance_id or self._number),
            self._moving(held or had),
        )
        if why:
            self._source.warn(why)
        return data

    def _moving(self, owned: Collection[tuple[str, int]]) -> carried.Moving:
        """What this member tells about moves of its partitions."""
        now = time.monotonic()
        state = {t: known for t, known in self._state.known(owned, self._generation, now).items() if t in self._topics}
        return carried.Moving(carried.chosen(state, owned, "", others=0), self._resting(owned, now))

    def _resting(self, owned: Collection[tuple[str, int]], now: float) -> list[tuple[str, int]]:
        """Those that moved to this member less than `partition_rest_s` ago; none without the hysteresis."""
        if not self._strategy.options.get("hysteresis"):
            return []
        return [each for each in owned if now - self._moved_at.get(each, -math.inf) < self._partition_rest_s]

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        """As `Assignor.assign`. Each member is told how the group stands: `core.wire.balance`."""
        self._leads = True
        return super().assign(cluster, members)

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Remember what this member got, in which generation, and what the leader told."""
        had = set(self._owned or ())
        super().on_assignment(assignment, generation)
        told = balance.decode(assignment.user_data)
        self._note_moves(had, told)
        reference, coverage, self._bound_after_rest = None, 0.0, None
        if told is not None:
            if self._resting(self._owned or (), time.monotonic()):
                self._bound_after_rest = told.bound
            reference = loop_.reference(told.bound, told.greatest, self._loop_of[2])
            coverage = told.measured / max(told.partitions, 1)
            if self._source.meter is not None:
                self._source.meter.learn(told.weights, self._owned or (), generation, settling=told.withheld > 0)
        self._loop.rebalanced(time.monotonic(), reference, coverage, leads=self._leads)
        self._leads = False

    def _note_moves(self, had: Collection[tuple[str, int]], told: balance.Balance | None) -> None:
        """Note when partitions moved here from a living member.

        No message says where a partition comes from. But a hand-over is told to all members, and the partitions that
        had no owner before it were assigned when it began.
        """
        now, owned = time.monotonic(), self._owned or ()
        moved = self._handing_over or (told is not None and told.moved > 0)
        self._moved_at = {
            each: now if moved and each not in had else self._moved_at[each]
            for each in owned
            if (moved and each not in had) or each in self._moved_at
        }
        self._handing_over = told is not None and told.withheld > 0

    def _incremental(self) -> bool:
        coordinator = self._attached()
        return self._protocol != "eager" and (coordinator is None or private.is_cooperative(coordinator))


class WeightedAssignor(ByWork):
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
        weights_file: The pipeline's weights file (`kafka_assignors.weights`), read on each join. One that is missing,
            torn, expired or written in the future is warned of once; the member then tells no weights.
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
        hysteresis: Whether moves need a reason also in a rebalance that has another cause: see
            `core.weighted.hysteresis`.
        partition_rest_s: With `hysteresis`, seconds that a partition stays after it moved to this member.
        rack, protocol: See `Cooperative`. Cooperative unless another assignor in the consumer's list is eager.

    Raises:
        ConfigError: An argument is invalid, or a weight is NaN, negative or infinite.
    """

    name = "weighted"
    _strategy_name = "weighted"

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
        super().__init__(
            (weights, weights_file, meter),
            check_every_s=check_every_s,
            rest_s=rest_s,
            epsilon=epsilon,
            capacity=capacity,
            priority=priority,
            max_work=max_work,
            state=state,
            partition_rest_s=partition_rest_s,
            rack=rack,
            protocol=protocol,
            move_budget=move_budget,
            hysteresis=hysteresis,
        )


class LagAssignor(ByWork):
    """``lag``: as `WeightedAssignor`, by lag alone.

    >>> consumer_options = {"partition_assignment_strategy": [LagAssignor]}

    Args:
        lag: Records behind per topic-partition, as `WeightedAssignor` takes ``weights``. None: members measure it.
        parity: ``"grantneale"`` places by the rule of kafka-lag-based-assignor: per topic, the partition that lags most
            to the member that has the fewest, then the least lag, then the smallest id. It ignores what members hold.
            Members tell lags in steps of 4.4 %, so that lags closer than this may count as equal.
        check_every_s, rest_s, capacity, epsilon, move_budget, hysteresis, rack, protocol: See `WeightedAssignor`.

    Raises:
        ConfigError: An argument is not as described.
    """

    name = "lag"
    _strategy_name = "lag"

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
        rack: str | None = None,
        protocol: str = "auto",
    ) -> None:
        super().__init__(
            (lag, None, "lag" if lag is None else None),
            check_every_s=check_every_s,
            rest_s=rest_s,
            epsilon=epsilon,
            capacity=capacity,
            rack=rack,
            protocol=protocol,
            move_budget=move_budget,
            hysteresis=hysteresis,
            parity=parity,
        )
