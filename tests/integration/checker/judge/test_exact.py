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
from tests.support.damage import accepted, laws
from tests.support.damage import churn as of_churn
from tests.support.histories import faults, requests
from tests.support.histories.edges import EDGES
from tests.support.histories.story import Story, churn

KEPT = Path(__file__).with_name("exact.json")
EAGER = ("range", "roundrobin", "sticky")


def _damaged(protocol: str, damage: of_churn.Damage) -> Callable[[], Story]:
    return lambda: damage(churn(protocol))


CASES: Mapping[str, Callable[[], Story]] = {
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
}


def told(build: Callable[[], Story]) -> dict[str, list[str]]:
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
