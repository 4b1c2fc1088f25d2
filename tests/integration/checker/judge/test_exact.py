"""Of each history exactly this is judged, this often, and found, in these words and with these witnesses.

``python -m tests.integration.checker.judge.test_exact`` writes `exact.json` anew. Read each changed
line of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kafka_assignors.integration.checker import check
from tests.integration.checker import test_checker_laws, test_fault_laws
from tests.integration.checker.judge import test_close, test_migrated, test_reconciled, test_witnesses
from tests.support.damage import accepted, laws
from tests.support.damage import churn as of_churn
from tests.support.histories import faults, requests
from tests.support.histories.edges import EDGES
from tests.support.histories.migrated import Migrated, migration
from tests.support.histories.reconciled import Reconciled
from tests.support.histories.story import Story, churn

KEPT = Path(__file__).with_name("exact.json")
EAGER = ("range", "roundrobin", "sticky")
Build = Callable[[], Story | Reconciled | Migrated]


def _damaged_pair(damage: test_reconciled.Damage) -> Build:
    def build() -> Reconciled:
        story = test_reconciled.pair()
        damage(story)
        return story

    return build


def _damaged_migration(damage: Callable[[Migrated], object]) -> Build:
    def build() -> Migrated:
        story = migration()
        damage(story)
        return story

    return build


def _damaged(protocol: str, damage: of_churn.Damage) -> Callable[[], Story]:
    return lambda: damage(churn(protocol))


CASES: Mapping[str, Build] = {
    **{f"{name}, {p}": _damaged(p, how) for name, (_, how) in of_churn.DAMAGED.items() for p in EAGER},
    **{
        f"{name}, cooperative": _damaged("cooperative-sticky", how)
        for name, (_, how) in of_churn.COOPERATIVE_DAMAGE.items()
    },
    **{name: build for name, (_, build) in laws.BROKEN.items()},
    **{name: build for name, (_, build) in faults.BROKEN.items()},
    **{name: build for name, (_, build) in accepted.REJECTED.items()},
    **EDGES,
    **requests.SOUND,
    **{name: build for name, (_, build) in requests.BROKEN.items()},
    **{f"lawful: {name}": build for name, (_, build) in test_checker_laws.LAWFUL.items()},
    **{f"lawful: {name}": build for name, (_, build) in test_fault_laws.LAWFUL.items()},
    **{f"lawful by a little: {name}": build for name, build in test_close.SOUND.items()},
    **{f"unlawful by a little: {name}": build for name, (_, build) in test_close.BROKEN.items()},
    **{f"witnesses: {name}": build for name, (_, build) in test_witnesses.FALSE.items()},
    **{f"sound witnesses: {name}": build for name, build in test_witnesses.SOUND.items()},
    **{f"KIP-848: {name}": _damaged_pair(damage) for name, (_, damage) in test_reconciled.DAMAGES.items()},
    **{f"sound, KIP-848: {name}": _damaged_pair(damage) for name, damage in test_reconciled.SOUND.items()},
    **{f"migrated: {name}": _damaged_migration(damage) for name, (_, damage) in test_migrated.DAMAGES.items()},
}


def told(build: Build) -> dict[str, list[str]]:
    """What was judged and what not, and law -> its violations, each in words, with its witnesses: kind, and whose."""
    verdict = check(build().history)
    found = {"judged": [verdict.laws]}
    skipped = {law: [f"{why} ({times})" for why, times in whys.items()] for law, whys in verdict.skipped.items()}
    found |= {f"not {law}": why for law, why in skipped.items()}
    if verdict.unknown:
        found["unknown"] = [*verdict.unknown]
    broken: dict[str, list[str]] = {}
    for violation in verdict.violations:
        witnesses = " ".join(f"{w.kind}:{w.member}" if w.member else w.kind for w in violation.witnesses)
        broken.setdefault(violation.law, []).append(f"{violation.message} <- {witnesses}")
    return found | {law: sorted(broken[law]) for law in sorted(broken)}


def test_every_case_is_kept() -> None:
    assert set(json.loads(KEPT.read_text("utf-8"))) == set(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_exactly_this_is_judged_and_found(name: str) -> None:
    assert told(CASES[name]) == json.loads(KEPT.read_text("utf-8"))[name]


if __name__ == "__main__":
    KEPT.write_text(json.dumps({name: told(build) for name, build in CASES.items()}, indent=1) + "\n", "utf-8")
