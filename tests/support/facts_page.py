"""The table of facts as pages: ``python -m tests.support.facts_page`` writes ``docs/facts.md``, and the laws' part.

That part of ``docs/laws.md`` says of each law against what it checks which facts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from kafka_assignors.integration.checker.laws import LAWS
from tests.support.damage.facts import EVENT, TABLE
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "facts.md"
LAWS_PAGE = ROOT / "docs" / "laws.md"
BEGIN, END = "<!-- facts -->\n", "<!-- /facts -->\n"
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


def by_law() -> str:
    """The part of the laws' page that is made from the table."""
    witness: dict[str, str] = {}
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for kind, fields in TABLE.items():
        for entry in fields.values():
            pairs = zip(entry.get("by", "").split(), entry.get("against", "").split("; "), strict=False)
            for law, against in pairs:
                witness[law] = against
                counts[law][kind] += 1
    rows = "".join(
        f"| [{law}](#{law.lower()}) | {witness[law]} | {sum(counts[law].values())}: {_kinds(counts[law])} |\n"
        for law in LAWS
        if law in witness
    )
    others = ", ".join(law for law in LAWS if law not in witness)
    head = "| law | checks facts against | facts |\n|---|---|---|\n"
    return f"{head}{rows}\n{others} judge what these facts mean together: no field is checked by one of them alone.\n"


def _kinds(counts: Mapping[str, int]) -> str:
    return ", ".join("fields of every event" if kind == "*" else f"`{kind}` {n}" for kind, n in counts.items())


def laws_page(text: str) -> str:
    """The laws' page with that part as the table has it."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + by_law() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    LAWS_PAGE.write_text(laws_page(LAWS_PAGE.read_text("utf-8")), "utf-8")
    PAGE.write_text(page(), "utf-8")
