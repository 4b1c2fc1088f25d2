"""docs/optimum.md: its examples run, and its picture has their numbers."""

from __future__ import annotations

import doctest
import re

from tests.support.places import ROOT

DOCS = ROOT / "docs"
FLAGS = doctest.NORMALIZE_WHITESPACE


def examples():
    return doctest.DocTestParser().get_doctest((DOCS / "optimum.md").read_text(), {}, "optimum.md", None, 0)


def test_the_worked_example():
    test = examples()
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test, clear_globs=False)
    assert result.attempted >= 15
    assert result.failed == 0


def test_the_picture_shows_the_same_numbers():
    test = examples()
    assert doctest.DocTestRunner(optionflags=FLAGS).run(test, clear_globs=False).failed == 0
    had, units, made = test.globs["had"], test.globs["units"], test.globs["made"]
    audit, wide, payments = test.globs["classes"].size.tolist()
    expected = {"size-audit": audit, "size-orders": wide, "size-payments": payments}
    names = list(made.loads)
    expected |= {f"load-{name}": load for name, load in made.loads.items()}
    expected |= {f"price-{name}": price[0] for name, price in made.certificate.prices.items()}
    expected |= {f"kept-{names[m]}": int(n) for m, n in zip(had[1], units.kept, strict=True) if n}
    expected |= {f"dealt-{names[m]}": int(n) for m, n in zip(*units.dealt[1:], strict=True)}

    picture = (DOCS / "optimum.svg").read_text()
    drawn = {name: int(number) for name, number in re.findall(r'id="([\w-]+)"[^>]*>(\d+)<', picture)}
    assert drawn == expected
