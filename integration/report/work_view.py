"""Work and partitions of each member over time, from a group's history. Pure; `work_svg` draws them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from kafka_assignors.core import strategies
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import decode_subscription
from kafka_assignors.history.events import Event, is_of
from kafka_assignors.history.events.bodies import ConsumeBody

from ..checker.ledger import Generation, GroupRecord, RunRecord
from ..history import History

WEIGHTED = "weighted"
_BUCKETS = 60  # at most, for consumed records
_LEAST_BUCKET_NS = 1_000_000_000
Values = Mapping[str, float]


class Stretch(NamedTuple):
    """A time span in which each member's value is constant, in seconds since the timeline's start."""

    start_s: float
    end_s: float
    of: Values  # member -> its partitions, its work


class WorkBalance(NamedTuple):
    """Greatest / mean value of all members, while the group is stable: 1 is even."""

    partitions: float
    work: float


@dataclass(frozen=True)
class WorkView:
    """Shares of one group's members."""

    members: tuple[str, ...]  # names, sorted: as in the `TimelineView`
    seconds: float
    unit: str  # what work is: weights that the members sent, or consumed records per second
    partitions: tuple[Stretch, ...]  # owned partitions, without gaps in time
    work: tuple[Stretch, ...]  # work of the owned partitions; with consumed records, one stretch per bucket
    generations: tuple[float, ...]  # when a generation began, in seconds
    before: WorkBalance | None  # in the first rest with several members and every partition owned; None: there is none
    after: WorkBalance | None  # in the last such rest


def work_views(history: History) -> dict[str, WorkView]:
    """Group -> work and partitions of its members, for every group whose members ever owned a partition.

    Work is the sum of the weights that members of the protocol ``weighted`` sent with their subscriptions. In other
    groups it is the number of records that each member consumed per second.

    Cost: O(n log n) for n events, and O(partitions) per change of an owner.
    """
    groups = RunRecord.of(history).groups
    return {group: _work_view(history, record) for group, record in groups.items() if record.spans}


