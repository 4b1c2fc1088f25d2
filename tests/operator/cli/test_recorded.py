"""`why --from` tells what `why` tells, by the recordings of the group's members alone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors import record
from kafka_assignors.connection import Connection
from kafka_assignors.coordinator import LogTail
from kafka_assignors.errors import NoSuchGroup
from kafka_assignors.history.causes import Cause
from kafka_assignors.history.rebalances import Rebalance, rebalances
from kafka_assignors.integration.broker import Broker
from kafka_assignors.recordings import read_group
from tests.support.cli import answered, cli
from tests.support.live.compared import Agreement, compared, counted
from tests.support.live.consumers import ConsumerMember, played
from tests.support.live.log import LogStory
from tests.support.live.recorded import events_of
from tests.support.pages import example
from tests.support.places import ROOT
from tests.support.waiting import until


def told(*generations: int, missing: tuple[int, int] | None = None, **who: str) -> Rebalance:
    """A rebalance with these generations; ``joined`` and ``left`` name members, ``first`` is the group's."""
    causes = tuple(Cause(kind, name, member_id=name) for kind, name in who.items())
    return Rebalance(generations, missing, 0, None, "range", True, "a", 2, causes)


@pytest.mark.parametrize(
    ("recorded", "same", "untold", "different"),
    [
        ([told(6), told(7, left="m"), told(8, joined="n")], 3, 0, 0),
        ([told(6), told(8, missing=(7, 7), left="m", joined="n")], 1, 2, 0),
        ([told(8, left="m", joined="n")], 0, 3, 0),
        ([told(6), told(8, left="m", joined="n")], 1, 0, 2),
        ([told(6), told(8, missing=(7, 7), joined="n")], 1, 0, 2),
        ([told(6), told(7, left="m")], 2, 0, 1),
        ([told(6), told(7, left="n"), told(8, joined="n")], 2, 0, 1),
    ],
    ids=["each", "one untold", "the first two untold", "not missing", "without its cause", "no last", "another"],
)
def test_what_recordings_tell_is_what_the_log_tells(
    recorded: list[Rebalance], same: int, untold: int, different: int
) -> None:
    """A generation that no member heard of is named as missing, and its causes are the next one's."""
    agreement = compared([told(6), told(7, left="m"), told(8, joined="n")], recorded, ())

    assert (agreement.same, agreement.untold, len(agreement.different)) == (same, untold, different)
    assert agreement.agreeing == same / 3


@pytest.mark.broker
def test_a_drawn_life_has_the_same_causes_by_recordings_and_by_the_log(kafka_broker: Broker, tmp_path: Path) -> None:
    """But for generations that the coordinator replaced before it answered a member, on a busy machine."""
    whole = counted(played(kafka_broker.bootstrap, tmp_path / "to", 2, 8))
    assert whole.total >= 16
    assert whole.different == []


@pytest.mark.broker
@pytest.mark.long  # long: the short form is above; this is the bar of 95 % of 500
@pytest.mark.timeout(1800)
def test_of_500_drawn_rebalances_95_percent_have_the_same_cause(kafka_broker: Broker, tmp_path: Path) -> None:
    whole = counted(played(kafka_broker.bootstrap, tmp_path / "to", 6, 90))
    assert whole.total >= 500
    assert whole.agreeing >= 0.95, whole.different


SETTINGS = """session_timeout_ms=2000, heartbeat_interval_ms=300, ssl_password="hunter2",
    partition_assignment_strategy=[kafka_assignors.RangeAssignor]"""
POLLS = """
while True:
    consumer.poll(timeout_ms=100)
"""


def service(bootstrap: str, topic: str, group: str, name: str, to: Path) -> str:
    """The example of `docs/monitoring.md` as a service, with short timeouts."""
    code = example("docs/monitoring.md", "kafka_assignors.record(")
    for theirs, ours in (
        ("localhost:9092", bootstrap), ('"orders"', f'"{topic}"'), ("/var/log/billing-group", str(to)),
        ('group_id="billing"', f'group_id="{group}", client_id="{name}", {SETTINGS}'),
    ):  # fmt: skip
        assert theirs in code
        code = code.replace(theirs, ours)
    return code + POLLS


