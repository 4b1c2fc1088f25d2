"""What the findings say and how many there are, and that the page draws the same: topics made by hand."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from kafka_assignors.pipeline import findings, schema
from kafka_assignors.pipeline.load import balance, keys
from kafka_assignors.pipeline.report import page
from kafka_assignors.pipeline.report.summary import summary
from kafka_assignors.pipeline.session import interpreted
from kafka_assignors.producers import partition_for_key
from tests.support.wellformed import Wellformed

# long: seven topics and their pages by Spark; test_sentences.py has the words, test_end_to_end.py finds each kind
pytestmark = [pytest.mark.spark, pytest.mark.long]

AT = datetime(2026, 1, 2, tzinfo=timezone.utc)
Placed = tuple[int, bytes, int]
"""Partition, key, bytes of the value."""


def tables_of(
    spark: SparkSession, topics: Mapping[str, Sequence[Placed]], partitions: Mapping[str, int], limit: float = 0.2
) -> dict[str, DataFrame]:
    """The tables of a run over these records; the reference rule is Java's."""

    def rows(name: str, found: Sequence[tuple[Any, ...]] = (), table: StructType | None = None) -> DataFrame:
        return spark.createDataFrame(list(found), table or schema.TABLES[name])

    records = [
        ("r", "c", topic, partition, offset, AT, 0, zlib.crc32(key), len(key), value, 0, None, None, key)
        for topic, placed in topics.items()
        for offset, (partition, key, value) in enumerate(placed)
    ]
    counted = keys.counted(rows("", records, schema.RECORDS), "1 minute")
    counts = keys.placed(counted, partitions, "java").cache()
    distinct = keys.distinct(counts)
    placement, hot = balance.placement(keys.windows(counts), partitions), keys.hot(distinct)
    found = [
        *findings.hot_keys(hot, partitions, limit),
        *findings.misplaced(distinct, "java", partitions),
        *findings.split_keys(distinct),
    ]
    return {name: rows(name) for name in schema.TABLES} | {
        "placement": placement.cache(), "topic_load": balance.topic_load(placement, partitions),
        "partition_keys": keys.per_partition(distinct), "hot_keys": hot.cache(), "findings": rows("findings", found),
    }  # fmt: skip


@dataclass(frozen=True)
class Told:
    """A run as its summary and its page tell it."""

    said: Mapping[str, Any]
    html: str

    def of(self, topic: str) -> list[Mapping[str, Any]]:
        """The findings of a topic."""
        return [finding for finding in self.said["findings"] if finding["topic"] == topic]

    def section(self, topic: str) -> str:
        """The topic's part of the page."""
        found = re.search(rf"<h2>Topic {topic}</h2>.*?(?=<h2>|$)", self.html, re.S)
        assert found, topic
        return found[0]


def told(spark: SparkSession, topics: Mapping[str, Sequence[Placed]], partitions: Mapping[str, int]) -> Told:
    with interpreted(spark):  # few rows: to compile each query takes longer than to run it
        tables = tables_of(spark, topics, partitions)
        said = summary(tables)
        return Told(said, page.render(said, page.details(tables)))


def named(many: int) -> list[bytes]:
    return [b"customer-%d" % n for n in range(many)]


def there(key: bytes, n: int, preset: str = "java") -> int:
    return partition_for_key(key, n, preset)


ELSEWHERE = [key for key in named(400) if there(key, 7) != there(key, 7, "librdkafka")][:300]
BLOB = (there(b"blob", 4), b"blob", 200_000)
SMALL = [(there(key, 4), key, 100) for key in named(400)] * 2
TOPICS: Mapping[str, Sequence[Placed]] = {
    "another": [(there(key, 7, "librdkafka"), key, 9) for key in named(300)],
    "some": [(there(key, 7, "sarama" if n < 20 else "java"), key, 9) for n, key in enumerate(named(400))],
    "alone": [(there(key, 7, "librdkafka" if n == 3 else "java"), key, 9) for n, key in enumerate(named(50))],
    "mixed": [
        (there(key, 7, "librdkafka") if n < 290 else (there(key, 7) + 1) % 7, key, 9) for n, key in enumerate(ELSEWHERE)
    ],
    "heavy": [*SMALL, BLOB],
    "uneven": [(p, key, 100 * (1 + 3 * (p == 0))) for p in range(4)
               for key in [k for k in named(200) if there(k, 4) == p][:10]],
    "two": [(0, b"hot", 9)] * 30 + [(1, b"hot", 9)] * 20 + [(2, b"a", 9)] * 5 + [(1, b"b", 9)] * 10,
}  # fmt: skip
PARTITIONS = {"another": 7, "some": 7, "alone": 7, "mixed": 7, "heavy": 4, "uneven": 4, "two": 3}


@pytest.fixture(scope="module")
def run(spark: SparkSession) -> Told:
    return told(spark, TOPICS, PARTITIONS)


