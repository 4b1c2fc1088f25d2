"""The schema of the history: what real members, producers and the coordinator log write fits it, and little else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kafka_assignors.history import events
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Record, read_back, send
from tests.support.histories.schema import SCHEMA, faults
from tests.support.histories.story import Story, churn, given_up
from tests.support.histories.truncation import unclean


@pytest.mark.slow
def test_the_schema_is_one_and_of_this_version() -> None:
    Draft202012Validator.check_schema(SCHEMA)

    assert SCHEMA["properties"]["v"]["const"] == events.VERSION
    assert set(SCHEMA["properties"]) == {*events.COMMON, "log_bytes"}, "which a service's member has in any event"


# long: a live group; the next test has the same kinds of events, which the tests' stories and the members write by
# one code
@pytest.mark.long
@pytest.mark.broker
def test_what_a_real_run_writes_fits(
    kafka_broker: Broker, unjudged_group: Callable[..., MemberGroup], kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, group = kafka_topic(partitions=4), unjudged_group()
    send(kafka_broker.bootstrap, tmp_path, "run", "default", [Record(topic, b"key-%d" % i) for i in range(20)])
    group.step("one joins", gap_ms=5000)
    group.start("m1", [topic], ["cooperative-sticky"], instance_id="one")
    group.wait_stable()
    group.start("m2", [topic], ["cooperative-sticky"])
    group.wait_stable()
    group.kill("m1")
    group.wait_stable()
    group.drain()
    group.close()
    read_back(kafka_broker.bootstrap, tmp_path, "run", [topic])

    lines = [line for path in tmp_path.glob("*.jsonl") for line in path.read_text("utf-8").splitlines()]
    assert [(line[:200], found) for line in lines if (found := faults(line))] == []
    kinds = {json.loads(line)["kind"] for line in lines}
    assert kinds >= {"start", "assign_begin", "generation", "assigned_begin", "revoke_end", "consume", "commit_ok"}
    assert kinds >= {"fault_begin", "exit", "step", "generation_committed", "offset_committed", "ack", "read_back"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "story", [churn(), churn("cooperative-sticky"), Story().start("a").round().pause("a"), given_up(), unclean()]
)
def test_what_the_tests_tell_fits_too(story: Story) -> None:
    assert [found for event in story.events if (found := faults(event.to_json()))] == []


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("ack", {"v": 2}),
        ("ack", {"kind": "acknowledged"}),
        ("ack", {"offset": "7"}),
        ("ack", {"src": "member"}),
        ("ack", {"topic": None}),
        ("step", {"seq": -1}),
        ("consume", {"offsets": [{"topic": "t", "partition": 0, "first": 1}]}),
        ("generation", {"partitions": ["t-0"]}),
        ("generation_committed", {"members": [{"member_id": "a"}]}),
        ("start", {"assignors": "range"}),
        ("start", {"config": {"heartbeat_interval_ms": "fast"}}),
        ("not_stable", {"due": "everything"}),
        ("truncated", {"offsets": [{"topic": "t", "partition": 0, "offset": 1}]}),
        ("not_drained", {"left": [{"topic": "t", "partition": 0, "offset": 1}]}),
        ("not_over", {"awaited": None}),
        ("topics", {"topics": {"t": -1}}),
        ("closing", {"src": "member"}),
    ],
)
def test_what_is_none_is_refused(kind: str, damage: dict[str, Any]) -> None:
    events = [*churn().events, *given_up().events, *unclean().events]
    row = json.loads(next(e for e in events if e.kind == kind).to_json())
    assert faults(json.dumps(row)) == []

    assert faults(json.dumps(row | damage)) != []
