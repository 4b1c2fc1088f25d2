"""docker-compose.yml: three nodes that fit together, on paper and brought up."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from kafka_assignors.integration.broker import KAFKA_VERSION
from kafka_assignors.integration.broker.nodes.docker import IMAGE_ENV, image_name
from kafka_assignors.integration.broker.ready import await_ready, nodes
from kafka_assignors.integration.errors import BrokerUnreachable
from tests.support.places import ROOT
from tests.support.programs import ran

FILE = ROOT / "docker-compose.yml"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]


def properties(service: str) -> dict[str, str]:
    """A service's environment as the official image turns it into broker properties (KAFKA_A_B -> a.b)."""
    environment = SERVICES[service]["environment"]
    special = {"KAFKA_HEAP_OPTS"}
    return {
        name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
        for name, value in environment.items()
        if name.startswith("KAFKA_") and name not in special
    }


def listeners(text: str) -> dict[str, tuple[str, int]]:
    """``NAME://host:port,…`` as name -> (host, port)."""
    found = {}
    for item in text.split(","):
        name, _, address = item.partition("://")
        host, _, port = address.rpartition(":")
        found[name] = (host, int(port))
    return found


def test_three_nodes_with_ids_racks_and_one_cluster():
    found = {name: properties(name) for name in SERVICES}

    assert [p["node.id"] for p in found.values()] == ["1", "2", "3"]
    assert [p["broker.rack"] for p in found.values()] == ["a", "b", "c"]
    assert len({service["environment"]["CLUSTER_ID"] for service in SERVICES.values()}) == 1
    assert {service["image"] for service in SERVICES.values()} == {
        f"${{KAFKA_ASSIGNORS_IMAGE:-apache/kafka:{KAFKA_VERSION}}}"
    }


def test_the_voters_are_the_nodes_at_their_controller_listeners():
    voters = {f"{p['node.id']}@{name}:{listeners(p['listeners'])['CONTROLLER'][1]}" for name, p in all_properties()}

    for name, p in all_properties():
        assert set(p["controller.quorum.voters"].split(",")) == voters
        assert SERVICES[name]["hostname"] == name


def test_each_listener_is_bound_advertised_mapped_and_published_on_loopback_alone():
    for name, p in all_properties():
        bound, advertised = listeners(p["listeners"]), listeners(p["advertised.listeners"])
        protocols = dict(pair.split(":") for pair in p["listener.security.protocol.map"].split(","))
        (published,) = SERVICES[name]["ports"]
        client = advertised["CLIENT"][1]

        assert set(bound) == set(protocols) == {*advertised, "CONTROLLER"}
        assert p["inter.broker.listener.name"] in advertised
        assert p["controller.listener.names"] == "CONTROLLER"
        assert advertised["CLIENT"][0] == "127.0.0.1"
        assert bound["CLIENT"][1] == client
        assert published == f"127.0.0.1:{client}:{client}"
        assert advertised["INTERNAL"] == (name, bound["INTERNAL"][1])
    assert len({listeners(p["advertised.listeners"])["CLIENT"] for _, p in all_properties()}) == 3


def all_properties() -> list[tuple[str, dict[str, str]]]:
    return [(name, properties(name)) for name in SERVICES]


def compose_command() -> list[str]:
    """Docker's plugin, or the program that was before it."""
    known: list[list[str]] = [["docker", "compose"], ["docker-compose"]]
    for command in known:
        if shutil.which(command[0]) and subprocess.run([*command, "version"], capture_output=True).returncode == 0:
            return command
    problem = (
        "neither `docker compose` nor `docker-compose` is on this machine; on Debian: apt-get install docker-compose"
    )
    if os.environ.get("REQUIRE_DOCKER") == "1":
        pytest.fail(problem, pytrace=False)
    pytest.skip(problem)


@pytest.fixture
def up() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """The file itself, brought up with the image that the docker tests use; gives what runs a command of compose."""
    command = [*compose_command(), "--project-name", f"kafka-compose-{os.getpid()}", "--file", str(FILE)]

    def compose(*arguments: str) -> subprocess.CompletedProcess[str]:
        return ran(*command, *arguments, within_s=200, **{IMAGE_ENV: image_name()})

    try:
        done = compose("up", "--detach")
        assert done.returncode == 0, done.stderr
        yield compose
    finally:
        done = compose("down", "--volumes", "--timeout", "0")
    assert done.returncode == 0, done.stderr


@pytest.mark.long  # long: the file rarely changes; the tests above hold it against what its nodes need
@pytest.mark.broker
@pytest.mark.docker
@pytest.mark.timeout(400)
def test_the_file_brings_up_one_cluster_over_three_racks(up):
    """Every node names all three, with their racks, at addresses that are reached from here, and thinks itself well."""
    cluster = [f"127.0.0.1:{listeners(p['advertised.listeners'])['CLIENT'][1]}" for _, p in all_properties()]
    try:
        for bootstrap in cluster:
            await_ready(bootstrap, 240, brokers=3)
    except BrokerUnreachable as error:
        pytest.fail(f"{error}\n{up('logs', '--tail', '20').stdout}", pytrace=False)
    seen = [sorted((n.node_id, f"{n.host}:{n.port}", n.rack) for n in nodes(bootstrap)) for bootstrap in cluster]

    expected = [(i + 1, bootstrap, "abc"[i]) for i, bootstrap in enumerate(cluster)]
    assert seen == [expected] * 3
    service = next(iter(SERVICES))
    kind, *check = SERVICES[service]["healthcheck"]["test"]
    assert kind == "CMD"
    asked = up("exec", "-T", service, *(word.replace("$$", "$") for word in check))
    assert asked.returncode == 0, asked.stderr
    nobody = up("exec", "-T", service, *(word.replace("$$", "$").replace("9092", "9099") for word in check))
    assert nobody.returncode != 0, "the check is well with a port where nothing listens"
