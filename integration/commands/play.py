"""The commands that play on a broker and judge what happened: the demo, one scenario, many seeds of one."""

from __future__ import annotations

import json
import random
import shlex
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import psutil
import typer
from rich.console import Console

from kafka_assignors.connection import Connection
from kafka_assignors.errors import ConfigError

from ..broker import KAFKA_VERSION, Broker
from ..broker.cluster import Cluster, start_cluster
from ..checker import Verdict, known_laws
from ..members.config import CLIENTS
from ..members.group import Stable
from ..registry import assignor_named
from ..report.report import GroupResult, Report, render_html, step_table
from ..scenario import DEMO_TOPICS, SCENARIOS, Scenario
from ..scenario.chaos import DRAWN, named
from ..scenario.clients import of_client
from ..scenario.file import read_scenario
from ..scenario.prefix import prefixed
from ..scenario.runner import STEP_S, require_fit, run_scenario
from ..topics import Topics
from ..topics.consent import Intent
from ..topics.publish import publish
from ..topics.sandbox import Sandbox, make_new, new_prefix
from .common import (
    Backend,
    Bootstrap,
    Config,
    KafkaVersion,
    Png,
    Port,
    Profile,
    Require,
    Settings,
    broker_of,
    clear_errors,
    exit_code,
    progress_console,
    reached_by,
    stdout_console,
)
from .demo import PARTITIONERS, RECORDS_PER_TOPIC, Demo, made_on
from .judge import draw, show
from .judged import judged, step_row
from .seeds import Row, run_seeds, scenario_of_seed, seeds_of, summary, together

_SOAK_MINUTES, _PATIENT_S = 10.0, 180.0

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


@contextmanager
def _rerun(
    name: str, seed: int | None, assignors: Sequence[str], minutes: float | None, client: str | None = None
) -> Iterator[None]:
    """If a seeded scenario fails or its verdict isn't true, print the command that repeats it."""
    try:
        yield
    except BaseException as error:
        if seed is not None and not (isinstance(error, typer.Exit) and error.exit_code == 0):
            given = [word for each in assignors for word in ("--assignor", each)]
            given += [] if client is None else ["--client", client]
            given += [] if minutes is None else ["--minutes", f"{minutes:g}"]
            again = shlex.join(["kafka-assignors", "test", name, "--seed", str(seed), *given])
            print(f"run it again: {again}", file=sys.stderr)
        raise


def _brokers(what: Scenario, backend: str, bootstrap: Connection | None, version: str) -> Broker | Cluster:
    if what.nodes == 1:
        return broker_of(backend, bootstrap, version=version)
    if bootstrap or backend == "external":
        raise ConfigError(
            f"scenario {what.name!r} needs {what.nodes} nodes of its own; remove --bootstrap and --backend external"
        )
    return start_cluster(what.nodes, backend=backend, version=version)


def _folder(out: Path | None) -> Path:
    folder = out or Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"--out {folder} is not empty; histories of two runs must not mix")
    return folder


