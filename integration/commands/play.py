"""The commands that play on a broker and judge what happened: their options. `playing` does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafka_assignors.frame import Common, command

from ..broker import KAFKA_VERSION
from ..members.config import CLIENTS
from ..scenario import SCENARIOS
from ..scenario.catalogue import GRACE_S, SIZES, STEP_S
from ..scenario.chaos import DRAWN
from ..scenario.deployment import REPLICAS
from .common import Backend, KafkaVersion, Png, Port, Require, Where, closing_all

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Out = Annotated[Path | None, typer.Option(help="Folder for history and report (default: runs/<time>).")]
Seed = Annotated[int | None, typer.Option(help="Seed of a random scenario (default: a new one).")]
EventsTopic = Annotated[
    str | None,
    typer.Option(help="Create this topic and publish the history to it, one event per record; needs --bootstrap."),
]
Confirm = Annotated[
    bool,
    typer.Option(
        "--confirm",
        help="Agree to the topics and groups that the run creates and removes on the broker of --bootstrap.",
    ),
]


@app.command(epilog="Example: kafka-assignors demo")
@command
def demo(  # a parameter per option of the command line
    common: Common,
    backend: Backend = "jvm",
    kafka_version: KafkaVersion = KAFKA_VERSION,
    port: Port = None,
    out: Out = None,
    full: Annotated[
        bool, typer.Option("--full", help="Also roundrobin, the vote, worked examples, and Spark.")
    ] = False,
    spark: Annotated[
        bool | None, typer.Option(help="Run the Spark job at the end.", show_default="with --full")
    ] = None,
    spark_timeout: Annotated[
        float, typer.Option(min=1, help="Seconds after which the Spark job is given up; all else stands.")
    ] = 480,
    seed: Annotated[int, typer.Option(help="Seed of the records' keys.")] = 7,
    events_topic: EventsTopic = None,
    confirm: Confirm = False,
) -> int:
    """Boot a real broker, place records, disturb groups, judge every run, write an HTML page: a minute, or --full.

    It boots none if an option names a cluster; KAFKA_BOOTSTRAP doesn't.
    """
    with closing_all():
        from .playing import play_demo  # the judge, the page and Kafka's clients take longer to import than the options

        where = Where(backend, common.chosen, kafka_version, port)
        return play_demo(where, out, full, spark, spark_timeout, seed, events_topic, confirm, common.as_json)


@app.command(epilog="Example: kafka-assignors test churn --assignor cooperative-sticky")
@command
def run(  # a parameter per option of the command line
    common: Common,
    name: Annotated[
        str,
        typer.Argument(metavar="SCENARIO", help=f"{', '.join((*SCENARIOS, *DRAWN))}; or a scenario file, NAME.json."),
    ],
    assignor: Annotated[
        list[str] | None,
        typer.Option(help="Name of one of ours, kafka-python:NAME, or module:Class; repeat for a list."),
    ] = None,
    client: Annotated[
        str | None, typer.Option(help=f"Client of all members: {', '.join(CLIENTS)} (default: the scenario's).")
    ] = None,
    backend: Backend = "jvm",
    kafka_version: KafkaVersion = KAFKA_VERSION,
    out: Out = None,
    seed: Seed = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="A..B: play each of these seeds on one broker; skips seeds that --out already has."),
    ] = None,
    events_topic: EventsTopic = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.1, help="Start no step (with --seeds: no seed) after this many minutes (soak: 10)."),
    ] = None,
    timeout_s: Annotated[
        float | None,
        typer.Option(min=0.1, help=f"Seconds for the group to become stable after a step (default: {STEP_S:g})."),
    ] = None,
    confirm: Confirm = False,
    png: Png = None,
    require: Require = None,
    surge: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="With roll: start N new members first, then end as many old ones; 0: an old one ends first "
            "(default with --grace: 1).",
        ),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="With roll and scale: kill a member that still runs so long after it was asked to end "
            f"(default with --surge and in scale: {GRACE_S:g}).",
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="A..B..C", help=f"With scale: sizes of the group (default: {'..'.join(map(str, SIZES))})."
        ),
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Play with processes of your own service: the command of one. {bootstrap}, {topic}, {topics}, "
            "{group}, {replica} and {output} are replaced.",
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            help="With --service: processes that churn begins with, 3 or more (default: 3), or that roll replaces "
            f"(default: {REPLICAS})."
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:PARTITIONS",
            help="With --service: topic that it reads (default: the scenario's); repeat for more.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="With --service: its group (default: the scenario's name, or the one that it joins if its command has "
            "no {group})."
        ),
    ] = None,
    records: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="With --service: each line is the value of one record, in turn; or module:function, which makes the "
            "value, or key and value, of an id (default: small JSON objects).",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="NAME:PARTITIONS",
            help="With --service: topic that it writes to: each record must have an output with its id. {output} "
            "is replaced in the command.",
        ),
    ] = None,
    exactly_once: Annotated[
        bool, typer.Option("--exactly-once", help="With --output: no record may have more than one output.")
    ] = False,
    match: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="With --output: tells the id of an output's record (default: it is looked for in value, key and "
            "headers).",
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="With --service: variable of its environment, replaced like the command; repeat for more.",
        ),
    ] = None,
) -> int:
    """Play one scenario, or many seeds of it, on a real broker and judge it.

    It starts the broker unless an option names a cluster; KAFKA_BOOTSTRAP doesn't.
    """
    with closing_all():
        from .playing import Asked, play, play_seeds
        from .services import AskedService

        where = Where(backend, common.chosen, kafka_version)
        asked = Asked(
            name, tuple(assignor or ()), client, out, seed, events_topic, minutes, timeout_s, confirm, png,
            tuple(require or ()), common.as_json,
            AskedService(
                service, replicas, tuple(topic or ()), group, records, tuple(env or ()), output, exactly_once, match
            ),
            surge, grace, sizes,
        )  # fmt: skip
        return play(where, asked) if seeds is None else play_seeds(where, asked, seeds)
