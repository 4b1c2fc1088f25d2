"""Sends a recording to OpenTelemetry, as log records of the provider that the service has set."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import ConfigError
from ...extras import install
from .sinks import MOST_LINE_BYTES

OTEL = "otel:"
"""The destination of `record` that is OpenTelemetry."""
SCOPE = "kafka_assignors"
"""Name of the logger, and what the names of events and of their attributes begin with."""

OLDEST = (1, 37)
"""The version since which an SDK takes a log record that the API alone has made."""


class OtelSink:
    """Emits a log record for each event. Its body is the event's line, as `FileSink` writes it.

    Raises:
        ConfigError: OpenTelemetry's API isn't installed, or is older than `OLDEST`.
    """

    def __init__(self) -> None:
        needs = f"record: to={OTEL!r} needs opentelemetry-api, {'.'.join(map(str, OLDEST))} or later"
        try:
            from importlib.metadata import version  # slow to import, too

            from opentelemetry import _logs

            installed = version("opentelemetry-api")
        except ImportError as missing:  # also importlib's own
            raise ConfigError(f"{needs}; install it by: {install('otel')}") from missing
        if tuple(map(int, re.findall(r"\d+", installed)[:2])) < OLDEST:
            raise ConfigError(f"{needs}; {installed} is installed; update it by: {install('otel')}")
        self._api = _logs

    def write(self, lines: Sequence[bytes]) -> None:
        """Emit lines. Raises RuntimeError without a provider, ValueError if a line is too long for most collectors."""
        provider = self._api.get_logger_provider()
        if type(provider).__module__.startswith("opentelemetry._logs"):  # the API's own, which drop everything
            raise RuntimeError(
                "OpenTelemetry has no logger provider; set one by opentelemetry._logs.set_logger_provider"
            )
        logger = provider.get_logger(SCOPE)
        short = [line for line in lines if len(line) <= MOST_LINE_BYTES]
        for line in short:
            row = json.loads(line)
            record = self._api.LogRecord(
                timestamp=row["ts_ns"], severity_number=self._api.SeverityNumber[_severity(row["kind"])],
                body=line.decode(), attributes=attributes(row), event_name=f"{SCOPE}.{row['kind']}",
            )  # fmt: skip
            logger.emit(record)
        if len(short) < len(lines):
            raise ValueError(f"{len(lines) - len(short)} events are longer than {MOST_LINE_BYTES:,} bytes")

    def fork(self) -> None:
        """The provider is the service's, and so is what a child does with it."""


def attributes(row: Mapping[str, Any]) -> dict[str, str | int]:
    """What a log record is looked for by; ``messaging.`` names are those of OpenTelemetry's conventions.

    >>> attributes({"group": "billing", "kind": "generation", "member": "m1", "generation": 4, "partitions": [{}, {}]})
    {'messaging.system': 'kafka', 'messaging.consumer.group.name': 'billing', 'kafka_assignors.member': 'm1', \
'kafka_assignors.generation': 4, 'kafka_assignors.partitions': 2}
    """
    named = {"messaging.system": "kafka", "messaging.consumer.group.name": row["group"]}
    own = {
        name: row[name]
        for name in ("member", "member_id", "generation", "reason", "error")
        if row.get(name) is not None
    }
    if "partitions" in row:
        own["partitions"] = len(row["partitions"])
    return named | {f"{SCOPE}.{name}": value for name, value in own.items()}


def _severity(kind: str) -> str:
    return "WARN" if kind in ("error", "lost_begin", "lost_end") else "INFO"
