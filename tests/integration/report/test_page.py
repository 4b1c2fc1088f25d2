"""The page of the harness has every law, with what it grants and what skips it."""

from __future__ import annotations

import re

from kafka_assignors.integration.checker import laws
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "harness.md").read_text("utf-8")


def test_the_page_lists_every_law_with_its_four_columns() -> None:
    rows = [line.strip("|").split("|") for line in PAGE.splitlines() if re.match(r"\| [A-Z]\d \|", line)]

    assert sorted(row[0].strip() for row in rows) == sorted(laws.LAWS)
    assert {len(row) for row in rows} == {4}


def test_the_laws_have_their_sentences_where_the_report_takes_them_from() -> None:
    assert laws.__doc__ is not None
    assert {line[:2] for line in laws.__doc__.splitlines()} >= set(laws.LAWS)
