"""The page of the laws has every law, under an anchor of its own, with what it grants."""

from __future__ import annotations

import re

from kafka_assignors.integration.checker import laws
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "laws.md").read_text("utf-8")


def test_the_page_has_every_law_once_with_its_sentence_and_what_it_grants() -> None:
    told = re.findall(r"^### ([A-Z]\d)\n\n[A-Z`].*\.\n\n\* Granted: .+\.$", PAGE, re.MULTILINE)

    assert sorted(told) == sorted(laws.LAWS)
    assert len(re.findall(r"^### [A-Z]\d$", PAGE, re.MULTILINE)) == len(laws.LAWS)
    assert f"by {len(laws.LAWS)} laws" in PAGE


def test_the_laws_have_their_sentences_where_the_report_takes_them_from() -> None:
    assert laws.__doc__ is not None
    assert {line[:2] for line in laws.__doc__.splitlines()} >= set(laws.LAWS)
