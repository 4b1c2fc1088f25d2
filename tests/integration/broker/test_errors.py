"""Starts that cannot work: each says what, where and the fix, in time, and leaves nothing behind."""

from __future__ import annotations

import socket
import sys
import tempfile
import threading

import psutil
import pytest

from kafka_assignors.errors import ConfigError, UnknownName
from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.broker.cluster import Cluster
from kafka_assignors.integration.broker.diagnosis import not_ready
from kafka_assignors.integration.broker.ready import addresses, await_ready, nodes
from kafka_assignors.integration.errors import BrokerNotReady, BrokerUnreachable, DockerUnavailable, PortTaken
from kafka_assignors.jvm import kafka_jars
from tests.support.programs import python, ran
from tests.support.waiting import finished

pytestmark = pytest.mark.broker


@pytest.fixture
def nothing_left(monkeypatch, tmp_path):
    """Fail if the test leaves a child process or a temporary folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = set(psutil.Process().children(recursive=True))
    yield
    assert list(folder.iterdir()) == []
    assert set(psutil.Process().children(recursive=True)) - before == set()


@pytest.fixture
def listener():
    """A socket that accepts and never answers."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        yield s


@pytest.mark.parametrize("backend", ["jvm", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_taken_port_is_named_before_anything_starts(backend, listener, nothing_left, monkeypatch):
    port = listener.getsockname()[1]

    def started(*_, **__):
        raise AssertionError("a JVM or a container was started first")

    monkeypatch.setattr(Cluster, "_launch", started)
    with pytest.raises(PortTaken, match=f"port {port} on 127.0.0.1 is in use"):
        start_broker(backend, port=port)


@pytest.mark.long  # long: a broker of its own; packaging/test_readme.py types `up --port`, and reaches it there
def test_a_named_free_port_is_used():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]

    with start_broker(port=port) as broker:
        assert broker.bootstrap == f"127.0.0.1:{port}"
        assert nodes(broker.bootstrap)[0].port == port


# long: waits for 5 s; commands/test_cli.py has a broker that cannot be reached, in a sentence of each command
@pytest.mark.long
def test_an_unreachable_external_broker_is_named_in_time():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))  # bound, but not listening: connections are refused
        bootstrap = f"127.0.0.1:{s.getsockname()[1]}"

        with pytest.raises(BrokerUnreachable, match=f"no Kafka broker at {bootstrap} within 5 s .*refused"):
            finished(lambda: start_broker("external", bootstrap=bootstrap), within_s=30)


def test_a_silent_external_address_is_named_in_time(listener):
    bootstrap = f"127.0.0.1:{listener.getsockname()[1]}"

    with pytest.raises(BrokerUnreachable, match=bootstrap):
        finished(lambda: start_broker("external", bootstrap=bootstrap, timeout_s=1), within_s=30)


def test_something_that_is_not_kafka_is_told_apart(listener):
    """A web server at the address: its bytes are no answer."""

    def answer() -> None:
        with listener.accept()[0] as connection:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    answered = threading.Thread(target=answer)
    answered.start()

    with pytest.raises(ValueError, match="does not use Kafka's protocol"):
        nodes(f"127.0.0.1:{listener.getsockname()[1]}", timeout_s=2)

    answered.join(5)


def test_a_list_of_addresses_is_read_one_by_one():
    assert addresses("a:9092, [::1]:9093") == [("a", 9092), ("::1", 9093)]
    with pytest.raises(ConfigError, match="bootstrap 'b' is not 'host:port'"):
        addresses("a:9092,b")
    with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1: .*; 127\.0\.0\.1:2: "):
        await_ready("127.0.0.1:1,127.0.0.1:2", 0.2)


@pytest.mark.parametrize("wrong", ["localhost", "localhost:", ":9092", "localhost:kafka", "localhost:70000", ""])
def test_a_bootstrap_that_is_no_address_is_refused(wrong):
    with pytest.raises(ConfigError, match="is not 'host:port'"):
        start_broker("external", bootstrap=wrong)


def test_unknown_names_list_the_known_ones():
    with pytest.raises(UnknownName, match="unknown broker backend 'podman'; known: jvm, shared, docker, external"):
        start_broker("podman")
    with pytest.raises(UnknownName, match=r"unknown Kafka version '9\.9\.9'; known: .*4\.3\.0"):
        start_broker("jvm", version="9.9.9")


def test_arguments_that_do_not_go_together(tmp_path):
    with pytest.raises(ConfigError, match="exclude each other"):
        start_broker("external")
    with pytest.raises(ConfigError, match="exclude each other"):
        start_broker("jvm", bootstrap="127.0.0.1:9092")
    with pytest.raises(ConfigError, match="is for backend 'jvm'"):
        start_broker("docker", directory=tmp_path)