@app.command()
def demo(  # a parameter per option of the command line
    backend: Backend = "jvm",
    bootstrap: Bootstrap = None,
    config: Config = None,
    profile: Profile = None,
    settings: Settings = None,
    kafka_version: KafkaVersion = KAFKA_VERSION,
    port: Port = None,
    out: Out = None,
    full: Annotated[
        bool, typer.Option("--full", help="Also roundrobin, the vote, worked examples, and Spark.")
    ] = False,
    spark: Annotated[
        bool | None, typer.Option(help="Run the Spark job at the end.", show_default="with --full")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the records' keys.")] = 7,
    events_topic: EventsTopic = None,
    confirm: Confirm = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Boot a real broker, place records, disturb groups, judge every run, write an HTML page: a minute, or --full."""
    with clear_errors():
        reached = reached_by(bootstrap, config, profile, settings)
        _require_lasting(events_topic, reached)
        console, folder = progress_console(unseen=as_json), _folder(out)
        began = time.monotonic()
        console.rule("Broker", align="left")
        with broker_of(backend, reached, port, kafka_version) as broker:
            console.print(
                f"{broker.backend} broker, Kafka {broker.version}, at {broker.bootstrap}, "
                f"ready in {time.monotonic() - began:.1f} s"
            )
            with Sandbox.on(broker) as sandbox:
                topics, groups = made_on(sandbox, full)
                sent = RECORDS_PER_TOPIC * len(PARTITIONERS) * len(DEMO_TOPICS)
                records = f"{sent} records, and 100 a second while groups change,"
                _require_consent(
                    broker, Intent(broker.bootstrap, sandbox.prefix, topics, groups, records, events_topic), confirm
                )
                with_spark = full if spark is None else spark
                run_id = uuid.uuid4().hex
                played = Demo(broker, sandbox, folder, run_id, console, full=full, spark=with_spark, seed=seed)
                report = played.run()
            _publish(console, broker.connection, events_topic, sorted(played.history.iterdir()))
        page = (folder / "report.html").resolve()
        if as_json:
            runs = [{"title": g.title, "assignor": g.assignor, "value": g.verdict.value} for g in report.groups]
            seconds = round(time.monotonic() - began, 1)
            print(json.dumps({"value": report.value, "seconds": seconds, "page": str(page), "groups": runs}))
        else:
            word = {True: "true", False: "FALSE", None: "UNKNOWN"}[report.value]
            console = stdout_console()
            console.print(f"All verdicts: {word}. It took {time.monotonic() - began:.0f} s.", highlight=False)
            console.print(f"Page: {page}", soft_wrap=True, highlight=False)
        raise typer.Exit(exit_code(report.value))


@app.command()
def run(  # a parameter per option of the command line, and the steps of one run in order
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
    bootstrap: Bootstrap = None,
    config: Config = None,
    profile: Profile = None,
    settings: Settings = None,
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
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Play one scenario, or many seeds of it, on a real broker and judge it."""
    if seeds is not None:
        with clear_errors():
            for option, given_too in (("--seed", seed), ("--events-topic", events_topic), ("--png", png)):
                if given_too is not None:
                    raise ConfigError(f"{option} is for one run, and --seeds {seeds} is many runs; remove one of them")
            known_laws(require or ())
            what_of = {n: scenario_of_seed(name, n, client, assignor or (), require or ()) for n in seeds_of(seeds)}
            reached = reached_by(bootstrap, config, profile, settings)
            with _brokers(what_of[min(what_of)], backend, reached, kafka_version) as broker:
                _run_seeds(what_of, broker, out, minutes, timeout_s, confirm, as_json)
    if seed is None and name in DRAWN:
        seed = random.SystemRandom().randrange(1_000_000)
    with clear_errors(), _rerun(name, seed, assignor or (), minutes, client):
        reached = reached_by(bootstrap, config, profile, settings)
        _require_lasting(events_topic, reached)
        console = progress_console(unseen=as_json)
        what = read_scenario(Path(name)) if name.endswith(".json") else named(name, seed)
        if minutes is None and name == "soak":
            minutes = _SOAK_MINUTES
        for given in assignor or ():
            assignor_named(given)
        known_laws(require or ())
        what = replace(what, require=(*what.require, *(require or ())))
        if client is not None:
            what = of_client(what, client)
        if assignor:
            what = replace(what, assignors=tuple(assignor))
        folder = _folder(out)
        console.print(f"{what.name}: {what.about}")
        memory_mb: list[float] = []

        def on_step(name: str, stable: Stable) -> None:
            step = step_row(name, stable)
            memory_mb.append(psutil.Process().memory_info().rss / 1e6)
            console.print(
                f"{step.name}: generation {step.generation}, elected {step.protocol}, "
                f"{step.moves} moved, stable in {step.seconds:.2f} s"
            )
            console.print(step_table(step))

        with _brokers(what, backend, reached, kafka_version) as broker, console.status("playing"):
            # One step that a busy machine slows down must not end a long run.
            waits_s = timeout_s or (STEP_S if minutes is None else _PATIENT_S)
            for_s = None if minutes is None else 60 * minutes
            with Sandbox.on(broker) as sandbox:
                topics = prefixed(what, sandbox.prefix).made_topics
                records = f"{what.rate_per_s} records a second" if what.rate_per_s else ""
                intent = Intent(
                    broker.bootstrap, sandbox.prefix, topics, [sandbox.name(what.name)], records, events_topic
                )
                require_fit(what, broker)
                _require_consent(broker, intent, confirm)
                ran = run_scenario(
                    what, broker, folder / "history", uuid.uuid4().hex,
                    sandbox=sandbox, group=what.name, on_step=on_step, timeout_s=waits_s, for_s=for_s,
                )  # fmt: skip
            if ran.gave_up:
                print(f"not played to the end: {ran.gave_up}", file=sys.stderr)
            result = judged(ran)
            where = broker.backend if isinstance(broker, Broker) else f"{len(broker.nodes)} nodes"
            facts = (("broker", f"{where}, Kafka {broker.version}"),)
            _publish(console, broker.connection, events_topic, [folder / "history"])
        grown_mb = max(memory_mb) - memory_mb[0] if memory_mb else 0.0
        told = {**_figures(result.verdict), "harness_growth_mb": round(grown_mb, 1)}
        _keep(result, folder, facts)
        draw(png, (result,))
        _tell(result.verdict, folder, as_json, told)


def _run_seeds(  # options of the command line
    what: Mapping[int, Scenario],
    broker: Broker | Cluster,
    out: Path | None,
    minutes: float | None,
    timeout_s: float | None,
    confirm: bool,
    as_json: bool,
) -> NoReturn:
    console, prefix = progress_console(unseen=as_json), new_prefix()
    folder = out or Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    first, scenario = next(iter(what.items()))
    require_fit(scenario, broker)
    topics = prefixed(scenario, f"{prefix}{first}-").made_topics
    records = f"{scenario.rate_per_s} records a second" if scenario.rate_per_s else ""
    _require_consent(
        broker, Intent(broker.bootstrap, prefix, topics, [f"{prefix}{first}-{scenario.name}"], records), confirm
    )

    def on_row(row: Row, kept: bool) -> None:
        console.print(row.words() + (" (kept)" if kept else ""), highlight=False)

    until = None if minutes is None else time.monotonic() + 60 * minutes
    rows = run_seeds(what, broker, folder, on_row, prefix=prefix, timeout_s=timeout_s or STEP_S, until=until)
    value = together(rows, len(what))
    if as_json:
        print(json.dumps({"value": value, "seeds": [asdict(row) for row in rows], "folder": str(folder)}))
    else:
        print(summary(rows, len(what)))
        print(f"kept in {folder}")
    raise typer.Exit(exit_code(value))


def _require_lasting(events_topic: str | None, bootstrap: Connection | None) -> None:
    if events_topic and not bootstrap:
        raise ConfigError(
            f"--events-topic {events_topic} needs --bootstrap: a broker that the run starts ends with the run, "
            "together with its topics"
        )


def _require_consent(broker: Broker | Cluster, intent: Intent, confirmed: bool) -> None:
    """On a broker that this run didn't start, require the user's consent and that a lasting topic is new."""
    if not (isinstance(broker, Broker) and broker.backend == "external"):
        return
    if intent.lasting is not None:
        with closing(Topics(broker.connection)) as there:
            if there.counts([intent.lasting], may="Write"):
                raise ConfigError(
                    f"--events-topic {intent.lasting}: the topic exists at {broker.bootstrap}, but must be new; "
                    "choose another name"
                )
    intent.require(confirmed)


def _publish(console: Console, bootstrap: Connection, topic: str | None, histories: Iterable[Path]) -> None:
    if topic:
        make_new(bootstrap, {topic: 1})
        sent = sum(publish(bootstrap, topic, history) for history in histories)
        console.print(f"{sent} events are in topic {topic}", highlight=False)


def _figures(verdict: Verdict) -> dict[str, Any]:
    """Cost of all steps together, including steps after which the group never came to rest."""
    steps = verdict.measures["steps"]
    return {
        "steps": len(steps),
        "generations": len(verdict.measures["generations"]),
        "longest_stop_ms": round(verdict.measures["longest_gap_ms"]),
        "downtime_ms": round(sum(verdict.measures["downtime_ms"].values())),
        **{name: sum(step[name] for step in steps) for name in ("moves", "needless", "duplicates")},
        "records": verdict.measures["acked"],
    }


def _keep(result: GroupResult, folder: Path, facts: tuple[tuple[str, str], ...]) -> None:
    report = Report(result.title, str(folder), result.verdict.value, facts, groups=(result,))
    (folder / "report.html").write_text(render_html(report), "utf-8")


def _tell(verdict: Verdict, folder: Path, as_json: bool, told: Mapping[str, Any] | None = None) -> NoReturn:
    show(verdict, folder, as_json, told)
    raise typer.Exit(exit_code(verdict.value))
