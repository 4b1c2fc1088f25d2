"""The check of a plan by work: it accepts what is so, and names each claim that is not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_assignors.core.group import Group, Member
from kafka_assignors.extras import install
from kafka_assignors.operator.plans import Plan, plan
from kafka_assignors.operator.plans.work_proof import SOLVER, check, verify
from tests.assignors.weighted.every_option import middle, small
from tests.support.examples import examples

WEIGHTS = {("t", p): w for p, w in enumerate([9.0, 8.0, 7.0, 4.0, 3.0, 2.0, 2.0, 1.0])}
STATE = {("t", p): float(p + 1) for p in range(8)}
CAPS = {"c": 30.0}
GROUP = Group(
    [
        Member("a", {"t"}, owned=[("t", p) for p in range(6)], generation=1, rack="x"),
        Member("b", {"t"}, owned=[("t", 6), ("t", 7)], generation=1, rack="y"),
        Member("c", {"t"}, rack="z"),
    ],
    {"t": 8},
    racks={"t": [{"x", "y"}, {"y"}, {"z"}, {"x"}, {"y"}, {"z"}, {"x"}, {"w"}]},
)


def made(state: bool) -> Plan:
    options: dict[str, Any] = {"state": STATE} if state else {}
    return plan(GROUP, "weighted", weights=WEIGHTS, max_work=CAPS, **options)


def loaded(state: bool = True) -> tuple[Plan, Any]:
    """A plan, and what it says of the work."""
    decision = made(state)
    assert decision.load is not None
    return decision, decision.load


def laws(decision: Plan, state: dict[tuple[str, int], float] | None) -> set[str]:
    return {each.law for each in check(GROUP, WEIGHTS, {}, decision, None, CAPS, state)}


@pytest.mark.parametrize("state", [False, True])
def test_a_true_plan_is_proven(state: bool) -> None:
    decision, load = loaded(state)
    assert load.remote is not None
    assert len(load.frontier) > 2
    assert laws(decision, STATE if state else None) == set()


DAMAGES: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    "less work": ("work", lambda load: {"work": {**load.work, "a": load.work["a"] - 1}}),
    "a lower greatest": ("greatest", lambda load: {"greatest": load.greatest * 0.99}),
    "a higher bound": ("bound", lambda load: {"bound": load.bound * 1.01}),
    "another witness": ("bound", lambda _: {"why": "heaviest", "witness": ("t", 7)}),
    "a higher limit": ("limit", lambda load: {"limit": load.limit * 1.2}),
    "fewer moves": ("moves", lambda load: {"moves": load.moves - 1}),
    "more moves needed": ("moves", lambda load: {"least_moves": load.least_moves + 1}),
    "a cheaper state": ("state", lambda load: {"state": (load.state[0] - 1, load.state[1])}),
    "a dearer least state": ("state", lambda load: {"state": (load.state[0], load.state[0] + 1)}),
    "no state": ("state", lambda _: {"state": None}),
    "less from other racks": ("racks", lambda load: {"remote": (load.remote[0] - 1, load.remote[1])}),
    "more needed from other racks": ("racks", lambda load: {"remote": (load.remote[0], load.remote[1] + 1)}),
    "no racks": ("racks", lambda _: {"remote": None}),
    "a frontier that is too good": ("frontier", lambda load: {"frontier": ((0, 1.0), *load.frontier[1:])}),
    "a frontier that rises": (
        "frontier",
        lambda load: {"frontier": (load.frontier[0], (1, load.frontier[0][1] + 1), *load.frontier[1:])},
    ),
    "a frontier that ends elsewhere": ("frontier", lambda load: {"frontier": load.frontier[:-1]}),
    "no frontier": ("frontier", lambda _: {"frontier": ()}),
    "a worse start of the frontier": (
        "frontier",
        lambda load: {"frontier": ((0, load.frontier[0][1] + 0.1), *load.frontier[1:])},
    ),
    "another epsilon": ("epsilon", lambda load: {"epsilon": 0.06, "limit": load.bound * 1.06}),
    "another limit": ("limit", lambda load: {"limit": load.bound}),
    "another coverage": ("coverage", lambda load: {"coverage": (load.coverage[0] - 1, load.coverage[1])}),
    "another capacity": ("capacity", lambda load: {"capacity": {**load.capacity, "a": 2.0}}),
    "a member too many": ("work", lambda load: {"work": {**load.work, "z": 0.0}}),
    "caps raised without need": ("cap", lambda _: {"caps": 1.25, "caps_why": "work"}),
    "caps ignored without need": ("cap", lambda _: {"caps": None, "caps_why": "work"}),
    "caps raised for want of moves": ("cap", lambda _: {"caps": 1.25, "caps_why": "moves"}),
    "caps raised without a reason": ("cap", lambda _: {"caps": 1.1}),
    "a multiple that is none": ("cap", lambda _: {"caps": 1.3, "caps_why": "work"}),
    "a budget": ("budget", lambda _: {"budget": (3, 3)}),
    "advice without need": ("advice", lambda _: {"advice": ("3.00 of the mean is the least possible: add members",)}),
    "a verdict": ("verdict", lambda _: {"verdict": (True, "2.00 of the bound; the moves gain 40%")}),
    "a work that is no number": ("work", lambda load: {"work": {**load.work, "a": "12"}}),
    "a bound that is no number": ("work", lambda _: {"bound": float("nan")}),
    "a witness of another kind": ("bound", lambda _: {"why": "topics", "witness": ("t", "u")}),
    "a kind of proof that is none": ("bound", lambda _: {"why": "surely"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_false_claim_is_named(damage: str) -> None:
    law, change = DAMAGES[damage]
    decision, load = loaded()
    assert law in laws(replace(decision, load=replace(load, **change(load))), STATE)


@pytest.fixture
def no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("scipy", "scipy.optimize", "scipy.sparse"):
        monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.usefixtures("no_solver")
def test_without_a_solver_a_false_claim_is_named_or_told_as_not_proven(damage: str) -> None:
    law, change = DAMAGES[damage]
    decision, load = loaded()
    assert {law, SOLVER} & laws(replace(decision, load=replace(load, **change(load))), STATE)


NEED_A_SOLVER = {
    "more moves needed": "the least number of moves",
    "a dearer least state": "the least cost of the moves",
    "caps raised without need": "that caps had to be raised",
}


@pytest.mark.parametrize("damage", NEED_A_SOLVER)
@pytest.mark.usefixtures("no_solver")
def test_what_only_a_solver_proves_names_the_claim_and_the_extra(damage: str) -> None:
    decision, load = loaded()
    damaged = replace(decision, load=replace(load, **DAMAGES[damage][1](load)))
    breaches = check(GROUP, WEIGHTS, {}, damaged, None, CAPS, STATE)
    text = f"{NEED_A_SOLVER[damage]} is not proven: only a solver can check it; run: {install('solver')}"
    assert text in [breach.text for breach in breaches if breach.law == SOLVER]


def test_without_a_solver_an_exact_bound_is_told_as_not_proven(request: pytest.FixtureRequest) -> None:
    case = small(0)
    decision = plan(case.group, "weighted", **case.options)
    assert decision.load is not None
    assert (decision.load.why, decision.violations()) == ("exact", [])

    request.getfixturevalue("no_solver")
    assert f"the bound is not proven: only a solver can check it; run: {install('solver')}" in [
        breach.text for breach in decision.violations() if breach.law == SOLVER
    ]


@pytest.mark.usefixtures("no_solver")
def test_a_saved_plan_is_explained_with_what_could_not_be_checked_and_a_false_one_is_not() -> None:
    decision = made(state=True)
    saved = Plan.from_json(decision.to_json())
    unchecked = [str(breach) for breach in saved.violations()]
    assert unchecked
    assert {breach.law for breach in saved.violations()} == {SOLVER}
    assert saved.explain() == "\n".join((decision.explain(), *unchecked))

    text = json.loads(decision.to_json())
    text["load"]["work"]["a"] += 1
    assert "this plan is not proven" in Plan.from_json(json.dumps(text)).explain()


def test_a_limit_below_every_partition_is_named() -> None:
    decision, load = loaded()
    assert "limit" in laws(replace(decision, load=replace(load, limit=0.5, least_moves=load.least_moves + 9)), STATE)


def test_a_cap_that_is_not_kept_is_named() -> None:
    decision = made(state=False)
    found = check(GROUP, WEIGHTS, {}, decision, None, {"a": decision.load.work["a"] / 2})  # type: ignore[union-attr]
    assert "cap" in {each.law for each in found}


def test_least_costs_beyond_counting_are_tried_in_a_small_group() -> None:
    """Counting allows parts of partitions, so only trying every assignment proves the least cost."""
    decision, load = loaded()
    assert load.state is not None
    assert load.state[0] == pytest.approx(load.state[1], rel=1e-3)
    assert laws(decision, STATE) == set()


def forged(decision: Plan, **changes: Any) -> list[str]:
    """Laws that a changed plan breaks, checked by what is in it alone."""
    return sorted({each.law for each in verify(replace(decision, **changes))})


def test_a_plan_is_checked_by_its_own_inputs() -> None:
    assert verify(made(state=True)) == verify(made(state=False)) == []


def test_goals_that_the_figures_do_not_say_are_named() -> None:
    decision = made(state=False)
    work, moves = decision.goals
    for goals in (
        (replace(work, least=work.value / 2), moves),
        (work, replace(moves, reached=not moves.reached)),
        (work,),
    ):
        assert forged(decision, goals=goals) == ["goals"]


def test_ids_that_only_equal_partitions_are_named() -> None:
    """As JSON, 3.0 and True pass for 3 and 1."""
    decision = made(state=False)
    (topic, ids), *_ = decision.target["a"].items()
    floats = {**decision.target, "a": {topic: [float(p) for p in ids]}}
    assert forged(decision, target=floats) == ["exists"]
    assert forged(decision, assignment={**decision.assignment, "a": {topic: [float(p) for p in ids]}}) == ["exists"]


def test_an_assignment_that_is_none_is_named() -> None:
    decision = made(state=False)
    less = {m: {t: ids[1:] for t, ids in topics.items()} for m, topics in decision.target.items()}
    assert "covered" in forged(decision, target=less)
    twice = {m: {"t": [0, *(p for p in topics.get("t", ()) if p)]} for m, topics in decision.target.items()}
    assert "single-owner" in forged(decision, target=twice)
    assert "every-member" in forged(decision, target={"a": decision.target["a"]})


def test_a_first_round_that_leads_elsewhere_is_named() -> None:
    decision = made(state=False)
    swap = {"a": decision.target["b"], "b": decision.target["a"], "c": decision.target["c"]}
    assert set(forged(decision, target=swap)) & {"target", "hand-over"}


def test_caps_that_are_broken_and_not_told_are_named() -> None:
    """All at one member, whose cap the plan calls kept."""
    decision = plan(GROUP, "weighted", weights=WEIGHTS, max_work={"a": 10.0})
    load = decision.load
    assert load is not None
    everything = {"a": {"t": list(range(8))}, "b": {}, "c": {}}
    work = {"a": sum(WEIGHTS.values()), "b": 0.0, "c": 0.0}
    same = replace(load, work=work, greatest=work["a"], limit=work["a"], moves=2, least_moves=0)
    first = {**everything, "a": {"t": list(range(6))}}
    assert "cap" in forged(decision, target=everything, assignment=first, load=same)


@pytest.mark.parametrize("seed", range(examples(60)))
def test_no_sound_plan_is_refused(seed: int) -> None:
    case = middle(seed // 10) if seed % 10 == 9 else small(seed)
    assert verify(plan(case.group, "weighted", **case.options)) == []


@pytest.mark.parametrize("seed", [334, 908, 1016, 1129])
def test_figures_of_texts_are_those_of_the_plan(seed: int) -> None:
    """Capacities over twelve orders of magnitude; partitions without an owner that the search places twice."""
    case = small(seed)

    assert verify(plan(case.group, "weighted", **case.options)) == []


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 2_000, 50))
def test_no_sound_plan_of_many_is_refused(first: int) -> None:
    for seed in range(first, first + 50):
        case = small(seed)
        assert verify(plan(case.group, "weighted", **case.options)) == [], seed


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "the goals": lambda value: value["goals"][0].__setitem__(2, value["goals"][0][2] * 1.01),
    "what is reached": lambda value: value["goals"][1].__setitem__(3, not value["goals"][1][3]),
    "the bound": lambda value: value["load"].__setitem__("bound", value["load"]["bound"] * 1.01),
    "epsilon": lambda value: value["load"].__setitem__("epsilon", 0.5),
    "an option": lambda value: value["options"].__setitem__("epsilon", 0.5),
    "a weight": lambda value: value["options"]["weights"]["t"].__setitem__("0", 90.0),
    "a float id": lambda value: value["target"]["c"].__setitem__("t", [float(p) for p in value["target"]["c"]["t"]]),
    "coverage": lambda value: value["load"].__setitem__("coverage", [7, 8]),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_saved_plan_that_was_edited_is_not_explained_as_proven(edit: str) -> None:
    decision = made(state=False)
    assert str(Plan.from_json(decision.to_json())) == str(decision)
    value = json.loads(decision.to_json())
    EDITS[edit](value)

    text = str(Plan.from_json(json.dumps(value)))

    assert text.startswith("weighted: this plan is not proven; ")
    assert "claims of it that do not hold (" in text
    assert "greatest" not in text.splitlines()[0]
    assert "the fewest possible" not in text
