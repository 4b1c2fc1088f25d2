"""Convert failures of Spark to one sentence, or to an error that names the option that explains them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException

from kafka_assignors.connection import Connection, Right, denied
from kafka_assignors.errors import ClusterError, ConfigError

_GONE = re.compile(r"KAFKA_DATA_LOSS|data may have been (lost|missed)|OffsetOutOfRangeException")
_DENIED = re.compile(r"Not authorized to access topics: ?(.*)")
_SILENT = re.compile(
    # Spark's message for an empty poll, and the client's for an unanswered one
    r"Cannot fetch record for offset|kafka\.common\.errors\.(Timeout|Disconnect|Network|BrokerNotAvailable)\w*"
)

_BEYOND = re.compile(r"ArithmeticException: long overflow")


@contextmanager
def explained(bootstrap: str | Connection, topics: Collection[str], remedy: str) -> Iterator[None]:
    """Context manager that turns failures caused by brokers or topics into an error that names the option.

    `remedy` is advice if records were deleted before they were read. Other errors pass unchanged.

    Raises:
        ConfigError: Records are gone, or beyond Spark's time; or access to a topic is denied.
        ClusterError: The brokers no longer answer.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        messages = "\n".join(_chain(error))
        if (match := _DENIED.search(messages)) is not None:
            rights = (Right("Read", "Topic", name) for name in topics)
            refused = denied(Connection.of(bootstrap), RuntimeError(f"TopicAuthorization of {match[1]}"), *rights)
            raise refused or error from None
        if _GONE.search(messages):
            raise ConfigError(
                f"--topics: records of {', '.join(topics)} were deleted before they were read: by retention, or with "
                f"the topic, which was created again. {remedy}"
            ) from None
        if _BEYOND.search(messages):
            raise ConfigError(
                f"--topics: a record of {', '.join(topics)} has a timestamp beyond Spark's range (the year 294000): "
                "is it in nanoseconds? Kafka's timestamps are milliseconds. Exclude it with --since or --offsets"
            ) from None
        if _SILENT.search(messages):
            raise ClusterError(
                f"--bootstrap {str(bootstrap)!r}: the brokers no longer respond ({cause(error)}); is one down? Run it "
                "again when the broker is back"
            ) from None
        raise


def cause(error: BaseException) -> str:
    """The root cause in one line. It asks the JVM, so call it while the JVM runs."""
    if isinstance(error, PythonException):  # our own code in a worker: the last line of its traceback
        lines = str(error).partition("Traceback (most recent")[2].splitlines()[1:]
        return next((line for line in lines if line[:1].strip()), str(error).splitlines()[0])[:500]
    message = ""
    with suppress(Py4JError, OSError):  # the JVM may be ending
        first = origin(error)
        while first is not None and first.getCause() is not None:
            first = first.getCause()
        message = f"{first.getClass().getSimpleName()}: {first.getMessage()}" if first is not None else str(error)
    return message.strip().splitlines()[0][:500] if message.strip() else type(error).__name__


def origin(error: BaseException) -> Any:
    """The Java exception behind an error of py4j or pyspark; None if the JVM threw nothing."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _chain(error: BaseException) -> Iterator[str]:
    with suppress(Exception):  # the JVM may be gone
        yield str(error)
        exception = origin(error)
        while exception is not None:
            yield str(exception.toString())
            exception = exception.getCause()
