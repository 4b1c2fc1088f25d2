"""Walks the table of facts: ``python -m tests.support.facts_walk OUT.jsonl`` changes kept histories fact by fact.

Each unit, a walk or some drawn damages of one history, is appended to OUT when it is done: the same command goes on
where an earlier one ended. ``--table OUT.jsonl`` says what all units show of each fact: how often it was changed, what
noticed that, and what the table calls it.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zlib import crc32

from tests.support.damage.facts import Fact, Kept
from tests.support.damage.walk import DAMAGES, Trial, drawn, each_fact, state_of, words
from tests.support.histories.kept import WALKED, unpacked

_KEPT_SURVIVORS = 40
"""Survivors, and changes of facts that are checked in part, of which a unit keeps where they are."""


WAYS = ("facts", "one-way", "drawn", "partly")
"""Each checked fact in each way, or in one; drawn facts, one to three at a time; each partly free fact in one way."""


class Unit(NamedTuple):
    """A part of the walk: what is done to which history."""

    way: str  # one of `WAYS`
    history: str


def units(histories: Sequence[str]) -> list[Unit]:
    """All parts of the walk."""
    return [Unit(way, history) for way in WAYS for history in histories]


def trials(unit: Unit, kept: Kept) -> Iterator[Trial]:
    """The changes of one unit, judged."""
    if unit.way == "facts":
        return each_fact(kept, crc32(unit.history.encode()))
    if unit.way == "one-way":
        return each_fact(kept, crc32(unit.history.encode()), most=1)
    if unit.way == "partly":
        return each_fact(kept, crc32(unit.history.encode()), of="partly free", most=1)
    return drawn(kept, unit.history, -(-DAMAGES // len(WALKED)))


def done(unit: Unit, kept: Kept) -> dict[str, Any]:
    """A unit as a row of the file."""
    begun, count, survivors, partly = time.process_time(), 0, [], []
    tally: dict[str, Counter[str]] = defaultdict(Counter)
    for trial in trials(unit, kept):
        count += 1
        if unit.way != "drawn":
            (edit,) = trial.edits
            tally[" ".join(edit.fact)][trial.notice or "nothing"] += 1
        else:
            tally["drawn"][trial.notice or "nothing"] += 1
        if trial.notice is None:
            (survivors if trial.survives else partly).append([words(kept, edit) for edit in trial.edits])
    kept_rows = {"survivors": survivors[:_KEPT_SURVIVORS], "partly": partly[:_KEPT_SURVIVORS]}
    return {
        **unit._asdict(), "trials": count, "survived": len(survivors), "cpu_s": round(time.process_time() - begun, 1),
        "facts": tally, **kept_rows,
    }  # fmt: skip


def walk(out: Path, only: Sequence[Unit], minutes: float) -> None:
    """Do the units that the file does not have, until the time is over."""
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()] if out.exists() else []
    before = {Unit(row["way"], row["history"]) for row in rows}
    until = time.monotonic() + 60 * minutes
    for unit in only:
        if unit in before or time.monotonic() > until:
            continue
        with TemporaryDirectory() as folder:
            kept = Kept(unpacked(unit.history, Path(folder)))
        base = kept.verdict()
        if base.value is not True:
            raise ValueError(f"{unit.history} is not true as it is: {base.violations[:1]} {base.unknown[:1]}")
        gc.collect()
        gc.freeze()
        row = done(unit, kept)
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(
            f"{unit.way} {unit.history}: {row['trials']} changes, {row['survived']} survived, {row['cpu_s']} s",
            flush=True,
        )
        gc.unfreeze()


def table(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """What all units show of each fact."""
    tally: dict[Fact, Counter[str]] = defaultdict(Counter)
    histories: dict[Fact, set[str]] = defaultdict(set)
    for row in rows:
        for name, notices in row["facts"].items():
            if row["way"] != "drawn":
                kind, field = name.split(" ", 1)
                tally[Fact(kind, field)].update(notices)
                histories[Fact(kind, field)].add(row["history"])
    for fact, notices in sorted(tally.items()):
        laws = " ".join(f"{law} {times}" for law, times in notices.most_common() if law != "nothing")
        yield (
            f"{fact.kind}\t{fact.field}\t{state_of(fact)}\t{len(histories[fact])} histories\t"
            f"{notices.total()} changes\t{notices['nothing']} unnoticed\t{laws}"
        )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--table", action="store_true", help="what the file shows of each fact")
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--history", action="append", choices=WALKED, help="only these histories")
    parser.add_argument("--minutes", type=float, default=60, help="begin no unit after so long")
    args = parser.parse_args(argv)
    if args.table:
        print("\n".join(table(json.loads(line) for line in args.out.read_text("utf-8").splitlines())))
        return 0
    walk(args.out, [unit for unit in units(args.history or WALKED) if args.way in (None, unit.way)], args.minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
