"""``exporter --otlp``: the exporter's metrics, sent to an OpenTelemetry collector by OTLP over HTTP."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric as Family

from ....errors import ConfigError

INTERVAL_MS = 60_000
"""Time between two exports unless ``OTEL_METRIC_EXPORT_INTERVAL`` is set: OpenTelemetry's default."""

_LAST_S = 2.0
"""Seconds for the last export."""

_SERVICE = "kafka-assignors-exporter"
_PATH = "/v1/metrics"


def endpoint(url: str) -> str:
    """The address to send to. An address without a path gets OTLP's, as ``OTEL_EXPORTER_OTLP_ENDPOINT`` does.

    Raises:
        ConfigError: It is not an address of HTTP.

    >>> endpoint("http://collector:4318")
    'http://collector:4318/v1/metrics'
    """
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        named = False
    if not named:
        raise ConfigError(f"--otlp {url!r} is not http://HOST:PORT or https://…, e.g. http://localhost:4318")
    return url if parts.path.strip("/") else url.rstrip("/") + _PATH


def interval_s(environment: Mapping[str, str] = os.environ) -> float:
    """Seconds between two exports; ConfigError if ``OTEL_METRIC_EXPORT_INTERVAL`` is not a number of milliseconds."""
    text = environment.get("OTEL_METRIC_EXPORT_INTERVAL") or str(INTERVAL_MS)
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"OTEL_METRIC_EXPORT_INTERVAL={text} is not a number of milliseconds, e.g. {INTERVAL_MS}")
    return int(text) / 1000


@contextmanager
def sending(
    collect: Callable[[], Iterable[Family]], url: str, every_s: float, note: Callable[[str], None]
) -> Iterator[None]:
    """Send metrics on a thread: at once, at intervals, and once more at the end if the collector took the last ones.

    Args:
        collect: The metrics now, in Prometheus's form; it is called on the thread.
        url: See `endpoint`. OpenTelemetry's variables (``OTEL_EXPORTER_OTLP_HEADERS``, …) tell the rest.
        every_s: Seconds between two exports.
        note: Called with a sentence when the collector stops taking metrics, and when it takes them again.
    """
    exporter, began_ns, ended = OTLPMetricExporter(endpoint=url), time.time_ns(), threading.Event()
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME") or _SERVICE})

    def send() -> bool:
        data = as_otlp(collect(), resource, began_ns, time.time_ns())
        return exporter.export(data) is MetricExportResult.SUCCESS

    def work() -> None:
        taken = True
        while True:
            before, taken = taken, send()
            if taken != before and not ended.is_set():
                outcome = "takes the metrics again" if taken else f"did not take the metrics; tried each {every_s:g} s"
                note(f"--otlp {url} {outcome}")
            if ended.wait(every_s):
                break
        if taken:
            send()

    thread = threading.Thread(target=work, name="otlp", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_LAST_S)
        exporter.shutdown()  # ends the waits between tries; a silent collector's answer is not waited for


def as_otlp(families: Iterable[Family], resource: Resource, began_ns: int, now_ns: int) -> MetricsData:
    """Prometheus's metrics as OTLP's, under the same names: counters as cumulative sums since `began_ns`."""
    metrics = [_metric(family, began_ns, now_ns) for family in families if family.samples]
    scope = ScopeMetrics(InstrumentationScope("kafka_assignors.exporter"), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(family: Family, began_ns: int, now_ns: int) -> Metric:
    points = [NumberDataPoint(sample.labels, began_ns, now_ns, sample.value) for sample in family.samples]
    if family.type == "counter":
        total = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        return Metric(f"{family.name}_total", family.documentation, "", total)
    return Metric(family.name, family.documentation, "", Gauge(points))
