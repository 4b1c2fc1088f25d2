"""Runs kept as tables of a format that isn't Spark's own; `test_formats` asks and compares."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from kafka_assignors.pipeline import schema
from kafka_assignors.pipeline.storage import tables
from kafka_assignors.pipeline.storage.tables import StoredTables

ODD = "it's b\\"  # a quote and, last, a backslash: each would end or prolong a literal of SQL


def main(format_: str, out: str, jars: str, settings: str) -> dict[str, Any]:
    """Two runs; the first one again, killed before its end; the first one again."""
    builder = SparkSession.builder.master("local[1]").config("spark.jars", jars)
    spark = builder.config(map=json.loads(settings)).getOrCreate()
    tables.require(spark, format_)

    def kept(run: str, records: int) -> StoredTables:
        """A run that has written all and not committed."""
        stored_tables = StoredTables(spark, out, run, format_)
        stored_tables.begin()
        row = (run, "t", 1, records, 9, 1.0, 0.0, 0.0, 0)
        stored_tables.write(spark.createDataFrame([row], schema.TOPIC_LOAD), "topic_load")
        return stored_tables

    def there() -> dict[str, Any]:
        def rows(table: str, columns: Any) -> list[Any]:
            return tables.written(spark, out, table, columns, None, format_).collect()

        return {
            "records": sorted([row["run"], row["records"]] for row in rows("topic_load", schema.TOPIC_LOAD)),
            "runs": sorted(row["run"] for row in rows("runs", schema.RUNS)),
            "last": tables.chosen(spark, out, None, format_),
        }

    kept("a", 1).commit(["topic_load"], "c")
    kept(ODD, 2).commit(["topic_load"], "c")
    states = {"two": there()}
    kept("a", 3)
    states["killed"] = there()
    kept("a", 4).commit(["topic_load"], "c")
    states["again"] = there()
    one = tables.written(spark, out, "topic_load", schema.TOPIC_LOAD, ODD, format_)
    return {**states, "one": [row["records"] for row in one.collect()]}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
