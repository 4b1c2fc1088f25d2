"""The commands of ``kafka-assignors``: their options and help. Each imports its work when it runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from ...errors import ConfigError
from ...frame import NAME, USAGE, Common, Output, Places, command, guarded, topics
from .arguments import argument, grown, joining, offers, option, seconds, separated, sizes
from .later import CommandPlace, Later, add

app = typer.Typer(
    name=NAME, cls=Later, no_args_is_help=False, pretty_exceptions_enable=False, rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Kafka consumer groups: what an assignor would do, why a group rebalanced, and tests that prove it.",
    epilog="Exit codes: 0 yes, 1 no, 2 usage, 3 could not run, 4 unknown, 130 interrupted.",
)  # fmt: skip

LIVE = "Live groups (read only)"
GroupName = Annotated[str, argument(metavar="GROUP", help="Group id.")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"{NAME} {version(NAME)}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 (its callback does the work)
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(USAGE)


@app.command(
    rich_help_panel=LIVE, epilog=f"Example: {NAME} plan billing -b localhost:9092 --add 2 -A cooperative-sticky"
)
@command
def plan(  # options of the command line
    common: Common,
    group: Annotated[str | None, argument(metavar="GROUP", help="Group id.")] = None,
    assignor: Annotated[
        list[str] | None,
        option(
            "--assignor",
            "-A",
            metavar="NAME",
            help="Plan with this one, as NAME or NAME:option=value; repeat for more. "
            "Default: the elected one, range, sticky and cooperative-sticky.",
        ),
    ] = None,
    add: Annotated[
        list[str] | None, option("--add", metavar="N", help="So many members join; or their client ids.")
    ] = None,
    remove: Annotated[
        list[str] | None, option("--remove", metavar="MEMBER", help="These members leave: client ids, or a number.")
    ] = None,
    add_partitions: Annotated[
        list[str] | None, option("--add-partitions", metavar="TOPIC:COUNT", help="A topic grows to so many partitions.")
    ] = None,
    members: Annotated[
        str | None, option("--members", metavar="A..B", help="How many members? The loads at these group sizes.")
    ] = None,
    save: Annotated[Path | None, option("--save", metavar="FILE", help="Keep the plans.")] = None,
    replay: Annotated[
        Path | None, option("--replay", metavar="FILE", help="Compute kept plans again, without a broker.")
    ] = None,
) -> int:
    """Show what each assignor would do to a live group: what moves and why, with proven bounds. Changes nothing."""
    count, named = joining(add)
    leaving, growing, wanted_sizes = tuple(separated(remove)), grown(add_partitions), sizes(members)
    if group is not None and not (assignor or save or replay):  # these are checked first, by the modules below
        common.reach("kafka")
    from ..live.group import Change
    from . import plan as work

    change = Change(count, leaving, growing, named)
    return work.run(common, work.Wanted(group, tuple(assignor or ()), change, save, replay, wanted_sizes))


@app.command(rich_help_panel=LIVE, epilog=f"Example: {NAME} groups 'billing*' -b localhost:9092")
@command
def groups(
    common: Common,
    patterns: Annotated[
        list[str] | None, argument(metavar="GROUP...", help="Group ids or shell patterns; all groups without.")
    ] = None,
) -> int:
    """List groups: state, assignor, members, lag, and how long ago they rebalanced."""
    common.reach("kafka")
    from . import groups as work

    return work.run(common, patterns or ())


@app.command(rich_help_panel=LIVE, epilog=f"Example: {NAME} why billing -b localhost:9092 --last 20")
@command
def why(
    common: Common,
    group: GroupName,
    last: Annotated[
        int, typer.Option("--last", "-n", metavar="N", min=1, help="Rebalances to show, the last ones.")
    ] = 10,
    places: Places = None,
) -> int:
    """Tell why a group rebalanced: who joined or left, what moved, what was needless, what to change."""
    if places is None or topics(places):
        common.reach("kafka")
    from . import why as work

    if places is None:
        return work.run(common, group, last)
    return work.run_recorded(common, group, last, places)


@app.command(rich_help_panel=LIVE, epilog=f"Example: {NAME} vote billing -b localhost:9092 --adding sticky,range")
@command
def vote(
    common: Common,
    group: GroupName,
    adding: Annotated[str | None, option("--adding", metavar="LIST", help="May a member with this list join?")] = None,
    offer: Annotated[
        list[str] | None,
        option(
            "--offer",
            metavar="MEMBER=LIST",
            help="A member's list, which no broker tells; '*=LIST' for all others. Repeat for more.",
        ),
    ] = None,
    to: Annotated[str | None, option("--to", metavar="NAME", help="Tell the bounces that change to this one.")] = None,
) -> int:
    """Tell which assignor wins the next election, who may join, and the safe order of bounces."""
    lists = offers(offer)
    common.reach("kafka")
    from . import vote as work

    return work.run(common, group, separated([adding] if adding else None), lists, to)


@app.command(rich_help_panel=LIVE, epilog=f"Example: {NAME} scale billing -b localhost:9092 --delay 30s")
@command
def scale(
    common: Common,
    group: GroupName,
    delay: Annotated[
        str, typer.Option("--delay", metavar="TIME", help="No record shall wait longer: 30s, 2m; 10s or more.")
    ] = "30s",
    over: Annotated[
        str, typer.Option("--over", metavar="TIME", help="Measure for so long; 30s or more without --pace.")
    ] = "60s",
    pace: Annotated[
        float | None,
        option(
            "--pace",
            metavar="RECORDS",
            min=0.001,
            help="Records per second that a member can read. Default: as measured, of members that are busy.",
        ),
    ] = None,
    least: Annotated[int, typer.Option("--least", metavar="N", min=1, help="No fewer members.")] = 1,
    most: Annotated[int | None, option("--most", metavar="N", min=1, help="No more members.")] = None,
) -> int:
    """Tell the fewest members that keep a delay, at the measured rates: 0 it has that many, 1 another number."""
    delay_s, over_s = seconds(delay, "--delay"), seconds(over, "--over")
    from ..scaling import LEAST_OVER_S, Rules

    rules = Rules(delay_s, least, most)
    if pace is not None and not math.isfinite(pace):
        raise ConfigError(f"--pace must be a number of records per second, like 250, not {pace:g}")
    if pace is None and over_s < LEAST_OVER_S:
        raise ConfigError(f"--over must be {LEAST_OVER_S:g}s or more without --pace, not {over_s:g}s")
    common.reach("kafka")
    from . import scale as work

    return work.run(common, group, rules, pace, over_s)


@app.command(rich_help_panel=LIVE, epilog=f"Example: {NAME} exporter billing shipping -b localhost:9092 --port 9108")
@command
def exporter(
    common: Common,
    groups: Annotated[
        list[str] | None,
        argument(metavar="GROUP...", help="Group ids or shell patterns, also of groups that begin later; all without."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port to listen on; 0 for a free one.")
    ] = 9108,
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS", help="Address to listen on; 0.0.0.0 for all.")
    ] = "127.0.0.1",
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Tell each partition's owner: one series per partition.")
    ] = False,
    otlp: Annotated[
        str | None,
        option(
            "--otlp",
            metavar="URL",
            help="Also send them to an OpenTelemetry collector, by OTLP over HTTP: http://collector:4318.",
        ),
    ] = None,
    delay: Annotated[
        str | None,
        option(
            "--delay",
            metavar="TIME",
            help="Also tell the fewest members of each group that keep this delay, as scale does: 30s, 2m.",
        ),
    ] = None,
    keda: Annotated[
        int | None,
        option(
            "--keda",
            metavar="PORT",
            min=0,
            max=65535,
            help="Tell that number to KEDA, too: be an external scaler at this port; 0 for a free one.",
        ),
    ] = None,
    places: Places = None,
) -> int:
    """Serve rebalances, their causes and costs, and lag to Prometheus, counted from now on. Changes nothing."""
    rules = None
    if delay is not None:
        if places is not None:
            raise typer.BadParameter(
                "it needs offsets, and recordings have none; leave out --from", param_hint="--delay"
            )
        from ..scaling import Rules

        rules = Rules(seconds(delay, "--delay"))
    elif keda is not None:
        raise typer.BadParameter("it tells the members that keep a delay; give --delay 30s", param_hint="--keda")
    if otlp is None and (places is None or topics(places)):  # its URL is checked first, by the module below
        common.reach("kafka", "prometheus_client", *(["grpc"] if keda is not None else []))
    from .serving import exporter as work

    outlets = work.Outlets(port, listen, otlp, rules, partitions=partitions, keda=keda)
    if places is not None:
        return work.run_recorded(common, groups or (), outlets, places)
    return work.run(common, groups or (), outlets)


TESTS = "Tests and brokers"
RECORDS = "Records and keys"
HELP = "Help"

_HARNESS, _PRODUCERS, _PIPELINE = "integration.commands.cli", "producers.commands", "pipeline.cli"
add(
    app,
    "watch",
    CommandPlace(_HARNESS, "watch"),
    "Show owners, lag, silent members and rebalances of live groups.",
    LIVE,
)
add(app, "up", CommandPlace(_HARNESS, "up"), "Run a broker, or a cluster, to play with.", TESTS)
add(app, "demo", CommandPlace(_HARNESS, "demo"), "Disturb groups on a real broker and write a page.", TESTS)
add(app, "test", CommandPlace(_HARNESS, "run"), "Play a scenario on a real broker and judge it.", TESTS)
add(app, "judge", CommandPlace(_HARNESS, "judge"), "Judge a kept history again, without a broker.", TESTS)

_report = typer.Typer(
    cls=Later, help="Load, skew and ownership from topics, histories and the coordinator's log, by Spark."
)
add(_report, "run", CommandPlace(_PIPELINE, "run"), "Read topics and groups, write tables, findings and owners.")
add(_report, "stream", CommandPlace(_PIPELINE, "stream"), "Add new records to the tables, in batches.")
add(_report, "page", CommandPlace(_PIPELINE, "report"), "Draw the tables of a run as one page.")
app.add_typer(_report, name="report", rich_help_panel=RECORDS)

_keys = typer.Typer(
    cls=Later, help="Where a topic's keys lie, which hash placed them, and what more partitions would move."
)
add(_keys, "place", CommandPlace(_PRODUCERS, "place"), "Tell where a key lives for every client's default partitioner.")
add(_keys, "audit", CommandPlace(_PRODUCERS, "audit"), "Name the hash that placed a topic's keys, and the strays.")
add(_keys, "growth", CommandPlace(_PRODUCERS, "growth"), "Tell the share of keys that another partition count moves.")
app.add_typer(_keys, name="keys", rich_help_panel=RECORDS)


@app.command(rich_help_panel=HELP, epilog=f"Example: {NAME} explain R3")
@command
def explain(
    common: Output,
    name: Annotated[
        str | None, argument(metavar="NAME", help="A law (O1), a finding (hot-key) or a cause (restarted).")
    ] = None,
) -> int:
    """Explain a law of the judge, a finding of the pipeline, or a cause told by why. Without NAME: list all."""
    from . import explain as work

    return work.run(common, name)


@app.command(rich_help_panel=HELP, epilog=f"Example: {NAME} doctor -b localhost:9092 --group billing")
@command
def doctor(
    common: Common,
    group: Annotated[str | None, option("--group", metavar="GROUP", help="May the user see it?")] = None,
    topic: Annotated[str | None, option("--topic", metavar="TOPIC", help="May the user see it?")] = None,
    groups: Annotated[bool, typer.Option("--groups", help="List the groups that the user may see.")] = False,
    client_config: Annotated[
        Path | None,
        option(
            "--client-config",
            metavar="FILE",
            help="A consumer's settings: which of them does KIP-848 refuse or change?",
        ),
    ] = None,
    client: Annotated[
        str, typer.Option("--client", metavar="NAME", help="Whose: java, librdkafka, kafka-python or aiokafka.")
    ] = "java",
) -> int:
    """Check what the commands need: Python, packages, Java, jars; with -b the cluster, rights and clock."""
    from . import doctor as work

    return work.run(common, group, topic, groups, None if client_config is None else (client_config, client))


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return guarded(app, arguments)
