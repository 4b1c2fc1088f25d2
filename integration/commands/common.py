"""What the commands share: options, the console, clear errors, the broker that the user named."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kafka_assignors.connection import Connection, read_connection
from kafka_assignors.errors import KafkaAssignorsError
from kafka_assignors.output import complain, ended_by_signals, is_quiet, note

from ..broker import KAFKA_VERSION, Broker, start_broker

COULD_NOT_RUN, INTERRUPTED = 3, 130

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
Png = Annotated[Path | None, typer.Option(help="Also write the timeline to this PNG file, for the page of a CI job.")]
Require = Annotated[list[str] | None, typer.Option(help="A law without which the verdict is unknown; repeat for more.")]
Port = Annotated[int | None, typer.Option(help="Port of the broker that is started (default: a free one).")]


@dataclass(frozen=True)
class Where:
    """The broker of a command, as the user named it; see the options."""

    backend: str
    bootstrap: str | None
    config: Path | None
    profile: str | None
    settings: Sequence[str]
    version: str
    port: int | None = None

    @cached_property
    def reached(self) -> Connection | None:
        """How to reach the broker that the user named; None if the command starts one."""
        return reached_by(self.bootstrap, self.config, self.profile, self.settings)


def stdout_console() -> Console:
    """A console for the answer; in a pipe 160 columns wide, where rich would fold tables at 80."""
    return Console() if sys.stdout.isatty() else Console(width=160)


def progress_console(*, unseen: bool = False) -> Console:
    """A console for what comes before the answer."""
    return Console(stderr=True, quiet=True) if unseen or is_quiet() else stdout_console()


@contextmanager
def clear_errors() -> Iterator[None]:
    """Expected failures become one sentence on stderr and exit code 3. Ctrl-C and other signals close everything."""
    try:
        with ended_by_signals():
            yield
    except typer.Exit:
        raise
    except Exception as error:
        if not isinstance(error, (KafkaAssignorsError, OSError)):
            from kafka.errors import KafkaError  # importing kafka-python takes longer than judging a short run

            if not isinstance(error, KafkaError):
                raise
        complain(error)
        raise typer.Exit(COULD_NOT_RUN) from error
    except KeyboardInterrupt as error:
        with suppress(OSError):
            print("interrupted; all started processes are closed", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from error


def reached_by(
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


def broker_of(
    backend: str, bootstrap: Connection | None, port: int | None = None, version: str = KAFKA_VERSION
) -> Broker:
    """The broker of a command: the one that the user named, else a new one."""
    return start_broker("external" if bootstrap else backend, bootstrap=bootstrap, port=port, version=version)


def exit_code(value: bool | None) -> int:
    """The exit code of a verdict."""
    return {True: 0, False: 1, None: 2}[value]
