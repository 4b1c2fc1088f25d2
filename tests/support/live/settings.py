"""Sound services at settings that users have: ``python -m tests.support.live.settings --seeds 0..19``.

A seed draws how a service reads (one by one, in batches, by iteration), commits (by itself, in turns, by offset,
without waiting), what its group does (assignors, static members, session), what its callbacks do, how long its work
takes, and what happens to its processes. Whatever is drawn, the service is sound, and its verdict must be true.
"""

from __future__ import annotations

import random
import re
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.members.service import Service
from kafka_assignors.integration.scenario import SCENARIOS
from kafka_assignors.integration.scenario.clients import of_service
from kafka_assignors.integration.scenario.runner import run_scenario
from kafka_assignors.integration.topics.sandbox import Sandbox

from . import many

CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka", "confluent-kafka.aio")
_BEGIN = """\
import random, signal, sys, time
address, group, topics, replica = sys.argv[1:5]
topics, pattern = topics.split(","), "^(" + topics.replace(",", "|") + ")$"
chance, stop, due = random.Random(replica), [], 0.0

def end(*_):
    stop.append(1)

def work(record):
{work}

signal.signal(signal.SIGTERM, end)
"""
_WORK = {
    "none": "    pass",
    "3 ms": "    time.sleep(0.003)",
    "60 ms": "    time.sleep(0.06)",
    "now and then 2 s": "    time.sleep(2 if chance.random() < 0.01 else 0)",
    "of the processor": "    sum(i * i for i in range(30_000))",
}

_KAFKA_PYTHON = """\
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
import kafka_assignors

done = {{}}

class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked):
        pass  # kafka-python takes no commit here: it calls from its own thread
    def on_partitions_assigned(self, assigned):
        done.clear()

consumer = KafkaConsumer({settings})
{subscribe}

def commit(wait=True):
    try:
        {commit}
    except KafkaError:
        pass  # a rebalance: whoever gets the partition reads these records again

{loop}
consumer.close()
"""
_KAFKA_PYTHON_LOOPS = {
    "polls": """\
while not stop:
    batch = consumer.poll(timeout_ms=200)
    for tp, records in batch.items():
        for record in records:
            work(record)
        done[tp] = records[-1].offset + 1
    if batch:
        commit()
""",
    "iterates": """\
while not stop:
    for record in consumer:  # until consumer_timeout_ms
        work(record)
        done[TopicPartition(record.topic, record.partition)] = record.offset + 1
        if record.offset % 5 == 0:
            commit()
        if stop:
            break
    commit()
""",
    "pauses": """\
while not stop:
    batch = consumer.poll(timeout_ms=200)
    if not batch:
        continue
    consumer.pause(*batch)
    for tp, records in batch.items():
        for record in records:
            work(record)
        done[tp] = records[-1].offset + 1
    commit()
    consumer.resume(*[tp for tp in batch if tp in consumer.assignment()])
""",
}
_KAFKA_PYTHON_COMMITS = {
    "by itself": "pass",
    "by itself, often": "pass",
    "in turns": "consumer.commit()",
    "by offset": "places = {tp: OffsetAndMetadata(at, '', -1) for tp, at in done.items()}; done.clear(); "
    "consumer.commit({tp: place for tp, place in places.items() if tp in consumer.assignment()})",
    "without waiting": "consumer.commit_async()",
}

