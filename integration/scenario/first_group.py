"""Finds the group of a service whose group nobody named, on a broker that has no other groups."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Collection
from contextlib import closing, suppress
from pathlib import Path

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from kafka_assignors.connection import Connection
from kafka_assignors.coordinator import log_consumer
from kafka_assignors.core.wire.protocol import decode_subscription
from kafka_assignors.errors import WireError
from kafka_assignors.history.broker_group import MEMBER
from kafka_assignors.history.coordinator_log import COORDINATOR_TOPIC, BrokerAssigned, Decoded, GroupCommitted, decode

from ..errors import MemberDied, NotStable
from ..members.config import MemberConfig
from ..members.running import STOP_S
from ..members.service import PATIENCE_S, SERVICE, Service, kill_session, last_line
from ..processes.child import ChildProgram

_TICK_MS = 200


def first_group(  # what a service is told, and two limits, given by name
    connection: Connection,
    service: Service,
    topics: Collection[str],
    log: Path,
    *,
    output: str | None = None,
    timeout_s: float = PATIENCE_S,
) -> str:
    """Start one process of a service, end it, and return the first group that subscribed to one of these topics.

    The coordinator's log tells it, of every client and both protocols. The group is removed with its offsets, so that
    a run begins as if the process had never been there; the topics have no records yet. The run started the broker, so
    every group there is the service's. The file `log` gets what the process prints. `timeout_s` limits the time for the
    group to appear, and for its last member to be missed.

    Raises:
        MemberDied: The process ended before a group subscribed.
        NotStable: No group subscribed in time, or the group still has a member when its process is gone.
    """
    name = "m1"
    config = MemberConfig(connection.bootstrap, "", name, tuple(sorted(topics)), (SERVICE,), "", "", output=output)
    filled = service.filled(config)
    with closing(log_consumer(connection, auto_offset_reset="earliest")) as consumer:
        program = ChildProgram(filled.command, log, environment={"PYTHONUNBUFFERED": "1", **filled.environment})
        session = program.pids()[:1]
        try:
            group = _first(consumer, program, topics, log, timeout_s)
        finally:
            program.terminate()
            with suppress(subprocess.TimeoutExpired):
                program.wait(STOP_S)
            program.close()
            kill_session(session)
    _remove(connection, group, timeout_s)
    return group


def _first(consumer: KafkaConsumer, program: ChildProgram, topics: Collection[str], log: Path, timeout_s: float) -> str:
    deadline = time.monotonic() + timeout_s
    wanted = ", ".join(sorted(topics))
    while True:
        if not consumer.assignment() and (partitions := consumer.partitions_for_topic(COORDINATOR_TOPIC)):
            consumer.assign([TopicPartition(COORDINATOR_TOPIC, number) for number in sorted(partitions)])
        polled = consumer.poll(timeout_ms=_TICK_MS) if consumer.assignment() else {}
        for records in polled.values():
            for record in records:
                decoded = decode(record.key, record.value)
                if _subscribes(decoded, topics):
                    return str(decoded.group)
        if program.pid is None or not program.runs:
            raise MemberDied(
                f"the service ended with exit code {program.returncode} before a group subscribed to {wanted}: "
                f"{last_line(log)} (its log: {log})"
            )
        if time.monotonic() > deadline:
            raise NotStable(
                f"no group subscribed to {wanted} within {timeout_s:g} s; does the service read these topics? Its log: "
                f"{log}"
            )
        if not consumer.assignment():  # nobody has looked for a coordinator yet
            time.sleep(_TICK_MS / 1000)


def _subscribes(decoded: Decoded, topics: Collection[str]) -> bool:
    """Whether a record tells that a member of a group subscribes to one of these topics."""
    if isinstance(decoded, GroupCommitted):
        for member in decoded.members:
            with suppress(WireError):
                if not frozenset(topics).isdisjoint(decode_subscription(member.subscription).topics):
                    return True
        return False
    if not isinstance(decoded, BrokerAssigned) or decoded.record != MEMBER or decoded.fields is None:
        return False
    names = decoded.fields.get("subscribedTopicNames") or ()
    pattern = decoded.fields.get("subscribedTopicRegex")
    return any(topic in names or (pattern and re.fullmatch(pattern, topic)) for topic in topics)


def _remove(connection: Connection, group: str, timeout_s: float) -> None:
    """Remove a group as soon as its coordinator has missed its last member."""
    deadline = time.monotonic() + timeout_s
    with closing(KafkaAdminClient(**connection.kafka_python())) as admin:
        while (answer := dict(admin.delete_groups([group]))[group]) not in ("OK", "GroupIdNotFoundError"):
            if time.monotonic() > deadline:
                raise NotStable(
                    f"group {group!r} still has a member {timeout_s:g} s after its process ended ({answer}); name the "
                    "group by --group"
                )
            time.sleep(_TICK_MS / 1000)
