"""``python -m kafka_assignors.jvm``: fetch Java and jars ahead of time, or pin jars anew.

Exit codes: 0 done, 2 wrong arguments, 3 the machine lacks something (the message says what and how to mend it).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ..errors import ConfigError, MachineError
from ..output import complain
from . import locks
from .cache import cache_folder
from .jars import KAFKA_VERSION, kafka_jars, maven_context, spark_jars
from .runtime import java, spark_java_home


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m kafka_assignors.jvm", description="Java and jars of the harness.")
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="get the jars of Kafka and of Spark's connector, show which Java is used")
    fetch.add_argument("--kafka", default=KAFKA_VERSION, metavar="VERSION", help="default: %(default)s")
    commands.add_parser("java", help="show which Java is used")
    lock = commands.add_parser("lock", help="resolve the jars anew and pin them in the lock files")
    lock.add_argument("--kafka", default=KAFKA_VERSION, metavar="VERSION", help="default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        if options.command == "lock":
            _lock(options.kafka)
        else:
            print(f"java: {java()}")
            if find_spec("pyspark") is not None:
                print(f"java for Spark: {spark_java_home()}")
            if options.command == "fetch":
                _fetch(options.kafka)
    except ConfigError as error:
        complain(error)
        return 2
    except MachineError as error:
        complain(error)
        return 3
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


def _fetch(version: str) -> None:
    _tell(f"Kafka {version}", kafka_jars(version))
    if find_spec("pyspark") is None:
        print("Spark's Kafka connector: not fetched, PySpark is not installed")
    else:
        _tell("Spark's Kafka connector", spark_jars())
    print(f"cache: {cache_folder()}")


def _tell(name: str, files: Sequence[Path]) -> None:
    print(f"{name}: {len(files)} jars, {sum(f.stat().st_size for f in files) / 1e6:.1f} MB")


def _lock(version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = maven_context(Path(folder))
        for path in (locks.lock_kafka(version, context), *locks.lock_spark(context)):
            print(f"{path}: {len(locks.read_lock(path))} jars")


if __name__ == "__main__":
    sys.exit(main())
