"""What the early heartbeats of cooperative members cost their coordinator (`kafka_assignors.guard`)."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
from kafka import KafkaAdminClient
from kafka.admin import MemberToRemove

from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.topics import create_topics

from .result import Result, WrongAnswer

OURS, WITHOUT, THEIRS = "ours", "without early heartbeats", "kafka-python"
_BROKER = {"group.initial.rebalance.delay.ms": "3000", "broker.session.timeout.ms": "60000"}
"""The broker's default, which the harness shortens; and a long session of the only node, for a busy machine."""
_PER_PROCESS, _PER_MEMBER = 25, 2
_STABLE_S, _RESTED_S = 240, 7
"""Deadline for a stable group, and how long it must have been stable: two heartbeats."""
_JOIN_S, _SETTLED_S, _IDLE_S = 40, 10, 30
"""A join is counted for so long from the start of the new member, and until the group has been at rest for a while; a
group at rest is counted for so long, after a while."""
_FIRST_S = 5.5
"""The first heartbeats of a generation, from its SyncGroup: an ordinary one comes after 3 s, the next one after 6 s."""
_PEAK_S = 0.1
_BURST, _QUICK_BURST = 10_000, 2000
_BURSTS = 3
_PAPER, _MOST_MORE = 1000, 20
"""Members on paper, and the most early heartbeats of one in a join: 10 more than the ordinary one, in 2 generations."""


@dataclass(frozen=True)
class _Shape:
    """A group that one more member joins.

    Args:
        members: Before the join.
        turns: Joins of each kind.
        theirs: Whether kafka-python's members with its own assignor are counted, too.
        idle: Whether the group at rest is counted.
        settings: Of its consumers, where they are not their client's default.
    """

    members: int
    turns: int
    theirs: bool
    idle: bool
    settings: Mapping[str, Any]


_SHAPES = (
    # Fetches of 100 consumers without records, two a second from each, would take more of the machine than it has.
    _Shape(100, 2, False, False, {"fetch_max_wait_ms": 5000}),
    _Shape(3, 1, True, True, {}),
)


@dataclass
class _Run:
    """One group of one kind, into which one more member came.

    Args:
        join, idle: Requests by kind, of all members, and `cpu_s` of the broker, in either part.
        first: Generation -> for each member its heartbeats within `_FIRST_S` of its SyncGroup.
        first_s: The longest time from the first of them to the last one.
        peak: Most heartbeats within `_PEAK_S`, of all members.
        generations, seconds: Of the join.
    """

    join: dict[str, float]
    idle: dict[str, float] | None
    first: dict[int, list[int]]
    first_s: float
    peak: int
    generations: int
    seconds: float
    load: float


def run(quick: bool) -> Iterator[Result]:
    """``MEMBERS/join/…``, ``MEMBERS/generation/…``, ``MEMBERS/idle/…``: heartbeats with the guard and without.

    A member joins 3 or 100 others. ``heartbeat/cpu``: what one costs the broker.
    """
    shapes = _SHAPES[1:] if quick else _SHAPES
    more: list[float] = []
    with start_broker("jvm", settings=_BROKER) as broker:
        for shape in shapes:
            topic = f"beats-{shape.members}"
            create_topics(broker.bootstrap, {topic: _PER_MEMBER * shape.members})
            runs: dict[str, list[_Run]] = defaultdict(list)
            with _Group(broker, topic, shape, theirs=False) as group:
                for turn in range(shape.turns):
                    for kind in (OURS, WITHOUT) if turn % 2 == 0 else (WITHOUT, OURS):
                        runs[kind].append(group.joined(kind))
            if shape.theirs:
                with _Group(broker, topic, shape, theirs=True) as group:
                    runs[THEIRS] = [group.joined(THEIRS) for _ in range(shape.turns)]
            yield from _results(shape.members + 1, runs)
            ours, without = (statistics.median(map(_beats, runs[kind])) for kind in (OURS, WITHOUT))
            more.append((ours - without) / (shape.members + 1))
        yield from _one(broker, _QUICK_BURST if quick else _BURST, more[0])


class _Process:
    """Members in a process of their own."""

    def __init__(self, count: int, **given: Any) -> None:
        command = [sys.executable, "-m", "benchmarks.beats_members", json.dumps({"count": count, **given})]
        place = Path(__file__).parents[1]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=place)

    def tell(self, command: str) -> None:
        assert self._child.stdin is not None
        print(command, file=self._child.stdin, flush=True)

    def answer(self) -> Any:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise WrongAnswer("a process of members ended")
        return json.loads(line)

    def kill(self) -> None:
        self._child.kill()
        self._child.communicate()