_CONFLUENT = """\
from confluent_kafka import Consumer, KafkaException, TopicPartition

done = {{}}

def on_assign(consumer, partitions):
    {on_assign}

def on_revoke(consumer, partitions):
    {on_revoke}

def on_lost(consumer, partitions):
    for tp in partitions:
        done.pop((tp.topic, tp.partition), None)

consumer = Consumer({settings})
consumer.subscribe({topics}{callbacks})

def commit(message=None):
    try:
        {commit}
    except KafkaException:
        pass  # a rebalance: whoever gets the partition reads these records again

{loop}
consumer.close()
"""
_CONFLUENT_LOOPS = {
    "polls": """\
while not stop:
    message = consumer.poll(0.2)
    if message is None or message.error():
        continue
    work(message)
    done[message.topic(), message.partition()] = message.offset() + 1
    commit(message)
""",
    "consumes": """\
while not stop:
    batch = [message for message in consumer.consume(20, 0.2) if not message.error()]
    for message in batch:
        work(message)
        done[message.topic(), message.partition()] = message.offset() + 1
    if batch:
        commit()
""",
    "pauses": """\
while not stop:
    batch = [message for message in consumer.consume(50, 0.2) if not message.error()]
    places = [TopicPartition(*tp) for tp in {(message.topic(), message.partition()) for message in batch}]
    consumer.pause(places)
    for message in batch:
        work(message)
        done[message.topic(), message.partition()] = message.offset() + 1
    if batch:
        commit()
    consumer.resume([tp for tp in places if tp in consumer.assignment()])
""",
}
_CONFLUENT_COMMITS = {
    "by itself": "pass",
    "by itself, often": "pass",
    "stores": "consumer.store_offsets(offsets=[TopicPartition(*tp, at) for tp, at in done.items()]); done.clear()",
    "in turns": "consumer.commit(asynchronous=False)",
    "by offset": "mine = [TopicPartition(*tp, at) for tp, at in done.items()]; done.clear(); "
    "consumer.commit(offsets=mine, asynchronous=False)",
    "by message": "consumer.commit(message, asynchronous=False) if message else consumer.commit(asynchronous=False)",
    "without waiting": "consumer.commit()",
}
_CONFLUENT_AIO_COMMITS = {
    name: re.sub(r"consumer\.(commit|store_offsets)\(", r"await consumer.\1(", line)
    for name, line in _CONFLUENT_COMMITS.items()
}

_CONFLUENT_AIO = """\
import asyncio
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.aio import AIOConsumer

done = {{}}

async def on_assign(consumer, partitions):
    {on_assign}

async def on_revoke(consumer, partitions):
    {on_revoke}

async def on_lost(consumer, partitions):
    for tp in partitions:
        done.pop((tp.topic, tp.partition), None)

async def commit(message=None):
    try:
        {commit}
    except KafkaException:
        pass  # a rebalance: whoever gets the partition reads these records again

async def main():
    global consumer
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    consumer = AIOConsumer({settings})
    await consumer.subscribe({topics}{callbacks})

{loop}
    await consumer.close()

asyncio.run(main())
"""
_CONFLUENT_AIO_LOOPS = {
    "polls": """\
    while not stop:
        message = await consumer.poll(0.2)
        if message is None or message.error():
            continue
        await asyncio.to_thread(work, message)
        done[message.topic(), message.partition()] = message.offset() + 1
        await commit(message)
""",
    "consumes": """\
    while not stop:
        batch = [message for message in await consumer.consume(20, 0.2) if not message.error()]
        for message in batch:
            await asyncio.to_thread(work, message)
            done[message.topic(), message.partition()] = message.offset() + 1
        if batch:
            await commit()
""",
}

