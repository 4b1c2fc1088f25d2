"""Which program answers which file, and which files none answers, with the reason."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kafka_assignors.integration.broker.settings import KAFKA_VERSION

from . import coordinator_log, group_leaders, librdkafka, rack_cases, records, wire_bytes
from .remaking import Maker

FOLDER = Path(__file__).parent
KAFKA_3 = "3.9.1"


def _leader(protocol: str) -> Maker:
    return Maker(("expected",), partial(group_leaders.leader, protocol), KAFKA_VERSION, measured=("metrics",))


MAKERS = {
    "assignors/range.jsonl": _leader("range"),
    "assignors/roundrobin.jsonl": _leader("roundrobin"),
    "assignors/sticky.jsonl": _leader("sticky"),
    "assignors/cooperative_sticky.jsonl": _leader("cooperative-sticky"),
    "assignors/wire.jsonl": Maker(("bytes", "user_data", "user_data_v0"), wire_bytes.writer, KAFKA_VERSION),
    "coordlog.jsonl": Maker(("key", "key_json", "value", "value_json"), coordinator_log.serde, KAFKA_VERSION),
    "partitioners/murmur2.jsonl": Maker(("murmur2", "positive", "partitions"), records.key_hash, KAFKA_VERSION),
    "partitioners/roundrobin.jsonl": Maker(("expected",), records.round_robin, KAFKA_VERSION),
    "partitioners/librdkafka.jsonl": Maker(
        ("crc32", "fnv1a_abs", *librdkafka.PARTITIONERS), librdkafka.library, KAFKA_VERSION
    ),
    "partitioners/builtin_kip794.jsonl": Maker(("trace",), records.uniform, KAFKA_VERSION),
    "partitioners/builtin_kip1123.jsonl": Maker(("trace",), records.uniform, rack_cases.VERSION),
    "partitioners/sticky_kip480.jsonl": Maker(("trace",), records.sticky, KAFKA_3),
}

NOT_MADE = {
    "assignors/java_defects.jsonl": "records no answer of Java; tests/core/java/test_live_java.py asks Java",
    "partitioners/kafkajs.jsonl": "Node makes it: tests/foreign/kafkajs_keys.js",
    "partitioners/go_clients.jsonl": "Go makes it: tests/foreign/keys",
    "partitioners/accumulator_kip794.jsonl": "traces calls inside RecordAccumulator, which no public method shows",
}
