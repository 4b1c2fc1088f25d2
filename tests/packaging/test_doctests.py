"""The examples in docstrings: each runs and returns the value that it shows; those that need a broker are skipped."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.support.places import ROOT

PACKAGES = ("kafka_assignors", "producers", "integration", "pipeline", "benchmarks")
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def with_examples() -> list[str]:
    """The import names of all modules with an example."""
    found = []
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            place = path.relative_to(ROOT)
            if ">>> " in path.read_text("utf-8") and not any(parent.is_symlink() for parent in path.parents):
                names = place.with_suffix("").parts
                names = names[:-1] if names[-1] == "__init__" else names
                prefix = () if package in ("kafka_assignors", "benchmarks") else ("kafka_assignors",)
                found.append(".".join((*prefix, *names)))
    return sorted(found)


@pytest.mark.parametrize("name", with_examples())
def test_the_examples_of_a_module_run(name: str) -> None:
    module = importlib.import_module(name)

    assert [each for each in doctest.DocTestFinder().find(module) if each.examples], "no docstring has the example"
    assert doctest.testmod(module, optionflags=OPTIONS).failed == 0
