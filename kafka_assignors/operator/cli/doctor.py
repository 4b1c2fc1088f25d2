"""``doctor``: check that this machine and the cluster have what the commands need, and tell what to do if not."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from ...connection.consumer_protocol import REFUSED, under_consumer_protocol
from ...connection.properties import parse
from ...errors import AccessRefused, ClusterError, ConfigError, KafkaAssignorsError
from ...extras import install
from ...frame import NO, YES, Common
from ...output import many
from .words import safe, some

if TYPE_CHECKING:
    from ...connection import Connection
    from ..live.cluster import LiveCluster

_PACKAGES = (
    # distribution, extra, what needs it
    ("numpy", "", "assignors"),
    ("scipy", "solver", "checks of plans by work; large groups take less time"),
    ("kafka-python", "kafka-python", "live groups, members"),
    ("confluent-kafka", "confluent", "librdkafka's members and producers"),
    ("aiokafka", "aiokafka", "aiokafka's members"),
    ("prometheus_client", "exporter", "exporter"),
    ("opentelemetry-sdk", "otlp", "exporter --otlp"),
    ("grpcio", "keda", "exporter --keda"),
    ("psutil", "harness", "test, demo, up, judge"),
    ("pyspark", "spark", "report"),
)
_CLOCK_MS = 1_000


@dataclass(frozen=True)
class Check:
    """One check. `ok` is None if the thing is optional and absent, or can't be told."""

    name: str
    ok: bool | None
    found: str
    remedy: str = ""


def run(
    common: Common, group: str | None, topic: str | None, groups: bool, client: tuple[Path, str] | None = None
) -> int:
    """Print every check: exit code 1 if something that is needed is missing, else 0.

    The user should see `group` and `topic`; `groups` lists all groups. `client` is a consumer's settings file and its
    client, which are checked instead of this machine.
    """
    checks = [*(_machine() if client is None else _of_client(*client))]
    if common.names_cluster:
        checks += _cluster(common.connection, group, topic, groups)
    elif client is None:
        remedy = "give -b HOST:PORT, --config FILE or --profile NAME to check a cluster too"
        checks.append(Check("cluster", None, "not asked", remedy))
    bad = any(check.ok is False for check in checks)
    if common.as_json:
        common.print_json({"ok": not bad, "checks": [asdict(check) for check in checks]})
        return NO if bad else YES
    from rich.table import Table

    table = Table.grid("", "", "", padding=(0, 1))
    for check in checks:
        sign = {True: "[green]yes[/]", False: "[red]no[/]", None: "[dim]-[/]"}[check.ok]
        remedy = f"\n[yellow]{safe(check.remedy)}[/]" if check.remedy and check.ok is not True else ""
        table.add_row(sign, check.name, f"{safe(check.found)}{remedy}")
    common.console().print(table)
    return NO if bad else YES


def _of_client(file: Path, client: str) -> Iterator[Check]:
    """What the consumer protocol (KIP-848) makes of a consumer's settings."""
    try:
        settings = {line.key: line.value for line in parse(file.read_text("utf-8"))}
    except (OSError, ValueError) as error:
        raise ConfigError(f"--client-config {file} can't be read: {error}; give a file of lines key=value") from error
    if not settings:
        raise ConfigError(f"--client-config {file} has no setting; give a file of lines key=value")
    effects = under_consumer_protocol(settings, client)
    for effect in effects:
        yield Check(
            effect.setting, False if effect.kind == REFUSED else None, f"{effect.kind}: {effect.text}", effect.remedy
        )
    if not effects:
        yield Check(
            str(file), True, f"group.protocol=consumer refuses and changes none of {many(len(settings), 'setting')}"
        )


def _machine() -> Iterator[Check]:
    python = platform.python_version()
    fine = sys.version_info >= (3, 10)
    yield Check("Python", fine, python, "" if fine else "install Python 3.10 or newer")
    for name, extra, needed in _PACKAGES:
        try:
            yield Check(name, True, version(name))
        except PackageNotFoundError:
            yield Check(name, None, f"not installed; needed for: {needed}", install(extra))
    yield _tried("Java", _java)
    yield _tried("jars of Kafka", _jars)
    yield _containers()


def _java() -> Check:
    from ...jvm.runtime import java

    return Check("Java", True, str(java()))


