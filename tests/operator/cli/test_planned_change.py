"""The change that `plan` is asked for: members that join by name, and groups of several sizes."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ClusterError, ConfigError
from kafka_assignors.frame import Common
from kafka_assignors.operator.cli import plan as work
from kafka_assignors.operator.live.group import Change, LiveGroup, LiveMember, LiveTopics, as_group
from kafka_assignors.operator.live.leading import led
from kafka_assignors.operator.plans import plan
from tests.support.cli import SCHEMAS

TOPICS = LiveTopics({"t": 6})


def live() -> LiveGroup:
    owned = {"b": [0, 1, 2], "d": [3, 4, 5]}
    members = tuple(
        LiveMember(f"{name}-1", name, "h", frozenset({"t"}), tuple(TopicPartition("t", p) for p in partitions))
        for name, partitions in owned.items()
    )
    return LiveGroup("g", "Stable", "classic", "range", members, 3)


def test_a_new_member_takes_its_place_among_the_others() -> None:
    """Range gives the first partitions to the first member id, so the name decides."""
    first, last = (plan(as_group(live(), TOPICS, Change(joining=(name,))), "range").target for name in ("a", "e"))
    assert first == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}, "d": {"t": [4, 5]}}
    assert last == {"b": {"t": [0, 1]}, "d": {"t": [2, 3]}, "e": {"t": [4, 5]}}


def test_the_order_of_hashes_is_that_of_the_real_ids() -> None:
    """Java's sticky assignors iterate over members by the hashes of their ids; the diff has names all the same."""
    answer = work.Answer(
        live(), Change(joining=("a",)), {
            "sticky:parity=java": plan(as_group(live(), TOPICS, Change(joining=("a",)), ids=True), "sticky",
                                       parity="java"),
        }, TOPICS,
    )  # fmt: skip
    assert set(answer.plans["sticky:parity=java"].target) == {"a", "b-1", "d-1"}
    told = "\n".join(work.lines(answer))
    assert "-1" not in told.replace("t-1", "")


def test_a_group_in_a_rebalance_is_not_planned() -> None:
    """The coordinator tells its members without subscriptions: a plan of them would be empty."""
    with pytest.raises(ClusterError, match=r"'g' is in a rebalance \(PreparingRebalance\)"):
        as_group(replace(live(), state="PreparingRebalance"), TOPICS)


def test_members_in_one_bucket_keep_the_coordinators_order() -> None:
    """Both hashes end alike (Aa and BB), so Java meets these members in the order in which the coordinator lists them.

    Seven partitions for three members: the member that Java meets first keeps its third.
    """
    owned = {"Aa": [0, 1, 2], "BB": [3, 4, 5]}
    members = tuple(
        LiveMember(name, name, "h", frozenset({"t"}), tuple(TopicPartition("t", p) for p in partitions))
        for name, partitions in owned.items()
    )
    for listed, keeps in ((("Aa", "BB"), "Aa"), (("BB", "Aa"), "BB")):
        group = LiveGroup("g", "Stable", "classic", "sticky", members, 3, listed=listed)
        joined = as_group(group, LiveTopics({"t": 7}), Change(joining=("z",)), ids=True)
        target = plan(joined, "sticky", parity="java").target
        assert {name for name in owned if len(target[name]["t"]) == 3} == {keeps}


def test_a_name_that_is_taken_is_refused_and_unnamed_members_avoid_it() -> None:
    with pytest.raises(ConfigError, match="--add b: the group has a member of that name"):
        as_group(live(), TOPICS, Change(joining=("b",)))
    group = as_group(live(), TOPICS, Change(add=1, joining=("new-1",)))
    assert sorted(member.member_id for member in group.members) == ["b", "d", "new-1", "new-2"]


def test_sizes_are_told_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    leaders = {name: led(live(), TOPICS, name=name) for name in ("range", "sticky")}
    for as_json in (True, False):
        assert work._tell_sizes(Common(as_json=as_json), live(), leaders, range(1, 4)) == 0
        told = capsys.readouterr().out
        if as_json:
            answer = json.loads(told)
            jsonschema.validate(answer, json.loads((SCHEMAS / "plan-members.json").read_text("utf-8")))
            assert [size["greatest"] for size in answer["sizings"][1]["sizing"]["sizes"]] == [6, 3, 2]
        else:
            assert max(map(len, told.splitlines())) <= 80
            assert "*" in told
