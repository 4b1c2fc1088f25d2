"""Whole columns of keys: the same answers as one key at a time, out of every kind of column."""

from __future__ import annotations

import random
import sys
import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.producers import (
    ConfigError,
    UnknownName,
    batch,
    murmur2,
    murmur2_batch,
    partition_for_key,
    partitions_for_keys,
)
from kafka_assignors.producers.core.keys import columns
from kafka_assignors.producers.core.keys.keyed import PRESETS
from tests.support.producers import vectors

COUNTS = (1, 3, 6, 7, 10, 12, 50)
ROWS = vectors.load("murmur2.jsonl")
KEYS = [bytes.fromhex(row["key"]) for row in ROWS]


@pytest.mark.source("apache/kafka 4.3.0 Utils.murmur2, BuiltInPartitioner.partitionForKey")
def test_equals_java_on_every_vector():
    assert murmur2_batch(KEYS).tolist() == [row["murmur2"] for row in ROWS]
    for n in COUNTS:
        assert partitions_for_keys(KEYS, n).tolist() == [row["partitions"][str(n)] for row in ROWS]


@given(keys=st.lists(st.none() | st.binary(max_size=70), max_size=40), preset=st.sampled_from(list(PRESETS)))
def test_a_column_is_placed_like_its_keys_one_by_one(keys, preset):
    def one(key):
        known = PRESETS[preset]
        nobody = not known.null_is_empty if key is None else not key and known.empty_is_null
        return -1 if nobody else partition_for_key(key or b"", 7, preset)

    expected = [one(key) for key in keys]
    chunked = pa.chunked_array([pa.array(keys[:10], pa.binary()), pa.array(keys[10:], pa.binary())])
    sliced = pa.array([b"before", None, *keys, b"behind"], pa.binary())[2 : 2 + len(keys)]
    for column in (keys, pa.array(keys, pa.binary()), pa.array(keys, pa.large_binary()), chunked, sliced):
        assert partitions_for_keys(column, 7, preset).tolist() == expected


@given(rows=st.integers(0, 9), width=st.integers(0, 21), seed=st.integers(0, 99))
def test_keys_of_one_length(rows, width, seed):
    matrix = np.random.default_rng(seed).integers(0, 256, (rows, width), np.uint8)
    expected = [murmur2(row.tobytes()) for row in matrix]
    assert murmur2_batch(matrix).tolist() == expected
    if width:
        fixed = pa.array([b"\0" * width] + [row.tobytes() for row in matrix], pa.binary(width))[1:]
        assert murmur2_batch(fixed).tolist() == expected


def test_text_columns_are_hashed_as_utf8():
    words = ["", "ключ", "中文键", "kafka"]
    for kind in (pa.string(), pa.large_string()):
        assert murmur2_batch(pa.array(words, kind)).tolist() == [murmur2(w.encode()) for w in words]


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_chunks_do_not_show(monkeypatch, chunk):
    monkeypatch.setattr(columns, "_CHUNK_KEYS", chunk)
    assert murmur2_batch(KEYS).tolist() == [row["murmur2"] for row in ROWS]
    assert partitions_for_keys(KEYS, 7, "sarama").tolist() == [partition_for_key(k, 7, "sarama") for k in KEYS]


@pytest.mark.parametrize("longest", [0, 1, 95, 96, 97, 5000])
def test_crc32_is_zlibs_for_short_and_long_keys(longest):
    keys = [bytes([i]) * (longest * i // 40) for i in range(41)]
    data, offsets, _ = batch.columns(keys)
    assert columns.crc32_column(data, offsets).tolist() == [zlib.crc32(key) for key in keys]


def test_very_long_keys():
    keys = [bytes([i]) * size for i, size in enumerate((0, 1, 70_000, 300_001, 5, 262_144))]
    assert murmur2_batch(keys).tolist() == [murmur2(key) for key in keys]


@pytest.mark.parametrize(
    ("keys", "says"),
    [(b"one key", "not a bytes"), ("text", "not a str"), (["text"], "encode it first"), ([1], "not int"),
     (pa.array([1, 2]), "Arrow type int64: cast")],
)  # fmt: skip
def test_other_kinds_of_keys_are_refused(keys, says):
    with pytest.raises(TypeError, match=says):
        murmur2_batch(keys)


def test_arguments_are_checked():
    with pytest.raises(ConfigError, match="at least 1, not 0"):
        partitions_for_keys([b"k"], 0)
    with pytest.raises(ConfigError, match="int32"):
        partitions_for_keys([b"k"], 2**31)
    with pytest.raises(UnknownName, match="unknown preset"):
        partitions_for_keys([b"k"], 3, "mine")


def steps(work):
    """How many calls into C it takes: what a long loop in Python or over NumPy makes."""
    count = 0

    def heard(frame, event, arg):
        nonlocal count
        count += event == "c_call"

    sys.setprofile(heard)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["java", "librdkafka", "sarama"])
def test_one_very_long_key_costs_what_it_costs_alone(preset):
    """Not a step of NumPy for each of its words, with all other keys looking on."""
    keys = [b"user-%d" % i for i in range(5000)]
    long = [*keys[:100], b"x" * 1_000_000, *keys[100:]]
    assert steps(lambda: partitions_for_keys(long, 12, preset)) < 2 * steps(
        lambda: (partitions_for_keys(keys, 12, preset), partition_for_key(b"x" * 1_000_000, 12, preset))
    )


@given(
    lengths=st.lists(st.sampled_from([0, 1, 3, 4, 7, 60, 300, 1000, 5001]), min_size=1, max_size=200),
    preset=st.sampled_from(sorted(PRESETS)),
    seed=st.integers(0, 99),
)
def test_keys_of_very_different_lengths_lie_where_they_lie_one_by_one(lengths, preset, seed):
    source = random.Random(seed)
    keys = [source.randbytes(length) for length in lengths]
    empty = -1 if PRESETS[preset].empty_is_null else partition_for_key(b"", 7, preset)
    assert partitions_for_keys(keys, 7, preset).tolist() == [
        partition_for_key(key, 7, preset) if key else empty for key in keys
    ]
