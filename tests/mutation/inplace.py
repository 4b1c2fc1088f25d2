"""Test mutants in forks of one pytest session: a fork changes one function in place and runs the tests that
run its changed statement.

A session of its own for each mutant would take seconds to collect the tests. What runs as a module is imported (its
constants, defaults and decorators, and functions called meanwhile) can't be changed in place: see `Recorder.imported`.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

from tests.mutation.mutants import Mutant, mutated

LONGER, MORE_S = 2, 5
"""A mutant whose tests compute for so many times as long as without it, and so much more, hangs them, which a reader
notices: it counts as killed."""
_BEFORE_TESTS = "import"
_UNCHANGED = 77
"""What a fork ends with that couldn't change anything."""


class NotThereError(LookupError):
    """What is to be changed isn't there, so no answer says anything of the tests."""


class Case(NamedTuple):
    """One mutant of one module, to be tested."""

    file: Path
    mutant: Mutant


class Recorder:
    """Which lines of functions of some files each test runs."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = {str(file) for file in files}
        self.lines: dict[str, set[tuple[str, int]]] = {}
        self.called: dict[str, set[tuple[str, int]]] = {}  # by the first line of a function

    def during(self, name: str) -> None:
        """From now on what runs is run by this test."""
        ran, called = self.lines.setdefault(name, set()), self.called.setdefault(name, set())

        def line(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                ran.add((frame.f_code.co_filename, frame.f_lineno))
            return line

        def call(frame: FrameType, event: str, _: Any) -> Any:
            code = frame.f_code
            if code.co_filename not in self.files or not code.co_flags & CO_OPTIMIZED:
                return None
            called.add((code.co_filename, code.co_firstlineno))
            return line

        sys.settrace(call)

    def before_tests(self) -> None:
        """From now on modules are imported."""
        self.during(_BEFORE_TESTS)

    def stop(self) -> None:
        """What runs is run by nobody."""
        sys.settrace(None)

    def runs(self, test: str, case: Case) -> bool:
        """Whether a test runs the changed statement."""
        first, last = case.mutant.lines
        return any((str(case.file), line) in self.lines[test] for line in range(first, last + 1))

    def imported(self, case: Case) -> bool:
        """Whether what a mutant changes runs as modules are imported: a function's answer then is kept in one.

        The answer may be a function that was made within it, which has the changed statement and doesn't run yet.
        """
        return case.mutant.function is None or (str(case.file), case.mutant.function) in self.called[_BEFORE_TESTS]


class Session:
    """A pytest plugin: runs the tests once as they are, then each mutant against those that run it.

    Args:
        cases: Mutants within functions.
        recorder: Knows by then what was called as modules were imported.
        told: Called with each mutant and whether a test failed; with None and False first if all tests hold unchanged.
        workers: How many forks run at a time.
        fitting: Whether a mutant is one for a test.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        recorder: Recorder,
        told: Callable[[Case | None, bool], None],
        workers: int,
        fitting: Callable[[Case, str], bool],
    ) -> None:
        self.cases, self.recorder, self.told, self.workers = cases, recorder, told, workers
        self.fitting = fitting
        self.failed = False
        self._took: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running the tests one after the other."""
        self.recorder.stop()
        for item, after in _pairs(session.items):
            begun = time.process_time()
            self.recorder.during(item.nodeid)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            self.recorder.stop()
            self._took[item.nodeid] = time.process_time() - begun
        self.told(None, self.failed)
        if not self.failed:
            self._run(session.items)
        return True

    def _run(self, items: Sequence[pytest.Item]) -> None:
        gc.collect()
        gc.freeze()  # the forks share what there is
        for case, killed in forked(self.cases, lambda case: self._fails(case, items), self.workers):
            self.told(case, killed)

    def _fails(self, case: Case, items: Sequence[pytest.Item]) -> bool:
        change(case)
        running = (item for item in items if self.recorder.runs(item.nodeid, case))
        mine = [item for item in running if self.fitting(case, item.nodeid)]
        limit(sum(self._took[item.nodeid] for item in mine))
        for item, after in _pairs(sorted(mine, key=lambda item: self._took[item.nodeid])):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self.failed:
                return True
        return False


def forked(cases: Sequence[Case], fails: Callable[[Case], bool], workers: int) -> Iterator[tuple[Case, bool]]:
    """Ask in a process of its own for each case, `workers` at a time: case, whether it fails, or never ends.

    Raises:
        NotThereError: A case has no function that could be changed: nobody was asked about it.
    """
    running: dict[int, Case] = {}
    waiting = list(reversed(cases))
    while waiting or running:
        while waiting and len(running) < workers:
            case = waiting.pop()
            if (child := os.fork()) == 0:
                code = 1
                try:
                    code = int(fails(case))
                except NotThereError:
                    code = _UNCHANGED
                finally:
                    os._exit(code)
            running[child] = case
        child, status = os.wait()
        if os.waitstatus_to_exitcode(status) == _UNCHANGED:
            raise NotThereError(f"{running[child]} changes no function that was imported")
        yield running.pop(child), status != 0


def limit(took_s: float) -> None:
    """Die of what takes much longer than this, of this process's own time: what else the machine does kills nothing."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)  # which no limit of ours may exceed, and which we leave as it is
    resource.setrlimit(resource.RLIMIT_CPU, (round(MORE_S + LONGER * took_s), most))


def change(case: Case) -> None:
    """Give the function that has a mutant the mutant's code, wherever else the function is known.

    Raises:
        NotThereError: No such function.
    """
    line = case.mutant.function
    modules = [m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == str(case.file)]
    if not modules:
        raise NotThereError(f"{case.file} wasn't imported")
    module = modules[0]
    whole = compile(mutated(case.file.read_text(), case.mutant), str(case.file), "exec")
    codes = [code for code in _codes(whole) if code.co_firstlineno == line]
    found = [f for f in _own_functions(module) if f.__code__.co_firstlineno == line]
    if not found or len(codes) != 1:  # no other error may end the fork: it would count as a test that noticed
        raise NotThereError(f"{case.file}:{line} has {len(codes)} functions, of which {len(found)} were imported")
    for function in found:
        function.__code__ = codes[0]
    ours = [m for name, m in sys.modules.items() if name.startswith(("kafka_assignors.", "tests."))]
    for each in ours:  # what was computed without the change
        for value in list(vars(each).values()):
            if callable(clear := getattr(value, "cache_clear", None)) and getattr(value, "__wrapped__", None):
                clear()


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Functions of a module and of its classes; what is within functions is part of these."""
    for part in code.co_consts:
        if isinstance(part, CodeType):
            if part.co_flags & CO_OPTIMIZED:  # a function, no class
                if part.co_name != "<lambda>" and not part.co_name.startswith("<"):
                    yield part
            else:
                yield from _codes(part)


def _own_functions(module: ModuleType) -> Iterator[FunctionType]:
    for value in list(vars(module).values()):
        values = list(vars(value).values()) if isinstance(value, type) else [value]
        for each in values:
            function = _plain(each)
            if function is not None and function.__code__.co_filename == module.__file__:
                yield function


def _plain(value: Any) -> FunctionType | None:
    """The function behind what a decorator made of it."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    elif isinstance(value, cached_property):
        value = value.func
    while hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    return value if isinstance(value, FunctionType) else None


def _pairs(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, [*items[1:], None], strict=True)
