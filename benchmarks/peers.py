"""Leaders of clients in other languages: Kafka's own in Java and franz-go, on the same members' bytes as ours.

A case file holds, as Java's DataOutput writes it: int racks, int replicas, int topics and per topic name and int
partitions, int members and per member id, int size and its subscription's bytes. An answer file holds int members and
per member id, int size and its assignment's bytes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka_assignors.errors import KafkaAssignorsError
from kafka_assignors.jvm import cache_folder, java, kafka_jars

_HERE = Path(__file__).parent
_BUILD_S = 600


class NotMeasured(KafkaAssignorsError):
    """The machine lacks what a peer needs."""


def command(client: str, strategy: str, case: Path, answer: Path, limit_s: float, budget_s: float) -> list[str]:
    """The command that runs a peer on a case.

    Args:
        client: ``java`` or ``franz-go``.
        strategy: Protocol name of its assignor.
        case: A case file.
        answer: The file for its first assignment.
        limit_s: Time limit of a call, seconds.
        budget_s: Calls are repeated for this many seconds, at least once.

    Raises:
        NotMeasured: There is no JDK, no Go, or franz-go is unavailable.
        MachineError: There is no Java, or the broker's jars cannot be fetched.
    """
    return [*(_java() if client == "java" else _go()), strategy, str(case), str(answer), str(limit_s), str(budget_s)]


@functools.cache
def _java() -> list[str]:
    executable = java().executable
    modules = subprocess.run([str(executable), "--list-modules"], capture_output=True, text=True, check=False).stdout
    if "jdk.compiler" not in modules:
        raise NotMeasured(f"{executable} is not a JDK (it has no jdk.compiler); set JAVA_HOME to one, 17 or newer")
    jars, source = os.pathsep.join(map(str, kafka_jars())), _HERE / "java" / "Leader.java"
    key = hashlib.sha256(f"{jars}\n{executable}\n{source.read_text('utf-8')}".encode()).hexdigest()[:12]
    classes = cache_folder() / f"benchmark-leader-{key}"
    if not (classes / "Leader.class").exists():
        compiler = [str(executable), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", str(classes), "-cp", jars]
        done = subprocess.run([*compiler, str(source)], capture_output=True, text=True, timeout=_BUILD_S, check=False)
        if done.returncode != 0:
            raise NotMeasured(f"{source.name} could not be compiled: {(done.stderr or 'no message').splitlines()[0]}")
    return [str(executable), "-Xmx4g", "-cp", f"{jars}{os.pathsep}{classes}", "Leader"]


@functools.cache
def _go() -> list[str]:
    go = shutil.which("go")
    if go is None:
        raise NotMeasured("go is not on PATH; franz-go needs Go 1.26 or newer")
    folder = cache_folder() / "franz-go"
    folder.mkdir(parents=True, exist_ok=True)
    for source in (_HERE / "go").iterdir():
        shutil.copy(source, folder)
    places = {"GOMODCACHE": str(folder / "modules"), "GOCACHE": str(folder / "build"), "GOFLAGS": "-modcacherw"}
    built = subprocess.run(
        [go, "build", "-buildvcs=false", "-o", "leader", "."],
        cwd=folder, env={**os.environ, **places}, capture_output=True, text=True, timeout=_BUILD_S, check=False,
    )  # fmt: skip
    if built.returncode != 0:
        why = (built.stderr.strip().splitlines() or ["no message"])[-1]
        raise NotMeasured(f"franz-go could not be built: {why}")
    return [str(folder / "leader")]


def write_case(
    file: Path, racks: int, replicas: int, topics: Mapping[str, int], members: Sequence[tuple[str, bytes]]
) -> None:
    """Write a case file: members are (member id, subscription bytes)."""
    with file.open("wb") as out:
        out.write(struct.pack(">iii", racks, replicas, len(topics)))
        for topic, count in topics.items():
            out.write(_name(topic) + struct.pack(">i", count))
        out.write(struct.pack(">i", len(members)))
        for member, data in members:
            out.write(_name(member) + struct.pack(">i", len(data)) + data)


def read_answer(file: Path) -> dict[str, bytes]:
    """member id -> assignment bytes."""
    data = file.read_bytes()
    (left,), at = struct.unpack_from(">i", data), 4
    answer = {}
    for _ in range(left):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        size = int.from_bytes(data[end : end + 4], "big")
        answer[data[at + 2 : end].decode()] = data[end + 4 : end + 4 + size]
        at = end + 4 + size
    return answer


def _name(name: str) -> bytes:
    return struct.pack(">h", len(name.encode())) + name.encode()
