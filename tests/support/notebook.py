"""Runs a notebook's cells in this process as a kernel would: one namespace; the value of the last line is shown."""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Any]:
    """A notebook as nbformat 4 has it."""
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    assert notebook["nbformat"] == 4
    return notebook


def run(
    notebook: Mapping[str, Any], names: dict[str, Any], without: Collection[str] = ()
) -> Iterator[tuple[dict[str, Any], str]]:
    """Run the code cells in order; yields each cell with what it shows.

    Args:
        notebook: As `read` returns it.
        names: The namespace, which the cells change.
        without: Tags of cells that are left out.
    """
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code" or set(without) & {*cell["metadata"].get("tags", ())}:
            continue
        tree = ast.parse("".join(cell["source"]))
        end = tree.body[-1] if tree.body else None
        last = end if isinstance(end, ast.Expr) else None
        if last is not None:
            tree.body.pop()
        with redirect_stdout(StringIO()) as printed:
            exec(compile(tree, "<cell>", "exec"), names)
            value = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        yield cell, printed.getvalue() + ("" if value is None else f"{value}\n")


def keep(cell: dict[str, Any], shown: str, number: int) -> None:
    """Put what a cell shows into the notebook."""
    cell["execution_count"] = number
    lines = shown.splitlines(keepends=True)
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": lines}] if lines else []
