"""`why`, `plan` and `vote` on groups of a real broker: what they tell is what happened."""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from kafka_assignors import RangeAssignor
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.topics import Topics
from kafka_assignors.operator.cli.app import main
from tests.support.cli import answered, cli, valid, without_progress
from tests.support.programs import running

WATCHED_S = 60


@pytest.fixture
def live_group(kafka_broker: Broker, tmp_path: Path) -> Iterator[MemberGroup]:
    with MemberGroup(kafka_broker.bootstrap, f"g-{uuid.uuid4().hex[:8]}", tmp_path / "history", "run") as group:
        yield group


def kinds(rebalance: dict[str, object]) -> list[tuple[str, str]]:
    return [(cause["kind"], cause["who"]) for cause in rebalance["causes"]]  # type: ignore[attr-defined]


def test_a_life_is_told_and_the_next_change_is_planned(
    kafka_broker: Broker, kafka_topic: Callable[..., str], live_group: MemberGroup, tmp_path: Path
) -> None:
    """Three members, a fourth, one killed, one stopped, a topic grown: each cause, once, by the log alone."""
    group, topic = live_group, kafka_topic(partitions=6)
    where = ("-b", kafka_broker.bootstrap)
    for name in ("m1", "m2", "m3"):
        group.start(name, [topic], ["cooperative-sticky"])
    group.wait_stable()

    plan = answered("plan", cli("plan", group.group, *where, "--add", "1", "--json", "--save", str(tmp_path / "p")))
    predicted = next(each for each in plan["plans"] if each["assignor"] == "cooperative-sticky")
    assert (predicted["moves"], predicted["loads"], predicted["optimal"]) == (1, [1, 2], True)
    assert plan["elected"] == "cooperative-sticky"
    before = group.wait_stable(timeout_s=5).generation
    group.start("m4", [topic], ["cooperative-sticky"])
    stable = group.wait_stable()
    assert stable.generation > before, "planning disturbed nothing, the new member did"
    assert len(stable.moves) == predicted["moves"]

    group.kill("m2")
    group.wait_stable()
    group.stop("m1")
    last = group.wait_stable()

    told = answered("why", cli("why", group.group, *where, "--json"))
    causes = [each for rebalance in told["rebalances"] for each in kinds(rebalance)]
    assert ("joined", "m4") in causes
    assert ("left or expired", "m2") in causes
    assert [kind for kind, who in causes if who == "m1"][-1] in ("left", "left or expired")
    numbers = [n for each in told["rebalances"] for n in each["generations"]]
    lacking = [n for each in told["rebalances"] if (gap := each["missing"]) for n in range(gap[0], gap[1] + 1)]
    assert sorted([*numbers, *lacking]) == list(range(numbers[0], last.generation + 1))

    assert main(["plan", "--replay", str(tmp_path / "p")]) == 0
    kept = json.loads((tmp_path / "p").read_text())
    kept["plans"][0]["plan"]["assignment"] = {}
    (tmp_path / "p").write_text(json.dumps(kept))
    assert main(["plan", "--replay", str(tmp_path / "p")]) == 1


# long: tests/history/test_one_history.py has what `watch` tells of rebalances, operator/live/test_silence.py silent
# members, test_tour.py the command
@pytest.mark.long
def test_watch_tells_rebalances_as_they_come_and_silent_members(
    kafka_broker: Broker, kafka_topic: Callable[..., str], live_group: MemberGroup, tmp_path: Path
) -> None:
    """Two groups: in one a member joins; in the other a member owns partitions that grow, and commits nothing."""
    topic, silent = kafka_topic(partitions=4), f"silent-{uuid.uuid4().hex[:8]}"
    live_group.start("m1", [topic], ["cooperative-sticky"])
    before = live_group.wait_stable().generation
    settings = {
        "group_id": silent, "client_id": "mute", "enable_auto_commit": False,
        "partition_assignment_strategy": [RangeAssignor],
    }  # fmt: skip
    arguments = ["watch", live_group.group, silent, "-b", kafka_broker.bootstrap, "--json", "--every-s", "0.5"]
    with (
        closing(KafkaConsumer(topic, bootstrap_servers=kafka_broker.bootstrap, **settings)) as consumer,
        closing(KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)) as producer,
    ):
        deadline = time.monotonic() + WATCHED_S
        while not consumer.assignment():
            assert time.monotonic() < deadline, "no assignment"
            consumer.poll(timeout_ms=100)
        with running(sys.executable, "-m", "kafka_assignors", *arguments) as (watch, printed):
            lines = (valid("watch", json.loads(line)) for line in printed)
            assert {next(lines)["group"], next(lines)["group"]} == {live_group.group, silent}
            live_group.start("m2", [topic], ["cooperative-sticky"])
            live_group.wait_stable()
            told: list[dict[str, Any]] = []
            quiet: list[dict[str, Any]] = []
            deadline = time.monotonic() + WATCHED_S
            while not (told and quiet):
                assert time.monotonic() < deadline, (told, quiet)
                producer.send(topic, b"x", partition=0)
                consumer.poll(timeout_ms=100)
                view = next(lines)
                assert view["log_read"] is True
                if view["group"] == silent:
                    quiet += view["silent"]
                else:
                    told += view["rebalances"]
        assert watch.returncode == 130
    assert kinds(told[0]) == [("joined", "m2")]
    assert told[0]["generations"][0] > before
    [same] = [
        each
        for each in answered("why", cli("why", live_group.group, "-b", kafka_broker.bootstrap, "--json"))["rebalances"]
        if each["generations"] == told[0]["generations"]
    ]
    assert same == told[0], "as why tells it"
    assert [each["member"] for each in quiet] == ["mute"]
    assert quiet[0]["lag_growth"] > 0


