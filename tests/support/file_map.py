"""The page of docs that names every file, made from the modules' docstrings: ``python -m tests.support.file_map``."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.support.places import ROOT

FILE = ROOT / "docs" / "files.md"
PACKAGES = ("kafka_assignors", "producers", "integration", "pipeline")
HEAD = """# Every file

A line per module, folder by folder: the first sentence of the module's docstring, and the classes and functions that
other modules may use. Above them stand the words by which a line of the folder is recognised. [The design](design.md)
has the folders and why they are cut so. This page is made from the code: `python -m tests.support.file_map`.
"""
WORDS = "Often here, seldom elsewhere: "
"""How the line of a folder's words begins, which the code's next change may put in another order."""
MOST_WORDS = 14


def text() -> str:
    """The page."""
    return "\n".join([HEAD, *_sections()])


def without_words(page: str) -> str:
    """The page without what need not be written anew with each change of the code."""
    return re.sub(rf"^{WORDS}.*\n", "", page, flags=re.MULTILINE)


def _sections() -> Iterator[str]:
    folders = [folder for package in PACKAGES for folder in sorted({path.parent for path in _modules(ROOT / package)})]
    written = {
        folder: Counter(name for path in folder.glob("*.py") for name in _identifiers(path)) for folder in folders
    }
    spread = Counter(name for names in written.values() for name in names)
    for folder in folders:
        rows = [row for path in sorted(folder.glob("*.py")) if (row := _row(path))]
        if rows:
            own = {name: n * math.log(len(folders) / spread[name]) ** 1.5 for name, n in written[folder].items()}
            most = sorted(own, key=lambda name: (-own[name], name))[:MOST_WORDS]
            words = WORDS + ", ".join(f"`{name}`" for name in most)
            head = "| file | what it has | names |\n|---|---|---|"
            yield f"## {folder.relative_to(ROOT)}/\n\n{words}\n\n{head}\n" + "\n".join(rows) + "\n"


def _identifiers(path: Path) -> Iterator[str]:
    """Names and attributes in a file's code, each as often as it stands there."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "arg", None)
        if isinstance(name, str) and len(name) > 3:
            yield name.strip("_")


def _row(path: Path) -> str:
    """The row of a file, "" without a docstring."""
    tree = ast.parse(path.read_text("utf-8"))
    names = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")
    ]
    sentence = _sentence(ast.get_docstring(tree) or "")
    return f"| `{path.name}` | {sentence} | {', '.join(f'`{name}`' for name in names)} |" if sentence else ""


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
