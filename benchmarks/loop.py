"""The closed loop of placement by work on a real broker: a key range becomes slow, and the group evens out its work."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kafka_assignors.core.wire import weighted as carried
from kafka_assignors.core.wire.protocol import decode_subscription
from kafka_assignors.history.events import is_of
from kafka_assignors.history.events.bodies import ConsumeBody, GenerationCommittedBody
from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Record, send
from kafka_assignors.integration.topics import create_topics

from .result import Result, WrongAnswer

PARTITIONS = 60
"""20 for each of three members; with two members, too, more than the exact solver takes, whose time varies."""
MEMBERS = ("m1", "m2", "m3")
ASSIGNOR = 'weighted{"meter":"work","check_every_s":1,"rest_s":12}'
PER_S, SHARE, SLOW_S, FAST_S = 250, 0.8, 0.012, 0.0005
"""Records per second; the part of them that goes to the slow key range; seconds of work per record, slow and others."""
EVEN = 1.15
_SESSION_MS = 6000
_JUDGED_S = 8
"""Seconds over which records are counted once the work is even."""
_NS = 1_000_000_000


def run(quick: bool) -> Iterator[Result]:
    """Three members share 60 partitions. The 20 of one of them become slow and get most records; later the leader dies.

    ``throughput``: time per record of the whole group once the work is even, against the time before the first moves.
    ``evenness``: greatest work / mean, as planted. ``weights-lost``: partitions of unknown weight in the first
    generation after the leader was killed. ``laws-broken``: by the judge, who also replays every assignment (A1).
    """
    played = []
    with start_broker("jvm") as broker:
        for turn in range(1 if quick else 5):
            with tempfile.TemporaryDirectory() as name:
                topic = f"loop-{uuid.uuid4().hex[:8]}"
                create_topics(broker.bootstrap, {topic: PARTITIONS})
                group = MemberGroup(broker.bootstrap, f"g-{topic}", Path(name), "run", session_timeout_ms=_SESSION_MS)
                with group:
                    played.append(play(group, topic))
            print(f"{turn + 1}: {played[-1].text()}", file=sys.stderr)
    raw = {"runs": [asdict(course) for course in played], "assignor": ASSIGNOR}
    before, after = (statistics.median(1000 / getattr(course, of) for course in played) for of in ("before", "after"))
    requests = max(course.requests for course in played)
    most = max(course.generations for course in played)
    note = f"{1000 / before:.0f} -> {1000 / after:.0f} records/s; {len(played)} runs"
    yield Result("loop/throughput", after, "ms/record", "before the first moves", before, note, raw)
    note = f"at most {requests} requests of members, {most} generations, before the work was even"
    uneven, even = (max(getattr(course, of) for course in played) for of in ("uneven", "even"))
    yield Result("loop/evenness", even, "max/mean", "when the range became slow", uneven, note)
    lost = max(course.lost for course in played)
    yield Result(
        "loop/weights-lost", lost, "partitions", note=f"of {PARTITIONS}, after the leader was killed", none=True
    )
    broken = sum(bool(course.broken) for course in played)
    note = f"A1 judged {sum(course.replayed for course in played)} times; {played[0].laws}"
    yield Result("loop/laws-broken", broken, "runs", note=note, none=True)


@dataclass(frozen=True)
class Played:
    """One run.

    Args:
        before, after: Records that the group consumed per second before the first moves, and with even work.
        uneven, even: Greatest work / mean when the range became slow, and after the moves.
        requests: Rebalances that members requested until the work was even.
        generations: Committed generations in that time; a cooperative rebalance with moves has two.
        seconds: How long it took.
        lost: Partitions whose weight nobody told when the leader was gone.
        broken: Violations of laws, and reasons why a law could not be judged.
        replayed: How often A1 was judged.
        laws: The laws that were judged.
    """

    before: float
    after: float
    uneven: float
    even: float
    requests: int
    generations: int
    seconds: float
    lost: int
    broken: tuple[str, ...]
    replayed: int
    laws: str

    def text(self) -> str:
        """One line for people."""
        return (
            f"{self.before:.0f} -> {self.after:.0f} records/s, max/mean {self.uneven:.2f} -> {self.even:.2f} in "
            f"{self.seconds:.0f} s, {self.requests} requests, {self.generations} generations; weights lost: {self.lost}"
        )


def play(group: MemberGroup, topic: str) -> Played:
    """Play the whole course on an empty group; its folder has the history afterwards.

    Raises:
        WrongAnswer: The work did not become even within 90 s.
    """
    planted = Planted(group.folder, topic, PARTITIONS)
    group.step("members join")
    for member in MEMBERS:
        group.start(member, [topic], [ASSIGNOR], **planted.settings())
    first = group.wait_stable(timeout_s=60)
    loaded = next(m for m in sorted(first.owned) if m != first.leader)
    slow = first.owned[loaded][topic]
    planted.plant(slow, SLOW_S, FAST_S)
    with planted.sent(group.bootstrap, group.folder, PER_S, slow, SHARE):
        begun_ns = time.monotonic_ns()
        group.step("a key range is slow")
        uneven, even = unevenness(planted.work_of(first.owned)), _even(group, planted)
        even_ns = time.monotonic_ns()
        time.sleep(_JUDGED_S)
        even_end_ns = time.monotonic_ns()
        leader = group.wait_stable(timeout_s=60).leader
        group.step("the leader is killed")
        group.kill(leader)
        left = len(group.wait_stable(timeout_s=60).owned)
        group.step("it comes back")
        group.start(leader, [topic], [ASSIGNOR], **planted.settings())
        group.wait_stable(timeout_s=60)
        planted.plant([], 0.0, 0.0)
    group.drain(timeout_s=120)
    group.close()

    history = History.load(group.folder)
    generations = told(history, {topic: PARTITIONS})
    moved_ns = next(at_ns for at_ns, _ in generations if at_ns > begun_ns + 3 * _NS)
    killed_ns = next(e.mono_ns for e in history.events if e.kind == "fault_begin")
    user_data = next(user_data for at_ns, user_data in generations if at_ns > killed_ns and len(user_data) == left)
    verdict = check(history)
    return Played(
        consumed_per_s(history, begun_ns + _NS, moved_ns),
        consumed_per_s(history, even_ns, even_end_ns),
        uneven,
        even,
        sum(e.kind == "rebalance_request" and begun_ns < e.mono_ns <= even_ns for e in history.events),
        sum(begun_ns < at_ns <= even_ns for at_ns, _ in generations),
        (even_ns - begun_ns) / _NS,
        PARTITIONS - len(known(user_data, topic)),
        (*(violation.message for violation in verdict.violations), *verdict.unknown),
        verdict.checked["A1"],
        verdict.laws,
    )


def _even(group: MemberGroup, planted: Planted) -> float:
    """Wait until the group's work is even; returns its greatest work / mean."""
    deadline = time.monotonic() + 90
    while True:
        if (now := unevenness(planted.work_of(group.wait_stable(timeout_s=60).owned))) < EVEN:
            return now
        if time.monotonic() > deadline:
            raise WrongAnswer(f"greatest work / mean is still {now:.2f} after 90 s")
        time.sleep(0.2)


