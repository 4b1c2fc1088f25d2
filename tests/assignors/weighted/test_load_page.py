"""docs/load.md: its examples run."""

from __future__ import annotations

import doctest
import re

from benchmarks import load_picture
from tests.support.places import ROOT


def test_the_examples_run() -> None:
    page = (ROOT / "docs" / "load.md").read_text()
    test = doctest.DocTestParser().get_doctest(page, {}, "load.md", None, 0)
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert result.attempted >= 9
    assert result.failed == 0


def test_the_picture_is_of_the_example() -> None:
    """`make pictures` draws it again."""
    found = load_picture.example()

    assert (ROOT / "docs" / "load.svg").read_text("utf-8") == load_picture.svg(found)
    drawn = re.findall(r'font-weight="bold">([\d.]+)<', load_picture.svg(found))
    made = found["made"].load
    assert drawn[3:] == [f"{made.work[m] / made.capacity[m]:g}" for m in ("m1", "m2", "m3")]
