"""``explain``: a law, a finding of the pipeline, or a cause of ``why`` in words, with an example."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from ...errors import ConfigError
from ...frame import YES, Output
from .words import safe

_HEADINGS = {"law": "Laws of the judge", "finding": "Findings of the pipeline", "cause": "Causes told by why"}


def explanations() -> Mapping[str, Mapping[str, str]]:
    """Name -> ``kind`` (law, finding or cause), ``meaning``, ``example``, ``granted``, ``not_judged``, ``page``."""
    entries: Mapping[str, Mapping[str, str]] = json.loads(
        files(__package__).joinpath("explanations.json").read_text("utf-8")
    )
    return entries


def run(common: Output, name: str | None) -> int:
    """Print one explanation, or the list of all."""
    entries = explanations()
    if name is None:
        return _all(common, entries)
    names = {entry_name.lower(): entry_name for entry_name in entries}
    key = names.get(name.strip().lower())
    if key is None:
        near = difflib.get_close_matches(name.lower(), names, 2, 0.5)
        hint = (
            f"did you mean {' or '.join(names[n] for n in near)}?" if near else "list all by: kafka-assignors explain"
        )
        raise ConfigError(f"nothing is called {name!r}; {hint}")
    entry = entries[key]
    if common.as_json:
        common.print_json({"name": key, **entry})
        return YES
    common.show(_one(key, entry))
    return YES


def _one(name: str, entry: Mapping[str, str]) -> Iterator[str]:
    yield f"[bold]{safe(name)}[/] ({entry['kind']}): {safe(entry['meaning'])}."
    for heading, field in (("Example", "example"), ("Granted", "granted"), ("Not judged", "not_judged")):
        if entry[field]:
            yield f"[bold]{heading}:[/] {safe(entry[field])}" + ("" if entry[field].endswith(".") else ".")
    yield f"[dim]More: {entry['page']}[/]"


def _all(common: Output, entries: Mapping[str, Mapping[str, Any]]) -> int:
    if common.as_json:
        common.print_json([{"name": name, **entry} for name, entry in entries.items()])
        return YES
    console = common.console()
    for kind, heading in _HEADINGS.items():
        console.print(f"[bold]{heading}[/]")
        for name, entry in entries.items():
            if entry["kind"] == kind:
                text = f"  {name:<16}{entry['meaning']}"
                console.print(safe(text if len(text) <= console.width else text[: console.width - 1] + "…"))
    return YES
