"""Java's own consumer as a member: its words as events, its life and its end, and a verdict that is true."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from kafka_assignors.errors import ConfigError, UnknownName
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check, intervals
from kafka_assignors.integration.errors import MemberDied
from kafka_assignors.integration.history import History
from kafka_assignors.integration.records import Sender
from tests.support.histories.story import seal
from tests.support.integration.fixtures import MakeGroup, MakeTopic
from tests.support.integration.java_members import told
from tests.support.integration.members import GONE_S, gone
from tests.support.programs import owner
from tests.support.waiting import until

needs_broker = pytest.mark.broker

# Printed by VerifiableConsumer 4.3.0; times shortened.
ASSIGNED = '{"timestamp":434,"name":"partitions_assigned","partitions":[{"topic":"t","partition":1}]}'
REVOKED = '{"timestamp":500,"name":"partitions_revoked","partitions":[{"topic":"t","partition":1}]}'
CONSUMED = """
{"timestamp":450,"name":"record_data","key":null,"value":"v8","topic":"t","partition":1,"offset":3}
{"timestamp":450,"name":"record_data","key":"k0","value":"v0","topic":"t","partition":1,"offset":4}
{"timestamp":451,"name":"record_data","key":"k1","value":"ü","topic":"t","partition":1,"offset":6}
{"timestamp":452,"name":"records_consumed","count":3,"partitions":[{"topic":"t","partition":1,"count":3,"minOffset":3,"maxOffset":6}]}
""".strip().splitlines()
COMMITTED = (
    '{"timestamp":460,"name":"offsets_committed","offsets":[{"topic":"t","partition":1,"offset":7}],"success":true}'
)


def test_an_assigned_callback_tells_its_generation_by_the_coordinator_log() -> None:
    events = told([ASSIGNED], (400, 3, True), (434, 4, True), (435, 5, True))

    assert [kind for kind, _ in events] == ["generation", "assigned_begin", "assigned_end"]
    assert {fields["generation"] for _, fields in events} == {4}
    assert {fields["member_id"] for _, fields in events} == {"j1-id"}
    assert all(fields["partitions"] == [{"topic": "t", "partition": 1}] for _, fields in events)
    # Its clock has whole milliseconds: it can't have begun later than at the end of that one.
    assert {fields["mono_ns"] for _, fields in events} == {434_999_992}


def test_a_classic_member_of_a_group_in_migration_has_an_epoch_until_the_group_is_classic_again() -> None:
    converted = told([ASSIGNED], (400, 3, True), epochs=[(410, 3), (420, 4)])
    classic_again = told([ASSIGNED], (400, 3, True), (430, 5, True), epochs=[(410, 3), (420, 4)])

    assert {fields["generation"] for _, fields in converted} == {4}
    assert {fields["generation"] for _, fields in classic_again} == {5}


def test_what_an_eager_member_revokes_belongs_to_the_generation_it_had() -> None:
    """It revokes before it joins, so the newer generation, committed within the same millisecond, isn't meant."""
    events = told([ASSIGNED, REVOKED], (400, 3, True), (500, 4, True))

    assert [(kind, fields["generation"]) for kind, fields in events[3:]] == [("revoke_begin", 3), ("revoke_end", 3)]
    assert events[3][1]["mono_ns"] == 499_999_993


def test_what_a_cooperative_member_revokes_belongs_to_the_generation_that_took_it() -> None:
    events = told([ASSIGNED, REVOKED], (400, 3, True), (500, 4, True), cooperative=True)

    assert [(kind, fields["generation"]) for kind, fields in events[3:]] == [("revoke_begin", 4), ("revoke_end", 4)]


def test_a_client_that_tells_of_lost_partitions_is_believed() -> None:
    events = told([ASSIGNED, REVOKED.replace("revoked", "lost")], (400, 3, True))

    assert [kind for kind, _ in events[3:]] == ["lost_begin", "lost_end"]


@pytest.mark.source("apache/kafka ConsumerRebalanceListener.onPartitionsLost: calls onPartitionsRevoked by default")
def test_what_is_revoked_from_a_member_that_its_group_went_on_without_was_lost() -> None:
    events = told([ASSIGNED, REVOKED], (400, 3, True), (480, 4, False))

    assert [(kind, fields["generation"]) for kind, fields in events[3:]] == [("lost_begin", 3), ("lost_end", 3)]


