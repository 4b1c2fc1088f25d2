"""Pinned jars: fetch missing ones, reject those with another checksum."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from ..errors import ChecksumMismatch, JarError, NotEnoughSpace
from ..extras import install
from ..output import going_on
from .cache import ENV, cache_folder, one_at_a_time, write_atomically
from .locks import SPARK_ROOTS, Jar, kafka_lock, read_lock, spark_lock

KAFKA_VERSION = "4.3.1"

REPOSITORY_ENV = "KAFKA_ASSIGNORS_MAVEN"
"""URL of another Maven repository, e.g. a company's mirror; Maven Central if unset."""

_TRIES = 3
_FULL = (errno.ENOSPC, errno.EDQUOT)
_AT_ONCE = 6  # parallel downloads; files are small, so round trips dominate


def kafka_jars(version: str = KAFKA_VERSION) -> list[Path]:
    """The class path of a Kafka broker with its tools and a logger, in order.

    Raises:
        UnknownName: The version is not pinned.
        JarError: A jar cannot be fetched.
        ChecksumMismatch: A jar has the wrong checksum, even after a second fetch.
        NotEnoughSpace: The cache folder has too little space.

    Cost: the first call downloads 42 MB; later ones check each file's size and times.
    """
    return locked_jars(kafka_lock(version))


def spark_jars() -> list[Path]:
    """The jars for ``spark.jars`` that the Kafka source of the installed PySpark needs (10 MB). Raises as `kafka_jars`.

    Without PySpark, those for the oldest version that is supported.
    """
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        version = next(iter(SPARK_ROOTS))
    return locked_jars(spark_lock(version))


def locked_jars(lock: Path) -> list[Path]:
    """The jars of a lock file, in its order; fetches missing ones.

    Raises:
        JarError: A jar cannot be fetched.
        ChecksumMismatch: A jar has the wrong checksum, even after a second fetch.
        NotEnoughSpace: The cache folder has too little space.
    """
    pinned = read_lock(lock)
    folder = cache_folder() / "jars"
    stamps = _Stamps(cache_folder() / f"verified-{lock.stem}.json")
    if bad := [jar for jar in pinned if not stamps.good(jar, folder / jar.place)]:
        with one_at_a_time(folder / ".lock"):
            # another process may have fetched them while this one waited
            bad = [jar for jar in bad if not stamps.good(jar, folder / jar.place)]
            if bad:
                _fetch(bad, folder, lock)
        for jar in pinned:
            stamps.good(jar, folder / jar.place)
    stamps.save()
    return [folder / jar.place for jar in pinned]


def maven_context(repo_cache: Path, progress: Callable[..., Any] | None = None) -> Any:
    """A MavenContext of jgo that uses `repo_cache` alone, no settings or folders of the home; JarError without jgo."""
    try:
        from jgo.constants import MAVEN_CENTRAL_URL
        from jgo.maven import MavenContext, PythonResolver
    except ImportError:
        raise JarError(f"jgo fetches the jars, and is not installed; run: {install('jvm')}") from None
    url = os.environ.get(REPOSITORY_ENV, "").rstrip("/") or MAVEN_CENTRAL_URL
    return MavenContext(
        resolver=PythonResolver(progress_callback=progress), repo_cache=repo_cache, local_repos=[],
        remote_repos={"central": url}, timeout=30,
    )  # fmt: skip


