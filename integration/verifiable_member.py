"""Our member behind the command line of Kafka's VerifiableConsumer, for Kafka's own system tests.

``python -m kafka_assignors.integration.verifiable_member --bootstrap-server HOST:PORT --topic T --group-id G …`` takes
the options of Java's tool and prints its events, one JSON object per line, on standard output. The log goes to standard
error. SIGTERM and SIGINT make it leave the group; with ``--hand-over SECONDS`` it hands its partitions over first
(`kafka_assignors.leave`). ``--assignment-strategy`` takes Java's class names, which select our
equivalents, and our own names. kafkatest takes this as ``--globals``:

    {"VerifiableConsumer": {"class": "kafkatest.services.verifiable_client.VerifiableClientApp",
                            "exec_cmd": "python -m kafka_assignors.integration.verifiable_member"}}

Not supported: ``--group-protocol consumer`` (KIP-848), which kafka-python doesn't speak. Not printed:
``shutdown_requested``, which Kafka 4's tool prints before it closes and kafkatest doesn't read.

Exit codes: 143 after SIGTERM and 130 after SIGINT, as a JVM; 0 after ``--max-messages``, and when another process took
its instance id (fenced), as Java's; 1 after another error, where Java's ends with 0; 2 for wrong options. Errors go to
standard error.

Source: apache/kafka ``tools/src/main/java/org/apache/kafka/tools/VerifiableConsumer.java``, and for other clients
``tests/kafkatest/services/verifiable_client.py``.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import FencedInstanceIdError, KafkaError

from kafka_assignors.connection import concerns_connection, file_lines, missing_codec
from kafka_assignors.connection.properties import Line
from kafka_assignors.errors import ConfigError, KafkaAssignorsError
from kafka_assignors.history.events import partitions_json
from kafka_assignors.output import complain

from .members.clients.json_lines import say, text
from .members.clients.kafka_python import KafkaPythonMember, Stop
from .members.config import MemberConfig
from .members.control import Control
from .names import JAVA_ASSIGNORS

_OURS = {java: name for name, java in JAVA_ASSIGNORS.items()}
_HEARTBEAT_MS = 3000
"""Kafka's default, in every client."""
_OPTIONS_WIN = {
    "bootstrap_servers", "group_id", "session_timeout_ms", "partition_assignment_strategy", "auto_offset_reset",
    "enable_auto_commit", "key_deserializer", "value_deserializer",
}  # fmt: skip


