"""What `plan` says of a live group, then the same change for real, then the coordinator's log.

The leader is a real client in a process of its own; it assigns. The other members are light ones in this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import random
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.coordinator_log import GroupCommitted, assigned
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.topics import Topics
from kafka_assignors.operator.cli.app import main
from tests.support.waiting import until

from .light import LightMember

LEADER = "lead"
FRESH = {"metadata_max_age_ms": 1000}
"""The leader sees a topic grow within a second."""
FEWEST, MOST = 2, 7
_LIMIT_S = 90

Owners = dict[str, list[list[Any]]]
"""Member's name -> its [topic, partition] pairs, sorted."""


@dataclass(frozen=True)
class Prediction:
    """A plan, and what the group did.

    Args:
        change: ``join``, ``leave`` or ``growth``.
        options: Those of `plan` that name the change.
        planned, did: Who owns what.
    """

    client: str
    assignor: str
    change: str
    options: tuple[str, ...]
    planned: Owners
    did: Owners

    @property
    def true(self) -> bool:
        """Whether the group did what was planned."""
        return self.planned == self.did


@dataclass
class Predicted:
    """A group whose leader is a real client; its changes are planned, then made.

    Args:
        bootstrap: A broker, which is the coordinator.
        members: The group, without members.
        client: The leader's client, as `MemberGroup.start` takes it.
        assignor: As `plan` takes it: a name, maybe with options.
        topics: Topic -> partition count; all exist.
        seed: Draws the changes.
    """

    bootstrap: str
    members: MemberGroup
    client: str
    assignor: str
    topics: dict[str, int]
    seed: int
    light: dict[str, LightMember] = field(default_factory=dict)

    def __enter__(self) -> Predicted:
        self._random = random.Random(self.seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._topics = Topics(self.bootstrap)
        try:
            self.members.start(LEADER, list(self.topics), [self._name], client=self.client, **FRESH)
            self._rest()  # the first member leads for as long as it lives
            for _ in range(FEWEST):
                self._join(self._fresh())
            self._rest()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.light.values():
            self._do(member.kill())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._topics.close()

    @property
    def _name(self) -> str:
        return self.assignor.partition(":")[0]

    def predictions(self, count: int) -> Iterator[Prediction]:
        """Draw, plan and make this many changes."""
        for n in range(count):
            change = ("join", "leave", "growth")[n % 3]
            if (change == "join" and len(self.light) >= MOST) or (change == "leave" and len(self.light) <= FEWEST):
                change = "leave" if len(self.light) >= MOST else "join"
            yield self._predict(change)

    def _predict(self, change: str) -> Prediction:
        if change == "join":
            name = self._fresh()
            options = ("--add", name)
        elif change == "leave":
            name = self._random.choice(sorted(self.light))
            options = ("--remove", name)
        else:
            topic = self._random.choice(sorted(self.topics))
            count = self.topics[topic] + self._random.randint(1, 3)
            options = ("--add-partitions", f"{topic}:{count}")
        planned = self._planned(options)
        if change == "join":
            self._join(name)
        elif change == "leave":
            self._do(self.light.pop(name).leave())
        else:
            self._topics.grow(topic, count)
            self.topics[topic] = count
        return Prediction(self.members.group, self.assignor, change, options, planned, self._rest())

    def _planned(self, options: tuple[str, ...]) -> Owners:
        output = io.StringIO()
        command = ["plan", self.members.group, "-b", self.bootstrap, "-A", self.assignor, "--json", *options]
        with contextlib.redirect_stdout(output):
            code = main(command)
        assert code == 0, (command, output.getvalue())
        answer = json.loads(output.getvalue())
        [one] = answer["plans"]
        called = {member["member_id"]: member["name"] for member in answer["members"]}
        plan = one["plan"]
        target: Mapping[str, Mapping[str, list[int]]] = plan["target"] or plan["assignment"]
        return {
            called.get(m, m): sorted([t, p] for t, ids in given.items() for p in ids) for m, given in target.items()
        }

    def _rest(self) -> Owners:
        """Who owns what by the coordinator's log, once all members are in and all partitions are owned."""
        wanted = {LEADER, *self.light}
        parts = {TopicPartition(topic, p) for topic, count in self.topics.items() for p in range(count)}
        generations: list[GroupCommitted] = []

        def rests() -> bool:
            for name, member in self.light.items():
                assert member.failure() is None, (name, member.failure())
            last = self.members._log.generation
            if last is None or {m.client_id for m in last.members} != wanted:
                return False
            owned = [tp for member in last.members for tp in assigned(member)]
            if len(owned) != len(parts) or set(owned) != parts:
                return False
            generations[:] = [last]
            return all(member.stable and member.generation == last.generation for member in self.light.values())

        until(rests, f"{self.members.group} rests with {sorted(wanted)}", _LIMIT_S)
        return {m.client_id: sorted([*tp] for tp in assigned(m)) for m in generations[0].members}

    def _fresh(self) -> str:
        """A client id that sorts anywhere among the others."""
        while (name := self._random.choice("abkmxz") + str(self._random.randint(0, 99))) in self.light:
            pass
        return name

    def _join(self, name: str) -> None:
        host, _, port = self.bootstrap.rpartition(":")
        address = (host, int(port))
        member = LightMember(address, self.members.group, name, list(self.topics), self._name, lambda: self.topics)
        self.light[name] = member
        self._loop.call_soon_threadsafe(member.start)
        until(lambda: member._task is not None, f"{name} starts", _LIMIT_S)

    def _do(self, work: Any) -> None:
        done: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        done.result(_LIMIT_S)
