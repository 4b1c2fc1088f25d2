"""Groups of real members on a real broker: they come, leave and die, and the verdict is true."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check, intervals
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.config import MemberConfig
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.members.process import MemberProcess
from kafka_assignors.integration.members.service import Service
from kafka_assignors.integration.proxy import WireTap
from kafka_assignors.integration.records import Record, send
from kafka_assignors.operator.election import elect
from tests.support.integration.fixtures import MakeGroup, MakeTopic
from tests.support.integration.planted import Custom

pytestmark = pytest.mark.broker


@pytest.mark.source("issue: the election example; range wins 2 : 1 over roundrobin")
def test_the_broker_elects_what_the_vote_gives(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = kafka_topic(partitions=4)
    custom = "tests.support.integration.planted:Custom"
    lists = {
        "c1": ["range", "roundrobin", custom],
        "c2": ["range", "roundrobin", "sticky"],
        "c3": ["roundrobin", "range", "sticky"],
    }
    group = unjudged_group()
    for name, assignors in lists.items():
        group.start(name, [topic], assignors)
    stable = group.wait_stable()
    group.close()

    offers = {member: [Custom.name if a == custom else a for a in names] for member, names in lists.items()}
    assert elect(offers).winner == "range"
    assert stable.protocol == "range"
    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.value) == ((), True)
    assert verdict.checked["G3"] >= 1


def test_an_assignor_of_ones_own_wins_where_all_offer_it(unjudged_group: MakeGroup, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(partitions=2)
    group = unjudged_group()
    for name in ("m1", "m2"):
        group.start(name, [topic], ["tests.support.integration.planted:Custom", "range"])

    assert group.wait_stable().protocol == "custom"


def test_kafka_pythons_own_assignor_runs_by_name(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """Its answer isn't ours to replay, all other laws hold."""
    topic = kafka_topic(partitions=3)
    group = unjudged_group()
    for name in ("m1", "m2"):
        group.start(name, [topic], ["kafka-python:range"])
    stable = group.wait_stable()
    group.close()

    assert stable.protocol == "range"
    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.value, verdict.checked["A1"]) == ((), True, 0)


def test_a_member_comes_back_under_its_name(unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path) -> None:
    topic = kafka_topic(partitions=2)
    group = unjudged_group()
    group.start("m1", [topic], ["sticky"])
    first = group.wait_stable()
    group.kill("m1")
    group.start("m1", [topic], ["sticky"])
    second = group.wait_stable()
    group.close()

    assert first.owned == second.owned == {"m1": {topic: [0, 1]}}
    assert second.generation > first.generation
    history = History.load(tmp_path)
    assert {i.incarnation for i in intervals(history)} == {0, 1}
    assert check(history).value is True


def test_a_static_member_restarts_within_its_session_and_its_group_does_not_notice(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=4)
    group = unjudged_group(session_timeout_ms=10_000)
    for name in ("m1", "m2"):
        group.start(name, [topic], ["range"], instance_id=f"{name}-static")
    before = group.wait_stable()
    group.kill("m2")
    group.start("m2", [topic], ["range"], instance_id="m2-static")
    after = group.wait_stable()

    assert after.owned == before.owned
    assert after.generation == before.generation
    assert after.moves == {}


def test_records_are_consumed_once_and_committed_in_a_quiet_group(
    kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = kafka_topic(partitions=3)
    sent = send(kafka_broker.bootstrap, tmp_path, "run", "roundrobin", [Record(topic)] * 90)
    group = unjudged_group()
    group.start("m1", [topic], ["range"])
    group.wait_stable()
    ends = group.drain()
    group.close()

    assert sent.counts == {topic: {0: 30, 1: 30, 2: 30}}
    assert ends == {TopicPartition(topic, p): 30 for p in range(3)}
    events = History.load(tmp_path).events
    runs = sorted(
        (o["partition"], o["first"], o["last"], o["count"])
        for e in events
        if e.kind == "consume"
        for o in e.data["offsets"]
    )
    for partition in range(3):
        mine = [r for r in runs if r[0] == partition]
        assert sum(r[3] for r in mine) == 30
        assert [r[1] for r in mine] == [0, *(r[2] + 1 for r in mine[:-1])]
    committed = {e.data["partition"]: e.data["offset"] for e in events if e.kind == "offset_committed"}
    assert committed == {0: 30, 1: 30, 2: 30}


def test_names_may_have_what_a_path_cannot(kafka_broker: Broker, kafka_topic: MakeTopic, tmp_path: Path) -> None:
    topic, folder = kafka_topic(partitions=2), tmp_path / "history"
    with MemberGroup(kafka_broker.bootstrap, f"team/../{tmp_path.name}", folder, "run") as group:
        group.start("m/1", [topic], ["range"])
        group.wait_stable()

    verdict = check(History.load(folder))

    assert (verdict.value, verdict.unknown, verdict.violations) == (True, (), ())
    assert all(path.is_file() for path in folder.iterdir())


def test_a_member_that_starts_during_ctrl_c_is_ended_with_its_group(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, spawn, started = unjudged_group(), MemberGroup._spawn, []

    def interrupted(
        self: MemberGroup, config: MemberConfig, stem: Path, service: Service | None, tap: WireTap | None
    ) -> MemberProcess:
        process = spawn(self, config, stem, service, tap)
        started.append(process)
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(MemberGroup, "_spawn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        group.start("m1", [kafka_topic()], ["range"])
    group.close()

    assert [process.returncode is not None for process in started] == [True]
