"""The command line: ``python -m kafka_assignors.integration demo | run | judge | watch | up``.

Exit codes: 0 verdict true, 1 false, 2 unknown, 3 could not run, 130 interrupted.
"""

from __future__ import annotations

import json
import random
import shlex
import signal
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import psutil
import typer
from kafka.errors import KafkaError
from rich.console import Console, Group
from rich.live import Live

from kafka_assignors import drawing
from kafka_assignors.connection import Connection, read_connection
from kafka_assignors.errors import ConfigError, KafkaAssignorsError
from kafka_assignors.output import is_quiet, note

from ..broker import KAFKA_VERSION, Broker, start_broker
from ..broker.cluster import Cluster, start_cluster
from ..broker.secured import Certificates
from ..checker import Verdict, check, known_laws
from ..history import History
from ..members.config import CLIENTS
from ..members.group import Stable
from ..registry import assignor_named
from ..report.report import GroupResult, Report, render_html, step_table, told_groups, verdict_lines
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
from .demo import PARTITIONERS, RECORDS_PER_TOPIC, Demo, made_on
from .judged import judged, step_row
from .seeds import Row, run_seeds, scenario_of_seed, seeds_of, summary, together
from .watch import GroupWatcher, news, table

COULD_NOT_RUN, INTERRUPTED = 3, 130
_SOAK_MINUTES, _PATIENT_S = 10.0, 180.0

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    help="A real broker, real members, a kept history, a verdict with witnesses.",
)  # fmt: skip

Backend = Annotated[
    str, typer.Option(help="jvm (a child process), shared (one for all nodes), docker, or external (with --bootstrap).")
]
KafkaVersion = Annotated[str, typer.Option("--kafka-version", help="Version of the broker that is started.")]
Bootstrap = Annotated[
    str | None, typer.Option(help="host:port of a running broker, several separated by commas; implies external.")
]
Config = Annotated[Path | None, typer.Option("--config", help="Kafka's client.properties: how to reach the broker.")]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME", help="A section of --config, or of ~/.config/kafka-assignors/profiles.properties."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-X", metavar="KEY=VALUE", help="A setting that overrides --config; give secrets as KEY='${env:NAME}'."
    ),
]
Out = Annotated[Path | None, typer.Option(help="Folder for history and report (default: runs/<time>).")]
Seed = Annotated[int | None, typer.Option(help="Seed of a random scenario (default: a new one).")]
Png = Annotated[Path | None, typer.Option(help="Also write the timeline to this PNG file, for the page of a CI job.")]
EventsTopic = Annotated[
    str | None,
    typer.Option(help="Create this topic and publish the history to it, one event per record; needs --bootstrap."),
]
Require = Annotated[list[str] | None, typer.Option(help="A law without which the verdict is unknown; repeat for more.")]
Confirm = Annotated[
    bool,
    typer.Option(
        "--confirm",
        help="Agree to the topics and groups that the run creates and removes on the broker of --bootstrap.",
    ),
]
Port = Annotated[int | None, typer.Option(help="Port of the broker that is started (default: a free one).")]


def _console() -> Console:
    # In a pipe, rich would fold tables at 80 columns.
    return Console() if sys.stdout.isatty() else Console(width=160)