@pytest.mark.long  # long: 4,000 keys by Spark; the tests below have each sentence
def test_each_fault_counts_once_and_the_rest_comes_last(spark: SparkSession) -> None:
    """624 keys lie elsewhere, by no client's rule: the one with most records comes first, not the first by name."""
    placed = [(there(key, 7), key, 9) for key in named(3300)]
    strays = [((there(key, 7) + 1 + n % 5) % 7, key, 9) for n, key in enumerate(named(624))]
    strays += [strays[300]] * 3 + [strays[500]] * 2
    run = told(spark, {"orders": [*placed[624:], *strays]}, {"orders": 7})

    found = run.said["findings"]
    assert {finding["kind"] for finding in found} == {"misplaced"}
    assert (len(found), page.faults(found)) == (101, 624)
    assert [finding["records"] for finding in found[:3]] == [4, 3, 1]
    assert "'customer-300'" in found[0]["text"]
    assert (found[-1]["text"], found[-1]["more"]) == ("and 524 more of this kind", 524)
    assert not any("here" in finding["text"] for finding in found)
    text = Wellformed(run.html).text
    assert re.search(r"624\s*findings", text)
    assert "reference rule's (624)" in text
    assert text.index("'customer-300'") < text.index("and 524 more of this kind")


def test_keys_that_lie_where_another_client_puts_them_are_said_to(run: Told) -> None:
    """All keys, a few of many, and one alone, which may lie there by chance."""
    [whole] = [finding["text"] for finding in run.of("another")]
    elsewhere = sum(there(key, 7) != there(key, 7, "librdkafka") for key in named(300))
    assert whole == (
        f"{elsewhere} of 300 keyed records of another are not on the partition of java: they are where librdkafka puts "
        "them. If all producers are of that kind, compare with --reference librdkafka; a mix of both splits keys"
    )
    some = [finding["text"] for finding in run.of("some")]
    astray = [key for key in named(20) if there(key, 7) != there(key, 7, "sarama")]
    assert len(some) == len(astray) > 10
    assert all(re.search(r"java puts the key at some-\d, sarama here$", text) for text in some)
    [alone] = [finding["text"] for finding in run.of("alone")]
    assert alone.endswith(f"java puts the key at alone-{there(b'customer-3', 7)}")


def test_a_mix_of_rules_says_how_many_lie_where_another_client_puts_them(run: Told) -> None:
    [mixed] = [finding["text"] for finding in run.of("mixed")]
    found = re.search(r"300 of 300 .*java: ([\d.]+)% of them are where librdkafka puts them", mixed)
    assert found
    assert 96 < float(found[1]) < 99


def test_a_key_with_most_of_the_bytes_is_a_finding_also_with_few_records(run: Told) -> None:
    """Beyond the first 100 by records: the other keys have two records each."""
    [found] = run.of("heavy")
    assert (found["kind"], found["partition"], found["records"]) == ("hot-key", BLOB[0], 1)
    share = (BLOB[2] + 4) / (BLOB[2] + 4 + sum(len(key) + value for _, key, value in SMALL))
    assert found["text"] == (
        f"key 'blob' has {share:.1%} of the bytes of heavy ({1 / 801:.1%} of its records): its partition has at least "
        f"{4 * share:.1f} x the mean bytes under any rule"
    )
    [blob] = [key for key in run.said["hot_keys"] if key["key_sample"] == "'blob'"]
    assert (blob["rank"], blob["byte_rank"], blob["byte_share"]) == (None, 1, pytest.approx(share))
    assert "Bytes per partition" in run.section("heavy")
    assert f"its largest key {BLOB[2] + 4:,}" in run.section("heavy")


def test_tile_and_chart_have_the_same_unit(run: Told) -> None:
    """Records are even, bytes are not: both are told, and each chart is in its own unit."""
    [topic] = [topic for topic in run.said["topics"] if topic["topic"] == "uneven"]
    assert topic["record_max_over_mean"] == 1.0
    assert topic["max_over_mean"] > 2
    assert f"records <b>1.00</b>, bytes <b>{topic['max_over_mean']:.2f}</b>" in run.section("uneven")
    assert "Bytes per partition" in run.section("uneven")
    assert "Bytes per partition" not in run.section("alone")
    worst, of_bytes = (max(t[name] for t in run.said["topics"]) for name in ("record_max_over_mean", "max_over_mean"))
    tile = rf"{worst:.2f}\s*worst fullest ÷ mean of records \(of bytes: {of_bytes:.2f}\)"
    assert re.search(tile, Wellformed(run.html).text)


def test_a_hot_key_on_two_partitions_is_drawn_on_both(run: Told) -> None:
    [topic] = [topic for topic in run.said["topics"] if topic["topic"] == "two"]
    assert [load["top_key_records"] for load in topic["loads"]] == [30, 20, 5]
    bars = run.section("two").partition("Records per partition")[2].partition("</svg>")[0]
    assert re.findall(r"its largest key ([\d,]+)", bars) == ["30", "20", "5"]
    assert bars.count('class="hot"') == 3
