"""The mutants that measure the judge's tests: each is one change that can be seen."""

from __future__ import annotations

import ast
import importlib
import json

import pytest

from tests.mutation.__main__ import EQUIVALENT, ROOT, files, population, timeless
from tests.mutation.inplace import NotThereError, change, forked
from tests.mutation.mutants import mutants, mutated

SOURCE = '''"""A module's docstring."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import path

LIMIT: int = 3


def longest(values: list[int], strict: bool = False) -> int:
    """Docstring: 1 < 2."""
    best = 0
    for value in values:
        if value is None or value < 0:
            continue
        best += value
    if best > LIMIT and not strict:
        raise ValueError(f"{best} > {1 + 1}")
    return max((v for v in values if v), default=best)
'''


def test_each_mutant_differs_from_the_source_and_from_every_other():
    whole = ast.unparse(ast.parse(SOURCE))
    changed = [ast.unparse(mutated(SOURCE, mutant)) for mutant in mutants(SOURCE)]
    assert whole not in changed
    assert len(set(changed)) == len(changed) > 10


def test_what_no_behaviour_shows_is_left_alone():
    lines = {mutant.line for mutant in mutants(SOURCE)}
    source = SOURCE.splitlines()
    assert not {number for number in lines if "ocstring" in source[number - 1] or "raise" in source[number - 1]}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a = b < c", ["a = b <= c", "a = b >= c"]),
        ("a = b and c", ["a = b or c"]),
        ("a = not b", ["a = b"]),
        ("a = b + 1", ["a = b - 1", "a = b + 2"]),
        ("a = [b for b in c if b]", ["a = [b for b in c]"]),
        ("a = kind == 'lost'", ["a = kind != 'lost'", "a = kind == 'lost_'"]),
        ("f()", ["pass"]),
    ],
)
def test_changes(source, expected):
    assert [ast.unparse(mutated(source, mutant)) for mutant in mutants(source)] == expected


@pytest.mark.slow
def test_each_mutant_that_is_left_out_still_exists_and_has_its_reason():
    known = json.loads(EQUIVALENT.read_text())

    assert set(known) <= {timeless(case) for case in population()}
    assert all(reason.endswith(".") and len(reason.split()) > 5 for reason in known.values())


def test_code_knows_its_file_by_the_path_under_which_it_is_changed():
    """Else no function is found to be changed, and nobody is asked."""
    for file in files():
        parts = file.relative_to(ROOT).with_suffix("").parts
        module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        assert module.__file__ == str(file)


@pytest.mark.slow
def test_a_mutant_that_is_nowhere_is_no_answer():
    (case, *_) = population()
    nowhere = case._replace(file=case.file.with_name("nowhere.py"))

    with pytest.raises(NotThereError, match="changes no function that was imported"):
        list(forked([nowhere], lambda each: bool(change(each)), 1))
