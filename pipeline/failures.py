"""Failures of Spark -> one sentence, and where an option explains them, an error that names it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException

from kafka_assignors.connection import Connection, Right, denied
from kafka_assignors.errors import ConfigError

_GONE = re.compile(r"KAFKA_DATA_LOSS|data may have been (lost|missed)|OffsetOutOfRangeException")
_DENIED = re.compile(r"Not authorized to access topics: ?(.*)")
_SILENT = re.compile(
    # Spark's own words for a poll that gave nothing, and the client's for one that was not answered
    r"Cannot fetch record for offset|kafka\.common\.errors\.(Timeout|Disconnect|Network|BrokerNotAvailable)\w*"
)

_BEYOND = re.compile(r"ArithmeticException: long overflow")


@contextmanager
def explained(bootstrap: str | Connection, topics: Collection[str], remedy: str) -> Iterator[None]:
    """Inside, what fails because of the brokers or the topics is told as that.

    Args:
        bootstrap: As in ``--bootstrap``.
        topics: What is read.
        remedy: What helps if records are gone that were to be read.

    Raises:
        ConfigError: Records are gone, or the brokers answer no more. All else stays as it is.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        said = "\n".join(_chain(error))
        if (found := _DENIED.search(said)) is not None:
            rights = (Right("Read", "Topic", name) for name in topics)
            refused = denied(Connection.of(bootstrap), RuntimeError(f"TopicAuthorization of {found[1]}"), *rights)
            raise refused or error from None
        if _GONE.search(said):
            raise ConfigError(
                f"--topics: records of {', '.join(topics)} are gone that were to be read: retention deleted them, or "
                f"the topic was made anew. {remedy}"
            ) from None
        if _BEYOND.search(said):
            raise ConfigError(
                f"--topics: a record of {', '.join(topics)} has a time that Spark cannot hold (after the year 294000): "
                "is it stamped in nanoseconds? Kafka counts milliseconds. --since or --offsets leaves it out"
            ) from None
        if _SILENT.search(said):
            raise ConfigError(
                f"--bootstrap {str(bootstrap)!r}: the brokers answered, but do no more ({cause(error)}); is one down? "
                "Run it again when it is back"
            ) from None
        raise


def cause(error: BaseException) -> str:
    """The first cause, in a line; asks the JVM, so call it while there is one."""
    if isinstance(error, PythonException):  # our own code in a worker: its traceback's last line
        lines = str(error).partition("Traceback (most recent")[2].splitlines()[1:]
        return next((line for line in lines if line[:1].strip()), str(error).splitlines()[0])[:500]
    said = ""
    with suppress(Py4JError, OSError):  # it may be ending
        first = origin(error)
        while first is not None and first.getCause() is not None:
            first = first.getCause()
        said = f"{first.getClass().getSimpleName()}: {first.getMessage()}" if first is not None else str(error)
    return said.strip().splitlines()[0][:500] if said.strip() else type(error).__name__


def origin(error: BaseException) -> Any:
    """The Java exception behind one of py4j or of pyspark; None if the JVM threw nothing."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _chain(error: BaseException) -> Iterator[str]:
    with suppress(Exception):  # there may be no JVM any more to ask
        yield str(error)
        found = origin(error)
        while found is not None:
            yield str(found.toString())
            found = found.getCause()
