"""What `producers` gives without kafka-python, and that its examples are true."""

from __future__ import annotations

import pytest

from kafka_assignors import producers
from tests.support.programs import python

WITHOUT_CLIENT = """
import sys
sys.modules["kafka"] = None  # what an import finds when the package is not installed
from kafka_assignors import producers
print(producers.murmur2(b"kafka"), producers.partition_for_key(b"kafka", 12))
print(producers.DefaultPartitioner().preset)
"""

WITHOUT_C = """
import sys
sys.modules["confluent_kafka"] = None
from kafka_assignors.producers import PRESETS, KeyHashPartitioner, partition_for_key
from tests.support.producers.clusters import cluster

metadata, keys = cluster({"t": [0] * 7}), [b"", b"x" * 300, bytes(range(256)), *(b"user-%d" % i for i in range(500))]
for preset in PRESETS:
    ours = KeyHashPartitioner(preset)
    for key in [key for key in keys if key or not PRESETS[preset].empty_is_null] * 2:
        for same in (key, bytearray(key), memoryview(key)):
            assert ours.partition("t", None, same, b"", b"", metadata) == partition_for_key(key, 7, preset), preset
    try:
        ours.partition("t", None, "text", b"", b"", metadata)
    except TypeError as refused:
        assert "not str" in str(refused), refused
    else:
        raise AssertionError(preset)
print("all presets alike")
"""


@pytest.mark.slow
def test_without_c_hashes_keys_new_and_seen_lie_where_they_should():
    run = python("-c", WITHOUT_C)
    assert (run.stdout.strip(), run.returncode) == ("all presets alike", 0), run.stderr


def test_hashing_and_partitioners_need_no_client():
    run = python("-c", WITHOUT_CLIENT, check=True)
    assert run.stdout.splitlines() == ["-798503068 4", "java"]


def test_every_public_name_is_there_and_no_other():
    assert all(getattr(producers, name) is not None for name in producers.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        producers.Nothing  # type: ignore[attr-defined]  # noqa: B018
