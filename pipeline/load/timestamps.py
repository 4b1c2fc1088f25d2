"""Detect impossible timestamps of records."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

FUTURE = "1 hour"
"""A record dated later than this after it was read has a wrong timestamp."""

_YEAR_1971 = 365 * 86400


def impossible() -> Column:
    """Whether rows with ``first_ts`` and ``last_ts`` contain a record dated in the future or before 1971."""
    future = sf.current_timestamp() + sf.expr(f"interval {FUTURE}")
    return (sf.col("last_ts") > future) | (sf.unix_seconds("first_ts") < _YEAR_1971)
