"""What each fault does to a client's requests: a producer's, through one proxy in front of a real broker."""

from __future__ import annotations

import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaTimeoutError

from kafka_assignors.errors import ConfigError
from kafka_assignors.history.events import Event
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.errors import HarnessError, NotOver
from kafka_assignors.integration.history import History
from kafka_assignors.integration.proxy import Cut, Delay, Drop, FaultProxy, NetworkFault, Reset
from tests.support.integration.members import DEADLINE_S
from tests.support.waiting import until

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proxy")


@pytest.fixture(scope="module")
def proxy(kafka_broker: Broker, folder: Path) -> Iterator[FaultProxy]:
    with FaultProxy(kafka_broker.routes, folder, "run") as proxy:
        yield proxy


@pytest.fixture(scope="module")
def topic(kafka_broker: Broker, kafka_admin: KafkaAdminClient) -> str:
    kafka_admin.create_topics({"proxy-rules": {"num_partitions": 1, "replication_factor": 1}})
    kafka_admin.wait_for_topics(["proxy-rules"])
    return "proxy-rules"


def producer_of(proxy: FaultProxy, client_id: str, request_timeout_ms: int = 1500) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=proxy.bootstrap, client_id=client_id, acks="all", retries=20, retry_backoff_ms=20,
        request_timeout_ms=request_timeout_ms, delivery_timeout_ms=60_000, metrics_enabled=False,
    )  # fmt: skip


def told_of(folder: Path, client_id: str) -> list[Event]:
    return [e for e in History.load(folder).events if e.data.get("target") == client_id]


@pytest.mark.parametrize(
    ("client_id", "fault", "late_s"),
    [
        ("late", Delay("late", 700, "Produce", times=1), 0.7),
        ("never-sent", Drop("never-sent", "Produce", "request"), 1.4),
        ("never-answered", Drop("never-answered", "Produce"), 1.4),
        ("reset-twice", Reset("reset-*", "Produce", "answer", times=2), 0),
        ("cut-off", Cut("cut-of[f]", for_ms=600), 0.6),
    ],
)
def test_a_request_is_hit_by_its_api_and_the_client_gets_over_it(
    client_id: str, fault: NetworkFault, late_s: float, proxy: FaultProxy, topic: str, folder: Path
) -> None:
    """The client is no member: the fault is told under its client id. The record arrives once at least."""
    producer = producer_of(proxy, client_id)
    try:
        first = producer.send(topic, b"before").get(timeout=20)
        applied = proxy.apply(fault)
        sent = producer.send(topic, b"after")
        if late_s:
            with pytest.raises(KafkaTimeoutError):
                sent.get(timeout=late_s / 2)
        second = sent.get(timeout=30)
        applied.wait()
    finally:
        producer.close()

    assert second.offset > first.offset
    begin, end = told_of(folder, client_id)
    assert (begin.kind, end.kind, begin.member, begin.group) == ("fault_begin", "fault_end", None, None)
    assert (begin.data["fault"], begin.data["params"]) == (fault.name, fault.params)
    assert (end.mono_ns - begin.mono_ns) / 1e9 >= late_s
    assert end.data["hits"] == applied.times == (fault.limit or 0)


@pytest.mark.parametrize(
    ("client_id", "fault"),
    [
        # long: a cut holds back everything, as these do one request
        pytest.param("long-late", Delay("long-late", 60_000, "Produce"), marks=pytest.mark.long),
        pytest.param("long-lost", Drop("long-lost", "Produce"), marks=pytest.mark.long),
        ("long-cut", Cut("long-cut")),
    ],
)
def test_what_is_healed_goes_on_at_once(
    client_id: str, fault: NetworkFault, proxy: FaultProxy, topic: str, folder: Path
) -> None:
    """Long before the delay is over, or the request times out."""
    producer = producer_of(proxy, client_id, 40_000)
    try:
        producer.send(topic, b"before").get(timeout=20)
        applied = proxy.apply(fault)
        sent = producer.send(topic, b"after")
        if not isinstance(fault, Cut):
            applied.wait_hit()
        with pytest.raises(KafkaTimeoutError):
            sent.get(timeout=0.3)
        applied.heal()
        sent.get(timeout=20)
    finally:
        producer.close()

    until(lambda: applied.over, "the proxy tells that it is over", DEADLINE_S)
    assert [e.kind for e in told_of(folder, client_id)] == ["fault_begin", "fault_end"]