def test_what_it_holds_adds_up_over_cooperative_generations() -> None:
    more = ASSIGNED.replace('"partition":1', '"partition":2').replace("434", "480")
    none = '{"timestamp":520,"name":"partitions_assigned","partitions":[]}'
    events = told([ASSIGNED, more, REVOKED, none], (400, 3, True), (470, 4, True), (490, 5, True), cooperative=True)

    adopted = [(f["generation"], [p["partition"] for p in f["partitions"]]) for k, f in events if k == "generation"]
    assert adopted == [(3, [1]), (4, [1, 2]), (5, [2])]


def test_a_gap_between_consumed_records_shows() -> None:
    consume, commit = told(CONSUMED)

    assert consume[0] == "consume"
    assert consume[1]["offsets"] == [
        {"topic": "t", "partition": 1, "first": 3, "last": 4, "count": 2, "bytes": 6},
        {"topic": "t", "partition": 1, "first": 6, "last": 6, "count": 1, "bytes": 4},
    ]
    assert (commit[0], commit[1]["offsets"]) == ("commit_begin", [{"topic": "t", "partition": 1, "offset": 7}])


def test_a_commit_tells_what_became_of_it() -> None:
    failed = COMMITTED.replace("true", 'false,"error":"rebalance in progress"')

    assert [(kind, fields.get("error")) for kind, fields in told([COMMITTED, failed])] == [
        ("commit_ok", None),
        ("commit_fail", "rebalance in progress"),
    ]


def test_its_own_events_stay_in_order_within_a_millisecond() -> None:
    events = told([ASSIGNED, REVOKED.replace("500", "434")], (400, 3, True))

    times = [fields["mono_ns"] for _, fields in events]
    assert times == sorted(times)


@needs_broker
def test_what_a_client_cannot_do_is_refused_before_it_starts(unjudged_group: MakeGroup, kafka_topic: MakeTopic) -> None:
    group, topic = unjudged_group(), kafka_topic()
    with pytest.raises(ConfigError, match=r"'j1': VerifiableConsumer subscribes to one topic, not to 2 \(a, b\)"):
        group.start("j1", ["a", "b"], ["range"], client="java")
    with pytest.raises(UnknownName, match="unknown assignor of Java 'rang'; known: range, roundrobin, sticky"):
        group.start("j1", [topic], ["rang"], client="java")
    with pytest.raises(UnknownName, match="unknown assignor of librdkafka 'sticky'; known: range, roundrobin, coop"):
        group.start("c1", [topic], ["sticky"], client="confluent")
    with pytest.raises(UnknownName, match="unknown client 'jvm'; known: kafka-python, java, confluent"):
        group.start("j1", [topic], ["range"], client="jvm")
    assert group.running == ()


