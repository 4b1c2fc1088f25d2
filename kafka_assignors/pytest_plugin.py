"""pytest fixtures: a broker, a cluster, judged groups, your own service.

Opt in by ``pytest_plugins = ["kafka_assignors.pytest_plugin"]``.

Options, each also an ini setting (``kafka_backend = docker``): ``--kafka-backend jvm|shared|docker|external``,
``--kafka-bootstrap host:port``, ``--kafka-config client.properties`` and ``--kafka-version`` for the one broker,
``--kafka-nodes N`` for the cluster, ``--kafka-artifacts DIR`` for histories, ``--kafka-seed N`` for random draws in
tests; a failing test prints its rerun line. If the machine can't run a broker (no Java, no jars, no Docker engine),
tests are skipped with that reason. With ``--kafka-require`` they fail instead, as CI should: a skip must not look
green. A failed test that used the broker or the cluster shows the warnings and errors of its log and the path of the
whole log; one with `kafka_group` shows the verdict.

A test with `kafka_group` passes only if the laws hold. When its function is over, the group consumes what was sent, its
members are ended and its history is judged; a verdict that isn't true fails the test, with the witnesses. This is part
of the test's call and not of its teardown, so it counts as a failure and ``xfail`` applies. So it is with
`kafka_service`, whose failures also show the last lines that the service's processes printed.
"""

# ruff: noqa: E402 - kafka-python is imported first, without its warnings
from __future__ import annotations

import itertools
import os
import random
import re
import shlex
import tempfile
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

_OF_KAFKA_PYTHON = "(read|open)_text is deprecated"
with warnings.catch_warnings():
    # Its schemas are read by functions that Python 3.11 and 3.12 call deprecated: 218 warnings in a user's first run.
    warnings.filterwarnings("ignore", _OF_KAFKA_PYTHON, DeprecationWarning)
    from kafka import KafkaAdminClient

from kafka_assignors.integration.broker import BACKENDS, KAFKA_VERSION, Broker, start_broker
from kafka_assignors.integration.broker.cluster import Cluster, start_cluster
from kafka_assignors.integration.broker.java import LiveJava
from kafka_assignors.integration.checker import Verdict, check, known_laws
from kafka_assignors.integration.errors import DockerUnavailable, MemberDied, NotDrained
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.members.service import PATIENCE_S
from kafka_assignors.integration.proxy import FaultProxy, WireTap
from kafka_assignors.integration.records.own import Function, maker
from kafka_assignors.integration.report.replicas_view import replica_lines, replicas_of
from kafka_assignors.integration.report.report import verdict_lines
from kafka_assignors.integration.report.service_logs import log_lines
from kafka_assignors.integration.report.service_view import service_view
from kafka_assignors.integration.running_service import RunningService, asked_service, require_valid
from kafka_assignors.integration.topics import STAMPED
from kafka_assignors.integration.topics.sandbox import remove

from .connection import Connection, read_connection
from .errors import ChecksumMismatch, ConfigError, JarError, JavaNotFound, KafkaAssignorsError
from .output import going_on, printable

_OPTIONS = {
    "backend": f"where the broker runs, one of {', '.join(BACKENDS)} (default: jvm)",
    "bootstrap": "HOST:PORT of the broker of --kafka-backend=external, several with commas",
    "config": "Kafka's client.properties: how to reach that broker, and its address unless --kafka-bootstrap is given",
    "version": f"Kafka's version (default: {KAFKA_VERSION})",
    "nodes": "number of brokers in the cluster (default: 3)",
    "seed": "value of `kafka_seed`, to repeat random schedules (default: a new one per run)",
    "artifacts": "DIR for the history of each test, in a new folder (default: the test's tmp_path)",
}
_LINES = 60
"""Limit of a verdict's lines in a test's failure; the rerun line shows all."""
_WHOLE_LOG = 1_000_000
"""More lines than a broker's log has."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add this plugin's options."""
    group = parser.getgroup("kafka", "a real Kafka broker")
    for name, text in _OPTIONS.items():
        group.addoption(f"--kafka-{name}", metavar=name.upper(), help=text)
        parser.addini(f"kafka_{name}", f"as --kafka-{name}: {text}")
    required = "fail instead of skipping if the machine cannot provide a broker"
    group.addoption("--kafka-require", action="store_true", help=required)
    parser.addini("kafka_require", f"as --kafka-require: {required}", type="bool", default=False)