def _progress(*, unseen: bool = False) -> Console:
    """A console for what comes before the answer."""
    return Console(stderr=True, quiet=True) if unseen or is_quiet() else _console()


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Expected failures become one sentence on stderr and exit code 3. Ctrl-C and SIGTERM close everything."""

    def stop(number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except (KafkaAssignorsError, KafkaError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(COULD_NOT_RUN) from error
    except KeyboardInterrupt as error:
        print("interrupted; all started processes are closed", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from error
    finally:
        signal.signal(signal.SIGTERM, before)


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


def _reached(
    bootstrap: str | None,
    config: Path | None,
    profile: str | None,
    settings: Sequence[str] | None,
    *,
    needed: bool = False,
) -> Connection | None:
    """The broker that the user named, or None if the command starts one."""
    if bootstrap is None and config is None and profile is None and not settings and not needed:
        return None
    connection = read_connection(bootstrap, config, settings or (), profile=profile)
    if connection.ignored:
        ignored = ", ".join(connection.ignored)
        note(f"{ignored}: not a connection setting; the command sets it itself")
    return connection


def _broker(
    backend: str, bootstrap: Connection | None, port: int | None = None, version: str = KAFKA_VERSION
) -> Broker:
    return start_broker("external" if bootstrap else backend, bootstrap=bootstrap, port=port, version=version)


def _brokers(what: Scenario, backend: str, bootstrap: Connection | None, version: str) -> Broker | Cluster:
    if what.nodes == 1:
        return _broker(backend, bootstrap, version=version)
    if bootstrap or backend == "external":
        raise ConfigError(
            f"scenario {what.name!r} needs {what.nodes} nodes of its own; remove --bootstrap and --backend external"
        )
    return start_cluster(what.nodes, backend=backend, version=version)


def _exit_code(value: bool | None) -> int:
    return {True: 0, False: 1, None: 2}[value]


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
    with _clear_errors():
        reached = _reached(bootstrap, config, profile, settings)
        _require_lasting(events_topic, reached)
        console, folder = _progress(unseen=as_json), _folder(out)
        began = time.monotonic()
        console.rule("Broker", align="left")
        with _broker(backend, reached, port, kafka_version) as broker:
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
            console = _console()
            console.print(f"All verdicts: {word}. It took {time.monotonic() - began:.0f} s.", highlight=False)
            console.print(f"Page: {page}", soft_wrap=True, highlight=False)
        raise typer.Exit(_exit_code(report.value))


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
        with _clear_errors():
            for option, given_too in (("--seed", seed), ("--events-topic", events_topic), ("--png", png)):
                if given_too is not None:
                    raise ConfigError(f"{option} is for one run, and --seeds {seeds} is many runs; remove one of them")
            known_laws(require or ())
            what_of = {n: scenario_of_seed(name, n, client, assignor or (), require or ()) for n in seeds_of(seeds)}
            reached = _reached(bootstrap, config, profile, settings)
            with _brokers(what_of[min(what_of)], backend, reached, kafka_version) as broker:
                _run_seeds(what_of, broker, out, minutes, timeout_s, confirm, as_json)
    if seed is None and name in DRAWN:
        seed = random.SystemRandom().randrange(1_000_000)
    with _clear_errors(), _rerun(name, seed, assignor or (), minutes, client):
        reached = _reached(bootstrap, config, profile, settings)
        _require_lasting(events_topic, reached)
        console = _progress(unseen=as_json)
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
        _draw(png, (result,))
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
    console, prefix = _progress(unseen=as_json), new_prefix()
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
    raise typer.Exit(_exit_code(value))


@app.command()
def judge(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Folders with kept histories (*.jsonl), at any depth.")
    ],
    page: Annotated[Path | None, typer.Option(help="Write the page again to this file.")] = None,
    png: Png = None,
    require: Require = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object instead of text; one line per history.")
    ] = False,
) -> None:
    """Judge kept histories again; needs no broker."""
    with _clear_errors():
        folders = list(dict.fromkeys(folder for path in paths for folder in _histories(path)))
        if len(folders) > 1 and (page or png):
            raise ConfigError(
                f"{'--page' if page else '--png'} is for one history, and {len(folders)} were found; name one of them"
            )
        known_laws(require or ())
        values = []
        for folder in folders:
            history = History.load(folder)
            verdict = check(history, require or ())
            groups = told_groups(history, verdict)
            if page is not None:
                report = Report(f"judged: {paths[0].name}", str(paths[0]), verdict.value, (), groups=groups)
                page.write_text(render_html(report), "utf-8")
            _draw(png, groups)
            _show(verdict, folder, as_json)
            values.append(verdict.value)
        if len(values) > 1 and not as_json:
            words = {True: "true", False: "false", None: "unknown"}
            counts = ", ".join(f"{values.count(value)} {word}" for value, word in words.items() if value in values)
            print(f"{len(values)} histories: {counts}")
        raise typer.Exit(_exit_code(False if False in values else None if None in values else True))


def _histories(path: Path) -> list[Path]:
    """The folders with a history, below a folder or the folder itself."""
    if not path.is_dir():
        raise ConfigError(f"{path} is not a folder; name the history folder of a run, or one above it")
    found = sorted({file.parent for file in path.rglob("*.jsonl")})
    if not found:
        raise ConfigError(f"{path} has no *.jsonl history, at any depth")
    return found


@app.command()
def watch(  # a parameter per option of the command line
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", help="Group ids.")],
    bootstrap: Bootstrap = None,
    config: Config = None,
    profile: Profile = None,
    settings: Settings = None,
    once: Annotated[bool, typer.Option("--once", help="Show the groups once and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line per poll and group.")] = False,
    every_s: Annotated[float, typer.Option(min=0.1, help="Seconds between polls.")] = 1.0,
) -> None:
    """Show owners, lag, silent members and rebalances of live groups until Ctrl-C. Changes nothing."""
    with (
        _clear_errors(),
        _broker("external", _reached(bootstrap, config, profile, settings, needed=True)) as broker,
        GroupWatcher(broker.connection, groups, note, follow=not once) as watcher,
    ):
        views = watcher.views()
        if as_json or once or not sys.stdout.isatty():
            while True:
                for view in views:
                    if as_json:
                        print(json.dumps(view.as_json()), flush=True)
                    else:
                        console = _console()
                        for line in news(view):
                            console.print(line, markup=False, highlight=False)
                        console.print(table(view))
                if once:
                    return
                views = watcher.views(every_s)
        with Live(Group(*map(table, views)), refresh_per_second=4) as live:
            while True:
                views = watcher.views(every_s)
                for line in (line for view in views for line in news(view)):
                    live.console.print(line, markup=False, highlight=False)
                live.update(Group(*map(table, views)))


@app.command()
def up(
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
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text, once it runs.")] = False,
) -> None:
    """Run a broker, or a cluster, to play with until Ctrl-C; prints what to type next."""
    with _clear_errors(), ExitStack() as kept:
        made = _partition_counts(topic or ())
        certificates = Certificates() if secure else None
        started: Broker | Cluster
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
        file = None if started.secured is None else kept.enter_context(started.secured.admin.file())
        if made:
            with closing(Topics(started.connection)) as topics:
                topics.create(made)
        if as_json:
            secured = None if started.secured is None else started.secured.bootstrap
            answer = {"bootstrap": started.bootstrap, "version": started.version, "nodes": nodes, "topics": made}
            print(json.dumps({**answer, "secured": secured, "config": None if file is None else str(file)}), flush=True)
        else:
            if started.secured is not None:
                listener = started.secured.bootstrap
                print(f"secured listener: {listener}; until it ends, clients connect with --config {file}")
            print(f"{what}, Kafka {started.version}, at {started.bootstrap}; Ctrl-C stops it")
            if not is_quiet():
                print("in another terminal:")
                print(f"  export KAFKA_BOOTSTRAP={started.bootstrap}")
                print("  kafka-assignors doctor --groups")
                print("  kafka-assignors plan GROUP --add 1")
            sys.stdout.flush()
        signal.pause()


def _partition_counts(given: Sequence[str]) -> dict[str, int]:
    """Topics as the user names them, ``NAME:COUNT`` -> topic -> partition count."""
    made = {}
    for each in given:
        name, _, count = each.rpartition(":")
        if not name or not count.isdecimal() or int(count) < 1:
            raise ConfigError(f"--topic {each} is not NAME:COUNT, e.g. orders:6")
        made[name] = int(count)
    return made


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


def _draw(file: Path | None, groups: Sequence[GroupResult]) -> None:
    """Draw the timeline of the first group that has one."""
    if file is None:
        return
    scenario_of_seed = next((group for group in groups if group.timeline is not None), None)
    if scenario_of_seed is None or scenario_of_seed.timeline is None:
        raise ConfigError(f"--png {file}: no member ever owned a partition, so there is no timeline")
    word = {0: "true", 1: "FALSE", 2: "unknown"}[_exit_code(scenario_of_seed.verdict.value)]
    below = [("", scenario_of_seed.work_svg)] if scenario_of_seed.work_svg else []
    drawing.png([(f"{scenario_of_seed.title}: verdict {word}", scenario_of_seed.svg), *below], file)


def _tell(verdict: Verdict, folder: Path, as_json: bool, told: Mapping[str, Any] | None = None) -> NoReturn:
    _show(verdict, folder, as_json, told)
    raise typer.Exit(_exit_code(verdict.value))


def _show(verdict: Verdict, folder: Path, as_json: bool, told: Mapping[str, Any] | None = None) -> None:
    if as_json:
        answer = {
            "value": verdict.value,
            "laws": dict(verdict.checked),
            "skipped": {law: dict(reasons) for law, reasons in verdict.skipped.items()},
            "violations": [
                {"law": v.law, "message": v.message, "witnesses": [json.loads(w.to_json()) for w in v.witnesses]}
                for v in verdict.violations
            ],
            "unknown": list(verdict.unknown),
            "folder": str(folder),
            **(told or {}),
        }
        print(json.dumps(answer))
    else:
        print("\n".join(verdict_lines(verdict)))
        if told is not None:
            print(", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in told.items()))
        print(f"kept in {folder}")


def main() -> None:
    """Run the command line."""
    app(prog_name="python -m kafka_assignors.integration")
