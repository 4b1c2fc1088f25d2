"""``exporter``: an endpoint for Prometheus that tells the rebalances of live groups as they happen."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from socketserver import ThreadingMixIn
from typing import Any, NoReturn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from kafka.errors import KafkaError
from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ....errors import ClusterError
from ....frame import Common
from ...live.cluster import LiveCluster
from ...live.demand import Demand, Scaled
from ...live.meter import imbalance
from ...live.monitor import LAGS_S, Monitor, Reading
from ...live.overview import open_ended, watchable
from ...recorded import RecordedMonitor
from ...scaling import Rules

PREFIX = "kafka_group_"
MOST_CONNECTIONS = 16
"""At once; the oldest one is closed for a new one, so that requests which never end keep no scrape out."""
SILENCE_S = 10
"""How long a connection may send nothing."""
FIND_S = 30.0
"""Seconds between two looks for groups that a pattern means."""


class Readings:
    """The last readings as Prometheus's metrics.

    Args:
        partitions: Whether to add series per partition: its owner, and its lag.
        rules: Of the number of members that a group needs; None: it isn't told.
    """

    def __init__(self, *, partitions: bool = False, rules: Rules | None = None) -> None:
        self.now: tuple[Reading, ...] = ()  # replaced as a whole: the server's threads read it
        self.scaled: Mapping[str, Scaled] = {}  # likewise
        self.reachable = True
        self._partitions, self._rules = partitions, rules
        self._demands: dict[str, Demand] = {}
        self._looks: dict[str, object] = {}  # group -> the positions of the last look

    def take(self, now: tuple[Reading, ...], now_s: float) -> None:
        """Take the readings of now; `now_s` is of a clock that never goes back."""
        self.now = now
        if self._rules is None:
            return
        scaled = {}
        for reading in now:
            group, live = reading.group, reading.live
            if live is None or not live.members or live.rebalancing or reading.topics is None or reading.unknown:
                continue
            if reading.positions is self._looks.get(group):  # no look since then
                if group in self.scaled:
                    scaled[group] = self.scaled[group]
                continue
            self._looks[group] = reading.positions
            demand = self._demands.setdefault(group, Demand(self._rules))
            demand.add(live, reading.positions, now_s)
            if (answer := demand.scaled(live, reading.topics, now_s)) is not None:
                scaled[group] = answer
        self.scaled = scaled
        groups = {reading.group for reading in now}
        for gone in self._demands.keys() - groups:
            del self._demands[gone], self._looks[gone]

    def collect(self) -> Iterator[Metric]:
        """The metrics now; called by the server for each scrape."""
        yield from _counters(self.now)
        yield from _gauges(self.now)
        yield from _lags(self.now)
        if self._rules is not None:
            yield from _sizes(self.scaled, self._rules)
        reachable = GaugeMetricFamily(
            f"{PREFIX}exporter_reachable", "1 if the cluster answered the last request, 0 if it didn't."
        )
        reachable.add_metric([], float(self.reachable))
        yield reachable
        if self._partitions:
            yield _owners(self.now)
            yield _partition_lags(self.now)


@dataclass(frozen=True)
class Outlets:
    """What to serve, and where.

    Args:
        collector: Address of a collector of OTLP; None: none.
        rules: Of the number of members that each group needs; None: it isn't told.
        partitions: Whether to add series per partition.
        keda: Port for KEDA; None: none.
    """

    port: int
    listen: str
    collector: str | None = None
    rules: Rules | None = None
    partitions: bool = False
    keda: int | None = None


def run(common: Common, patterns: Sequence[str], wanted: Outlets) -> NoReturn:
    """Serve the metrics of groups, and send them to a collector of OTLP, until the command is interrupted."""
    wanted, every_s = _with_endpoint(wanted)
    with LiveCluster(common.connection) as cluster:
        with common.busy("reading the coordinator's log"):
            groups = watchable(cluster, patterns, waiting=True)
            if not groups:
                common.note(f"no group that you may see fits yet; they are looked for every {FIND_S:g} s")
            monitor = Monitor(cluster, groups, common.note, waiting=True, lags_s=LAGS_S)
        with monitor:
            _serve(common, monitor, wanted, every_s, Finder(cluster, monitor, patterns))


def run_recorded(common: Common, patterns: Sequence[str], wanted: Outlets, places: Sequence[str]) -> NoReturn:
    """The same by what members recorded at some places. Asks a cluster only for a topic."""
    wanted, every_s = _with_endpoint(wanted)
    with common.busy("reading recordings"):
        monitor = RecordedMonitor(places, lambda: common.connection, patterns, common.note, waiting=True)
    with monitor:
        _serve(common, monitor, wanted, every_s)


def _with_endpoint(wanted: Outlets) -> tuple[Outlets, float]:
    """The outlets with the collector's whole address, and the seconds between two exports."""
    if wanted.collector is None:
        return wanted, 0.0
    from . import otlp

    return replace(wanted, collector=otlp.endpoint(wanted.collector)), otlp.interval_s()