def _work_view(history: History, record: GroupRecord) -> WorkView:
    events = [e for e in history.events if e.group == record.group]
    steps = [e.mono_ns for e in events if e.kind == "step"]
    begin = min([s.interval.start_ns for s in record.spans] + steps)
    end = max([s.interval.end_ns for s in record.spans] + steps)
    generations = [generation for generation in record.generations if generation.event.mono_ns <= end]
    weights = [
        (generation.event.mono_ns, topic_weights)
        for generation in generations
        if (topic_weights := _weights(record, generation))
    ]
    owned = list(_owned(record, [at for at, _ in weights], end))
    counts = [(from_ns, to_ns, {m: float(len(tps)) for m, tps in of.items()}) for from_ns, to_ns, of in owned]
    if weights:
        work = [(from_ns, to_ns, _work(of, _latest(weights, from_ns))) for from_ns, to_ns, of in owned]
    else:
        work = list(_consumed(events, begin, end))
    rests = [(rest, _members(generations, sum(rest) // 2)) for rest in _rests(owned)]

    def s(ns: int) -> float:
        return (ns - begin) / 1e9

    return WorkView(
        tuple(sorted({span.interval.member for span in record.spans})),
        s(end),
        "weights" if weights else "records/s",
        tuple(Stretch(s(from_ns), s(to_ns), of) for from_ns, to_ns, of in counts),
        tuple(Stretch(s(from_ns), s(to_ns), of) for from_ns, to_ns, of in work),
        tuple(max(0.0, s(generation.event.mono_ns)) for generation in generations),
        _balance(*rests[0], counts, work) if rests else None,
        _balance(*rests[-1], counts, work) if rests else None,
    )


Owned = dict[str, set[TopicPartition]]


def _owned(record: GroupRecord, others: Iterable[int], end: int) -> Iterator[tuple[int, int, Owned]]:
    """(from, to, member -> what it owns) between two changes of an owner, or of `others`."""
    changes: dict[int, list[tuple[str, TopicPartition, bool]]] = defaultdict(list)
    for span in record.spans:
        changes[span.interval.start_ns].append((span.interval.member, span.tp, True))
        changes[span.interval.end_ns].append((span.interval.member, span.tp, False))
    now: Owned = {}
    moments = sorted({*changes, *(at for at in others if at < end), end})
    for at, then in pairwise(moments):
        for member, tp, begins in sorted(changes.get(at, ()), key=lambda change: change[2]):
            (now.setdefault(member, set()).add if begins else now.setdefault(member, set()).discard)(tp)
        yield at, then, {member: set(tps) for member, tps in now.items() if tps}


Told = Mapping[str, tuple[Sequence["float | None"], float]]
"""topic -> the weight of each partition as members sent it, and the median for all others."""


def _weights(record: GroupRecord, generation: Generation) -> Told:
    """The weights that the members of a generation sent; empty if none did."""
    if generation.protocol != WEIGHTED:
        return {}
    try:
        sent = [
            (row.member_id, row.instance_id, decode_subscription(bytes.fromhex(row.subscription)))
            for row in generation.body.members
        ]
    except ValueError:  # a member's bytes are damaged, which law A1 tells
        return {}
    topics = {topic for _, _, subscription in sent for topic in subscription.topics}
    counts = {topic: record.count_of(topic, generation.event.mono_ns) for topic in topics}
    known_counts = {topic: count for topic, count in counts.items() if count is not None}
    agreed, _ = strategies.strategy(WEIGHTED).agreed(sent, known_counts)
    agreed_weights: Mapping[str, Sequence[float | None]] = agreed.options.get("weights") or {}
    sent_weights = {
        topic: [weight for weight in weights if weight is not None] for topic, weights in agreed_weights.items()
    }
    return {topic: (agreed_weights[topic], median(weights)) for topic, weights in sent_weights.items() if weights}


def _latest(weights: list[tuple[int, Told]], at_ns: int) -> Told:
    """The weights of the newest generation at a moment; the first ones before it."""
    return next((topic_weights for since, topic_weights in reversed(weights) if since <= at_ns), weights[0][1])


def _work(owned: Owned, weights: Told) -> Values:
    return {member: sum(_weight(tp, weights) for tp in tps) for member, tps in owned.items()}


def _weight(tp: TopicPartition, weights: Told) -> float:
    partition_weights, middle = weights.get(tp.topic, ((), 0.0))
    weight = partition_weights[tp.partition] if tp.partition < len(partition_weights) else None
    return middle if weight is None else weight


def _consumed(events: Iterable[Event], begin: int, end: int) -> Iterator[tuple[int, int, Values]]:
    """Records per second and member, in buckets."""
    bucket = max(_LEAST_BUCKET_NS, -(-(end - begin) // _BUCKETS))
    counts: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for event in events:
        if is_of(event, ConsumeBody) and event.member is not None and begin <= event.mono_ns <= end:
            counts[(event.mono_ns - begin) // bucket][event.member] += sum(run.count for run in event.body.offsets)
    for number, of in sorted(counts.items()):
        from_ns, to_ns = begin + number * bucket, min(begin + (number + 1) * bucket, end)
        seconds = max(to_ns - from_ns, 1) / 1e9
        yield from_ns, to_ns, {member: count / seconds for member, count in of.items()}


def _rests(owned: Sequence[tuple[int, int, Owned]]) -> list[tuple[int, int]]:
    """(from, to) of the long times without a change in which several members own all partitions known until then."""
    most = 0
    rests: list[tuple[int, int]] = []
    latest: Owned = {}
    for from_ns, to_ns, of in owned:
        count = sum(map(len, of.values()))
        most = max(most, count)
        if len(of) < 2 or count < most:
            continue
        if rests and rests[-1][1] == from_ns and latest == of:
            rests[-1] = rests[-1][0], to_ns
        else:
            rests.append((from_ns, to_ns))
        latest = of
    longest = max((to_ns - from_ns for from_ns, to_ns in rests), default=0)
    return [rest for rest in rests if rest[1] - rest[0] >= longest / 10]


def _members(generations: Sequence[Generation], at_ns: int) -> int:
    """How many members the group has at a moment."""
    return next((len(g.body.members) for g in reversed(generations) if g.event.mono_ns <= at_ns), 0)


Stretches = Sequence["tuple[int, int, Values]"]


def _balance(rest: tuple[int, int], members: int, counts: Stretches, work: Stretches) -> WorkBalance:
    return WorkBalance(_unevenness(rest, members, counts), _unevenness(rest, members, work))


def _unevenness(rest: tuple[int, int], members: int, stretches: Stretches) -> float:
    """max/mean of the members' values, averaged over the rest. A member that owns nothing counts in the mean."""
    total: dict[str, float] = defaultdict(float)
    for from_ns, to_ns, of in stretches:
        shared = min(to_ns, rest[1]) - max(from_ns, rest[0])
        if shared > 0:
            for member, value in of.items():
                total[member] += value * shared
    whole = sum(total.values())
    return max(total.values()) * max(len(total), members) / whole if whole else 1.0
