"""The command line: ``python -m kafka_assignors.integration demo | run | judge | watch | up``.

Exit codes: 0 verdict true, 1 false, 2 unknown, 3 could not run, 130 interrupted.
"""

from __future__ import annotations

import typer

from kafka_assignors.output import open_streams

from . import judge, play, up, watch

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    help="A real broker, real members, a kept history, a verdict with witnesses.",
)  # fmt: skip
for _part in (play, judge, watch, up):
    app.add_typer(_part.app)


def main() -> None:
    """Run the command line."""
    open_streams()
    app(prog_name="python -m kafka_assignors.integration")
