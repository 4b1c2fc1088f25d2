"""Sample mutants of the judge and count those that its tests notice.

``python -m tests.mutation --sample 400 --seed 1``

The tests need no broker and start no process: a mutant lives in a fork, whose own processes would import the module
without its change.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import random
import resource
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest
import typer
from rich.console import Console
from rich.progress import Progress

from tests.mutation.inplace import Case, Recorder, Session, forked, limit
from tests.mutation.mutants import mutants, mutated
from tests.support.places import ROOT

PACKAGE = ROOT / "kafka_assignors"
"""Where modules are imported from: code knows its file by that path, though its folder is a link."""
SUBJECTS = (
    *(
        "integration/checker/transitions",
        "integration/checker/laws",
        "integration/checker/ledger",
        "integration/checker/busy",
        "integration/checker/planned",
        "integration/checker/reconciliation",
        "integration/checker/slack",
        "integration/checker/verdict",
        "history/timeline",
        "history/zombies",
    ),
    *("integration/history/clocks", "integration/history/form", "history/events/lines"),
    "integration/history/manifest",
    *("integration/history/read", "integration/history/schema"),
)
"""What is mutated, below ``kafka_assignors/``: modules of the judge, and folders of modules. What reads the coordinator
log needs a broker; on what steps cost (``integration/checker/rebalance_costs``) no verdict depends."""

TESTS = (
    "integration/checker/judge/test_accepted.py",
    "integration/checker/judge/test_boundaries.py",
    "integration/checker/judge/test_exact.py",
    "integration/checker/judge/test_ledger.py",
    "integration/checker/judge/test_close.py",
    "integration/checker/judge/test_told.py",
    "integration/checker/judge/test_exactly_once.py",
    "integration/checker/judge/test_judged.py",
    "integration/checker/judge/test_busy.py",
    "integration/checker/judge/test_cut_off.py",
    "integration/checker/judge/test_planned.py",
    "integration/checker/judge/test_rests.py",
    "integration/checker/judge/test_quiet.py",
    "integration/checker/judge/test_standing.py",
    "integration/checker/judge/test_migrated.py",
    "integration/checker/judge/test_truncation.py",
    "integration/checker/judge/test_reconciled.py",
    "integration/checker/judge/test_witnesses.py",
    "integration/checker/judge/test_anomalies.py",
    "integration/checker/judge/test_clocks_apart.py",
    "integration/checker/judge/test_coordinator_time.py",
    "integration/checker/test_wire_laws.py",
    "integration/checker/test_checker_laws.py",
    "integration/checker/test_fault_laws.py",
    "integration/checker/test_timeline.py",
    "integration/checker/test_zombies.py",
    "integration/checker/test_epochs.py",
    "integration/checker/test_verdict.py",
    "integration/checker/test_rebalance_costs.py",
    "clients/confluent/test_law.py",
    "history/test_lines.py",
    "integration/history/test_form.py",
    "integration/history/test_manifest.py",
    "integration/history/test_clocks.py",
    "integration/history/test_schema.py",
    "integration/history/test_bodies.py",
    "integration/history/test_history.py",
    "integration/history/test_integrity.py",
    "integration/history/test_hostile_files.py",
    "integration/history/test_any_value.py",
    "integration/checker/test_checker.py",
    "integration/checker/judge/test_requests.py",
    "integration/checker/judge/test_facts.py",
)
"""Tests under ``tests/`` that judge histories without a broker; those first that take little and notice much."""

LEFT_OUT = (
    # It takes as long as all others together, and judges no history.
    "integration/checker/test_checker.py::test_four_times_the_events_take_little_more_than_four_times_the_work",
    # `integration/checker/judge/test_exact.py` has the same cases, and asks for more.
    "integration/checker/test_checker.py::test_a_damaged_run_is_false_by_the_law_it_breaks",
    "integration/checker/test_checker.py::test_a_damaged_cooperative_run_is_false",
    "integration/checker/test_checker_laws.py::test_a_broken_law_is_found_with_its_witnesses",
    "integration/checker/test_fault_laws.py::test_what_breaks_a_law_is_found_with_its_witnesses",
    "integration/checker/judge/test_accepted.py::test_a_history_that_was_called_true_is_false",
    "integration/checker/test_checker_laws.py::test_a_lawful_run_is_judged_where_a_law_applies_and_only_there",
    "integration/checker/test_fault_laws.py::test_what_is_lawful_is_judged_and_true",
    "integration/checker/judge/test_close.py::test_what_is_lawful_by_a_little_is_true",
    "integration/checker/judge/test_close.py::test_what_is_unlawful_by_a_little_is_false",
    "integration/checker/judge/test_witnesses.py::test_witnesses_that_differ_are_found",
    "integration/checker/judge/test_witnesses.py::test_sound_neighbours_are_true",
    "integration/checker/judge/test_reconciled.py::test_each_damage_breaks_its_law",
    "integration/checker/judge/test_reconciled.py::test_what_the_broker_may_write_of_a_member_is_true",
    "integration/checker/judge/test_migrated.py::test_each_damage_breaks_its_law",
    # They ask a process of its own, which has no mutant.
    "integration/history/test_hostile_files.py::test_a_folder_that_is_not_there_and_one_without_a_history_stay_errors",
    "integration/history/test_hostile_files.py::test_a_folder_with_very_many_files_is_told_at_once",
    "integration/history/test_hostile_files.py::test_whatever_a_file_is_the_verdict_is_unknown_soon",
    "integration/history/test_hostile_files.py::test_whatever_a_line_is_the_verdict_is_unknown_soon",
    "integration/history/test_hostile_files.py::test_whatever_the_manifest_is_the_verdict_is_unknown_soon",
)
"""Tests of these that are left out."""

OF_FILES = (
    "integration/history/test_history.py",
    "integration/history/test_integrity.py",
    "integration/history/test_hostile_files.py",
)
"""Tests that read files: for mutants of what reads them."""
READERS = "history"

EQUIVALENT = Path(__file__).with_name("equivalent.json")
KILLED, SURVIVED = "killed", "survived"


def named(case: Case) -> str:
    """A mutant as results have it."""
    return f"{case.file.relative_to(PACKAGE)}:{case.mutant.line}: {case.mutant.what}"


def timeless(case: Case) -> str:
    """A mutant by the text of its line, which stays when others come and go."""
    line = case.file.read_text().splitlines()[case.mutant.line - 1].strip()
    return f"{case.file.relative_to(PACKAGE)}: {line}: {case.mutant.what}"


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


def files() -> list[Path]:
    """All files of the subjects."""
    found: list[Path] = []
    for subject in SUBJECTS:
        path = PACKAGE / subject
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return found


def population() -> list[Case]:
    """Every mutant of the subjects, file by file."""
    return [Case(file, mutant) for file in files() for mutant in mutants(file.read_text())]


def run_tests(*plugins: object) -> int:
    """All tests, in this process; returns pytest's exit code."""
    where = [str(ROOT / "tests" / test) for test in TESTS]
    # The same examples for every mutant: a lucky draw is no test.
    options = [
        *("-x", "-qq", "--tb=native", "--assert=plain", "-m", "not broker and not long", "-p", "no:cacheprovider"),
        *("--hypothesis-seed=0", f"--rootdir={ROOT}", *(f"--deselect=tests/{test}" for test in LEFT_OUT)),
    ]
    return int(pytest.main([*options, *where], plugins=list(plugins)))


