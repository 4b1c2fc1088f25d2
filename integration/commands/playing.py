"""Plays on a broker, in a sandbox, and judges what happened: the demo, one scenario, many seeds of one."""

from __future__ import annotations

import json
import random
import shlex
import sys
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from kafka_assignors.connection import Connection
from kafka_assignors.errors import ConfigError
from kafka_assignors.frame import COULD_NOT_RUN, YES
from kafka_assignors.output import complain, printable, printable_lines

from ..broker import Broker
from ..broker.cluster import start_cluster
from ..checker import known_laws
from ..history import History
from ..members.group import Stable
from ..members.service import PATIENCE_S
from ..recording import run_folder
from ..records.sender import Values
from ..registry import assignor_named
from ..report import ci_summary
from ..report.report import GroupResult, Report, cost_table, render_html
from ..report.service_view import ServiceView, service_view
from ..scenario import DEMO_TOPICS, SCENARIOS, Scenario
from ..scenario.catalogue import STEP_S
from ..scenario.chaos import DRAWN, named
from ..scenario.clients import of_client, of_service
from ..scenario.deployment import orchestrated
from ..scenario.file import read_scenario
from ..scenario.first_group import first_group
from ..scenario.prefix import prefixed
from ..scenario.runner import make_topics, require_fit, run_scenario
from ..topics import Topics
from ..topics.consent import Intent
from ..topics.publish import publish
from ..topics.sandbox import Sandbox, make_new, new_prefix
from .common import Where, broker_of, exit_code, progress_console, stdout_console
from .demo import PARTITIONERS, RECORDS_PER_TOPIC, Demo, made_on
from .judge import draw, show, tell_service
from .judged import judged, step_row, tell_step
from .seeds import SeedResult, run_seeds, scenario_of_seed, seeds_of, summary, together
from .services import AskedService

_SOAK_MINUTES = 10.0


@dataclass(frozen=True)
class Asked:
    """The options of ``test``, as typed."""

    name: str
    assignors: tuple[str, ...]
    client: str | None
    out: Path | None
    seed: int | None
    events_topic: str | None
    minutes: float | None
    timeout_s: float | None
    confirm: bool
    png: Path | None
    require: tuple[str, ...]
    as_json: bool
    service: AskedService
    surge: int | None = None
    grace_s: float | None = None
    sizes: str | None = None


def play_demo(  # the options of ``demo``
    where: Where,
    out: Path | None,
    full: bool,
    spark: bool | None,
    spark_timeout_s: float,
    seed: int,
    events_topic: str | None,
    confirm: bool,
    as_json: bool,
) -> int:
    """Play the demo, judge it, and write its page; its exit code."""
    with run_folder(out) as folder:
        reached = where.reached
        _require_lasting(events_topic, reached)
        console = progress_console(unseen=as_json)
        began = time.monotonic()
        console.rule("Broker", align="left")
        with broker_of(where.backend, reached, where.port, where.version) as broker:
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
                played = Demo(
                    broker, sandbox, folder, run_id, console,
                    full=full, spark=with_spark, spark_timeout_s=spark_timeout_s, seed=seed,
                )  # fmt: skip
                report = played.run()
            _publish(console, broker.connection, events_topic, sorted(played.history.iterdir()))
        return tell_demo(played, report, time.monotonic() - began, as_json)


def tell_demo(played: Demo, report: Report, seconds: float, as_json: bool) -> int:
    """Tell a demo's end; returns its exit code: without Spark's result `COULD_NOT_RUN`, unless a part is false."""
    page, history, failure = played.page.resolve(), played.history.resolve(), played.spark_failure
    if as_json:
        runs = [{"title": g.title, "assignor": g.assignor, "value": g.verdict.value} for g in report.groups]
        answer = {"value": report.value, "seconds": round(seconds, 1), "page": str(page), "history": str(history)}
        print(json.dumps({**answer, "spark_failure": failure or None, "groups": runs}))
    else:
        word = {True: "true", False: "FALSE", None: "UNKNOWN"}[report.value]
        console = stdout_console()
        which = "All verdicts but Spark's" if failure else "All verdicts"
        console.print(f"{which}: {word}. It took {seconds:.0f} s.", highlight=False)
        console.print(f"Page: {page}", soft_wrap=True, highlight=False)
        console.print(f"Histories: {history}", soft_wrap=True, highlight=False)
    if failure:
        complain(failure)
    return COULD_NOT_RUN if failure and report.value is not False else exit_code(report.value)


