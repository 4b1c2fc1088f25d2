"""What the leader of a large group by work does: from the members' bytes to the bytes of their assignments."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.group.claims import Claims
from kafka_assignors.core.reading import decode
from kafka_assignors.core.strategies import strategy
from kafka_assignors.core.wire import balance, choice
from kafka_assignors.core.wire import weighted as carried
from kafka_assignors.core.wire.protocol import Subscription, decode_assignment, decode_subscription, encode_subscription

from .result import Result, WrongAnswer
from .weighted import restricted

Weights = dict[str, list[float]]


def run(quick: bool) -> Iterator[Result]:
    """``leader/1e5x200``, ``leader/1e6x2000``: the weights are known, and the subscriptions have the members' claims.

    Each topic is read by a quarter of the members, all partitions are owned, and all weights have drifted.
    ``leader/told-1e5x200``: each member sends the weights of its partitions, and the leader combines them.
    """
    yield _led("leader/1e5x200", 1000, 100, 200, rounds=2 if quick else 5)
    yield _led("leader/told-1e5x200", 1000, 100, 200, rounds=2 if quick else 5, with_weights=True)
    if not quick:
        yield _led("leader/1e6x2000", 1000, 1000, 2000, rounds=5)


def _led(name: str, topics: int, partitions: int, members: int, rounds: int, *, with_weights: bool = False) -> Result:
    group, claims, weights = restricted(topics, partitions, members, drift=True)
    sent = _sent(claims, weights if with_weights else {})
    counts = dict(group.partitions)
    made = strategy("weighted") if with_weights else strategy("weighted", weights=weights)
    made.load()
    spent: list[dict[str, float]] = []
    for _ in range(rounds):
        began = time.thread_time()
        joined = [(member, None, decode_subscription(data)) for member, data in sent]
        read = time.thread_time()
        agreed = made.agreed(joined, counts)[0] if with_weights else made
        decoded = decode("weighted", joined, counts)
        decode_end = time.thread_time()
        answer, _ = agreed.assign_bytes(decoded)
        ended = time.thread_time()
        spent.append(
            {"read": read - began, "heard": decode_end - read, "assigned": ended - decode_end, "all": ended - began}
        )
    stands = balance.decode(decode_assignment(bytes(answer[sent[0][0]])).user_data)
    given = sum(len(ids) for data in answer.values() for ids in decode_assignment(bytes(data)).partitions.values())
    if stands is None or stands.measured != topics * partitions or given + stands.withheld != topics * partitions:
        raise WrongAnswer(
            f"{name}: {given:,} of {topics * partitions:,} partitions are assigned; the leader tells {stands}"
        )
    gap = stands.greatest / stands.bound - 1
    note = (
        f"{topics * partitions:,} partitions, {members:,} members; {stands.withheld:,} moves, {gap:.2%} above the "
        f"bound; {len(spent)} rounds, {max(times['all'] for times in spent) * 1000:,.0f} ms at most"
    )
    raw: dict[str, Any] = {"cpu_s": spent, "gap": gap, "withheld": stands.withheld, "bytes": sum(map(_size, sent))}
    return Result(name, statistics.median(times["all"] for times in spent) * 1000, "ms CPU", note=note, raw=raw)


def _size(sent: tuple[str, bytes]) -> int:
    return len(sent[1])


def _sent(claims: Claims, weights: Weights) -> list[tuple[str, bytes]]:
    """Member id and subscription of each member, with the weights of its own partitions, if there are any."""
    owned: list[list[TopicPartition]] = [[] for _ in claims.indexed.members]
    names = claims.indexed.names(np.arange(claims.indexed.size))
    for tp, holder in zip(names, claims.holder.tolist(), strict=True):
        owned[holder].append(tp)
    sent = []
    for member, mine in zip(claims.indexed.members, owned, strict=True):
        own_weights: dict[str, Any] = {}
        for topic, partition in mine if weights else ():
            own_weights.setdefault(topic, np.full(len(weights[topic]), np.nan))[partition] = weights[topic][partition]
        sent_weights = choice.chosen(own_weights, mine, member.member_id)
        data, why = carried.encode_within((), -1, None, None, b"", carried.Own(), sent_weights)
        if why:
            raise WrongAnswer(why)
        subscription = Subscription(tuple(sorted(member.topics)), data, tuple(mine), 1)
        sent.append((member.member_id, encode_subscription(subscription)))
    return sent
