"""Drawn groups of real members, their planned changes, and what they then did.

Members of a classic group are processes with our assignors: goals, tables, weights and capacities are those that they
send. Members of a KIP-848 group are librdkafka's, with lists of topics and patterns.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer

from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.topics import Topics
from kafka_assignors.operator.cli.app import main
from kafka_assignors.operator.live.cluster import LiveCluster
from tests.support.waiting import until

Owned = dict[str, dict[str, list[int]]]
"""Member's name -> topic -> ascending partition ids."""
LEADER = "lead"
CHANGES = ("leave", "growth", "join")
_LIMIT_S = 90
_WEIGHTS = [40, 7, 7, 3, 2, 1, 0, 12]


@dataclass(frozen=True)
class Prediction:
    """A plan, and what the group did; `outcomes` are several if a new member's id decides."""

    group: str
    options: tuple[str, ...]
    outcomes: Sequence[Owned]
    did: Owned

    @property
    def true(self) -> bool:
        """Whether the group did what was planned."""
        return self.did in self.outcomes


def planned(bootstrap: str, group: str, options: Sequence[str]) -> tuple[Sequence[Owned], dict[str, Any]]:
    """What the first plan of the command says that members will own, and the plan's JSON."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = main(["plan", group, "-b", bootstrap, "--json", *options])
    assert code == 0, (group, options, output.getvalue())
    answer = json.loads(output.getvalue())
    one = answer["plans"][0]
    called = {member["member_id"]: member["name"] for member in answer["members"]}
    outcomes = [one["plan"]["target"] or one["plan"]["assignment"], *one.get("forecast", {}).get("others", [])]
    return [_called(outcome, called) for outcome in outcomes], one


def _called(owned: Mapping[str, Mapping[str, Sequence[int]]], called: Mapping[str, str]) -> Owned:
    return {
        called.get(m, m): {topic: sorted(ids) for topic, ids in sorted(topics.items()) if ids}
        for m, topics in owned.items()
    }


@dataclass
class Classic:
    """A classic group.

    Args:
        members: The group, without members.
        assignor: The members' assignor as the harness names it: a name, maybe with options.
        topics: Topic -> partition count; all exist.
        seed: Draws the changes.
        other: What one of the members has instead, as a member with another capacity.
        static: Whether members have instance ids.
    """

    members: MemberGroup
    assignor: str
    topics: dict[str, int]
    seed: int
    other: str | None = None
    static: bool = True
    _topics: Topics = field(init=False)

    def __enter__(self) -> Classic:
        self._random = random.Random(self.seed)
        self._topics = Topics(self.members.bootstrap)
        self._start(LEADER, self.assignor)
        self.members.wait_stable(timeout_s=_LIMIT_S)  # the first member leads for as long as it lives
        self._start("m1", self.other or self.assignor)
        self._start("m2", self.assignor)
        self._start("m3", self.assignor)
        self._rest()
        return self

    def __exit__(self, *_: object) -> None:
        self._topics.close()

    def predictions(self, changes: Sequence[str] = CHANGES) -> Iterator[Prediction]:
        """Plan and make these changes."""
        for n, change in enumerate(changes):
            name = (
                f"n{n}" if change == "join" else self._random.choice(sorted({*self.members.running} - {LEADER, "m1"}))
            )
            topic = self._random.choice(sorted(self.topics))
            options: tuple[str, ...] = ("--add", name) if change == "join" else ("--remove", name)
            if change == "growth":
                count = self.topics[topic] + self._random.randint(1, 3)
                options = ("--add-partitions", f"{topic}:{count}")
            outcomes, _ = planned(self.members.bootstrap, self.members.group, options)
            if change == "join":
                self._start(name, self.assignor)
            elif change == "leave":
                self.members.stop(name)
            else:
                self._topics.grow(topic, count)
                self.topics[topic] = count
            yield Prediction(f"{self.members.group} {self.assignor}", options, outcomes, self._rest())

    def _start(self, name: str, assignor: str) -> None:
        instance = name if self.static else None
        fresh = {"metadata_max_age_ms": 1000}  # the leader sees a topic grow within a second
        self.members.start(name, list(self.topics), [assignor], instance_id=instance, **fresh)

    def _rest(self) -> Owned:
        return _called(self.members.wait_stable(timeout_s=_LIMIT_S).owned, {})


Asked = Sequence[str]
"""What a member of librdkafka subscribes to: names of topics, and patterns, which begin with ^."""


@dataclass
class ByBroker:
    """A KIP-848 group.

    Args:
        bootstrap: A broker.
        group: Its id.
        topics: Topic -> partition count; all exist.
        usual: What most of its members subscribe to.
        others: What one more member each subscribes to.
        assignor: The broker's that members ask for; None: they don't.
        seed: Draws the changes.
    """

    bootstrap: str
    group: str
    topics: dict[str, int]
    usual: Asked
    others: Sequence[Asked]
    assignor: str | None
    seed: int

    def __enter__(self) -> ByBroker:
        self._random = random.Random(self.seed)
        self._topics, self._cluster = Topics(self.bootstrap), LiveCluster(self.bootstrap)
        self._consumers: dict[str, Consumer] = {}
        try:
            for n, asked in enumerate([*[self.usual] * (len(self.others) + 1), *self.others]):
                self._join(f"m{n}", asked)
                self._rest()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in self._consumers.values():
            consumer.close()
        self._cluster.__exit__()
        self._topics.close()

    def predictions(self, changes: Sequence[str] = CHANGES) -> Iterator[Prediction]:
        """Plan and make these changes."""
        for n, change in enumerate(changes):
            name = f"n{n}" if change == "join" else self._random.choice(sorted(self._consumers))
            topic = self._random.choice(sorted(self.topics))
            options: tuple[str, ...] = ("--add", name) if change == "join" else ("--remove", name)
            if change == "growth":
                count = self.topics[topic] + self._random.randint(1, 3)
                options = ("--add-partitions", f"{topic}:{count}")
            outcomes, _ = planned(self.bootstrap, self.group, options)
            if change == "join":
                self._join(name, self.usual)
            elif change == "leave":
                self._consumers.pop(name).close()
            else:
                self._topics.grow(topic, count)
                self.topics[topic] = count
            yield Prediction(
                f"{self.group} {self.assignor} {self.usual} {self.others}", options, outcomes, self._rest()
            )

    def _join(self, name: str, asked: Asked) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "group.protocol": "consumer"}
        if self.assignor is not None:
            settings["group.remote.assignor"] = self.assignor
        self._consumers[name] = Consumer({**settings, "client.id": name})
        self._consumers[name].subscribe(list(asked))

    def _rest(self) -> Owned:
        """Who owns what once the group rests with all members and partitions, and members own what the broker says."""
        owners: list[Owned] = []

        def rests() -> bool:
            assignments: Owned = {}
            for name, consumer in self._consumers.items():
                consumer.poll(0.02)
                assignments[name] = {}
                for tp in consumer.assignment():
                    assignments[name].setdefault(tp.topic, []).append(tp.partition)
            live = self._cluster.broker_assigned(self.group, self._cluster.log(self.group))
            owned: Owned = {member.client_id: {} for member in live.members}
            for member in live.members:
                for tp in member.assigned:
                    owned[member.client_id].setdefault(tp.topic, []).append(tp.partition)
            owners[:] = [_called(owned, {})]
            total = sum(len(ids) for topics in owned.values() for ids in topics.values())
            # A pattern is resolved some time after its member joined; until then the member gets nothing by it.
            resolved = all(set(member.topics) == self.topics.keys() for member in live.members)
            complete = live.state == "Stable" and total == sum(self.topics.values())
            return resolved and complete and owners[0] == _called(assignments, {})

        until(rests, f"{self.group} rests with {sorted(self._consumers)}", _LIMIT_S)
        return owners[0]