_AIOKAFKA = """\
import asyncio
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

done = {{}}

class Listener(ConsumerRebalanceListener):
    # aiokafka rebalances in a task of its own: nothing is given up between a batch and its commit
    async def on_partitions_revoked(self, revoked):
        async with busy:
            {on_revoke}
    async def on_partitions_assigned(self, assigned):
        pass

async def main():
    global busy, consumer
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    busy = asyncio.Lock()
    consumer = AIOKafkaConsumer({settings})
    consumer.subscribe({subscribe}, listener=Listener())
    await consumer.start()

    async def commit():
        try:
            {commit}
        except KafkaError:
            pass  # a rebalance: whoever gets the partition reads these records again

{loop}
    await consumer.stop()

asyncio.run(main())
"""
_AIOKAFKA_LOOPS = {
    "many": """\
    while not stop:
        polled = await consumer.getmany(timeout_ms=200, max_records=20)
        async with busy:
            for tp, records in polled.items():
                if tp not in consumer.assignment():
                    continue  # it went between the poll and here
                for record in records:
                    await asyncio.to_thread(work, record)
                done[tp] = records[-1].offset + 1
            if done:
                await commit()
"""
}
_AIOKAFKA_LOOPS["one by one"] = """\
    while not stop:
        try:
            record = await asyncio.wait_for(consumer.getone(), 0.2)
        except asyncio.TimeoutError:
            continue
        async with busy:
            tp = TopicPartition(record.topic, record.partition)
            if tp in consumer.assignment():
                await asyncio.to_thread(work, record)
                done[tp] = record.offset + 1
                await commit()
"""
_AIOKAFKA_LOOPS["iterates"] = """\
    async def read():
        async for record in consumer:
            async with busy:
                tp = TopicPartition(record.topic, record.partition)
                if tp in consumer.assignment():
                    await asyncio.to_thread(work, record)
                    done[tp] = record.offset + 1
                    await commit()

    reading = asyncio.create_task(read())
    while not stop and not reading.done():
        await asyncio.sleep(0.1)
    async with busy:
        reading.cancel()
"""
_AIOKAFKA_COMMITS = {
    "by itself": "pass",
    "by itself, often": "pass",
    "in turns": "await consumer.commit()",
    "by offset": "mine = {tp: at for tp, at in done.items() if tp in consumer.assignment()}; done.clear(); "
    "await consumer.commit(mine)",
}
_TIMEOUTS = re.compile(
    r"""session_timeout_ms=10_000, heartbeat_interval_ms=1000, |"""
    r"""'session.timeout.ms': 10000, 'heartbeat.interval.ms': 1000, """
)
"""As the programs set them: short, because a kill rests for a session."""
SCENES = ("churn", "hand-over", "pause", "rejoin")
CHANCY = ("confluent-kafka", "pause")
"""librdkafka may hand out what it fetched for an assignment that is lost if the partition comes back at the next join
(C2)."""


@dataclass(frozen=True)
class Drawn:
    """What a seed draws for a client."""

    client: str
    seed: int
    program: str
    scene: str
    settings: dict[str, object]
    outside: bool = False
    """Whether it has no recorder and is seen on its connections alone."""
    topics: int = 1


def drawn(client: str, seed: int) -> Drawn:
    """The service of a seed, and what happens to it."""
    chance = random.Random(f"{client} {seed}")
    scene = chance.choice(SCENES)
    if client.startswith(CHANCY[0]) and scene == CHANCY[1]:
        scene = "churn"
    make = dict(zip(CLIENTS, (_kafka_python, _confluent, _aiokafka, _confluent_aio), strict=True))[client]
    work = chance.choice(list(_WORK))
    chosen, program = make(chance)
    chosen["work"] = work
    if scene in ("hand-over", "rejoin") and chance.random() < 0.4:  # no session has to end
        chosen["timeouts"] = "the client's"
        program = _TIMEOUTS.sub("", program)
    return Drawn(client, seed, _BEGIN.format(work=_WORK[work]) + program, scene, chosen)


