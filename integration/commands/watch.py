"""The command that shows live groups."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live

from kafka_assignors.frame import YES, Common, Places, command, topics
from kafka_assignors.output import note

from .common import broker_of, stdout_console

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: kafka-assignors watch billing shipping --bootstrap localhost:9092")
@command
def watch(
    common: Common,
    groups: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="GROUP...",
            show_default=False,
            help="Group ids or shell patterns, also of groups that begin later; all without.",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Show the groups once and exit.")] = False,
    every_s: Annotated[float, typer.Option(min=0.1, help="Seconds between polls.")] = 1.0,
    places: Places = None,
) -> int:
    """Show owners, lag, silent members and rebalances of live groups until Ctrl-C. Changes nothing.

    With --json, a line per poll and group.
    """
    if places is not None and topics(places):
        common.reach("kafka")
    from .group_watcher import GroupWatcher, RecordedGroupWatcher, news, table  # half of a short command's time

    with ExitStack() as stack:
        watcher: GroupWatcher | RecordedGroupWatcher
        if places is None:
            broker = stack.enter_context(broker_of("external", common.connection))
            watcher = GroupWatcher(broker.connection, groups or (), note, follow=not once)
        else:
            watcher = RecordedGroupWatcher(places, lambda: common.connection, groups or (), note)
        stack.enter_context(watcher)
        views = watcher.views()
        if common.as_json or once or not sys.stdout.isatty():
            while True:
                for view in views:
                    if common.as_json:
                        print(json.dumps(view.as_json()), flush=True)
                    else:
                        console = stdout_console()
                        for line in news(view):
                            console.print(line, markup=False, highlight=False)
                        console.print(table(view))
                if once:
                    return YES
                views = watcher.views(every_s)
        with Live(Group(*map(table, views)), refresh_per_second=4) as live:
            while True:
                views = watcher.views(every_s)
                for line in (line for view in views for line in news(view)):
                    live.console.print(line, markup=False, highlight=False)
                live.update(Group(*map(table, views)))
