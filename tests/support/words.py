"""Words of the docs that people wrote and must read: ``python -m tests.support.words`` prints them by page.

A word has a letter. Left out are pages and tables that are made from code or raw files, code blocks and link targets.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.places import ROOT

MADE = {"cli.md", "facts.md", "files.md", "options.md"}
"""Pages that a program writes."""
TABLES = {
    "frameworks.md": r"(?ms)^\| framework \|.*?\n\n",  # of kept histories, as tests.packaging.test_frameworks checks
    "service.md": r"(?ms)^\| planted fault \|.*?\n\n",  # tests.support.faults_page
    "versions.md": r"(?ms)^\| members \|.*?\n\n",  # tests.matrix
}
"""Page -> its table of raw files or code; others stand between marks."""


def words(page: Path) -> int:
    """The words of one page."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!-- (?!/).*?<!-- /\w+ -->", "", text, flags=re.DOTALL)
    text = re.sub(TABLES.get(page.name, r"(?!)"), "\n", f"{text}\n\n")
    return sum(bool(re.search(r"[^\W\d_]", word)) for word in re.sub(r"\]\([^)]*\)", "]", text).split())


if __name__ == "__main__":
    counts = {page.name: words(page) for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in MADE}
    for name, count in sorted(counts.items(), key=lambda each: -each[1]):
        print(f"{count:6} {name}")
    print(f"{sum(counts.values()):6} in all")
