"""A fixed table: what it says, what it leaves to others, and what it refuses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_assignors import ConfigAssignor
from kafka_assignors.core.group import Group, Member
from kafka_assignors.core.group.invariants import violations
from kafka_assignors.core.reading import decoded, replay
from kafka_assignors.core.stateless import fixed, roundrobin
from kafka_assignors.core.strategies import strategy
from kafka_assignors.errors import AssignmentError, ConfigError
from tests.support.assignors.groups import TOPICS, groups
from tests.support.examples import examples

TABLE = {"billing-1": {"orders": [0, 3], "audit": [0]}, "billing-2": {"orders": [1, 2]}}


def group_of(**instances):
    """member id -> instance id; all subscribe to orders (4 partitions) and audit (1)."""
    return Group([Member(m, {"orders", "audit"}, i) for m, i in instances.items()], {"orders": 4, "audit": 1})


def placed(group, **options):
    assignment, facts = strategy("config", **options).assign(decoded("config", group))
    assert violations(group, assignment) == []
    return assignment, [str(fact) for fact in facts]


def test_the_table_is_the_assignment():
    assignment, facts = placed(group_of(x="billing-2", y="billing-1"), table=TABLE, uncovered="error")

    assert assignment == {"x": {"orders": [1, 2]}, "y": {"audit": [0], "orders": [0, 3]}}
    assert facts == []


def test_a_member_without_an_instance_id_is_named_by_its_member_id():
    group = Group([Member("billing-1", {"orders"}), Member("billing-2", {"orders"})], {"orders": 4})

    assert placed(group, table=TABLE)[0] == {"billing-1": {"orders": [0, 3]}, "billing-2": {"orders": [1, 2]}}


def test_what_an_absent_member_has_in_the_table_goes_to_those_present():
    assignment, facts = placed(group_of(x="billing-2", z="other"), table=TABLE)

    # orders-0 and orders-3 are in turn x's and z's, after audit-0
    assert assignment == {"x": {"audit": [0], "orders": [1, 2, 3]}, "z": {"orders": [0]}}
    assert facts == ["the table's member 'billing-1' is not in the group"]


def test_what_the_table_does_not_have_goes_to_the_strategy_chosen():
    table = {"a": {"orders": [1]}}
    group = group_of(x="a", y="b")

    by = {name: placed(group, table=table, uncovered=name)[0] for name in ("roundrobin", "average", "range")}

    assert by["roundrobin"] == {"x": {"audit": [0], "orders": [1, 2]}, "y": {"orders": [0, 3]}}
    assert by["average"] == by["range"] == {"x": {"audit": [0], "orders": [0, 1, 2]}, "y": {"orders": [3]}}
    _, facts = placed(group, table=table)
    assert facts == [
        "the table does not have audit-0",
        "the table does not have orders-0, orders-2, orders-3",
    ]  # fmt: skip


def test_racks_reach_the_strategy_chosen_under_the_new_numbers():
    members = [Member("x", {"t"}, "x", "r1"), Member("y", {"t"}, "y", "r2")]
    group = Group(members, {"t": 4}, {}, {"t": ["r1", "r1", "r2", "r1"]})

    assignment, _ = placed(group, table={"y": {"t": [0]}}, uncovered="machine-room-nearby")

    assert assignment == {"x": {"t": [1, 3]}, "y": {"t": [0, 2]}}


def test_error_names_the_partitions_and_why():
    with pytest.raises(AssignmentError) as raised:
        placed(group_of(x="billing-2"), table=TABLE, uncovered="error")

    assert str(raised.value) == (
        "the table leaves audit-0, orders-0, orders-3 unassigned (the table's member 'billing-1' is not in the group): "
        "complete it, start the members it names, or choose a strategy for such partitions (uncovered='roundrobin')"
    )


def test_what_cannot_be_given_is_told_and_covered_otherwise():
    table = {"a": {"orders": [0, 9], "other": [0]}, "b": {"audit": [0], "orders": [1, 2, 3]}}
    group = Group([Member("x", {"orders"}, "a"), Member("y", {"audit"}, "b")], {"orders": 4, "audit": 1, "other": 1})

    assignment, facts = placed(group, table=table)

    assert assignment == {"x": {"orders": [0, 1, 2, 3]}, "y": {"audit": [0]}}
    assert facts == [
        "the table gives 'a' orders-9, which does not exist",
        "the table gives 'a' topic 'other', which it does not subscribe to",
        "the table gives 'b' topic 'orders', which it does not subscribe to",
    ]


def test_an_empty_table_leaves_all_to_the_strategy_and_says_so():
    group = group_of(x="a", y="b")

    assert placed(group) == (roundrobin.assign(group), ["the table is empty"])


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(
    group=groups(),
    table=st.dictionaries(
        st.sampled_from(["a", "b", "i-a", "i-c", "nobody"]),
        st.dictionaries(st.sampled_from((*TOPICS, "gone")), st.sets(st.integers(0, 6)).map(sorted), max_size=3),
    ),
    uncovered=st.sampled_from(["roundrobin", "range", "consistent-hash", "machine-room-nearby"]),
)
def test_any_table_gives_a_sound_assignment_that_follows_it_where_it_can(group, table, uncovered):
    given_ = {}
    table = {
        name: {t: [p for p in ids if given_.setdefault((t, p), name) == name] for t, ids in topics.items()}
        for name, topics in table.items()
    }

    assignment, _ = placed(group, table=table, uncovered=uncovered)

    for member in group.members:
        for topic, ids in table.get(member.instance_id or member.member_id, {}).items():
            if topic in member.topics:
                can = {p for p in ids if p < group.partitions.get(topic, 0)}
                assert can <= set(assignment[member.member_id].get(topic, ()))


def test_the_options_survive_json():
    options = json.loads(json.dumps({"table": TABLE, "uncovered": "average"}))

    assert strategy("config", **options).options == {"table": TABLE, "uncovered": "average"}
    assert replay("config", [], {"orders": 4}, **options) == {}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([], "table must map a member's instance id to topics and partitions, not be []"),
        ({1: {}}, "a member is named by its instance id (or member id), not by 1"),
        ({"": {}}, "not by ''"),
        ({"a": ["t"]}, "table['a'] must map topics to lists of partition ids, not be ['t']"),
        ({"a": {None: [0]}}, "table['a']: a topic is named by a string, not by None"),
        ({"a": {"t": 0}}, "table['a']['t'] must be a list of partition ids, not 0"),
        ({"a": {"t": "01"}}, "not '01'"),
        ({"a": {"t": [-1]}}, "table['a']['t']: a partition id is an int from 0, not -1"),
        ({"a": {"t": [True]}}, "not True"),
        ({"a": {"t": [0.0]}}, "not 0.0"),
        ({"a": {"t": [3, 1, 3]}}, "table gives t-3 twice to 'a'; a partition has one owner"),
        ({"a": {"t": [0]}, "b": {"t": [0]}}, "table gives t-0 to 'a' and to 'b'; a partition has one owner"),
    ],
)
def test_a_table_that_cannot_work_is_refused_at_construction(table, says):
    with pytest.raises(ConfigError) as raised:
        ConfigAssignor(table=table)

    assert says in str(raised.value)


@pytest.mark.parametrize("uncovered", ["sticky", "cooperative-sticky", "config", "nobody", None])
def test_only_a_strategy_without_claims_can_have_the_rest(uncovered):
    with pytest.raises(ConfigError, match="uncovered must be 'error' or one of range, roundrobin, metaq-default, "):
        ConfigAssignor.factory(table=TABLE, uncovered=uncovered)


def test_the_table_is_what_it_was_when_the_assignor_was_made():
    table = {"a": {"orders": [0]}}
    assignor = ConfigAssignor(table=table)
    table["a"]["orders"].append(0)

    assert fixed.check(assignor._strategy.options["table"]) == {"a": {"orders": [0]}}
