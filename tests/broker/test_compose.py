"""docker-compose.yml: three nodes that fit together, on paper and as containers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.broker.docker import _SCRIPT, image_name
from integration.broker.ready import await_ready, nodes
from integration.broker.settings import JVM_FLAGS, render

FILE = Path(__file__).parents[2] / "docker-compose.yml"
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
    assert {service["image"] for service in SERVICES.values()} == {"apache/kafka:4.3.0"}


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


@pytest.fixture
def cluster() -> Iterator[list[str]]:
    """The file's services as containers, with their settings, ports and names; gives their bootstrap addresses."""
    import docker

    client = docker.from_env()
    network = client.networks.create(f"kafka-compose-{os.getpid()}")
    started = []
    try:
        for name, p in all_properties():
            container = client.containers.create(
                image_name(), ["-c", _SCRIPT.replace("/tmp/broker/data", p["log.dirs"])], entrypoint=["sh"],
                hostname=name, ports={f"{client_port(p)}/tcp": ("127.0.0.1", client_port(p))},
                environment={
                    "BROKER_PROPERTIES": render(p),
                    "BROKER_CLUSTER_ID": SERVICES[name]["environment"]["CLUSTER_ID"],
                    "BROKER_JVM_FLAGS": " ".join(JVM_FLAGS),
                },
                networking_config={network.name: docker.types.EndpointConfig("1.41", aliases=[name])},
                network=network.name,
            )  # fmt: skip
            started.append(container)
            container.start()
        yield [f"127.0.0.1:{client_port(p)}" for _, p in all_properties()]
    finally:
        for container in started:
            container.remove(force=True, v=True)
        network.remove()
        client.close()


def client_port(settings: dict[str, str]) -> int:
    return listeners(settings["advertised.listeners"])["CLIENT"][1]


@pytest.mark.broker
@pytest.mark.docker
def test_the_three_nodes_form_one_cluster_over_three_racks(cluster):
    """The file's settings in real containers: every node names all three, with their racks, at reachable addresses."""
    for bootstrap in cluster:
        await_ready(bootstrap, 90, brokers=3)
    seen = [sorted((n.node_id, f"{n.host}:{n.port}", n.rack) for n in nodes(bootstrap)) for bootstrap in cluster]

    expected = [(i + 1, bootstrap, "abc"[i]) for i, bootstrap in enumerate(cluster)]
    assert seen == [expected] * 3