def _serve(
    common: Common, monitor: Monitor | RecordedMonitor, wanted: Outlets, every_s: float, finder: Finder | None = None
) -> NoReturn:
    readings = Readings(partitions=wanted.partitions, rules=wanted.rules)
    with ExitStack() as outlets:
        _take(readings, monitor, 0.0)
        url = outlets.enter_context(serving(readings, wanted.listen, wanted.port))
        if wanted.collector is not None:
            from . import otlp

            outlets.enter_context(otlp.sending(readings.collect, wanted.collector, every_s, common.note))
        keda_at = None
        if wanted.keda is not None:
            from . import keda

            keda_at = outlets.enter_context(keda.scaling(readings, wanted.listen, wanted.keda))
        if common.as_json:
            groups = [reading.group for reading in readings.now]
            missed = [reading.group for reading in readings.now if reading.may_miss]
            common.print_json(
                {"url": url, "otlp": wanted.collector, "keda": keda_at, "groups": groups, "may_miss": missed}
            )
        else:
            if keda_at is not None:
                print(f"scaling for KEDA at {keda_at}")
            print(f"serving {url}; Ctrl-C ends it", flush=True)
        while True:
            if finder is not None:
                finder.look(time.monotonic())
            _take(readings, monitor, monitor.wait_s)


class Finder:
    """Lets a monitor watch the groups that patterns mean as they begin and end; it looks at once, and each `FIND_S`."""

    def __init__(self, cluster: LiveCluster, monitor: Monitor, patterns: Sequence[str]) -> None:
        self._cluster, self._monitor, self._patterns = cluster, monitor, patterns
        self._due = 0.0

    def look(self, now_s: float) -> None:
        """Look if it is time. `now_s` is of a clock that never goes back."""
        if not open_ended(self._patterns) or now_s < self._due:
            return
        self._due = now_s + FIND_S
        with suppress(KafkaError, ClusterError, OSError):  # the monitor's next reading tells that of the cluster
            self._monitor.watch(watchable(self._cluster, self._patterns, waiting=True))


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


def _take(readings: Readings, monitor: Monitor | RecordedMonitor, timeout_s: float) -> None:
    readings.take(tuple(monitor.read(timeout_s)), time.monotonic())
    readings.reachable = monitor.reachable


