"""Placement without history on a real broker: tables, rooms, rings. `test_group.py` has each assignor's whole life."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.core.reading import replay
from kafka_assignors.errors import ConfigError, UnknownName
from kafka_assignors.integration.broker.cluster import Cluster
from kafka_assignors.integration.checker import Verdict, check
from kafka_assignors.integration.checker.ledger import RunRecord
from kafka_assignors.integration.errors import MemberDied
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup, Stable
from kafka_assignors.integration.registry import assignor_named
from tests.support.integration.racks import PLACED, RACK_OF_NODE, one_leaves

pytestmark = pytest.mark.broker
MakeGroup = Callable[..., MemberGroup]
MakeTopic = Callable[..., str]


def with_options(name: str, **options: Any) -> str:
    return name + json.dumps(options)


def judged(folder: Path) -> Verdict:
    """All laws hold; that the leader's answer is our core's (A1) was judged with the options of its assignor."""
    verdict = check(History.load(folder))
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    assert verdict.checked["A1"] >= 1
    return verdict


def start_static(group: MemberGroup, topic: str, assignor: str, names: str) -> Stable:
    for name in names.split():
        group.start(name, [topic], [assignor], instance_id=f"static-{name}")
    return group.wait_stable()


@pytest.mark.long  # long: core/stateless/test_fixed.py proves tables without members
def test_a_table_is_followed_and_the_rest_shared_by_those_present(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = kafka_topic(partitions=6)
    table = {f"static-{m}": {topic: ids} for m, ids in {"m1": [5, 0], "m2": [1], "m3": [2, 3]}.items()}
    group = unjudged_group()
    three = start_static(group, topic, with_options("config", table=table), "m1 m2 m3")
    group.kill("m3")
    two = group.wait_stable()
    group.close()

    assert three.owned == {"m1": {topic: [0, 4, 5]}, "m2": {topic: [1]}, "m3": {topic: [2, 3]}}
    assert two.owned == {"m1": {topic: [0, 2, 4, 5]}, "m2": {topic: [1, 3]}}
    assert judged(tmp_path).checked["T1"] == 1


@pytest.mark.long  # long: one more group; members/test_member.py has an assignor that raises, and what is told
def test_a_table_that_must_be_whole_stops_the_leader(unjudged_group: MakeGroup, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(partitions=2)
    group = unjudged_group()
    group.start("m1", [topic], [with_options("config", table={"static-m1": {topic: [0]}}, uncovered="error")])

    with pytest.raises(
        MemberDied, match=rf"AssignmentError: the table leaves {topic}-0, {topic}-1 unassigned .*not in the group"
    ):
        group.wait_stable()


@pytest.mark.long  # long: one more group; core/stateless/test_family.py proves that ids and order make no difference
def test_the_same_members_have_the_same_after_all_were_restarted(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """New member ids, another leader, another order, one member that came and went in between."""
    topic = kafka_topic(partitions=20)
    group = unjudged_group()
    assignor = with_options("consistent-hash", epsilon=0.2, hash="blake2b")
    before = start_static(group, topic, assignor, "m1 m2 m3")
    group.start("m0", [topic], [assignor])
    group.wait_stable()
    for name in group.running:
        group.stop(name)
    after = start_static(group, topic, assignor, "m3 m2 m1")
    group.close()

    assert before.owned == after.owned
    assert max(sum(map(len, topics.values())) for topics in after.owned.values()) <= 8  # 20 / 3 * 1.2
    judged(tmp_path)


def test_an_assignor_is_named_with_its_options() -> None:
    named = assignor_named('consistent-hash{"epsilon": 0.1}', rack="a")

    assert (named.name, named.rack, named._strategy.options["epsilon"]) == ("consistent-hash", "a", 0.1)
    with pytest.raises(ConfigError, match="AverageAssignor has no option 'epsilon'; it has rack"):
        assignor_named('average{"epsilon": 0.1}')
    with pytest.raises(ConfigError, match="its options are not a JSON object like"):
        assignor_named("consistent-hash{epsilon=0.1}")
    with pytest.raises(UnknownName, match="unknown assignor 'hash'; known: range"):
        assignor_named('hash{"epsilon": 0.1}')


# long: core/stateless/test_family.py has rooms by leaders' racks, test_racks.py the racks of a live cluster
@pytest.mark.long
def test_rooms_are_racks(kafka_cluster: Cluster, kafka_cluster_topic: MakeTopic, tmp_path: Path) -> None:
    """Each has what its rack leads; what the rack of the one that left leads is shared."""
    placed = PLACED["two replicas"]
    topic = kafka_cluster_topic(placed=placed, name="rooms")
    group = MemberGroup(kafka_cluster.bootstrap, f"g-{tmp_path.name}", tmp_path, "run")
    with group:
        three, two = one_leaves(group, topic, "machine-room-nearby")

    # The last one: the first leader may not have had the topic's metadata yet.
    seen = [e.data["leaders"] for e in History.load(tmp_path).events if e.kind == "assign_begin"][-1][topic]
    assert seen == [RACK_OF_NODE[nodes[0]] for nodes in placed]
    led = {rack: [p for p, other in enumerate(seen) if other == rack] for rack in "abc"}
    assert three.owned == {f"m{rack}": {topic: led[rack]} for rack in "abc"}
    assert two.owned == {"ma": {topic: sorted(led["a"] + led["c"][:2])}, "mb": {topic: sorted(led["b"] + led["c"][2:])}}
    judged(tmp_path)


@pytest.mark.long  # long: three sessions that end; core/group/test_options.py proves whose options hold
def test_options_that_change_member_by_member_move_partitions_once(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """While members differ, what most have holds; so it would under any of them as the leader."""
    topic, hashes = kafka_topic(partitions=24), ("sha1", "blake2b")
    before, after = (with_options("consistent-hash", hash=each) for each in hashes)
    group = unjudged_group()
    seen = [start_static(group, topic, before, "m1 m2 m3")]
    for name in ("m1", "m2", "m3"):
        group.kill(name)  # and evicted: a static member that comes back in time makes no rebalance
        group.wait_stable()
        seen.append(start_static(group, topic, after, name))
    group.close()

    assert len({each.leader for each in seen}) > 1
    owned = [each.owned for each in seen]
    assert owned[0] == owned[1] != owned[2] == owned[3]
    judged(tmp_path)
    (record,) = RunRecord.of(History.load(tmp_path)).groups.values()
    for generation in record.generations:
        rows = generation.event.data["members"]
        members = [(m["member_id"], m.get("instance_id"), bytes.fromhex(m["subscription"])) for m in rows]
        for each in hashes if len(members) == 3 else ():
            answer = replay(generation.protocol, members, {topic: 24}, hash=each)
            assert {m: {(t, p) for t, ps in ts.items() for p in ps} for m, ts in answer.items()} == generation.assigned
