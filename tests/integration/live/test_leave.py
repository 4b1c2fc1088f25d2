"""A member leaves a cooperative group with default heartbeats (3 s): the others take over within milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Sender
from tests.support.integration.early import DEFAULT_HEARTBEAT_MS, SESSION_MS, early

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

GAP_MS = 1500
"""Between the 3 s of a heartbeat, that the others would wait for, and the milliseconds that they need."""


def ends(folder: Path) -> dict[str, Any]:
    """How the run ended: one verdict over its whole history."""
    history = History.load(folder)
    verdict = check(history)
    assert (verdict.violations, verdict.value) == ((), True), verdict.unknown
    assert verdict.checked["O4"]
    return {"verdict": verdict, "history": history}


def read_twice(history: History, leavers: Collection[str]) -> int:
    """How many records were consumed again that one of these members had consumed."""
    reached: dict[tuple[str, int], tuple[int, str]] = {}  # partition -> its newest consumed record, and by whom
    found = 0
    for event in history.events:
        for run in event.data["offsets"] if event.kind == "consume" else ():
            last, by = reached.get(place := (run["topic"], run["partition"]), (-1, ""))
            if by in leavers:
                found += max(0, min(last, run["last"]) - run["first"] + 1)
            if run["last"] > last:
                reached[place] = run["last"], event.member or ""
    return found


@early(pytest.mark.long)  # long: members that leave by the same code; packaging/test_readme.py has the bridge's leave
def test_a_leave_stops_no_partition_until_the_next_heartbeat(
    kafka_broker: Broker, unjudged_group: Callable[..., MemberGroup], kafka_topic: Callable[..., str],
    tmp_path: Path, assignor: str, member: dict[str, Any],
) -> None:  # fmt: skip
    """The first to leave is the leader; the last one has nobody to hand over to."""
    topic = kafka_topic(partitions=12)
    group = unjudged_group(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=DEFAULT_HEARTBEAT_MS)
    with Sender(kafka_broker.bootstrap, tmp_path, "run", [topic], "roundrobin", 50):
        for name in ("m1", "m2", "m3"):
            group.start(name, [topic], [assignor], **member)
            stable = group.wait_stable(timeout_s=60)
        leader = stable.leader
        for name in (leader, *sorted({"m1", "m2", "m3"} - {leader})[:1]):
            group.step(f"{name} leaves", gap_ms=GAP_MS)
            group.leave(name)
            stable = group.wait_stable(timeout_s=60)
    (last,) = stable.owned
    assert len(stable.owned[last][topic]) == 12
    group.drain()
    group.leave(last)
    group.close()

    history = ends(tmp_path)["history"]
    assert read_twice(history, ("m1", "m2", "m3")) == 0


@pytest.mark.long  # long: leaders of other clients; the test above has leaves under ours
@pytest.mark.parametrize(
    "client",
    # long: two more leaders that know nothing of early heartbeats
    ["java", *(pytest.param(each, marks=pytest.mark.long) for each in ("confluent", "kafka-python"))],
)
def test_members_leave_whatever_client_leads(
    client: str, kafka_broker: Broker, unjudged_group: Callable[..., MemberGroup], kafka_topic: Callable[..., str],
    tmp_path: Path,
) -> None:  # fmt: skip
    """Of two clients, one after another and two at once. (A member of Java's reads some records again as it joins.)"""
    topic = kafka_topic(partitions=12)
    group = unjudged_group()
    leader = ["kafka-python:cooperative-sticky"] if client == "kafka-python" else ["cooperative-sticky"]
    with Sender(kafka_broker.bootstrap, tmp_path, "run", [topic], "roundrobin", 50):
        group.start("first", [topic], leader, client=client)
        group.wait_stable(timeout_s=60)
        group.start("stays", [topic], ["cooperative-sticky"])
        for number in range(3):
            ours, bridged = f"ours{number}", f"bridged{number}"
            group.start(ours, [topic], ["cooperative-sticky"])
            group.start(bridged, [topic], ["cooperative-sticky"], client="bridge")
            assert group.wait_stable(timeout_s=60).leader == "first"
            if number == 2:
                group.leave(ours, bridged)
            else:
                group.leave(ours)
                group.wait_stable(timeout_s=60)
                group.leave(bridged)
            group.wait_stable(timeout_s=60)
    group.drain()
    group.close()

    history = History.load(tmp_path)
    verdict = check(history)
    assert (verdict.violations, verdict.value) == ((), True), verdict.unknown
    leavers = [f"{kind}{number}" for kind in ("ours", "bridged") for number in range(3)]
    assert read_twice(history, leavers) == 0
