"""A checkout of Kafka's source: which version it is, what its system tests need, and a Kafka laid out for them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_assignors.errors import ConfigError, MachineError
from kafka_assignors.jvm import kafka_jars, kafka_versions

TESTS = Path("tests/kafkatest/tests")
_NEEDED = ("gradle.properties", "bin/kafka-run-class.sh", "tests/setup.py", f"{TESTS}/client/consumer_test.py")


@dataclass(frozen=True)
class KafkaSource:
    """A checkout of apache/kafka.

    Raises:
        ConfigError: The folder lacks a file that such a checkout has.
    """

    folder: Path

    def __post_init__(self) -> None:
        for name in _NEEDED:
            if not (self.folder / name).is_file():
                raise ConfigError(f"KAFKA_SOURCE={self.folder}: has no {name}; give a checkout of apache/kafka")

    @property
    def version(self) -> str:
        """Its version, such as ``4.0.0-SNAPSHOT``."""
        return self._one(r"^version=(\S+)", "gradle.properties")

    @property
    def requirements(self) -> list[str]:
        """What its system tests need of Python: ``ducktape==…`` and others."""
        needed = self._one(r"install_requires=\[(.*?)\]", "tests/setup.py")
        return re.findall(r"[\"']([^\"']+)[\"']", needed)

    def _one(self, pattern: str, name: str) -> str:
        file = self.folder / name
        found = re.search(pattern, file.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        if found is None:
            raise ConfigError(f"{file}: has nothing like {pattern}; give a checkout of apache/kafka")
        return found[1]


def pinned_version(source: str, pinned: Sequence[str]) -> str:
    """The newest pinned version of the source's minor version: ``4.0.0-SNAPSHOT`` -> ``4.0.1``.

    Raises:
        ConfigError: None is.
    """
    minor = source.split(".")[:2]
    same = [version for version in pinned if version.split(".")[:2] == minor]
    if not same:
        raise ConfigError(
            f"KAFKA_SOURCE is of Kafka {source}, and no jars of a {'.'.join(minor)} are pinned; "
            f"name a version by --kafka, of {', '.join(pinned)}"
        )
    return max(same, key=lambda version: [int(part) for part in version.split(".")])


def lay_out(source: KafkaSource, version: str | None, home: Path) -> str:
    """Lay out a Kafka as the tests expect it, scripts of the source and pinned jars; returns its version.

    Raises:
        ConfigError: No jars are pinned for it.
        MachineError: A jar cannot be fetched.
    """
    version = version or pinned_version(source.version, kafka_versions())
    for name in ("bin", "config"):
        shutil.copytree(source.folder / name, home / name)
    (home / "libs").mkdir()
    for jar in kafka_jars(version):
        (home / "libs" / jar.name).symlink_to(jar.resolve())
    return version


def ducktape(source: KafkaSource, folder: Path) -> Path:
    """The Python of a virtual environment that has what the source's tests need; made at the first call.

    Raises:
        MachineError: It can't be made.
    """
    python, ready = folder / "bin/python", folder / ".ready"
    wanted = "\n".join(source.requirements)
    if ready.is_file() and ready.read_text() == wanted:
        return python
    print(f"installing {', '.join(source.requirements)} in {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        # ducktape imports setuptools' pkg_resources, which newer releases of setuptools lack
        [str(python), "-m", "pip", "install", "--quiet", "setuptools<81", *source.requirements],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise MachineError(
                f"{' '.join(command)}: {done.stderr.strip()[-1500:]}\n"
                "psutil may be compiled here: it needs gcc and Python's headers (Debian: build-essential, python3-dev)"
            )
    ready.write_text(wanted)
    return python
