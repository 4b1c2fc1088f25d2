"""Pinned jars, fetched by jgo from a small Maven repository on this machine: what is kept, refused and said."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

from kafka_assignors.errors import ChecksumMismatch, ConfigError, JarError, NotEnoughSpace, UnknownName
from kafka_assignors.jvm import cache_folder, has_tools, jars, kafka_jars, kafka_versions, spark_jars
from kafka_assignors.jvm.__main__ import main
from kafka_assignors.jvm.jars import KAFKA_VERSION, locked_jars
from kafka_assignors.jvm.locks import SPARK_ROOTS, Jar, kafka_lock, lock_kafka, read_lock, spark_lock, write_lock
from tests.support.programs import ran

FETCH = """
import sys
from pathlib import Path
from types import SimpleNamespace
from kafka_assignors.jvm.jars import locked_jars
print(*locked_jars(Path(sys.argv[1])))
"""
NAMES = ("org.example:one:1.0", "org.example:two:2.0", "org.example.deep:three_2.13:3.0")


class Repository:
    """A Maven repository behind HTTP that counts what is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: Counter[str] = Counter()
        self.damage: Callable[[str, int], bool] = lambda _name, _times: False
        repository = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.rsplit("/", 1)[-1]
                repository.asked[name] += 1
                if repository.damage(name, repository.asked[name]):
                    self.send_response(200)
                    self.send_header("Content-Length", "7")
                    self.end_headers()
                    self.wfile.write(b"damaged")
                    return
                super().do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def jar(self, coordinate: str, content: bytes) -> Jar:
        jar = Jar(coordinate, len(content), hashlib.sha256(content).hexdigest())
        file = self.folder / jar.place
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
        return jar

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Iterator[Repository]:
    found = Repository(tmp_path / "repository")
    monkeypatch.setenv("KAFKA_ASSIGNORS_MAVEN", found.url)
    monkeypatch.setenv("KAFKA_ASSIGNORS_CACHE", str(tmp_path / "cache"))
    yield found
    found.close()


@pytest.fixture
def pinned(repository) -> list[Jar]:
    return [repository.jar(name, name.encode() * 1000) for name in NAMES]


@pytest.fixture
def lock(tmp_path, pinned) -> Path:
    path = tmp_path / "small.lock"
    write_lock(path, ["three small jars"], pinned)
    return path


def contents(files: list[Path]) -> list[bytes]:
    return [file.read_bytes() for file in files]


def test_jars_are_fetched_once_in_the_locks_order(repository, lock, capfd):
    files = locked_jars(lock)

    assert contents(files) == [name.encode() * 1000 for name in NAMES]
    assert repository.asked["one-1.0.jar"] == 1
    assert "fetching 3 jars of small" in capfd.readouterr().err

    asked = Counter(repository.asked)
    assert locked_jars(lock) == files
    assert repository.asked == asked
    assert capfd.readouterr().err == ""
    assert list((cache_folder() / "jars").glob(".part-*")) == []


@pytest.mark.parametrize("same_size", [True, False])
def test_a_tampered_cache_is_found_and_mended(repository, lock, capfd, same_size):
    """Also when the size stays and the times are set back."""
    file = locked_jars(lock)[1]
    good, stat = file.read_bytes(), file.stat()
    file.write_bytes(good[:-1] + b"!" if same_size else good + b"!")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    capfd.readouterr()

    assert locked_jars(lock)[1].read_bytes() == good
    assert f"{file} is not the pinned jar: fetching it again" in capfd.readouterr().err
    assert repository.asked["two-2.0.jar"] == 2
    assert repository.asked["one-1.0.jar"] == 1


def test_a_transfer_that_was_damaged_once_is_repeated(repository, lock):
    repository.damage = lambda name, times: name == "two-2.0.jar" and times == 1

    assert len(contents(locked_jars(lock))) == 3
    assert repository.asked["two-2.0.jar"] == 2


def test_a_wrong_lock_is_refused_after_one_refetch(repository, pinned, tmp_path):
    wrong = Jar(pinned[1].coordinate, pinned[1].size, "0" * 64)
    lock = tmp_path / "wrong.lock"
    write_lock(lock, ["a wrong digest"], [pinned[0], wrong])

    with pytest.raises(ChecksumMismatch) as caught:
        locked_jars(lock)

    said = str(caught.value)
    for part in (
        wrong.coordinate,
        wrong.sha256,
        pinned[1].sha256,
        str(cache_folder() / "jars" / wrong.place),
        str(lock),
    ):
        assert part in said
    assert repository.asked["two-2.0.jar"] == 2
    assert not (cache_folder() / "jars" / wrong.place).exists(), "a jar that is not the pinned one was kept"


