"""The laws as their page has them; ``python -m tests.support.explained`` writes them into what ``explain`` prints."""

from __future__ import annotations

import json
import re

from kafka_assignors.integration.checker.laws import LAWS
from tests.support.places import ROOT

FILE = ROOT / "kafka_assignors" / "operator" / "cli" / "explanations.json"
PAGE = ROOT / "docs" / "laws.md"


def laws() -> dict[str, dict[str, str]]:
    """Law -> ``meaning``, ``granted``, ``not_judged`` and ``page``."""
    sections = dict(
        re.findall(r"^### ([A-Z]\d)\n(.*?)(?=^##)", PAGE.read_text("utf-8") + "\n##", re.DOTALL | re.MULTILINE)
    )
    explanations = {}
    for law in LAWS:
        lines = _plain(sections[law]).strip().splitlines()
        notes = {name: next((line[len(start) :] for line in lines if line.startswith(start)), "")
                for name, start in (("granted", "* Granted: "), ("not_judged", "* Not judged: "))}  # fmt: skip
        meaning = " ".join(line for line in lines if line and not line.startswith("* "))
        page = f"docs/laws.md#{law.lower()}"
        explanations[law] = {
            "meaning": meaning.rstrip("."),
            **{n: t.rstrip(".") for n, t in notes.items()},
            "page": page,
        }
    return explanations


def _plain(text: str) -> str:
    """Markdown without links, and without the blank between the lines of a list."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)


if __name__ == "__main__":
    kept = json.loads(FILE.read_text("utf-8"))
    anew = {law: {**kept[law], **explanation} for law, explanation in laws().items()}
    anew |= {name: explanation for name, explanation in kept.items() if name not in anew}
    FILE.write_text(json.dumps(anew, indent=1, ensure_ascii=False) + "\n")
