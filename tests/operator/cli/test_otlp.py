"""`exporter --otlp`: what a collector receives is what Prometheus reads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from kafka_assignors.errors import ConfigError
from kafka_assignors.operator.cli.serving import otlp
from kafka_assignors.operator.cli.serving.exporter import PREFIX, Readings, serving
from tests.operator.cli.test_exporter import reading, scraped
from tests.support.collector import Collector, collecting
from tests.support.waiting import until


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.mark.slow
def test_a_collector_receives_what_prometheus_reads(collector: Collector) -> None:
    readings = Readings(partitions=True)
    readings.now = (reading(), reading(may_miss=True))
    with (
        serving(readings, "127.0.0.1", 0) as url,
        otlp.sending(readings.collect, otlp.endpoint(collector.url), 3600, pytest.fail),
    ):
        until(lambda: bool(collector.requests), "the first export comes at once", 30)
        first = collector.told()
        assert first == scraped(url)
        readings.now = ()
    assert len(collector.requests) == 2, "the last export comes at the end"
    assert collector.told() == {(f"{PREFIX}exporter_reachable",): 1.0}


@pytest.mark.slow
def test_counters_are_cumulative_sums_since_the_start(collector: Collector) -> None:
    readings = Readings()
    readings.now = (reading(),)
    with otlp.sending(readings.collect, otlp.endpoint(collector.url), 0.01, pytest.fail):
        until(lambda: len(collector.requests) >= 3, "exports come at intervals", 30)
    [resource] = collector.requests[-1].resource_metrics
    attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert attributes["service.name"] == "kafka-assignors-exporter"
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    moved = metrics[f"{PREFIX}partitions_moved_total"]
    assert (moved.sum.is_monotonic, moved.sum.aggregation_temporality) == (True, 2)
    [point] = moved.sum.data_points
    assert 0 < point.start_time_unix_nano < point.time_unix_nano
    assert metrics[f"{PREFIX}members"].WhichOneof("data") == "gauge"
    assert all(metric.description for metric in metrics.values())


@pytest.mark.slow
def test_a_collector_that_refuses_is_noted_once_and_when_it_is_back(collector: Collector) -> None:
    notes: list[str] = []
    collector.status = 400
    with otlp.sending(Readings().collect, otlp.endpoint(collector.url), 0.01, notes.append):
        until(lambda: bool(notes), "the refusal is noted", 30)
        collector.status = 200
        until(lambda: len(notes) == 2, "the return is noted", 30)
    url = f"{collector.url}/v1/metrics"
    assert notes == [
        f"--otlp {url} did not take the metrics; tried each 0.01 s", f"--otlp {url} takes the metrics again",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_silent_collector_holds_up_nobody() -> None:
    """It accepts and never answers; the command ends before it does."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(60)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with otlp.sending(Readings().collect, otlp.endpoint(url), 3600, pytest.fail):
            asked, _ = silent.accept()
        assert "otlp" in {thread.name for thread in threading.enumerate()}, "its answer is not waited for"
        asked.close()
    until(lambda: "otlp" not in {thread.name for thread in threading.enumerate()}, "the thread ends", 60)


def test_a_path_of_the_user_s_is_kept() -> None:
    assert otlp.endpoint("https://h:4318/") == "https://h:4318/v1/metrics"
    assert otlp.endpoint("https://h/otlp/v1/metrics") == "https://h/otlp/v1/metrics"


def test_the_interval_is_opentelemetry_s_variable() -> None:
    assert (otlp.interval_s({}), otlp.interval_s({"OTEL_METRIC_EXPORT_INTERVAL": "250"})) == (60.0, 0.25)
    with pytest.raises(ConfigError, match="OTEL_METRIC_EXPORT_INTERVAL=1s is not"):
        otlp.interval_s({"OTEL_METRIC_EXPORT_INTERVAL": "1s"})
