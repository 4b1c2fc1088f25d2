"""A bridged confluent-kafka consumer in one process. Takes the path of its configuration.

The program acts as an application: it reports records that `BridgedConsumer` returned (``consume``) and records that it
has processed (``finished``), which law C6 compares with the commits. Its consumer's further settings are librdkafka's,
with ``_`` for ``.``. The application's own settings are:

=================  ==================================================================================================
``app_batch``      number of messages per call; 1: `poll`, more: `consume` (default 20)
``app_work_ms``    processing time of a message (default 0)
``app_revoke_ms``  time that its callback for revoked partitions takes (default 0)
``app_commits``    ``auto``; ``batch``: `commit()` after each batch; ``message``: `commit(message)` after each
``app_interrupt``  effect of SIGINT as KeyboardInterrupt. ``ends``: it arrives during `consume` or work, and ends the
                   process through ``with``. ``goes-on``: it arrives during `consume`, which is called again
``app_fails_at``   processing of this message, counted from 1, raises and ends the process (default 0: none)
=================  ==================================================================================================

Exit codes: 0 after SIGTERM, a requested interrupt or a requested failure; 1 after any other error; 2 without a
configuration.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kafka.errors import KafkaError

from kafka_assignors.clients.kafka_python.private.joining import keep_rejoining
from kafka_assignors.confluent import BridgedConsumer
from kafka_assignors.history.writer import EventWriter

from ...errors import HarnessError
from ...registry import assignor_named
from ..config import MemberConfig
from ..control import Control
from .events import ReportingMember
from .observed_assignor import ObservedAssignor
from .program import run_program

_POLL_S = 0.2
_DEFAULTS = {
    "app_batch": 20, "app_work_ms": 0, "app_revoke_ms": 0, "app_commits": "auto", "app_interrupt": "ends",
    "app_fails_at": 0,
}  # fmt: skip


class Failure(HarnessError):
    """Processing of a message failed, as requested."""


class _Interrupts:
    """Raises SIGINT as KeyboardInterrupt in the application's own code, but not while it writes history."""

    def __init__(self) -> None:
        self._open = self._pending = False
        signal.signal(signal.SIGINT, self._handle)

    def __enter__(self) -> None:
        self._open = True
        if self._pending:
            self._raise()

    def __exit__(self, *_: object) -> None:
        self._open = False

    def _handle(self, *_: object) -> None:
        self._pending = True
        if self._open:
            self._raise()

    def _raise(self) -> None:
        self._open = self._pending = False
        raise KeyboardInterrupt