def _ask(processes: Iterable[_Process], command: str) -> list[Any]:
    """The answers of all processes, one after the other: a list for each member."""
    asked = list(processes)
    for process in asked:
        process.tell(command)
    return [member for process in asked for member in process.answer()]


class _Group:
    """A running group, which one more member joins and leaves again and again. A context manager."""

    def __init__(self, broker: Broker, topic: str, shape: _Shape, theirs: bool) -> None:
        self._broker, self._partitions, self._idle = broker, _PER_MEMBER * shape.members, shape.idle
        self._group = f"{topic}-{uuid4().hex[:8]}"
        self._given = {
            "bootstrap": broker.bootstrap, "group": self._group, "topic": topic, "theirs": theirs,
            "settings": shape.settings,
        }  # fmt: skip
        self._counts = [min(_PER_PROCESS, shape.members - n) for n in range(0, shape.members, _PER_PROCESS)]
        self._processes: list[_Process] = []

    def __enter__(self) -> _Group:
        self._processes = [_Process(count, **self._given) for count in self._counts]
        try:
            _ask(self._processes, "start")
            self._stable()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        ids = [state["member_id"] for state in _ask(self._processes, "state")]
        for process in self._processes:
            process.kill()
        self._remove(ids)

    def ask(self, command: str) -> list[Any]:
        """Of all members."""
        return _ask(self._processes, command)

    def joined(self, kind: str) -> _Run:
        """Let one more member join, count, and end it."""
        new = _Process(1, **self._given)
        try:
            self._processes.append(new)
            _ask(self._processes, f"early {int(kind == OURS)}")
            before, load = self._stable(self._processes[:-1]), round(os.getloadavg()[0], 2)
            used, begun = _cpu_s(self._broker), time.monotonic()
            _ask([new], "start")
            time.sleep(_JOIN_S - _RESTED_S)
            after = self._stable()
            ended, cpu_s = time.monotonic(), _cpu_s(self._broker) - used
            requests = _ask(self._processes, f"read {begun} {ended}")
            rest = _idle(self._broker, self._processes) if self._idle else None
            ids = [state["member_id"] for state in _ask([new], "state")]
        finally:
            self._processes.remove(new)
            new.kill()
        self._remove(ids)
        first, first_s = _first(requests)
        beats = sorted(at for member in requests for at, name, _ in member if name == "Heartbeat")
        run = _Run(_counted(requests, cpu_s), rest, first, first_s, _peak(beats), after - before, ended - begun, load)
        print(f"{self._group} {kind}, load {load}: {run.join}", file=sys.stderr)
        return run

    def _remove(self, ids: Sequence[str]) -> None:
        with closing(KafkaAdminClient(bootstrap_servers=self._broker.bootstrap)) as admin:
            admin.remove_group_members(self._group, [MemberToRemove(member_id=member_id) for member_id in ids])

    def _stable(self, processes: Sequence[_Process] | None = None, rested_s: float = _RESTED_S) -> int:
        """Wait until all members have been in one generation, with all partitions, for `rested_s`; returns it."""
        deadline, since, last = time.monotonic() + _STABLE_S, time.monotonic(), None
        while True:
            states = _ask(self._processes if processes is None else processes, "state")
            if errors := [state["error"] for state in states if state["error"]]:
                raise WrongAnswer(f"a member ended: {errors[0]}")
            generations, owned = {state["generation"] for state in states}, sum(state["owned"] for state in states)
            now = generations.pop() if len(generations) == 1 and owned == self._partitions else None
            if now is None or now != last:
                since, last = time.monotonic(), now
            if now is not None and time.monotonic() - since >= rested_s:
                return int(now)
            if time.monotonic() > deadline:
                raise WrongAnswer(f"the group was not stable within {_STABLE_S} s: {states}")
            time.sleep(0.5)


def _idle(broker: Broker, processes: Sequence[_Process]) -> dict[str, float]:
    time.sleep(_SETTLED_S)
    used, begun = _cpu_s(broker), time.monotonic()
    time.sleep(_IDLE_S)
    idle_s = _cpu_s(broker) - used
    return _counted(_ask(processes, f"read {begun} {begun + _IDLE_S}"), idle_s)


def _cpu_s(broker: Broker) -> float:
    return float(sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in broker.pids()))


def _counted(requests: Sequence[Sequence[Any]], cpu_s: float) -> dict[str, float]:
    counts = Counter(name for member in requests for _, name, _ in member)
    return {**dict(sorted(counts.items())), "all": counts.total(), "cpu_s": round(cpu_s, 2)}


