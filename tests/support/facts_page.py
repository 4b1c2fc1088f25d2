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
AGAINST = {
    "A1": "the replay of the same bytes",
    "C1": "the partitions that the member owns",
    "C2": "the committed offset, and the member's other reads",
    "C3": "the acknowledged records",
    "C5": "what was consumed",
    "C6": "the finished records",
    "C7": "the other account of the commit",
    "E1": "what the process wrote",
    "E2": "the process's own account, and the harness's",
    "G1": "the generations before it",
    "G2": "the coordinator's log",
    "G3": "the assignors that the members offer",
    "G4": "the generations of the coordinator's log",
    "G5": "the member, the leader and the coordinator",
    "K1": "the partitioner's rule and the read-back",
    "K2": "the numbers of the sender",
    "K3": "the acknowledged records",
    "O1": "the callbacks of other members",
    "O3": "the partitions of the subscribed topics",
    "P1": "the members' callbacks",
    "R1": "the callbacks of the next owner",
    "R2": "what members claim",
    "R5": "the triggers",
    "R6": "what the member owned",
    "R7": "the member's id, and the coordinator's log",
    "R8": "the generation that the member adopted, and its other callbacks",
    "S1": "the group before",
    "S2": "the process that took the instance id",
    "T1": "the member's session",
    "T3": "the change of the topics",
    "X1": "the outputs that were read back",
    "X2": "the transactions of the members",
    "X3": "the commits of the coordinator log",
    "form": "what a line of its kind may be",
}
"""Law, or the form -> against what it checks a fact."""
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
        by = entry.get("by", "").split()
        laws = ", ".join(law if law == "form" else f"[{law}](laws.md#{law.lower()})" for law in by)
        against = "; ".join(AGAINST[law] for law in by)
        yield f"| {name} | {laws} | {against} | {entry.get('free', '')} |\n"


def by_law() -> str:
    """The part of the laws' page that is made from the table."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for kind, fields in TABLE.items():
        for entry in fields.values():
            for law in entry.get("by", "").split():
                counts[law][kind] += 1
    rows = "".join(
        f"| [{law}](#{law.lower()}) | {AGAINST[law]} | {sum(counts[law].values())}: {_kinds(counts[law])} |\n"
        for law in LAWS
        if law in counts
    )
    others = ", ".join(law for law in LAWS if law not in counts)
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
