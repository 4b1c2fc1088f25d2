"""Every golden round: Java's placement where Java is right, never a worse one elsewhere."""

from __future__ import annotations

from functools import cache

import pytest

from kafka_assignors.core import strategies
from kafka_assignors.core.group.invariants import violations
from tests.support.assignors import golden
from tests.support.work import lines

PARITY = [("range", "range", 442), ("roundrobin", "roundrobin", 442)]
STICKY = [("sticky", "sticky", 853), ("cooperative_sticky", "cooperative-sticky", 977)]
MOST_LINES = 60_000
"""Twice what the dearest takes, about 10 ms of a processor; Java takes for ever."""


@cache
def answered(file, name):
    """Each step of a file with its group, our answer, and that to the follow-up rounds: several laws judge them."""
    found = []
    for step in golden.steps(file, name):
        group, assignment = golden.reading(step).group, golden.assign(step)
        final = golden.settle(group)[0] if name == "cooperative-sticky" else assignment
        found.append((step, group, assignment, final))
    return found


@pytest.mark.slow
@pytest.mark.source("apache/kafka 4.3.0 RangeAssignor, RoundRobinAssignor")
@pytest.mark.parametrize(("file", "name", "rounds"), PARITY)
def test_range_and_roundrobin_place_exactly_like_java(file, name, rounds):
    steps = list(golden.steps(file, name))

    differing = [
        step.name
        for step in steps
        if golden.canonical(golden.assign(step)) != golden.canonical(step.row["expected"]["assignment"])
    ]

    assert len(steps) == rounds
    assert differing == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "name", "rounds"),
    [pytest.param(*STICKY[0], marks=pytest.mark.release("the rounds below are placed by the same engine")), STICKY[1]],
)
def test_sticky_rounds_are_sound(file, name, rounds):
    """Also where Java throws or gives partitions that do not exist."""
    steps = answered(file, name)

    unsound = {}
    for step, group, assignment, _ in steps:
        found = violations(group, assignment, cooperative=name == "cooperative-sticky")
        if found:
            unsound[step.name] = found

    assert len(steps) == rounds
    assert unsound == {}


@pytest.mark.slow
@pytest.mark.source("apache/kafka 4.3.0 StickyAssignor, CooperativeStickyAssignor")
@pytest.mark.parametrize(("file", "name", "rounds", "incomparable"), [(*STICKY[0], 6), (*STICKY[1], 12)])
def test_sticky_is_nowhere_worse_than_java(file, name, rounds, incomparable):
    """Balance, then racks, then moves; cooperative results after their follow-up rounds."""
    worse, compared = {}, 0
    for step, group, _, final in answered(file, name):
        assert violations(group, final) == [], step.name
        assert golden.kip54_unbalanced(group, final) == [], step.name
        java = golden.java_score(step)
        if java is not None:
            compared += 1
            ours = golden.score(group, final)
            if not any(member.rack for member in group.members):
                ours = ours._replace(foreign_racks=0)
            if ours > java:
                worse[step.name] = (ours, java)

    assert worse == {}
    assert rounds - compared == incomparable


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name", "rounds"), STICKY)
def test_sticky_reaches_the_exact_optimum(file, name, rounds):
    """`opt`, the least sum of squares and then moves, was solved as an assignment problem; it ignores racks."""
    missed, compared = {}, 0
    for step, group, _, final in answered(file, name):
        best = step.row["metrics"].get("opt")
        if best is None or any(member.rack for member in group.members):
            continue
        compared += 1
        ours = golden.score(group, final)
        if (ours.sum_of_squares, ours.moves) != (best["sumsq"], best["moved"]):
            missed[step.name] = (ours, best)

    assert compared > 700
    assert missed == {}


@pytest.mark.timeout(10)  # Java never returns on J4
@pytest.mark.parametrize("step", [*golden.steps("java_defects")], ids=lambda step: step.name)
def test_where_java_fails_we_are_sound_and_optimal(step):
    group = golden.reading(step).group
    cooperative = step.protocol == "cooperative-sticky"

    assignment = golden.assign(step)
    final, rounds = golden.settle(group) if cooperative else (assignment, 1)

    assert violations(group, assignment, cooperative=cooperative) == []
    assert violations(group, final) == []
    assert rounds <= 2
    ours = golden.score(group, final)
    assert {"sumsq": ours.sum_of_squares, "moved": ours.moves} == step.row["opt"]


@pytest.mark.parametrize("options", [{}, {"parity": "java"}], ids=["best", "parity"])
def test_where_java_fails_we_need_little_work(options):
    """Counted in lines that run, so that no machine is too slow for it."""
    dear = {}
    for step in golden.steps("java_defects"):
        strategy = strategies.strategy(step.protocol).with_options(**options)
        strategy.load()
        work = lines(lambda strategy=strategy, step=step: strategy.assign(golden.reading(step)))
        if work > MOST_LINES:
            dear[step.name] = work

    assert dear == {}
