"""The command that shows live groups."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live

from kafka_assignors.output import note

from .common import Bootstrap, Config, Profile, Settings, broker_of, clear_errors, reached_by, stdout_console

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def watch(  # a parameter per option of the command line
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", help="Group ids.")],
    bootstrap: Bootstrap = None,
    config: Config = None,
    profile: Profile = None,
    settings: Settings = None,
    once: Annotated[bool, typer.Option("--once", help="Show the groups once and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line per poll and group.")] = False,
    every_s: Annotated[float, typer.Option(min=0.1, help="Seconds between polls.")] = 1.0,
) -> None:
    """Show owners, lag, silent members and rebalances of live groups until Ctrl-C. Changes nothing."""
    with clear_errors():
        from .group_watcher import GroupWatcher, news, table  # half of a short command's time

    with (
        clear_errors(),
        broker_of("external", reached_by(bootstrap, config, profile, settings, needed=True)) as broker,
        GroupWatcher(broker.connection, groups, note, follow=not once) as watcher,
    ):
        views = watcher.views()
        if as_json or once or not sys.stdout.isatty():
            while True:
                for view in views:
                    if as_json:
                        print(json.dumps(view.as_json()), flush=True)
                    else:
                        console = stdout_console()
                        for line in news(view):
                            console.print(line, markup=False, highlight=False)
                        console.print(table(view))
                if once:
                    return
                views = watcher.views(every_s)
        with Live(Group(*map(table, views)), refresh_per_second=4) as live:
            while True:
                views = watcher.views(every_s)
                for line in (line for view in views for line in news(view)):
                    live.console.print(line, markup=False, highlight=False)
                live.update(Group(*map(table, views)))
