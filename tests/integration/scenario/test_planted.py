"""Faults planted on the real broker: the verdict is false, by the right law, with the right witness."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import Verdict, Violation, check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Record, read_back, send
from tests.support.cli import valid
from tests.support.histories.story import seal
from tests.support.integration.commands import integration
from tests.support.integration.fixtures import MakeGroup, MakeTopic

pytestmark = pytest.mark.broker


def judged(group: MemberGroup, folder: Path) -> Verdict:
    group.close()
    return check(History.load(folder))


def broken(verdict: Verdict) -> dict[str, list[Violation]]:
    found: dict[str, list[Violation]] = {}
    for violation in verdict.violations:
        found.setdefault(violation.law, []).append(violation)
    return found


def two_members(group: MemberGroup, topic: str, assignor: str, complete: bool = True) -> None:
    for name in ("m1", "m2"):
        group.start(name, [topic], [assignor])
        group.wait_stable(complete=complete)


def test_an_assignor_that_drops_a_partition_breaks_coverage(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, group = kafka_topic(partitions=4), unjudged_group()
    two_members(group, topic, "tests.support.integration.planted:Dropping", complete=False)

    verdict = judged(group, tmp_path)

    assert verdict.value is False
    laws = broken(verdict)
    assert "O3" in laws
    for violation in laws.pop("O3"):
        assert f"{topic}-0 → nobody" in violation.message
        assert violation.witnesses[0].kind == "generation_committed"
    # on a machine that is busy, nobody owns it for long enough to break this law as well
    assert set(laws) <= {"P1"}
    assert all(f"no live member owned {topic}-0 for" in v.message for v in laws.get("P1", ()))


def test_an_assignor_that_doubles_a_partition_breaks_single_ownership(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, group = kafka_topic(partitions=4), unjudged_group()
    two_members(group, topic, "tests.support.integration.planted:Doubling")

    verdict = judged(group, tmp_path)

    assert verdict.value is False
    laws = broken(verdict)
    assert {"O1", "O2"} <= set(laws) <= {"O1", "O2", "R1"}
    committed = laws["O2"][-1].witnesses[0]
    holders = [m["client_id"] for m in committed.data["members"] if {"topic": topic, "partition": 0} in m["assigned"]]
    assert sorted(holders) == ["m1", "m2"]
    assert {i.partition for i in verdict.intervals if i.overlap_prev_ms} == {0}
    one, other = laws["O1"][0].witnesses[:2]
    assert {one.member, other.member} == {"m1", "m2"}
    assert one.kind == other.kind == "assigned_begin"


@pytest.mark.invented
def test_an_assignor_that_only_calls_itself_range_breaks_the_replay(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """Taken for ours by the history it leaves, it doesn't answer as ours."""
    topic, group = kafka_topic(partitions=4), unjudged_group()
    two_members(group, topic, "tests.support.integration.planted:Cheating")
    group.close()
    for path in tmp_path.glob("*.jsonl"):
        path.write_text(path.read_text("utf-8").replace("tests.support.integration.planted:Cheating", "range"), "utf-8")
        seal(path)

    verdict = check(History.load(tmp_path))

    assert verdict.value is False
    assert set(broken(verdict)) == {"A1"}
    assert {w.kind for w in verdict.violations[0].witnesses} == {"generation_committed", "assign_begin"}


def test_a_partitioner_that_answers_another_partition_than_it_says_is_found(
    kafka_broker: Broker, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = kafka_topic(partitions=4)
    records = [Record(topic, b"key-%d" % i) for i in range(20)]
    sent = send(kafka_broker.bootstrap, tmp_path, "run", "tests.support.integration.planted:Elsewhere", records)
    read_back(kafka_broker.bootstrap, tmp_path, "run", [topic])

    verdict = check(History.load(tmp_path))

    assert sent.mispredicted == 20
    assert verdict.value is False
    (violation,) = verdict.violations
    assert violation.law == "K1"
    assert "20 record(s)" in violation.message
    assert all(w.kind == "ack" and w.data["partition"] == (w.data["predicted"] + 1) % 4 for w in violation.witnesses)


def test_a_record_that_is_deleted_before_the_group_reads_it_is_lost(
    kafka_broker: Broker,
    kafka_admin: KafkaAdminClient,
    unjudged_group: MakeGroup,
    kafka_topic: MakeTopic,
    tmp_path: Path,
) -> None:
    topic, group = kafka_topic(partitions=2), unjudged_group()
    send(kafka_broker.bootstrap, tmp_path, "run", "explicit", [Record(topic, None, i % 2) for i in range(20)])
    kafka_admin.delete_records({TopicPartition(topic, 1): 3})
    group.start("m1", [topic], ["range"])
    group.wait_stable()
    group.drain()

    verdict = judged(group, tmp_path)

    assert verdict.value is False
    assert set(broken(verdict)) == {"C3"}
    (violation,) = verdict.violations
    lost = [(w.data["partition"], w.data["offset"]) for w in violation.witnesses if w.kind == "ack"]
    assert lost == [(1, 0), (1, 1), (1, 2)]
    assert violation.witnesses[-1].data["name"] == "drained"
    assert verdict.checked["C3"] == 20


def test_a_record_that_is_deleted_before_it_is_read_back_is_missing(
    kafka_broker: Broker, kafka_admin: KafkaAdminClient, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = kafka_topic(partitions=1)
    send(kafka_broker.bootstrap, tmp_path, "run", "default", [Record(topic)] * 10)
    kafka_admin.delete_records({TopicPartition(topic, 0): 4})
    seen = read_back(kafka_broker.bootstrap, tmp_path, "run", [topic])

    verdict = check(History.load(tmp_path))

    assert seen.counts == {"default": {topic: {0: 6}}}
    assert verdict.value is False
    (violation,) = verdict.violations
    assert violation.law == "K1"
    assert "4 record(s)" in violation.message
    assert "were acknowledged but not read back" in violation.message


@pytest.mark.long  # long: waits for a rest that never comes; commands/test_footprint.py has a run that gives up
def test_a_group_that_never_rests_is_judged_drawn_and_counted(kafka_broker: Broker, tmp_path: Path) -> None:
    """As a user meets it: FALSE and exit 1, the witness in words, a partition without an owner red to the edge."""
    out = tmp_path / "run"
    command = ["run", "churn", "--assignor", "tests.support.integration.planted:Dropping", "--timeout-s", "20"]

    done = integration(*command, "--bootstrap", kafka_broker.bootstrap, "--confirm", "--out", str(out), "--json")

    assert done.returncode == 1, done.stderr
    answer = valid("test", json.loads(done.stdout))
    assert answer["value"] is False
    assert "O3" in {violation["law"] for violation in answer["violations"]}
    assert answer["longest_stop_ms"] > 5000
    assert "not played to the end: group" in done.stderr
    again = integration("judge", str(out), "--page", str(tmp_path / "again.html"))
    assert again.returncode == 1
    assert re.search(
        r"O3: generation(s \d+ to \d+ assigned \S+-0 to no member| \d+, led by \S+: \S+-0 → nobody)", again.stdout
    ), again.stdout
    assert "witness " in again.stdout
    for page in (out / "report.html", tmp_path / "again.html"):
        shown = page.read_text("utf-8")
        red = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"[^>]* class="gap"><title>([^<]+)', shown)
        never = [(float(x) + float(width), title) for x, width, title in red if "until the end" in title]
        owned = [float(x) + float(w) for x, w in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', shown)]
        assert len(never) == 3, red
        assert {round(edge) for edge, _ in never} == {round(max(owned))}
    assert "Not played to the end" in (out / "report.html").read_text("utf-8")