class VerifiableOutput:
    """The events of a member -> VerifiableConsumer's output, in order.

    Java calls back once per generation with the added partitions, even if there are none, after reporting revoked ones.
    A cooperative member of kafka-python calls back only if something was added. An eager member revokes what it has
    before it joins again, even if that is nothing, and `VerifiableMember.callback` drops what Java doesn't say. Java's
    tool reports lost partitions as revoked, and so do we.
    """

    def __init__(self) -> None:
        self._owned: set[tuple[str, int]] = set()
        self._owes = False  # an empty assigned callback is due after the next revoked one

    def write(self, kind: str, **data: Any) -> None:
        """Print an event as VerifiableConsumer does."""
        for name, fields in self.words(kind, data):
            say(name, **fields)

    def words(self, kind: str, data: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """(name, fields) of each object that an event makes; most make one or none."""
        partitions = {(p["topic"], p["partition"]) for p in data.get("partitions", ())}
        if kind == "start":
            yield "startup_complete", {}
        elif kind == "generation" and partitions <= self._owned:
            self._owes = partitions < self._owned
            if not self._owes:
                yield "partitions_assigned", {"partitions": []}
        elif kind == "assigned_end" and partitions:
            self._owned |= partitions
            yield "partitions_assigned", {"partitions": partitions_json(partitions)}
        elif kind in ("revoke_end", "lost_end"):
            self._owned -= partitions
            yield "partitions_revoked", {"partitions": partitions_json(partitions)}
            if self._owes:
                self._owes = False
                yield "partitions_assigned", {"partitions": []}
        elif kind == "consume":
            summaries = _summaries(data["offsets"])
            count = sum(summary["count"] for summary in summaries)
            yield "records_consumed", {"count": count, "partitions": summaries}
        elif kind in ("commit_ok", "commit_fail"):
            error = {} if kind == "commit_ok" else {"error": data["error"]}
            yield "offsets_committed", {"offsets": data["offsets"], **error, "success": kind == "commit_ok"}


def _summaries(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Contiguous runs -> one row per topic-partition."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for run in runs:
        place = {"topic": run["topic"], "partition": run["partition"]}
        row = rows.setdefault((run["topic"], run["partition"]), {**place, "count": 0, "minOffset": run["first"]})
        row["count"] += run["count"]
        row["maxOffset"] = run["last"]
    return list(rows.values())


class VerifiableMember(KafkaPythonMember):
    """A member that prints its events (each record, if `verbose`) and ends after `most` records.

    Unless it `commits` after each poll, the client commits periodically, and nothing is printed. After a signal, which
    `ended_by` names, it may hand its partitions over for `hand_over_s` seconds.
    """

    def __init__(
        self, config: MemberConfig, *, verbose: bool, commits: bool, most: int | None, hand_over_s: float = 0
    ) -> None:
        super().__init__(config, VerifiableOutput(), Control())
        self._verbose, self._commits, self._left, self._hand_over_s = verbose, commits, most, hand_over_s
        self.ended_by: int | None = None

    def run(self) -> None:
        """Consume until told to stop. Like Java's, a member that may consume nothing doesn't join."""
        if self._left == 0:
            self.write("start")
        else:
            super().run()

    def callback(self, name: str, partitions: Sequence[tuple[str, int]]) -> None:
        """Write a callback's events; like Java's, a member that joins for the first time reports no empty revoke."""
        if partitions or name != "revoke" or self.joined_generation() >= 0:
            super().callback(name, partitions)

    def interrupted(self, number: int, _frame: FrameType | None) -> None:
        """Handle SIGINT like SIGTERM."""
        self.ended_by = number
        os.kill(os.getpid(), signal.SIGTERM)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            self.ended_by = self.ended_by or number
            self._control.leave_s = self._hand_over_s or None
        super()._on_signal(number, frame)

    def take(self, polled: Mapping[Any, Sequence[Any]]) -> None:
        """Report records up to the limit, then commit them."""
        due = self._within_limit(polled)
        if due and self._commits:
            super().take(due)
        elif due:
            self.consumed(due)
        if self._left == 0:
            self.leave()

    def consumed(self, polled: Mapping[Any, Sequence[Any]]) -> None:
        """Print each record before their summary."""
        if self._verbose:
            for tp, records in polled.items():
                for record in records:
                    words = {"key": text(record.key), "value": text(record.value)}
                    say("record_data", **words, topic=tp.topic, partition=tp.partition, offset=record.offset)
        super().consumed(polled)

    def _within_limit(self, polled: Mapping[Any, Sequence[Any]]) -> dict[Any, Sequence[Any]]:
        if self._left is None:
            return dict(polled)
        due: dict[Any, Sequence[Any]] = {}
        for tp, records in polled.items():
            if taken := records[: self._left]:
                due[tp] = taken
                self._left -= len(taken)
        return due


def properties(lines: Iterable[Line], path: Path) -> dict[str, Any]:
    """Convert Java's settings (``name=value`` lines) to kafka-python's; skip the connection's and those with an option.

    Raises:
        ConfigError: A line is not a setting, kafka-python doesn't have the setting, or its value is invalid.
    """
    settings: dict[str, Any] = {}
    for name, value, number in lines:
        place = f"{path}:{number}: {name}"
        key = name.replace(".", "_")
        if key in _OPTIONS_WIN or concerns_connection(name):
            continue
        if not value:
            raise ConfigError(f"{place}: a setting is name=value")
        if key not in KafkaConsumer.DEFAULT_CONFIG:
            raise ConfigError(f"{place}: kafka-python has no such setting; remove it")
        settings[key] = _value(place, key, value)
    return settings


def _value(place: str, key: str, value: str) -> Any:
    default = KafkaConsumer.DEFAULT_CONFIG[key]
    if isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{place}={value}: true or false")
        return value.lower() == "true"
    if isinstance(default, int) or key.endswith("_bytes"):
        try:
            return int(value)
        except ValueError as error:
            raise ConfigError(f"{place}={value}: a whole number") from error
    if default is None or isinstance(default, str):
        return value
    raise ConfigError(f"{place}: is not supported in a settings file; remove it")


def configuration(given: argparse.Namespace) -> MemberConfig:
    """A member's configuration from the command line and its file. ConfigError if these are invalid."""
    # read once: it may be a pipe
    lines = [] if given.command_config is None else file_lines(Path(given.command_config))
    settings = properties(lines, Path(given.command_config or ""))
    access = {line.key: line.value for line in lines if concerns_connection(line.key)}
    instance_id = given.group_instance_id or settings.pop("group_instance_id", None)
    heartbeat_ms = min(_HEARTBEAT_MS, given.session_timeout // 3)
    own = {
        "member": settings.pop("client_id", f"consumer-{given.group_id}-{instance_id or 1}"),  # like Java's
        "heartbeat_interval_ms": settings.pop("heartbeat_interval_ms", heartbeat_ms),
        "rack": settings.pop("client_rack", None),
    }
    return MemberConfig(
        bootstrap=given.bootstrap_server,
        access=access or None,
        group=given.group_id,
        topics=(given.topic,),
        assignors=tuple(_OURS.get(name.strip(), name.strip()) for name in given.assignment_strategy.split(",")),
        history="",
        run="",
        instance_id=instance_id,
        session_timeout_ms=given.session_timeout,
        consumer={
            **settings, "auto_offset_reset": given.reset_policy, "enable_auto_commit": given.enable_autocommit,
        },
        **own,
    )  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kafka_assignors.integration.verifiable_member",
        description="Consume a topic as a member of a group; print events as JSON lines.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--bootstrap-server", "--broker-list", required=True, metavar="HOST:PORT[,…]")
    add("--topic", required=True)
    add("--group-id", required=True)
    add("--group-instance-id", help="makes it a static member")
    add("--group-protocol", default="classic", type=str.lower, choices=["classic"], help="only classic")
    add("--group-remote-assignor", help="accepted but not used, as in Java for a classic group")
    add("--max-messages", type=int, default=-1, metavar="N",
        help="exit after N records; negative: on a signal")  # fmt: skip
    add("--session-timeout", type=int, default=30_000, metavar="MS")
    add("--verbose", action="store_true", help="print one line per record")
    add("--enable-autocommit", action="store_true", help="commit automatically, without commit events")
    add("--reset-policy", default="earliest", choices=["earliest", "latest", "none"])
    add("--assignment-strategy", default=JAVA_ASSIGNORS["range"], metavar="CLASS[,…]",
        help="Java's class names, or names of ours; preferred first")  # fmt: skip
    add("--hand-over", type=seconds, default=0.0, metavar="SECONDS",
        help="after a signal, hand the partitions over before leaving, for at most so long")  # fmt: skip
    add(
        "--command-config",
        "--consumer.config",
        metavar="FILE",
        help="settings with Java's names; options override them",
    )
    return parser


def seconds(text: str) -> float:
    """Parse a number of seconds. ValueError if it is below 0, infinite, or no number."""
    if not 0 <= (number := float(text)) < math.inf:
        raise ValueError(text)  # argparse tells it, with the name of this function
    return number


def main(argv: Sequence[str]) -> int:
    """Run one member. The module lists the exit codes."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    given = _parser().parse_args(argv)
    try:
        member = VerifiableMember(
            configuration(given),
            verbose=given.verbose,
            commits=not given.enable_autocommit,
            most=None if given.max_messages < 0 else given.max_messages,
            hand_over_s=given.hand_over,
        )
    except (KafkaAssignorsError, OSError) as error:
        complain(error)
        return 2
    signal.signal(signal.SIGINT, member.interrupted)
    try:
        member.run()
    except Stop:
        pass
    except FencedInstanceIdError as error:
        print(f"fenced: {error}", file=sys.stderr)
    except (KafkaError, KafkaAssignorsError, ValueError) as error:
        complain(missing_codec(error) or f"{type(error).__name__}: {error}")
        return 1
    finally:
        say("shutdown_complete")
    return 0 if member.ended_by is None else 128 + member.ended_by


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
