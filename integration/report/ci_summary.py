"""A short Markdown summary of a verdict, in the file that GitHub Actions shows on a job's page.

GitHub renders Markdown and HTML. Names and messages come from topics, members and exceptions, so each of them stands in
a code span, in which nothing is markup: no links, no mentions, no HTML.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from kafka_assignors.output import printable

from ..checker import Verdict
from ..history import History
from .service_view import service_view

VARIABLE = "GITHUB_STEP_SUMMARY"
"""Variable with the path of the file; unset or empty: no summary is wanted."""
WORDS = {True: "✓ true", False: "✗ FALSE", None: "? UNKNOWN"}
_LONGEST, _MOST = 300, 10
_TICKS = re.compile("`+")


def code(text: object) -> str:
    """Text from outside as a code span of one line.

    >>> code("<b>orders`s</b>"), code("x" * 400)[-3:]
    ('``<b>orders`s</b>``', 'x…`')
    """
    line = printable(str(text))
    line = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
    ticks = "`" * (1 + max(map(len, _TICKS.findall(line)), default=0))
    pad = " " if line[:1] in ("", "`") or line[-1:] == "`" else ""  # else a tick of the text would lengthen the span's
    return f"{ticks}{pad}{line or '(empty)'}{pad}{ticks}"


def head(command: str, name: object, value: bool | None) -> str:
    """The first line: what was judged, and the verdict."""
    return f"### kafka-assignors {command} {code(name)}: {WORDS[value]}\n\n"


def judged_run(verdict: Verdict, history: History, folder: object, gave_up: str = "") -> str:
    """One run: how many laws held, figures for a person, each broken law in a line, and where the history is.

    Records are told only if the history has one group: another group reads the same records again.
    """
    lines = [f"{verdict.words}.", "", *_table(dict(_figures(verdict, history))), ""]
    lines += _broken(verdict)
    if gave_up:
        lines.append(f"- not played to the end: {code(gave_up.splitlines()[0])}")
    lines += [f"- unknown: {code(reason)}" for reason in verdict.unknown[:_MOST]]
    return "\n".join([*lines, "", f"History: {code(folder)}", "", ""])


def judged_runs(counts: str, others: Sequence[tuple[str, bool | None, str]]) -> str:
    """Many runs: their counts, and of those that aren't true the name, the verdict and why."""
    lines = [counts, "", *(f"- {code(name)} {WORDS[value]}: {code(why)}" for name, value, why in others[:_MOST])]
    if len(others) > _MOST:
        lines.append(f"- and {len(others) - _MOST:,} more")
    return "\n".join([*lines, "", ""])


def is_wanted() -> bool:
    """Whether there is a file for a summary."""
    return bool(os.environ.get(VARIABLE))


def append(text: str) -> None:
    """Append to the job's summary, if there is one. A file that can't be written is told on stderr, and no error."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        with suppress(OSError):
            print(printable(f"warning: {VARIABLE} {path}: {error.strerror}; no summary is written"), file=sys.stderr)


def _figures(verdict: Verdict, history: History) -> Iterator[tuple[str, str]]:
    if len({event.group for event in history.events if event.group is not None}) == 1:
        view = service_view(history)
        yield "records sent", f"{view.sent:,}"
        if view.unread is None or view.unwritten is None:
            yield from dict.fromkeys(("processed", "lost"), "unknown").items()
        else:
            yield "processed", f"{view.sent - view.unread - view.unwritten:,}"
            yield "lost", f"{view.unread:,}" + (f" ({view.unwritten:,} unknown)" if view.unwritten else "")
        yield "read twice", "unknown" if view.read_twice is None else f"{view.read_twice:,}"
        yield "refused commits", f"{view.refused_commits:,}"
        if view.without_output is not None:
            yield "without an output", f"{view.without_output:,}"
            yield "several outputs", f"{view.several_outputs:,}"
            yield "behind a later output of their key", f"{view.overtaken:,}"
        if view.committed_first is not None:
            yield "committed before their output", f"{view.committed_first:,}"
    yield "longest stop", f"{verdict.measures['longest_gap_ms']:,.0f} ms"
    yield "partition·ms without an owner", f"{sum(verdict.measures['downtime_ms'].values()):,.0f}"


def _table(figures: Mapping[str, str]) -> Iterator[str]:
    yield f"| {' | '.join(figures)} |"
    yield f"|{' ---: |' * len(figures)}"
    yield f"| {' | '.join(figures.values())} |"


def _broken(verdict: Verdict) -> Iterator[str]:
    by_law: dict[str, list[str]] = {}
    for violation in verdict.violations:
        by_law.setdefault(violation.law, []).append(violation.message)
    for law, messages in by_law.items():
        times = f" ×{len(messages):,}" if len(messages) > 1 else ""
        yield f"- **{law}**{times}: {code(messages[0])}"