class _Stamps:
    """Files with a verified checksum: path -> size, times and digest at that moment.

    Hashing 42 MB takes 0.1 s, too long before each JVM start. Any write changes ctime, which programs cannot set, so a
    file modified after its check is hashed again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = False
        try:
            self._rows: dict[str, list[Any]] = json.loads(path.read_text())
        except (OSError, ValueError):
            self._rows = {}

    def good(self, jar: Jar, file: Path) -> bool:
        try:
            stat = file.stat()
        except OSError:
            return False
        if stat.st_size != jar.size:
            return False
        row = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, jar.sha256]
        if self._rows.get(str(file)) == row:
            return True
        if _sha256(file) != jar.sha256:
            return False
        self._rows[str(file)] = row
        self._changed = True
        return True

    def save(self) -> None:
        if self._changed:
            # a read-only cache still works: the next run hashes again
            with contextlib.suppress(OSError):
                write_atomically(self._path, json.dumps(self._rows))


def _fetch(missing: Sequence[Jar], folder: Path, lock: Path) -> None:
    """Download `missing` into `folder`; the caller holds the folder's lock."""
    for leftover in folder.glob(".part-*"):  # of a killed process: only the lock's holder writes these
        shutil.rmtree(leftover, ignore_errors=True)
    for jar in missing:
        if (folder / jar.place).exists():
            print(f"{folder / jar.place} is not the pinned jar: fetching it again", file=sys.stderr)
    needed = sum(jar.size for jar in missing)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise _no_space(folder, needed, free)
    with (
        tempfile.TemporaryDirectory(prefix=".part-", dir=folder) as part,
        _progress(f"{len(missing)} jars of {lock.stem}", needed) as advance,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        stop = threading.Event()

        def advance_or_stop(count: int) -> None:
            if stop.is_set():
                raise RuntimeError("stopped because another download failed")
            advance(count)

        results = [pool.submit(_fetch_one, jar, folder, Path(part), advance_or_stop, lock) for jar in missing]
        try:
            for result in results:
                result.result()
        except BaseException as error:
            stop.set()
            pool.shutdown(cancel_futures=True)
            if isinstance(error, OSError):
                if error.errno in _FULL:
                    raise _no_space(folder, needed, shutil.disk_usage(folder).free) from error
                raise JarError(f"cannot write jars to {folder}: {error}") from error
            raise


def _fetch_one(jar: Jar, folder: Path, part: Path, advance: Callable[[int], None], lock: Path) -> None:
    """Download one jar to a temporary file, verify it, then move it to its place."""
    refused = False
    failure: Exception | None = None
    for attempt in range(_TRIES):
        try:
            file = _download(jar, part / f"{jar.filename}.{attempt}", advance)
        except (OSError, RuntimeError) as error:
            # requests' errors are OSErrors too, but without a disk errno; jgo raises RuntimeError for a 404
            if isinstance(error, OSError) and error.errno in _FULL:
                raise
            failure = error
            continue
        checksum = _sha256(file)
        if checksum == jar.sha256:
            place = folder / jar.place
            place.parent.mkdir(parents=True, exist_ok=True)
            file.replace(place)
            return
        failure = ChecksumMismatch(
            f"{jar.coordinate} is not the pinned jar: expected sha256 {jar.sha256} ({jar.size} bytes), found "
            f"{checksum} ({file.stat().st_size} bytes), fetched twice for {folder / jar.place}; pinned by {lock}. "
            "Something between here and the repository changes jars, or the lock file is wrong"
        )
        if refused:  # the second time: one transfer may be damaged
            raise failure
        refused = True
    raise JarError(
        f"cannot fetch {jar.coordinate} ({_TRIES} tries): {failure}. Check the network, name a Maven repository that "
        f"can be reached by {REPOSITORY_ENV}, or copy a filled cache folder and name it by {ENV}"
    ) from failure


def _download(jar: Jar, repository: Path, advance: Callable[[int], None]) -> Path:
    @contextmanager
    def progress(_name: str, _total: int) -> Iterator[Callable[[int], None]]:
        yield advance

    group, artifact, version = jar.parts
    context = maven_context(repository, progress)
    return Path(context.project(group, artifact).at_version(version).artifact().resolve())


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _no_space(folder: Path, needed: int, free: int) -> NotEnoughSpace:
    return NotEnoughSpace(
        f"{folder} needs {needed} bytes for jars and has {free} bytes free; make room, or name another folder by {ENV}"
    )


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a download's progress on stderr: a bar on a terminal, a line per quarter in a pipe."""
    megabytes = f"{total / 1e6:.1f} MB"
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(f"fetching {what}", total=total)
            yield lambda count: bar.update(task, advance=count)
        return
    print(f"fetching {what} ({megabytes})", file=sys.stderr, flush=True)
    guard = threading.Lock()
    done = quarters = 0

    def advance(count: int) -> None:
        nonlocal done, quarters
        with guard:
            done += count
            while quarters < 3 and 4 * done >= (quarters + 1) * total:
                quarters += 1
                print(f"fetching {what}: {25 * quarters} %", file=sys.stderr, flush=True)

    with going_on(f"fetching {what}", lambda: f"{done / 1e6:.1f} of {megabytes}"):
        yield advance
    print(f"fetched {what} ({megabytes})", file=sys.stderr, flush=True)
