"""What the commands share: options, the console, the broker that the user named, the exit code of a verdict."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kafka_assignors.connection import Connection
from kafka_assignors.frame import NO, UNKNOWN, YES
from kafka_assignors.frame.running import interrupted
from kafka_assignors.output import is_quiet

from ..broker import KAFKA_VERSION, Broker, start_broker

Backend = Annotated[
    str, typer.Option(help="jvm (a child process), shared (one for all nodes), docker, or external (with --bootstrap).")
]
KafkaVersion = Annotated[str, typer.Option("--kafka-version", help="Version of the broker that is started.")]
Png = Annotated[Path | None, typer.Option(help="Also write the timeline to this PNG file, for the page of a CI job.")]
Require = Annotated[list[str] | None, typer.Option(help="A law without which the verdict is unknown; repeat for more.")]
Port = Annotated[int | None, typer.Option(help="Port of the broker that is started (default: a free one).")]


@dataclass(frozen=True)
class Where:
    """The broker of a command, as the user named it; see the options."""

    backend: str
    reached: Connection | None  # how to reach the broker that the user named; None if the command starts one
    version: str
    port: int | None = None


def stdout_console() -> Console:
    """A console for the answer; in a pipe 160 columns wide, where rich would fold tables at 80."""
    return Console() if sys.stdout.isatty() else Console(width=160)


def progress_console(*, unseen: bool = False) -> Console:
    """A console for what comes before the answer."""
    return Console(stderr=True, quiet=True) if unseen or is_quiet() else stdout_console()


@contextmanager
def closing_all() -> Iterator[None]:
    """Context manager around what starts processes; an interrupted user is told that none of them is left."""
    try:
        yield
    except KeyboardInterrupt:
        interrupted("interrupted; all started processes are closed")
        raise


def broker_of(
    backend: str, bootstrap: Connection | None, port: int | None = None, version: str = KAFKA_VERSION
) -> Broker:
    """The broker of a command: the one that the user named, else a new one."""
    return start_broker("external" if bootstrap else backend, bootstrap=bootstrap, port=port, version=version)


def exit_code(value: bool | None) -> int:
    """The exit code of a verdict."""
    return {True: YES, False: NO, None: UNKNOWN}[value]
