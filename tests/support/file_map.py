"""The page of docs that names every file, made from the modules' docstrings: ``python -m tests.support.file_map``."""

from __future__ import annotations

import ast
import builtins
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.support.places import ROOT

FILE = ROOT / "docs" / "files.md"
PACKAGES = ("kafka_assignors", "producers", "integration", "pipeline")
HEAD = """# Every file

A line per module, folder by folder: the first sentence of the module's docstring, the classes and functions that other
modules may use, and the words of the code that often stand in it and seldom elsewhere: search this page for the words
of a line, and it has the file. [The design](design.md) has the folders and why they are cut so. This page is made from
the code: `python -m tests.support.file_map`.
"""
LINES_PER_WORD, FEWEST_WORDS, MOST_WORDS = 5, 4, 80
"""A long file needs more words by which its lines are recognised."""


def text() -> str:
    """The page."""
    return "\n".join([HEAD, *_sections()])


def without_words(page: str) -> str:
    """The page without the last column, which need not be written anew with each change of the code."""
    return re.sub(r"^(\| `.*)\|[^|]*\|$", r"\1", page, flags=re.MULTILINE)


def _sections() -> Iterator[str]:
    folders = [folder for package in PACKAGES for folder in sorted({path.parent for path in _modules(ROOT / package)})]
    written = {path: Counter(_identifiers(path)) for folder in folders for path in sorted(folder.glob("*.py"))}
    spread = Counter(name for names in written.values() for name in names)
    total = Counter(name for names in written.values() for name in names.elements())
    for folder in folders:
        rows = []
        for path in sorted(folder.glob("*.py")):
            # often here, of all places mostly here, and in few files at all
            weight = {
                name: n * math.sqrt(n / total[name]) * math.log(len(written) / spread[name])
                for name, n in written[path].items()
            }
            rows.append(_row(path, sorted(weight, key=lambda name: (-weight[name], name))))
        if any(rows):
            head = "| file | what it has | names | words |\n|---|---|---|---|"
            yield f"## {folder.relative_to(ROOT)}/\n\n{head}\n" + "\n".join(row for row in rows if row) + "\n"


def _identifiers(path: Path) -> Iterator[str]:
    """Names and attributes in a file's code, each as often as it stands there; not Python's own."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        name = next(filter(None, (getattr(node, field, None) for field in ("id", "attr", "arg", "name"))), None)
        if isinstance(name, str) and len(name) > 3 and not hasattr(builtins, name) and not name.startswith("__"):
            yield name.strip("_")


def _row(path: Path, words: list[str]) -> str:
    """The row of a file with the first of these words, "" without a docstring."""
    code = path.read_text("utf-8")
    tree = ast.parse(code)
    names = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")
    ]
    sentence = _sentence(ast.get_docstring(tree) or "")
    most = min(MOST_WORDS, max(FEWEST_WORDS, code.count("\n") // LINES_PER_WORD))
    further = [word for word in words if word not in names][:most]
    return f"| `{path.name}` | {sentence} | {_code(names)} | {_code(further)} |" if sentence else ""


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _modules(folder: Path) -> Iterator[Path]:
    """The files of a package; not those of the packages that its links lead to."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _modules(path)
        elif path.suffix == ".py":
            yield path


def _sentence(docstring: str) -> str:
    """Its first, on one line and without Markdown's own characters."""
    paragraph = " ".join(docstring.split("\n\n", maxsplit=1)[0].split()).replace("``", "`").replace("|", "\\|")
    end = paragraph.find(". ")
    return paragraph if end < 0 else paragraph[: end + 1]


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
