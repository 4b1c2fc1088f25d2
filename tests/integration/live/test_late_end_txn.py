"""A transaction's commit that comes late, and what `read_committed` then shows of the next one: docs/transactions.md.

A proxy delays the first EndTxn until the producer has given it up, sent it again on another connection, and begun its
next transaction. Only a broker that raises the producer's epoch with every transaction (KIP-890, transaction.version 2)
can tell the late copy from a commit of the next one, and only for clients that take the new epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from py4j.protocol import Py4JJavaError

from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.broker.java import LiveJava
from kafka_assignors.integration.proxy import Delay, FaultProxy
from kafka_assignors.integration.topics import Topics
from tests.support.pages import example
from tests.support.waiting import until

pytestmark = pytest.mark.broker

FIRST, SECOND = b"of the first transaction", b"of the second, never committed"
LATE_MS, GIVEN_UP_MS = 12_000, 4_000
"""How late the first EndTxn comes, and when its producer gives it up; `QUICK` is the short form."""
QUICK = (5_000, 1_500)
CALL_S = 60.0


class Client(Protocol):
    """A transactional producer; each call raises what the client raises."""

    refused: type[Exception] | tuple[type[Exception], ...]

    def begin(self, topic: str, value: bytes) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...


class Confluent:
    refused = KafkaException

    def __init__(self, bootstrap: str, name: str, given_up_ms: int | None) -> None:
        limit = {} if given_up_ms is None else {"socket.timeout.ms": given_up_ms}
        self._settings = {"bootstrap.servers": bootstrap, "client.id": name, "transactional.id": name, **limit}
        self._producer: Any = Producer(self._settings)
        self._producer.init_transactions(CALL_S)

    def begin(self, topic: str, value: bytes) -> None:
        self._producer.begin_transaction()
        self._producer.produce(topic, value)
        assert self._producer.flush(CALL_S) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(CALL_S)

    def abort(self) -> None:
        self._producer.abort_transaction(CALL_S)


class Renewed(Confluent):
    """The producer of the docs' page, which is ours."""

    def __init__(self, bootstrap: str, name: str, given_up_ms: int) -> None:
        super().__init__(bootstrap, name, given_up_ms)
        warm_up = {"settings": self._settings, "topic": f"{name}-warm-up", "value": b"x"}
        exec(example("docs/transactions.md", "TransactionalProducer"), warm_up)
        self._producer = warm_up["producer"]

    def commit(self) -> None:
        before = self._producer.producer
        super().commit()
        assert self._producer.producer is not before


class KafkaPython:
    refused = KafkaError

    def __init__(self, bootstrap: str, name: str, given_up_ms: int) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, client_id=name, transactional_id=name, request_timeout_ms=given_up_ms,
            max_block_ms=CALL_S * 1000,
        )  # fmt: skip
        self._producer.init_transactions()

    def begin(self, topic: str, value: bytes) -> None:
        self._producer.begin_transaction()
        self._producer.send(topic, value).get(CALL_S)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()