def test_a_jar_that_the_repository_lacks_is_named(repository, pinned, tmp_path):
    lock = tmp_path / "more.lock"
    write_lock(lock, ["one too many"], [*pinned, Jar("org.example:gone:1.0", 5, "0" * 64)])

    with pytest.raises(JarError, match=r"cannot fetch org\.example:gone:1\.0 .* KAFKA_ASSIGNORS_MAVEN"):
        locked_jars(lock)


@pytest.mark.slow
def test_no_network_is_said_with_the_way_out(repository, lock, capsys, monkeypatch):
    repository.close()

    with pytest.raises(JarError, match=r"cannot fetch org\.example.*refused.*Check the network"):
        locked_jars(lock)

    monkeypatch.setenv("KAFKA_ASSIGNORS_MAVEN", repository.url)
    assert main(["fetch"]) == 3
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: cannot fetch ")


def test_a_jar_larger_than_the_disk_is_refused_before_anything_is_asked(repository, tmp_path):
    lock = tmp_path / "large.lock"
    write_lock(lock, ["an exabyte"], [Jar("org.example:large:1.0", 10**18, "0" * 64)])

    with pytest.raises(NotEnoughSpace, match=rf"{tmp_path}/cache/jars needs {10**18} bytes .* has \d+ bytes free"):
        locked_jars(lock)

    assert repository.asked == {}


@pytest.mark.slow
def test_a_disk_that_fills_up_on_the_way_is_told_apart(repository, tmp_path):
    """A real file system of 1 MB, in a mount namespace of the test's own; the lock says less than what comes."""
    content = b"x" * 5_000_000
    jar = repository.jar("org.example:big:1.0", content)
    lock = tmp_path / "big.lock"
    write_lock(lock, ["says 9 bytes"], [Jar(jar.coordinate, 9, jar.sha256)])
    small = tmp_path / "small"
    small.mkdir()
    mount_and_run = 'mount -t tmpfs -o size=1m none "$1" && shift && exec "$@"'
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount_and_run, "sh", str(small)]
    done = ran(*unshare, sys.executable, "-c", FETCH, str(lock), KAFKA_ASSIGNORS_CACHE=str(small))

    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"kafka_assignors.errors.NotEnoughSpace: {small}/jars needs 9 bytes"), done.stderr


@pytest.mark.slow
def test_processes_that_fetch_at_once_share_one_download(repository, lock):
    command = [sys.executable, "-c", FETCH, str(lock)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]

    outputs = [process.communicate(timeout=60) for process in running]

    assert [process.returncode for process in running] == [0] * 4, outputs
    assert len({out for out, _ in outputs}) == 1
    assert {repository.asked[jar.filename] for jar in read_lock(lock)} == {1}


def test_a_killed_fetch_leaves_nothing_that_the_next_one_trusts(repository, lock):
    part = cache_folder() / "jars" / ".part-killed"
    part.mkdir(parents=True)
    (part / "one-1.0.jar").write_bytes(b"half")

    assert len(contents(locked_jars(lock))) == 3
    assert not part.exists()


