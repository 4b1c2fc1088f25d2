"""What `producers` gives without kafka-python, and that its examples are true."""

from __future__ import annotations

import doctest
import subprocess
import sys

import pytest

import producers
from producers.core import geographic, keyed, murmur2

WITHOUT_CLIENT = """
import sys
sys.modules["kafka"] = None  # what an import finds when the package is not installed
import producers
print(producers.murmur2(b"kafka"), producers.partition_for_key(b"kafka", 12))
print(producers.DefaultPartitioner().preset)
"""


def test_hashing_and_partitioners_need_no_client():
    run = subprocess.run([sys.executable, "-c", WITHOUT_CLIENT], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.splitlines() == [
        "-798503068 4",
        "java",
    ]


def test_every_public_name_is_there_and_no_other():
    assert all(getattr(producers, name) is not None for name in producers.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        producers.Nothing  # noqa: B018


@pytest.mark.parametrize(
    "module", [producers, keyed, murmur2, geographic, producers.counters, producers.placed, producers.kafka_python]
)
def test_examples_in_docstrings(module):
    result = doctest.testmod(module)
    assert (result.failed, result.attempted > 0) == (0, True)