@pytest.mark.broker
def test_a_service_that_is_killed_is_told_by_another_ones_file(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Two processes, one file each; one is killed. The command asks no broker, and no secret is in a file."""
    topic, group, to = kafka_topic(partitions=4), f"g-{uuid.uuid4().hex[:8]}", tmp_path / "to"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", service(kafka_broker.bootstrap, topic, group, name, to)],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for name in ("m1", "m2")
    ]  # fmt: skip

    def last() -> tuple[int, list[tuple[str, str]]]:
        """Members and causes of the last rebalance."""
        done = cli("why", group, "--from", str(to), "--json")
        if done.returncode:
            return 0, []
        rebalance = answered("why", done)["rebalances"][-1]
        return rebalance["members"], [(cause["kind"], cause["client_id"]) for cause in rebalance["causes"]]

    try:
        until(lambda: last()[0] == 2, "both have joined", 60)
        running[1].send_signal(signal.SIGKILL)
        until(lambda: last() == (1, [("left or expired", "m2")]), "the kill is told", 60)
        files = sorted(to.iterdir())
        assert [path.name.split(".")[-2] for path in files] == sorted(str(process.pid) for process in running)
        assert all(path.stat().st_mode & 0o077 == 0 for path in files)
        assert not any(b"hunter2" in path.read_bytes() for path in files)
        assert cli("why", group, "-b", kafka_broker.bootstrap).stdout.count("left or expired m2") == 1
    finally:
        for process in running:
            process.kill()
            process.communicate()


@pytest.mark.broker
def test_members_that_do_not_record_are_known_while_one_that_does_leads(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, group, to = kafka_topic(partitions=4), f"g-{uuid.uuid4().hex[:8]}", tmp_path / "to"

    def member(name: str, folder: Path | None) -> ConsumerMember:
        started = ConsumerMember(kafka_broker.bootstrap, group, name, [topic], "range", folder)
        started.start()
        return started

    def told() -> list[list[tuple[str, str]]]:
        causes = read_group(group, [str(to)], lambda: Connection(""), print).rebalances()
        return [[(cause.kind, cause.client_id) for cause in rebalance.causes] for rebalance in causes]

    seen = member("seen", to)
    until(lambda: seen.stable, "the first has joined")
    hidden = member("hidden", None)
    until(lambda: hidden.stable and seen.stable and hidden.generation == seen.generation, "the second has joined")
    until(
        lambda: told() == [[("first", "")], [("joined", "hidden")]], "the leader tells of a member that doesn't record"
    )
    asyncio.run(seen.leave())
    until(lambda: hidden.generation > seen.generation and hidden.stable, "the second leads")
    late = member("late", to)
    until(lambda: late.stable and late.generation == hidden.generation, "a third has joined")
    until(lambda: told()[-1][-1][0] == "unknown", "what nobody records is unknown")
    assert ("joined", "late") in told()[-1]
    for one in (hidden, late):
        asyncio.run(one.leave())


@pytest.mark.broker
def test_recordings_may_go_to_a_topic_that_the_user_names(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, events, group = kafka_topic(partitions=4), kafka_topic(partitions=1), f"g-{uuid.uuid4().hex[:8]}"
    members = [
        ConsumerMember(kafka_broker.bootstrap, group, f"m{n}", [topic], "range", f"topic:{events}") for n in (1, 2)
    ]
    for one in members:
        one.start()
    until(lambda: all(one.stable for one in members) and len({one.generation for one in members}) == 1, "both are in")
    asyncio.run(members[1].leave())
    until(lambda: members[0].stable and members[0].generation > members[1].generation, "one is left")

    def told() -> list[str]:
        done = cli("why", group, "--from", f"topic:{events}", "-b", kafka_broker.bootstrap, "--json")
        return [cause["kind"] for cause in json.loads(done.stdout)["rebalances"][-1]["causes"]] if done.stdout else []

    until(lambda: told() == ["left"], "the leave is in the topic", 60)
    watched = cli("watch", group, "--from", f"topic:{events}", "-b", kafka_broker.bootstrap, "--once", "--json")
    assert (answered("watch", watched)["members"], len(answered("watch", watched)["owned"])) == (["m1"], 4)
    asyncio.run(members[0].leave())


@pytest.mark.broker
def test_members_of_aiokafka_tell_the_same(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Recorded before the start, or after it; the bounds of causes are those of the log."""
    aiokafka = pytest.importorskip("aiokafka")
    topic, group = kafka_topic(partitions=4), f"g-{uuid.uuid4().hex[:8]}"

    def consumer(name: str) -> Any:
        return aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=kafka_broker.bootstrap, group_id=group, client_id=name, session_timeout_ms=3000,
            heartbeat_interval_ms=200, retry_backoff_ms=50,
        )  # fmt: skip

    async def live() -> None:
        first, second = consumer("a"), consumer("b")
        for one in (first, second):
            record(one, to=tmp_path)
            await one.start()
        for _ in range(600):
            if len(first.assignment()) == len(second.assignment()) == 2:
                break
            await asyncio.sleep(0.05)
        await second.stop()
        for _ in range(600):
            if len(first.assignment()) == 4:
                break
            await asyncio.sleep(0.05)
        await first.stop()

    asyncio.run(live())
    with closing(LogTail(Connection(kafka_broker.bootstrap), [group])) as tail:
        by_log = rebalances(tail.history[group])

    def agreement() -> Agreement:
        recorded = read_group(group, [str(tmp_path)], lambda: Connection(""), print)
        left = {member_id for g in recorded.generations for member_id in g.members}
        return compared(by_log, recorded.rebalances(), left)

    until(lambda: agreement().different == [], "the recordings tell what the log tells")
    assert agreement().total == 4