def _option(config: pytest.Config, name: str) -> str | None:
    """Read an option from the command line, else from the ini file; None if neither has it."""
    given = config.getoption(f"--kafka-{name}") or config.getini(f"kafka_{name}")
    return str(given) if given else None


def _reached(config: pytest.Config) -> Connection | None:
    """How to reach the external broker; None for other backends."""
    bootstrap, file = _option(config, "bootstrap"), _option(config, "config")
    if bootstrap is None and file is None:
        return None
    return read_connection(bootstrap, None if file is None else Path(file))


@contextmanager
def _offered(config: pytest.Config) -> Iterator[None]:
    """Skip tests that need a broker if the machine can't run one; with ``--kafka-require``, fail them.

    Output is shown meanwhile: at the first start jars are fetched and classes prepared, which takes half a minute.
    """
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    try:
        shown = nullcontext() if capture is None else capture.global_and_fixture_disabled()
        with shown, going_on("starting what the tests need"):
            yield
    except ChecksumMismatch:  # not a missing jar, but a wrong one
        raise
    except (JavaNotFound, JarError, DockerUnavailable) as error:
        if config.getoption("--kafka-require") or config.getini("kafka_require"):
            pytest.fail(f"--kafka-require, but {error}", pytrace=False)
        pytest.skip(f"{error}; --kafka-require makes this a failure")


def _backend(config: pytest.Config) -> str:
    return _option(config, "backend") or BACKENDS[0]


def pytest_configure(config: pytest.Config) -> None:
    """Check that the options go together, before any test runs."""
    config.addinivalue_line("filterwarnings", f"ignore:{_OF_KAFKA_PYTHON}:DeprecationWarning")
    backend = _backend(config)
    if backend not in BACKENDS:
        raise pytest.UsageError(f"--kafka-backend={backend}: unknown; known: {', '.join(BACKENDS)}")
    if (backend == "external") != bool(_option(config, "bootstrap") or _option(config, "config")):
        raise pytest.UsageError(
            "--kafka-backend=external and --kafka-bootstrap=HOST:PORT belong together, and to no other backend; "
            "--kafka-config=FILE may give the address instead"
        )
    try:
        _reached(config)
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from None
    if backend == "external" and _option(config, "version"):
        raise pytest.UsageError(
            "--kafka-version is for a broker that the tests start; an external one has its own version"
        )
    nodes = _number(config, "nodes", 3)
    if nodes < 1:
        raise pytest.UsageError(f"--kafka-nodes={nodes}: a cluster has at least 1 broker")
    # A worker of pytest-xdist uses the seed that the whole run has drawn.
    drawn = getattr(config, "workerinput", {}).get(_SEED_OF_WORKERS)
    config.stash[_SEED] = _number(
        config, "seed", random.SystemRandom().randrange(1_000_000) if drawn is None else drawn
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the seed to a worker of pytest-xdist."""
    node.workerinput[_SEED_OF_WORKERS] = node.config.stash[_SEED]


def _number(config: pytest.Config, name: str, default: int) -> int:
    given = _option(config, name)
    try:
        return default if given is None else int(given)
    except ValueError:
        raise pytest.UsageError(f"--kafka-{name}={given}: not a whole number") from None


def pytest_report_header(config: pytest.Config) -> str:
    """Show which broker the tests use, and where histories are kept."""
    version = _option(config, "version") or KAFKA_VERSION
    reached = _reached(config)
    broker = f"Kafka {version}" if reached is None else str(reached)
    kept = _option(config, "artifacts")
    header = f"kafka: {_backend(config)} backend, {broker}" + (f", histories below {kept}" if kept else "")
    return f"{header}, seed {config.stash[_SEED]}"


@pytest.fixture(scope="session")
def kafka_logs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for the brokers' logs of failed tests, below ``--kafka-artifacts`` or pytest's temporary folder."""
    kept = _option(request.config, "artifacts")
    folder = tmp_path_factory.mktemp("kafka-logs") if kept is None else Path(kept).resolve() / "logs"
    request.config.stash[_LOGS] = folder
    return folder


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest, kafka_logs: Path) -> Iterator[Broker]:  # noqa: ARG001 - its folder
    """One broker for the whole session. A test that ends or restarts a broker starts its own by `start_broker`."""
    config = request.config
    version = _option(config, "version") or KAFKA_VERSION
    with _offered(config):
        started = start_broker(_backend(config), bootstrap=_reached(config), version=version)
    with started as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_admin(kafka_broker: Broker) -> Iterator[KafkaAdminClient]:
    """An admin client of that broker."""
    admin = KafkaAdminClient(**kafka_broker.connection.kafka_python())
    yield admin
    admin.close()