def play_seeds(where: Where, asked: Asked, seeds: str) -> int:
    """Play many seeds (``A..B``) of a scenario on one broker; returns the exit code of all verdicts together."""
    service = asked.service.command if asked.service.given else None
    of_one_run = {
        "--service": service, "--seed": asked.seed, "--events-topic": asked.events_topic, "--png": asked.png,
        "--surge": asked.surge, "--grace": asked.grace_s, "--sizes": asked.sizes,
    }  # fmt: skip
    for option, given_too in of_one_run.items():
        if given_too is not None:
            raise ConfigError(f"{option} is for one run, and --seeds {seeds} is many runs; remove one of them")
    known_laws(asked.require)
    numbers = seeds_of(seeds)
    what_of = {n: scenario_of_seed(asked.name, n, asked.client, asked.assignors, asked.require) for n in numbers}
    with run_folder(asked.out, resumed=True) as folder, _brokers(what_of[min(what_of)], where) as broker:
        return _run_seeds(what_of, broker, asked, folder)


def play(where: Where, asked: Asked) -> int:
    """Play one scenario and judge it; the verdict's exit code.

    If a seeded scenario fails or its verdict isn't true, the command that repeats it is printed.
    """
    seed, code = asked.seed, COULD_NOT_RUN
    if seed is None and asked.name in DRAWN:
        seed = random.SystemRandom().randrange(1_000_000)
    try:
        code = _play(where, asked, seed)
    finally:
        if seed is not None and code != YES:
            _tell_again(asked, seed)
    return code


def _play(where: Where, asked: Asked, seed: int | None) -> int:  # the steps of one run in order
    minutes = asked.minutes
    with run_folder(asked.out) as folder:
        _require_lasting(asked.events_topic, where.reached)
        console = progress_console(unseen=asked.as_json)
        what = read_scenario(Path(asked.name)) if asked.name.endswith(".json") else named(asked.name, seed)
        if minutes is None and asked.name == "soak":
            minutes = _SOAK_MINUTES
        for given in asked.assignors:
            assignor_named(given)
        known_laws(asked.require)
        group, service = what.name, None
        values: Values = []
        served, replicas = asked.service.given, asked.service.replicas
        rolled = what is SCENARIOS["roll"]
        what = orchestrated(
            what, surge=asked.surge, grace_s=asked.grace_s, sizes=asked.sizes, replicas=replicas if rolled else None
        )
        if served:
            asked.service.require_alone(asked.assignors, asked.client)
            group, values = asked.service.group_named(what.name), asked.service.values()
            output = asked.service.output_topic()
            what = of_service(what, asked.service.topic_counts(), None if rolled else replicas, output)
            service = asked.service.service(existing=where.reached is not None, network_faults=what.network_faults)
        if asked.client is not None:
            what = of_client(what, asked.client)
        if asked.assignors:
            what = replace(what, assignors=asked.assignors)
        console.print(f"{what.name}: {what.about}")
        memory_mb: list[float] = []

        def on_step(name: str, stable: Stable) -> None:
            memory_mb.append(psutil.Process().memory_info().rss / 1e6)
            tell_step(console, step_row(name, stable))

        with _brokers(what, where) as broker, console.status("playing"):
            # One step that a busy machine slows down must not end a long run.
            waits_s = asked.timeout_s or (STEP_S if minutes is None and service is None else PATIENCE_S)
            for_s = None if minutes is None else 60 * minutes
            with Sandbox.on(broker) as sandbox:
                on_broker = prefixed(what, sandbox.prefix)
                topics = on_broker.made_topics
                records = f"{what.rate_per_s} records a second" if what.rate_per_s else ""
                intent = Intent(
                    broker.bootstrap, sandbox.prefix, topics, [sandbox.name(group)], records, asked.events_topic
                )
                require_fit(what, broker)
                _require_consent(broker, intent, asked.confirm)
                if service is not None and where.reached is None and asked.service.leaves_group_open(service):
                    make_topics(sandbox, on_broker)
                    group = first_group(
                        broker.connection, service, what.topics, folder / "first-start.log",
                        output=what.output, timeout_s=waits_s,
                    )  # fmt: skip
                    console.print(f"group: {printable(group)}, the first that subscribes to {', '.join(what.topics)}")
                ran = run_scenario(
                    what, broker, folder / "history", uuid.uuid4().hex,
                    sandbox=sandbox, group=group, on_step=on_step, timeout_s=waits_s, for_s=for_s,
                    service=service, values=values,
                )  # fmt: skip
            if ran.gave_up:
                print(f"not played to the end: {printable_lines(ran.gave_up)}", file=sys.stderr)
            result = judged(ran, asked.require)
            console.print(cost_table(result.row))
            place = f"{len(broker.nodes)} nodes" if len(broker.nodes) > 1 else broker.backend
            facts = [("broker", f"{place}, Kafka {broker.version}")]
            _publish(console, broker.connection, asked.events_topic, [folder / "history"])
        grown_mb = max(memory_mb) - memory_mb[0] if memory_mb else 0.0
        figures = {**_figures(result), "harness_growth_mb": round(grown_mb, 1)}
        view = None if service is None else service_view(History.load(ran.folder))
        if not asked.as_json:
            tell_service(view, [result])
        else:
            figures |= {} if view is None else {"service": asdict(view)}
            figures |= {"replicas": [asdict(row) for row in result.replicas]} if result.replicas else {}
        _keep(result, folder, tuple(facts), view)
        draw(asked.png, (result,))
        show(result.verdict, folder, asked.as_json, figures)
        if ci_summary.is_wanted():  # a long history takes a while to read again
            text = ci_summary.judged_run(result.verdict, History.load(ran.folder), folder, ran.gave_up)
            ci_summary.append(ci_summary.head("test", what.name, result.verdict.value) + text)
        return exit_code(result.verdict.value)


