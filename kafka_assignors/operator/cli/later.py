"""Commands that stand in other packages: each is imported when it is called, since some take a second to import."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


@dataclass(frozen=True)
class CommandPlace:
    """Where a command stands: its name in the typer app ``app`` of a module below `kafka_assignors`."""

    module: str
    command: str

    def command_there(self) -> Any:
        """The command, as click has it."""
        group: Any = typer.main.get_command(import_module(f"kafka_assignors.{self.module}").app)
        return group.commands[self.command]


class Later(TyperGroup):
    """A group of commands. The list of commands shows one sentence of each, without importing it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that a line names, with its own options and help."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, real(command), rest


def add(app: typer.Typer, name: str, place: CommandPlace, about: str, panel: str | None = None) -> None:
    """Add a command that stands elsewhere; `about` is one sentence for the list of commands."""

    def entry() -> None:
        raise NotImplementedError  # `Later` resolves it to the command itself

    entry.__doc__ = about
    entry.place = place  # type: ignore[attr-defined]
    app.command(name, rich_help_panel=panel)(entry)


def real(command: Any) -> Any:
    """The command itself, of one in a group."""
    place = getattr(command.callback, "place", None)
    return command if place is None else place.command_there()
