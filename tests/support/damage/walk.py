"""Walks the table of facts over kept histories: each fact is changed in each way, and drawn ones in threes.

A history that is true although one of its facts was changed is a survivor: the table must say that this fact is free,
at least partly.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from tests.support.damage.facts import Edit, Fact, Kept, entry, hows
from tests.support.facts_page import state

DAMAGES = 20_000
"""Drawn damages over all histories."""


class Trial(NamedTuple):
    """A history that was changed, and what notices it.

    Args:
        notice: ``form``, a law or ``unknown``; None: nothing.
    """

    edits: tuple[Edit, ...]
    notice: str | None

    @property
    def survives(self) -> bool:
        """Whether nothing notices a change of a fact that the table calls checked."""
        return self.notice is None and any(state_of(edit.fact) == "checked" for edit in self.edits)


def state_of(fact: Fact) -> str:
    """What the table says of a fact, as `facts_page.state`.

    Raises:
        LookupError: The table has no entry for it.
    """
    its_entry = entry(fact)
    if its_entry is None:
        raise LookupError(f"the table has no entry for {fact.kind} {fact.field}")
    return state(its_entry)


def each_fact(kept: Kept, seed: int, *, of: str = "checked", most: int | None = None) -> Iterator[Trial]:
    """Change each fact of a history, each way at a place of its own.

    Args:
        of: What the table calls these facts.
        most: Number of ways in which each fact is changed; None: all.
    """
    random = Random(seed)
    for fact, places in sorted(kept.facts.items()):
        if state_of(fact) != of:
            continue
        ways = sorted({how for place in random.sample(places, min(3, len(places))) for how in hows(kept, fact, place)})
        for how in ways if most is None else random.sample(ways, min(most, len(ways))):
            place = random.choice(places)
            if how in hows(kept, fact, place):
                yield from _tried(kept, [Edit(fact, place, how)], random)


def drawn(kept: Kept, seed: str, times: int) -> Iterator[Trial]:
    """Change one to three facts at a time, drawn from all that the history has, until so many changes are made."""
    random, facts = Random(seed), sorted(kept.facts)
    made = 0
    while made < times:
        edits = []
        for fact in random.sample(facts, random.randint(1, 3)):
            place = random.choice(kept.facts[fact])
            edits.append(Edit(fact, place, random.choice(hows(kept, fact, place))))
        if not any(state_of(edit.fact) == "checked" for edit in edits):
            made += 1
            yield Trial(tuple(edits), "free")
            continue
        for trial in _tried(kept, edits, random):
            made += 1
            yield trial


def _tried(kept: Kept, edits: list[Edit], random: Random) -> Iterator[Trial]:
    changed = kept.edited(edits, random)
    if changed.edits:
        yield Trial(tuple(changed.edits), kept.notice(changed))


def words(kept: Kept, edit: Edit) -> dict[str, Any]:
    """An edit as a row of a file: where it is, and what stood there."""
    value: Any = kept.files[edit.place.file][edit.place.line]
    for part in edit.place.path:
        value = value[part]
    place = {"file": edit.place.file, "line": edit.place.line, "path": list(edit.place.path)}
    return {"kind": edit.fact.kind, "field": edit.fact.field, "how": edit.how, **place, "was": value}
