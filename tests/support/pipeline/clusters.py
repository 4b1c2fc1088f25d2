"""Spark clusters on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark

from kafka_assignors.jvm import spark_java_home

SPARK = Path(pyspark.__file__).parent


# Five JVMs share this machine, none lives long enough for its second compiler to pay.
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": JVM,
    "spark.executor.extraJavaOptions": JVM,
}


def environment() -> dict[str, str]:
    settings = {"JAVA_HOME": str(spark_java_home()), "SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": sys.executable}
    ours = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")  # of the session that other tests share
    return {**{k: v for k, v in os.environ.items() if k not in ours}, **settings, "SPARK_LOCAL_IP": "127.0.0.1"}
