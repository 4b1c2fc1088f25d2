"""Tells a group's history as a lawful run would leave it, for the checker's tests to damage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from typing_extensions import Self

from kafka_assignors.core import strategies
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.reading import replay
from kafka_assignors.core.wire.protocol import AssignedPartitions, Subscription, encode_assignment, encode_subscription
from kafka_assignors.history.events import Event, partitions_json
from kafka_assignors.integration import recording
from kafka_assignors.integration.history import History

MS = 1_000_000
SESSION_MS, HEARTBEAT_MS, POLL_MS = 1000, 100, 3000
Tps = Iterable[tuple[str, int]]
COOPERATIVE = ("cooperative-sticky", "cooperative-copartitioned", "weighted", "lag")
"""Protocols whose members of a story rebalance incrementally."""


def seal(path: Path) -> None:
    """End a history's file as its writer would, so that what was changed in it is taken for what happened."""
    lines = path.read_bytes().splitlines(keepends=True)
    if json.loads(lines[-1])["kind"] == "end":
        lines.pop()
    last = json.loads(lines[-1])
    end = {name: last[name] for name in ("v", "run", "src", "group", "member", "incarnation") if name in last}
    end |= {"kind": "end", "seq": last["seq"] + 1, "ts_ns": last["ts_ns"], "mono_ns": last["mono_ns"]}
    end["sha256"] = hashlib.sha256(b"".join(lines)).hexdigest()
    path.write_bytes(b"".join(lines) + json.dumps(end).encode() + b"\n")
    recording.seal(path.parent, end["run"])


