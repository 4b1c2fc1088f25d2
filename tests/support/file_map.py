"""The page of docs that names every file, made from the modules' docstrings: ``python -m tests.support.file_map``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.places import ROOT

FILE = ROOT / "docs" / "files.md"
PACKAGES = ("kafka_assignors", "producers", "integration", "pipeline")
HEAD = """# Every file

A line per module, folder by folder: the first sentence of the module's docstring. [The design](design.md) has the
folders and why they are cut so. This page is made from the code: `python -m tests.support.file_map`.
"""


def text() -> str:
    """The page."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    for package in PACKAGES:
        folders = sorted({path.parent for path in _modules(ROOT / package)})
        for folder in folders:
            rows = [f"| `{path.name}` | {_sentence(path)} |" for path in sorted(folder.glob("*.py")) if _sentence(path)]
            if rows:
                yield f"## {folder.relative_to(ROOT)}/\n\n| file | what it has |\n|---|---|\n" + "\n".join(rows) + "\n"


def _modules(folder: Path) -> Iterator[Path]:
    """The files of a package; not those of the packages that its links lead to."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _modules(path)
        elif path.suffix == ".py":
            yield path


def _sentence(path: Path) -> str:
    """The first sentence of a module's docstring, on one line and without Markdown's own characters."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    paragraph = " ".join(docstring.split("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")
    end = paragraph.find(". ")
    return paragraph if end < 0 else paragraph[: end + 1]


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