def _kafka_python(chance: random.Random) -> tuple[dict[str, object], str]:
    commits, loop = chance.choice(list(_KAFKA_PYTHON_COMMITS)), chance.choice(list(_KAFKA_PYTHON_LOOPS))
    assignor = chance.choice(["RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"])
    static, listens, pattern = chance.random() < 0.2, chance.random() < 0.5, chance.random() < 0.2
    isolation = chance.choice(["read_uncommitted", "read_committed"])
    most = chance.choice([500, 20])
    settings = [
        "bootstrap_servers=address", "group_id=group", 'auto_offset_reset="earliest"', "session_timeout_ms=10_000",
        "heartbeat_interval_ms=1000", "consumer_timeout_ms=500", f"max_poll_records={most}",
        f"enable_auto_commit={commits.startswith('by itself')}", f"isolation_level={isolation!r}",
        f"partition_assignment_strategy=[kafka_assignors.{assignor}()]",
    ]  # fmt: skip
    if commits == "by itself, often":
        settings.append("auto_commit_interval_ms=200")
    if static:
        settings.append("group_instance_id=replica")
    named = "pattern=pattern" if pattern else "topics"
    program = _KAFKA_PYTHON.format(
        settings=", ".join(settings), loop=_KAFKA_PYTHON_LOOPS[loop], commit=_KAFKA_PYTHON_COMMITS[commits],
        subscribe=f"consumer.subscribe({named}{', listener=Listener()' if listens else ''})",
    )  # fmt: skip
    return {
        "commits": commits, "loop": loop, "assignor": assignor, "static": static, "listens": listens,
        "pattern": pattern, "isolation": isolation, "most": most,
    }, program  # fmt: skip


def _confluent(chance: random.Random, aio: bool = False) -> tuple[dict[str, object], str]:
    loops, ways = (_CONFLUENT_AIO_LOOPS, _CONFLUENT_AIO_COMMITS) if aio else (_CONFLUENT_LOOPS, _CONFLUENT_COMMITS)
    commits, loop = chance.choice(list(ways)), chance.choice(list(loops))
    assignor = chance.choice(["range,roundrobin", "range", "roundrobin", "cooperative-sticky", "broker"])
    static, pattern = chance.random() < 0.2, chance.random() < 0.2
    called = chance.choice(["none", "both", "assigns"])
    own_commit = chance.random() < 0.4 and called != "none" and not commits.startswith("by itself")
    settings: dict[str, object] = {
        "auto.offset.reset": "earliest", "enable.auto.commit": commits.startswith("by itself") or commits == "stores",
    }  # fmt: skip
    if assignor == "broker":
        settings["group.protocol"] = "consumer"
    else:
        settings |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1000}
        if assignor != "range,roundrobin":
            settings["partition.assignment.strategy"] = assignor
    if commits in ("by itself, often", "stores"):
        settings["auto.commit.interval.ms"] = 200
    if commits == "stores":
        settings["enable.auto.offset.store"] = False
    if chance.random() < 0.3:
        settings["isolation.level"] = "read_uncommitted"
    given = repr(settings)[:-1] + ', "bootstrap.servers": address, "group.id": group'
    given += ', "group.instance.id": replica}' if static else "}"
    incremental = "incremental_" if assignor in ("cooperative-sticky", "broker") else ""
    wait = "await " if aio else ""
    assign = f"{wait}consumer.{incremental}assign(partitions)" if called == "assigns" else "pass"
    revoke = f"{wait}commit(); " if own_commit and commits != "stores" else ""
    if called == "assigns":
        revoke += f"{wait}consumer.{incremental}unassign({'partitions' if incremental else ''})"
    program = (_CONFLUENT_AIO if aio else _CONFLUENT).format(
        settings=given, topics="[pattern]" if pattern else "topics", commit=ways[commits],
        loop=loops[loop], on_assign=assign, on_revoke=revoke or "pass",
        callbacks="" if called == "none" else ", on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost",
    )  # fmt: skip
    return {
        "commits": commits, "loop": loop, "assignor": assignor, "static": static, "pattern": pattern,
        "callbacks": called, "commits as it revokes": own_commit,
    }, program  # fmt: skip


def _confluent_aio(chance: random.Random) -> tuple[dict[str, object], str]:
    return _confluent(chance, aio=True)