def test_a_broker_that_dies_while_starting_shows_its_log(nothing_left):
    """Kafka refuses a setting and exits: its own words are in the error, at once and not after the deadline."""
    settings = {"num.network.threads": "none"}

    with pytest.raises(BrokerNotReady, match="ended with exit code 1 before it was ready") as caught:
        finished(lambda: start_broker("jvm", settings=settings, timeout_s=300), within_s=60)

    cause, _, log = str(caught.value).partition("; the end of its log:\n")
    assert "; Kafka rejects a setting: Invalid value none for configuration num.network.threads" in cause
    assert "ConfigException" in log


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("java.io.IOException: No space left on device", "the disk with its data is full"),
        ("KafkaException: Socket server failed to bind to 127.0.0.1:9092: Address already in use.", "uses its port"),
        ("java.lang.UnsupportedClassVersionError: kafka/Kafka has been compiled by a more recent", "Java is too old"),
        ("There is insufficient memory for the Java Runtime Environment to continue.", "too little memory"),
        ("KafkaException: Failed to acquire lock on file .lock in /d.", "another broker uses the same folder"),
        (
            "java.lang.IllegalArgumentException: No MetadataVersion with feature level 29",
            "a newer Kafka wrote its folder",
        ),
    ],
)
def test_the_cause_that_a_log_names_goes_before_the_log(line, cause):
    said = str(not_ready("it ended", f"INFO starting\n{line}\nINFO shutting down: Address already in use"))

    assert cause in said.partition("; the end of its log:\n")[0]
    assert str(not_ready("it ended", "INFO starting")) == "it ended; the end of its log:\nINFO starting"


@pytest.mark.parametrize("backend", ["jvm", "shared"])
def test_a_disk_with_too_little_room_is_said_before_a_broker_starts(backend, tmp_path):
    """A real file system of 1 MB, in a mount namespace of the test's own."""
    mount_and_run = 'mount -t tmpfs -o size=1m none "$1" && export TMPDIR="$1" && shift && exec "$@"'
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount_and_run, "sh", str(tmp_path)]
    code = f"from kafka_assignors.integration.broker import start_broker\nstart_broker({backend!r})"
    done = ran(*unshare, sys.executable, "-c", code)

    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"kafka_assignors.errors.NotEnoughSpace: {tmp_path} has 10"), done.stderr
    assert "make room, or name another folder" in last


def test_a_broker_that_is_too_slow_is_ended(nothing_left):
    with pytest.raises(BrokerNotReady, match=r"no Kafka broker at 127.0.0.1:\d+ within 0.2 s"):
        start_broker("jvm", timeout_s=0.2)


def test_no_engine_is_said_with_the_way_out(monkeypatch):
    pytest.importorskip("docker", reason="the docker extra is part of `make setup`")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")

    with pytest.raises(DockerUnavailable, match=r"no Docker engine answers at unix:///nowhere/docker\.sock.*'jvm'"):
        start_broker("docker")


@pytest.mark.docker
def test_an_image_that_cannot_be_had_is_named(monkeypatch):
    # an address on this machine where no registry is: refused at once
    monkeypatch.setenv("KAFKA_ASSIGNORS_IMAGE", "127.0.0.1:9/no/such:image")

    with pytest.raises(DockerUnavailable, match=r"image 127\.0\.0\.1:9/no/such:image is not on this machine"):
        start_broker("docker")


def test_a_java_that_is_too_old_is_refused_before_a_broker_starts(tmp_path, monkeypatch, nothing_left):
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("KAFKA_ASSIGNORS_JAVA", str(old))

    with pytest.raises(Exception, match=r"KAFKA_ASSIGNORS_JAVA=.*java is too old: it is version 11, and 17"):
        start_broker("jvm")


@pytest.mark.long  # long: two starts of a broker, for a name that few folders have
def test_a_folder_with_a_difficult_name_is_served_again(tmp_path):
    """Spaces, non-ASCII and a backslash go through the properties file; a kept folder keeps its cluster."""
    directory = tmp_path / "a b\\ü=日"
    directory.mkdir()

    for _ in range(2):
        with start_broker("jvm", directory=directory) as broker:
            assert nodes(broker.bootstrap)
        assert (directory / "data" / "__cluster_metadata-0").is_dir()

    # It may answer, and be ended, before it logs that it has started.
    assert (directory / "broker.log").read_text().count("Registered signal handlers") == 2


def test_a_process_without_python_path_can_start_one(tmp_path):
    """The watchdog runs isolated, from anywhere, whatever the environment says about Python."""
    code = "from kafka_assignors.integration.broker import start_broker\nwith start_broker() as b: print(b.bootstrap)"
    done = python("-c", code, cwd=tmp_path, PYTHONSTARTUP="/nowhere", PYTHONHASHSEED="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert kafka_jars()
