"""Placement of other ecosystems: librdkafka's own functions, published values, jump hash's law."""

from __future__ import annotations

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.producers import UnknownName, partition_for_key
from kafka_assignors.producers.core.keys.hashing import crc32, fnv1a, jump, magnitude
from kafka_assignors.producers.core.keys.keyed import PRESETS
from kafka_assignors.producers.partitioners.native_hash import fastest
from tests.support.producers import vectors

COUNTS = (1, 3, 6, 7, 10, 12, 50)
LIBRDKAFKA = vectors.load("librdkafka.jsonl")
COLUMNS = {
    "librdkafka": "consistent_random",
    "librdkafka-consistent": "consistent",
    "librdkafka-consistent-random": "consistent_random",
    "librdkafka-murmur2": "murmur2",
    "librdkafka-murmur2-random": "murmur2_random",
    "librdkafka-fnv1a": "fnv1a",
    "librdkafka-fnv1a-random": "fnv1a_random",
    "java": "murmur2",
    "fnv1a": "fnv1a",
    "sarama": "fnv1a",
}


@pytest.mark.source("librdkafka 2.16.0 rd_kafka_msg_partitioner_{consistent,murmur2,fnv1a}{,_random}")
@pytest.mark.parametrize("preset", COLUMNS)
def test_presets_equal_librdkafka_on_every_vector(preset):
    counts = {int(n) for n in LIBRDKAFKA[0]["consistent"]}
    assert set(COUNTS) <= counts
    for row in LIBRDKAFKA:
        placed = row.get(COLUMNS[preset])  # None: at random
        if row["key"] is None:
            if preset.startswith("librdkafka"):
                assert PRESETS[preset].null_is_empty == (placed is not None)
            key = b""
        else:
            key = bytes.fromhex(row["key"])
            assert (placed is None) == (PRESETS[preset].empty_is_null and not key)
        if placed is None:
            continue
        assert {n: partition_for_key(key, n, preset) for n in counts} == {int(n): p for n, p in placed.items()}
        assert {n: fastest(preset)(key, n) for n in COUNTS} == {n: partition_for_key(key, n, preset) for n in COUNTS}


@pytest.mark.source("librdkafka 2.16.0")
def test_hashes_equal_librdkafka_on_every_vector():
    assert len(LIBRDKAFKA) > 300
    for row in LIBRDKAFKA[1:]:  # the first is no key
        key = bytes.fromhex(row["key"])
        assert (crc32(key), magnitude(fnv1a(key))) == (row["crc32"], row["fnv1a_abs"])


@given(key=st.binary(max_size=300), n=st.sampled_from(COUNTS))
def test_presets_equal_the_native_functions_on_any_key(key, n):
    native = {
        "java": confluent_kafka.murmur2,
        "librdkafka": confluent_kafka.consistent,
        "sarama": confluent_kafka.fnv1a,
    }
    for preset, function in native.items():
        assert partition_for_key(key, n, preset) == function(key, n)


@pytest.mark.source("IBM/sarama#709: the key whose FNV-1a is the smallest 32-bit number")
def test_the_smallest_hash_is_not_negative():
    assert fnv1a(b"1468509572224") == 0x80000000
    assert [partition_for_key(b"1468509572224", n, "sarama") for n in COUNTS] == [2**31 % n for n in COUNTS]
    assert [partition_for_key(b"1468509572224", n, "sarama-reference") for n in COUNTS] == [0] * len(COUNTS)


@pytest.mark.source("draft-eastlake-fnv, FNV-1a 32-bit test vectors")
@pytest.mark.parametrize(("key", "h"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)])
def test_fnv1a_equals_published_values(key, h):
    assert fnv1a(key) == h


def test_sarama_and_its_reference_differ_on_negative_hashes_alone():
    keys = [b"key-%d" % i for i in range(3000)]
    for key in keys:
        same = partition_for_key(key, 7, "sarama") == partition_for_key(key, 7, "sarama-reference")
        assert same or fnv1a(key) & 0x80000000
    moved = sum(partition_for_key(k, 7, "sarama") != partition_for_key(k, 7, "sarama-reference") for k in keys)
    assert 0.33 < moved / len(keys) < 0.5


@given(h=st.integers(0, 2**64 - 1), n=st.integers(1, 200))
def test_a_jump_stays_or_goes_to_the_new_bucket(h, n):
    before, after = jump(h, n), jump(h, n + 1)
    assert 0 <= before < n
    assert after in (before, n)


@pytest.mark.parametrize(("n", "m"), [(6, 7), (6, 12)])
def test_growth_moves_the_share_of_keys_that_jump_hash_promises(n, m):
    keys = [b"user-%d" % i for i in range(20_000)]
    moved = sum(partition_for_key(k, n, "consistent") != partition_for_key(k, m, "consistent") for k in keys)
    assert abs(moved / len(keys) - (m - n) / m) < 0.01


def test_an_unknown_preset_is_named_with_the_known_ones():
    for name in ("Java", None, ["java"]):
        with pytest.raises(UnknownName, match=r"unknown preset .*; known: java, librdkafka, librdkafka-consistent, "):
            partition_for_key(b"k", 3, name)
    with pytest.raises(TypeError, match="not str; encode it first"):
        partition_for_key("k", 3, "sarama")


def test_every_preset_stays_in_range():
    for preset in PRESETS:
        for n in COUNTS:
            assert {partition_for_key(b"%d" % i, n, preset) for i in range(600)} == set(range(n))
