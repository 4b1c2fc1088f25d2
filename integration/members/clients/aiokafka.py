"""aiokafka's consumer in one process, which writes events and observes its assignor. Takes its configuration's path.

Differs from `clients.kafka_python` only by its client. aiokafka rebalances in its own task, also while a batch is
processed, so the revoked callback here waits for the batch's commit, as every careful member's must. aiokafka has no
callback for lost partitions: it revokes them.

Exit codes: 0 after SIGTERM, 1 after an error, 2 without aiokafka or if the configuration can't be read.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, errors
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

from kafka_assignors.clients.aiokafka import Assignor, LagAssignor, WeightedAssignor, partition_counts, racks
from kafka_assignors.core.declaration import is_ours, options_of
from kafka_assignors.errors import UnknownName

from ..config import MemberConfig
from ..control import Control
from .events import CLOSE_MS, ReportingMember, Writing
from .program import run_program

PEER = "aiokafka"
_PEER_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
_BY_WORK = {"weighted": WeightedAssignor, "lag": LagAssignor}
_POLL_MS, _TICK_S = 200, 0.02
_REJOINS = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)
_WRAPPED = re.compile(r"(?:Unexpected exception in heartbeat task: )?(\w+)\(.*\)", re.DOTALL)


def survivable(error: KafkaError) -> bool:
    """Whether a consumer goes on after an error: aiokafka calls it retriable, or a join is the answer to it.

    aiokafka 0.14.0 wraps an answer that its code doesn't name, as ``KafkaError("RebalanceInProgressError()")``, and the
    wrapped error counts: Java's client joins again when a join is answered so.
    """
    kind: Any = type(error)
    if kind is KafkaError and (wrapped := _WRAPPED.fullmatch(str(error.args[0] if error.args else ""))):
        kind = getattr(errors, wrapped[1], kind)
    return kind in _REJOINS or bool(getattr(kind, "retriable", False))


def aiokafka_assignor(name: str, rack: str | None = None) -> Any:
    """A new assignor for aiokafka: ours by name, or aiokafka's own as ``aiokafka:NAME``.

    Raises:
        UnknownName: Neither has an assignor of this name.
        ConfigError: aiokafka doesn't support it (e.g. ``cooperative-sticky``), or it has no such options.
    """
    if is_ours(name):
        bare, options = options_of(name)
        if bare in _BY_WORK:
            return _BY_WORK[bare](**{"rack": rack, **options})
        return Assignor(bare, **{"rack": rack, **options})
    place, _, bare = name.partition(":")
    if place != PEER or bare not in _PEER_ASSIGNORS:
        raise UnknownName("assignor for aiokafka", name, [f"{PEER}:{assignor}" for assignor in _PEER_ASSIGNORS])
    return _PEER_ASSIGNORS[bare]


class _ObservedAssignor:
    """An aiokafka assignor that reports its calls to the member."""

    def __init__(self, inner: Any, member: AioMember) -> None:
        self._inner, self._member = inner, member
        self.name = str(inner.name)

    def metadata(self, topics: Iterable[str]) -> Any:
        return self._inner.metadata(topics)

    def assign(self, cluster: Any, members: Mapping[str, Any]) -> Any:
        counts = partition_counts(cluster, {topic for metadata in members.values() for topic in metadata.subscription})
        replicas, leaders = racks(cluster, counts)
        fields = {"generation": self._member.joined_generation, "protocol": self.name}
        self._member.write(
            "assign_begin", **fields, members=[*members], topics=counts, leaders=leaders,
            racks={topic: [sorted(partition_racks) for partition_racks in rows] for topic, rows in replicas.items()},
        )  # fmt: skip
        begun = time.monotonic_ns()
        self._member.in_assign()
        assignment = self._inner.assign(cluster, members)
        self._member.write("assign_end", **fields, duration_us=(time.monotonic_ns() - begun) // 1000)
        return assignment

    def on_assignment(self, assignment: Any) -> None:
        self._member.adopted(self._member.joined_generation, self.name, assignment.partitions())
        self._inner.on_assignment(assignment)


class AioMember(ReportingMember, ConsumerRebalanceListener):
    """A consumer of aiokafka that writes events of what happens to it.

    Raises:
        UnknownName, ConfigError: aiokafka has no such assignor, or doesn't support it or its options.
    """

    def __init__(self, config: MemberConfig, writer: Writing, control: Control) -> None:
        super().__init__(config, writer, control)
        self._ending = False
        self._consumer: Any = None
        self._busy = asyncio.Lock()  # nothing is given up between a batch and its commit
        self._assignors = [_ObservedAssignor(aiokafka_assignor(name, config.rack), self) for name in config.assignors]

    async def run(self) -> None:
        """Consume until SIGTERM, then leave the group. KafkaError if the client couldn't recover from it."""
        config = self._config
        # Before the start is told: from then on the harness may end the member.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._end)
        self.write("start", **config.start([assignor.name for assignor in self._assignors], config.assignors))
        settings = {**config.connection().aiokafka(), **self.settings(self._assignors), **config.consumer}
        self._consumer = AIOKafkaConsumer(**settings)
        try:
            await self._consumer.start()
            # Not before: `start` would wait for the first join, and end with its error.
            self._consumer.subscribe(topics=list(config.topics), listener=self)
            await self._consume()
            self._leaves_by_telling()
        finally:
            try:
                await asyncio.wait_for(self._consumer.stop(), CLOSE_MS / 1000)
            except asyncio.TimeoutError:
                logging.warning("member %s: aiokafka didn't stop within %d ms", self._config.member, CLOSE_MS)

    def _leaves_by_telling(self) -> None:
        """Write ``stop`` just before aiokafka leaves the group.

        aiokafka leaves without a callback, so a successor may begin before `AIOKafkaConsumer.stop` returns. And it
        completes a rebalance that is under way before it leaves, with callbacks, so ``stop`` can't be written earlier.
        """
        coordinator = self._consumer._coordinator
        leave = coordinator._maybe_leave_group

        async def tell_and_leave() -> None:
            self.write("stop")
            await leave()

        coordinator._maybe_leave_group = tell_and_leave

    @property
    def joined_generation(self) -> int:
        """The generation that this member is joining, as the coordinator numbered it."""
        return int(self._consumer._coordinator.generation)

    def client_member_id(self) -> str:
        """The member id as aiokafka has it."""
        return getattr(getattr(self._consumer, "_coordinator", None), "member_id", "")

    def in_assign(self) -> None:
        """The member is assigning. If the harness told it to, it stalls here, and its heartbeats stop too."""
        if self._control.stalls_assign:
            with self.standing_still("assign_stall"):
                while not self._control.wait_to_assign(_TICK_S):
                    pass

    async def on_partitions_revoked(self, revoked: Collection[tuple[str, int]]) -> None:
        """Called by aiokafka, also for lost partitions."""
        async with self._busy:
            with self.called_back("revoke", revoked):
                pass

    async def on_partitions_assigned(self, assigned: Collection[tuple[str, int]]) -> None:
        """Called by aiokafka."""
        with self.called_back("assigned", assigned):
            pass

    def _end(self) -> None:
        self._ending = True

    async def _consume(self) -> None:
        while not self._ending:
            if self._control.stalls:
                await self._stand_still()
                continue
            if (wanted := self._control.subscription()) is not None:
                self._consumer.subscribe(wanted.get("topics", ()), wanted.get("pattern"), self)
            try:
                polled = await self._consumer.getmany(timeout_ms=_POLL_MS)
            except KafkaError as error:
                if not survivable(error):
                    raise
                self._survived(error)
                continue
            async with self._busy:
                if polled:
                    await self._take(polled)

    def _survived(self, error: KafkaError) -> None:
        """Report an error, and join again: aiokafka starts ended tasks, such as its heartbeats, after a join alone."""
        self.write("error", error=type(error).__name__, fatal=False, message=str(error))
        self._consumer._coordinator.request_rejoin()

    async def _stand_still(self) -> None:
        with self.standing_still("stall"):
            while self._control.stalls and not self._ending:
                await asyncio.sleep(_TICK_S)

    async def _take(self, polled: Mapping[Any, Sequence[Any]]) -> None:
        self.consumed(polled)
        ends = {tp: records[-1].offset + 1 for tp, records in polled.items()}
        with self.committing(ends, KafkaError, asyncio.TimeoutError):
            await asyncio.wait_for(self._consumer.commit(ends), self._config.session_timeout_ms / 1000)


def main(argv: Sequence[str], make: type[AioMember] = AioMember) -> int:
    """Run one member, a `make`, from the configuration file in `argv`. The module lists the exit codes."""
    return run_program(argv, lambda config, writer, control: asyncio.run(make(config, writer, control).run()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
