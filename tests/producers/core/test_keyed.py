"""The key hash and where it places records, against Java's and kafka-python's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from kafka_assignors.producers import PRESETS, DefaultPartitioner, KeyHashPartitioner, murmur2, partition_for_key
from kafka_assignors.producers.core.keys import keyed
from kafka_assignors.producers.core.keys.keyed import KeyMemo
from kafka_assignors.producers.errors import ConfigError
from tests.support.producers import vectors
from tests.support.producers.clusters import cluster

COUNTS = (1, 3, 6, 7, 10, 12, 50)  # never powers of two alone: they hide a wrong sign bit
MURMUR2 = vectors.load("murmur2.jsonl")


@pytest.mark.source("apache/kafka 4.3.0 Utils.murmur2")
def test_murmur2_equals_java_on_every_vector():
    assert len(MURMUR2) > 100
    assert [murmur2(bytes.fromhex(row["key"])) for row in MURMUR2] == [row["murmur2"] for row in MURMUR2]
    assert [murmur2(bytes.fromhex(row["key"])) & 0x7FFFFFFF for row in MURMUR2] == [row["positive"] for row in MURMUR2]


@pytest.mark.source("apache/kafka 4.3.0 BuiltInPartitioner.partitionForKey")
@pytest.mark.parametrize("n", COUNTS)
def test_partition_for_key_equals_java_on_every_vector(n):
    memo = KeyMemo(partition_for_key)
    for row in MURMUR2:
        key, expected = bytes.fromhex(row["key"]), row["partitions"][str(n)]
        assert partition_for_key(key, n) == expected
        assert [memo.place(key, n), memo.place(key, n)] == [expected, expected]


@pytest.mark.source("KafkaJS DefaultPartitioner test data and apache/kafka UtilsTest")
@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"", 275646681), (b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536),
     (b"a-little-bit-longer-string", -1486304829), (b"100:48069", 1009543857), (b"abc", 479470107),
     ("中文键".encode(), -1179355498), (bytes.fromhex("ff8090feff"), -374252547)],
)  # fmt: skip
def test_murmur2_equals_published_values(key, expected):
    assert murmur2(key) == expected


@given(key=st.binary(max_size=400))
def test_murmur2_is_the_same_for_every_kind_of_buffer_and_as_in_kafka_python(key):
    """kafka-python hashes byte by byte; ours takes words. Long keys leave the ready-made unpackers (64 words)."""
    expected = murmur2(key)
    assert expected & 0xFFFFFFFF == kafka_python_murmur2(key)
    assert murmur2(bytearray(key)) == expected
    assert murmur2(memoryview(key)) == expected
    every_other = memoryview(b"".join(bytes((byte, 0)) for byte in key))[::2]
    assert murmur2(every_other) == expected


def test_a_view_of_wider_items_is_hashed_by_its_bytes():
    key = bytes(range(16))
    assert murmur2(memoryview(key).cast("I")) == murmur2(key)


@pytest.mark.parametrize("key", ["text", 5, None, ["a"]])
def test_a_key_that_is_not_bytes_is_refused(key):
    for call in (murmur2, lambda k: partition_for_key(k, 3)):
        with pytest.raises(TypeError, match=f"not {type(key).__name__}"):
            call(key)


@pytest.mark.parametrize("key", ["text", 5, ["a"]])
def test_a_partitioner_refuses_a_serialized_key_that_is_not_bytes(key):
    for preset in PRESETS:
        with pytest.raises(TypeError, match=f"not {type(key).__name__}"):
            KeyHashPartitioner(preset).partition("t", key, key, b"", b"", cluster({"t": [0] * 7}))


def test_a_text_key_is_told_to_be_encoded():
    with pytest.raises(TypeError, match="encode it first"):
        murmur2("text")


@pytest.mark.parametrize("n", [0, -1, 1.0, True, None, "3"])
def test_a_wrong_number_of_partitions_is_refused(n):
    with pytest.raises(ConfigError, match=r"number of partitions.*at least 1"):
        partition_for_key(b"k", n)


def test_memo_is_bounded_in_keys_and_in_key_length(monkeypatch):
    monkeypatch.setattr(keyed, "MEMO_KEYS", 100)
    memo = KeyMemo(partition_for_key)
    sizes = set()
    for i in range(1000):
        key = b"%d" % i
        assert memo.place(key, 7) == partition_for_key(key, 7)
        sizes.add(len(memo))
    assert max(sizes) == 100
    memo = KeyMemo(partition_for_key)
    assert memo.place(b"x" * 129, 7) == partition_for_key(b"x" * 129, 7)
    assert len(memo) == 0
    memo.place(b"x" * 128, 7)
    assert len(memo) == 1


def test_memo_refuses_a_key_that_may_change():
    memo = KeyMemo(partition_for_key)
    for key in (bytearray(b"abc"), memoryview(b"abc")):
        with pytest.raises(TypeError):
            memo.place(key, 7)
    assert len(memo) == 0


def test_a_key_that_changes_is_placed_as_it_is_now():
    ours, metadata, key = DefaultPartitioner(), cluster({"t": [0] * 50}), bytearray(b"abc")
    first = ours.partition("t", None, key, b"", b"", metadata)
    assert first == partition_for_key(b"abc", 50)
    key[0:3] = b"xyz"
    assert ours.partition("t", None, key, b"", b"", metadata) == partition_for_key(b"xyz", 50) != first
