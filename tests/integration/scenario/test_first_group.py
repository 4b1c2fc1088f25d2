"""The group of a service is found by the topics that it reads, whatever its name; nothing of the first start stays."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from kafka import KafkaAdminClient

from kafka_assignors.core.wire.protocol import Subscription, encode_subscription
from kafka_assignors.history.broker_group import MEMBER
from kafka_assignors.history.coordinator_log import BrokerAssigned, CommittedMember, Decoded, GroupCommitted, Unknown
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.errors import MemberDied, NotStable
from kafka_assignors.integration.members.service import Service
from kafka_assignors.integration.scenario.first_group import _subscribes, first_group

WORKER = """\
import os, signal, sys
from kafka import KafkaConsumer
from kafka_assignors import RangeAssignor
address, topic, group, pids = sys.argv[1:]
with open(pids, "a") as file:
    print(os.getpid(), file=file)
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
consumer = KafkaConsumer(
    topic, bootstrap_servers=address, group_id=group, session_timeout_ms=6_000, heartbeat_interval_ms=500,
    partition_assignment_strategy=[RangeAssignor()],
)
while not stop:
    consumer.poll(timeout_ms=200)
    consumer.commit()
consumer.close()
"""


def committed(*subscriptions: bytes) -> GroupCommitted:
    members = tuple(CommittedMember("id", None, "m1", "", 0, 0, subscription, b"") for subscription in subscriptions)
    return GroupCommitted("billing", "consumer", 1, "range", "id", 0, members)


def joined(record: str = MEMBER, **fields: Any) -> BrokerAssigned:
    names = {"subscribedTopicNames": [], "subscribedTopicRegex": None}
    return BrokerAssigned(record, "billing", "id", {**names, **fields})


@pytest.mark.parametrize(
    ("decoded", "is_it"),
    [
        (committed(encode_subscription(Subscription(("audit", "orders")))), True),
        (committed(b"", encode_subscription(Subscription(("orders",)))), True),
        (committed(encode_subscription(Subscription(("audit",)))), False),
        (committed(), False),
        (joined(subscribedTopicNames=["orders"]), True),
        (joined(subscribedTopicNames=["audit"]), False),
        (joined(subscribedTopicRegex="ord.*"), True),
        (joined(subscribedTopicRegex="ord"), False),
        (joined("ConsumerGroupMetadata", subscribedTopicNames=["orders"]), False),
        (BrokerAssigned(MEMBER, "billing", "id", None), False),
        (Unknown("a malformed record", "billing"), False),
    ],
)
def test_a_group_is_that_of_a_member_that_subscribes_to_a_topic(decoded: Decoded, is_it: bool) -> None:
    assert _subscribes(decoded, ["orders", "payments"]) == is_it


@pytest.mark.broker
def test_the_group_is_found_and_nothing_of_the_first_start_stays(
    kafka_broker: Broker, kafka_topic: Callable[..., str], kafka_admin: KafkaAdminClient, tmp_path: Path
) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    topic, pids = kafka_topic(partitions=2), tmp_path / "pids"
    group = f"of-its-own-{topic}"
    command = (sys.executable, str(tmp_path / "worker.py"), "{bootstrap}", "{topic}", group, str(pids))

    name = first_group(kafka_broker.connection, Service(command), [topic], tmp_path / "log", timeout_s=60)

    assert name == group
    assert group not in {row["group_id"] for row in kafka_admin.list_groups()}
    (pid,) = pids.read_text().split()
    assert not psutil.pid_exists(int(pid))


@pytest.mark.broker
@pytest.mark.parametrize(
    ("program", "timeout_s", "error", "words"),
    [
        ("exit('no database')", 60, MemberDied, "exit code 1 before a group subscribed to .*: no database"),
        ("import time; time.sleep(60)", 1, NotStable, "no group subscribed to topic-.* within 1 s; does the service"),
    ],
    ids=["it ends", "it waits"],
)
def test_a_service_that_joins_no_group_is_told(  # a row of the table, and fixtures
    program: str,
    timeout_s: float,
    error: type[Exception],
    words: str,
    kafka_broker: Broker,
    kafka_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    topic, service = kafka_topic(), Service((sys.executable, "-c", program))

    with pytest.raises(error, match=words):
        first_group(kafka_broker.connection, service, [topic], tmp_path / "log", timeout_s=timeout_s)
