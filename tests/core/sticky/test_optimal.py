"""Sticky and cooperative against oracles that share nothing with them: a linear program, and every way there is.

250 groups each, and 1,000 in the long form; ``FUZZ_GROUPS=10000`` in the environment makes that longer, and
``FUZZ_FIRST=20000`` draws others.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from kafka_assignors.core.group import Group
from kafka_assignors.core.group.invariants import violations
from kafka_assignors.core.sticky import sticky
from tests.support.assignors import fuzz, golden, oracle
from tests.support.assignors.golden import Score
from tests.support.examples import examples

MANY = int(os.environ.get("FUZZ_GROUPS", "1000"))
FIRST = int(os.environ.get("FUZZ_FIRST", "0"))
LIMIT_S = 100 + MANY // 4


def worse(case: fuzz.Case, best: Callable[[Group], Score | None]) -> str:
    """What our answers are worth, sticky and cooperative, where that is not the best; "" if it is."""
    group = case.reading("sticky").group
    wanted = best(group)
    if wanted is None:
        return ""
    final, rounds = golden.settle(group)
    for name, assignment in (("sticky", sticky.assign(group)), ("cooperative-sticky", final)):
        worth, broken = oracle.cost(group, assignment), violations(group, assignment)
        if worth != wanted or broken:
            return f"{name}: {worth}, the best is {wanted} {broken}"
    return "" if rounds <= 2 else f"cooperative-sticky takes {rounds} rounds"


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("groups", [examples(250), pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize(("best", "size"), [(oracle.solved, ""), (oracle.tried, "tiny")])
def test_random_groups_get_the_best_there_is(best, size, groups):
    for seed in range(FIRST, FIRST + groups):
        case = fuzz.draw(seed, size)
        if worse(case, best):
            least = fuzz.smallest(case, lambda each: worse(each, best))
            pytest.fail(f"seed {seed}: {worse(least, best)}\nsmallest: {least}\ndrawn: {case}")
