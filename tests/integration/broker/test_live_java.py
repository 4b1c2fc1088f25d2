"""Java's own classes at hand: they answer, they say what is wrong, and their JVM never outlives its owner."""

from __future__ import annotations

import gc
from pathlib import Path

import psutil
import pytest
from py4j import java_gateway, protocol
from py4j.protocol import Py4JJavaError

from kafka_assignors.integration.broker.java import LiveJava
from kafka_assignors.integration.errors import HarnessError
from kafka_assignors.producers.core.keys.murmur2 import murmur2
from tests.support.programs import owner
from tests.support.waiting import finished

OWNER = """
import signal
from kafka_assignors.integration.broker.java import LiveJava
java = LiveJava()
print(*java.pids(), flush=True)
signal.pause()
"""


def test_bytes_go_in_and_java_hashes_them_as_we_do(kafka_java):
    utils = kafka_java.classes.org.apache.kafka.common.utils.Utils
    keys = [b"", b"\x00", b"\xff" * 5, "ключ".encode(), bytes(range(256)), b"x" * 300]

    assert [utils.murmur2(key) for key in keys] == [murmur2(key) for key in keys]
    assert utils.murmur2(b"21") == -973932308


def test_python_lists_and_sets_become_javas(kafka_java):
    """The assignors take these: partition counts and subscriptions in, lists of partitions out."""
    consumer = kafka_java.classes.org.apache.kafka.clients.consumer
    joined = kafka_java.classes.java.util.HashMap()
    for member in ("m1", "m2"):
        joined[member] = consumer.ConsumerPartitionAssignor.Subscription(["orders"])

    answer = consumer.RoundRobinAssignor().assign({"orders": 3}, joined)

    assert {m: [(tp.topic(), tp.partition()) for tp in answer[m]] for m in answer} == {
        "m1": [("orders", 0), ("orders", 2)],
        "m2": [("orders", 1)],
    }


def test_what_java_throws_arrives_with_its_words(kafka_java):
    with pytest.raises(Py4JJavaError, match=r"bootstrap\.servers"):
        kafka_java.producer("")


@pytest.mark.spark
def test_what_java_throws_is_the_same_beside_pyspark(kafka_java, monkeypatch):
    """PySpark's own handler for all of py4j, which asks Spark's JVM what was thrown, and there may be none."""
    from pyspark.errors.exceptions.captured import install_exception_handler

    monkeypatch.setattr(java_gateway, "get_return_value", java_gateway.get_return_value)  # put back afterwards
    install_exception_handler()
    assert java_gateway.get_return_value is not protocol.get_return_value, "PySpark replaces it no more"

    with pytest.raises(Py4JJavaError, match=r"calling z:java.lang.Integer.parseInt(.|\n)*NumberFormatException"):
        kafka_java.classes.java.lang.Integer.parseInt("none")
    with pytest.raises(Py4JJavaError, match=r"calling None.java.lang.Integer(.|\n)*NumberFormatException"):
        kafka_java.classes.java.lang.Integer("none")


@pytest.mark.slow
def test_close_ends_the_jvm_and_may_be_called_twice():
    with LiveJava() as java:
        pids = java.pids()
        folder = Path(psutil.Process(pids[1]).cwd())
        assert "py4j.GatewayServer" in psutil.Process(pids[1]).cmdline()
    java.close()

    assert java.pids() == []
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    assert not folder.exists()


@pytest.mark.slow
def test_java_objects_that_outlive_the_jvm_are_collected_in_silence(caplog):
    with LiveJava() as java:
        left = [java.classes.java.util.ArrayList() for _ in range(3)]
        assert [len(each) for each in left] == [0, 0, 0]
    with caplog.at_level("DEBUG"):
        left.clear()
        gc.collect()

    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


@pytest.mark.slow
def test_sigkill_of_the_owner_ends_even_a_frozen_jvm():
    with owner(OWNER) as (_, pids):
        left = [psutil.Process(int(pid)) for pid in pids]
        folder = Path(left[1].cwd())
        left[1].suspend()

    assert psutil.wait_procs(left, timeout=5)[1] == []
    assert not folder.exists()


def test_a_jvm_that_does_not_start_says_why(monkeypatch, tmp_path):
    """A Java that answers -version and then fails: its last words are in the error, and at once."""
    script = tmp_path / "java"
    script.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && exec echo \'version "21.0.1"\'\necho no memory today >&2; exit 3\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("KAFKA_ASSIGNORS_JAVA", str(script))

    with pytest.raises(HarnessError, match="no memory today"):
        finished(LiveJava, within_s=20)