def _jars() -> Check:
    from ...jvm.cache import cache_folder
    from ...jvm.jars import KAFKA_VERSION
    from ...jvm.locks import kafka_lock, read_lock

    pinned = read_lock(kafka_lock(KAFKA_VERSION))
    lacking = sum(not (cache_folder() / "jars" / jar.place).is_file() for jar in pinned)
    if lacking:
        text = f"Kafka {KAFKA_VERSION}: {lacking} of {many(len(pinned), 'jar')} not fetched yet"
        return Check("jars of Kafka", None, text, "python -m kafka_assignors.jvm fetch")
    return Check("jars of Kafka", True, f"Kafka {KAFKA_VERSION}: {many(len(pinned), 'jar')}")


def _containers() -> Check:
    remedy = "not needed unless --backend docker"
    try:
        from ...integration.broker.nodes.docker import docker_problem
    except ModuleNotFoundError as error:
        return Check("container engine", None, f"not asked: {error.name} is not installed", remedy)
    problem = docker_problem()
    if problem is None:
        return Check("container engine", True, "Docker is reachable")
    # What the Docker client says goes on for six lines; only this part of it helps.
    denied = ": Permission denied" if "Permission denied" in problem else ""
    return Check("container engine", None, problem.partition(" (")[0] + denied, remedy)


def _tried(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except KafkaAssignorsError as error:
        return Check(name, None, str(error), "test, demo and up need it")
    except ModuleNotFoundError as error:
        return Check(name, None, f"{error.name} is not installed", install("jvm"))


def _cluster(connection: Connection, group: str | None, topic: str | None, groups: bool) -> Iterator[Check]:
    from ...connection import brokers
    from ..live.cluster import LiveCluster

    began = time.monotonic()
    try:
        nodes = brokers(connection)
    except AccessRefused as error:
        yield Check("cluster", False, "it refuses the user", str(error))
        return
    except ConfigError:  # an address that is none: wrong usage, as of every command
        raise
    except (OSError, ValueError) as error:
        yield Check("cluster", False, f"no broker answers at {connection}", str(error) or type(error).__name__)
        return
    racks = sorted({node.rack for node in nodes if node.rack})
    where = f", racks {some(racks)}" if racks else ", no racks"
    took = 1000 * (time.monotonic() - began)
    yield Check("cluster", True, f"{many(len(nodes), 'broker')}{where}, answered in {took:.0f} ms")
    with LiveCluster(connection) as cluster:
        yield from _rights(cluster, group, topic, groups)


def _rights(cluster: LiveCluster, group: str | None, topic: str | None, groups: bool) -> Iterator[Check]:
    listed = cluster.groups()
    names = [f"{name} ({kind.lower()})" for name, kind in sorted(listed.items())]
    yield Check(
        "groups", True, f"{many(len(listed), 'group')} to be seen" + (f": {', '.join(names)}" if groups else "")
    )

    def access_check(what: str, ask: Callable[[], str]) -> Check:
        try:
            return Check(what, True, ask())
        except AccessRefused as error:
            return Check(what, False, "the user lacks a right", str(error))
        except KafkaAssignorsError as error:
            return Check(what, None if what == "coordinator log" else False, str(error))

    if group is not None:
        yield access_check("group", lambda: f"{group}: {cluster.group(group).state or 'consumer protocol'}")
    if topic is not None:
        yield access_check("topic", lambda: f"{topic}: {many(_count(cluster, topic), 'partition')}")
    name = group or next(iter(sorted(listed)), "any")
    newest: list[int] = []

    def log() -> str:
        records = cluster.log(name, most=1_000).records
        newest.extend(record.ts_ms for record in records)
        return f"readable, {many(len(records), 'recent record')} of group {name}"

    yield access_check("coordinator log", log)
    yield _clock(max(newest, default=None))


def _count(cluster: LiveCluster, topic: str) -> int:
    counts = cluster.topics([topic]).counts
    if topic not in counts:
        raise ClusterError(f"no topic {topic!r} in the cluster; is the name right?")
    return counts[topic]


def _clock(newest_ms: int | None) -> Check:
    """The broker's clock, by the newest record that it stamped: that can't be in the future."""
    if newest_ms is None:
        return Check("clock", None, "no record tells the brokers' clock")
    ahead = newest_ms - time.time() * 1000
    if ahead > _CLOCK_MS:
        remedy = "set this machine's clock, or the broker's: times told by why would be wrong"
        return Check(
            "clock", False, f"a broker's clock is at least {ahead / 1000:.1f} s ahead of this machine's", remedy
        )
    return Check("clock", True, "no broker's clock is seen ahead of this machine's")
