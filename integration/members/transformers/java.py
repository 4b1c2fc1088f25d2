"""Java's transforming member: `Transformer.java`, compiled once per machine by the JDK's own compiler."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_assignors.connection.properties import render
from kafka_assignors.errors import JavaNotFound, MachineError
from kafka_assignors.jvm import cache_folder, java, kafka_jars

from ...history.author import AUTHOR
from ..config import MemberConfig, StandardInput
from . import TRANSACTION_TIMEOUT_MS, WORK_MS, author

_SOURCE = Path(__file__).with_name("Transformer.java")
_BYTES = "org.apache.kafka.common.serialization.ByteArray"


def arguments(
    config: MemberConfig, protocol: Mapping[str, Any], properties: Path | StandardInput, version: str
) -> list[str]:
    """Command-line arguments after the JVM's flags: class path, class, settings. Writes `properties`.

    `protocol` has Java's settings of the group's protocol. `properties` is a file, or the member's standard input if
    the settings have secrets.

    Raises:
        JavaNotFound: There is no Java, or it has no compiler.
        MachineError: There are no jars.
    """
    settings = {
        **_under("app", _of_app(config)),
        **_under("consumer", _of_consumer(config, protocol)),
        **_under("producer", _of_producer(config)),
    }
    properties.write_text(render(settings), "ascii")
    class_path = os.pathsep.join([str(_compiled(version)), *map(str, kafka_jars(version))])
    return ["-cp", class_path, "Transformer", str(properties)]


def _under(prefix: str, settings: Mapping[str, Any]) -> dict[str, str]:
    return {
        f"{prefix}.{name}": value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()
    }


def _of_app(config: MemberConfig) -> dict[str, Any]:
    named = json.loads(author(config, 0))
    return {
        "topics": ",".join(config.topics),
        "output": config.output,
        AUTHOR: json.dumps({**named, "transaction": "NUMBER"}),
        "work.ms": config.consumer.get(WORK_MS, 0),
    }


def _of_consumer(config: MemberConfig, protocol: Mapping[str, Any]) -> dict[str, Any]:
    given = {name.replace("_", "."): value for name, value in config.consumer.items() if name != WORK_MS}
    return {
        **config.connection().java(),
        **config.dotted(),
        **protocol,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "retry.backoff.ms": 50,
        "fetch.max.wait.ms": 200,
        "key.deserializer": f"{_BYTES}Deserializer",
        "value.deserializer": f"{_BYTES}Deserializer",
        **given,
    }


def _of_producer(config: MemberConfig) -> dict[str, Any]:
    return {
        **config.connection().java(),
        "client.id": config.member,
        "transactional.id": config.transactional_id,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "key.serializer": f"{_BYTES}Serializer",
        "value.serializer": f"{_BYTES}Serializer",
    }


def _compiled(version: str) -> Path:
    """The folder with the compiled classes, made if missing."""
    stamp = hashlib.sha256(_SOURCE.read_bytes() + version.encode()).hexdigest()[:16]
    folder = cache_folder() / f"transformer-{stamp}"
    if folder.exists():
        return folder
    compiler = Path(java().executable).resolve().with_name("javac")
    if not compiler.exists():
        raise JavaNotFound(
            f"Java's transforming member is compiled on the spot, and {compiler.parent} has no javac; install a JDK of "
            "17 or newer, and let PATH or JAVA_HOME name it"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        command = [str(compiler), "-cp", os.pathsep.join(map(str, kafka_jars(version))), "-d", made, str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MachineError(f"{_SOURCE.name} can't be compiled by {compiler}: {done.stderr.strip()[-500:]}")
        try:
            Path(made).rename(folder)
        except OSError:
            if not folder.exists():  # another process was faster
                raise
        Path(made).mkdir(exist_ok=True)  # the temporary folder's cleanup expects it
    return folder
