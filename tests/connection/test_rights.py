"""The least rights of every command: with them it works, and without any one of them the sentence names it.

`least.py` has the table.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from logging.handlers import QueueHandler
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from typer.testing import CliRunner

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor, plan
from kafka_assignors.aiokafka import RangeAssignor as AioRange
from kafka_assignors.confluent import BridgedConsumer
from kafka_assignors.connection import Connection, Right, needing
from kafka_assignors.errors import AccessRefused, KafkaAssignorsError
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.commands import demo
from kafka_assignors.integration.commands.cli import app as harness
from kafka_assignors.integration.commands.group_watcher import GroupWatcher
from kafka_assignors.operator.live.cluster import LiveCluster
from kafka_assignors.operator.live.group import as_group
from kafka_assignors.operator.live.monitor import Monitor
from kafka_assignors.operator.live.overview import overview
from kafka_assignors.producers import RoundRobinPartitioner
from kafka_assignors.producers.commands import app as producers
from kafka_assignors.producers.group_lag import GroupLag
from tests.support.connection.least import (
    GROW,
    MAKE_EVENTS,
    NEEDED,
    READ_GROUP,
    READ_LOG,
    READ_TOPIC,
    SEE_GROUP,
    SEE_TOPIC,
    TRANSACT,
    WRITE_EVENTS,
    WRITE_TOPIC,
)
from tests.support.connection.scenarios import short_scenario

ENDS_S = 20
_COUNTER = itertools.count()


@pytest.fixture(autouse=True, scope="module")
def _owned(secured_broker: Broker, orders: str) -> Iterator[None]:
    """A group that owns partitions and has committed. Nobody polls it later, so nobody else may join it."""
    consumer = KafkaConsumer(
        orders,
        bootstrap_servers=secured_broker.bootstrap,
        group_id="owned",
        auto_offset_reset="earliest",
        partition_assignment_strategy=[RangeAssignor],
    )
    with closing(consumer):
        deadline = time.monotonic() + ENDS_S
        while not consumer.poll(timeout_ms=1000):
            assert time.monotonic() < deadline, f"no record within {ENDS_S} s"
        consumer.commit()
        yield


def command(app: Any, connection: Connection, *words: str) -> str:
    """A command of ours; what it prints, or its error."""
    with connection.file() as config:
        done = CliRunner().invoke(app, [*words, "--config", str(config)])
    if done.stderr:  # also of what couldn't be removed
        raise AccessRefused(done.stderr.strip())
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


class Warned(KafkaAssignorsError):
    """What an assignor of ours logged: a group must not end because its leader may not see a topic."""


@contextmanager
def warnings() -> Iterator[Callable[[], None]]:
    """Inside, what our assignors log is raised by the function that this gives."""
    told: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    logger, handler = logging.getLogger("kafka_assignors"), QueueHandler(told)

    def look() -> None:
        with suppress(queue.Empty):
            raise Warned(told.get_nowait().getMessage())

    logger.addHandler(handler)
    try:
        yield look
    finally:
        logger.removeHandler(handler)


def consumer(connection: Connection) -> None:
    with (
        warnings() as look,
        needing(connection, READ_TOPIC, READ_GROUP),
        closing(
            KafkaConsumer(
                "orders", **connection.kafka_python(), group_id="billing", enable_auto_commit=False,
                partition_assignment_strategy=[CooperativeStickyAssignor], auto_offset_reset="earliest",
            )
        ) as joined,
    ):  # fmt: skip
        deadline = time.monotonic() + ENDS_S
        while not joined.poll(timeout_ms=1000):
            look()
            assert time.monotonic() < deadline, f"no record within {ENDS_S} s"
        joined.commit({TopicPartition("orders", 0): OffsetAndMetadata(0, "", -1)})  # the next one has records too


def bridge(connection: Connection) -> None:
    config = {**connection.librdkafka(), "group.id": "billing", "auto.offset.reset": "earliest"}
    with (
        warnings() as look,
        needing(connection, READ_TOPIC, READ_GROUP),
        BridgedConsumer(config, [CooperativeStickyAssignor]) as joined,
    ):
        joined.subscribe(["orders"])
        deadline = time.monotonic() + ENDS_S
        while (message := joined.poll(1.0)) is None:
            look()
            assert time.monotonic() < deadline, f"no message within {ENDS_S} s"
        if message.error():
            raise RuntimeError(message.error().str())


def python_producer(connection: Connection) -> None:
    partitioner = RoundRobinPartitioner()
    with (
        needing(connection, WRITE_TOPIC),
        closing(KafkaProducer(**connection.kafka_python(), partitioner=partitioner)) as sending,
    ):
        sending.send("orders", b"x").get(ENDS_S)


def confluent_producer(connection: Connection) -> None:
    from kafka_assignors.producers.confluent import PartitioningProducer

    told: list[Any] = []
    sending = PartitioningProducer({**connection.librdkafka(), "message.timeout.ms": 5000}, RoundRobinPartitioner())
    with needing(connection, WRITE_TOPIC):
        sending.produce("orders", b"x", on_delivery=lambda error, _: told.append(error))
        sending.flush(ENDS_S)
        if told[0] is not None:
            raise RuntimeError(told[0])


async def aio_consumer(connection: Connection) -> None:
    from aiokafka import AIOKafkaConsumer

    with warnings() as look, needing(connection, READ_TOPIC, READ_GROUP):
        joined = AIOKafkaConsumer(
            "orders", **connection.aiokafka(), group_id="billing", enable_auto_commit=False,
            partition_assignment_strategy=[AioRange()], auto_offset_reset="earliest",
        )  # fmt: skip
        try:
            await joined.start()
            deadline = time.monotonic() + ENDS_S
            while not await joined.getmany(timeout_ms=500):
                look()
                assert time.monotonic() < deadline, f"no record within {ENDS_S} s"
        finally:
            await joined.stop()


async def aio_producer(connection: Connection) -> None:
    from kafka_assignors.producers.aiokafka import PartitioningProducer

    with needing(connection, WRITE_TOPIC):
        sending = PartitioningProducer(**connection.aiokafka(), partitioner=RoundRobinPartitioner())
        try:
            await sending.start()
            await sending.send_and_wait("orders", b"x")
        finally:
            await sending.stop()


def lag_of_a_group(connection: Connection) -> None:
    with warnings() as look, GroupLag("owned", interval_s=0.1, **connection.kafka_python()) as lag:
        deadline = time.monotonic() + ENDS_S
        while lag("orders") is None:
            look()
            assert time.monotonic() < deadline, f"no lag within {ENDS_S} s"
            time.sleep(0.02)


def plan_of_a_live_group(connection: Connection) -> None:
    with LiveCluster(connection) as cluster:
        live = cluster.group("owned")
        group = as_group(live, cluster.topics({topic for member in live.members for topic in member.topics}))
    assert group.partitions == {"orders": 4}
    assert plan(group).assignment == {member.member_id: {"orders": [0, 1, 2, 3]} for member in group.members}


def external_run(connection: Connection, tmp_path: Path, *words: str, scenario: str | None = None) -> None:
    out = str(tmp_path / f"run-{next(_COUNTER)}")
    options = ("--confirm", "--timeout-s", str(ENDS_S), "--out", out, *words)
    command(harness, connection, "run", scenario or short_scenario(tmp_path), *options)


COMMANDS: dict[str, Callable[[Connection, Path], object]] = {
    "consumer with an assignor, kafka-python": lambda c, _: consumer(c),
    "consumer with an assignor, aiokafka": lambda c, _: asyncio.run(aio_consumer(c)),
    "bridge for confluent-kafka": lambda c, _: bridge(c),
    "producer with a partitioner, kafka-python": lambda c, _: python_producer(c),
    "producer with a partitioner, confluent-kafka": lambda c, _: confluent_producer(c),
    "producer with a partitioner, aiokafka": lambda c, _: asyncio.run(aio_producer(c)),
    "lag of a group, for a producer": lambda c, _: lag_of_a_group(c),
    "plan of a live group": lambda c, _: plan_of_a_live_group(c),
    "watch": lambda c, _: command(harness, c, "watch", "owned", "--once", "--json"),
    "keys place": lambda c, _: command(producers, c, "place", "orders", "k"),
    "keys audit": lambda c, _: command(producers, c, "audit", "orders", "--strays", "0"),
    "keys growth TOPIC": lambda c, _: command(producers, c, "growth", "--from", "4", "--to", "8", "orders"),
    "test": external_run,
}


OF_A_RUN = [right for right in NEEDED["test"] if right.operation in ("Create", "Read")]
"""Those that a run needs to make its topics, to read them and its log, and to be a group; the long form has all."""


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        *((name, NEEDED[name]) for name in COMMANDS if name != "test"),
        pytest.param("test", OF_A_RUN, marks=pytest.mark.release("the commands that read")),
        pytest.param("test", NEEDED["test"], marks=pytest.mark.long),
    ],
    ids=[*(name for name in COMMANDS if name != "test"), "test", "test, every right"],
)
def test_the_least_rights_are_enough_and_each_is_needed(name: str, needed: Sequence[Right], user: Any, tmp_path: Path):
    run = COMMANDS[name]
    run(user(*NEEDED[name]), tmp_path)
    for missing in needed:
        lesser = user(*(right for right in NEEDED[name] if right != missing))
        with pytest.raises(KafkaAssignorsError) as refused:
            run(lesser, tmp_path)
        said = str(refused.value)
        user_ = "its user" if isinstance(refused.value, Warned) else f"user {lesser.username!r}"
        assert f"{user_} lacks the permission {missing.operation} on {missing.kind} " in said
        assert "; an administrator can grant it with" in said
        print(f"{name}, without {missing}: {said}")
        assert not any(secret in said for secret in lesser.secrets)


def test_groups_tells_what_its_user_may_not_see(user: Any, secured_broker: Broker, orders: str) -> None:
    read: dict[str, Any] = {}
    for name, rights in {"all": (SEE_GROUP, SEE_TOPIC, READ_LOG), "no log": (SEE_GROUP, SEE_TOPIC),
                         "no topic": (SEE_GROUP, READ_LOG)}.items():  # fmt: skip
        notes: list[str] = []
        with LiveCluster(user(*rights)) as cluster:
            [line] = overview(cluster, ["owned"], notes.append)
        read[name] = line, notes

    line, notes = read["all"]
    assert (line.state, line.members, line.unknown, notes) == ("Stable", 1, (), [])
    assert line.rebalanced_ms is not None
    line, notes = read["no log"]
    assert (line.members, line.rebalanced_ms) == (1, None)
    assert "lacks the permission Read on Topic __consumer_offsets" in notes[0]
    line, notes = read["no topic"]
    assert (line.members, line.lag, line.uncommitted, notes) == (1, None, None, [])
    assert "lacks the permission Describe on Topic orders" in line.unknown[0]


def test_an_exporter_without_the_log_polls_and_says_so(user: Any, secured_broker: Broker, orders: str):
    """Each right that is missing costs what the page says; a group that may not be seen is refused."""
    read: dict[str, Any] = {}
    for name, rights in {"all": (SEE_GROUP, SEE_TOPIC, READ_LOG), "no log": (SEE_GROUP, SEE_TOPIC),
                         "no topic": (SEE_GROUP, READ_LOG)}.items():  # fmt: skip
        notes: list[str] = []
        with LiveCluster(user(*rights)) as cluster, Monitor(cluster, ["owned"], notes.append) as monitor:
            [reading] = monitor.read(0)
        read[name] = (reading.may_miss, reading.live and len(reading.live.members), reading.gap,
                      [note.partition(":")[0] for note in notes])  # fmt: skip
    assert read == {
        "all": (False, 1, 0, []),
        "no log": (True, 1, 0, ["may miss rebalances"]),
        "no topic": (False, 1, None, ["plan_gap is not told"]),
    }
    with LiveCluster(user(SEE_TOPIC, READ_LOG)) as cluster, pytest.raises(AccessRefused, match="Describe on Group"):
        Monitor(cluster, ["owned"], print)


def test_watch_goes_on_past_what_its_user_may_not_see(user: Any, secured_broker: Broker, orders: str) -> None:
    """A hidden topic, a hidden group: unknown, named once with the missing right, and the others are shown."""
    notes: list[str] = []
    with GroupWatcher(user(SEE_GROUP), ["owned"], notes.append, follow=False) as watcher:
        [view] = watcher.views()
        watcher.views()
    assert (view.state, len(view.owned), {owned.lag for owned in view.owned}) == ("Stable", 4, {None})
    assert "lacks the permission Describe on Topic orders" in view.unknown[0]
    assert [note.partition(":")[0] for note in notes] == ["group 'owned' is unknown in part"]

    for follow in (False, True):
        notes.clear()
        groups = ["secret", "owned"]
        with GroupWatcher(user(SEE_GROUP, SEE_TOPIC, READ_LOG), groups, notes.append, follow=follow) as watcher:
            secret, owned = watcher.views()
        assert (secret.state, secret.members) == ("unknown", ())
        assert "lacks the permission Describe on Group secret" in secret.unknown[0]
        assert (owned.state, owned.unknown, len(owned.members)) == ("Stable", (), 1)
        assert None not in {place.lag for place in owned.owned}
        assert len(notes) == 1
        assert "Describe on Group secret" in notes[0]
    with (
        GroupWatcher(user(SEE_TOPIC), ["owned", "secret"], notes.append, follow=False) as watcher,
        pytest.raises(AccessRefused, match="Describe on Group owned"),
    ):
        watcher.views()


def test_an_exporter_tells_the_lag_of_what_it_may_see(user: Any, secured_broker: Broker, orders: str) -> None:
    notes: list[str] = []
    read: dict[str, Any] = {}
    for name, rights in {"all": (SEE_GROUP, SEE_TOPIC, READ_LOG), "no topic": (SEE_GROUP, READ_LOG)}.items():
        with (
            LiveCluster(user(*rights)) as cluster,
            Monitor(cluster, ["owned", "secret"], notes.append, lags_s=60) as monitor,
        ):
            read[name] = monitor.read(0)

    owned, secret = read["all"]
    assert {tp.topic for tp in owned.positions} == {orders}
    assert (owned.unknown, secret.live) == ((), None)
    assert "Describe on Group secret" in secret.unknown[0]
    owned, _ = read["no topic"]
    assert owned.live is not None
    assert owned.positions == {}
    assert "Describe on Topic orders" in owned.unknown[0]


SOON = {"consumer": {"metadata_max_age_ms": 1000}}
GROWING = {"name": "orders grows", "actions": [{"add_partitions": "orders", "partitions": 5}]}


# long: a missing right is told as in the tests above; the demo's test has the rights of events, and no other
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "missing", "words", "steps", "fields"),
    [
        ("test --events-topic", (MAKE_EVENTS, WRITE_EVENTS), ("--events-topic", "events"), (), {}),
        ("test of a scenario that adds partitions", (GROW,), (), (GROWING,), SOON),
        ("test of a scenario with transactions", (TRANSACT,), (), (), {"output": "done"}),
    ],
)
def test_what_some_runs_need_beside(
    name: str, missing: Sequence[Right], words: Sequence[str], steps: Any, fields: Any, user: Any, tmp_path: Path
):
    """The rights of every run are proven above."""
    scenario = short_scenario(tmp_path, *steps, **fields)
    for each in missing:
        lesser = user(*(right for right in NEEDED[name] if right != each))
        with pytest.raises(AccessRefused, match=f"lacks the permission {each.operation} on {each.kind} ") as refused:
            external_run(lesser, tmp_path, *words, scenario=scenario)
        print(f"{name}, without {each}: {refused.value}")
    external_run(user(*NEEDED[name]), tmp_path, *words, scenario=scenario)


REMOVES = tuple(right for right in NEEDED["demo"] if right.operation == "Delete")


@pytest.mark.parametrize(
    "missing",
    [
        # long: those that take some seconds until they are missed: when groups join, when records are read, and when
        # all is removed, as by `run`
        pytest.param(right, marks=pytest.mark.long)
        if right.kind == "Group" or right.operation == "Read" or right in REMOVES
        else right
        for right in NEEDED["demo"]
    ],
    ids=str,
)
def test_the_demo_names_the_right_that_is_missing(
    missing: Right, user: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Of a demo of fewer records and groups. `test_cli.py` has the whole one, with exactly its rights."""
    monkeypatch.setattr(demo, "RECORDS_PER_TOPIC", 1)
    monkeypatch.setattr(demo, "QUICK_ASSIGNORS", demo.QUICK_ASSIGNORS[:1])
    lesser = user(*(right for right in NEEDED["demo"] if right != missing))
    with lesser.file() as config:
        words = ["demo", "--confirm", "--out", str(tmp_path / "out"), "--config", str(config)]
        done = CliRunner().invoke(harness, words)
    assert f"user {lesser.username!r} lacks the permission {missing.operation} on {missing.kind} " in done.output
    assert "; an administrator can grant it with" in done.output
    assert (done.exit_code == 0) == (missing in REMOVES)  # what is made is left, and named
