"""A collector of OTLP over HTTP that keeps what it receives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


class Collector:
    """A collector on a free port: the last export that it took, and what it answers."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/metrics"
                assert self.headers["Content-Type"] == "application/x-protobuf"
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.status == 200:
                    outer.requests.append(ExportMetricsServiceRequest.FromString(body))
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def told(self) -> dict[Any, float]:
        """The last export, in the form of `scraped`."""
        samples: dict[Any, float] = {}
        for resource in self.requests[-1].resource_metrics:
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for point in getattr(metric, metric.WhichOneof("data")).data_points:
                    labels = sorted((attribute.key, attribute.value.string_value) for attribute in point.attributes)
                    key = (metric.name, *labels)
                    samples[key] = point.as_double or float(point.as_int)
        return samples


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that runs."""
    made = Collector()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join()
