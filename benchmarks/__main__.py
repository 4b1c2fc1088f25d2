"""``python -m benchmarks NAME [--quick] [--json]``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from kafka_assignors.errors import KafkaAssignorsError, UnknownName
from kafka_assignors.extras import install

from . import summary
from .result import Result, ResultFile
from .summary import Ran

NAMES = (
    "assignors",
    "family",
    "partitioners",
    "send",
    "checker",
    "broker",
    "stops",
    "beats",
    "recorder",
    "recordings",
    "pipeline",
    "distinct",
    "from_kafka",
    "timeline",
    "report_run",
    "weighted",
    "leader",
    "spread",
    "optima",
    "meter",
    "loop",
    "residence",
    "scaling",
    "predictions",
    "start",
    "causes",
)

NOT_IN_ALL_QUICK = {
    "family": "it has no peer and no goal",
    **dict.fromkeys(("beats", "recorder", "recordings"), "it has no goal"),
    **dict.fromkeys(("distinct", "from_kafka", "timeline"), "growth needs two sizes, its quick form has one"),
}
"""Benchmark -> why ``all --quick`` leaves it out."""

app = typer.Typer(add_completion=False)


@app.command()
def main(
    name: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}, or all")],
    quick: Annotated[bool, typer.Option("--quick", help="fewer rounds, shorter limits, no downloads")] = False,
    json_: Annotated[bool, typer.Option("--json", help="JSON lines instead of text")] = False,
    runs: Annotated[int | None, typer.Option(min=1, help="repetitions of each row (stops)")] = None,
    keep: Annotated[Path | None, typer.Option(help="folder for the history of each run (stops)")] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="workloads, such as S1,S2,S3 (assignors), groups, such as 3x12,5x60 (stops), or clients (recorder)"
        ),
    ] = None,
    clients: Annotated[
        str | None, typer.Option(help="clients and assignors, such as ours/cooperative-sticky,java/range (stops)")
    ] = None,
) -> None:
    """Measure, print one line per result, and keep all measurements in benchmarks/results/."""
    if name not in (*NAMES, "all"):
        typer.echo(f"error: {UnknownName('benchmark', name, (*NAMES, 'all'))}", err=True)
        raise typer.Exit(2)
    given = {"runs": runs, "keep": keep, "only": only, "clients": clients}
    asked = {name: value for name, value in given.items() if value is not None}
    for option in asked:
        if name not in (belong := ("assignors", "stops", "recorder") if option == "only" else ("stops",)):
            which = f"benchmark{'s' if len(belong) > 1 else ''} {', '.join(belong)}"
            typer.echo(f"error: --{option} is only for the {which}, not {name}", err=True)
            raise typer.Exit(2)
    if name != "all":
        raise typer.Exit(1 if _run(name, quick, json_, asked).wrong else 0)
    skipped = NOT_IN_ALL_QUICK if quick else {}
    ran = [_run(benchmark, quick, json_, {}) for benchmark in NAMES if benchmark not in skipped]
    kept = ResultFile("all", quick)
    for run in ran:
        kept.write({"benchmark": run.name, "seconds": round(run.seconds, 1), "wrong": run.wrong, "rows": run.rows})
    kept.close()
    typer.echo("\n".join(["", *summary.lines(ran, skipped), f"raw summary: {kept.place}"]), err=json_)
    raise typer.Exit(1 if any(run.wrong for run in ran) else 0)


def _run(name: str, quick: bool, json_: bool, asked: dict[str, Any]) -> Ran:
    """Run one benchmark, print and keep its results."""
    ran, began, kept = Ran(name), time.perf_counter(), ResultFile(name, quick)
    try:
        run: Callable[..., Iterator[Result]] = import_module(f".{name}", __package__).run
        for result in run(quick, **asked):
            kept.add(result)
            typer.echo(json.dumps(result.row()) if json_ else result.text())
            ran.rows.append(result.row())
            if why := result.wrong:
                ran.wrong.append(why)
                typer.echo(f"error: benchmark {name}: {why}", err=True)
    except KafkaAssignorsError as error:
        ran.wrong.append(str(error))
        typer.echo(f"error: benchmark {name}: {error}", err=True)
    except ModuleNotFoundError as missing:
        ran.wrong.append(f"needs {missing.name}")
        typer.echo(f"error: benchmark {name} needs {missing.name}: {install('all')}", err=True)
    finally:
        kept.close()
        ran.seconds = time.perf_counter() - began
    if not ran.wrong:
        typer.echo(f"raw results: {kept.place}", err=True)
    return ran


if __name__ == "__main__":
    app()
