"""One Spark session for all tests of the folder: its start is what costs."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_assignors.pipeline.session import session

LOG = pytest.StashKey[Path]()


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # a Python worker must find this checkout
    with session() as found:
        pytestconfig.stash[LOG] = Path(found.conf.get("spark.local.dir") or "") / "spark.log"
        yield found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what Spark logged last beside a failure: what its JVM died of is nowhere else."""
    report = yield
    log = item.config.stash.get(LOG, None)
    if report.failed and log is not None and log.exists():
        report.sections.append(("the end of spark.log", log.read_text(errors="replace")[-5000:]))
    return report
