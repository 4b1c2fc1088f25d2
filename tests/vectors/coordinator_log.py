"""Records of ``__consumer_offsets``, written and read again by ``GroupCoordinatorRecordSerde``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .kafka_classes import KafkaClasses
from .remaking import Answer, NotMade


def serde(kafka: KafkaClasses) -> Answer:
    """From JSON to bytes, and from these bytes to JSON; a value has the newest version of its record type."""
    if kafka.version.startswith("3."):
        return _nothing
    jvm, apache = kafka.java.classes, kafka.java.classes.org.apache.kafka
    group, runtime = apache.coordinator.group, apache.coordinator.common.runtime
    bytes_of, mapper = group.GroupCoordinatorRecordSerde(), jvm.com.fasterxml.jackson.databind.ObjectMapper()
    converters = group.generated.CoordinatorRecordJsonConverters

    def node(value: Any) -> Any:
        return mapper.readTree(json.dumps(value))

    def wrapped(data: bytes | None) -> Any:
        return None if data is None else jvm.java.nio.ByteBuffer.wrap(data)

    def answer(case: Mapping[str, Any]) -> dict[str, Any]:
        number = case["key_version"]
        newest = group.generated.CoordinatorRecordType.fromId(number).highestSupportedVersion()
        key = converters.readRecordKeyFromJson(node(case["key_json"]), number)
        record = runtime.CoordinatorRecord.tombstone(key)
        if case["value_json"] is not None:
            value = converters.readRecordValueFromJson(node(case["value_json"]), number, newest)
            record = runtime.CoordinatorRecord.record(key, apache.server.common.ApiMessageAndVersion(value, newest))
        key_bytes, value_bytes = bytes_of.serializeKey(record), bytes_of.serializeValue(record)
        read = bytes_of.deserialize(wrapped(key_bytes), wrapped(value_bytes))
        value_json = None
        if read.value() is not None:
            value_json = converters.writeRecordValueAsJson(read.value().message(), read.value().version()).toString()
        return {
            "key": key_bytes.hex(),
            "key_json": json.loads(converters.writeRecordKeyAsJson(read.key()).toString()),
            "value": None if value_bytes is None else value_bytes.hex(),
            "value_json": None if value_json is None else json.loads(value_json),
        }

    return answer


def _nothing(case: Mapping[str, Any]) -> dict[str, Any]:
    raise NotMade("Kafka 3 has no converters for all record types")