def _aiokafka(chance: random.Random) -> tuple[dict[str, object], str]:
    commits, loop = chance.choice(list(_AIOKAFKA_COMMITS)), chance.choice(list(_AIOKAFKA_LOOPS))
    assignor = chance.choice(["", "RoundRobinPartitionAssignor", "StickyPartitionAssignor"])
    static, pattern = chance.random() < 0.2, chance.random() < 0.2
    own_commit = chance.random() < 0.4
    settings = [
        "bootstrap_servers=address", "group_id=group", 'auto_offset_reset="earliest"', "session_timeout_ms=10_000",
        "heartbeat_interval_ms=1000", f"enable_auto_commit={commits.startswith('by itself')}",
    ]  # fmt: skip
    if assignor:
        settings.append(f"partition_assignment_strategy=[{assignor}]")
    if commits == "by itself, often":
        settings.append("auto_commit_interval_ms=200")
    if static:
        settings.append("group_instance_id=replica")
    program = _AIOKAFKA.format(
        settings=", ".join(settings), loop=_AIOKAFKA_LOOPS[loop], commit=_AIOKAFKA_COMMITS[commits],
        on_revoke="await consumer.commit()" if own_commit else "pass",
        subscribe="pattern=pattern" if pattern else "topics",
    )  # fmt: skip
    return {
        "commits": commits, "loop": loop, "assignor": assignor or "default", "static": static, "pattern": pattern,
        "commits as it revokes": own_commit,
    }, program  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How a service was judged."""

    client: str
    seed: int
    scene: str
    settings: dict[str, object]
    value: bool | None
    violations: tuple[str, ...]
    unknown: tuple[str, ...]
    seconds: float


def played(what: Drawn, broker: Broker, folder: Path) -> Outcome:
    """Play a service and judge it; `folder` gets its program and the history."""
    began = time.monotonic()
    worker = folder / "worker.py"
    worker.write_text(what.program, "utf-8")
    python = (sys.executable, "-E") if what.outside else (sys.executable,)  # -E: no PYTHONPATH, so no recorder
    service = Service((*python, str(worker), "{bootstrap}", "{group}", "{topics}", "{replica}"))
    if what.scene == "rejoin":
        scenario = SCENARIOS["scale"]
        scenario = replace(scenario, steps=(*scenario.steps[:3], *scenario.steps[-2:]))
    else:
        scenario = SCENARIOS[what.scene]
    topics = {f"{folder.name}-orders": 6, **{f"{folder.name}-orders-{n}": 2 for n in range(1, what.topics)}}
    course = replace(of_service(scenario, topics), rate_per_s=60)
    with Sandbox(broker.connection) as sandbox:
        ran = run_scenario(
            course, broker, folder / "history", "run", sandbox=sandbox, group=f"g-{folder.name}", service=service,
            timeout_s=90,
        )  # fmt: skip
    verdict = judged(ran).verdict
    told = tuple(f"{v.law}: {v.message}" for v in verdict.violations)
    reasons = tuple(filter(None, (*verdict.unknown, ran.gave_up)))
    seconds = round(time.monotonic() - began, 1)
    return Outcome(what.client, what.seed, what.scene, what.settings, verdict.value, told, reasons, seconds)


def failed(what: Drawn, error: str) -> Outcome:
    """A play that raised."""
    return Outcome(what.client, what.seed, what.scene, what.settings, None, (), (error,), 0)


def main() -> None:
    """Play what is asked for, and print a line for each play."""
    parser = many.arguments(__doc__, CLIENTS)
    parser.add_argument("--outside", action="store_true", help="without a recorder")
    parser.add_argument("--topics", type=int, default=1, help="how many topics a service reads")
    parser.add_argument("--scene", choices=SCENES, help="by default drawn")
    asked = parser.parse_args()
    chosen = [
        replace(one, outside=asked.outside, topics=asked.topics, scene=asked.scene or one.scene)
        for seed in many.seeds(asked)
        for one in (drawn(client, seed) for client in asked.clients.split(","))
    ]
    many.print_outcomes(asked, chosen, played, failed)


if __name__ == "__main__":
    main()