def _run_seeds(what: Mapping[int, Scenario], broker: Broker, asked: Asked, folder: Path) -> int:
    console, prefix = progress_console(unseen=asked.as_json), new_prefix()
    first, scenario = next(iter(what.items()))
    require_fit(scenario, broker)
    topics = prefixed(scenario, f"{prefix}{first}-").made_topics
    records = f"{scenario.rate_per_s} records a second" if scenario.rate_per_s else ""
    _require_consent(
        broker, Intent(broker.bootstrap, prefix, topics, [f"{prefix}{first}-{scenario.name}"], records), asked.confirm
    )

    def on_row(row: SeedResult, kept: bool) -> None:
        console.print(row.words() + (" (kept)" if kept else ""), markup=False, highlight=False)

    until = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    rows = run_seeds(what, broker, folder, on_row, prefix=prefix, timeout_s=asked.timeout_s or STEP_S, until=until)
    value = together(rows, len(what))
    if asked.as_json:
        print(json.dumps({"value": value, "seeds": [asdict(row) for row in rows], "folder": str(folder)}))
    else:
        print(summary(rows, len(what)))
        print(f"kept in {folder}")
    others = [(f"seed {row.seed}", row.value, row.words()) for row in rows if row.value is not True]
    head = ci_summary.head("test", f"{scenario.name} --seeds {min(what)}..{max(what)}", value)
    ci_summary.append(head + ci_summary.judged_runs(summary(rows, len(what)), others))
    return exit_code(value)


def _tell_again(asked: Asked, seed: int) -> None:
    given = [word for assignor in asked.assignors for word in ("--assignor", assignor)]
    given += [] if asked.client is None else ["--client", asked.client]
    given += [] if asked.minutes is None else ["--minutes", f"{asked.minutes:g}"]
    again = shlex.join(["kafka-assignors", "test", asked.name, "--seed", str(seed), *given, *asked.service.words])
    print(f"run it again: {again}", file=sys.stderr)


def _brokers(what: Scenario, where: Where) -> Broker:
    if what.nodes == 1:
        return broker_of(where.backend, where.reached, version=where.version)
    if where.reached is not None or where.backend == "external":
        raise ConfigError(
            f"scenario {what.name!r} needs {what.nodes} nodes of its own; remove --bootstrap and --backend external"
        )
    return start_cluster(what.nodes, backend=where.backend, version=where.version)


def _require_lasting(events_topic: str | None, bootstrap: Connection | None) -> None:
    if events_topic and not bootstrap:
        raise ConfigError(
            f"--events-topic {events_topic} needs --bootstrap: a broker that the run starts ends with the run, "
            "together with its topics"
        )


def _require_consent(broker: Broker, intent: Intent, confirmed: bool) -> None:
    """On a broker that this run didn't start, require the user's consent and that a lasting topic is new."""
    if broker.backend != "external":
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


def _figures(result: GroupResult) -> dict[str, Any]:
    """Cost of all steps together, also of those after which the group never came to rest; moves without its start."""
    row, measures = result.row, result.verdict.measures
    waits = {name: round(ms) for name, ms in measures["delays_ms"].items()}
    return {
        "downtime_ms": round(sum(measures["downtime_ms"].values())),
        "longest_stop_ms": round(measures["longest_gap_ms"]),
        **{f"delay_{name}": waits.get(name) for name in ("p50_ms", "p99_ms", "most_ms")},
        "steps": len(measures["steps"]),
        "generations": len(measures["generations"]),
        **{name: getattr(row, name) for name in ("rebalances", "moves", "returned", "duplicates", "needless")},
        "above_least": None if row.least is None else row.moves - row.least,
        "records": measures["acked"],
    }


def _keep(result: GroupResult, folder: Path, facts: tuple[tuple[str, str], ...], view: ServiceView | None) -> None:
    report = Report(result.title, str(folder), result.verdict.value, facts, groups=(result,), service=view)
    (folder / "report.html").write_text(render_html(report), "utf-8")
