"""kafka-python's consumer in one process, which writes events and judges nothing.

Run by ``python -m kafka_assignors.integration.members.clients.kafka_python CONFIG.json``.

Each event is in the file before the member acts on it, so the history of a killed member is true, except for a torn
last line. Owned partitions come from the arguments of callbacks: kafka-python's ``assignment()`` has already lost the
partitions when it calls ``on_partitions_revoked`` (Java's still has them). Its ``close`` calls
``on_partitions_revoked`` or ``on_partitions_lost``.

One thread polls for half a minute at a time and never pauses between polls during a join: kafka-python 3.0.12 discards
a join that completes between two polls, then sends another or even forgets to
(`kafka_assignors.clients.kafka_python.private.joining.keep_rejoining`).

`control` lists the commands on its standard input. After SIGTERM it closes its consumer; after the command ``leave`` it
hands its partitions over first.

Exit codes: 0 after SIGTERM, 1 after an error (reported by its ``error`` event), 2 if the configuration can't be read.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata
from kafka.errors import InconsistentGroupProtocolError, KafkaError
from kafka.structs import MemberState

from kafka_assignors.clients.kafka_python.guard import guard
from kafka_assignors.clients.kafka_python.leaving import leave
from kafka_assignors.clients.kafka_python.private.consumer import coordinator_of, forbid_topic_creation
from kafka_assignors.clients.kafka_python.private.joining import keep_rejoining
from kafka_assignors.connection import Right, denied
from kafka_assignors.history.writer import EventWriter

from ...registry import assignor_named
from ..config import MemberConfig
from ..control import Control
from .events import CLOSE_MS, TICK_S, ReportingMember, Writing
from .observed_assignor import ObservedAssignor
from .program import run_program
from .work import Work

POLL_MS = 30_000
JOIN_S = 8


class Stop(BaseException):
    """Leaves a poll. It is a BaseException, so no handler of the client swallows it."""


class _Listener(ConsumerRebalanceListener):
    """Callback arguments -> events."""

    def __init__(self, member: KafkaPythonMember) -> None:
        self._member = member

    def on_partitions_revoked(self, revoked: Sequence[tuple[str, int]]) -> None:
        self._member.callback("revoke", revoked)

    def on_partitions_assigned(self, assigned: Sequence[tuple[str, int]]) -> None:
        self._member.callback("assigned", assigned)

    def on_partitions_lost(self, lost: Sequence[tuple[str, int]]) -> None:
        self._member.callback("lost", lost)


class KafkaPythonMember(ReportingMember):
    """A consumer of kafka-python that writes events of what happens to it.

    Raises:
        UnknownName: An assignor is unknown.
    """

    def __init__(self, config: MemberConfig, writer: Writing, control: Control) -> None:
        super().__init__(config, writer, control)
        self._stop_by: float | None = None  # monotonic seconds, set by SIGTERM
        self._polling = self._handing_over = False
        self._consumer: Any = None
        given = dict(config.consumer)
        self._poll_ms = given.pop("app_poll_ms", POLL_MS)
        self._commit_s = given.pop("app_commit_ms", 0) / 1000
        self._work = Work(given.pop("app_work_file", None))
        self._revoke_s = given.pop("app_revoke_ms", 0) / 1000
        self._consumer_settings = given
        self._due: dict[Any, OffsetAndMetadata] = {}  # consumed, not committed yet
        self._committed_s = 0.0
        self._assignors = [ObservedAssignor(assignor_named(name, config.rack), self) for name in config.assignors]

    def run(self) -> None:
        """Consume until SIGTERM, then leave the group. KafkaError if the client couldn't recover from it."""
        config = self._config
        # Before the start is told: from then on the harness may end the member.
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGALRM, self._on_signal)
        self.write("start", **config.start([assignor.name for assignor in self._assignors], config.assignors))
        self._consumer = KafkaConsumer(**self._consumer_config())
        forbid_topic_creation(self._consumer)
        for assignor in self._assignors:
            # With the consumer, our assignors claim its partitions, else the last assignment, which may be lost.
            if hasattr(assignor, "attach"):
                assignor.attach(self._consumer)
        if config.guarded:
            guard(self._consumer)
        try:
            self._subscribe({"topics": config.topics} if config.pattern is None else {"pattern": config.pattern})
            self._consume()
            if self._control.leave_s is not None:
                self._hand_over(self._control.leave_s)
        finally:
            self._polling = False
            # A signal that is handled late sets the timer again; its next signal would kill an ending interpreter.
            for number in (signal.SIGTERM, signal.SIGALRM):
                signal.signal(number, signal.SIG_IGN)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._consumer.close(timeout_ms=CLOSE_MS)
        self.write("stop")

    def client_member_id(self) -> str:
        """The member id as kafka-python has it."""
        return "" if self._consumer is None else str(self._consumer.group_metadata().member_id or "")

    def callback(self, name: str, partitions: Sequence[tuple[str, int]]) -> None:
        """Write the two events of a rebalance callback. Between those of a revoke pass ``app_revoke_ms``."""
        with self.called_back(name, partitions):
            if name == "revoke" and partitions:
                time.sleep(self._revoke_s)

    def joined_generation(self) -> int:
        """The generation that this member is joining, as the coordinator numbered it."""
        return int(self._consumer.group_metadata().generation_id)

    def assigning(self) -> None:
        """This member leads and is about to assign."""
        keep_rejoining(coordinator_of(self._consumer))

    def in_assign(self) -> None:
        """The member is assigning. If the harness told it to, it stalls here."""
        if self._control.stalls_assign:
            self.stand_still("assign_stall", self._control.wait_to_assign, self._is_told_to_end)

    def _subscribe(self, to: Mapping[str, Any]) -> None:
        topics = to.get("topics", ())
        self._consumer.subscribe(topics=list(topics), pattern=to.get("pattern"), listener=_Listener(self))

    def _consumer_config(self) -> dict[str, Any]:
        config = self._config
        return {
            **config.connection().kafka_python(),
            **self.settings(self._assignors),
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            **({} if config.rack is None else {"client_rack": config.rack}),
            **self._consumer_settings,
        }

    def _consume(self) -> None:
        try:
            while not self._may_stop():
                if self._control.stalls:
                    self.stand_still("stall", self._control.wait_to_poll, self._is_told_to_end)
                    continue
                if (wanted := self._control.subscription()) is not None:
                    self._subscribe(wanted)
                polled = self._poll()
                if polled:
                    self.take(polled)
                elif self._due:
                    self.commit_due()
        except Stop:
            pass

    def _hand_over(self, timeout_s: float) -> None:
        self._handing_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        for polled in leave(self._consumer, timeout_s):
            self.take(polled)

    def _poll(self) -> Mapping[Any, Sequence[Any]]:
        """Records of one poll; none after an error that kafka-python calls retriable, which is reported."""
        self._polling = True
        try:
            return self._consumer.poll(timeout_ms=self._poll_ms) or {}
        except KafkaError as error:
            if not error.retriable:
                raise
            self._polling = False
            self.write("error", error=type(error).__name__, fatal=False, message=str(error))
            time.sleep(TICK_S)
            return {}
        except RuntimeError as error:
            # What a signal handler raises while `threading.Condition.wait` takes its lock again, it turns into this.
            if isinstance(error.__context__, Stop):
                raise error.__context__ from None
            raise
        finally:
            self._polling = False

    def take(self, polled: Mapping[Any, Sequence[Any]]) -> None:
        """Report records per topic-partition, then commit them or leave them for the next due commit."""
        self.consumed(polled)
        self._work.do(polled)
        self._due |= {tp: OffsetAndMetadata(records[-1].offset + 1, "", -1) for tp, records in polled.items()}
        self.commit_due()

    def commit_due(self) -> None:
        """Commit consumed records. With ``app_commit_ms``, commit only that often and repeat refused commits."""
        again = self._commit_s > 0
        partitions = self._consumer.assignment() if again else set(self._due)
        offsets = {tp: offset for tp, offset in self._due.items() if tp in partitions}
        if not offsets or time.monotonic() - self._committed_s < self._commit_s:
            return
        self._due, self._committed_s = {}, time.monotonic()
        with self.committing({tp: o.offset for tp, o in offsets.items()}, KafkaError) as commit:
            self._consumer.commit(offsets, timeout_ms=self._config.session_timeout_ms)
        if commit.refused and again:
            self._due = offsets

    def leave(self) -> None:
        """End `run` once no join is in flight, within `JOIN_S`."""
        if self._stop_by is None:
            self._stop_by = time.monotonic() + JOIN_S
        signal.setitimer(signal.ITIMER_REAL, TICK_S)

    def _is_told_to_end(self) -> bool:
        return self._stop_by is not None

    def _may_stop(self) -> bool:
        # Closing during a join would leave a ghost in the group until its session ends, so we first poll a pending
        # join to its end, within a limit. We read private state, because the client's public state doesn't show a
        # coming rejoin; we read it without its lock, which the interrupted thread may hold.
        if self._stop_by is None:
            return False
        if self._control.leave_s is not None:
            return True
        coordinator = self._consumer._coordinator
        # A leader stuck in a join shows the new generation and its old partitions; only the state reveals it.
        settled = coordinator.state == MemberState.STABLE and not coordinator.need_rejoin()
        return settled or time.monotonic() > self._stop_by

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._consumer is None:
            raise Stop
        if self._handing_over:
            return
        self.leave()
        if self._polling and self._may_stop():
            self._polling = False
            raise Stop


def _message(error: Exception, config: MemberConfig) -> str:
    if isinstance(error, InconsistentGroupProtocolError):
        return (
            f"member {config.member!r} offers {', '.join(config.assignors)}, none of which every other member of group "
            f"{config.group!r} offers too: give all members one assignor in common (INCONSISTENT_GROUP_PROTOCOL)"
        )
    rights = [Right("Read", "Group", config.group), *(Right("Read", "Topic", topic) for topic in config.topics)]
    if config.output is not None:
        rights += [Right("Write", "Topic", config.output), Right("Write", "TransactionalId", config.transactional_id)]
    refused = denied(config.connection(), error, *rights)
    return f"{type(error).__name__}: {error}" if refused is None else str(refused)


def main(argv: Sequence[str], make: type[KafkaPythonMember] = KafkaPythonMember) -> int:
    """Run one member, a `make`, from the configuration file in `argv`. The module lists the exit codes."""

    def play(config: MemberConfig, writer: EventWriter, control: Control) -> None:
        try:
            make(config, writer, control).run()
        except Stop:
            writer.write("stop")

    return run_program(argv, play, _message)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
