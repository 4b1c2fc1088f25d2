"""A history published to a topic: every line of it, in the order of its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_assignors.history.events import Event
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.errors import HarnessError
from kafka_assignors.integration.topics.publish import publish
from tests.support.histories.story import churn
from tests.support.integration.commands import integration
from tests.support.producers.reading import read_whole


@pytest.mark.broker
@pytest.mark.invented
def test_each_whole_line_is_a_record_and_a_torn_one_is_none(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = kafka_topic(partitions=3, name="events")
    churn("sticky").write(tmp_path)
    files = {path.name: path.read_bytes().splitlines() for path in tmp_path.glob("*.jsonl")}
    with (tmp_path / "g.a.member.jsonl").open("ab") as file:
        file.write(b'{"v":1,"run":"r')

    assert publish(kafka_broker.bootstrap, topic, tmp_path) == sum(map(len, files.values()))

    read = read_whole(kafka_broker, topic, sum(map(len, files.values())))
    for name, lines in files.items():
        mine = sorted((r for r in read if r.key == name.encode()), key=lambda r: r.offset)
        assert [r.value for r in mine] == lines
        assert len({r.partition for r in mine}) == 1
        assert [Event.from_json(r.value.decode()).seq for r in mine] == list(range(len(lines)))


@pytest.mark.broker
def test_a_line_that_the_topic_does_not_take_is_named(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = kafka_topic(name="small", configs={"max.message.bytes": "500"})
    (tmp_path / "m.jsonl").write_text("a\n" + "b" * 2000 + "\n")

    with pytest.raises(HarnessError, match=rf"topic '{topic}' rejects m\.jsonl:2: MessageSizeTooLarge|:1: .*Batch"):
        publish(kafka_broker.bootstrap, topic, tmp_path)


@pytest.mark.long  # long: the demo of test_cli.py is published as well, each line of it
@pytest.mark.broker
def test_a_played_scenario_is_published_with_its_seals(kafka_broker: Broker, tmp_path: Path) -> None:
    """By the command, into a topic that doesn't exist yet."""
    out, topic = tmp_path / "out", f"events-{tmp_path.name}"
    done = integration(
        *(
            "run",
            "range-skew",
            "--bootstrap",
            kafka_broker.bootstrap,
            "--confirm",
            "--out",
            str(out),
            "--events-topic",
            topic,
        )
    )
    assert done.returncode == 0, done.stdout + done.stderr

    lines = [line for path in (out / "history").glob("*.jsonl") for line in path.read_bytes().splitlines()]
    assert f"{len(lines)} events are in topic {topic}" in done.stdout
    assert sorted(r.value for r in read_whole(kafka_broker, topic, len(lines))) == sorted(lines)


@pytest.mark.slow
@pytest.mark.parametrize("command", [("run", "churn"), ("demo",)])
def test_a_topic_of_a_broker_that_ends_with_the_run_is_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    done = integration(*command, "--out", str(tmp_path / "out"), "--events-topic", "events")

    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "--events-topic events needs --bootstrap" in done.stderr
