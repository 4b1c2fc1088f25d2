"""The command that runs a broker to play with."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Annotated

import typer

from kafka_assignors.errors import ConfigError
from kafka_assignors.frame import Output, command
from kafka_assignors.frame.running import typed
from kafka_assignors.output import is_quiet

from ..broker import KAFKA_VERSION, Broker, start_broker
from ..broker.cluster import start_cluster
from ..broker.secured import Certificates
from ..processes.child import watched_folder
from ..records.playground import GROUP, MEMBERS, PARTITIONS, PER_S, TOPIC, Playground
from ..topics import Topics
from .common import Backend, KafkaVersion, Port, closing_all

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: kafka-assignors up --topic orders:6")
@command
def up(
    common: Output,
    backend: Backend = "jvm",
    kafka_version: KafkaVersion = KAFKA_VERSION,
    port: Port = None,
    nodes: Annotated[
        int, typer.Option(min=1, help="Number of brokers; several form a cluster over the racks a, b, c.")
    ] = 1,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure", help="Add a listener with TLS, SCRAM-SHA-512 and ACLs; prints the path of a client.properties."
        ),
    ] = False,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME:COUNT", help="Create a topic; repeat for more.")
    ] = None,
    play: Annotated[
        bool,
        typer.Option(
            "--play",
            help=f"Have something to look at: a topic {TOPIC}, {PER_S} records a second, and a group {GROUP} of two.",
        ),
    ] = False,
) -> int:
    """Run a broker, or a cluster, to play with until Ctrl-C; prints what to type next."""
    with closing_all(), ExitStack() as kept:
        made = _partition_counts(topic or ())
        if play and backend == "external":
            raise ConfigError("--play sends records and joins a group; it does so only on a broker that up starts")
        if play:
            made.setdefault(TOPIC, PARTITIONS)
        certificates = Certificates() if secure else None
        started: Broker
        if nodes > 1:
            if backend == "external" or port is not None:
                raise ConfigError(f"--nodes {nodes} starts brokers on free ports; remove --port")
            started = kept.enter_context(
                start_cluster(nodes, backend=backend, version=kafka_version, certificates=certificates)
            )
            racks = ", ".join(node.rack for node in started.nodes)
            what = f"cluster of {nodes} brokers in racks {racks}"
        else:
            started = kept.enter_context(
                start_broker(backend, port=port, version=kafka_version, certificates=certificates)
            )
            what = f"{started.backend} broker"
        file = None
        if started.secured is not None:
            file = started.secured.admin.write(kept.enter_context(watched_folder("kafka-client-")))
        if made:
            with closing(Topics(started.connection)) as topics:
                topics.create(made)
        group = kept.enter_context(Playground(started.connection)) if play else None
        if common.as_json:
            secured = None if started.secured is None else started.secured.bootstrap
            answer = {"bootstrap": started.bootstrap, "version": started.version, "nodes": nodes, "topics": made}
            answer["group"] = GROUP if play else None
            print(json.dumps({**answer, "secured": secured, "config": None if file is None else str(file)}), flush=True)
        else:
            if started.secured is not None:
                listener = started.secured.bootstrap
                print(f"secured listener: {listener}; until it ends, clients connect with --config {file}")
            print(f"{what}, Kafka {started.version}, at {started.bootstrap}; Ctrl-C stops it")
            for name, count in made.items():
                print(f"topic {name} with {count} partitions")
            if play:
                print(f"{PER_S} records a second in {TOPIC}, read by group {GROUP}: {' and '.join(MEMBERS)}")
            if not is_quiet():
                program = typed()
                print("in another terminal:")
                print(f"  export KAFKA_BOOTSTRAP={started.bootstrap}")
                print(f"  {program} groups")
                if play:
                    print(f"  {program} why {GROUP}")
                print(f"  {program} plan {GROUP if play else 'GROUP'} --add 1")
            sys.stdout.flush()
        while True:  # `signal.pause` would sleep on after a signal that comes just before it
            time.sleep(0.2)
            if group is not None:
                group.check()


def _partition_counts(given: Sequence[str]) -> dict[str, int]:
    """Parse the user's topics, each ``NAME:COUNT``, to topic -> partition count."""
    made = {}
    for topic in given:
        name, _, count = topic.rpartition(":")
        if not name or not count.isdecimal() or int(count) < 1:
            raise ConfigError(f"--topic {topic} is not NAME:COUNT, e.g. orders:6")
        made[name] = int(count)
    return made
