"""Storage of the tables of runs: staged while a run writes them, published as a whole when it ends.

Each run has its own folder per table: TABLE/run=ID. Tables are staged first, and moved when all are complete; the table
``runs`` lists a run last. A killed run leaves a staging folder, which readers ignore and its repetition replaces.
Readers only use runs listed in ``runs``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from kafka_assignors.errors import ConfigError

from .. import schema
from .files import Files

FORMATS = {
    "parquet": None,
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.SparkCatalog",
}
"""format -> a class that it requires in Spark."""

STAGING = "_staging"  # Spark ignores names that begin with _


def require(spark: SparkSession, format_: str) -> None:
    """Raise `ConfigError` if Spark lacks the classes of a format; it says what to pass to spark-submit."""
    needed = FORMATS[format_]
    if needed is None:
        return
    jvm: Any = spark._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(needed)
    except Exception as error:
        packages = {
            "delta": "io.delta:delta-spark_2.13",
            "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13",
        }
        raise ConfigError(
            f"--format {format_}: Spark has no class {needed}; start it with spark-submit --packages "
            f"{packages[format_]}:VERSION with the extension and catalog that its documentation names"
        ) from error


class StoredTables:
    """The tables of one run, in a folder or URI `out` (iceberg: ``CATALOG.NAMESPACE``), in one of the `FORMATS`."""

    def __init__(self, spark: SparkSession, out: str, run: str, format_: str = "parquet") -> None:
        self._spark, self._out, self._run, self._format = spark, out, run, format_
        self._staging = f"{out}/{STAGING}/{_folder(run)}"

    def begin(self) -> None:
        """Delete the leftovers of a killed run with this id."""
        if self._format == "parquet":
            Files(self._spark).delete(self._staging)
        else:
            self._replace(self._spark.createDataFrame([], schema.RUNS), "runs")

    def write(self, frame: DataFrame, table: str) -> None:
        """Stage one table, a frame of its schema."""
        if self._format == "parquet":
            frame.write.mode("overwrite").partitionBy(*_folders(frame)).parquet(f"{self._staging}/{table}")
        else:
            self._replace(frame, table)

    def read(self, table: str, columns: StructType) -> DataFrame:
        """Read a staged table."""
        if self._format == "parquet":
            return self._spark.read.schema(columns).parquet(f"{self._staging}/{table}")
        return written(self._spark, self._out, table, columns, self._run, self._format)

    def commit(self, tables: Iterable[str], cluster: str) -> None:
        """Publish the tables in place of those of an earlier run with this id, and list the run.

        If it is killed halfway, the run is not listed: readers ignore it, and it must be repeated.
        """
        row = [(self._run, datetime.now(timezone.utc), cluster)]
        self.write(self._spark.createDataFrame(row, schema.RUNS), "runs")
        if self._format != "parquet":
            return
        files = Files(self._spark)
        files.delete(f"{self._out}/runs/run={_folder(self._run)}")
        for table in (*tables, "runs"):
            files.make(f"{self._out}/{table}")
            files.delete(f"{self._out}/{table}/run={_folder(self._run)}")
            for name in files.children(f"{self._staging}/{table}"):
                if name.startswith("run="):
                    files.move(f"{self._staging}/{table}/{name}", f"{self._out}/{table}/{name}")
        files.delete(self._staging)

    def _replace(self, frame: DataFrame, table: str) -> None:
        if self._format == "delta":
            mine = f"run = {_literal(self._run)}"
            writer = frame.write.format("delta").mode("overwrite").option("replaceWhere", mine)
            writer.partitionBy(*_folders(frame)).save(f"{self._out}/{table}")
            return
        name = f"{self._out}.{table}"
        if self._spark.catalog.tableExists(name):
            frame.writeTo(name).overwrite(sf.col("run") == sf.lit(self._run))
        else:
            frame.writeTo(name).using("iceberg").partitionedBy(*map(sf.col, _folders(frame))).create()


def written(
    spark: SparkSession, out: str, table: str, columns: StructType, run: str | None, format_: str = "parquet"
) -> DataFrame:
    """A table of committed runs; with `run`, only the rows of that run."""
    if format_ == "parquet":
        rows = spark.read.schema(columns).parquet(f"{out}/{table}")
    else:
        rows = (
            spark.table(f"{out}.{table}") if format_ == "iceberg" else spark.read.format(format_).load(f"{out}/{table}")
        )
    return rows if run is None else rows.where(sf.col("run") == run)


def chosen(spark: SparkSession, out: str, run: str | None, format_: str = "parquet") -> str:
    """The id of the requested run, else of the one that ended last. Raises `ConfigError` if no such run is complete."""
    try:
        rows = written(spark, out, "runs", schema.RUNS, None, format_).orderBy(sf.desc("finished"), "run").collect()
    except AnalysisException as error:
        if error.getCondition() not in ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST"):
            raise
        rows = []
    if not rows:
        raise ConfigError(f"{out!r} has no complete run; create one with: kafka-assignors report run --out {out}")
    names = [row["run"] for row in rows]
    if run is not None and run not in names:
        raise ConfigError(f"--run {run!r} is not a complete run in {out!r}; complete runs: {', '.join(names[:10])}")
    return run or names[0]


def _folders(frame: DataFrame) -> list[str]:
    return [name for name in schema.PARTITION_COLUMNS if name in frame.columns]


def _literal(text: str) -> str:
    r"""A string literal of Spark's SQL, with backslash escapes: Spark reads a doubled quote as two adjacent literals.

    >>> print(_literal("it's"))
    'it\'s'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _folder(run: str) -> str:
    """A run's id as a folder name, with Hive's escapes as Spark writes them.

    >>> _folder("2026-01-02T03:04")
    '2026-01-02T03%3A04'
    """
    return "".join(f"%{ord(c):02X}" if c in "\"#%'*/:=?\\{[]^\x7f" or ord(c) < 32 else c for c in run)