@contextmanager
def _topics(broker: Broker, admin: KafkaAdminClient) -> Iterator[Callable[..., str]]:
    made: list[str] = []

    def make(partitions: int = 1, name: str = "topic", configs: Mapping[str, str] | None = None) -> str:
        topic = f"{name}-{_RUN}-{next(_COUNTER)}"
        admin.create_topics({topic: {"num_partitions": partitions, "configs": dict(configs or {})}})
        made.append(topic)
        admin.wait_for_topics([topic])
        return topic

    yield make
    if broker.backend == "external" and made:
        admin.delete_topics(made)


@pytest.fixture
def kafka_topic(kafka_broker: Broker, kafka_admin: KafkaAdminClient) -> Iterator[Callable[..., str]]:
    """Create topics: ``kafka_topic(partitions=3, name="orders", configs={...}) -> "orders-1a2b-7"``.

    Names are unique on the broker. A topic is returned when every partition has a leader. Topics on an external broker
    are deleted after the test; other brokers end with the session.
    """
    with _topics(kafka_broker, kafka_admin) as make:
        yield make


@pytest.fixture(scope="session")
def kafka_topic_factory(kafka_broker: Broker, kafka_admin: KafkaAdminClient) -> Iterator[Callable[..., str]]:
    """As `kafka_topic`, for fixtures of a wider scope: its topics stay until the session ends."""
    with _topics(kafka_broker, kafka_admin) as make:
        yield make


@pytest.fixture(scope="session")
def kafka_cluster(request: pytest.FixtureRequest, kafka_logs: Path) -> Iterator[Cluster]:  # noqa: ARG001 - its folder
    """Brokers in racks a, b and c for the whole session. A test that stops, kills or pauses a node restores it."""
    with _offered(request.config):
        started = start_cluster(_number(request.config, "nodes", 3))
    with started as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_java(request: pytest.FixtureRequest) -> Iterator[LiveJava]:
    """Java's own Kafka classes, in a JVM for the whole session."""
    with _offered(request.config):
        started = LiveJava()
    with started as java:
        yield java


