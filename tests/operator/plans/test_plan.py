"""Plans: what they tell is true, they survive JSON, and a replay of the JSON is the same plan."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafka_assignors
from kafka_assignors import Group, Member, Plan, TopicPartition, plan
from kafka_assignors.core import strategies
from kafka_assignors.core.fewest import least_changes
from kafka_assignors.core.group.assignment import moves, owners
from kafka_assignors.core.group.claims import resolve
from kafka_assignors.core.reading import decode
from kafka_assignors.core.wire import protocol
from kafka_assignors.errors import ConfigError, UnknownName
from kafka_assignors.operator.plans.certificate import check
from kafka_assignors.operator.plans.plan import planned
from tests.support.assignors.golden import previous_owners
from tests.support.assignors.groups import groups
from tests.support.examples import examples

NAMES = list(strategies.STRATEGIES)
TABLE = {"r1": {"r2": 0.5, "r3": 2}}


def story():
    """a holds most of t, b left u, c joined; b and c dispute v-0."""
    return Group(
        [
            Member("a", {"t", "u"}, rack="r1", owned=[("t", 0), ("t", 1), ("t", 2), ("u", 0)], generation=3),
            Member("b", {"t", "v"}, rack="r2", owned=[("u", 1), ("v", 0), ("t", 9)], generation=3),
            Member("c", {"t", "v"}, owned=[("v", 0)], generation=3),
        ],
        {"t": 4, "u": 2, "v": 1},
        {"t": [["r1"], ["r2"], ["r1", "r2"], []]},
        {"t": ["r1", None]},
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(group=groups())
@settings(max_examples=examples(30))
def test_every_strategy_has_plans_that_replay(name, group):
    made = plan(group, name)
    again = Plan.from_json(made.to_json())
    assert again == made
    assert again.replay() == made
    assert again.to_json() == made.to_json()
    assert made.assignment == strategies.strategy(name).place(group)
    assert made.explain()


@given(group=groups())
@settings(max_examples=examples(60))
def test_what_a_plan_tells_is_true(group):
    made = plan(group)
    eager = strategies.strategy("sticky").place(group)  # as good; what the first round leaves in place decides ties
    assert sorted(made.loads.values()) == sorted(sum(map(len, topics.values())) for topics in eager.values())
    claims = resolve(group)
    assert made.withheld == {
        partition: claims.holders(partition)
        for partition, new in owners(made.target).items()
        if claims.holders(partition) not in ((), (new,))
    }
    assert check(group, made.target, made.certificate) == []
    assert made.optimal
    assert {m: sum(map(len, topics.values())) for m, topics in made.target.items()} == made.loads
    left = {move.partition: (move.old, move.new) for move in made.moves if move.old in previous_owners(group).values()}
    expected = moves(previous_owners(group), owners(made.target))
    assert {tp: pair for tp, pair in left.items() if tp in previous_owners(group)} == expected
    assert made.goals[2].value == len(expected)
    assert {move.partition for move in made.moves} == {
        tp for tp, m in owners(made.target).items() if previous_owners(group).get(tp) != m
    }


@pytest.mark.slow
@pytest.mark.parametrize("alike", [False, True])
@given(group=groups())
@settings(max_examples=examples(100))
def test_the_least_changes_are_those_of_a_plan(alike, group):
    """Counted for members that subscribe alike, and by the flow for all others."""
    if alike:
        topics = group.members[0].topics
        members = [Member(m.member_id, topics, owned=m.owned, generation=m.generation) for m in group.members]
        group = Group(members, group.partitions)
    made = plan(group, "sticky")
    free = {move.partition for move in made.moves} - previous_owners(group).keys()
    assert least_changes(group) == (made.goals[2].value, len(free))
    assert sum(least_changes(group)) == len(plan(group).moves)


def test_each_move_has_its_reason():
    found = {move.partition: move for move in plan(story()).moves}
    assert {tp: move.kind for tp, move in found.items()} == {
        ("t", 1): "racks",
        ("t", 3): "unowned",
        ("u", 1): "unsubscribed",
        ("v", 0): "disputed",
        ("t", 2): "balance",
    }
    assert found["t", 1].why == "on rack r2 it costs 0 instead of 1 on r1"
    assert found["t", 2].why == "its owner goes from 4 to 3 partitions, the new one from 0 to 2"
    assert found["u", 1].old == "b"
    by_rule = {move.kind for move in plan(story(), "range").moves if move.old == "a"}
    assert by_rule == {"rule"}


def test_no_rack_is_the_reason_of_a_broker_that_knows_none_or_of_an_owner_without_one():
    held = [("t", p) for p in range(4)]
    far = [["r2"]] * 4

    def reasons(rack, strategy, **options):
        members = [Member("a", {"t"}, owned=held, rack="r1"), Member("b", {"t"}, rack=rack)]
        return {(move.kind, move.why) for move in plan(Group(members, {"t": 4}, {"t": far}), strategy, **options).moves}

    balance = {("balance", "its owner goes from 4 to 2 partitions, the new one from 0 to 2")}
    assert reasons("r2", "sticky") == {("racks", "on rack r2 it costs 0 instead of 1 on r1")}
    assert reasons(None, "sticky") == balance
    assert reasons("r2", "uniform", protocol="consumer") == balance


def test_goals_in_the_order_of_the_options_and_in_the_units_of_the_matrix():
    assert [goal.name for goal in plan(story()).goals] == ["balance", "racks", "moves"]
    far = Group([Member("a", {"t"}, rack="r1"), Member("b", {"t"}, rack="r1")], {"t": 2}, {"t": [["r2"], ["r3", "r2"]]})
    paid = plan(far, "sticky", rack_costs=TABLE, goals=["balance", "moves", "racks"])
    assert [(goal.name, goal.value, goal.least, goal.reached) for goal in paid.goals] == [
        ("balance", 2, 2, True),
        ("moves", 0, 0, True),
        ("racks", 1, 1, True),
    ]
    assert "goals=['balance', 'moves', 'racks']" in paid.explain()


def test_a_strategy_that_does_not_optimise_is_measured_against_the_best():
    group = Group([Member(m, {"t", "u"}) for m in "ab"], {"t": 3, "u": 3})
    made = plan(group, "range")
    assert not made.optimal
    assert [(goal.value, goal.least, goal.reached) for goal in made.goals] == [
        (20, 18, False),
        (0, 0, False),
        (0, 0, False),
    ]
    assert "not optimal" in made.explain()
    assert "balance  20, 2 above the least possible 18" in made.explain()


def test_a_small_group_is_told_whole():
    made = plan(story())
    assert made.explain().splitlines() == [
        "cooperative-sticky: 7 partitions of 3 topics to 3 members",
        "  optimal (by balance, then racks, then moves; proven):",
        "    balance  17, the least possible  (sum of squared loads)",
        "    racks    0, the least possible  (cost of reading from other racks)",
        "    moves    2, the least possible  (partitions that leave their owner)",
        "",
        "  a on r1: 3 partitions, gets 1, gives 2",
        "    t 0; u 0-1",
        "  b on r2: 2 partitions, gets 2, gives 1",
        "    t 1-2",
        "  c: 2 partitions, gets 2",
        "    t 3; v 0",
        "new owners (5)",
        "  t-1: a -> b  racks: on rack r2 it costs 0 instead of 1 on r1",
        "  t-2: a -> b  balance: its owner goes from 4 to 3 partitions, the new one from 0 to 2",
        "  t-3: - -> c  unowned: no member holds it: its owner left, or it is new",
        "  u-1: b -> a  unsubscribed: b does not subscribe to u any more",
        "  v-0: - -> c  disputed: b and c claim it with the same generation",
        "withheld until their owners revoke them (3); a second rebalance assigns them",
        "  by a: t-1, t-2",
        "  by b, c: v-0",
        "facts (3)",
        "  v-0 is claimed by 'b', 'c' with the same generation; it is nobody's",
        "  member 'b' claims t-9 that do not exist; ignored",
        "  member 'b' claims u-1 that are of topics it does not subscribe to; ignored",
    ]


def test_a_large_group_is_summed_up():
    everything = {f"t{i}": 100 for i in range(50)}
    members = [
        Member(
            f"m{i:02}", everything, owned=[(t, p) for t in everything for p in range(i * 2, i * 2 + 2)], generation=1
        )
        for i in range(50)
    ]
    text = plan(Group([*members, Member("new", everything)], everything)).explain()
    assert len(text.splitlines()) < 50
    assert max(map(len, text.splitlines())) < 300
    assert "new owners (98)" in text
    assert "  98 for balance" in text
    assert "  49 members with 98 partitions" in text
    assert "  2 members with 99 partitions" in text


def test_a_plan_shows_itself_briefly_and_prints_its_explanation():
    made = plan(story(), "cooperative-sticky", goals=["balance", "moves", "racks"])
    options = "goals=['balance', 'moves', 'racks']"
    assert repr(made) == f"<Plan cooperative-sticky, {options}: 7 partitions to 3 members, optimal>"
    assert str(made) == made.explain()
    weights = {("t", partition): 1.5 for partition in range(1000)}
    weighted = plan(Group([Member("a", {"t"})], {"t": 1000}), "weighted", weights=weights)
    assert len(repr(weighted)) < 150


def test_bytes_that_mean_nothing_are_kept_as_facts():
    sent = [
        ("good", None, protocol.encode_subscription(protocol.Subscription(("t",), None))),
        ("bad", None, protocol.encode_subscription(protocol.Subscription(("t",), b"\x7f\xff\xff\xff\0\xff"))),
    ]
    decoded = [(m, i, protocol.decode_subscription(data)) for m, i, data in sent]
    made = planned(decode("sticky", decoded, {"t": 2}), strategies.strategy("sticky"))
    assert [fact.kind for fact in made.facts] == ["garbage-user-data"]
    assert Plan.from_json(made.to_json()).replay() == made
    assert "member 'bad'" in made.explain()


def test_java_is_explained_as_java():
    group = Group([Member("c0", {"t1"}), Member("c1", {"t0", "t1"}), Member("c2", {"t0"})], {"t0": 1, "t1": 2})
    java = plan(group, "sticky", parity="java")
    assert (java.goals[0].value, java.goals[0].least) == (5, 3)
    assert not java.optimal
    assert Plan.from_json(java.to_json()).replay() == java
    both = plan(story(), "cooperative-sticky", parity="java")
    assert Plan.from_json(both.to_json()).replay() == both


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "the text is not a plan"),
        ("[]", "the text is not a plan"),
        ('{"format": "else"}', "'format'"),
        ('{"format": "kafka-assignors plan", "version": 2}', "version 2; known: 1"),
        ('{"format": "kafka-assignors plan", "version": 1}', "damaged: KeyError: 'input'"),
    ],
)
def test_what_is_no_plan_is_refused(text, says):
    with pytest.raises(ConfigError) as refused:
        Plan.from_json(text)
    assert says in str(refused.value)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=examples(60))
def test_damaged_json_is_refused_or_read_but_never_a_traceback(data):
    value = json.loads(plan(story()).to_json())
    part = data.draw(st.sampled_from(sorted(value)))
    value[part] = data.draw(st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=3))
    try:
        Plan.from_json(json.dumps(value))
    except (ConfigError, UnknownName):
        return


def test_unknown_names_and_options_say_what_there_is():
    with pytest.raises(UnknownName, match="cooperative-sticky"):
        plan(story(), "best")
    with pytest.raises(ConfigError, match="it has parity, rack_costs, goals"):
        plan(story(), rack="r1")


def test_first_names():
    assert kafka_assignors.plan is plan
    assert {"plan", "Plan", "Group", "Member", "TopicPartition"} <= set(dir(kafka_assignors))
    assert TopicPartition("t", 0) == ("t", 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(group=groups())
@settings(max_examples=examples(20))
def test_a_saved_plan_of_every_strategy_is_proven_again(name, group):
    made = plan(group, name)
    again = Plan.from_json(made.to_json())
    assert again.violations() == []
    assert str(again) == str(made)


@pytest.mark.parametrize("field", [1, 2, 3])
@pytest.mark.parametrize("goal", range(3))
def test_a_saved_plan_with_edited_goals_is_not_explained_as_proven(goal, field):
    value = json.loads(plan(story()).to_json())
    was = value["goals"][goal][field]
    value["goals"][goal][field] = not was if field == 3 else was - 1

    text = str(Plan.from_json(json.dumps(value)))

    assert text.startswith("cooperative-sticky: this plan is not proven; claims of it that do not hold (1):\n  goals: ")


def test_a_saved_plan_with_other_ids_or_prices_is_not_explained_as_proven():
    for edit, law in (
        (lambda value: value["assignment"]["a"].update(t=[0.0, 1.0]), "exists"),
        (lambda value: value["prices"].update(a=[1, 2, "x"]), "price"),
        (lambda value: value["prices"].pop("a"), "price"),
        (lambda value: value["prices"].update(a=[1000, 0, 0]), "goals"),
    ):
        value = json.loads(plan(story()).to_json())
        edit(value)
        read = Plan.from_json(json.dumps(value))
        assert {each.law for each in read.violations()} == {law}
        assert "not proven" in str(read)
