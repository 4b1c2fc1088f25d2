"""Asks for consent before a run makes anything on a broker that it did not start."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import typer

from ..errors import NotAgreed


@dataclass(frozen=True)
class Intent:
    """What a run is about to make on a broker."""

    bootstrap: str
    prefix: str  # prefix of all names
    topics: Mapping[str, int]  # topic -> partition count; removed at the end
    groups: Collection[str]  # group ids; removed at the end
    records: str  # number of records sent, in words; empty: none
    lasting: str | None = None  # topic that stays, with the run's history; None: none

    def __str__(self) -> str:
        topics = (f"{self._short(topic)} ({_partitions(count)})" for topic, count in sorted(self.topics.items()))
        lines = [
            f"{self.bootstrap} is a running broker. This run creates the following there, with names that begin with "
            f"{self.prefix}, and removes it at its end:",
            f"  topics {', '.join(topics)}",
            f"  groups {', '.join(map(self._short, sorted(self.groups)))}",
            f"It sends {self.records} to these topics and to no others." if self.records else "It sends no records.",
        ]
        if self.lasting is not None:
            lines.append(f"It creates topic {self.lasting} (1 partition), which stays, and sends the history there.")
        return "\n".join(lines)

    def _short(self, name: str) -> str:
        return name.removeprefix(self.prefix)

    def require(self, confirmed: bool) -> None:
        """Ask for consent at the terminal, unless `confirmed` (``--confirm``). NotAgreed if refused, or no terminal."""
        if confirmed:
            return
        if not sys.stdin.isatty():
            raise NotAgreed(f"{self}\nThere is no terminal to ask: add --confirm to agree")
        print(self, file=sys.stderr)
        if not typer.confirm("Go on?", err=True):
            raise NotAgreed(f"not agreed; nothing was created at {self.bootstrap}")


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"
