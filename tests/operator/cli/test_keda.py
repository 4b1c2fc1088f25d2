"""`exporter --keda`: KEDA's protocol, spoken by a client that protoc generates from the interface."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ClusterError
from kafka_assignors.operator.cli.app import main
from kafka_assignors.operator.cli.serving.exporter import Readings
from kafka_assignors.operator.live.group import LiveGroup
from kafka_assignors.operator.live.meter import Totals
from kafka_assignors.operator.live.monitor import Reading
from kafka_assignors.operator.live.silence import Position
from kafka_assignors.operator.scaling import Rules
from tests.operator.cli.test_exporter import behind, hidden

grpc = pytest.importorskip("grpc", reason="the extra keda is part of `make setup`")
protoc = pytest.importorskip("grpc_tools.protoc", reason="it is part of `make setup`")
keda = importlib.import_module("kafka_assignors.operator.cli.serving.keda")

INTERFACE = """
syntax = "proto3";
package externalscaler;
message MetricValue { string metricName = 1; int64 metricValue = 2; double metricValueFloat = 3; }
message MetricSpec { string metricName = 1; int64 targetSize = 2; double targetSizeFloat = 3; }
message ScaledObjectRef { string name = 1; string namespace = 2; map<string, string> scalerMetadata = 3; }
message GetMetricsRequest { ScaledObjectRef scaledObjectRef = 1; string metricName = 2; }
message GetMetricsResponse { repeated MetricValue metricValues = 1; }
message GetMetricSpecResponse { repeated MetricSpec metricSpecs = 1; }
message IsActiveResponse { bool result = 1; }
service ExternalScaler {
    rpc GetMetrics(GetMetricsRequest) returns (GetMetricsResponse);
    rpc GetMetricSpec(ScaledObjectRef) returns (GetMetricSpecResponse);
    rpc IsActive(ScaledObjectRef) returns (IsActiveResponse);
    rpc StreamIsActive(ScaledObjectRef) returns (stream IsActiveResponse);
}
"""
"""What KEDA's operator is a client of: kedacore/keda pkg/scalers/externalscaler at 125494be, names and numbers."""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The modules that protoc makes of the interface."""
    folder = tmp_path_factory.mktemp("keda")
    (folder / "externalscaler.proto").write_text(INTERFACE)
    assert protoc.main(
        ["", f"-I{folder}", f"--python_out={folder}", f"--grpc_python_out={folder}", "externalscaler.proto"]
    ) == 0  # fmt: skip
    sys.path.insert(0, str(folder))
    try:
        yield SimpleNamespace(
            messages=importlib.import_module("externalscaler_pb2"),
            calls=importlib.import_module("externalscaler_pb2_grpc"),
        )
    finally:
        sys.path.remove(str(folder))


@pytest.fixture
def readings() -> Readings:
    """A group that needs five members, as it has looked for a minute and a half."""
    made = Readings(rules=Rules(delay_s=60))
    for n, at_s in enumerate((0, 30, 60, 90)):
        made.take((behind(at_s),), 30.0 * n)
    return made


@pytest.fixture
def client(generated: Any, readings: Readings) -> Iterator[Any]:
    with keda.scaling(readings, "127.0.0.1", 0) as address, grpc.insecure_channel(address) as channel:
        yield generated.calls.ExternalScalerStub(channel)


@pytest.fixture
def trigger(generated: Any) -> Any:
    return generated.messages.ScaledObjectRef(
        name="billing", namespace="shop", scalerMetadata={"scalerAddress": "exporter:9109", "group": "g"}
    )


def metric(client: Any, generated: Any, trigger: Any) -> list[tuple[str, int, float]]:
    request = generated.messages.GetMetricsRequest(scaledObjectRef=trigger, metricName="members-wanted")
    values = client.GetMetrics(request, timeout=10).metricValues
    return [(value.metricName, value.metricValue, value.metricValueFloat) for value in values]


@pytest.mark.slow
def test_the_metric_over_its_target_is_the_number_of_members(client: Any, generated: Any, trigger: Any) -> None:
    [spec] = client.GetMetricSpec(trigger, timeout=10).metricSpecs

    assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == ("members-wanted", 1, 1.0)
    assert metric(client, generated, trigger) == [(spec.metricName, 5, 5.0)]
    assert client.IsActive(trigger, timeout=10).result is True


@pytest.mark.slow
def test_a_group_without_members_is_active_if_there_is_something_to_read(
    client: Any, generated: Any, trigger: Any, readings: Readings
) -> None:
    empty = LiveGroup("g", "Empty", "classic", "", ())
    place = TopicPartition("t", 0)
    told = []
    for live, positions in ((empty, {place: Position(7, 10)}), (empty, {place: Position(10, 10)}), (None, {})):
        readings.take((Reading("g", Totals(), live, None, False, positions=positions),), 200.0)
        told.append((client.IsActive(trigger, timeout=10).result, metric(client, generated, trigger)[0][1]))

    assert told == [(True, 1), (False, 0), (True, 1)], "one that never committed would else never begin"


@pytest.mark.slow
def test_what_is_not_known_is_an_error_and_no_guess(
    client: Any, generated: Any, trigger: Any, readings: Readings
) -> None:
    def code(ref: Any = trigger) -> tuple[Any, str]:
        with pytest.raises(grpc.RpcError) as raised:
            metric(client, generated, ref)
        with pytest.raises(grpc.RpcError):
            client.IsActive(ref, timeout=10)
        return raised.value.code(), raised.value.details()

    unnamed = generated.messages.ScaledObjectRef(name="billing", namespace="shop")
    assert code(unnamed) == (grpc.StatusCode.INVALID_ARGUMENT, "metadata.group of shop/billing is missing")
    other = generated.messages.ScaledObjectRef(scalerMetadata={"group": "mail"})
    assert code(other)[0] == grpc.StatusCode.NOT_FOUND
    readings.reachable = False
    assert code() == (grpc.StatusCode.UNAVAILABLE, "what group 'g' needs is unknown: the cluster doesn't respond")
    readings.reachable = True
    readings.take((hidden(),), 300.0)
    assert code()[0] == grpc.StatusCode.UNAVAILABLE
    assert "Describe on Group g" in code()[1]
    readings.take((), 400.0)
    readings.take((behind(0),), 500.0)
    assert code() == (grpc.StatusCode.UNAVAILABLE, "what group 'g' needs isn't measured yet")


@pytest.mark.slow
def test_a_stream_tells_each_change(
    client: Any, trigger: Any, readings: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keda, "_LOOK_S", 0.01)
    stream = client.StreamIsActive(trigger, timeout=30)
    assert next(stream).result is True

    empty = LiveGroup("g", "Empty", "classic", "", ())
    positions = {TopicPartition("t", 0): Position(10, 10)}
    readings.take((Reading("g", Totals(), empty, None, False, positions=positions),), 200.0)

    assert next(stream).result is False
    stream.cancel()


@pytest.mark.slow
def test_a_port_that_is_taken_is_one_sentence(readings: Readings) -> None:
    with keda.scaling(readings, "127.0.0.1", 0) as address:
        again = keda.scaling(readings, "127.0.0.1", int(address.rpartition(":")[2]))
        with pytest.raises(ClusterError, match="--keda"):
            again.__enter__()


def test_it_needs_a_delay(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exporter", "g", "-b", "127.0.0.1:1", "--keda", "9109"]) == 2
    assert "--delay 30s" in capsys.readouterr().err
