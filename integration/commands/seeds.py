"""Many seeds of one scenario on one broker, each in its own folder. Seeds with a verdict aren't replayed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kafka_assignors.errors import ConfigError
from kafka_assignors.output import printable

from ..broker import Broker
from ..history.manifest import NAME as MANIFEST
from ..report.report import GroupResult, Report, render_html
from ..scenario import Scenario
from ..scenario.catalogue import STEP_S
from ..scenario.chaos import named
from ..scenario.clients import of_client
from ..scenario.runner import run_scenario
from ..topics.sandbox import Sandbox
from .judged import judged

VERDICT = "verdict.json"
_SPAN = re.compile(r"(\d+)\.\.(\d+)")


@dataclass(frozen=True)
class SeedResult:
    """Result of one seed."""

    seed: int
    value: bool | None
    broken: Mapping[str, int]  # law -> number of violations
    unknown: Sequence[str]  # the first few reasons why the verdict is unknown
    seconds: float  # duration of the run and its judgement
    folder: str
    manifest: str  # SHA-256 of the manifest of the judged history
    scenario: str  # SHA-256 of the scenario that was played

    def words(self) -> str:
        """One line of the summary."""
        verdict = {True: "true", False: "FALSE", None: "UNKNOWN"}[self.value]
        laws = ", ".join(f"{law} ×{times}" for law, times in self.broken.items())
        why = laws or (printable(self.unknown[0].partition("\n")[0][:160]) if self.unknown else "")
        return f"seed {self.seed}: {verdict} in {self.seconds:.0f} s" + (f": {why}" if why else "")


def seeds_of(text: str) -> range:
    """Parse ``A..B``, both included. ConfigError if `text` has another form."""
    span = _SPAN.fullmatch(text)
    if span is None or int(span[2]) < int(span[1]):
        raise ConfigError(f"--seeds {text}: expected A..B, two numbers in ascending order, such as 0..99")
    return range(int(span[1]), int(span[2]) + 1)


def scenario_of_seed(
    name: str, seed: int, client: str | None, assignors: Sequence[str], require: Sequence[str]
) -> Scenario:
    """The scenario of a seed, with the command line's options applied."""
    what = named(name, seed)
    what = what if client is None else of_client(what, client)
    return replace(what, assignors=tuple(assignors) or what.assignors, require=(*what.require, *require))


def run_seeds(  # as `run_scenario`
    scenarios: Mapping[int, Scenario],
    broker: Broker,
    out: Path,
    on_row: Callable[[SeedResult, bool], None],
    *,
    prefix: str,
    timeout_s: float = STEP_S,
    until: float | None = None,
) -> list[SeedResult]:
    """Play scenarios one after another, each with its own topics and group, which are removed after it.

    `out` gets a folder per seed. A seed is skipped if its folder has a judged run that hasn't changed since. `on_row`
    is called after each seed with its result and whether it was skipped. No seed begins after `until`
    (`time.monotonic`); None: all are played. Returns the result of each that was played, now or before.

    Raises:
        ConfigError: A seed's folder has a run of another scenario, e.g. with another client, assignor or law.
    """
    rows = []
    for seed, what in scenarios.items():
        folder = out / f"seed-{seed}"
        kept = _kept(folder)
        if kept is not None and kept.scenario != _sha256(repr(what).encode()):
            raise ConfigError(
                f"{folder} has seed {seed} of {what.name}, played with other options (client, assignors or required "
                "laws): choose another --out"
            )
        if kept is None:
            if until is not None and time.monotonic() >= until:
                continue
            kept = _run(seed, what, Sandbox(broker.connection, f"{prefix}{seed}-"), broker, folder, timeout_s)
            on_row(kept, False)
        else:
            on_row(kept, True)
        rows.append(kept)
    return rows


def summary(rows: Iterable[SeedResult], asked: int) -> str:
    """All results in one line."""
    rows = list(rows)
    counts = {word: sum(row.value is value for row in rows) for word, value in _WORDS.items()}
    left = asked - len(rows)
    parts = [f"{count} {word}" for word, count in counts.items() if count] + (
        [f"{left} not played yet"] if left else []
    )
    return f"{asked} seeds: {', '.join(parts)}"


def together(rows: Iterable[SeedResult], asked: int) -> bool | None:
    """One verdict of all seeds: false if any is false, else unknown if any is unknown or wasn't played."""
    values = [row.value for row in rows]
    if False in values:
        return False
    return None if None in values or len(values) < asked else True


_WORDS = {"true": True, "false": False, "unknown": None}


def _run(seed: int, what: Scenario, sandbox: Sandbox, broker: Broker, folder: Path, timeout_s: float) -> SeedResult:
    shutil.rmtree(folder, ignore_errors=True)  # remains of an interrupted run
    began = time.monotonic()
    run = uuid.uuid4().hex
    with sandbox:
        ran = run_scenario(what, broker, folder / "history", run, sandbox=sandbox, group=what.name, timeout_s=timeout_s)
        result = judged(ran)
    row = _row(seed, what, result, folder, time.monotonic() - began)
    report = Report(f"{what.name}, seed {seed}", str(folder), row.value, (), groups=(result,))
    (folder / "report.html").write_text(render_html(report), "utf-8")
    (folder / VERDICT).write_text(json.dumps(asdict(row), indent=1) + "\n", "utf-8")
    return row


def _row(seed: int, what: Scenario, result: GroupResult, folder: Path, seconds: float) -> SeedResult:
    verdict = result.verdict
    broken = dict(Counter(violation.law for violation in verdict.violations))
    return SeedResult(
        seed, verdict.value, broken, list(verdict.unknown[:5]), round(seconds, 1), str(folder), _digest(folder),
        _sha256(repr(what).encode()),
    )  # fmt: skip


def _kept(folder: Path) -> SeedResult | None:
    """Read the result in a folder. None if it is missing or damaged, or the history has changed since it was judged."""
    try:
        row = SeedResult(**json.loads((folder / VERDICT).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return row if row.manifest and row.manifest == _digest(folder) else None


def _digest(folder: Path) -> str:
    path = folder / "history" / MANIFEST
    return _sha256(path.read_bytes()) if path.exists() else ""


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