# long: a group of Java's alone; live/test_mixed.py judges Java's members, who lead and leave, below are their words
@pytest.mark.long
@needs_broker
def test_java_members_join_stand_still_leave_and_die(
    kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """A group of Java alone: every law that Java's words can answer is judged and holds, the others say why not."""
    topic, group = kafka_topic(partitions=6), unjudged_group()
    with Sender(kafka_broker.bootstrap, tmp_path, "run", [topic], "kafka-python:default", 25):
        for name in ("j1", "j2", "j3"):
            group.start(name, [topic], ["cooperative-sticky"], client="java")
        seen = [group.wait_stable()]
        for step, action in (("is paused", group.pause), ("goes on", group.resume), ("is killed", group.kill)):
            group.step(f"j2 {step}")
            action("j2")
            seen.append(group.wait_stable())
        group.step("j3 leaves")
        group.stop("j3")
        seen.append(group.wait_stable())
    group.drain()
    group.close()

    assert [sorted(s.owned) for s in seen] == [
        ["j1", "j2", "j3"],
        ["j1", "j3"],
        ["j1", "j2", "j3"],
        ["j1", "j3"],
        ["j1"],
    ]
    assert [len(s.moves) for s in seen] == [0, 2, 2, 2, 3]
    history = History.load(tmp_path)
    verdict = check(history)
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    # No strategy of ours, no static member, nobody stalled; C4 needs a chance.
    never = {"R4", "C4", "S1", "S2", "T2", "T3", "A1", "R7", "C6", "X1", "X2", "X3"}
    assert {law for law, times in verdict.checked.items() if not times} | {"C4"} == never
    assert verdict.checked["T1"] == 3
    assert any("java:cooperative-sticky" in why for why in verdict.skipped["A1"])
    assert verdict.skipped["R4"]
    # Paused for its session of 2 s and more, it had lost its partitions when it went on; killed, it kept none.
    ends = [i.end_kind for i in sorted(intervals(history), key=lambda i: i.end_ns) if i.member == "j2"]
    assert [end for end in ends if end != "revoked"] == ["lost"] * 2 + ["killed"] * 2
    assert verdict.measures["zombie_ms"] > 1500
    assert {i.end_kind for i in intervals(history) if i.member == "j3" and i.generation_end == seen[3].generation} == {
        "revoked"
    }


# long: scenario/test_scenarios.py has a static member of ours; what the broker does with it is the same
@pytest.mark.long
@needs_broker
def test_a_static_java_member_restarts_unnoticed(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, group = kafka_topic(partitions=4), unjudged_group(session_timeout_ms=10_000)
    group.start("m1", [topic], ["range"], instance_id="m1")
    group.start("j1", [topic], ["range"], instance_id="j1", client="java")
    before = group.wait_stable()
    group.kill("j1")
    group.start("j1", [topic], ["range"], instance_id="j1", client="java")
    after = group.wait_stable()
    group.close()

    assert (after.owned, after.generation) == (before.owned, before.generation)
    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.value, verdict.checked["S1"]) == ((), True, 1)


@needs_broker
def test_what_a_java_member_says_it_has_is_held_against_the_log(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """The verdict depends on Java's own words: another partition in them breaks the agreement."""
    topic, group = kafka_topic(partitions=2), unjudged_group()
    group.start("j1", [topic], ["range"], client="java")
    assert group.wait_stable().owned == {"j1": {topic: [0, 1]}}
    group.close()
    assert check(History.load(tmp_path)).value is True
    (own,) = tmp_path.glob("*.j1.0.jsonl")
    own.write_text(own.read_text("utf-8").replace('"partition":1', '"partition":7'), "utf-8")
    seal(own)

    verdict = check(History.load(tmp_path))

    assert verdict.value is False
    assert "G2" in {v.law for v in verdict.violations}
    assert f"j1 adopted {topic}-0, {topic}-7" in verdict.violations[0].message


@needs_broker
def test_a_java_member_that_cannot_start_is_told_in_its_own_words(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic
) -> None:
    group = unjudged_group()
    group.start("j1", [kafka_topic()], ["range"], client="java", max_poll_records="many")

    with pytest.raises(MemberDied, match=r"member 'j1' .* ended with exit code \d+: .*many"):
        group.wait_stable()
    assert group.running == ()


# long: the same watchdog as of our members, in test_member.py and, paused, in scenario/test_scenarios.py
@pytest.mark.long
@needs_broker
def test_no_java_member_outlives_its_harness(kafka_broker: Broker, kafka_topic: MakeTopic, tmp_path: Path) -> None:
    """The harness gets SIGKILL; a JVM that runs and one that stands still end with it."""
    program = f"""
        import signal
        from pathlib import Path
        from kafka_assignors.integration.members.group import MemberGroup
        with MemberGroup({kafka_broker.bootstrap!r}, "java-orphans", Path({str(tmp_path)!r}), "run") as group:
            for name in ("j1", "j2"):
                group.start(name, [{kafka_topic(partitions=2)!r}], ["range"], client="java")
            group.wait_stable()
            group.pause("j2")
            print("stable", flush=True)
            signal.pause()
    """
    with owner(program) as (_, words):
        assert words == ["stable"]
        jvms = sorted({e.pid for e in History.load(tmp_path).events if e.src == "member"})
        assert [psutil.Process(pid).name() for pid in jvms] == ["java", "java"]
        watchdogs = [psutil.Process(pid).ppid() for pid in jvms]

    until(lambda: all(gone(pid) for pid in jvms + watchdogs), "the JVMs of a dead harness end", GONE_S)
