"""The last lines that a service's processes printed, for a verdict that isn't true."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from kafka_assignors.history.events import file_stem
from kafka_assignors.output import printable

from ..checker import Verdict

_LINES, _LOGS = 10, 5
_LONGEST = 300
_TAIL_BYTES = 64 * 1024
"""More than the last lines of most logs have; a service may have printed gigabytes."""


def log_lines(folder: Path, verdict: Verdict, groups: Collection[str]) -> Iterator[str]:
    """The last lines of the logs of the processes that the verdict's witnesses name; if they name none, of all.

    Args:
        folder: The history, where the logs are.
        verdict: Over that history.
        groups: Groups whose members are processes of a service.
    """
    witnesses = [witness for violation in verdict.violations for witness in violation.witnesses]
    stems = [file_stem(w.group, w.member, w.incarnation) for w in witnesses if w.member and w.group in groups]
    paths = [path for path in (folder / f"{stem}.log" for stem in dict.fromkeys(stems)) if path.is_file()]
    if not paths:
        paths = sorted(path for group in sorted(groups) for path in folder.glob(f"{file_stem(group)}.*.log"))
    for path in paths[:_LOGS]:
        *_, member, _incarnation, _log = path.name.split(".")
        lines = _last_lines(path)
        yield f"{member} printed last, to {path}:" if lines else f"{member} printed nothing"
        yield from (f"  {line}" for line in lines)
    if len(paths) > _LOGS:
        yield f"{len(paths) - _LOGS} logs more are in {folder}"


def _last_lines(path: Path) -> list[str]:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
    return [printable(line)[:_LONGEST] for line in text.splitlines() if line.strip()][-_LINES:]
