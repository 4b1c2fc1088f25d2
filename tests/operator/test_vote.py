"""The vote of a real broker, asked by bare JoinGroup requests, against the one predicted."""

from __future__ import annotations

import random
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kafka_assignors.core.wire.protocol import Subscription, encode_subscription
from kafka_assignors.errors import ElectionError
from kafka_assignors.integration.broker import Broker
from kafka_assignors.operator.election import elect

NAMES = ["range", "roundrobin", "sticky", "cooperative-sticky", "lag", "optimal", "consistent-hash", "b", "zz9"]
INCONSISTENT_GROUP_PROTOCOL = 23
NOT_YET = (14, 15, 16)  # the coordinator is loading, not available, elsewhere
SUBSCRIPTION = encode_subscription(Subscription(("t",)))
GROUPS = 150
DEADLINE_S = 30


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


@dataclass
class Joined:
    error: int
    generation: int
    protocol: str
    member_id: str


class Voter:
    """One connection that joins groups: JoinGroup version 2, which asks for no member id first."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=DEADLINE_S)
        self.member_id = ""

    def ask(self, group: str, names: list[str]) -> None:
        protocols = b"".join(text(name) + struct.pack(">i", len(SUBSCRIPTION)) + SUBSCRIPTION for name in names)
        self._send(11, 2, text(group) + struct.pack(">ii", 30_000, 30_000) + text(self.member_id)
                   + text("consumer") + struct.pack(">i", len(names)) + protocols)  # fmt: skip

    def find_coordinator(self, group: str) -> int:
        """Also makes the broker create its offsets topic."""
        self._send(10, 0, text(group))
        return int(struct.unpack_from(">h", self._receive(), 4)[0])

    def answer(self) -> Joined:
        data = self._receive()
        error, generation = struct.unpack_from(">hi", data, 8)
        at, found = 14, []
        for _ in range(3):  # the protocol, the leader, oneself
            size = struct.unpack_from(">h", data, at)[0]
            found.append(data[at + 2 : at + 2 + max(size, 0)].decode())
            at += 2 + max(size, 0)
        return Joined(error, generation, found[0], found[2])

    def _send(self, api: int, version: int, body: bytes) -> None:
        request = struct.pack(">hhi", api, version, 1) + text("voter") + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)

    def _receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            assert chunk, "the broker has closed the connection"
            data += chunk
        return data

    @property
    def port(self) -> int:
        """Its own port: no two runs at a time have the same."""
        return int(self._socket.getsockname()[1])

    def fileno(self) -> int:
        """For ``select``."""
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def voters(kafka_broker: Broker) -> Iterator[list[Voter]]:
    made = [Voter(kafka_broker.bootstrap) for _ in range(4)]
    deadline = time.monotonic() + DEADLINE_S
    while made[0].find_coordinator("vote") in NOT_YET:
        assert time.monotonic() < deadline, "no coordinator"
        threading.Event().wait(0.1)
    made[0].ask("vote", NAMES)
    while made[0].answer().error in NOT_YET:
        assert time.monotonic() < deadline, "the coordinator does not load its groups"
        threading.Event().wait(0.1)
        made[0].ask("vote", NAMES)
    yield made
    for each in made:
        each.close()


def join(group: str, members: list[tuple[Voter, list[str]]], newcomer: Voter, names: list[str]) -> Joined:
    """What the newcomer is answered; the members there join again until it is, as a rebalance wants them to."""
    lists = {id(voter): offered for voter, offered in members}
    newcomer.member_id = ""
    newcomer.ask(group, names)
    asked, answer = {newcomer}, None
    while answer is None or asked:
        if answer is None:
            # One that was answered already had asked before the broker heard of the newcomer.
            for voter, _ in members:
                if voter not in asked:
                    voter.ask(group, lists[id(voter)])
                    asked.add(voter)
        ready, _, _ = select.select([*asked], [], [], DEADLINE_S)
        assert ready, "the broker answers nobody"
        for voter in ready:
            asked.remove(voter)
            told = voter.answer()
            if voter is newcomer:
                answer = told
            else:
                assert told.error == 0
    return answer


def predicted(lists: dict[str, list[str]]) -> str | None:
    try:
        return elect(lists).winner
    except ElectionError:
        return None


@pytest.mark.broker
@pytest.mark.source("apache/kafka 4.3.0 ClassicGroup.selectProtocol")
def test_random_lists_are_counted_as_the_broker_counts_them(voters: list[Voter]) -> None:
    """Members come one by one; each that finds a common name changes the vote, each other one is refused."""
    rng, elected, refused = random.Random(41), 0, 0
    for number in range(GROUPS):
        present: list[tuple[Voter, list[str]]] = []
        some = rng.sample(NAMES, rng.randrange(1, 6))
        for voter in voters:
            # Mostly the same names in another order, so that votes are split and tied; sometimes others.
            names = rng.sample(some, len(some)) if rng.random() < 0.7 else rng.sample(NAMES, rng.randrange(1, 6))

            answer = join(f"vote-{voters[0].port}-{number}", present, voter, names)

            lists = {each.member_id: offered for each, offered in present} | {answer.member_id: names}
            if answer.error == 0:
                assert answer.protocol == predicted(lists), lists
                voter.member_id = answer.member_id
                present.append((voter, names))
                elected += len(lists) > 1
            else:
                assert answer.error == INCONSISTENT_GROUP_PROTOCOL
                assert predicted(lists) is None, lists
                refused += 1
    assert elected >= 200
    assert refused >= 50