class Planted:
    """Work per record and records per second, by partition of one topic.

    Args:
        folder: Gets the file that members read (``app_work_file``).
        topic: The topic.
        partitions: Its partition count.
    """

    def __init__(self, folder: Path, topic: str, partitions: int) -> None:
        self.file, self.topic, self.partitions = folder / "work.json", topic, partitions
        self.seconds: dict[int, float] = {}
        self.rates: dict[int, float] = {}
        self.plant([], 0.0, 0.0)

    def plant(self, slow: Sequence[int], slow_s: float, others_s: float) -> None:
        """Let records of some partitions take so many seconds, and others' so many."""
        self.seconds = {p: slow_s if p in slow else others_s for p in range(self.partitions)}
        named = {f"{self.topic}-{p}": seconds for p, seconds in self.seconds.items()}
        whole = self.file.with_suffix(".new")
        whole.write_text(json.dumps(named), "utf-8")
        whole.replace(self.file)

    def settings(self) -> dict[str, Any]:
        """Consumer settings of the members: small batches, and little fetched ahead."""
        return {"app_work_file": str(self.file), "max_poll_records": 10, "max_partition_fetch_bytes": 2048}

    @contextmanager
    def sent(self, bootstrap: str, folder: Path, per_s: float, hot: Sequence[int], share: float) -> Iterator[None]:
        """Send records inside the block, this part of them to the hot partitions."""
        rest = [p for p in range(self.partitions) if p not in hot]
        self.rates = {p: per_s * (share / len(hot) if p in hot else (1 - share) / len(rest)) for p in [*hot, *rest]}
        stop = threading.Event()

        def records() -> Iterator[Record]:
            due, sent = time.monotonic(), Counter[int]()
            while not stop.wait(max(0.0, due - time.monotonic())):
                p = min(self.rates, key=lambda p: ((sent[p] + 1) / self.rates[p], p))
                sent[p] += 1
                yield Record(self.topic, b"key-%d" % p, p)
                due += 1 / per_s

        thread = threading.Thread(target=send, args=(bootstrap, folder, "run", "explicit", records()))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def work_of(self, owned: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, float]:
        """Member -> seconds of work per second, as planted."""
        return {
            member: sum(self.rates[p] * self.seconds[p] for p in topics.get(self.topic, ()))
            for member, topics in owned.items()
        }


def unevenness(works: Mapping[str, float]) -> float:
    """Greatest work / mean."""
    return max(works.values()) / (sum(works.values()) / len(works))


def consumed_per_s(history: History, begin_ns: int, end_ns: int) -> float:
    """Records that the group consumed per second."""
    consumed = (e for e in history.events if is_of(e, ConsumeBody) and begin_ns <= e.mono_ns < end_ns)
    return float(sum(row.count for e in consumed for row in e.body.offsets)) / ((end_ns - begin_ns) / _NS)


def told(history: History, partitions: Mapping[str, int]) -> list[tuple[int, dict[str, carried.ByWorkData]]]:
    """Of each committed generation, its time and what members told: client id -> user data."""
    generations = []
    for event in history.events:
        if is_of(event, GenerationCommittedBody):
            user_data = {}
            for member in event.body.members:
                sent = decode_subscription(bytes.fromhex(member.subscription))
                user_data[member.member_id] = carried.decode(sent.user_data, partitions)
            generations.append((event.mono_ns, user_data))
    return generations


def known(user_data: Mapping[str, carried.ByWorkData], topic: str) -> set[int]:
    """The partitions whose weight somebody told."""
    return {int(p) for work_data in user_data.values() for p in work_data.weights.get(topic, ((), ()))[0]}
