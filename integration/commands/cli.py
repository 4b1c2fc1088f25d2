"""The command line: ``python -m kafka_assignors.integration demo | run | judge | watch | up``.

Its commands, options and exit codes are those of ``kafka-assignors``, where ``run`` is called ``test``.
"""

from __future__ import annotations

import typer

from kafka_assignors.frame import guarded

from . import judge, play, up, watch

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False,
    help="A real broker, real members, a kept history, a verdict with witnesses.",
)  # fmt: skip
for _part in (play, judge, watch, up):
    app.add_typer(_part.app)


def main() -> int:
    """Run the command line; returns the exit code."""
    return guarded(app, name="python -m kafka_assignors.integration")
