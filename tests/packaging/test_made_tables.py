"""Tables of docs that are made from docstrings are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import made_tables


@pytest.mark.parametrize("page", made_tables.PAGES, ids=lambda page: page.name)
def test_a_page_has_the_tables_that_are_made(page: Path) -> None:
    text = page.read_text("utf-8")

    assert text == made_tables.anew(text), "write it anew: python -m tests.support.made_tables"


def test_every_table_has_its_place() -> None:
    text = "".join(page.read_text("utf-8") for page in made_tables.PAGES)

    assert [name for name in made_tables.TABLES if text.count(f"<!-- made: {name} -->") != 1] == []
    for word in (
        "| `churn` |", "| `Cut(member, ", "| `.kill(name)` |", "| `send(bootstrap, ", "| `kafka_group` |",
        "| `kill(number)` |", "| `--kafka-require` |", "| `kafka_group_members` |", "| keys audit |",
    ):  # fmt: skip
        assert text.count(f"\n{word}") == 1, word
