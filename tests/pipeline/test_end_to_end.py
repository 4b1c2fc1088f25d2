"""One real run with everything planted, and one without a fault: each fault is found, and nothing else."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from kafka_assignors.clients import weights as weights_file
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.group.assignment import moves
from kafka_assignors.history.timeline import Interval
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import intervals
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Record, send
from kafka_assignors.integration.topics.publish import publish
from kafka_assignors.pipeline import cli
from kafka_assignors.pipeline.progress import Progress
from kafka_assignors.pipeline.report import page, text
from kafka_assignors.pipeline.run import RunOptions, write_run, written
from kafka_assignors.pipeline.schema import TABLES
from kafka_assignors.pipeline.sources import brokers
from kafka_assignors.pipeline.sources.snapshot import Snapshot
from kafka_assignors.producers import partition_for_key
from tests.support.cli import valid
from tests.support.integration.fixtures import MakeTopic
from tests.support.waiting import until
from tests.support.wellformed import Wellformed

# Real members, and a job of some forty small ones: minutes on a machine that does other things too.
pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(900)]


def job(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    folder: Path,
    *,
    groups: tuple[str, ...] = (),
    events: str | None = None,
    **wanted: Any,
) -> dict[str, Any]:
    """The job over one topic."""
    snapshot = Snapshot(
        brokers.topics(broker.bootstrap, [topic]),
        brokers.coordinator_log(broker.bootstrap) if groups else None,
        brokers.topics(broker.bootstrap, [events]) if events else None,
    )
    want = RunOptions(out=str(folder / "out"), groups=groups, **wanted)
    return write_run(spark, broker.bootstrap, snapshot, want, Progress())


def command(spark: SparkSession, broker: Broker, topic: str, folder: Path, *more: str) -> dict[str, Any]:
    """The job by its command line, in this process, whose Spark runs already."""
    words = ["run", "--bootstrap", broker.bootstrap, "--topics", topic, "--out", str(folder / "out"), "--json", *more]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "session", lambda progress: contextlib.nullcontext(spark))
        done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    return valid("report-run", json.loads(done.stdout))  # nothing else on stdout


def timeline_is_the_checkers(spark: SparkSession, folder: Path) -> None:
    names = sorted(Interval.__dataclass_fields__)
    place = ("group", "topic", "partition", "start_ns", "member", "incarnation")
    rows = [
        {name: row[name] for name in names} for row in written(spark, str(folder / "out"), "group_timeline").collect()
    ]
    folders = {path.parent for path in (folder / "history").rglob("*.jsonl")}  # a group each
    expected = [{k: v for k, v in vars(iv).items() if k in names} for f in folders for iv in intervals(History.load(f))]
    assert len(expected) > 10
    assert sorted(rows, key=lambda r: [r[k] for k in place]) == sorted(expected, key=lambda r: [r[k] for k in place])


@pytest.mark.release("each table has a test of its own; test_run.py runs all of them")
def test_every_planted_fault_is_found(kafka_broker: Broker, kafka_topic: MakeTopic, spark, tmp_path: Path) -> None:
    topic, history, rng = kafka_topic(partitions=6), tmp_path / "history", random.Random(12)
    names = [b"hot" if rng.random() < 0.3 else b"key-%d" % rng.randrange(100) for _ in range(1000)]
    assert send(kafka_broker.bootstrap, history, "r", "default", [Record(topic, key) for key in names]).acked == 1000
    wrong = (partition_for_key(b"key-7", 6) + 1) % 6
    with KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, metrics_enabled=False) as producer:
        misplaced = producer.send(topic, b"v", b"key-7", partition=wrong).get(30)
        for number in (4, 5, 3):  # 3 comes last
            value = json.dumps({"run": "r", "id": f"sender-{number}"}).encode()
            late = producer.send(topic, value, b"key-8", headers=[("partitioner", b"default")]).get(30)
        producer.send(topic, None, b"key-9").get(30)
    with MemberGroup(kafka_broker.bootstrap, group=topic, folder=history, run="r") as group:
        for member in ("m1", "m2"):
            group.start(member, topics=[topic], assignors=["tests.support.integration.planted:Doubling"])
            group.wait_stable()
        group.kill("m1")
        group.wait_stable()

    told = kafka_topic(partitions=2, name="events")
    for _ in range(2):  # as a producer repeats what it heard of no success of
        publish(kafka_broker.bootstrap, told, history)

    weights, drawn = tmp_path / "weights.json", tmp_path / "page.html"

    files = ("--weights", str(weights), "--html", str(drawn))
    said = command(spark, kafka_broker, topic, tmp_path, "--events-topic", told, "--what-if", "12,24", *files)

    timeline_is_the_checkers(spark, tmp_path)
    found = {kind: [f for f in said["findings"] if f["kind"] == kind] for kind in {f["kind"] for f in said["findings"]}}
    assert set(found) == {"hot-key", "misplaced", "split-key", "order", "overlap", "killed"}
    assert [f["partition"] for f in found["hot-key"]] == [partition_for_key(b"hot", 6)]
    assert found["hot-key"][0]["records"] == names.count(b"hot")
    assert f"{names.count(b'hot') / 1005:.1%} of the records" in found["hot-key"][0]["text"]
    assert [(f["partition"], f["records"]) for f in found["misplaced"]] == [(wrong, 1)]
    assert f"{topic}-{partition_for_key(b'key-7', 6)}" in found["misplaced"][0]["text"]
    assert ["'key-7'" in f["text"] for f in found["split-key"]] == [True]
    assert [f"offset {late.offset}," in f["text"] for f in found["order"]] == [True]
    assert {f["partition"] for f in found["overlap"]} == {0}
    assert [f["member"] for f in found["killed"]] == ["m1"]
    row = written(spark, str(tmp_path / "out"), "findings").where("kind = 'misplaced'").collect()[0]
    assert (row["first_offset"], row["last_offset"]) == (misplaced.offset, misplaced.offset)
    assert (bytes(row["key_sample"]), row["group"]) == (b"key-7", None)
    placement = written(spark, str(tmp_path / "out"), "placement").groupBy().sum().collect()[0]
    assert placement["sum(order_violations)"] == placement["sum(tombstones)"] == 1
    of_keys = written(spark, str(tmp_path / "out"), "partition_keys").groupBy().sum().collect()[0]
    assert (of_keys["sum(misplaced_records)"], of_keys["sum(moved_keys)"]) == (1, 2)
    assert said["rejected"] == {}
    assert next((k["rank"], k["key_sample"], k["records"]) for k in said["hot_keys"]) == (
        1,
        "'hot'",
        names.count(b"hot"),
    )
    assert said["rows"]["records"] == 1005
    assert {load["partition"]: load["records"] for load in said["topics"][0]["loads"]} == sent_to(kafka_broker, topic)
    assert weights_file.read(weights).version == said["weights"]["version"]  # type: ignore[union-attr]
    assert "m1 was killed while it held" in drawn.read_text("utf-8")


def sent_to(broker: Broker, topic: str) -> dict[int, int]:
    """Records per partition by its end offsets, as nothing is deleted here."""
    with contextlib.closing(KafkaConsumer(bootstrap_servers=broker.bootstrap, metrics_enabled=False)) as consumer:
        ends = consumer.end_offsets([KafkaPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()])
        return {tp.partition: end for tp, end in ends.items()}


@pytest.mark.long  # long: two jobs; operator/live/test_leading.py proves what each assignor would do, without members
def test_a_clean_run_has_no_finding_and_what_if_is_what_another_group_then_did(
    kafka_broker: Broker, kafka_topic: MakeTopic, spark: SparkSession, tmp_path: Path
) -> None:
    """Two groups take the same steps with different assignors; each predicts the other."""
    topic, history = kafka_topic(partitions=7), tmp_path / "history"
    records = [Record(topic, b"key-%d" % (i % 90)) for i in range(900)] + [Record(topic)] * 20
    assert send(kafka_broker.bootstrap, history, "r", "default", records).acked == 920
    for assignor in ("range", "cooperative-sticky"):
        with MemberGroup(kafka_broker.bootstrap, f"{assignor}-{topic}", history / assignor, "r") as group:
            # Static members: their order is that of their names, and not of ids that the coordinator draws.
            for member in ("m1", "m2", "m3"):
                group.start(member, topics=[topic], assignors=[assignor], instance_id=member)
                group.wait_stable()
            group.stop("m1")
            group.wait_stable()

    said = job(spark, kafka_broker, topic, tmp_path, history=str(history))

    assert said["findings"] == []
    assert said["rejected"] == {}
    timeline_is_the_checkers(spark, tmp_path)
    done = {a: [r["moves"] for r in said["rebalances"] if r["elected"] == a] for a in ("range", "cooperative-sticky")}
    assert done["range"] != done["cooperative-sticky"]
    assert sum(done["cooperative-sticky"]) > 0
    replayed = written(spark, str(tmp_path / "out"), "assignor_what_if").orderBy("group", "rebalance").collect()
    for own, other in (("range", "cooperative-sticky"), ("cooperative-sticky", "range")):
        guess = [r["moves"] for r in replayed if r["group"] == f"{own}-{topic}" and r["assignor"] == other]
        assert guess == done[other], f"{other} as predicted from {own}"

    # The same groups from the coordinator's log alone, as of any live group: who owned what after each generation.
    groups = (f"range-{topic}", f"cooperative-sticky-{topic}")
    live = job(spark, kafka_broker, topic, tmp_path / "live", groups=groups, run_id="live")
    # Its very first generation moves nothing; only the leader's events tell that it saw no topic yet, and began anew.
    facts = ("group", "generation", "elected", "members", "moves", "min_moves")
    there, here = ([tuple(r[f] for f in facts) for r in x["rebalances"] if r["moves"]] for x in (live, said))
    assert len(here) == 6
    assert there == here
    rows = written(spark, str(tmp_path / "live" / "out"), "group_timeline").collect()
    assert {row["source"] for row in rows} == {"coordlog"}
    committed = [
        e for e in History.load(history / "range").events if e.kind == "generation_committed" and e.group == groups[0]
    ]
    owners: list[dict[TopicPartition, str]] = [
        {
            TopicPartition(tp["topic"], tp["partition"]): m["instance_id"]
            for m in e.data["members"]
            for tp in m["assigned"]
        }
        for e in committed
    ]
    of_range = [row for row in rows if row["group"] == groups[0]]
    assert sum(row["moved"] for row in of_range) == sum(len(moves(a, b)) for a, b in itertools.pairwise(owners))
    # An emptied group's last generation has no member.
    assert {row["member"] for row in of_range} == {"m1", "m2", "m3"}
    assert {row["end_kind"] for row in of_range} <= {"reassigned", "open", "left or expired"}


@pytest.mark.long  # long: a further job; groups/test_departures.py has such logs, test_sentences.py the sentences
def test_a_killed_consumer_is_never_told_as_one_that_left(
    kafka_broker: Broker, kafka_admin: KafkaAdminClient, kafka_topic: MakeTopic, spark: SparkSession, tmp_path: Path
) -> None:
    """From the coordinator's log alone; the members' own history, which the job does not get, is the truth."""
    topic, history, out = kafka_topic(partitions=4), tmp_path / "history", str(tmp_path / "out")
    records = [Record(topic, b"key-%d" % (i % 90)) for i in range(400)]

    def committed(expected: int) -> bool:
        offsets = kafka_admin.list_group_offsets({topic: None})[topic].values()
        return sum(max(0, at.offset) for at in offsets) == expected

    with MemberGroup(kafka_broker.bootstrap, group=topic, folder=history, run="r") as group:
        for member in ("m1", "m2"):
            group.start(member, topics=[topic], assignors=["range"])
        group.wait_stable()
        # Sent when the group rests: a commit that a rebalance refuses is not made good before more records come.
        assert send(kafka_broker.bootstrap, tmp_path / "sent", "r", "default", records).acked == 400
        until(lambda: committed(400), "the commits of all records", 60)
        group.kill("m1")
        group.wait_stable()
        assert send(kafka_broker.bootstrap, tmp_path / "more", "r", "default", records).acked == 400
        until(lambda: committed(800), "the commits after the kill", 60)

    said = job(spark, kafka_broker, topic, tmp_path, groups=(topic,))

    owned = intervals(History.load(history))
    killed_ns = max(iv.end_ns for iv in owned if iv.end_kind == "killed")
    truth = [iv.gap_before_ms for iv in owned if iv.moved and iv.start_ns > killed_ns and iv.gap_before_ms is not None]
    assert len(truth) == 2
    assert min(truth) > 1000  # a session
    # m2 was closed: whether the log proves that it left depends on how long after its last commit.
    departure, *others = said["findings"]
    assert {f["kind"] for f in (departure, *others)} == {"departure"}
    assert len(others) <= 1
    assert departure["text"].startswith("m1-")
    assert "left or expired (the coordinator's log does not say which)" in departure["text"]
    assert [r["trigger"] for r in said["rebalances"]][-1] == "left or expired"
    (told,) = said["groups"]
    assert told["longest_gap_ms"] is None
    last = said["rebalances"][-1]
    for least in (told["gap_at_least_ms"], last["stop_at_least_ms"]):
        assert 0 <= least <= min(truth)
    assert max(truth) <= last["stop_at_most_ms"]
    tables = {table: written(spark, out, table) for table in TABLES}
    html = Wellformed(page.render(said, page.details(tables))).text
    for unseen in ("one owner", "killed;", "had left"):
        assert unseen not in html, unseen
    text.show(said)