def _counter(name: str, documentation: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(PREFIX + name, documentation, labels=["group", *labels])


def _gauge(name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, documentation, labels=["group", *labels])


def _counters(now: Sequence[Reading]) -> Iterator[Metric]:
    rebalances = _counter("rebalances", "Rebalances since the exporter started, each under its first cause.", "cause")
    moved = _counter("partitions_moved", "Partitions that went from one member to another.")
    needless = _counter("needless_moves", "Moves that an optimally balanced assignment does without.")
    ownerless = _counter(
        "ownerless_seconds_lower_bound",
        "Lower bound: sum over rebalances of the longest time that the log proves a partition to have had no owner.",
    )
    for reading in now:
        for cause, count in reading.totals.rebalances.items():
            rebalances.add_metric([reading.group, cause], count)
        if reading.sums_known:
            moved.add_metric([reading.group], reading.totals.moved)
        if reading.sums_known and not reading.may_miss:  # polling can't tell them
            needless.add_metric([reading.group], reading.totals.needless)
            ownerless.add_metric([reading.group], reading.totals.ownerless_ms / 1000)
    yield from (rebalances, moved, needless, ownerless)


def _gauges(now: Sequence[Reading]) -> Iterator[Metric]:
    generation = _gauge("generation", "Generation of the group; absent if it is polled.")
    members = _gauge("members", "Members of the group.")
    uneven = _gauge(
        "imbalance_ratio", "Most partitions at one member, over the least possible if all subscribe alike: 1 is even."
    )
    gap = _gauge("plan_gap", "Partitions that cooperative-sticky would move if the group rebalanced now.")
    unknown = _gauge(
        "unknown",
        "1 if you may not see the group, one of its topics, or its members that don't record: figures are then absent.",
    )
    missing = _gauge(
        "may_miss_rebalances",
        "1 if the group is polled, because the coordinator's log can't be read, or members of it don't record.",
    )
    for reading in now:
        missing.add_metric([reading.group], float(reading.may_miss))
        unknown.add_metric([reading.group], float(bool(reading.unknown)))
        if reading.live is None:
            continue
        whole = None if reading.in_part else reading.live
        for family, value in (
            (generation, reading.live.generation), (gap, reading.gap),
            (members, whole and len(whole.members)), (uneven, whole and imbalance(whole)),
        ):  # fmt: skip
            if value is not None:
                family.add_metric([reading.group], value)
    yield from (generation, members, uneven, gap, missing, unknown)


def _lags(now: Sequence[Reading]) -> Iterator[Metric]:
    lag = _gauge(
        "lag_records",
        "Records between the committed offsets and the ends of the partitions in which the group has committed.",
        "topic",
    )
    for reading in now:
        by_topic: Counter[str] = Counter()
        for tp, position in reading.positions.items():
            by_topic[tp.topic] += position.lag or 0
        for topic, records in by_topic.items():
            lag.add_metric([reading.group, topic], records)
    yield lag


def _partition_lags(now: Sequence[Reading]) -> Metric:
    documentation = "Records between the committed offset and the end of the partition."
    lag = _gauge("partition_lag_records", documentation, "topic", "partition")
    for reading in now:
        for tp, position in reading.positions.items():
            if position.lag is not None:
                lag.add_metric([reading.group, tp.topic, str(tp.partition)], position.lag)
    return lag


def _sizes(scaled: Mapping[str, Scaled], rules: Rules) -> Iterator[Metric]:
    wanted = _gauge(
        "members_wanted", "The fewest members that keep --delay, with hysteresis; absent while it is unknown."
    )
    waits = _gauge(
        "delay_seconds",
        f"The longest time that a record waits within {rules.horizon_s:g} s, at the measured rates; an upper bound "
        "until a member was busy.",
    )
    for group, answer in scaled.items():
        wanted.add_metric([group], answer.answer.members)
        now = next(size for size in answer.sizes if size.members == answer.answer.now)
        waits.add_metric([group], now.delay_s(rules.horizon_s))
    yield from (wanted, waits)


def _owners(now: Sequence[Reading]) -> Metric:
    documentation = "1 for the member that a partition is assigned to."
    owner = _gauge("partition_owner", documentation, "topic", "partition", "member")
    for reading in now:
        names = reading.live.names if reading.live is not None else {}
        for member in reading.live.members if reading.live is not None else ():
            for tp in member.assigned:
                owner.add_metric([reading.group, tp.topic, str(tp.partition), names[member.member_id]], 1)
    return owner
