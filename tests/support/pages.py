"""The pages that people read: README and docs, with their examples, headings and anchors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import ROOT

PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("[be]*/README.md"))]
}
"""Path from the root -> text."""


@dataclass(frozen=True)
class Block:
    """One fenced block. `heading` is the last one above it, `line` the number of its first line, from 1."""

    page: str
    heading: str
    language: str
    line: int
    code: str


def blocks(*languages: str) -> list[Block]:
    """All fenced blocks in one of these languages, by page and line."""
    return [block for page, text in PAGES.items() for block in _blocks(page, text) if block.language in languages]


def _blocks(page: str, text: str) -> list[Block]:
    page_blocks, heading, opened = [], "", None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if opened is None:
                opened = (line[3:].strip(), number + 1, [])
            else:
                page_blocks.append(
                    Block(page, heading, opened[0], opened[1], "".join(f"{code_line}\n" for code_line in opened[2]))
                )
                opened = None
        elif opened is not None:
            opened[2].append(line)
        elif line.startswith("#"):
            heading = line.lstrip("# ").strip()
    assert opened is None, f"{page}: a block is not closed"
    return page_blocks


def example(page: str, word: str, language: str = "python") -> str:
    """The one example of a page that has this word."""
    (block,) = (b for b in blocks(language) if b.page == page and word in b.code)
    return block.code


def anchors(page: str) -> set[str]:
    """What a link to a page may name behind the ``#``: its headings, as GitHub and Python-Markdown spell them."""
    outside = re.sub(r"^```.*?^```", "", PAGES[page], flags=re.DOTALL | re.MULTILINE)
    return {slug(heading) for heading in re.findall(r"^#+ +(.+)$", outside, re.MULTILINE)}


def slug(heading: str) -> str:
    """A heading as an anchor.

    GitHub and Python-Markdown agree on headings of ASCII letters, digits, spaces, commas and backquotes.
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def path_of(page: str) -> Path:
    """Where a page lies."""
    return ROOT / page
