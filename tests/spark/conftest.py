"""One Spark session for all tests of the folder: its start is what costs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pipeline.run import Steps, session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # a Python worker must find this checkout
    with session(Steps()) as found:
        yield found