class Aiokafka:
    refused = Exception  # what its sender met, wrapped

    def __init__(self, bootstrap: str, name: str, given_up_ms: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._start(bootstrap, name, given_up_ms))

    async def _start(self, bootstrap: str, name: str, given_up_ms: int) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, client_id=name, transactional_id=name, request_timeout_ms=given_up_ms
        )
        await self._producer.start()

    def begin(self, topic: str, value: bytes) -> None:
        async def send() -> None:
            await self._producer.begin_transaction()
            await self._producer.send_and_wait(topic, value)

        self._loop.run_until_complete(send())

    def commit(self) -> None:
        self._loop.run_until_complete(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run_until_complete(self._producer.abort_transaction())

    def close(self) -> None:
        with suppress(Exception):  # it repeats the error of its sender
            self._loop.run_until_complete(self._producer.stop())
        self._loop.close()


class Java:
    refused = Py4JJavaError

    def __init__(self, java: LiveJava, bootstrap: str, name: str, given_up_ms: int) -> None:
        self._record = java.classes.org.apache.kafka.clients.producer.ProducerRecord
        self._producer = java.producer(
            bootstrap, client_id=name, transactional_id=name, request_timeout_ms=given_up_ms,
            delivery_timeout_ms=2 * given_up_ms, linger_ms=0, max_block_ms=int(CALL_S * 1000),
        )  # fmt: skip
        self._producer.initTransactions()

    def begin(self, topic: str, value: bytes) -> None:
        self._producer.beginTransaction()
        self._producer.send(self._record(topic, value)).get()

    def commit(self) -> None:
        self._producer.commitTransaction()

    def abort(self) -> None:
        self._producer.abortTransaction()

    def close(self) -> None:
        self._producer.close()


def read_committed(broker: Broker, topic: str) -> list[bytes]:
    """All that is readable; an open transaction of the topic would hide what comes behind it."""
    how: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with closing(KafkaConsumer(**broker.connection.kafka_python(), **how)) as consumer:
        at = TopicPartition(topic, 0)
        consumer.assign([at])
        end = consumer.end_offsets([at])[at]
        found: list[bytes] = []

        def read() -> bool:
            found.extend(record.value for records in consumer.poll(timeout_ms=500).values() for record in records)
            return bool(consumer.position(at) >= end)

        until(read, f"{topic} is read up to {end}", CALL_S)
    return found


def played(
    broker: Broker, proxy: FaultProxy, client: Client, topic: str, late_ms: int
) -> tuple[list[bytes], list[str]]:
    """Commit a transaction whose EndTxn is late, begin the next one, wait for the late copy, and abort.

    Returns:
        What `read_committed` shows then, and which calls raised.
    """
    raised = []

    def call(name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except client.refused:
            raised.append(name)

    client.begin(topic, FIRST)
    late = proxy.apply(Delay(topic, late_ms, api="EndTxn", times=1))
    call("commit", client.commit)
    call("begin", lambda: client.begin(topic, SECOND))
    assert late.times == 1
    late.wait(CALL_S)
    until(lambda: FIRST in read_committed(broker, topic), "the first transaction is committed", CALL_S)
    call("abort", client.abort)
    return read_committed(broker, topic), raised


@contextmanager
def proxied(broker: Broker, folder: Path) -> Iterator[FaultProxy]:
    with FaultProxy(broker.routes, folder, "run") as proxy:
        yield proxy


TIMES = pytest.mark.parametrize(
    ("late_ms", "given_up_ms"), [QUICK, pytest.param(LATE_MS, GIVEN_UP_MS, marks=pytest.mark.long)]
)


@pytest.mark.long  # long: a defect of another client
@TIMES
@pytest.mark.source("confluentinc/librdkafka#5423")
def test_librdkafkas_late_commit_commits_the_next_transaction(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path, late_ms: int, given_up_ms: int
) -> None:
    """When this fails, librdkafka has KIP-890, and docs/transactions.md says too much."""
    topic = kafka_topic()
    with proxied(kafka_broker, tmp_path) as proxy:
        client = Confluent(proxy.bootstrap, topic, given_up_ms)
        shown, raised = played(kafka_broker, proxy, client, topic, late_ms)
    assert (shown, raised) == ([FIRST, SECOND], ["abort"])


@pytest.mark.long
def test_librdkafka_that_waits_longer_than_the_delay_has_no_second_copy(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Its default, `socket.timeout.ms` of 60 s."""
    topic = kafka_topic()
    with proxied(kafka_broker, tmp_path) as proxy:
        shown, raised = played(kafka_broker, proxy, Confluent(proxy.bootstrap, topic, None), topic, LATE_MS)
    assert (shown, raised) == ([FIRST], [])


@pytest.mark.long  # long: what a broker answers; test_exactly_once.py has a zombie that is fenced
@TIMES
def test_a_new_producer_after_a_slow_commit_fences_the_late_copy(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path, late_ms: int, given_up_ms: int
) -> None:
    topic = kafka_topic()
    with closing(Topics(kafka_broker.connection)) as topics:
        topics.create({f"{topic}-warm-up": 1})
    with proxied(kafka_broker, tmp_path) as proxy:
        client = Renewed(proxy.bootstrap, topic, given_up_ms)
        shown, raised = played(kafka_broker, proxy, client, topic, late_ms)
    assert (shown, raised) == ([FIRST], [])


@pytest.mark.long  # long: a defect of another client
@TIMES
def test_kafka_python_refuses_to_go_on(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path, late_ms: int, given_up_ms: int
) -> None:
    topic = kafka_topic()
    with proxied(kafka_broker, tmp_path) as proxy:
        client = KafkaPython(proxy.bootstrap, topic, given_up_ms)
        shown, raised = played(kafka_broker, proxy, client, topic, late_ms)
    assert (shown, raised) == ([FIRST], ["commit", "begin", "abort"])


@pytest.mark.long
def test_aiokafkas_late_commit_commits_the_next_transaction(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = kafka_topic()
    with proxied(kafka_broker, tmp_path) as proxy, closing(Aiokafka(proxy.bootstrap, topic, GIVEN_UP_MS)) as client:
        shown, raised = played(kafka_broker, proxy, client, topic, LATE_MS)
    assert (shown, raised) == ([FIRST, SECOND], ["abort"])


@pytest.mark.long
@pytest.mark.jvm
@pytest.mark.source("KIP-890")
def test_javas_late_commit_is_told_by_its_epoch_from_transaction_version_2_on(tmp_path: Path) -> None:
    """2 is the version of a new cluster of Kafka 4; the broker is lowered to 1 then, and to none."""
    with start_broker() as broker, LiveJava() as java, closing(Topics(broker.connection)) as topics:
        found = {}
        for version in (2, 1, 0):
            assert transaction_version(java, broker.bootstrap, lower_to=version) == version
            topic = f"version-{version}"
            topics.create({topic: 1})
            with proxied(broker, tmp_path) as proxy, closing(Java(java, proxy.bootstrap, topic, GIVEN_UP_MS)) as client:
                found[version] = played(broker, proxy, client, topic, LATE_MS)
    shown = ([FIRST, SECOND], ["abort"])
    assert found == {2: ([FIRST], []), 1: shown, 0: shown}


def transaction_version(java: LiveJava, bootstrap: str, *, lower_to: int) -> int:
    """The broker's finalized transaction.version, after it was lowered to this one."""
    classes = java.classes
    properties = classes.java.util.Properties()
    properties.setProperty("bootstrap.servers", bootstrap)
    admin = classes.org.apache.kafka.clients.admin.Admin.create(properties)

    def now() -> int:
        known = admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("transaction.version")
        return 0 if known is None else int(known.maxVersionLevel())

    try:
        if now() > lower_to:
            update = classes.org.apache.kafka.clients.admin.FeatureUpdate
            how = classes.java.util.HashMap()
            how.put("transaction.version", update(lower_to, update.UpgradeType.SAFE_DOWNGRADE))
            options = classes.org.apache.kafka.clients.admin.UpdateFeaturesOptions()
            admin.updateFeatures(how, options).all().get()
            until(lambda: now() == lower_to, "the broker has the lower version")
        return now()
    finally:
        admin.close()
