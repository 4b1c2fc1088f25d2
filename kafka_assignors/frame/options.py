"""The options that commands share, each once: what to print, and which cluster."""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..output import going_on, note

if TYPE_CHECKING:
    from rich.console import Console

    from ..connection import Connection

DEFAULT_BOOTSTRAP = "localhost:9092"
"""The broker to ask if nothing names a cluster, as in the documentation of Kafka's own tools; never written to."""

Places = Annotated[
    list[str] | None,
    typer.Option(
        "--from", metavar="PLACE", show_default=False,
        help="Read what the members recorded instead of the coordinator's log: a folder, a file, or topic:NAME. "
        "Repeat for more.",
    ),
]  # fmt: skip
"""Where recordings of members are; None: the cluster is asked."""


def topics(places: Sequence[str]) -> list[str]:
    """The topics among `Places`. Raises typer.BadParameter if one has no name.

    >>> topics(["recordings/", "topic:group-events"])
    ['group-events']
    """
    from ..history.events import TOPIC

    names = [place.removeprefix(TOPIC) for place in places if place.startswith(TOPIC)]
    if "" in names:
        raise typer.BadParameter(f"{TOPIC!r} has no name, as in topic:group-events", param_hint="--from")
    return names


_of_output = partial(typer.Option, rich_help_panel="Output")
_of_cluster = partial(typer.Option, rich_help_panel="Cluster")


@dataclass(frozen=True)
class Output:
    """The options of every command."""

    as_json: Annotated[bool, _of_output("--json", help="One JSON object instead of text.")] = False
    quiet: Annotated[bool, _of_output("--quiet", "-q", help="No notes, no progress.")] = False
    verbose: Annotated[bool, _of_output("--verbose", "-v", help="The Kafka client's log on stderr.")] = False
    color: Annotated[str, _of_output("--color", help="auto, always or never.", metavar="WHEN")] = "auto"

    def console(self, *, stderr: bool = False) -> Console:
        """A console for text: 80 columns in a pipe, without colour unless it is wanted."""
        from rich.console import Console

        stream = sys.stderr if stderr else sys.stdout
        force = {"always": True, "never": False}.get(self.color)
        wide = None if stream.isatty() or "COLUMNS" in os.environ else 80
        return Console(
            stderr=stderr, width=wide, force_terminal=force, no_color=self.color == "never", highlight=False,
            soft_wrap=False,
        )  # fmt: skip

    def show(self, lines: Iterable[str]) -> None:
        """Print lines of rich's markup; a line that is too long goes on below with the same indent."""
        from rich.text import Text

        console = self.console()
        for line in lines:
            words = line.lstrip(" ")
            indent = len(line) - len(words)
            for row in Text.from_markup(words).wrap(console, max(20, console.width - indent)) or [Text()]:
                row.rstrip()
                console.print(Text(" " * indent) + row)

    def note(self, text: str) -> None:
        """Print a note beside the answer, unless `quiet`."""
        if not self.quiet:
            note(text)

    @contextmanager
    def busy(self, doing: str) -> Iterator[Callable[[float], None]]:
        """Show what is being done: live on a terminal, else by a line each `TOLD_EVERY_S`.

        The function that it yields takes the share done, 0 to 1.
        """
        if not sys.stderr.isatty():
            last = deque([0.0], maxlen=1)
            with going_on(doing, lambda: f"{last[0]:.0%}" if last[0] else ""):
                yield last.append
            return
        if self.quiet:
            yield lambda _share: None
            return
        with self.console(stderr=True).status(doing) as status:
            yield lambda share: status.update(f"{doing} {share:.0%}")

    def print_json(self, answer: Any) -> None:
        """Print an answer as one line of JSON."""
        print(json.dumps(answer, ensure_ascii=True, allow_nan=False, default=str))


@dataclass(frozen=True)
class Common(Output):
    """The options of every command that asks a cluster; see `kafka_assignors.connection.read_connection`."""

    bootstrap: Annotated[
        str | None,
        _of_cluster(
            "--bootstrap", "-b", metavar="HOST:PORT",
            help="A broker of the cluster, several with commas; else the variable KAFKA_BOOTSTRAP, else "
            f"{DEFAULT_BOOTSTRAP}.",
        ),
    ] = None  # fmt: skip
    config: Annotated[
        Path | None,
        _of_cluster("--config", metavar="FILE", help="Kafka's client.properties: how to reach the cluster."),
    ] = None
    profile: Annotated[
        str | None,
        _of_cluster(
            "--profile", metavar="NAME",
            help="A section of --config, or of ~/.config/kafka-assignors/profiles.properties.",
        ),
    ] = None  # fmt: skip
    settings: Annotated[
        list[str] | None,
        _of_cluster(
            "--set", "-X", metavar="KEY=VALUE", help="A setting beside --config; a secret as KEY='${env:NAME}'."
        ),
    ] = None

    @property
    def _variable(self) -> str | None:
        # A profile names its own cluster: a variable that is still set must not send the command to another one.
        return os.environ.get("KAFKA_BOOTSTRAP") or None if self.profile is None else None

    @property
    def names_cluster(self) -> bool:
        """Whether the user named a cluster: by an option, or by ``KAFKA_BOOTSTRAP``."""
        return self._chosen or self._variable is not None

    @property
    def _chosen(self) -> bool:
        return bool(self.bootstrap or self.config or self.profile is not None or self.settings)

    @cached_property
    def connection(self) -> Connection:
        """How to reach the cluster that options or ``KAFKA_BOOTSTRAP`` name, else the one at `DEFAULT_BOOTSTRAP`.

        A note says which one if no option did.

        Raises:
            ConfigError: A setting is wrong, or a file or a profile names no broker.
        """
        if not self.names_cluster:
            self.note(f"asks {DEFAULT_BOOTSTRAP}: neither -b, --config, --profile nor KAFKA_BOOTSTRAP names a broker")
            return self._connection(DEFAULT_BOOTSTRAP)
        if not self._chosen:
            self.note(f"asks {self._variable}, as KAFKA_BOOTSTRAP says")
        return self._connection(self._variable)

    @cached_property
    def chosen(self) -> Connection | None:
        """How to reach the cluster that options name; None without them.

        For commands that write: ``KAFKA_BOOTSTRAP`` alone must not choose where they write.

        Raises:
            ConfigError: A setting is wrong.
        """
        return self._connection(None) if self._chosen else None

    def _connection(self, otherwise: str | None) -> Connection:
        from ..connection import read_connection

        connection = read_connection(
            self.bootstrap or None, self.config, self.settings or (), profile=self.profile, otherwise=otherwise
        )
        if connection.ignored:
            self.note(f"{', '.join(connection.ignored)}: no setting of a connection; the command decides it itself")
        return connection

    def reach(self, *modules: str) -> None:
        """Ask the cluster for its brokers before a command imports NumPy and a client: a dead cluster shows at once.

        Raises:
            ModuleNotFoundError: One of `modules`, which the command imports next, isn't installed.
            ClusterError: No broker answers.
            ConfigError: A setting is wrong, or names no broker.
            AccessRefused: The cluster refuses the user.
        """
        from ..connection import require_cluster

        for module in modules:
            if find_spec(module) is None:
                raise ModuleNotFoundError(name=module)
        require_cluster(self.connection)
