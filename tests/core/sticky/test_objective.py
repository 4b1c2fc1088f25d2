"""What racks cost and which goal comes first: every choice against a program over single partitions.

150 groups, and 1,000 in the long form; ``FUZZ_GROUPS=10000`` in the environment makes that longer, and
``FUZZ_FIRST=20000`` draws others.
"""

from __future__ import annotations

import os
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from kafka_assignors.core.group import Group, Member, TopicPartition
from kafka_assignors.core.group.invariants import violations
from kafka_assignors.core.reading import replay
from kafka_assignors.core.sticky import GOALS, sticky
from kafka_assignors.core.sticky.objective import Objective
from kafka_assignors.core.strategies import strategy
from kafka_assignors.errors import ConfigError
from tests.support.assignors import golden
from tests.support.assignors.objectives import drawn, price, worth
from tests.support.examples import examples

MANY = int(os.environ.get("FUZZ_GROUPS", "1000"))
FIRST = int(os.environ.get("FUZZ_FIRST", "0"))


def best(group, objective):
    """A 0/1 program: each partition to one reader, each of a member's partitions to one of its places.

    The n-th place costs 2n - 1. One objective after the other is solved and then held.
    """
    before = golden.previous_owners(group)
    arcs = []
    for topic, count in group.partitions.items():
        for p in range(count):
            tp = TopicPartition(topic, p)
            arcs += [
                (tp, i, price(group, objective.rack_costs, tp, m), int(before.get(tp, m.member_id) != m.member_id))
                for i, m in enumerate(group.members)
                if topic in m.topics
            ]
    if not arcs:
        return (0,) * len(objective.goals)
    shares = Counter((tp.topic, i) for tp, i, *_ in arcs)
    number = {tp: n for n, tp in enumerate(dict.fromkeys(tp for tp, *_ in arcs))}
    places = [(m, n) for m, most in Counter(m for _, m, *_ in arcs).items() for n in range(1, most + 1)]
    rows = [number[tp] for tp, *_ in arcs]
    rows += [len(number) + m for _, m, *_ in arcs] + [len(number) + m for m, _ in places]
    columns = [*range(len(arcs)), *range(len(arcs)), *range(len(arcs), len(arcs) + len(places))]
    # And each of a member's partitions of a topic to one of its places there.
    row = {share: len(number) + len(group.members) + n for n, share in enumerate(shares)}
    inner = [(share, n) for share, most in shares.items() for n in range(1, most + 1)]
    rows += [row[tp.topic, i] for tp, i, *_ in arcs] + [row[share] for share, _ in inner]
    columns += [*range(len(arcs)), *range(len(arcs) + len(places), len(arcs) + len(places) + len(inner))]
    signs = [1] * (2 * len(arcs)) + [-1] * len(places) + [1] * len(arcs) + [-1] * len(inner)
    shape = (len(number) + len(group.members) + len(shares), len(arcs) + len(places) + len(inner))
    flow = csr_array((signs, (rows, columns)), shape=shape)
    wanted = [1] * len(number) + [0] * (len(group.members) + len(shares))
    slots = [0] * (len(places) + len(inner))
    unit = Fraction(1, 100)  # of which all costs drawn are multiples
    costs = {
        "spread": np.array([0] * (len(arcs) + len(places)) + [2 * n - 1 for _, n in inner]),
        "balance": np.array([0] * len(arcs) + [2 * n - 1 for _, n in places] + [0] * len(inner)),
        "racks": np.array([int(away / unit) for *_, away, _ in arcs] + slots),
        "moves": np.array([moved for *_, moved in arcs] + slots),
    }
    held = [LinearConstraint(flow, wanted, wanted)]
    found = []
    for name in objective.goals:
        solved = milp(costs[name], constraints=held, bounds=Bounds(0, 1), integrality=1, options={"mip_rel_gap": 0})
        assert solved.status == 0, solved.message
        found.append(round(solved.fun))
        held.append(LinearConstraint(costs[name][None, :], -np.inf, found[-1] + 0.25))
    return tuple(n * (unit if name == "racks" else 1) for name, n in zip(objective.goals, found, strict=True))


