"""The JSON schemas of `report`, made from the tables' types: ``python -m tests.support.report_schemas`` writes them."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.types import DataType, DoubleType, IntegerType, LongType, StringType, StructType

from kafka_assignors.pipeline import schema
from tests.support.cli import SCHEMAS

NAMES = ("report-run", "report-page", "report-stream")
TEXT: dict[str, Any] = {"type": "string"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
NUMBER: dict[str, Any] = {"type": "number"}
FLAG: dict[str, Any] = {"type": "boolean"}
COUNTS: dict[str, Any] = {"type": "object", "additionalProperties": COUNT}
PATHS = {"type": "object", "additionalProperties": TEXT, "description": "What was written -> its path."}
SECONDS = {"type": "object", "required": ["total"], "additionalProperties": NUMBER, "description": "Step -> seconds."}


def schemas() -> dict[str, dict[str, Any]]:
    """Name of the file -> its schema."""
    common = {
        "rows": {**COUNTS, "description": "Table -> number of rows."},
        "topics": {"type": "array", "items": _topic()},
        "groups": {"type": "array", "items": _group()},
        "lags": {"type": "array", "items": _row(schema.GROUP_LAG, committed_at=_or_null(TEXT))},
        "rebalances": {"type": "array", "items": _row(schema.REBALANCES)},
        "assignors": {"type": "array", "items": _assignor()},
        "partitioners": {
            "type": "array", "items": _row(schema.without(schema.PARTITIONER_WHAT_IF, "records_per_partition")),
        },
        "hot_keys": {"type": "array", "items": _row(schema.HOT_KEYS, key_sample=TEXT)},
        "findings": {"type": "array", "items": _finding()},
        "rejected": {**COUNTS, "description": "Reason -> number of lines or offsets that were not read."},
    }  # fmt: skip
    weights = _object(
        file=_or_null(TEXT), version=COUNT, unit=TEXT, written_ms=COUNT, expires_ms=COUNT, partitions=COUNT,
        changed=COUNT, note=_or_null(TEXT),
    )  # fmt: skip
    ends = {"out": PATHS, "seconds": SECONDS}
    load = _object(**dict.fromkeys(("partition", "records", "bytes", "first_offset", "last_offset", "missing"), COUNT))
    topic = _object(topic=TEXT, records=COUNT, bytes=COUNT, loads={"type": "array", "items": load})
    topic["properties"]["hot_keys"] = {"type": "array", "items": _object(key=TEXT, records=COUNT)}
    streamed = _object(run=TEXT, batches=COUNT, windows=COUNT, topics={"type": "array", "items": topic}, **ends)
    bodies = {
        "report-run": _object(run=TEXT, cluster=TEXT, **common, weights=weights, **ends),
        "report-page": _object(**common, **ends),
        "report-stream": streamed,
    }
    return {
        name: {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": f"kafka-assignors {name.replace('-', ' ')} --json",
            **body,
        }
        for name, body in bodies.items()
    }


def _topic() -> dict[str, Any]:
    load = _object(
        partition=COUNT, records=COUNT, bytes=COUNT, share=NUMBER, top_key_records=COUNT, top_key_bytes=COUNT
    )
    return _row(
        schema.TOPIC_LOAD, loads={"type": "array", "items": load}, numbered_records=COUNT, judged_records=COUNT,
        record_max_over_mean=NUMBER,
    )  # fmt: skip


def _group() -> dict[str, Any]:
    return _object(
        run=TEXT, group=TEXT, intervals=COUNT, members=COUNT, moves=COUNT, source=TEXT,
        longest_gap_ms=_or_null(NUMBER), gap_at_least_ms=NUMBER, gap_at_most_ms=_or_null(NUMBER), overlap_ms=NUMBER,
    )  # fmt: skip


def _assignor() -> dict[str, Any]:
    return _object(
        run=TEXT, group=TEXT, assignor=TEXT, elected=FLAG, moves=COUNT, max_partitions=COUNT, max_over_mean=NUMBER,
        rebalances=COUNT,
    )  # fmt: skip


def _finding() -> dict[str, Any]:
    return _object(
        kind=TEXT, group=_or_null(TEXT), topic=_or_null(TEXT), partition=_or_null(COUNT), member=_or_null(TEXT),
        records=_or_null(COUNT), more=_or_null(COUNT), text=TEXT,
    )  # fmt: skip


def _row(table: StructType, **other: dict[str, Any]) -> dict[str, Any]:
    """A row of a table, with columns that JSON gives in another form."""
    columns = {field.name: other.get(field.name) or _type(field.dataType, field.nullable) for field in table.fields}
    return _object(**{**columns, **other})


def _type(kind: DataType, nullable: bool) -> dict[str, Any]:
    if isinstance(kind, StringType):
        one = TEXT
    elif isinstance(kind, (IntegerType, LongType)):
        one = {"type": "integer"}
    elif isinstance(kind, DoubleType):
        one = NUMBER
    else:
        one = FLAG
    return _or_null(one) if nullable else one


def _or_null(one: dict[str, Any]) -> dict[str, Any]:
    return {**one, "type": [one["type"], "null"]}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object", "required": list(properties), "properties": properties, "additionalProperties": False,
    }  # fmt: skip


def text(name: str) -> str:
    """The file of a schema."""
    return json.dumps(schemas()[name], indent=2) + "\n"


if __name__ == "__main__":
    for schema_name in NAMES:
        (SCHEMAS / f"{schema_name}.json").write_text(text(schema_name), "utf-8")