class BridgeMember(ReportingMember):
    """An application with a bridged consumer, which writes events.

    Raises:
        UnknownName: An assignor is unknown.
    """

    def __init__(self, config: MemberConfig, writer: EventWriter, control: Control) -> None:
        super().__init__(config, writer, control)
        given = dict(config.consumer)
        self._app: dict[str, Any] = {name: given.pop(name, default) for name, default in _DEFAULTS.items()}
        self._settings = {name.replace("_", "."): value for name, value in given.items()}
        self._ending, self._worked = False, 0
        self._bridge: Any = None
        self._interrupts = _Interrupts()
        signal.signal(signal.SIGTERM, self._end)
        self._assignors = [ObservedAssignor(assignor_named(name, config.rack), self) for name in config.assignors]

    def run(self) -> None:
        """Work until SIGTERM, an interrupt or a failure, then leave the group.

        Raises:
            KafkaError: The client couldn't recover from it.
            KeyboardInterrupt, Failure: As requested.
        """
        config = self._config
        start_event = config.start([assignor.name for assignor in self._assignors], config.assignors)
        start_event["config"] |= {"finishes": True, **self._app}
        start_event["config"]["max_poll_interval_ms"] = self._settings.get("max.poll.interval.ms", 300_000)
        self.write("start", **start_event)
        with BridgedConsumer(
            self._consumer_config(), self._assignors, control={"retry_backoff_ms": 50}
        ) as self._bridge:
            for assignor in self._assignors:
                if hasattr(assignor, "attach"):
                    assignor.attach(self._bridge._control)
            self._bridge.subscribe(list(config.topics), *map(self._callback, ("assigned", "revoke", "lost")))
            while not self._ending:
                if self._control.stalls:
                    self.stand_still("stall", self._control.wait_to_poll, lambda: self._ending)
                elif batch := self._receive():
                    self._work_on(batch)
            if self._control.leave_s is not None:
                self._hand_over(self._control.leave_s)

    def client_member_id(self) -> str:
        """The member id as the bridge has it."""
        return "" if self._bridge is None else str(self._bridge.memberid() or "")

    def joined_generation(self) -> int:
        """Called by `ObservedAssignor`."""
        return int(self._bridge._control.group_metadata().generation_id)

    def assigning(self) -> None:
        """Called by `ObservedAssignor`."""
        keep_rejoining(self._bridge._control)

    def in_assign(self) -> None:
        """Called by `ObservedAssignor`. The member stalls here if the harness told it to."""
        if self._control.stalls_assign:
            self.stand_still("assign_stall", self._control.wait_to_assign, lambda: self._ending)

    def _callback(self, name: str) -> Callable[[Any, Iterable[Any]], None]:
        def tell(_bridge: Any, partitions: Iterable[Any]) -> None:
            changed = [(tp.topic, tp.partition) for tp in partitions]
            with self.called_back(name, changed):
                if name == "revoke" and changed:
                    time.sleep(self._app["app_revoke_ms"] / 1000)

        return tell

    def _consumer_config(self) -> dict[str, Any]:
        config = self._config
        return {
            **config.connection().librdkafka(),
            **config.dotted(),
            "session.timeout.ms": config.session_timeout_ms,
            "heartbeat.interval.ms": config.heartbeat_interval_ms,
            "enable.auto.commit": self._app["app_commits"] == "auto",
            "auto.commit.interval.ms": 200,
            "fetch.wait.max.ms": 200,
            **self._settings,
        }

    def _receive(self) -> list[Any]:
        batch: list[Any] = []
        try:
            with self._interrupts:
                if self._app["app_batch"] == 1:
                    batch = [message for message in [self._bridge.poll(_POLL_S)] if message is not None]
                else:
                    batch = self._bridge.consume(self._app["app_batch"], _POLL_S)
        except KeyboardInterrupt:
            if self._app["app_interrupt"] != "goes-on":
                raise
        except KafkaError as error:
            if not error.retriable:
                raise
            self.write("error", error=type(error).__name__, fatal=False, message=str(error))
        # librdkafka goes on after each of them
        for message_error in filter(None, (message.error() for message in batch)):
            self.write("error", error=message_error.name(), fatal=False, message=message_error.str())
        batch = [message for message in batch if message.error() is None]
        if batch:
            self._tell("consume", batch)
        return batch

    def _hand_over(self, timeout_s: float) -> None:
        for received in self._bridge.leave(timeout_s, self._app["app_batch"]):
            batch = [message for message in received if message.error() is None]
            if batch:
                self._tell("consume", batch)
                self._work_on(batch)

    def _work_on(self, batch: Sequence[Any]) -> None:
        for message in batch:
            self._worked += 1
            if self._worked == self._app["app_fails_at"]:
                raise Failure(f"message {self._worked}")
            if self._app["app_interrupt"] == "ends":
                with self._interrupts:
                    time.sleep(self._app["app_work_ms"] / 1000)
            else:
                time.sleep(self._app["app_work_ms"] / 1000)
            self._tell("finished", [message])
            if self._app["app_commits"] == "message":
                self._commit([message], message)
        if self._app["app_commits"] == "batch":
            self._commit(batch)

    def _tell(self, kind: str, messages: Iterable[Any]) -> None:
        read: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for message in messages:
            size = len(message.key() or b"") + len(message.value() or b"")
            read.setdefault((message.topic(), message.partition()), []).append((message.offset(), size))
        self.tell_records(kind, read)

    def _commit(self, batch: Sequence[Any], message: Any = None) -> None:
        ends = {(record.topic(), record.partition()): record.offset() + 1 for record in batch}
        with self.committing(ends, KafkaError):
            self._bridge.commit(message)

    def _end(self, *_: object) -> None:
        self._ending = True


def main(argv: Sequence[str]) -> int:
    """Run one member from the configuration file in `argv`. The module lists the exit codes."""

    def play(config: MemberConfig, writer: EventWriter, control: Control) -> None:
        try:
            BridgeMember(config, writer, control).run()
        except (KeyboardInterrupt, Failure) as end:
            writer.write("stop", reason=f"{type(end).__name__}: {end}")
        else:
            writer.write("stop")

    return run_program(argv, play)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
