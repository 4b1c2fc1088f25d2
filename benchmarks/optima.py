"""Optimal plans of small groups against programs that share nothing with them: an integer program, and every way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from kafka_assignors.core.sticky import GOALS, sticky
from kafka_assignors.core.sticky.objective import Objective
from kafka_assignors.operator.plans import plan
from tests.assignors.weighted.oracle import differences, drawn, wished
from tests.support.assignors import fuzz
from tests.support.assignors.objectives import worth
from tests.support.assignors.oracle import best_of_all

from .result import Result

PROGRAMS, WAYS = 2_000, 10_000
SPREAD = [goals for goals in GOALS if goals[0] == "spread"]


def run(quick: bool) -> Iterator[Result]:
    """Groups whose plan is not the best.

    ``weighted/drawn``, ``weighted/wished``: plans by work of up to 12 partitions and 4 members against an integer
    program; those wished for have racks, priorities, caps or state. ``spread-first``: against every way.
    """
    many = PROGRAMS // 100 if quick else PROGRAMS
    for name, draw in (("drawn", drawn), ("wished", wished)):
        wrong = []
        for seed in range(many):
            case = draw(seed)
            made = plan(case.group, "weighted", weights=case.weights, capacity=case.capacity, **case.options)
            wrong += [[seed, *mismatches] for mismatches in [differences(case, made)] if mismatches]
        yield _result(f"weighted/{name}", wrong, many, 0, many - 1)
    yield _spread_first(WAYS // 100 if quick else WAYS)


def _spread_first(many: int) -> Result:
    wrong, judged = [], 0
    for seed in count():
        group, goals = fuzz.draw(seed, "tiny").reading("sticky").group, SPREAD[seed % len(SPREAD)]
        best = best_of_all(group, goals)
        if best is not None:
            objective = Objective(goals=goals)
            score = worth(group, objective, sticky.assign(group, objective=objective))
            wrong += [[seed, str(score), str(best)]] if score != best else []
            judged += 1
            if judged == many:
                break
    return _result("spread-first", wrong, many, 0, seed)


def _result(name: str, wrong: Sequence[object], many: int, first: int, last: int) -> Result:
    note = f"of {many} drawn groups, seeds {first} to {last}"
    return Result(
        name,
        len(wrong),
        "wrong",
        note=note,
        raw={"groups": many, "first": first, "last": last, "wrong": wrong},
        none=True,
    )
