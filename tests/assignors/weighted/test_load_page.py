"""docs/load.md: its examples run."""

from __future__ import annotations

import doctest

from tests.support.places import ROOT


def test_the_examples_run() -> None:
    page = (ROOT / "docs" / "load.md").read_text()
    test = doctest.DocTestParser().get_doctest(page, {}, "load.md", None, 0)
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert result.attempted >= 9
    assert result.failed == 0
