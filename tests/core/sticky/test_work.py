"""Groups that once took a leader half a minute: counted work, because a time would depend on the machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.hunt import Shape, group
from kafka_assignors.core import copartitioned
from kafka_assignors.core.group.claims import resolve
from kafka_assignors.core.sticky import cheapest, flow, sticky, transport
from kafka_assignors.core.sticky.objective import GOALS, Objective
from kafka_assignors.core.sticky.racks import position_costs
from kafka_assignors.operator.plans.certificate import bound, score
from kafka_assignors.operator.plans.prices import certify
from tests.core.sticky.test_flow import worth

NESTED = Shape(partitions=3000, members=120, topics=60, sets="nested", varieties=60, racks=6, seed=5)
BUNDLES = Shape(
    "copartitioned", partitions=1500, members=60, topics=10, sets="overlapping", varieties=20, racks=12, claims="old",
    costs="matrix", dearest=100, goals=2, seed=6,
)  # fmt: skip


def arcs_of(monkeypatch, module, name, count):
    """The arcs of each network that is solved."""
    real, seen = getattr(module, name), []

    def counted(network, *rest):
        seen.append(count(network))
        return real(network, *rest)

    monkeypatch.setattr(module, name, counted)
    return seen


@pytest.mark.slow
def test_the_network_of_nested_subscriptions_on_racks_grows_with_classes_plus_kinds(monkeypatch):
    """Not with their product: 30,000 partitions on six racks took 38 s at 200 topics, and take one."""
    seen = arcs_of(monkeypatch, cheapest, "send", lambda n: len(n.pairs[0]) + len(getattr(n, "doors", [()])[0]))
    claims = resolve(group(NESTED)[0])
    owner = sticky.owners(claims)

    classes = sticky.classify(claims.indexed, position_costs(claims.indexed, Objective()))
    assert len(classes.size) > 500
    assert len(classes.rack) > 100
    racks = classes.cost.shape[1]
    assert 0 < max(seen) <= racks * len(classes.size) + 2 * len(classes.allowed) * len(classes.rack)
    certificate = certify(claims, owner, Objective())
    assert score(claims, owner, Objective()) == bound(claims, certificate)


def test_the_network_of_bundles_on_racks_grows_with_classes_plus_pairs(monkeypatch):
    """Bundles of equal topics at members that read them, a cost matrix: 27 s and 1 GB, now 3 s and 0.2 GB."""
    seen = arcs_of(monkeypatch, transport, "send", lambda arcs: len(arcs.tail))
    drawn, options = group(BUNDLES)
    objective = Objective(options["rack_costs"], GOALS[BUNDLES.goals])
    claims = copartitioned.bundled(resolve(drawn), None, objective).claims
    sticky.owners(claims, objective)

    classes = sticky.classify(claims.indexed, position_costs(claims.indexed, objective), by_topic=True)
    pairs = int(classes.may()[:, classes.kind].sum())
    held = np.count_nonzero(claims.holder >= 0)
    assert len(classes.size) > 300
    members = len(classes.kind)
    assert 0 < max(seen) <= classes.cost.shape[1] * len(classes.size) + 4 * pairs + held + members


def problems(count=60):
    for seed in range(count):
        rng = np.random.default_rng(seed)
        shape = Shape(
            partitions=int(rng.integers(20, 200)), members=int(rng.integers(2, 25)), topics=int(rng.integers(1, 12)),
            sets=str(rng.choice(["nested", "overlapping", "window", "tree", "few"])), varieties=8, racks=5,
            costs=str(rng.choice(["replica", "matrix"])), dearest=4, claims=str(rng.choice(["none", "left", "heap"])),
            replicas=2, seed=seed,
        )  # fmt: skip
        drawn, options = group(shape)
        claims, objective = resolve(drawn), Objective(options["rack_costs"], GOALS[seed % 2])
        classes = sticky.classify(claims.indexed, position_costs(claims.indexed, objective))
        had = sticky.holdings(classes, claims.holder, len(claims.indexed.members))
        yield flow.Problem(classes, had, objective.racks_first)


@pytest.mark.slow
def test_shared_stalls_are_as_good_as_an_edge_from_every_class_to_every_kind(monkeypatch):
    shared = 0
    monkeypatch.setattr(flow, "_APART", 0)
    for problem in problems():
        of = problem.classes
        each, kinds = np.arange(len(of.size)), np.arange(len(of.rack))
        apart = replace(
            of, readers=each, allowed=of.may()[of.readers], cost=of.cost[:, of.rack], subscription=kinds, rack=kinds
        )
        alone = replace(problem, classes=apart)
        shared += len(of.size) > len(of.allowed)
        assert worth(problem, flow.optimum(problem)) == worth(alone, flow.optimum(alone))
    assert shared > 30


@pytest.mark.slow
@pytest.mark.parametrize(("module", "spread"), [(cheapest, False), (transport, True)])
def test_distances_of_long_paths_are_those_of_short_ones(module, spread, monkeypatch):
    def answers():
        found = []
        for problem in problems(40):
            if spread:
                of = problem.classes
                found.append(worth(problem, sticky.quotas.optimum(problem, of.readers)))
            else:
                found.append(worth(problem, flow.optimum(problem)))
        return found

    if spread:
        real = sticky.classify
        monkeypatch.setattr(sticky, "classify", lambda *args: real(*args, by_topic=True))
    dense = answers()
    monkeypatch.setattr(module, "_distances", lambda *_: None)
    monkeypatch.setattr(flow, "_APART", 0)
    assert answers() == dense
