"""``exporter --keda``: how many members a group needs, for KEDA, by the gRPC protocol of its external scalers.

The metric is the number of members, and its target is 1 per member: a Kubernetes HPA, which divides the one by the
other, then wants that number. Where the number isn't known the answer is an error and never a guess: KEDA keeps the
current number, or its ``fallback``.

Source: KEDA's ``externalscaler.proto`` (kedacore/keda ``pkg/scalers/externalscaler`` at 125494be), whose messages are
the tables below; the optional ``StreamMetricSpec`` is left out, as the target never changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ....errors import ClusterError
from ...live.demand import Scaled
from ...live.monitor import Reading

METRIC = "members-wanted"
GROUP = "group"
"""Key of ``metadata`` in a ScaledObject's trigger that names the group."""

SERVICE = "externalscaler.ExternalScaler"
_MESSAGES: dict[str, tuple[tuple[str, int, str], ...]] = {
    "ScaledObjectRef": (("name", 1, "string"), ("namespace", 2, "string"), ("scalerMetadata", 3, "map")),
    "IsActiveResponse": (("result", 1, "bool"),),
    "MetricSpec": (("metricName", 1, "string"), ("targetSize", 2, "int64"), ("targetSizeFloat", 3, "double")),
    "GetMetricSpecResponse": (("metricSpecs", 1, "MetricSpec*"),),
    "GetMetricsRequest": (("scaledObjectRef", 1, "ScaledObjectRef"), ("metricName", 2, "string")),
    "MetricValue": (("metricName", 1, "string"), ("metricValue", 2, "int64"), ("metricValueFloat", 3, "double")),
    "GetMetricsResponse": (("metricValues", 1, "MetricValue*"),),
}
"""Message -> its fields: name, number and type; ``map`` is of strings, and ``*`` marks a repeated one."""

_THREADS = 32
"""Calls at once; each stream takes one for as long as it lasts."""
_LOOK_S = 1.0
"""Seconds between two looks of a stream."""


def _types() -> dict[str, Any]:
    """The classes of the messages, made from the table."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="externalscaler.proto", package="externalscaler", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            made = message.field.add(name=field_name, number=number, label=field.LABEL_OPTIONAL)
            if kind == "map":
                entry = message.nested_type.add(name="ScalerMetadataEntry")
                entry.options.map_entry = True
                for n, part in enumerate(("key", "value"), 1):
                    entry.field.add(name=part, number=n, label=field.LABEL_OPTIONAL, type=field.TYPE_STRING)
                made.label, made.type = field.LABEL_REPEATED, field.TYPE_MESSAGE
                made.type_name = f".externalscaler.{name}.ScalerMetadataEntry"
            elif kind.rstrip("*") in _MESSAGES:
                made.label = field.LABEL_REPEATED if kind.endswith("*") else field.LABEL_OPTIONAL
                made.type, made.type_name = field.TYPE_MESSAGE, f".externalscaler.{kind.rstrip('*')}"
            else:
                made.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()  # one of its own: a program may have KEDA's generated messages, too
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"externalscaler.{name}"))
        for name in _MESSAGES
    }


class ScalerSource(Protocol):
    """What is read of the exporter's `Readings`, which begin this module's server."""

    @property
    def now(self) -> Sequence[Reading]:
        """The last readings."""

    @property
    def scaled(self) -> Mapping[str, Scaled]:
        """Group -> how many members it needs."""

    @property
    def reachable(self) -> bool:
        """Whether the cluster answered the last request."""


class ExternalScaler:
    """Answers KEDA from the exporter's readings."""

    def __init__(self, readings: ScalerSource) -> None:
        self._readings, self._types, self.ended = readings, _types(), threading.Event()

    def handler(self) -> grpc.GenericRpcHandler:
        """The four calls, as gRPC takes them."""

        def call(kind: Callable[..., Any], answer: Callable[..., Any], request: str) -> Any:
            return kind(
                answer,
                request_deserializer=self._types[request].FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )

        one, many = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        calls = {
            "IsActive": call(one, self._is_active, "ScaledObjectRef"),
            "StreamIsActive": call(many, self._stream_is_active, "ScaledObjectRef"),
            "GetMetricSpec": call(one, self._metric_spec, "ScaledObjectRef"),
            "GetMetrics": call(one, self._metrics, "GetMetricsRequest"),
        }
        return grpc.method_handlers_generic_handler(SERVICE, calls)

    def _members(self, ref: Any, context: grpc.ServicerContext) -> int:
        """The number of members that a group needs; 0 if it has none, and has read everything.

        A group that never committed anything needs one: else it would never begin.
        """
        codes, group = grpc.StatusCode, ref.scalerMetadata.get(GROUP, "")
        if not group:
            self._abort(context, codes.INVALID_ARGUMENT, f"metadata.{GROUP} of {ref.namespace}/{ref.name} is missing")
        reading = next((reading for reading in self._readings.now if reading.group == group), None)
        if reading is None:
            self._abort(context, codes.NOT_FOUND, f"group {group!r} is none of those that this exporter watches")
        if reading.unknown or not self._readings.reachable:
            why = reading.unknown[0] if reading.unknown else "the cluster doesn't respond"
            self._abort(context, codes.UNAVAILABLE, f"what group {group!r} needs is unknown: {why}")
        if reading.live is None or not reading.live.members:
            return int(not reading.positions or any(position.lag for position in reading.positions.values()))
        scaled = self._readings.scaled.get(group)
        if scaled is None:
            self._abort(context, codes.UNAVAILABLE, f"what group {group!r} needs isn't measured yet")
        return scaled.answer.members

    def _abort(self, context: grpc.ServicerContext, code: grpc.StatusCode, why: str) -> NoReturn:
        context.abort(code, why)
        raise AssertionError(why)  # abort raises

    def _is_active(self, ref: Any, context: grpc.ServicerContext) -> Any:
        return self._types["IsActiveResponse"](result=self._members(ref, context) > 0)

    def _stream_is_active(self, ref: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """At once, and when it changes."""
        last = None
        while context.is_active() and not self.ended.is_set():
            answer = self._is_active(ref, context)
            if answer != last:
                last = answer
                yield answer
            self.ended.wait(_LOOK_S)

    def _metric_spec(self, _ref: Any, _context: grpc.ServicerContext) -> Any:
        spec = self._types["MetricSpec"](metricName=METRIC, targetSize=1, targetSizeFloat=1.0)
        return self._types["GetMetricSpecResponse"](metricSpecs=[spec])

    def _metrics(self, request: Any, context: grpc.ServicerContext) -> Any:
        members = self._members(request.scaledObjectRef, context)
        name = request.metricName or METRIC
        value = self._types["MetricValue"](metricName=name, metricValue=members, metricValueFloat=float(members))
        return self._types["GetMetricsResponse"](metricValues=[value])


@contextmanager
def scaling(readings: ScalerSource, listen: str, port: int) -> Iterator[str]:
    """Serve KEDA; the value is the address. Raises ClusterError if the port can't be had."""
    scaler = ExternalScaler(readings)
    server = grpc.server(ThreadPoolExecutor(_THREADS, "keda"), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((scaler.handler(),))
    host = f"[{listen}]" if ":" in listen else listen
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise ClusterError(f"{host}:{port} can't be listened on for KEDA; choose another with --keda") from error
    server.start()
    try:
        yield f"{host}:{bound}"
    finally:
        scaler.ended.set()
        server.stop(None).wait()
