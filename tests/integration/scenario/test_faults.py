"""Members that are fenced, or stall and die as they assign, and topics that change: played live, judged by the laws.

What kafka-python does wrong there is shown beside, without the guard (`kafka_assignors.guard`), and mended by it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.errors import ConfigError
from kafka_assignors.history.zombies import FENCED_MS
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import Verdict, check
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.errors import MemberDied, NotStable, NotSupported
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Sender
from kafka_assignors.integration.report.report import GroupResult
from kafka_assignors.integration.scenario import scenario
from kafka_assignors.integration.scenario.runner import run_scenario
from tests.support.integration.fixtures import MakeGroup, MakeTopic
from tests.support.waiting import until

pytestmark = pytest.mark.broker
SESSION_MS, HEARTBEAT_MS = 2000, 300
LATE_MS = 3000  # a busy machine's; 2.0 to 2.3 s on a quiet one


def played(name: str, broker: Broker, folder: Path, *assignors: str, **topics: int) -> GroupResult:
    what = scenario(name)
    what = replace(what, assignors=assignors or what.assignors, topics=topics or what.topics)
    result = judged(run_scenario(what, broker, folder, "run", group=f"{name}-{folder.name}"))
    assert (result.verdict.violations, result.verdict.unknown, result.verdict.value) == ((), (), True)
    return result


def broken(verdict: Verdict) -> set[str]:
    return {violation.law for violation in verdict.violations}


def sizes(owned: Any) -> dict[str, int]:
    return {member: sum(map(len, topics.values())) for member, topics in owned.items()}


# ------------------------------------------------------------------------------------------------------------- topics


@pytest.mark.parametrize("assignor", ["cooperative-sticky", pytest.param("sticky", marks=pytest.mark.long)])
def test_topics_grow_come_and_go_while_a_group_runs(assignor: str, kafka_broker: Broker, tmp_path: Path) -> None:
    """Each change is picked up once metadata is a second old; what nothing happened to stays where it is (R4, T3)."""
    what = scenario("topics")
    own = {topic: f"{topic}-{tmp_path.name}" for topic in (*what.topics, "coming-a")}
    result = judged(
        run_scenario(
            renamed(what, own, assignor), kafka_broker, tmp_path, "run", group=f"topics-{assignor}-{tmp_path.name}"
        )
    )

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    joined, grown, deleted, matched, came, shared, alone = result.steps
    assert sizes(joined.owned) == {"m1": 4, "m2": 4, "m3": 4}
    assert sizes(grown.owned) == {"m1": 5, "m2": 5, "m3": 5}
    assert grown.moves == 0
    assert sizes(deleted.owned) == {"m1": 4, "m2": 4, "m3": 4}
    assert sum(sizes(matched.owned).values()) == 12
    assert own["coming-a"] in came.owned["m4"]
    assert sum(sizes(shared.owned).values()) == sum(sizes(alone.owned).values()) == 15
    assert set(alone.owned["m1"]) <= {own["coming-a"]}
    assert verdict.checked["T3"] >= 2
    assert verdict.checked["R4"] >= 2


def renamed(what: Any, own: dict[str, str], assignor: str) -> Any:
    """A scenario with topics of its own, as the broker is shared."""

    def of(action: Any) -> Any:
        changes: dict[str, Any] = {}
        if hasattr(action, "topic"):
            changes["topic"] = own[action.topic]
        if getattr(action, "topics", ()):
            changes["topics"] = tuple(own[topic] for topic in action.topics)
        if getattr(action, "pattern", None):
            changes["pattern"] = "|".join((own["growing"], own["coming-a"]))
        return replace(action, **changes)

    steps = tuple(replace(step, actions=tuple(map(of, step.actions))) for step in what.steps)
    return replace(what, steps=steps, topics={own[t]: n for t, n in what.topics.items()}, assignors=(assignor,))


def test_changes_that_can_not_be(unjudged_group: MakeGroup, kafka_topic: MakeTopic) -> None:
    topic, group = kafka_topic(partitions=2), unjudged_group()
    group.start("m1", [topic], ["range"])
    group.wait_stable()

    with pytest.raises(ConfigError, match=f"topic '{topic}' can't grow to 2 partitions: it has 2 partitions"):
        group.topics.add_partitions(topic, 2)
    with pytest.raises(ConfigError, match="topic 'nowhere' can't grow to 3 partitions: it does not exist"):
        group.topics.add_partitions("nowhere", 3)
    with pytest.raises(ConfigError, match="topic 'nowhere' can't be deleted: it does not exist"):
        group.topics.delete("nowhere")
    with pytest.raises(ConfigError, match=f"topic '{topic}' can't be made: it exists"):
        group.topics.create(topic, 2)
    with pytest.raises(ConfigError, match=r"needs a list of topics or a pattern, not .* and None"):
        group.subscribe("m1")
    with pytest.raises(ConfigError, match="no member 'm9'"):
        group.subscribe("m9", [topic])
    with pytest.raises(ConfigError, match=r"has the pattern '.*': it needs client 'kafka-python' or 'confl"):
        group.start("m2", [topic], ["range"], pattern=".*")
    with pytest.raises(NotStable, match=r"'m1' .* was not asked to assign within 0.2 s"):
        group.wait_stalled("m1", timeout_s=0.2)
    with pytest.raises(NotStable, match=r"'m1' .* still runs after 0.2 s"):
        group.wait_end("m1", timeout_s=0.2)
    with pytest.raises(NotStable, match=r"not committing after 0.2 s in group .*: m1"):
        group.wait_committing(timeout_s=0.2)
    events = History.load(group.folder).events
    assert not [e for e in events if e.kind == "admin_change"], "nothing was changed"
    missed = [(e.data["waited_s"], e.data["awaited"]) for e in events if e.kind == "not_over"]
    assert [seconds for seconds, _ in missed] == [0.2, 0.2, 0.2]
    assert "was not asked to assign within 0.2 s" in missed[0][1]


# ------------------------------------------------------------------------------------------------------------- fenced


def twins(
    assignor: str, broker: Broker, group: MemberGroup, topic: str, folder: Path, guarded: bool = False
) -> tuple[str, Verdict]:
    """Another process takes m2's instance id; how m2 ended if it is guarded, "" if it isn't and goes on consuming."""

    def consumed_since(at_ns: int) -> bool:
        events = History.load(folder).events
        return any(e.kind == "consume" and e.member == "m2" and e.mono_ns > at_ns for e in events)

    with Sender(broker.bootstrap, folder, "run", [topic], "kafka-python:default", 100):
        for name in ("m1", "m2"):
            group.start(name, [topic], [assignor], instance_id=name, guarded=guarded)
        group.wait_stable()
        group.start("twin", [topic], [assignor], instance_id="m2", guarded=guarded)
        ended = group.wait_end("m2", timeout_s=30) if guarded else ""
        group.wait_stable(["m1", "twin"])
        if not guarded:
            late_ns = time.monotonic_ns() + (2 * HEARTBEAT_MS + FENCED_MS + 200) * 1_000_000
            until(lambda: consumed_since(late_ns), "the fenced member goes on consuming")
    group.drain()
    group.close()
    return ended, check(History.load(folder))


@pytest.mark.source("KIP-345; kafka-python 3.0.12's fenced static member goes on consuming")
def test_our_fenced_static_member_stops(kafka_broker: Broker, tmp_path: Path) -> None:
    result = played("fenced", kafka_broker, tmp_path, **{f"orders-{tmp_path.name}": 6})

    before, after = result.steps
    assert after.generation == before.generation
    assert after.owned["twin"] == before.owned["m2"]
    assert result.verdict.checked["S2"] == 1
    fenced = [i for i in result.intervals if i.member == "m2" and i.end_ns > after.mono_ns]
    assert {(i.topic, i.partition): i.end_kind for i in fenced} == {
        (topic, p): "lost" for topic, held in before.owned["m2"].items() for p in held
    }
    said = [e for e in History.load(tmp_path).events if e.kind == "error"]
    assert [(e.member, e.data["error"], e.data["fatal"]) for e in said] == [("m2", "FencedInstanceIdError", True)]
    # Two heartbeats after it lost its id at the latest, and what this machine takes to tell.
    assert result.verdict.measures["zombie_ms"] < 2 * HEARTBEAT_MS + 1000


@pytest.mark.long
def test_kafka_pythons_fenced_static_member_goes_on(
    kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """The control: what the guard mends."""
    group = unjudged_group(session_timeout_ms=10_000)

    _, verdict = twins("kafka-python:range", kafka_broker, group, kafka_topic(partitions=4), tmp_path)

    assert {"O1", "S2"} <= broken(verdict)


@pytest.mark.long
@pytest.mark.parametrize("name", ["range", "cooperative-sticky"])
def test_kafka_pythons_fenced_static_member_stops_with_the_guard(
    name: str, kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    group, topic = unjudged_group(session_timeout_ms=10_000), kafka_topic(partitions=4)

    ended, verdict = twins(f"kafka-python:{name}", kafka_broker, group, topic, tmp_path, guarded=True)

    assert "FencedInstanceIdError" in ended
    assert (verdict.violations, verdict.value, verdict.checked["S2"]) == ((), True, 1)


# ---------------------------------------------------------------------------------------------------------- in assign


def thrown_out_as_it_assigns(
    assignor: str, broker: Broker, group: MemberGroup, topic: str, folder: Path, guarded: bool = False
) -> Verdict:
    """The leader of two stands still in its assign until it is out, and goes on."""
    with Sender(broker.bootstrap, folder, "run", [topic], "kafka-python:default", 100):
        group.start("m1", [topic], [assignor], guarded=guarded)
        group.wait_stable()
        group.start("m2", [topic], [assignor], guarded=guarded)
        assert group.wait_stable().leader == "m1"
        group.stall_assign("m1")
        group.start("m3", [topic], [assignor], guarded=guarded)
        group.wait_stalled("m1")
        assert sorted(group.wait_stable().owned) == ["m2", "m3"]
        group.resume("m1")
        assert sorted(group.wait_stable(complete=False).owned) == ["m1", "m2", "m3"]
    group.close()
    return check(History.load(folder))


@pytest.mark.release("the topics change below a group, and test_scenarios.py evicts a member")
@pytest.mark.parametrize("assignor", ["cooperative-sticky", pytest.param("sticky", marks=pytest.mark.long)])
def test_a_leader_stalls_and_another_dies_as_it_assigns(assignor: str, kafka_broker: Broker, tmp_path: Path) -> None:
    """Its heartbeats stop while it assigns: it is out with its session, notices, and takes nothing from anybody."""
    result = played("stall-assign", kafka_broker, tmp_path, assignor, **{f"orders-{tmp_path.name}": 12})

    _, joined, without, again, alone, last = result.steps
    assert sizes(joined.owned) == {"m1": 6, "m2": 6}
    assert sizes(without.owned) == {"m2": 6, "m3": 6}
    assert sizes(again.owned) == {"m1": 4, "m2": 4, "m3": 4}
    assert sizes(alone.owned) == {"m2": 12}
    assert sizes(last.owned) == {"m4": 12}
    events = History.load(tmp_path).events
    for member in ("m1", "m2"):
        stalled = next(e for e in events if e.data.get("fault") == "assign_stall" and e.member == member)
        ids = {e.member_id for e in events if e.src == "member" and e.member == member and e.mono_ns < stalled.mono_ns}
        without_it = next(
            e.mono_ns for e in events
            if e.kind == "generation_committed" and e.mono_ns > stalled.mono_ns
            and not ids & {m["member_id"] for m in e.data["members"]}
        )  # fmt: skip
        after_ms = (without_it - stalled.mono_ns) / 1e6
        assert SESSION_MS - HEARTBEAT_MS <= after_ms <= SESSION_MS + HEARTBEAT_MS + LATE_MS, (member, after_ms)
    if assignor == "cooperative-sticky":
        # An eager leader has given all up before it assigns.
        assert {i.end_kind for i in result.intervals if i.member == "m1" and i.zombie_ms} == {"lost"}


@pytest.mark.long
@pytest.mark.source("kafka-python 3.0.12: revoked in place of lost, stale claims")
def test_kafka_pythons_leader_is_told_to_revoke_what_it_lost(
    kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """The control: it had half, comes back to a third at most, and so must give up some of what it never had again."""
    assignor = "kafka-python:cooperative-sticky"

    topic = kafka_topic(partitions=6)
    verdict = thrown_out_as_it_assigns(assignor, kafka_broker, unjudged_group(), topic, tmp_path)

    assert "R7" in broken(verdict)


@pytest.mark.long
def test_kafka_pythons_leader_is_told_that_it_is_lost_with_the_guard(
    kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    assignor = "kafka-python:cooperative-sticky"

    topic = kafka_topic(partitions=6)
    verdict = thrown_out_as_it_assigns(assignor, kafka_broker, unjudged_group(), topic, tmp_path, guarded=True)

    assert not broken(verdict) & {"O1", "O2", "R1", "R2", "R6", "R7"}
    assert {i.end_kind for i in verdict.intervals if i.member == "m1" and i.zombie_ms} == {"lost"}


@pytest.mark.long
def test_a_member_that_polls_too_late_is_out_in_time_and_notices(kafka_broker: Broker, tmp_path: Path) -> None:
    result = played("stall", kafka_broker, tmp_path, "sticky", **{f"orders-{tmp_path.name}": 12})

    assert result.verdict.checked["T2"] == 1
    assert {i.end_kind for i in result.intervals if i.member == "m2" and i.zombie_ms} == {"lost"}


def test_a_member_of_another_client_takes_no_such_commands(unjudged_group: MakeGroup, kafka_topic: MakeTopic) -> None:
    group = unjudged_group()
    group.start("v1", [kafka_topic()], ["range"], client="verifiable")

    with pytest.raises(NotSupported, match="'v1' runs verifiable, which does not support stall-assign"):
        group.stall_assign("v1")
    with pytest.raises(NotSupported, match="'v1' runs verifiable, which does not support subscribe"):
        group.subscribe("v1", ["another"])


def test_another_member_that_ends_is_told(unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path) -> None:
    group, topic = unjudged_group(), kafka_topic()
    group.start("m1", [topic], ["range"])
    group.wait_stable()
    group.start("m2", [topic], ["tests.support.integration.planted:Missing"])

    with pytest.raises(MemberDied, match=r"'m2' .* ended with exit code 1"):
        group.wait_end("m1")