def test_one_that_comes_during_a_cut_is_cut_off_too(proxy: FaultProxy, topic: str, folder: Path) -> None:
    applied = proxy.apply(Cut("newcomer", for_ms=400))
    producer = producer_of(proxy, "newcomer")
    try:
        producer.send(topic, b"once it may").get(timeout=20)
    finally:
        producer.close()

    applied.wait()
    assert [e.kind for e in told_of(folder, "newcomer")] == ["fault_begin", "fault_end"]


def test_a_process_that_takes_a_members_name_meets_the_fault_anew(proxy: FaultProxy, folder: Path) -> None:
    proxy.admit("again", "g", 0)
    with proxy.apply(Cut("again")):
        assert proxy.cuts_off("again")
        proxy.admit("again", "g", 1)

    until(lambda: not proxy.cuts_off("again"), "it is over", DEADLINE_S)
    events = [(e.kind, e.group, e.member, e.incarnation) for e in told_of(folder, "again")]
    assert events == [(kind, "g", "again", i) for i in (0, 1) for kind in ("fault_begin", "fault_end")]


def test_what_is_held_back_is_lost_with_its_connection(proxy: FaultProxy, kafka_broker: Broker, folder: Path) -> None:
    """A frame is late by a minute, and its connection reset meanwhile: then the delay is over too."""
    (route,) = kafka_broker.routes
    request = struct.pack(">ihhih", 14, 18, 0, 7, 4) + b"torn"  # ApiVersions v0
    with socket.create_connection(("127.0.0.1", route.advertised), timeout=20) as client:
        late = proxy.apply(Delay("torn", 60_000, "ApiVersions", times=1))
        client.sendall(request)
        late.wait_hit()
        proxy.apply(Reset("torn")).wait()
        with pytest.raises(ConnectionResetError):
            client.recv(1)

    late.wait()
    assert [e.data["fault"] for e in told_of(folder, "torn")] == ["delay", "reset", "reset", "delay"]


def test_a_fault_that_hits_nothing_is_told_and_not_in_the_history(proxy: FaultProxy, folder: Path) -> None:
    applied = proxy.apply(Drop("nobody", "SyncGroup"))

    with pytest.raises(NotOver, match="it never took effect; was the member started with via=proxy"):
        applied.wait(0.2)
    with pytest.raises(ConfigError, match="lasts until it is healed"):
        proxy.apply(Cut("nobody")).wait()
    assert len(proxy.in_force) == 2
    proxy.heal()
    until(lambda: not proxy.in_force, "they are over", DEADLINE_S)
    assert told_of(folder, "nobody") == []


def test_what_is_not_kafka_is_refused_and_told(proxy: FaultProxy, kafka_broker: Broker, folder: Path) -> None:
    (route,) = kafka_broker.routes
    with socket.create_connection(("127.0.0.1", route.advertised), timeout=10) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            client.recv(1)

    def told() -> list[str]:
        return [e.data["message"] for e in History.load(folder).events if e.kind == "error"]

    until(told, "the refusal is in the history", DEADLINE_S)
    assert "does the client speak TLS, or no Kafka at all?" in told()[0]


def test_a_late_answer_is_not_taken_for_the_next_commands(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    before = proxy.apply(Cut("sooner")).number
    proxy._process.send_signal(signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(proxy, "_answer_s", 0.2)
        with pytest.raises(HarnessError, match=r"doesn't answer within 0\.2 s"):
            proxy._command({"do": "apply", "number": 99, "fault": "no such fault"})
    proxy._process.send_signal(signal.SIGCONT)

    assert proxy.admit("later", "g", 0) == proxy.bootstrap
    assert proxy.apply(Cut("later")).number == before + 1
