"""The optimum's flow: what saves time changes nothing about the answer, and little is done where little changes."""

from __future__ import annotations

import numpy as np
import pytest

from kafka_assignors.core.sticky import cheapest, flow, levels, maxflow

GROUPS = 150


def drawn(seed):
    """Classes that some kinds may have; members that hold something of many classes; with and without racks."""
    rng = np.random.default_rng(seed)
    groups, kinds = rng.integers(1, 60), rng.integers(1, 25)
    members = int(kinds + rng.integers(0, 40))
    allowed = rng.random((groups, kinds)) < rng.choice([0.05, 0.2, 0.5, 0.9])
    allowed[np.arange(groups), rng.integers(0, kinds, groups)] = True
    size = rng.integers(1, rng.choice([4, 40]) + 1, groups)
    kind = rng.permutation(np.concatenate([np.arange(kinds), rng.integers(0, kinds, members - kinds)]))
    cost = np.where(allowed & (rng.random((groups, kinds)) < rng.choice([0, 0.5])), rng.integers(1, 4), 0)
    cells = np.zeros((groups, members), np.int64)
    crowd = rng.random(members) < rng.choice([0.4, 0.8, 1])  # the others have just joined
    for g in range(groups):
        able = np.flatnonzero(allowed[g][kind] & crowd)
        if len(able):
            np.add.at(cells[g], able[(rng.integers(0, 99) + np.arange(size[g])) % len(able)], 1)
    held = np.nonzero(cells)
    return flow.Problem(classes_of(size, allowed, cost, kind), (*held, cells[held]), bool(rng.random() < 0.5))


def classes_of(size, allowed, cost, kind):
    """Classes with readers of their own, and kinds with a subscription and a rack of their own."""
    groups, kinds = map(np.arange, allowed.shape)
    return flow.Classes(np.repeat(groups, size), size, groups, allowed, cost, kinds, kinds, kind)


def worth(problem, units):
    """Sum of squared loads, then cost in racks and units not kept, in their order. All is given out as is allowed."""
    classes = problem.classes
    given = np.zeros((len(classes.size), len(classes.kind)), np.int64)
    np.add.at(given, problem.cells[:2], units.kept)
    np.add.at(given, units.dealt[:2], units.dealt[2])
    assert (given.sum(axis=1) == classes.size).all()
    assert not given[~classes.may()[classes.readers][:, classes.kind]].any()
    assert ((units.kept >= 0) & (units.kept <= problem.cells[2])).all()
    racks, kept = int((given * classes.cost[:, classes.rack[classes.kind]]).sum()), int(units.kept.sum())
    return int((given.sum(axis=0) ** 2).sum()), *((racks, -kept) if problem.racks_first else (-kept, racks))


def blocks(problem):
    classes = problem.classes
    crew = np.bincount(classes.kind, minlength=len(classes.rack))
    found = levels.levels(classes.size, classes.allowed, crew)
    return sorted((b.classes.tolist(), b.kinds.tolist(), b.low, b.extras) for b in found)


@pytest.mark.slow
def test_offering_few_units_first_is_as_good_as_offering_all(monkeypatch):
    real, seen = cheapest._edges, []

    def told(network, distances, offers):
        edges, everything = real(network, distances, offers)
        seen.append((offers is not None, everything))
        return edges, everything

    problems = [drawn(seed) for seed in range(GROUPS)]
    monkeypatch.setattr(cheapest, "_edges", told)
    few = [worth(problem, flow.optimum(problem)) for problem in problems]
    monkeypatch.setattr(cheapest, "_edges", lambda network, distances, _: real(network, distances, None))

    assert few == [worth(problem, flow.optimum(problem)) for problem in problems]
    assert seen.count((True, False)) > 20  # some were held back
    assert (False, True) in seen  # and were needed once


@pytest.mark.slow
def test_equal_loads_that_fractions_show_are_those_that_flows_find(monkeypatch):
    real, shown = levels._even, []

    def told(parts, open_):
        even = real(parts, open_)
        shown.append(int(even.sum()))
        return even

    problems = [drawn(seed) for seed in range(GROUPS)]
    monkeypatch.setattr(levels, "_even", told)
    found = [blocks(problem) for problem in problems]
    monkeypatch.setattr(levels, "_even", lambda parts, _: np.zeros(parts.count, bool))

    assert found == [blocks(problem) for problem in problems]
    assert sum(shown) > 50


@pytest.fixture
def flows(monkeypatch):
    """The edges of each maximum flow."""
    real, sizes = maxflow.sent, []

    def counted(tail, *rest):
        sizes.append(len(tail))
        return real(tail, *rest)

    monkeypatch.setattr(maxflow, "sent", counted)
    return sizes


def overlapping(joining):
    """40 members that each read 20 of 40 classes, and have 2 partitions of each of these; who joins reads all."""
    classes, owners = np.divmod(np.arange(40 * 40), 40)
    reads = (classes - owners) % 40 < 20
    allowed = np.ones((40, 40 + joining), bool)
    allowed[classes, owners] = reads
    cells = classes[reads], owners[reads], np.full(800, 2)
    return flow.Problem(classes_of(np.full(40, 40), allowed, allowed * 0, np.arange(40 + joining)), cells)


def test_a_group_at_rest_needs_no_flow(flows):
    units = flow.optimum(overlapping(0))
    assert (flows, units.kept.tolist(), len(units.dealt[0])) == ([], [2] * 800, 0)


def test_one_flow_is_enough_for_who_joins_and_takes_some_of_many_classes(flows):
    problem = overlapping(1)
    units = flow.optimum(problem)

    assert len(flows) == 1
    assert flows[0] < 800
    assert set(units.dealt[1].tolist()) == {40}
    assert units.dealt[2].sum() == 39
    assert len(units.dealt[2]) > 20  # classes
