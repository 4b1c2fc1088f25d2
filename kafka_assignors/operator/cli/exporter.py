"""``exporter``: an endpoint for Prometheus that tells the rebalances of live groups as they happen."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from socketserver import ThreadingMixIn
from typing import Any, NoReturn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...errors import ClusterError
from ...frame import Common
from ..live.cluster import LiveCluster
from ..live.meter import imbalance
from ..live.monitor import Monitor, Reading
from ..live.overview import watchable

PREFIX = "kafka_group_"
MOST_CONNECTIONS = 16
"""At once; the oldest one is closed for a new one, so that requests which never end keep no scrape out."""
SILENCE_S = 10
"""How long a connection may send nothing."""


class Readings:
    """The last readings as Prometheus's metrics; `partitions` adds a series per partition, which tells its owner."""

    def __init__(self, *, partitions: bool = False) -> None:
        self.now: tuple[Reading, ...] = ()  # replaced as a whole: the server's threads read it
        self.reachable = True
        self._partitions = partitions

    def collect(self) -> Iterator[Metric]:
        """The metrics now; called by the server for each scrape."""
        yield from _counters(self.now)
        yield from _gauges(self.now)
        reachable = GaugeMetricFamily(
            f"{PREFIX}exporter_reachable", "1 if the cluster answered the last request, 0 if it didn't."
        )
        reachable.add_metric([], float(self.reachable))
        yield reachable
        if self._partitions:
            yield _owners(self.now)


def run(
    common: Common, groups: Sequence[str], port: int, listen: str, partitions: bool, collector: str | None
) -> NoReturn:
    """Serve the metrics of groups, and send them to a collector of OTLP, until the command is interrupted."""
    if collector is not None:
        from . import otlp

        collector, every_s = otlp.endpoint(collector), otlp.interval_s()
    with LiveCluster(common.connection) as cluster:
        with common.busy("reading the coordinator's log"):
            groups = watchable(cluster, groups, waiting=True)
            monitor = Monitor(cluster, groups, common.note, waiting=True)
        readings = Readings(partitions=partitions)
        with monitor, ExitStack() as outlets:
            _take(readings, monitor, 0.0)
            url = outlets.enter_context(serving(readings, listen, port))
            if collector is not None:
                outlets.enter_context(otlp.sending(readings.collect, collector, every_s, common.note))
            if common.as_json:
                missed = [reading.group for reading in readings.now if reading.may_miss]
                common.print_json({"url": url, "otlp": collector, "groups": list(groups), "may_miss": missed})
            else:
                print(f"serving {url}; Ctrl-C ends it", flush=True)
            while True:
                _take(readings, monitor, monitor.wait_s)


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_S

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread per connection, of `MOST_CONNECTIONS`."""

    daemon_threads = True
    request_queue_size = 128  # with its default of 5, a scrape beside many connections waits for seconds

    def __init__(self, *args: Any) -> None:
        self._open: dict[socket.socket, None] = {}  # in the order in which they came
        self._lock = threading.Lock()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._open) >= MOST_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with suppress(OSError):  # the other side has closed it
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: it is the other side's connection that failed."""


@contextmanager
def serving(readings: Readings, listen: str, port: int) -> Iterator[str]:
    """Serve metrics; the value is the address. Raises ClusterError if the port can't be had."""
    registry = CollectorRegistry()
    registry.register(readings)
    try:
        (family, *_, address), *_ = socket.getaddrinfo(listen, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        of_family = type("Server", (_Server,), {"address_family": family})
        server: WSGIServer = make_server(str(address[0]), port, make_wsgi_app(registry), of_family, _Handler)
    except OSError as error:
        raise ClusterError(
            f"{listen}:{port} can't be listened on: {error.strerror or error}; choose another with --port or --listen"
        ) from error
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        host = f"[{listen}]" if ":" in listen else listen
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _take(readings: Readings, monitor: Monitor, timeout_s: float) -> None:
    readings.now = tuple(monitor.read(timeout_s))
    readings.reachable = monitor.reachable


def _counters(now: Sequence[Reading]) -> Iterator[Metric]:
    rebalances = CounterMetricFamily(
        f"{PREFIX}rebalances", "Rebalances since the exporter started, each under its first cause.",
        labels=["group", "cause"],
    )  # fmt: skip
    moved = CounterMetricFamily(
        f"{PREFIX}partitions_moved", "Partitions that went from one member to another.", labels=["group"]
    )
    needless = CounterMetricFamily(
        f"{PREFIX}needless_moves", "Moves that an optimally balanced assignment does without.", labels=["group"]
    )
    ownerless = CounterMetricFamily(
        f"{PREFIX}ownerless_seconds_lower_bound",
        "Lower bound: sum over rebalances of the longest time that the log proves a partition to have had no owner.",
        labels=["group"],
    )
    for reading in now:
        for cause, count in reading.totals.rebalances.items():
            rebalances.add_metric([reading.group, cause], count)
        moved.add_metric([reading.group], reading.totals.moved)
        if not reading.may_miss:  # polling can't tell them
            needless.add_metric([reading.group], reading.totals.needless)
            ownerless.add_metric([reading.group], reading.totals.ownerless_ms / 1000)
    yield from (rebalances, moved, needless, ownerless)


def _gauges(now: Sequence[Reading]) -> Iterator[Metric]:
    def gauge(name: str, documentation: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(PREFIX + name, documentation, labels=["group"])

    generation = gauge("generation", "Generation of the group; absent if the coordinator's log can't be read.")
    members = gauge("members", "Members of the group.")
    uneven = gauge(
        "imbalance_ratio",
        "Most partitions at one member, over the least possible if all subscribe alike: 1 is even.",
    )
    gap = gauge("plan_gap", "Partitions that cooperative-sticky would move if the group rebalanced now.")
    missing = gauge("may_miss_rebalances", "1 if the group is polled, because the coordinator's log can't be read.")
    for reading in now:
        missing.add_metric([reading.group], float(reading.may_miss))
        if reading.live is None:
            continue
        members.add_metric([reading.group], len(reading.live.members))
        for family, value in (
            (generation, reading.live.generation), (uneven, imbalance(reading.live)), (gap, reading.gap),
        ):  # fmt: skip
            if value is not None:
                family.add_metric([reading.group], value)
    yield from (generation, members, uneven, gap, missing)


def _owners(now: Sequence[Reading]) -> Metric:
    owner = GaugeMetricFamily(
        f"{PREFIX}partition_owner", "1 for the member that a partition is assigned to.",
        labels=["group", "topic", "partition", "member"],
    )  # fmt: skip
    for reading in now:
        names = reading.live.names if reading.live is not None else {}
        for member in reading.live.members if reading.live is not None else ():
            for tp in member.assigned:
                owner.add_metric([reading.group, tp.topic, str(tp.partition), names[member.member_id]], 1)
    return owner
