"""docs/load.md: its examples run."""

from __future__ import annotations

import ast
import doctest
import inspect
import re

import kafka_assignors
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


def test_which_assignor_when_names_assignors_and_options_that_there_are() -> None:
    page = (ROOT / "docs" / "load.md").read_text("utf-8")
    table = page.partition("## Which assignor when")[2].partition("\n## ")[0]
    named = re.findall(r"`([A-Z]\w+Assignor)(?:\(([^`]*)\))?`", table)
    assert len(named) >= 9
    for name, options in named:
        call = ast.parse(f"f({options.replace('…', '0').replace('=)', '=0)')})", mode="eval").body
        assert isinstance(call, ast.Call)
        known = inspect.signature(getattr(kafka_assignors, name)).parameters
        assert {each.arg for each in call.keywords} <= known.keys(), name