def fitting(case: Case, test: str) -> bool:
    """Whether a test is one for a mutant: those of files are for what reads them."""
    reads = READERS in case.file.relative_to(PACKAGE).parts
    return reads or not any(test.startswith(f"tests/{each}::") for each in OF_FILES)


def imported_anew(case: Case, took_s: float) -> bool:
    """Whether a test fails when the module is imported with its mutant; they take so long without it."""
    limit(took_s)
    sys.meta_path.insert(0, _Mutated(case))
    return run_tests() != 0


def anew_without_change(case: Case) -> float | None:
    """CPU seconds of all tests when all is imported anew in a fork, as for this mutant; None: one fails unchanged."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ((_, failed),) = forked([case], lambda _: run_tests() != 0, 1)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return None if failed else after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_by_imports() -> Recorder:
    """Import all that the tests need, and forget it again."""
    recorder = Recorder(files())
    recorder.before_tests()
    for test in TESTS:
        importlib.import_module("tests." + test.removesuffix(".py").replace("/", "."))
    recorder.stop()
    forget()
    return recorder


def forget() -> None:
    """Of what was imported, keep only what no mutant, nor a test of one, may be part of."""
    for name in [name for name in sys.modules if name.startswith(("kafka_assignors.", "tests."))]:
        if not name.startswith(__package__ or ""):
            del sys.modules[name]


def answers(drawn: Sequence[Case], workers: int, console: Console, out: Path | None) -> dict[Case, str]:
    """Test each mutant: killed or survived.

    Raises:
        typer.Exit: The tests fail without any change.
    """
    before = out.read_text().splitlines() if out is not None and out.exists() else []
    known = {row["mutant"]: row["answer"] for row in map(json.loads, before)}
    found = {case: known[named(case)] for case in drawn if named(case) in known}
    drawn = [case for case in drawn if case not in found]
    with Progress(console=console) as bar, out.open("a") if out is not None else nullcontext() as file:
        task = bar.add_task("mutants", total=len(drawn))

        def told(case: Case | None, killed: bool) -> None:
            if case is None:
                return
            found[case] = KILLED if killed else SURVIVED
            bar.advance(task)
            if file is not None:
                print(json.dumps({"mutant": named(case), "answer": found[case]}), file=file, flush=True)

        recorder = run_by_imports()
        anew = [case for case in drawn if recorder.imported(case)]
        took_s = anew_without_change(anew[0]) if anew else 0.0
        if took_s is None:
            raise _unsound(console)
        for case, killed in forked(anew, partial(imported_anew, took_s=took_s), workers):
            told(case, killed)
        session = Session([case for case in drawn if case not in anew], recorder, told, workers, fitting)
        run_tests(session)
        if session.failed:
            raise _unsound(console)
    return found


def _unsound(console: Console) -> typer.Exit:
    console.print("error: the tests fail without any change; run them with pytest")
    return typer.Exit(3)


def main(
    sample: Annotated[int, typer.Option(min=1, help="how many mutants are drawn")] = 400,
    seed: Annotated[int, typer.Option(help="of the draw")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="how many are tested at a time")] = os.cpu_count() or 1,
    at_least: Annotated[float, typer.Option(min=0, max=1, help="share that must be killed")] = 0.9,
    known: Annotated[Path, typer.Option(help="survivors that change nothing -> why, a JSON object")] = Path(
        __file__
    ).parent
    / "equivalent.json",
    only: Annotated[
        Path | None, typer.Option(help="instead of a draw: the mutants of a file as --out writes it")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="each answer is written here as it comes, and not asked for again")
    ] = None,
) -> None:
    """Draw mutants of the judge, test each, list the survivors. Exit 1 when too few were killed."""
    os.environ.setdefault("HYPOTHESIS_PROFILE", "dev")  # few examples: a mutant that only luck meets is a survivor
    console = Console(file=os.fdopen(os.dup(1), "w", encoding="utf-8"))
    sys.stderr = os.fdopen(os.dup(2), "w", encoding="utf-8")  # what this program itself fails of is not silent
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    equivalent = set(json.loads(known.read_text()))
    there = [case for case in population() if timeless(case) not in equivalent]
    if only is None:
        drawn = random.Random(seed).sample(there, min(sample, len(there)))
        console.print(f"{len(drawn)} of {len(there)} mutants, seed {seed}; {len(equivalent)} known to change nothing")
    else:
        names = {json.loads(line)["mutant"] for line in only.read_text().splitlines()}
        drawn = [case for case in there if named(case) in names]
    found = answers(drawn, workers, console, out)
    survivors = sorted(named(case) for case, answer in found.items() if answer == SURVIVED)
    for survivor in survivors:
        console.print(f"survived: {survivor}", soft_wrap=True, markup=False, highlight=False)
    killed = len(drawn) - len(survivors)
    console.print(f"killed {killed} of {len(drawn)}: {killed / len(drawn):.1%}")
    raise typer.Exit(0 if killed >= at_least * len(drawn) else 1)


if __name__ == "__main__":
    typer.run(main)