@pytest.mark.slow
@pytest.mark.timeout(300 + MANY // 4)
@pytest.mark.parametrize("groups", [examples(150), pytest.param(MANY, marks=pytest.mark.long)])
def test_every_mode_and_order_gets_the_best_there_is(groups):
    for seed in range(FIRST, FIRST + groups):
        group, matrix = drawn(seed)
        objective = Objective(("replica", "leader", matrix, "none")[seed % 4], GOALS[seed // 4 % len(GOALS)])

        assignment = sticky.assign(group, objective=objective)

        assert violations(group, assignment) == [], seed
        assert worth(group, objective, assignment) == best(group, objective), (seed, objective)


def pair(racks="r1", **claims):
    """b, on another rack than all replicas, holds both partitions; a, on their rack, joins or holds none."""
    members = [Member("a", {"t"}, rack="r1"), Member("b", {"t"}, rack="r2", owned=claims.get("b", ()), generation=1)]
    return Group(members, {"t": 2}, {"t": [[racks], [racks]]}, {"t": ["r1", "r2"]})


def test_moves_before_racks_leaves_partitions_where_they_are():
    group = Group(
        [
            Member("a", {"t"}, rack="r1", owned=[("t", 1)], generation=1),
            Member("b", {"t"}, rack="r2", owned=[("t", 0)], generation=1),
        ],
        {"t": 2},
        {"t": [["r1"], ["r2"]]},
    )
    assert sticky.assign(group) == {"a": {"t": [0]}, "b": {"t": [1]}}
    stay = Objective(goals=("balance", "moves", "racks"))
    assert sticky.assign(group, objective=stay) == {"a": {"t": [1]}, "b": {"t": [0]}}


def test_leaders_count_in_leader_mode_alone():
    group = pair(b=[("t", 0)])
    assert sticky.assign(group)["b"] == {"t": [0]}  # replicas of both are on r1: racks make no difference
    assert sticky.assign(group, objective=Objective("leader")) == {"a": {"t": [0]}, "b": {"t": [1]}}


def test_a_matrix_pays_for_the_cheapest_replica_and_for_unknown_pairs_the_most():
    matrix = {"r2": {"r1": 0.5, "r3": 2}}
    objective = Objective(matrix)
    pairs = (("r2", "r1"), ("r2", "r3"), ("r2", "r2"), ("r9", "r1"))
    assert [objective.price(*pair) * objective.unit for pair in pairs] == [Fraction(1, 2), 2, 0, 2]
    assert objective.unit == Fraction(1, 2)
    assert Objective({}).price("r1", "r2") == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rack_costs": "near"}, "'near'"),
        ({"rack_costs": ["r1"]}, "['r1']"),
        ({"rack_costs": {"r1": 3}}, "rack_costs['r1']"),
        ({"rack_costs": {"r1": {"r2": -1}}}, "rack_costs['r1']['r2'] must be a number of 0 or above, not -1"),
        ({"rack_costs": {"r1": {"r2": True}}}, "not True"),
        ({"rack_costs": {"r1": {"r2": float("nan")}}}, "not nan"),
        ({"rack_costs": {"r1": {"r2": float("inf")}}}, "not inf"),
        ({"rack_costs": {"r1": {2: 1}}}, "strings"),
        ({"rack_costs": {"r1": {"r2": 0.0000001, "r3": 1}}}, "too fine-grained"),
        ({"goals": "balance"}, "goals must be"),
        ({"goals": ("racks", "balance", "moves")}, "goals must be"),
        ({"goals": 5}, "goals must be"),
        ({"goals": [["balance"]]}, "goals must be"),
        ({"parity": "java", "rack_costs": "leader"}, "parity"),
        ({"rack": "r1"}, "no option 'rack'"),
    ],
)
def test_what_cannot_work_is_refused_by_name(options, says):
    with pytest.raises(ConfigError) as refused:
        strategy("sticky", **options)
    assert says in str(refused.value)


def test_options_reach_a_replay_as_json_has_them():
    group = pair(b=[("t", 0)])
    case = [("a", None, b"\0\3\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\0\2r1"),
            ("b", None, b"\0\3\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\0\2r2")]  # fmt: skip
    answer = replay(
        "sticky", case, group.partitions, group.racks, group.leaders,
        rack_costs="leader", goals=["balance", "racks", "moves"],
    )  # fmt: skip
    assert answer == {"a": {"t": [0]}, "b": {"t": [1]}}