@pytest.mark.slow
def test_nothing_is_written_at_home(repository, lock, tmp_path):
    """jgo's own places (~/.m2, ~/.cache/jgo, ~/.jgorc) stay out of it."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {k: v for k, v in os.environ.items() if k.startswith("KAFKA_ASSIGNORS_")}
    subprocess.run(
        [sys.executable, "-c", FETCH, str(lock)], env={**environment, "HOME": str(home)}, check=True, timeout=60
    )

    assert repository.asked["one-1.0.jar"] == 1
    assert list(home.iterdir()) == []


def test_the_cache_is_the_environments_own(monkeypatch):
    monkeypatch.delenv("KAFKA_ASSIGNORS_CACHE", raising=False)
    monkeypatch.setattr(sys, "prefix", "/some/venv")
    assert cache_folder() == Path("/some/venv/cache")

    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/kafka-assignors")


@pytest.mark.parametrize(
    "line", ["org.example:one:1.0 5", "one 5 " + "0" * 64, "org.example:one:1.0 5 " + "g" * 64, ""]
)
def test_a_lock_that_cannot_be_read_is_named_with_its_line(tmp_path, line):
    lock = tmp_path / "bad.lock"
    lock.write_text(f"# remark\n{line}\n")

    with pytest.raises(ConfigError, match=f"{lock}(:2: expected| pins no jar)"):
        read_lock(lock)


def test_the_shipped_locks_pin_a_broker_its_tools_and_sparks_connector():
    kafka = {jar.coordinate for jar in read_lock(kafka_lock(KAFKA_VERSION))}
    spark = [jar.coordinate for jar in read_lock(spark_lock(pyspark.__version__))]

    assert {
        *(f"org.apache.kafka:{name}:{KAFKA_VERSION}" for name in ("kafka_2.13", "kafka-tools")),
        "org.slf4j:slf4j-simple:1.7.36",
    } <= kafka  # fmt: skip
    assert len(spark) == 4
    assert [len(kafka_jars()), len(spark_jars())] == [len(kafka), 4]


@pytest.mark.parametrize("version", SPARK_ROOTS)
def test_each_pyspark_has_the_connector_of_its_minor_version(version):
    """A patch release without a connector takes that of the first."""
    connector, tokens, *_ = [jar.coordinate for jar in read_lock(spark_lock(f"{version}.9"))]

    assert connector == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}.0"
    assert tokens == f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{version}.0"


@pytest.mark.parametrize(("installed", "lock"), [("4.0.5", "spark-4.0"), ("4.2.1", "spark-4.2"), (None, "spark-4.0")])
def test_the_connector_is_that_of_the_installed_pyspark(monkeypatch, installed, lock):
    def version(name):
        assert name == "pyspark"
        if installed is None:
            raise jars.metadata.PackageNotFoundError
        return installed

    monkeypatch.setattr(jars.metadata, "version", version)
    monkeypatch.setattr(jars, "locked_jars", lambda path: [path.stem])
    assert jars.spark_jars() == [lock]


def test_a_pyspark_without_a_connector_is_refused():
    with pytest.raises(UnknownName, match=r"unknown PySpark version '4.3.0'; known: 4.0, 4.2; install one of these"):
        spark_lock("4.3.0")


def test_the_command_line_shows_java_and_jars(capsys):
    assert main(["fetch"]) == 0
    assert "Kafka 4.3.1: 47 jars" in capsys.readouterr().out
    assert main(["fetch", "--kafka", "1.0"]) == 2
    pinned = "known: 3.7.2, 3.9.1, 4.0.1, 4.1.2, 4.3.0, 4.3.1, 4.4.0"
    remedy = "pin another release with: python -m kafka_assignors.jvm lock --kafka 1.0"
    assert f"unknown Kafka version '1.0'; {pinned}; {remedy}" in capsys.readouterr().err


@pytest.mark.parametrize("version", kafka_versions())
def test_every_pinned_kafka_is_one_broker_with_a_logger(version):
    """Its tools too, if they are published; the lock file says so otherwise."""
    path = kafka_lock(version)
    jars = {jar.coordinate for jar in read_lock(path)}
    assert {f"org.apache.kafka:kafka_2.13:{version}", f"org.apache.kafka:kafka-clients:{version}"} <= jars
    assert {jar.split(":")[2] for jar in jars if jar.startswith("org.apache.kafka:")} == {version}
    assert any(jar.startswith("org.slf4j:slf4j-simple:") for jar in jars)
    assert has_tools(version) != (f"# Not published: org.apache.kafka:kafka-tools:{version}" in path.read_text())


@pytest.mark.parametrize(
    ("version", "why"), [("2.8.2", "brokers here run without ZooKeeper"), ("3.9", "is not a release of Kafka")]
)
def test_a_version_that_can_not_be_pinned_is_named(version, why, capsys):
    assert main(["lock", "--kafka", version]) == 2
    err = capsys.readouterr().err
    assert version in err
    assert why in err


class Published:
    """A Maven repository with the files of `names`, in place of jgo's context."""

    def __init__(self, folder, lacks, error):
        self.folder, self.lacks, self.error, self.resolver = folder, lacks, error, self

    def create_dependency(self, coordinate):
        group, artifact, version = coordinate.split(":")
        return SimpleNamespace(groupId=group, artifactId=artifact, version=version)

    def resolve(self, dependencies):
        return [SimpleNamespace(artifact=each, scope="compile") for each in dependencies], []

    def project(self, group, artifact):
        def file():
            if artifact == self.lacks:
                raise self.error
            path = self.folder / artifact
            path.write_text(artifact)
            return path

        return SimpleNamespace(at_version=lambda _: SimpleNamespace(artifact=lambda: SimpleNamespace(resolve=file)))


def test_a_version_without_published_tools_is_pinned_without_them(tmp_path, monkeypatch):
    monkeypatch.setattr("kafka_assignors.jvm.locks.FOLDER", tmp_path)
    path = lock_kafka("9.9.9", Published(tmp_path, "kafka-tools", RuntimeError("not found")))

    assert [jar.parts[1] for jar in read_lock(path)] == ["kafka_2.13", "slf4j-simple"]
    assert "# Not published: org.apache.kafka:kafka-tools:9.9.9 (VerifiableConsumer)" in path.read_text()
    assert not has_tools("9.9.9")


def test_no_answer_about_the_tools_pins_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("kafka_assignors.jvm.locks.FOLDER", tmp_path)
    with pytest.raises(JarError, match="kafka-tools"):
        lock_kafka("9.9.9", Published(tmp_path, "kafka-tools", TimeoutError("no answer")))
    assert kafka_versions() == []