@pytest.mark.broker
def test_members_of_librdkafka_tell_who_came_and_went(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    topic, group = kafka_topic(partitions=4), f"g-{uuid.uuid4().hex[:8]}"
    members = []
    for name in ("a", "b"):
        member = confluent_kafka.Consumer({
            "bootstrap.servers": kafka_broker.bootstrap, "group.id": group, "client.id": name,
            "session.timeout.ms": 3000, "heartbeat.interval.ms": 200,
        })  # fmt: skip
        member.subscribe([topic], **record(member, to=tmp_path))
        members.append(member)

        def shared(due: int = 4 // len(members)) -> bool:
            for one in members:
                one.poll(0.05)
            return {len(one.assignment()) for one in members} == {due}

        until(shared, "the partitions are shared", 60)
    members.pop().close()
    until(lambda: members[0].poll(0.05) is None and len(members[0].assignment()) == 4, "one has all", 60)

    def told() -> list[list[tuple[str, str]]]:
        causes = read_group(group, [str(tmp_path)], lambda: Connection(""), print).rebalances()
        return [[(cause.kind, cause.client_id) for cause in rebalance.causes] for rebalance in causes]

    until(lambda: told()[-1:] in ([[("left", "b")]], [[("left or expired", "b")]]), "the close is told")
    assert [("joined", "b")] in told()
    recorded = read_group(group, [str(tmp_path)], lambda: Connection(""), print).rebalances()
    assert not any(rebalance.by_broker for rebalance in recorded), "nobody tells who leads, but a member does"
    members[0].close()


def test_why_names_the_groups_that_are_recorded_if_the_one_asked_for_is_not(tmp_path: Path) -> None:
    story = LogStory().given({"a": [0, 1]}).wait(5).given({"a": [0], "b": [1]})
    (tmp_path / "h.1.jsonl").write_text("".join(event.to_json() + "\n" for event in events_of(story.log)) + "torn\n")
    notes: list[str] = []
    with pytest.raises(NoSuchGroup, match=r"no generation of group 'other' is recorded in .*; it has g"):
        read_group("other", [str(tmp_path)], lambda: Connection(""), notes.append)
    assert notes == ["1 line left out: torn, or no events of this version"]
