"""Clients in Go and ours in one group, for every assignor that both have, whoever leads: all laws hold, and a member
that claims its partitions keeps as many of them as its new share permits.

Go builds the members (`tests/foreign/member`). Without Go on PATH these tests are skipped; with REQUIRE_GO=1 they fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from kafka_assignors.core.wire.protocol import decode_subscription
from kafka_assignors.core.wire.userdata import decode_sticky
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Sender
from tests.support.go import CLIENTS, required_go_member

pytestmark = [pytest.mark.broker, pytest.mark.timeout(1200)]

PARTITIONS = 12
OURS = "ours"
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
SHORT = ("franz-go", "cooperative-sticky", "franz-go")
"""The case of every run, in which both clients lead; all others, and Sarama's, take part in the long ones."""


program = pytest.fixture(scope="session")(required_go_member)


def cases() -> Iterator[object]:
    """Client, assignor, and who leads first."""
    for client, assignor in product(CLIENTS, ASSIGNORS):
        for leader in (client, OURS):
            case = client, assignor, leader
            yield pytest.param(*case, marks=[] if case == SHORT else [pytest.mark.long])


# long: a client in Go, which rarely changes; test_mixed.py has Java's and librdkafka's members beside ours
@pytest.mark.long
@pytest.mark.parametrize(("client", "assignor", "leader"), [*cases()])
def test_a_group_with_members_in_go(
    kafka_broker: Broker, unjudged_group: Callable[..., MemberGroup], kafka_topic: Callable[..., str],
    tmp_path: Path, program: Path, client: str, assignor: str, leader: str,
) -> None:  # fmt: skip
    topic, group = kafka_topic(partitions=PARTITIONS), unjudged_group(session_timeout_ms=6000)
    other = client if leader == OURS else OURS
    client_of: dict[str, str] = {}
    before: dict[str, set[int]] = {}
    with Sender(kafka_broker.bootstrap, tmp_path, "run", [topic], "default", 50):
        # The leader leaves while members of both clients remain.
        for name, whose in (("a1", leader), ("b1", other), ("b2", other), ("a2", leader), ("a1", None), ("b1", None)):
            group.step(f"{name} {'joins' if whose else 'leaves'}")
            if whose is None:
                group.stop(name)
                before.pop(name)
            else:
                client_of[name] = whose
                foreign = {} if whose == OURS else {"client": client, "program": [str(program), client]}
                group.start(name, [topic], [assignor], **foreign)
            stable = group.wait_stable(timeout_s=90)
            after = {member: set(ids.get(topic, ())) for member, ids in stable.owned.items()}
            sizes = sorted(map(len, after.values()))
            assert (sum(sizes), sizes[-1] - sizes[0] <= 1) == (PARTITIONS, True)
            if "sticky" in assignor:
                for member, held in before.items():
                    if claims(client_of[member], assignor):
                        assert len(held & after[member]) == min(len(held), len(after[member])), (member, before, after)
            before = after
    group.drain()
    group.close()

    history = History.load(tmp_path)
    verdict = check(history)
    assert (verdict.violations, verdict.value) == ((), True), verdict.unknown
    if not claims(client, assignor):
        assert told(history, {name for name, whose in client_of.items() if whose == client}) == 0


def claims(client: str, assignor: str) -> bool:
    """Whether a member of the client claims its partitions when it joins again under a sticky assignor.

    franz-go 1.22 forgets them before an eager rejoin: ``groupConsumer.revoke`` sets ``lastAssigned`` to nil.
    """
    return (client, assignor) != ("franz-go", "sticky")


def told(history: History, names: set[str]) -> int:
    """How many partitions these members claimed in all their subscriptions under ``sticky``."""
    sent = [
        decode_subscription(bytes.fromhex(member["subscription"]))
        for event in history.events
        if event.kind == "generation_committed"
        for member in event.data.get("members", ())
        if member["client_id"] in names
    ]
    assert len(sent) > len(names)
    return sum(len(decode_sticky(each.user_data).owned) for each in sent)
