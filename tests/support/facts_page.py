"""The table of facts as a page; ``python -m tests.support.facts_page`` writes ``docs/facts.md`` from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.support.damage.facts import EVENT, TABLE
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "facts.md"
_HEAD = """# Facts of a history

Each field of each event, and each event itself, is checked by a law or by the form of a history, or it is *free*: it
could be changed without anybody noticing, and the table says why that is all right. *Partly* free facts are checked
where the other witness is there. The table is `integration/history/facts.json`; a test changes every fact of kept
histories and demands that the verdict is not true wherever the table says *checked*. [The laws](laws.md) say what each
law means. *form*: the reader finds it, and the verdict is unknown.
"""


def page() -> str:
    """The whole page."""
    counts = {"checked": 0, "partly free": 0, "free": 0}
    for fields in TABLE.values():
        for entry in fields.values():
            counts[state(entry)] += 1
    totals = ", ".join(f"{count} are {name}" for name, count in counts.items())
    parts = [_HEAD, f"Of {sum(counts.values())} facts {totals}.\n"]
    for kind, fields in TABLE.items():
        title = "Fields of every event" if kind == "*" else f"`{kind}`"
        parts.append(
            f"## {title}\n\n| fact | checked by | against | free |\n|---|---|---|---|\n" + "".join(_rows(fields))
        )
    return "\n".join(parts)


def state(entry: Mapping[str, str]) -> str:
    """Whether a fact is checked, partly free, or free."""
    if "by" not in entry:
        return "free"
    return "partly free" if "free" in entry else "checked"


def _rows(fields: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for field, entry in fields.items():
        name = "the event itself" if field == EVENT else f"`{field}`"
        laws = ", ".join(
            law if law == "form" else f"[{law}](laws.md#{law.lower()})" for law in entry.get("by", "").split()
        )
        yield f"| {name} | {laws} | {entry.get('against', '')} | {entry.get('free', '')} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