class Chronicle:
    """A group's events one millisecond apart."""

    client: str | None = None
    """Of the members, as their events have it."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.events: list[Event] = []
        self._now, self._seqs = 0, dict[tuple[str, str | None], int]()

    @property
    def history(self) -> History:
        return History(self.events)

    def tell(self, kind: str, src: str = "harness", member: str | None = None, **data: Any) -> Event:
        self._now += MS
        seq = self._seqs.get((src, member), 0)
        self._seqs[src, member] = seq + 1
        group = None if src == "producer" or kind == "read_back" else self.group
        instance_id, incarnation = self._instance(member)
        member_id, client = None, None
        if src != "member":
            instance_id = None
        elif member is not None:
            member_id, client = self._id(member), self.client
        at = self._now
        event = Event(
            kind, "run", src, seq, at, at, group, member, incarnation, 1, member_id, instance_id, client, data=data
        )
        self.events.append(event)
        return event

    def wait(self, ms: float) -> Self:
        """Let time pass."""
        self._now += round(ms * MS)
        return self

    def _id(self, name: str) -> str:
        """The member id of a member."""
        return f"id-{name}"

    def _instance(self, member: str | None) -> tuple[str | None, int]:
        """Its instance id and incarnation."""
        return None, 0


class Story(Chronicle):
    """Events one millisecond apart. `round` is a whole rebalance, computed by the product's own strategy."""

    def __init__(self, protocol: str = "range", topics: Mapping[str, int] | None = None, group: str = "g") -> None:
        super().__init__(group)
        self.protocol, self.topics = protocol, dict(topics or {"t": 4, "u": 3})
        self.held: dict[str, set[TopicPartition]] = {}
        self.generation = 0
        self._claims: dict[str, tuple[set[TopicPartition], int]] = {}
        self._offsets: dict[tuple[str, int], int] = {}
        self._committed: dict[tuple[str, int], int] = {}
        self._position: dict[tuple[str, tuple[str, int]], int] = {}  # member, topic-partition -> next offset
        self._zombies: dict[str, set[TopicPartition]] = {}
        self._instances: dict[str, tuple[str, int]] = {}  # static member -> instance id, incarnation
        self._ids = 0
        self._joined_again: dict[str, int] = {}
        self._adopted: dict[str, int] = {}  # member -> the generation that it is in

    @property
    def adopted_ns(self) -> int:
        """When a member last adopted a generation, or its callback ended, as the harness tells it at rest."""
        return adopted_ns(self.events)

    def write(self, folder: Path) -> Path:
        """Keep the history in files as a run does, one for each source; returns the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        files: dict[tuple[str | None, ...], list[Event]] = {}
        for event in self.events:
            files.setdefault((event.member, event.src), []).append(event)
        for names, events in files.items():
            path = folder / f"{'.'.join(filter(None, (self.group, *names)))}.jsonl"
            lines = [event.to_json() + "\n" for event in sorted(events, key=lambda e: e.seq)]
            path.write_text("".join(lines), "utf-8")
            seal(path)
        return folder

    def start(self, *members: str, assignors: Sequence[str] | None = None, static: bool = False) -> Story:
        names = list(assignors or [self.protocol])
        config = {
            "assignors": names,
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "max_poll_interval_ms": POLL_MS,
        }
        for name in members:
            if static:
                self._instances[name] = f"{name}-instance", self._instances.get(name, ("", -1))[1] + 1
            self.tell("start", "member", name, assignors=names, topics=[*self.topics], config=config)
            self.held.setdefault(name, set())
        return self

    def restart(self, name: str, *, after_ms: float = 100) -> Story:
        """A static member dies and is back under the same generation, with what it had."""
        self.tell("fault_begin", member=name, fault="kill", target=name)
        self.tell("exit", member=name, code=-9, signal="SIGKILL")
        return self.wait(after_ms).take_over(name)

    def take_over(self, name: str) -> Story:
        """Another process comes under a static member's instance id, and gets what that had."""
        self.start(name, static=True)
        last = next(e for e in reversed(self.events) if e.kind == "generation_committed")
        # Its new subscription: it claims nothing yet.
        anew = {
            "member_id": self._id(name),
            "subscription": encode_subscription(Subscription(tuple(self.topics))).hex(),
        }
        rows = [{**row, **anew} if row["client_id"] == name else row for row in last.data["members"]]
        leads = {} if last.data["leader"] in {row["member_id"] for row in rows} else {"leader": self._id(name)}
        self.tell("generation_committed", "coordlog", **{**last.data, **leads, "members": rows})
        self._adopt(name, self.held[name])
        self._assigned(name, self.held[name])
        return self

    def stop(self, name: str) -> Story:
        self._callback(name, "revoke", self.held.pop(name))
        self.tell("stop", "member", name)
        self.tell("exit", member=name, code=0)
        return self

    def kill(self, name: str) -> Story:
        self.tell("fault_begin", member=name, fault="kill", target=name)
        self.tell("exit", member=name, code=-9, signal="SIGKILL")
        self.tell("fault_end", member=name, fault="kill", target=name)
        del self.held[name]
        return self.wait(SESSION_MS)

    def pause(self, name: str, fault: str = "pause", for_ms: float = SESSION_MS) -> Story:
        """A member stands still beyond its session, and owns what it had: it can't know better."""
        self.tell("fault_begin", member=name, fault=fault, target=name)
        self._zombies[name] = self.held.pop(name)
        return self.wait(for_ms)

    def resume(self, name: str, *, fault: str = "pause", notice_ms: float = 10) -> Story:
        """It goes on, is told what it lost, and joins again."""
        self.tell("fault_end", member=name, fault=fault, target=name)
        self.wait(notice_ms)._callback(name, "lost", self._zombies.pop(name))
        self.held[name] = set()
        self._claims.pop(name, None)
        if name not in self._instances:  # whoever lost its partitions is a new member
            self._joined_again[name] = self._joined_again.get(name, 0) + 1
        return self

    def round(self, stable: bool = True) -> Story:
        """One rebalance of the members that run; cooperative groups take as many rounds as they need."""
        cooperative = self.protocol in COOPERATIVE
        members = sorted(self.held)
        if not cooperative:
            for name in members:  # before it joins, so still in the generation before
                self._callback(name, "revoke", self.held[name])
        self.generation += 1
        before = {name: set(self.held[name]) for name in members}
        if not cooperative:
            self.held = {name: set() for name in members}
        assigned = self._commit(members)
        again = False
        for name in members:
            now = assigned[name]
            self._adopt(name, now)
            gone = before[name] - now if cooperative else set()
            if gone:
                self._callback(name, "revoke", gone)
                again = True
            added = now - before[name] if cooperative else now
            if added or not cooperative:
                self._assigned(name, added)
            self.held[name] = now
            self._claims[name] = now, self.generation
        if again:
            return self.round(stable)
        if stable:
            rest = {"generation": self.generation, "topics": self.topics, "adopted_ns": self.adopted_ns}
            self.tell("step", name="stable", **rest)
        return self

    def records(self, count: int, partitioner: str = "default") -> Story:
        """Acknowledged records, spread over all partitions."""
        tps = [(t, p) for t, n in self.topics.items() for p in range(n)]
        for i in range(count):
            topic, partition = tps[i % len(tps)]
            offset = self._offsets.get((topic, partition), 0)
            self._offsets[topic, partition] = offset + 1
            self.tell("ack", "producer", partitioner=partitioner, topic=topic, partition=partition, offset=offset,
                      value_id=f"p-{self._ids}", predicted=partition, key_hash=f"key-of-{partition}")  # fmt: skip
            self._ids += 1
        return self

    def read_back(self) -> Story:
        for ack in [e for e in self.events if e.kind == "ack"]:
            names = ("topic", "partition", "offset", "value_id", "partitioner")
            self.tell("read_back", **{k: ack.data[k] for k in names})
        self.tell("step", name="read_back", offsets=self._ends())
        return self

    def consume(self, *names: str, commit: bool = True) -> Story:
        """Members consume what is new in what they own, and commit it; all that run unless named."""
        for name in names or sorted(self.held):
            starts = {tp: self._position[name, tp] for tp in sorted(self.held[name])}
            rows = [
                {"topic": tp.topic, "partition": tp.partition, "first": first, "last": end - 1, "count": end - first,
                 "bytes": end - first}
                for tp, first in starts.items()
                if (end := self._offsets.get(tp, 0)) > first
            ]  # fmt: skip
            if not rows:
                continue
            self.tell("consume", "member", name, offsets=rows)
            ends = [{"topic": r["topic"], "partition": r["partition"], "offset": r["last"] + 1} for r in rows]
            self._position.update({(name, TopicPartition(e["topic"], e["partition"])): e["offset"] for e in ends})
            if commit:
                self.tell("commit_begin", "member", name, offsets=ends)
                for end in ends:
                    self.tell("offset_committed", "coordlog", **end)
                    self._committed[end["topic"], end["partition"]] = end["offset"]
                self.tell("commit_ok", "member", name, offsets=ends)
        return self

    def drain(self) -> Story:
        """Every member consumes what is left of what it owns."""
        self.consume()
        self.tell("step", name="drained", offsets=self._ends())
        return self

    def change(self, kind: str, alter: Callable[[dict[str, Any]], None], nth: int = -1, **match: Any) -> Story:
        """Damage the data of one event: the nth of a kind, among those whose data or fields match.

        What a committed generation gives is told twice, decoded and as bytes; both are damaged alike.
        """
        index = self._find(kind, match)[nth]
        data = dict(self.events[index].data)
        alter(data)
        if kind == "generation_committed":
            data["members"] = [{**row, "assignment": _encoded(row["assigned"])} for row in data["members"]]
        self.events[index] = replace(self.events[index], data=data)
        return self

    def drop(self, kind: str, nth: int = -1, **match: Any) -> Story:
        """Take one event away; the file it would be in stays gapless, as if it never happened."""
        del self.events[self._find(kind, match)[nth]]
        return self

    def shift(self, kind: str, by_ms: float, nth: int = -1, **match: Any) -> Story:
        """Move one event in time."""
        index = self._find(kind, match)[nth]
        event = self.events[index]
        by_ns = round(by_ms * MS)
        self.events[index] = replace(event, mono_ns=event.mono_ns + by_ns, ts_ns=event.ts_ns + by_ns)
        return self

    def _find(self, kind: str, match: Mapping[str, Any]) -> list[int]:
        indexes = [
            i
            for i, e in enumerate(self.events)
            if e.kind == kind and all(getattr(e, k, None) == v or e.data.get(k) == v for k, v in match.items())
        ]
        assert indexes, f"no {kind} with {match} in this story"
        return indexes

    def _commit(self, members: Sequence[str]) -> dict[str, set[TopicPartition]]:
        bytes_of = {name: self._subscription(name) for name in members}
        leader = members[0]
        view = {"generation": self.generation, "protocol": self.protocol}
        self.tell("assign_begin", "member", leader, members=[self._id(m) for m in members],
                  topics=self.topics, racks={}, **view)  # fmt: skip
        self.tell("assign_end", "member", leader, duration_us=100, **view)
        answer = replay(self.protocol, [(self._id(m), self._instance(m)[0], bytes_of[m]) for m in members], self.topics)
        assigned = {
            m: {TopicPartition(t, p) for t, ps in answer[self._id(m)].items() for p in ps} for m in members
        }  # fmt: skip
        rows = [
            {
                "member_id": self._id(m),
                **({"instance_id": self._instances[m][0]} if m in self._instances else {}),
                "client_id": m,
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": POLL_MS,
                "subscription": bytes_of[m].hex(),
                "assignment": encode_assignment(AssignedPartitions(answer[self._id(m)])).hex(),
                "assigned": partitions_json(assigned[m]),
                "owned": [],
            }
            for m in members
        ]
        self.tell("generation_committed", "coordlog", leader=self._id(leader), ts_ms=0, members=rows, **view)
        return assigned

    def _subscription(self, name: str) -> bytes:
        owned, generation = self._claims.get(name, (set(), -1))
        claiming = strategies.strategy(self.protocol).claiming
        if self.protocol in COOPERATIVE:
            owned = tuple(sorted(self.held[name]))
            user_data = claiming(owned, generation)  # None under ``cooperative-sticky``: the subscription says it
            return encode_subscription(Subscription(tuple(self.topics), user_data, owned, generation))
        data = claiming(tuple(sorted(owned)), generation)
        return encode_subscription(Subscription(tuple(self.topics), data))

    def _instance(self, member: str | None) -> tuple[str | None, int]:
        return self._instances.get(member or "", (None, 0))

    def _id(self, name: str) -> str:
        incarnation = self._instances.get(name, ("", 0))[1]
        return f"{name}-id{incarnation or ''}{'-' * self._joined_again.get(name, 0)}"

    def _adopt(self, name: str, now: Tps) -> None:
        self._adopted[name] = self.generation
        self.tell("generation", "member", name, generation=self.generation, protocol=self.protocol,
                  partitions=partitions_json(now))  # fmt: skip

    def _assigned(self, name: str, added: Iterable[TopicPartition]) -> None:
        added = list(added)
        self._callback(name, "assigned", added)
        self._position.update({(name, tp): self._committed.get(tp, 0) for tp in added})

    def _callback(self, name: str, kind: str, partitions: Tps) -> None:
        generation = self.generation if kind == "assigned" else self._adopted.get(name, -1)
        for edge in ("begin", "end"):
            self.tell(f"{kind}_{edge}", "member", name, generation=generation, partitions=partitions_json(partitions))

    def _ends(self) -> list[dict[str, Any]]:
        return [
            {"topic": t, "partition": p, "offset": self._offsets.get((t, p), 0)}
            for t, n in self.topics.items()
            for p in range(n)
        ]


