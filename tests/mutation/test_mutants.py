"""The mutants that measure the judge's tests: each is one change that can be seen."""

from __future__ import annotations

import ast
import importlib
import json
import sys

import pytest

from tests.mutation import inplace
from tests.mutation.__main__ import (
    EQUIVALENT,
    LEFT_OUT,
    PACKAGE,
    ROOT,
    TESTS,
    files,
    fitting,
    forget,
    population,
    timeless,
)
from tests.mutation.inplace import Case, NotThereError, change, forked, limit
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


SOME = Case(PACKAGE / "history/timeline.py", mutants("a = 1")[0])


def test_the_tests_are_there():
    """Else none runs: a file that was moved ends every run of this program."""
    tests = ROOT / "tests"
    assert [test for test in TESTS if not (tests / test).is_file()] == []
    left_out = [test.split("::") for test in LEFT_OUT]
    assert [(file, name) for file, name in left_out if f"def {name}(" not in (tests / file).read_text("utf-8")] == []


@pytest.mark.parametrize("took_s", [0, 10_000])
def test_what_takes_as_long_as_without_a_change_is_not_killed_for_it(took_s):
    """However long that is: a limit that can't be set would fail the fork, which counts as a test that noticed."""
    assert [killed for _, killed in forked([SOME], lambda _: bool(limit(took_s)), 1)] == [False]


@pytest.mark.slow
def test_what_takes_much_longer_than_without_a_change_is_killed(monkeypatch):
    monkeypatch.setattr(inplace, "MORE_S", 1)

    assert [killed for _, killed in forked([SOME], endless, 1)] == [True]


def endless(_):
    limit(0)
    while True:
        pass


@pytest.mark.parametrize(
    ("file", "test", "fits"),
    [
        ("integration/history/read.py", "integration/history/test_history.py", True),
        ("history/events/lines.py", "integration/history/test_hostile_files.py", True),
        ("integration/checker/slack.py", "integration/history/test_integrity.py", False),
        ("integration/checker/slack.py", "integration/checker/judge/test_close.py", True),
    ],
)
def test_what_reads_files_is_for_the_tests_that_read_files(file, test, fits):
    assert fitting(SOME._replace(file=PACKAGE / file), f"tests/{test}::test") is fits


def test_a_module_is_imported_anew_wherever_it_is():
    """Else its mutant is in none of what the tests run, and survives."""

    def forgets(_):
        forget()
        return any(str(getattr(module, "__file__", None)) in subjects for module in sys.modules.values())

    subjects = set(map(str, files()))
    importlib.import_module("kafka_assignors.history.timeline")
    assert any(getattr(module, "__file__", None) in subjects for module in sys.modules.values())
    assert [kept for _, kept in forked([SOME], forgets, 1)] == [False]


@pytest.mark.slow
def test_a_mutant_that_is_nowhere_is_no_answer():
    (case, *_) = population()
    nowhere = case._replace(file=case.file.with_name("nowhere.py"))

    with pytest.raises(NotThereError, match="changes no function that was imported"):
        list(forked([nowhere], lambda each: bool(change(each)), 1))