def _first(requests: Sequence[Sequence[Any]]) -> tuple[dict[int, list[int]], float]:
    counts: dict[int, list[int]] = defaultdict(list)
    longest_s = 0.0
    for member in requests:
        synced = {generation: at for at, name, generation in member if name == "SyncGroup"}
        for generation, from_s in synced.items():
            beats = [
                at for at, name, of in member if name == "Heartbeat" and of == generation and at < from_s + _FIRST_S
            ]
            counts[generation].append(len(beats))
            longest_s = max(longest_s, beats[-1] - beats[0] if beats else 0.0)
    return dict(sorted(counts.items())), round(longest_s, 3)


def _peak(beats: Sequence[float]) -> int:
    return max((bisect_left(beats, at + _PEAK_S) - n for n, at in enumerate(beats)), default=0)


def _results(members: int, runs: Mapping[str, Sequence[_Run]]) -> Iterator[Result]:
    load = {kind: [sample.load for sample in of] for kind, of in runs.items()}

    def rows(what: str, unit: str, value: Callable[[_Run], float | None], note: str = "") -> Iterator[Result]:
        values = {kind: [one for sample in of if (one := value(sample)) is not None] for kind, of in runs.items()}
        raw = {"values": values, "load": load}
        for peer in runs:
            if peer != OURS and values[peer]:
                ours, theirs = statistics.median(values[OURS]), statistics.median(values[peer])
                yield Result(f"{members}/{what}/{peer}", ours, unit, peer, theirs, note, raw)

    rounds = ", ".join(
        f"{kind} {[(round(sample.seconds), sample.generations) for sample in of]}" for kind, of in runs.items()
    )
    yield from rows("join/heartbeats", "requests", _beats, f"seconds, generations: {rounds}")
    yield from rows("join/requests", "requests", lambda sample: sample.join["all"], "of all kinds")
    yield from rows("join/broker-cpu", "s", lambda sample: sample.join["cpu_s"])
    yield from rows("join/peak", f"heartbeats in {_PEAK_S * 1000:.0f} ms", lambda sample: sample.peak)
    most = {kind: max(max(map(max, sample.first.values())) for sample in of) for kind, of in runs.items()}
    means = [[round(statistics.mean(counts), 1) for counts in one.first.values()] for one in runs[OURS]]
    longest = max(sample.first_s for sample in runs[OURS])
    yield from rows(
        "generation/heartbeats",
        "requests per member",
        lambda sample: statistics.mean(count for of in sample.first.values() for count in of),
        f"in the first {_FIRST_S} s of a generation; most of one member: {most}; ours by generation: {means}, "
        f"within {longest} s",
    )
    for name in ("Heartbeat", "all"):
        per = partial(_rest, name=name, members=members)
        yield from rows(f"idle/{name.lower()}", f"requests per member in {_IDLE_S} s", per)
    raw = {kind: [asdict(sample) for sample in of] for kind, of in runs.items()}
    yield Result(f"{members}/counts", None, "requests", note="by kind, in the raw results", raw=raw)


def _beats(sample: _Run) -> float:
    return sample.join.get("Heartbeat", 0.0)


def _rest(sample: _Run, name: str, members: int) -> float | None:
    return None if sample.idle is None else sample.idle.get(name, 0.0) / members


def _one(broker: Broker, count: int, more: float) -> Iterator[Result]:
    """CPU of the broker for one heartbeat: many sent one after the other, less what it takes while nothing is sent.

    Args:
        broker: The broker, warm.
        count: How many.
        more: Early heartbeats per member in a join.
    """
    topic = "beats-one"
    create_topics(broker.bootstrap, {topic: _PER_MEMBER})
    values = []
    with _Group(broker, topic, _Shape(1, 0, False, False, {}), theirs=False) as group:
        for _ in range(_BURSTS):
            used, begun = _cpu_s(broker), time.monotonic()
            time.sleep(_SETTLED_S)
            rest = (_cpu_s(broker) - used) / (time.monotonic() - begun)
            used = _cpu_s(broker)
            (seconds,) = group.ask(f"burst {count}")
            values.append({"cpu_s": _cpu_s(broker) - used, "seconds": seconds, "rest": rest})
    each_us = [1e6 * (one["cpu_s"] - one["rest"] * one["seconds"]) / count for one in values]
    us = statistics.median(each_us)
    raw: dict[str, Any] = {"us": each_us, "values": values, "count": count, "load": os.getloadavg()[0]}
    yield Result("heartbeat/broker-cpu", us, "us", raw=raw)
    cpu_s = _PAPER * us / 1e6
    note = (
        f"not measured: {_PAPER} members x {more:.1f} more heartbeats in a join x {us:.0f} us; at most "
        f"{_PAPER} x {_MOST_MORE} x {us:.0f} us = {cpu_s * _MOST_MORE:.1f} s"
    )
    yield Result(f"{_PAPER}/paper/broker-cpu", cpu_s * more, "s", note=note)