def adopted_ns(events: Sequence[Event]) -> int:
    """When a member last adopted a generation, or its callback ended."""
    return max((e.mono_ns for e in events if e.kind in ("generation", "assigned_end")), default=events[-1].mono_ns)


def _encoded(assigned: Iterable[Mapping[str, Any]]) -> str:
    by_topic: dict[str, list[int]] = {}
    for row in assigned:
        by_topic.setdefault(row["topic"], []).append(row["partition"])
    return encode_assignment(AssignedPartitions(by_topic)).hex()


def churn(protocol: str = "range") -> Story:
    """Three members join, a fourth joins, one leaves, one is killed; records all the while, some read twice."""
    story = Story(protocol)
    story.tell("step", name="three join", gap_ms=2000)
    story.start("a", "b", "c").round().records(30).consume()
    story.wait(300).tell("step", name="a fourth joins", gap_ms=2000)
    story.start("d").round().records(20).consume(commit=False)
    story.wait(300).tell("step", name="b leaves", gap_ms=2000)
    story.stop("b").round().consume()
    story.wait(300).tell("step", name="c is killed", gap_ms=2000)
    story.kill("c").round().records(35)
    return story.drain().read_back()


def given_up(protocol: str = "range") -> Story:
    """A run whose harness waited in vain for everything that it can wait for, and then ended its members."""
    story = Story(protocol).start("a", "b").round().records(7)
    story.tell("topics", topics=story.topics)
    due = ["nobody owns t[0]"]
    story.tell("not_stable", waited_s=40, members=["a", "b"], due=due, generation=1, topics=story.topics)
    story.tell("not_drained", waited_s=40, left=[{"topic": "t", "partition": 0, "offset": 1, "end": 3}])
    story.tell("not_over", waited_s=15.5, awaited="member 'a' stands still")
    story.tell("closing")
    return story.stop("a").stop("b")
