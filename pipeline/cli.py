"""The command line: ``python -m kafka_assignors.pipeline``, or the file for ``spark-submit``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame, SparkSession

from kafka_assignors.errors import ConfigError
from kafka_assignors.frame import YES, Common, Output, command
from kafka_assignors.producers import PRESETS

from . import options, stream
from .progress import Progress
from .report import charts, page, text
from .report.summary import summary
from .run import RunOptions, write_run, written
from .schema import TABLES
from .session import session
from .sources import brokers
from .sources.snapshot import Source
from .storage.tables import FORMATS, chosen, require

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
Topics = Annotated[str, typer.Option(help="Comma-separated topics with the records.")]
Window = Annotated[str, typer.Option(help="Length of the time windows.")]
Reference = Annotated[
    str, typer.Option(help=f"Rule that keys should follow: {', '.join(PRESETS)}; none: no comparison.")
]
Out = Annotated[
    str, typer.Option(help="Folder or URI of the tables; replaces a run of the same id and keeps other runs.")
]
Format = Annotated[
    str, typer.Option("--format", help=f"Format of the tables: {', '.join(FORMATS)} (Spark must support it).")
]


@app.callback()
def _main() -> None:
    """Load, skew and ownership from records and rebalances, computed by Spark."""


@app.command(epilog="Example: kafka-assignors report run --topics orders --out tables -b localhost:9092")
@command
def run(  # options of the command line
    common: Common,
    topics: Topics,
    out: Out,
    history: Annotated[
        str | None, typer.Option(help="Folder or URI of a run's history (*.jsonl, at any depth).")
    ] = None,
    events: Annotated[
        str | None, typer.Option("--events-topic", help="Topic with the events of a run, one line of JSON per record.")
    ] = None,
    groups: Annotated[
        str | None, typer.Option("--group", help="Comma-separated groups to read from __consumer_offsets.")
    ] = None,
    window: Window = "1 minute",
    run_id: Annotated[
        str | None, typer.Option("--run", help="Run id in the tables (default: the history's, else the time).")
    ] = None,
    reference: Reference = "java",
    hot_key_share: Annotated[
        float, typer.Option(help="Share of its topic's records or bytes above which a key is a finding; 0 to 1.")
    ] = 0.2,
    what_if_counts: Annotated[
        str | None, typer.Option("--what-if", help="Comma-separated partition counts for the what-if of every rule.")
    ] = None,
    weights_file: Annotated[
        str | None, typer.Option("--weights", help="File for the weights of the next assignment.")
    ] = None,
    weights_unit: Annotated[str, typer.Option(help="records_per_s or bytes_per_s.")] = "records_per_s",
    weights_minutes: Annotated[int, typer.Option(help="Validity of the weights, in minutes.")] = 60,
    since: Annotated[
        str | None,
        typer.Option(
            help="Read from the first record at or after this time: 2026-01-31T08:00 (UTC), or '2 hours' ago."
        ),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Read up to the first record at or after this time.")] = None,
    offsets: Annotated[
        str | None, typer.Option(help="Offsets to read: TOPIC:PARTITION=FIRST-LAST,…; other partitions are read whole.")
    ] = None,
    sample: Annotated[
        float,
        typer.Option(help="Share of the offsets to read, in evenly spread blocks. Counts are those of the sample."),
    ] = 1.0,
    isolation: Annotated[str, typer.Option(help="read_committed or read_uncommitted.")] = brokers.ISOLATION[0],
    format_: Format = "parquet",
    min_partitions: Annotated[
        int | None, typer.Option(help="Minimum number of read tasks (default: one per topic-partition).")
    ] = None,
    html: Annotated[str | None, typer.Option(help="Also draw the page of `report`, to this HTML file.")] = None,
    png: Annotated[str | None, typer.Option(help="Folder for the charts as PNG files; needs --html.")] = None,
) -> int:
    """Read topics and groups; write tables of load, findings and ownership as Parquet; print a summary."""
    progress = Progress()
    if png is not None and html is None:
        raise ConfigError(f"--png {png!r} needs the page that its charts belong to: add --html report.html")
    connection = common.connection
    names, names_of_groups = options.topic_names(topics), options.group_names(groups)
    options.length(window)
    part = options.part(since, until, offsets, sample, isolation)
    wanted = RunOptions(
        history=None if history is None else options.history_folder(history),
        groups=names_of_groups,
        out=out if format_ == "iceberg" else options.out_folder(out),
        window=window,
        run_id=run_id,
        reference=options.reference(reference),
        hot_key_share=options.share(hot_key_share),
        counts=options.partition_counts(what_if_counts),
        target=options.weights_target(weights_file, weights_unit, weights_minutes),
        tasks=options.at_least("--min-partitions", 1, min_partitions),
        format=options.known_format(format_),
    )
    files = None if html is None else _Files.of(html, png, wanted.out)
    with progress("topics"):
        snapshot = Source(connection, names, names_of_groups, wanted.history, events, part).snapshot()
    with session(progress) as spark:
        figures = write_run(spark, connection, snapshot, wanted, progress)
        if files is not None:
            tables = _tables(spark, wanted.out, figures["run"], format_)
            figures = {**figures, "out": {**figures["out"], **_draw(tables, figures, files, progress)}}
    _print({**figures, "seconds": progress.seconds}, common)
    return YES


@app.command(
    name="stream", epilog="Example: kafka-assignors report stream --topics orders --out tables -b localhost:9092"
)
@command
def stream_(  # options of the command line
    common: Common,
    topics: Topics,
    out: Out,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Folder or URI of the read positions (default: checkpoint in the folder of the tables)."),
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="Length of the windows (default: that of earlier batches, else one minute).")
    ] = None,
    max_records: Annotated[
        int, typer.Option(help="Maximum number of records per batch; memory holds one batch.")
    ] = 1_000_000,
    run_id: Annotated[str, typer.Option("--run", help="Run id in the tables.")] = "stream",
    allow_loss: Annotated[
        bool, typer.Option("--allow-loss", help="Continue after records that were deleted before they were read.")
    ] = False,
) -> int:
    """Add new records to the tables of load, in batches; a restart neither loses nor duplicates records."""
    progress = Progress()
    connection = common.connection
    names = options.topic_names(topics)
    if window is not None:
        options.length(window)
    out, most = options.out_folder(out), options.batch_size(max_records)
    kept = options.absolute(checkpoint or f"{out}/checkpoint")
    with progress("topics"):
        snapshot = brokers.topics(connection, names, may_be_empty=True)
    with session(progress) as spark:
        with progress("batches"):
            to = stream.Streamed(out, kept, stream.remembered(spark, out, window), most, run_id, allow_loss)
            stream.follow(spark, connection, snapshot, to)
        with progress("summary"):
            figures = stream.summary(spark, out)
    _print({"run": run_id, **figures, "out": stream.paths(out), "seconds": progress.seconds}, common)
    return YES


@app.command(name="report", epilog="Example: kafka-assignors report page tables")
@command
def report_(
    common: Output,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder or URI of the tables: the --out of a run.")],
    html: Annotated[str | None, typer.Option(help="HTML file (default: report.html in FOLDER).")] = None,
    png: Annotated[str | None, typer.Option(help="Folder for the charts as PNG files.")] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="Run id (default: the last run).")] = None,
    format_: Format = "parquet",
) -> int:
    """Render the tables of a run as one HTML page that needs no network, and print a summary."""
    progress = Progress()
    out = folder if format_ == "iceberg" else options.absolute(folder)
    files = _Files.of(html, png, out)
    options.known_format(format_)
    if (there := options.local(f"{out}/runs")) and format_ != "iceberg" and not there.is_dir():
        raise ConfigError(
            f"FOLDER {out!r}: it has no complete run; create one with: kafka-assignors report run --out {out}"
        )
    with session(progress) as spark:
        with progress("summary"):
            require(spark, format_)
            tables = _tables(spark, out, chosen(spark, out, run_id, format_), format_)
            figures = summary(tables)
        made = _draw(tables, figures, files, progress)
    _print({**figures, "out": made, "seconds": progress.seconds}, common)
    return YES


@dataclass(frozen=True)
class _Files:
    """Where the page goes, and its charts; both are known to be writable."""

    page: Path
    charts: Path | None

    @classmethod
    def of(cls, html: str | None, png: str | None, out: str) -> _Files:
        return cls(options.page_file(html, out), None if png is None else options.png_folder(png))


def _tables(spark: SparkSession, out: str, run_id: str, format_: str) -> dict[str, DataFrame]:
    return {table: written(spark, out, table, run_id, format_) for table in TABLES}


def _draw(
    tables: Mapping[str, DataFrame], figures: Mapping[str, Any], files: _Files, progress: Progress
) -> dict[str, str]:
    """Write the page and its charts; what was written, by name."""
    with progress("page"):
        more = page.details(tables)
        page.write(page.render(figures, more), files.page)
        drawings = charts.write(figures, more, files.charts) if files.charts else []
    return {"page": str(files.page), **{path.stem: str(path) for path in drawings}}


def _print(figures: dict[str, Any], common: Output) -> None:
    if common.as_json:
        common.print_json(figures)
        return
    (stream.show if "batches" in figures else text.show)(figures)
    print("Written: " + "  ".join(figures["out"].values()))
