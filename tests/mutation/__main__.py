"""Sample mutants of the judge and count those that its tests notice.

``python -m tests.mutation --sample 400 --seed 1``

Each mutant is judged in a process of its own, forked from one that has imported what all tests need. The tests need no
broker and start no process, as a process of its own would import the module without its change.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import random
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.progress import track

from .mutants import Mutant, mutants, mutated

ROOT = Path(__file__).resolve().parents[2]
SUBJECTS = ("checker", "timeline", "ledger", "history", "changes", "hindered", "laws", "integrity")
"""What is mutated, below ``integration/``: modules, and folders of modules."""

TESTS = (
    "harness/test_checker.py",
    "harness/test_checker_laws.py",
    "harness/test_fault_laws.py",
    "harness/test_hindered.py",
    "harness/test_epochs.py",
    "harness/test_history.py",
    "harness/test_timeline.py",
    "harness/test_claims.py",
    "judge/test_accepted.py",
    "judge/test_boundaries.py",
    "judge/test_exact.py",
    "judge/test_integrity.py",
)
"""Tests under ``tests/`` that judge histories without a broker."""

TIMEOUT_S = 120
"""A mutant whose tests run longer hangs them, which a reader notices: it counts as killed."""

KILLED, SURVIVED, BROKEN = "killed", "survived", "broken"


@dataclass(frozen=True, slots=True)
class Case:
    """One mutant of one module, to be tested."""

    file: Path
    mutant: Mutant

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.mutant.line}: {self.mutant.what}"


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import one file with its change; every other file as it is."""

    def __init__(self, case: Case) -> None:
        self.case = case
        parts = case.file.relative_to(ROOT).with_suffix("").parts
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if name != self.name:
            return None
        package = self.case.file.name == "__init__.py"
        return importlib.util.spec_from_file_location(
            name,
            self.case.file,
            loader=self,
            submodule_search_locations=[str(self.case.file.parent)] if package else None,
        )

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        code = compile(mutated(self.case.file.read_text(), self.case.mutant), str(self.case.file), "exec")
        exec(code, module.__dict__)


def cases() -> list[Case]:
    """Every mutant of the subjects, file by file."""
    files = []
    for subject in SUBJECTS:
        path = ROOT / "integration" / subject
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return [Case(file, mutant) for file in files for mutant in mutants(file.read_text())]


def run_tests(case: Case | None) -> str:
    """Run the tests in this process, which has imported none of the subjects, with the mutant in place."""
    import pytest

    if case is not None:
        sys.meta_path.insert(0, _Mutated(case))
    signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
    if case is not None:
        signal.alarm(TIMEOUT_S)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    where = [str(ROOT / "tests" / test) for test in TESTS]
    # The same examples for every mutant: a lucky draw is no test.
    options = [
        "-x",
        "-q",
        "-m",
        "not broker and not long",
        "-p",
        "no:cacheprovider",
        "--hypothesis-seed=0",
        f"--rootdir={ROOT}",
    ]
    code = pytest.main([*options, *where])
    return {0: SURVIVED, 1: KILLED}.get(int(code), KILLED if case is not None else BROKEN)


def judge(case: Case | None) -> tuple[Case | None, str]:
    """Fork, so that the next mutant meets fresh modules, and wait for the answer."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if run_tests(case) == SURVIVED else 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return case, SURVIVED if status == 0 else KILLED


def warm() -> None:
    """Import what every test needs and no mutant touches."""
    import hypothesis
    import jsonschema
    import numpy
    import pytest

    del hypothesis, jsonschema, numpy, pytest
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main(
    sample: Annotated[int, typer.Option(min=1, help="how many mutants are drawn")] = 400,
    seed: Annotated[int, typer.Option(help="of the draw")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="how many are tested at a time")] = os.cpu_count() or 1,
    at_least: Annotated[float, typer.Option(min=0, max=1, help="share that must be killed")] = 0.9,
    known: Annotated[Path, typer.Option(help="survivors that change nothing, a JSON list")] = Path(__file__).parent
    / "equivalent.json",
) -> None:
    """Draw mutants of the judge, test each, list the survivors. Exit 1 when too few were killed."""
    equivalent = set(json.loads(known.read_text())) if known.exists() else set()
    population = [case for case in cases() if str(case) not in equivalent]
    drawn = random.Random(seed).sample(population, min(sample, len(population)))
    print(f"{len(drawn)} of {len(population)} mutants, seed {seed}; {len(equivalent)} known to change nothing")
    context = get_context("fork")
    survivors: list[str] = []
    with context.Pool(workers, initializer=warm, maxtasksperchild=None) as pool:
        survivors = _survivors(pool, drawn)
    for survivor in sorted(survivors):
        print(f"survived: {survivor}")
    killed = len(drawn) - len(survivors)
    print(f"killed {killed} of {len(drawn)}: {killed / len(drawn):.1%}")
    raise typer.Exit(0 if killed >= at_least * len(drawn) else 1)


def _survivors(pool: Pool, drawn: Sequence[Case]) -> list[str]:
    _, sound = pool.apply(judge, (None,))
    if sound != SURVIVED:
        typer.echo("error: the tests fail without any change; run them by themselves: pytest tests/harness", err=True)
        raise typer.Exit(3)
    answers = track(pool.imap_unordered(judge, drawn), total=len(drawn), description="mutants")
    return [str(case) for case, answer in answers if answer == SURVIVED]


if __name__ == "__main__":
    typer.run(main)
