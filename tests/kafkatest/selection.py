"""Which of ducktape's tests to run, and what came out."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_COLLECTED = re.compile(
    r"cls=(?P<cls>\w+), function=(?P<function>\w+), injected_args=(?P<args>.*?), file=(?P<file>.*?), ignore="
)


class Case(NamedTuple):
    """One test with its arguments."""

    file: str
    cls: str
    function: str
    arguments: Mapping[str, Any]

    @property
    def symbol(self) -> str:
        """How ducktape names it."""
        return f"{self.file}::{self.cls}.{self.function}@{json.dumps(self.arguments)}"

    @property
    def name(self) -> str:
        """How we name it: without the file, and without arguments that every selected test has."""
        hidden = ("metadata_quorum", "use_new_coordinator", "group_protocol")
        shown = ", ".join(f"{key}={value}" for key, value in self.arguments.items() if key not in hidden)
        return f"{self.function}({shown})"


def collected(output: str) -> list[Case]:
    """The cases that ``ducktape --collect-only`` printed, sorted."""
    found = (
        Case(each["file"], each["cls"], each["function"], ast.literal_eval(each["args"]) or {})
        for each in _COLLECTED.finditer(output)
    )
    return sorted(found, key=lambda case: case.symbol)


def selected(cases: list[Case], protocol: str, pattern: str) -> list[Case]:
    """Cases of a group protocol, on KRaft, whose names have the pattern."""
    return [
        case
        for case in cases
        if case.arguments.get("group_protocol") == protocol
        and case.arguments.get("metadata_quorum", "ISOLATED_KRAFT") == "ISOLATED_KRAFT"
        and re.search(pattern, case.name)
    ]


def outcomes(results: Path) -> list[str]:
    """A line per test of a finished session: what came out, seconds, name, and the last line of a failure's summary.

    `results` is the session's ``report.json``.
    """
    lines = []
    for row in json.loads(results.read_text("utf-8"))["results"]:
        case = Case("", row["cls_name"], row["function_name"], row["injected_args"] or {})
        lines.append(f"{row['test_status']:5}{row['run_time_seconds']:6.0f} s  {case.name}")
        if row["test_status"].upper() == "FAIL":
            said = [line for line in row["summary"].splitlines() if line and not line.startswith((" ", "Traceback"))]
            lines.append(f"               {said[0] if said else row['summary'][:200]}")
    return lines
