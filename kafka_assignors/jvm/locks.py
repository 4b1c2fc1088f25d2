"""Lock files: the pinned jars of a class path, and how to create them.

A line of ``locks/NAME.lock`` is ``group:artifact:version bytes sha256``; lines that start with ``#`` are comments. The
order is that of the class path.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError, JarError, UnknownName

FOLDER = Path(__file__).parent / "locks"

SPARK_ROOTS = {
    "4.0": (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.0",
        "org.apache.commons:commons-pool2:2.12.0",
    ),
    "4.2": (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
}
"""Minor version of PySpark -> the jars that its Kafka source needs beside Spark's own, without their dependencies,
which Spark ships. Not every patch release has a connector (4.2.1 has none); that of its minor version fits."""


KRAFT_READY = (3, 3)
"""First version whose brokers are ready for production without ZooKeeper (KIP-833)."""


@dataclass(frozen=True)
class Jar:
    """One pinned jar: its coordinate ``group:artifact:version``, its size in bytes, and the hex digest of its bytes."""

    coordinate: str
    size: int
    sha256: str

    @property
    def parts(self) -> tuple[str, str, str]:
        """Group, artifact, version."""
        group, artifact, version = self.coordinate.split(":")
        return group, artifact, version

    @property
    def filename(self) -> str:
        """``artifact-version.jar``."""
        _, artifact, version = self.parts
        return f"{artifact}-{version}.jar"

    @property
    def place(self) -> Path:
        """Its path below a Maven repository's root."""
        group, artifact, version = self.parts
        return Path(*group.split("."), artifact, version, self.filename)


def kafka_lock(version: str) -> Path:
    """The lock file of a Kafka version. Raises UnknownName, which lists the pinned versions, if this one isn't."""
    path = FOLDER / f"kafka-{version}.lock"
    if version not in kafka_versions():
        remedy = f"pin another release with: python -m kafka_assignors.jvm lock --kafka {version}"
        raise UnknownName("Kafka version", version, kafka_versions(), remedy)
    return path


def kafka_versions() -> list[str]:
    """The pinned versions of Kafka, oldest first."""
    versions = [path.stem.removeprefix("kafka-") for path in FOLDER.glob("kafka-*.lock")]
    return sorted(versions, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])


def has_tools(version: str) -> bool:
    """Whether a version's jars include Kafka's tools, ``VerifiableConsumer``. Raises UnknownName if it isn't pinned."""
    return any(jar.coordinate == _tools(version) for jar in read_lock(kafka_lock(version)))


def _tools(version: str) -> str:
    return f"org.apache.kafka:kafka-tools:{version}"


def spark_lock(version: str) -> Path:
    """The lock file of the Kafka connector for a PySpark version. Raises UnknownName if its minor version has none."""
    minor = ".".join(version.split(".")[:2])
    if minor not in SPARK_ROOTS:
        raise UnknownName("PySpark version", version, SPARK_ROOTS, "install one of these: pip install 'pyspark==4.2.*'")
    return FOLDER / f"spark-{minor}.lock"


def read_lock(path: Path) -> list[Jar]:
    """Read a lock file. Raises ConfigError if a line is invalid, or the file is empty."""
    jars = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"([^\s:]+:[^\s:]+:[^\s:]+) (\d+) ([0-9a-f]{64})", line)
        if not match:
            raise ConfigError(f"{path}:{number}: expected 'group:artifact:version bytes sha256', not {line!r}")
        jars.append(Jar(match[1], int(match[2]), match[3]))
    if not jars:
        raise ConfigError(f"{path} pins no jar; make it anew: python -m kafka_assignors.jvm lock")
    return jars


def write_lock(path: Path, remarks: Sequence[str], jars: Sequence[Jar]) -> None:
    """Write a lock file."""
    lines = [*(f"# {remark}" for remark in remarks), "# Made by: python -m kafka_assignors.jvm lock"]
    lines += [f"{jar.coordinate} {jar.size} {jar.sha256}" for jar in jars]
    path.write_text("\n".join(lines) + "\n")


def lock_kafka(version: str, context: Any) -> Path:
    """Resolve a Kafka version's broker class path with jgo's MavenContext and pin it.

    The class path is the broker's dependencies, without Connect and the web servers that only the tools need, plus the
    tools' own jar (``VerifiableConsumer``) and a logger: without one, the broker would log nothing. A version whose
    tools are not published is pinned without them, and its lock file says so.

    Raises:
        ConfigError: Brokers of the version have no KRaft mode that is ready for production.
        JarError: A file cannot be fetched, or the repository does not have the version.
    """
    if not (number := re.fullmatch(r"(\d+)\.(\d+)\.\d+", version)):
        raise ConfigError(f"{version!r} is not a release of Kafka; name one in full, like 3.9.1 or 4.3.0")
    if (int(number[1]), int(number[2])) < KRAFT_READY:
        raise ConfigError(
            f"Kafka {version} can't be pinned: brokers here run without ZooKeeper, and Kafka has been ready for that "
            "only since 3.3"
        )
    names = [*_closure(context, f"org.apache.kafka:kafka_2.13:{version}"), "org.slf4j:slf4j-simple:1.7.36"]
    jars = [_pin(context, name) for name in names]
    remarks = [f"Apache Kafka {version}: broker, tools, logger"]
    try:
        jars.insert(-1, _pin(context, _tools(version)))
    except JarError as error:
        if not isinstance(error.__cause__, RuntimeError):  # no answer proves nothing; jgo raises RuntimeError for a 404
            raise
        remarks = [f"Apache Kafka {version}: broker, logger", f"Not published: {_tools(version)} (VerifiableConsumer)"]
    path = FOLDER / f"kafka-{version}.lock"
    write_lock(path, remarks, jars)
    return path


def lock_spark(context: Any) -> list[Path]:
    """Pin the jars of Spark's Kafka connectors with jgo's MavenContext. Raises JarError if a file cannot be fetched."""
    paths = []
    for version, names in SPARK_ROOTS.items():
        paths.append(spark_lock(version))
        write_lock(
            paths[-1], [f"Spark's Kafka connector, for PySpark {version}"], [_pin(context, name) for name in names]
        )
    return paths


def _closure(context: Any, coordinate: str) -> list[str]:
    dependency = context.create_dependency(coordinate)
    dependency.scope = "compile"
    try:
        roots, others = context.resolver.resolve([dependency])
    except (OSError, RuntimeError, ValueError) as error:
        raise JarError(f"cannot resolve {coordinate}: {error}") from error
    artifacts = [node.artifact for node in [*roots, *others] if node.scope in ("compile", "runtime")]
    return [f"{a.groupId}:{a.artifactId}:{a.version}" for a in artifacts]


def _pin(context: Any, coordinate: str) -> Jar:
    group, artifact, version = coordinate.split(":")
    try:
        path = context.project(group, artifact).at_version(version).artifact().resolve()
    except (OSError, RuntimeError) as error:
        raise JarError(f"cannot fetch {coordinate}: {error}") from error
    data = path.read_bytes()
    return Jar(coordinate, len(data), hashlib.sha256(data).hexdigest())
