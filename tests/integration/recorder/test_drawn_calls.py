"""Drawn calls of each client, valid and invalid: with the recorder each one returns and raises what it does without."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.topics.sandbox import Sandbox
from tests.support.further import further
from tests.support.kafka_python.sent import sent
from tests.support.same.draws import CLIENTS, draw, outcomes
from tests.support.same.subject import RECORDS

OFFLINE, SHORT, LONG, AT_ONCE, PROCESSES, AGAIN = range(25), range(3), range(50), 10, 6, 6
GROUP = "g-recorded"


def rows_of(record: Path) -> list[dict[str, Any]]:
    """What the recorder wrote."""
    files = sorted(record.parent.glob(f"{record.name}-*"))
    return [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]


def compare(with_it: list[Any], without: list[Any]) -> None:
    """Each call, one after the other, so that a failure shows the first that differs."""
    for ours, theirs in zip(with_it, without, strict=True):
        assert ours == theirs, f"with the recorder:\n{json.dumps(ours)}\nwithout it:\n{json.dumps(theirs)}"
    assert {row[2] for row in without} == {"returned", "raised"}


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_calls_that_need_no_broker_are_the_same(client: str, tmp_path: Path) -> None:
    draws = [draw(client, seed, f"t{seed}", online=False) for seed in OFFLINE]

    recorded = outcomes(client, draws, GROUP, record=tmp_path / "record")

    compare(recorded, outcomes(client, draws, GROUP))
    module = import_module(f"tests.support.same.{client}")
    assert {call for one in draws for call in one["calls"]} == {*module.VALID, *module.INVALID}
    assert [row for row in rows_of(tmp_path / "record") if row["kind"] == "error"] == []


DAMAGED = """
import kafka

def poll(self, *args, original=kafka.KafkaConsumer.poll, **kwargs):
    try:
        return original(self, *args, **kwargs)
    except ValueError:
        return {}

kafka.KafkaConsumer.poll = poll
"""


@pytest.mark.slow
def test_a_recorder_that_swallows_an_exception_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(DAMAGED, "utf-8")
    draws = [draw("kafka_python", seed, f"t{seed}", online=False) for seed in OFFLINE]

    damaged = outcomes("kafka_python", draws, GROUP, begins=str(tmp_path))

    without = outcomes("kafka_python", draws, GROUP)
    with pytest.raises(AssertionError):
        compare(damaged, without)
    differ = {ours[1] for ours, theirs in zip(damaged, without, strict=True) if ours != theirs}
    assert differ == {"poll below", "poll no records"}


def played(client: str, seeds: range, broker: Broker, folder: Path) -> list[dict[str, Any]]:
    """Play the draws of these seeds on a broker with the recorder and without it, and compare.

    Each has a process and a group of its own: what one leaves behind would be chance to the next. Chance has a part in
    what the client does, too: confluent-kafka closes with a commit's callback before a revoke's, or behind it. A draw
    that differs is played without the recorder until it does the same, at most `AGAIN` times.
    """
    name = f"{client[0]}{uuid.uuid4().hex[:8]}"
    record = folder / f"record-of-{seeds.start}"
    records = [{"value": b"%d" % n, "key": b"k" if n % 3 else None, "partition": 0} for n in range(RECORDS)]
    with Sandbox(broker.connection, f"{name}-") as sandbox, ThreadPoolExecutor(PROCESSES) as pool:

        def begun(runs: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Future[list[Any]]]:
            topics = {(run, seed): f"{name}-{run}-{seed}" for run, seed in runs}
            counts = {"a": 2, "b": 1, "c": 1}
            sandbox.make({f"{topic}-{part}": count for topic in topics.values() for part, count in counts.items()})
            for topic in topics.values():
                sent(broker.bootstrap, f"{topic}-a", records)
            return {
                (run, seed): pool.submit(
                    outcomes, client, [draw(client, seed, topic, online=True)], topic, broker.bootstrap,
                    record.with_name(f"{record.name}-{seed}") if run == "x" else None,
                )
                for (run, seed), topic in topics.items()
            }  # fmt: skip

        runs = begun((run, seed) for seed in seeds for run in "xy")
        recorded = {seed: runs["x", seed].result() for seed in seeds}
        without = {seed: runs["y", seed].result() for seed in seeds}
        for again in range(AGAIN):
            differ = [seed for seed in seeds if recorded[seed] != without[seed]]
            others = begun((f"y{again}", seed) for seed in differ)
            without |= {seed: other.result() for (_, seed), other in others.items()}
        compare(*([row for seed in seeds for row in rows[seed]] for rows in (recorded, without)))
    return rows_of(record)


def check_rows(rows: list[dict[str, Any]], *more: str) -> None:
    """The recorder was there: it saw joins and ends, and what else is named, and did not fail."""
    kinds = {row["kind"] for row in rows}
    assert {"start", "generation", "assigned_end", "stop", *more} <= kinds
    assert "error" not in kinds


# long: of confluent's draws one differs now and then, and is then played again
@pytest.mark.parametrize(
    "client", [*further(c for c in CLIENTS if c != "confluent"), pytest.param("confluent", marks=pytest.mark.long)]
)
def test_some_calls_are_the_same_on_a_broker(client: str, kafka_broker: Broker, tmp_path: Path) -> None:
    check_rows(played(client, SHORT, kafka_broker, tmp_path))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("client", CLIENTS)
def test_fifty_draws_are_the_same_on_a_broker(client: str, kafka_broker: Broker, tmp_path: Path) -> None:
    parts = [LONG[first : first + AT_ONCE] for first in range(0, len(LONG), AT_ONCE)]

    rows = [row for seeds in parts for row in played(client, seeds, kafka_broker, tmp_path)]
    check_rows(rows, "consume", "revoke_end", "commit_begin", "commit_ok", "commit_fail")

    module = import_module(f"tests.support.same.{client}")
    calls = {call for seed in LONG for call in draw(client, seed, "t", online=True)["calls"]}
    assert calls == {*module.VALID, *module.ONLINE, *module.INVALID}
