"""Ask Kafka's own classes for the golden vectors again: ``python -m tests.vectors check`` and ``make``."""

from __future__ import annotations

import functools
import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from kafka_assignors.errors import UnknownName
from kafka_assignors.jvm.locks import kafka_lock

from . import remaking
from .files import FOLDER, MAKERS, NOT_MADE
from .kafka_classes import KafkaClasses

app = typer.Typer(add_completion=False, help=__doc__, no_args_is_help=True)


def _pinned(version: str) -> str:
    try:
        if version:
            kafka_lock(version)
    except UnknownName as error:
        raise typer.BadParameter(str(error)) from None
    return version


Version = Annotated[
    str, typer.Option("--kafka-version", callback=_pinned, help="a pinned version; default: the one of the kept file")
]
Every = Annotated[int, typer.Option(min=1, help="only each n-th line of a file")]
SHOWN = 3


@app.command()
def check(
    files: Annotated[list[str] | None, typer.Argument(help="such as assignors/range.jsonl; default: all")] = None,
    kafka_version: Version = "",
    every: Every = 1,
) -> None:
    """Compare the kept answers with new ones. Exit 1 on any difference."""
    different = 0
    with ExitStack() as started:
        classes = functools.cache(lambda version: started.enter_context(KafkaClasses(version)))
        for name in [_known(each) for each in files] if files else [*MAKERS, *NOT_MADE]:
            if name in NOT_MADE:
                total = sum(1 for line in remaking.lines(FOLDER / name, every) for _ in remaking.cases(line))
                found = remaking.Count(total, 0, [], Counter({NOT_MADE[name]: total}))
            else:
                version = kafka_version or MAKERS[name].version
                found = remaking.check(FOLDER / name, MAKERS[name], classes(version), every)
            different += len(found.different)
            _print(name, found)
    raise typer.Exit(1 if different else 0)


def _print(name: str, found: remaking.Count) -> None:
    numbers = f"equal {found.equal}, different {len(found.different)}, not re-made {found.not_made.total()}"
    typer.echo(f"{name}: cases {found.cases}, {numbers}")
    for reason, count in found.not_made.items():
        typer.echo(f"  not re-made {count}: {reason}")
    for line in found.different[:SHOWN]:
        typer.echo(f"  different: {line}")


@app.command()
def make(
    file: Annotated[str, typer.Argument(help="the kept file whose inputs are asked again")],
    out: Annotated[Path, typer.Option(help="file to write")],
    kafka_version: Version = "",
    every: Every = 1,
) -> None:
    """Write a file with the inputs of a kept one and new answers."""
    name = _known(file)
    if name in NOT_MADE:
        raise typer.BadParameter(f"{name} can't be made: {NOT_MADE[name]}")
    if out.resolve().is_relative_to(FOLDER):
        raise typer.BadParameter(f"{out} is among the golden vectors, which are never edited; write elsewhere")
    maker = MAKERS[name]
    with KafkaClasses(kafka_version or maker.version) as kafka:
        rows = [*remaking.make(FOLDER / name, maker, kafka, every)]
    out.write_text(
        "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows), encoding="utf-8"
    )
    typer.echo(f"{out}: {len(rows)} lines")


def _known(file: str) -> str:
    names = [*MAKERS, *NOT_MADE]
    found = [name for name in names if file == name or Path(file).resolve() == FOLDER / name]
    if not found:
        raise typer.BadParameter(f"no vectors {file!r}; there are {', '.join(names)}")
    return found[0]


if __name__ == "__main__":
    app(prog_name="python -m tests.vectors")
