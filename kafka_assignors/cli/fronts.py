"""Commands that stand in other packages: their options and help are taken from there when they run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer

from ..output import configured
from .common import COULD_NOT_RUN, INTERRUPTED, NAME, UNKNOWN, USAGE, interrupted, require_color
from .common import command as with_common


@dataclass(frozen=True)
class Front:
    """A command of another package.

    Args:
        module: Its module; ``app`` there is the typer app.
        command: Its name there.
        about: One sentence, for the list of commands; its own help has the options.
        epilog: An example.
        live: Whether it takes ``KAFKA_BOOTSTRAP``. Commands that start a broker unless one is named don't: the variable
            must not make them write to a cluster.
        codes: Its exit codes -> ours, where they differ.
    """

    module: str
    command: str
    about: str
    epilog: str
    live: bool = False
    codes: tuple[tuple[int, int], ...] = ()


_HARNESS, _PRODUCERS, _PIPELINE = (
    "kafka_assignors.integration.commands.", "kafka_assignors.producers.__main__", "kafka_assignors.pipeline.cli",
)  # fmt: skip
_JUDGED = ((2, UNKNOWN),)

HARNESS = {
    "watch": Front(_HARNESS + "watch", "watch", "Show owners, lag, silent members and rebalances of live groups.",
                   "watch billing shipping --bootstrap localhost:9092", live=True),
    "up": Front(_HARNESS + "up", "up", "Run a broker, or a cluster, to play with.", "up --topic orders:6"),
    "demo": Front(_HARNESS + "play", "demo", "Disturb groups on a real broker and write a page.", "demo",
                  codes=_JUDGED),
    "test": Front(_HARNESS + "play", "run", "Play a scenario on a real broker and judge it.",
                  "test churn --assignor cooperative-sticky", codes=_JUDGED),
    "judge": Front(_HARNESS + "judge", "judge", "Judge a kept history again, without a broker.",
                   "judge runs/20260131-080000", codes=_JUDGED),
}  # fmt: skip
REPORT = {
    "run": Front(_PIPELINE, "run", "Read topics and groups, write tables, findings and owners.",
                 "report run --topics orders --out tables", live=True),
    "stream": Front(_PIPELINE, "stream", "Add new records to the tables, in batches.",
                    "report stream --topics orders --out tables", live=True),
    "page": Front(_PIPELINE, "report", "Draw the tables of a run as one page.", "report page tables"),
}  # fmt: skip
KEYS = {
    "place": Front(_PRODUCERS, "place", "Tell where a key lives for every client's default partitioner.",
                   "keys place orders user-1 user-2 --partitions 6", live=True, codes=((2, COULD_NOT_RUN),)),
    "audit": Front(_PRODUCERS, "audit", "Name the hash that placed a topic's keys, and the strays.",
                   "keys audit orders", live=True, codes=((2, COULD_NOT_RUN),)),
    "growth": Front(_PRODUCERS, "growth", "Tell the share of keys that another partition count moves.",
                    "keys growth --from 6 --to 12", live=True, codes=((2, COULD_NOT_RUN),)),
}  # fmt: skip


def add(app: typer.Typer, name: str, front: Front, panel: str | None, path: str) -> None:
    """Add a command of another package to an app."""

    def run(context: typer.Context) -> None:
        raise typer.Exit(call(front, path, context.args))

    run.__doc__ = front.about
    app.command(
        name, rich_help_panel=panel, add_help_option=False, epilog=f"Example: {NAME} {front.epilog}",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(run)  # fmt: skip


def there(front: Front) -> Any:
    """A command of another package, as click has it, with -q, -v and --color."""
    known: Any = typer.main.get_command(import_module(front.module).app)
    command = getattr(known, "commands", {front.command: known})[front.command]
    work = command.callback

    def run(**given: Any) -> Any:
        quiet, verbose, color = (given.pop(name) for name in _OUTPUT)
        require_color(color)
        with configured(quiet=quiet, verbose=verbose, color=color):
            try:
                return work(**given)
            except KeyboardInterrupt:  # outside the part of the command that tells it itself
                interrupted()
                raise typer.Exit(INTERRUPTED) from None
            except typer.Exit as ended:
                if ended.exit_code == INTERRUPTED and front.module.startswith(_HARNESS):
                    interrupted("the harness says what it has closed")
                raise

    command.callback = run
    command.params += [param for param in _common_options() if param.name in _OUTPUT]
    return command


def _common_options() -> Sequence[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(with_common(lambda common: 0))  # noqa: ARG005 (only its options are wanted)
    options: Sequence[Any] = typer.main.get_command(app).params
    return options


def call(front: Front, path: str, arguments: Sequence[str]) -> int:
    """Run a command of another package under our name; the exit code as ours."""
    command = there(front)
    words = [_OURS.get(word, word) for word in arguments]
    bootstrap = os.environ.get("KAFKA_BOOTSTRAP") if front.live else None
    if bootstrap and not _NAMES_A_CLUSTER & {word.partition("=")[0] for word in words}:
        words = ["--bootstrap", bootstrap, *words]
    code = command.main(words, prog_name=f"{NAME} {path}", standalone_mode=False) or 0
    if code == INTERRUPTED:  # typer ends without a word if the command was still starting
        interrupted()
    code = dict(front.codes).get(code, code)
    return code if code in (0, 1, USAGE, COULD_NOT_RUN, UNKNOWN, INTERRUPTED) else COULD_NOT_RUN


_OUTPUT = ("quiet", "verbose", "color")
_NAMES_A_CLUSTER = {"--bootstrap", "--config", "--profile", "--set", "-X", "--help"}
_OURS = {"-h": "--help", "-b": "--bootstrap"}
"""Our short options -> theirs."""
