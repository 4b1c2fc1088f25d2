"""``python -m benchmarks NAME [--quick] [--json]``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from kafka_assignors.errors import KafkaAssignorsError, UnknownName

from .result import Result, ResultFile

NAMES = (
    "assignors",
    "family",
    "partitioners",
    "send",
    "checker",
    "broker",
    "rebalances",
    "pipeline",
    "distinct",
    "weighted",
    "leader",
    "spread",
    "optima",
    "meter",
    "loop",
    "residence",
    "predictions",
    "start",
    "causes",
)

app = typer.Typer(add_completion=False)


@app.command()
def main(
    name: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}, or all")],
    quick: Annotated[bool, typer.Option("--quick", help="fewer rounds, shorter limits, no downloads")] = False,
    json_: Annotated[bool, typer.Option("--json", help="JSON lines instead of text")] = False,
    runs: Annotated[int | None, typer.Option(min=1, help="repetitions of each row (rebalances)")] = None,
    keep: Annotated[Path | None, typer.Option(help="folder for the history of each run (rebalances)")] = None,
    only: Annotated[str | None, typer.Option(help="workloads, such as S1,S2,S3 (assignors)")] = None,
) -> None:
    """Measure, print one line per result, and keep all measurements in benchmarks/results/."""
    if name not in (*NAMES, "all"):
        typer.echo(f"error: {UnknownName('benchmark', name, (*NAMES, 'all'))}", err=True)
        raise typer.Exit(2)
    asked = {name: value for name, value in (("runs", runs), ("keep", keep), ("only", only)) if value is not None}
    for option in asked:
        belongs = "assignors" if option == "only" else "rebalances"
        if name != belongs:
            typer.echo(f"error: --{option} is only for the benchmark {belongs}, not {name}", err=True)
            raise typer.Exit(2)
    failed = False
    for each in NAMES if name == "all" else (name,):
        failed |= not _run(each, quick, json_, asked)
    raise typer.Exit(1 if failed else 0)


def _run(name: str, quick: bool, json_: bool, asked: dict[str, Any]) -> bool:
    """Run one benchmark; returns whether it finished."""
    kept = ResultFile(name, quick)
    try:
        run: Callable[..., Iterator[Result]] = import_module(f".{name}", __package__).run
        for result in run(quick, **asked):
            kept.add(result)
            typer.echo(json.dumps(result.row()) if json_ else result.text())
    except KafkaAssignorsError as error:
        typer.echo(f"error: benchmark {name}: {error}", err=True)
        return False
    except ModuleNotFoundError as missing:
        typer.echo(f"error: benchmark {name} needs {missing.name}: pip install 'kafka-assignors[all]'", err=True)
        return False
    finally:
        kept.close()
    typer.echo(f"raw results: {kept.path.relative_to(kept.path.parents[2])}", err=True)
    return True


if __name__ == "__main__":
    app()
