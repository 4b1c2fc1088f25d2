"""Compressed topics: the harness reads all; whose client lacks the codec ends by naming the package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.errors import MemberDied
from kafka_assignors.integration.records import read_back
from tests.support.hidden import without_codecs
from tests.support.integration.fixtures import MakeGroup, MakeTopic

pytestmark = pytest.mark.broker


@pytest.fixture
def compressed(kafka_broker: Broker, kafka_topic: MakeTopic) -> Callable[[str], str]:
    """A topic with records in a codec."""

    def make(codec: str) -> str:
        topic = kafka_topic(partitions=2)
        sending = Producer({"bootstrap.servers": kafka_broker.bootstrap, "compression.codec": codec, "linger.ms": 50})
        for number in range(50):
            sending.produce(topic, b"value" * 20, key=b"%d" % number)
        assert sending.flush(60) == 0
        return topic

    return make


@pytest.mark.parametrize(
    ("client", "codec", "package"),
    [
        # long: two more codecs of kafka-python, which it reads by packages as it reads zstd
        pytest.param("kafka-python", "snappy", "python-snappy", marks=pytest.mark.long),
        pytest.param("kafka-python", "lz4", "lz4", marks=pytest.mark.long),
        ("kafka-python", "zstd", "zstandard"),
        # long: the error is made in one place for all members
        pytest.param("aiokafka", "zstd", "cramjam", marks=pytest.mark.long),
        pytest.param("verifiable", "zstd", "zstandard", marks=pytest.mark.long),
    ],
)
def test_a_member_without_the_codec_names_the_package(
    client: str, codec: str, package: str, unjudged_group: MakeGroup, compressed: Callable[[str], str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    topic, group = compressed(codec), unjudged_group()
    monkeypatch.setenv("PYTHONPATH", without_codecs(tmp_path / "hidden"))
    group.start("m1", [topic], ["range"], client=client)

    with pytest.raises(
        MemberDied, match=rf"compressed by {codec}, which .* reads with a package: pip install {package}"
    ):
        group.drain(60)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_outputs_are_read_back_in_every_codec(
    codec: str, kafka_broker: Broker, compressed: Callable[[str], str], tmp_path: Path
) -> None:
    assert read_back(kafka_broker.bootstrap, tmp_path, "run", [compressed(codec)]).records == 50


def test_a_member_with_librdkafka_reads_every_codec(
    unjudged_group: MakeGroup, compressed: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, group = [compressed(codec) for codec in ("gzip", "snappy", "lz4", "zstd")], unjudged_group()
    monkeypatch.setenv("PYTHONPATH", without_codecs(tmp_path / "hidden"))
    group.start("m1", topics, ["range"], client="confluent")

    group.wait_stable()
    group.drain(60)