@pytest.fixture
def kafka_cluster_topic(kafka_cluster: Cluster) -> Callable[..., str]:
    """Create topics: ``kafka_cluster_topic(partitions=3, replicas=2)`` or ``…(placed=[[1, 2], [2, 3]])``.

    `placed` lists the nodes of each partition's replicas, its preferred leader first. Names are unique. A topic is
    returned when every partition has a leader. The cluster ends with the session.
    """

    def make(
        partitions: int = 1,
        name: str = "topic",
        replicas: int = 3,
        placed: Sequence[Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        topic = f"{name}-{_RUN}-{next(_COUNTER)}"
        options: dict[str, Any] = {"configs": dict(configs or {})}
        if placed is None:
            options |= {"num_partitions": partitions, "replication_factor": replicas}
        else:
            options["assignments"] = dict(enumerate(placed))
        admin = KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap)
        try:
            admin.create_topics({topic: options}, wait_for_metadata=True)
        finally:
            admin.close()
        return topic

    return make


@pytest.fixture(scope="session")
def kafka_seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run, for random draws in tests. A failing test prints how to repeat it."""
    return request.config.stash[_SEED]


class _Judged:
    """Groups with one history, and the verdict over it. The history's run id is the test's name."""

    def __init__(self, folder: Path, run: str) -> None:
        self.folder, self.run = folder, run
        self.groups: list[MemberGroup] = []
        self.proxies: list[FaultProxy | WireTap] = []
        self.loose: set[str] = set()  # groups whose part of the history may be unknown
        self.require: set[str] = set()
        self.undrained: set[str] = set()  # groups whose test drains them itself, or not
        self.services: dict[str, RunningService] = {}  # by their groups
        self.verdict_text = ""  # the verdict, if the test failed on its own

    def group(  # what a group is, and how it is judged; the rest is the group's own
        self,
        broker: Broker,
        name: str,
        *,
        unknown_ok: bool = False,
        require: Collection[str] = (),
        drain: bool = True,
        **settings: Any,
    ) -> MemberGroup:
        """Make a group with a new id, whose events are in the one history."""
        known_laws(require)
        group = MemberGroup(broker.connection, f"{name}-{_RUN}-{next(_COUNTER)}", self.folder, self.run, **settings)
        self.groups.append(group)
        if unknown_ok:
            self.loose.add(group.group)
        if not drain:
            self.undrained.add(group.group)
        self.require.update(require)
        return group

    def drain(self) -> None:
        """Let the groups consume what was sent into the history's folder. If some is left, the history says so."""
        if not any(self.folder.glob("producer-*.jsonl")):
            return
        for group in self.groups:
            if group.group not in self.undrained:
                with suppress(NotDrained, MemberDied):
                    if group.group in self.services:
                        self.services[group.group].finish()
                    elif group.running:
                        group.drain()

    def demand(self) -> None:
        """Drain, end and judge; the verdict fails the test unless it is true."""
        self.drain()
        self.end()
        verdict = self.verdict()
        _demand(verdict, self.folder, self.unknown_ok, self.services_lines(verdict))

    def end(self) -> None:
        """End all groups' members, then the proxies, so that the history is complete. Safe to call twice."""
        with ExitStack() as stack:
            for proxy in self.proxies:
                stack.callback(proxy.close)
            for group in self.groups:  # these end first
                stack.callback(group.close)

    def verdict(self) -> Verdict:
        """Judge the whole history. If the verdict is unknown, judge it again without the loose groups."""
        whole = check(History.load(self.folder), self.require)
        if whole.value is not None or not self.loose or self.unknown_ok:
            return whole
        return check(History.load(self.folder, without=self.loose), self.require)

    def text(self) -> str:
        verdict = self.verdict()
        return _verdict_text(verdict, self.folder, self.services_lines(verdict))

    def services_lines(self, verdict: Verdict) -> Iterator[str]:
        """What there is to tell about the services whose groups these are; nothing without one."""
        if self.services:
            if all(group.group in self.services for group in self.groups):
                history = History.load(self.folder)
                yield from service_view(history).lines()
                yield from replica_lines([row for group in self.services for row in replicas_of(history, group)])
            yield from log_lines(self.folder, verdict, self.services)

    @property
    def unknown_ok(self) -> bool:
        return all(group.group in self.loose for group in self.groups)


_JUDGED = pytest.StashKey[_Judged]()
_LOGS = pytest.StashKey[Path]()
_SEED = pytest.StashKey[int]()
_SHARED_FAILED = pytest.StashKey[bool]()
"""Whether a group of a wider scope failed in a teardown that is not reported yet."""
_SEED_OF_WORKERS = "kafka_seed"


@pytest.fixture
def kafka_history(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The new folder of this test's history, below ``--kafka-artifacts`` or in `tmp_path`."""
    kept = _option(request.config, "artifacts")
    if kept is None:
        folder = tmp_path / "history"
        folder.mkdir()
        return folder
    return _kept(Path(kept), request.node.nodeid)


def _kept(below: Path, name: str) -> Path:
    """A new folder: if a test runs again, maybe in another worker, it must not meet its older history."""
    below.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{_file_name(name)}.", dir=below)).resolve()


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)[-120:].strip("-")


@pytest.fixture(scope="session")
def kafka_groups_made(kafka_broker: Broker) -> Iterator[set[str]]:
    """The ids of the groups that `kafka_group` made. After the session they are removed from an external broker."""
    made: set[str] = set()
    yield made
    if kafka_broker.backend == "external" and made:
        remove(kafka_broker.connection, made.__contains__, f"groups {', '.join(sorted(made))}")


@pytest.fixture
def kafka_group(
    request: pytest.FixtureRequest, kafka_broker: Broker, kafka_history: Path, kafka_groups_made: set[str]
) -> Iterator[Callable[..., MemberGroup]]:
    """Create groups on the broker: ``kafka_group(session_timeout_ms=6000) -> MemberGroup``, each with a new id.

    When the test's function is over, the group consumes what `integration.records` sent into ``group.folder``, every
    member ends and the history is judged. A verdict that is false or unknown fails the test, with the witnesses and the
    command to judge the kept history again. With ``unknown_ok=True`` the test passes if only that group's part is
    unknown. With ``require={"C3"}`` the verdict is unknown unless that law was judged. With ``drain=False`` the group
    does not consume the rest. An external broker's groups are removed at the end of the session.
    """
    judged = request.node.stash[_JUDGED] = _Judged(kafka_history, request.node.name)

    def make(name: str = "group", **settings: Any) -> MemberGroup:
        group = judged.group(kafka_broker, name, **settings)
        kafka_groups_made.add(group.group)
        return group

    yield make
    judged.end()


@pytest.fixture(scope="session")
def kafka_group_factory(
    request: pytest.FixtureRequest,
    kafka_broker: Broker,
    kafka_groups_made: set[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., AbstractContextManager[MemberGroup]]:
    """Make groups for fixtures of a wider scope.

    Use it as ``with kafka_group_factory("shop") as group: yield group``. It takes what `kafka_group` takes. Each group
    has a history of its own, which is judged when the block ends: a verdict that isn't true fails the teardown.
    """

    @contextmanager
    def make(name: str = "group", **settings: Any) -> Iterator[MemberGroup]:
        kept = _option(request.config, "artifacts")
        folder = tmp_path_factory.mktemp(_file_name(name)) if kept is None else _kept(Path(kept), name)
        judged = _Judged(folder, name)
        try:
            group = judged.group(kafka_broker, name, **settings)
            kafka_groups_made.add(group.group)
            yield group
        except BaseException:
            judged.end()
            raise
        try:
            judged.demand()
        except pytest.fail.Exception:
            request.config.stash[_SHARED_FAILED] = True
            raise

    return make


@pytest.fixture
def kafka_service(
    request: pytest.FixtureRequest,
    kafka_broker: Broker,
    kafka_topic: Callable[..., str],
    kafka_group: Callable[..., MemberGroup],
) -> Callable[..., RunningService]:
    """Start your own service: ``kafka_service("python worker.py {bootstrap} {group} {topic}") -> RunningService``.

    The command is started `replicas` times, and the call returns when the group is stable. `topics` maps names to
    partition counts. The broker outlives a test, so topics and group are new ones with further letters behind their
    names; the command or the variables in `environment` take them as ``{topic}`` or ``{topics}``, and ``{group}``. With
    ``output={"done": 3}`` its outputs in that topic, ``{output}``, are judged, and with ``via=kafka_faults`` faults of
    the network hit a replica whose ``client_id`` is ``{replica}``. `records` makes the records that are sent, and
    `match` tells the id of the record that an output is of: functions, or their names as ``module:function``. What
    follows the test's function, and `require`, `unknown_ok` and `drain`, are as of `kafka_group`. A failure also has
    the last lines that the processes printed which the witnesses name.
    """

    def make(  # what a service is, and how it is judged, given by name
        command: str | Sequence[str],
        *,
        replicas: int = 3,
        topics: Mapping[str, int] | None = None,
        environment: Mapping[str, str] | None = None,
        output: Mapping[str, int] | None = None,
        exactly_once: bool = False,
        records: Function | None = None,
        match: Function | None = None,
        via: FaultProxy | None = None,
        group: str = "service",
        gap_ms: int | None = None,
        timeout_s: float = PATIENCE_S,
        require: Collection[str] = (),
        unknown_ok: bool = False,
        drain: bool = True,
    ) -> RunningService:
        service = asked_service(
            command, environment or {},
            output=bool(output), exactly_once=exactly_once, match=match, network_faults=via is not None,
        )  # fmt: skip
        made = None if records is None else maker("records", records)
        counts = {"orders": 6} if topics is None else topics
        require_valid(replicas, counts, group, output)
        names = {name: kafka_topic(partitions, name) for name, partitions in counts.items()}
        dated = kafka_broker.backend != "external"  # whose clock may be another one
        configs = STAMPED["configs"] if dated else {}
        outputs = [kafka_topic(partitions, name, configs) for name, partitions in (output or {}).items()]
        members = kafka_group(group, require=require, unknown_ok=unknown_ok, drain=drain)
        tap = WireTap.before(kafka_broker, faulty=via is not None)
        if tap is not None:
            request.node.stash[_JUDGED].proxies.append(tap)
        running = RunningService(
            members, service, kafka_broker.connection, names,
            output=next(iter(outputs), None), dated=dated, records=made, via=via, tap=tap, gap_ms=gap_ms,
            timeout_s=timeout_s,
        )  # fmt: skip
        request.node.stash[_JUDGED].services[members.group] = running
        running.begin(replicas)
        return running

    return make


@pytest.fixture
def kafka_faults(request: pytest.FixtureRequest, kafka_broker: Broker, kafka_history: Path) -> FaultProxy:
    """A fault proxy before the broker: ``group.start("m1", …, via=kafka_faults)``, ``kafka_faults.apply(Cut("m1"))``.

    Its faults are in the test's history and are judged. It ends with the test's groups.
    """
    request.getfixturevalue("kafka_group")
    proxy = FaultProxy(kafka_broker.routes, kafka_history, request.node.name)
    request.node.stash[_JUDGED].proxies.append(proxy)
    return proxy


@pytest.fixture(scope="session")
def kafka_judge() -> Callable[..., Verdict]:
    """Judge a history at once: ``kafka_judge(folder) -> Verdict``. The test fails there unless the verdict is true.

    ``unknown_ok=True`` accepts an unknown verdict. Use it for histories that `kafka_group` didn't make: of your own
    `MemberGroup`, of a played scenario, or in a kept folder.
    """

    def judge(folder: Path, *, unknown_ok: bool = False, require: Collection[str] = ()) -> Verdict:
        verdict = check(History.load(folder), require)
        _demand(verdict, folder, unknown_ok)
        return verdict

    return judge


def _verdict_text(verdict: Verdict, folder: Path, more: Iterable[str] = ()) -> str:
    """The first broken law, for pytest's summary of one line; the verdict; `more`; how to judge it again."""
    first = [f"{violation.law}: {violation.message}" for violation in verdict.violations[:1]]
    lines = verdict_lines(verdict)
    if len(lines) > _LINES:
        lines[_LINES:] = [f"  … {len(lines) - _LINES} lines more"]
    again = f"judge it again: kafka-assignors judge {shlex.quote(str(folder))}"
    return "\n".join([*map(printable, first or verdict.unknown[:1]), *lines, *map(printable, more), again])


def _demand(verdict: Verdict, folder: Path, unknown_ok: bool, more: Iterable[str] = ()) -> None:
    if verdict.value is False or (verdict.value is None and not unknown_ok):
        pytest.fail(_verdict_text(verdict, folder, more), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Judge the groups of a test. If the test failed on its own, add the verdict to its report."""
    judged = item.stash.get(_JUDGED, None)
    try:
        yield
    except (Exception, pytest.fail.Exception):
        if judged is not None and judged.groups:
            try:
                judged.end()
                judged.verdict_text = judged.text()
            except Exception as error:  # the test's own error counts
                judged.verdict_text = f"{judged.folder} could not be judged: {type(error).__name__}: {error}"
        raise
    if judged is not None and judged.groups:
        judged.demand()


_RUN = os.urandom(4).hex()
_COUNTER = itertools.count(1)
_OURS = re.compile(r"kafka_assignors(\.|$)")


_LEVEL = re.compile(r"\] (TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")


def _warnings(broker: Broker, item: pytest.Item) -> str:
    """The last warnings and errors of a broker's log with their stack traces, and where the whole log is kept."""
    log = broker.log_tail(_WHOLE_LOG)
    if broker.backend == "external":
        return log
    path = item.config.stash[_LOGS] / f"{_file_name(item.nodeid)}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(log, "utf-8")
    shown, keep = [], False
    for line in log.splitlines():
        if level := _LEVEL.search(line):
            keep = level[1] in ("WARN", "ERROR", "FATAL")
        if keep:
            shown.append(line)
    lines = shown[-_LINES:] or ["no warning and no error"]
    return "\n".join([*lines, f"the whole log: {path}"])


def _end_at_the_caller(error: pytest.ExceptionInfo[BaseException]) -> None:
    """Hide our lines from the traceback of an error of ours, by the mark that pytest looks for in a module."""
    for entry in error.traceback:
        names = entry.frame.f_globals
        if _OURS.match(names.get("__name__", "")):
            names["__tracebackhide__"] = methodcaller("errisinstance", KafkaAssignorsError)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the broker's log and the verdict over its groups to a failure.

    The traceback of an error of ours ends at the line that called us; ``--full-trace`` shows all.

    A fixture of a wider scope ends with the last test that may use it. If that test is expected to fail (``xfail``),
    pytest takes the fixture's error for the expected failure; the verdict over its groups is reported all the same.
    """
    if call.excinfo is not None:
        _end_at_the_caller(call.excinfo)
    report = yield
    if item.config.stash.get(_SHARED_FAILED, False):
        item.config.stash[_SHARED_FAILED] = False
        if report.when == "teardown":
            report.outcome = "failed"
            vars(report).pop("wasxfail", None)
    for name in ("kafka_broker", "kafka_cluster"):
        broker: Any = getattr(item, "funcargs", {}).get(name)
        if report.failed and isinstance(broker, Broker):
            report.sections.append((f"log of {broker}", _warnings(broker, item)))
    judged = item.stash.get(_JUDGED, None)
    if report.failed and judged is not None and judged.verdict_text:
        report.sections.append(("verdict over its groups", judged.verdict_text))
    if report.failed and "kafka_seed" in getattr(item, "fixturenames", ()):
        again = f"pytest {shlex.quote(item.nodeid)} --kafka-seed={item.config.stash[_SEED]}"
        report.sections.append(("run it again with the same seed", again))
    return report
