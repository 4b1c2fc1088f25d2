"""What is said of each fault that a query found: the words and the numbers, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kafka_assignors.pipeline import findings
from kafka_assignors.producers import partition_for_key

KEY = {"topic": "t", "key": b"k", "key_sample": b"k", "partition": 1, "records": 3}
MEMBER = {"member": "m1", "held": 2, "end_kind": "killed"}
GONE = {"member": "m1", "generation_end": 7, "held": 3, "taken": 3, "at_least_ms": 1500.0, "at_most_ms": 2500.0}
AHEAD = "m1 left or expired (the coordinator's log does not say which). It is not in generation 7, and held "


@pytest.mark.parametrize(
    ("share", "byte_share", "said"),
    [
        (0.5, 0.1, "50.0% of the records of t: its partition has at least 2.0 x the mean records under any rule"),
        (0.01, 0.5, "50.0% of the bytes of t (1.0% of its records): its partition has at least 2.0 x the mean bytes "
                    "under any rule"),
        (0.5, 0.75, "50.0% of the records and 75.0% of the bytes of t: its partition has at least 3.0 x the mean bytes "
                    "under any rule"),
        (0.25, 0.1, "25.0% of the records of t"),  # no more than its part of four
    ],
)  # fmt: skip
def test_a_hot_key_is_told_by_the_shares_beyond_the_limit(share: float, byte_share: float, said: str) -> None:
    assert findings._hot({**KEY, "share": share, "byte_share": byte_share}, 4, 0.2) == f"key 'k' has {said}"


def test_keys_elsewhere_are_told_with_the_rule_that_explains_them() -> None:
    topic = {"topic": "t", "elsewhere": 30, "keyed": 40}
    all_of_them = findings._Other("librdkafka", 30, 30)
    assert findings._other_rule(topic, "java", None) == (
        "30 of 40 keyed records of t are not on the partition of java: "
        "do its producers use another rule (--reference), or did the topic grow?"
    )
    assert ": they are where librdkafka puts them." in findings._other_rule(topic, "java", all_of_them)
    most = findings._Other("librdkafka", 27, 30)
    assert ": 90.0% of them are where librdkafka puts them." in findings._other_rule(topic, "java", most)

    place = partition_for_key(b"k", 7, "librdkafka")
    key = {**KEY, "partition": place, "home": (place + 1) % 7}
    alone = f"3 records of key 'k' at t-{place}: java puts the key at t-{(place + 1) % 7}"
    assert findings._astray(key, "java", None, 7) == alone
    assert findings._astray(key, "java", all_of_them, 7) == f"{alone}, librdkafka here"
    elsewhere = {**key, "partition": (place + 2) % 7}
    assert not findings._astray(elsewhere, "java", all_of_them, 7).endswith("here")


@pytest.mark.parametrize(
    ("say", "found", "said"),
    [
        (findings._split, {**KEY, "partitions": [0, 2]}, "3 records of key 'k' of t are on 2 partitions (0, 2): their "
                                                         "order is not guaranteed"),
        (findings._overlap, {"topic": "t", "partition": 1, "overlap_prev_ms": 12.34, "member": "m2",
                             "generation_start": 5},
         "t-1 had two owners for 12.3 ms: m2 got it in generation 5 while another member still held it"),
        (findings._ended, MEMBER, "m1 was killed while it held 2 topic-partitions"),
        (findings._ended, {**MEMBER, "held": 1, "end_kind": "exit"},
         "m1's process ended without closing its consumer while it held 1 topic-partition"),
        (findings._departure, {**GONE, "taken": 0}, f"{AHEAD}3 topic-partitions, which no later generation assigns"),
        (findings._departure, GONE, f"{AHEAD}3 topic-partitions, which had no member for at least 1,500 ms and no "
                                    "consumer for at most 2,500 ms"),
        (findings._departure, {**GONE, "taken": 2, "at_most_ms": None},
         f"{AHEAD}3 topic-partitions, of which 2 had no member for at least 1,500 ms; no commit shows when one of them "
         "had a consumer again"),
    ],
)  # fmt: skip
def test_a_sentence_has_the_cause_and_the_numbers(
    say: Callable[[Mapping[str, Any]], str], found: Mapping[str, Any], said: str
) -> None:
    assert say(found) == said


@pytest.mark.parametrize(
    ("say", "found", "begins"),
    [
        (findings._jumped, {"member": "m1", "src": "member", "seconds": 2.5}, "the wall clock of m1 jumped by 2.5 s."),
        (findings._jumped, {"member": None, "src": "harness", "seconds": 2.5}, "the wall clock of harness jumped"),
        (findings._impossible, {**KEY, "earliest": 0, "latest": 253_370_764_800},
         "up to 3 records of t-1 have impossible timestamps, from 1970-01-01 00:00 to the year 9999 or later"),
    ],
)  # fmt: skip
def test_clocks_are_told_with_whose_they_are(
    say: Callable[[Mapping[str, Any]], str], found: Mapping[str, Any], begins: str
) -> None:
    assert say(found).startswith(begins)


@pytest.mark.parametrize(
    ("topic", "sources", "said"),
    [
        ({"judged_records": 5, "numbered_records": 1000}, ("callback",),
         ["No key exceeds", "All keys are on the partition of the reference", "The 1,000 numbered records", "No record",
          "The members' callbacks show one owner"]),
        ({"judged_records": 0, "numbered_records": 0}, ("coordlog",),
         ["No key exceeds", "No key was compared with a reference rule", "No record", "The coordinator's log shows"]),
        (None, (), []),
    ],
)  # fmt: skip
def test_no_finding_says_what_was_looked_at(
    topic: Mapping[str, int] | None, sources: tuple[str, ...], said: list[str]
) -> None:
    found = findings.judged({"topics": [topic] if topic else [], "groups": [{"source": each} for each in sources]})
    assert len(found) == len(said)
    assert all(one.startswith(begins) for one, begins in zip(found, said, strict=True)), found