@pytest.mark.long  # long: test_tour.py types these commands at a live group, and reads their answers
def test_who_may_join_and_how_to_change(
    kafka_broker: Broker, kafka_topic: Callable[..., str], live_group: MemberGroup
) -> None:
    group, topic = live_group, kafka_topic(partitions=2)
    where = ("-b", kafka_broker.bootstrap, "--json")
    group.start("m1", [topic], ["sticky", "range"])
    group.start("m2", [topic], ["sticky", "range"])
    group.wait_stable()

    watched = answered("watch", cli("watch", group.group, *where, "--once"))
    assert (watched["members"], {each["partition"] for each in watched["owned"]}) == (["m1", "m2"], {0, 1})
    assert answered("vote", cli("vote", group.group, *where), 4)["elected"] == "sticky"
    assert answered("vote", cli("vote", group.group, *where, "--adding", "range,sticky"))["allowed"] is True
    assert answered("vote", cli("vote", group.group, *where, "--adding", "range"), 4)["allowed"] is None
    lists = ("--offer", "*=sticky,range")
    known = answered("vote", cli("vote", group.group, *where, *lists, "--adding", "range"))
    assert known["election"]["winner"] == "range"
    assert answered("vote", cli("vote", group.group, *where, *lists, "--adding", "roundrobin"), 1)["allowed"] is False
    bounces = answered("vote", cli("vote", group.group, *where, "--to", "cooperative-sticky"))["bounces"]
    assert "cooperative-sticky,sticky" in bounces[0]


def test_no_such_group_is_one_sentence(kafka_broker: Broker) -> None:
    for command in ("why", "plan", "vote"):
        done = cli(command, "no-such-group", "-b", kafka_broker.bootstrap)
        assert (done.returncode, without_progress(done.stderr).count("\n")) == (3, 1), done.stderr
        assert "no-such-group" in done.stderr


@pytest.mark.long  # long: test_planned_change.py has the widths of plans; the tour asks the same commands for JSON
def test_every_screen_fits_80_columns(
    kafka_broker: Broker, kafka_topic: Callable[..., str], live_group: MemberGroup
) -> None:
    group, topic = live_group, kafka_topic(partitions=5)
    for name in ("m1", "m2"):
        group.start(name, [topic], ["range"])
    group.wait_stable()
    Topics(kafka_broker.bootstrap).grow(topic, 7)
    for args in (
        ["plan", group.group, "--add", "2", "--remove", "m1", "--add-partitions", f"{topic}:9"],
        ["why", group.group],
        ["vote", group.group, "--to", "cooperative-sticky"],
    ):
        done = cli(*args, "-b", kafka_broker.bootstrap)
        assert done.returncode == 0, done.stderr
        assert max(map(len, done.stdout.splitlines())) <= 80
        assert "m1" in done.stdout


@pytest.mark.long  # long: test_tour.py asks `why` and `plan` about a group of the same three clients
def test_members_of_any_client_are_told(
    kafka_broker: Broker, kafka_topic: Callable[..., str], live_group: MemberGroup
) -> None:
    """Java's, librdkafka's and kafka-python's members in one group, and Java's range placement planned exactly."""
    group, topic = live_group, kafka_topic(partitions=7)
    where = ("-b", kafka_broker.bootstrap, "--json")
    for name, client in (("p", "kafka-python"), ("r", "confluent"), ("j", "java")):
        group.start(name, [topic], ["range"], client=client)
    stable = group.wait_stable()

    told = answered("why", cli("why", group.group, *where))
    joined = {who for each in told["rebalances"] for kind, who in kinds(each) if kind in ("joined", "first")}
    assert {"p", "r", "j"} <= joined | {told["rebalances"][-1]["leader"]}
    plan = answered("plan", cli("plan", group.group, *where, "-A", "range"))
    [planned] = plan["plans"]
    owned = {member["name"]: [tuple(tp) for tp in member["owned"]] for member in plan["members"]}
    assert owned == {
        name: [(t, p) for t, ids in sorted(topics.items()) for p in ids] for name, topics in stable.owned.items()
    }
    assert (planned["moves"], planned["unowned"]) == (0, 0), "the same members again: nothing moves"
