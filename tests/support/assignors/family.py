"""The rules of MetaQ and RocketMQ once more, one partition and member at a time, as their Java sources have them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from kafka_assignors.core.group import Group, Member

Lists = Callable[[str, Sequence[int], Sequence[str]], Mapping[str, Sequence[int]]]
"""(topic, its partitions, identities of its subscribers, sorted) -> identity -> partitions."""


def per_topic(group: Group, rule: Lists) -> dict[str, dict[str, list[int]]]:
    """An assignment, each topic by itself. Identities must differ."""
    named = {identity(member): member for member in group.members}
    assignment: dict[str, dict[str, list[int]]] = {member.member_id: {} for member in group.members}
    for topic, count in group.partitions.items():
        subscribers = sorted((name for name, m in named.items() if topic in m.topics), key=java_order)
        if subscribers and count > 0:
            for name, partitions in rule(topic, range(count), subscribers).items():
                if partitions:
                    assignment[named[name].member_id][topic] = sorted(partitions)
    return assignment


def identity(member: Member) -> str:
    return member.instance_id or member.member_id


def java_order(name: str) -> list[int]:
    units = name.encode("utf-16-be")
    return [units[i] * 256 + units[i + 1] for i in range(0, len(units), 2)]


def average(topic, partitions, subscribers):
    """RocketMQ's formula, client by client."""
    n, k = len(partitions), len(subscribers)
    shares = {}
    for i, name in enumerate(subscribers):
        mod = n % k
        size = 1 if n <= k else n // k + 1 if mod > 0 and i < mod else n // k
        start = i * size if mod > 0 and i < mod else i * size + mod
        shares[name] = [partitions[start + j] for j in range(min(size, n - start))]
    return shares


def circle(topic, partitions, subscribers):
    k = len(subscribers)
    return {name: [p for j, p in enumerate(partitions) if j % k == i] for i, name in enumerate(subscribers)}


def metaq(topic, partitions, subscribers):
    """Metamorphosis' formula on partitions that are strings."""
    names = sorted(f"0-{p}" for p in partitions)
    quotient, more = divmod(len(names), len(subscribers))
    shares = {}
    for i, name in enumerate(subscribers):
        start = quotient * i + min(i, more)
        parts = quotient + (0 if i + 1 > more else 1)
        shares[name] = [int(part.split("-")[1]) for part in names[start : start + parts]]
    return shares


def on_ring(points, at):
    """The owner of the first point from `at` on."""
    later = [point for point in points if point >= at]
    return points[min(later) if later else min(points)]


def md5_big_endian(key):
    return int.from_bytes(hashlib.md5(key.encode()).digest()[:4], "big")


def rocketmq_hash(virtual_nodes, broker):
    def rule(topic, partitions, subscribers):
        points = {}
        for name in subscribers:
            for j in range(virtual_nodes):
                points[md5_big_endian(f"{name}-{j}")] = name
        shares = {name: [] for name in subscribers}
        for p in partitions:
            key = f"MessageQueue [topic={topic}, brokerName={broker}, queueId={p}]"
            shares[on_ring(points, md5_big_endian(key))].append(p)
        return shares

    return rule


def metaq_hash(broker_id):
    def word(digest, h):
        return digest[3 + h * 4] << 24 | digest[2 + h * 4] << 16 | digest[1 + h * 4] << 8 | digest[h * 4]

    def rule(topic, partitions, subscribers):
        points = {}
        for name in subscribers:
            for i in range(40):
                digest = hashlib.md5(f"{name}-{i}".encode()).digest()
                for h in range(4):
                    points[word(digest, h)] = name
        shares = {name: [] for name in subscribers}
        for p in partitions:
            shares[on_ring(points, word(hashlib.md5(f"{broker_id}-{p}".encode()).digest(), 0))].append(p)
        return shares

    return rule


def nearby(group, inner):
    """RocketMQ's, with the two refusals made into sharing: see `rocketmq.machine_room_nearby`."""
    rack = {identity(member): member.rack for member in group.members}

    def rule(topic, partitions, subscribers):
        rooms: dict[str | None, list[int]] = {}
        racked = any(rack[name] for name in subscribers)
        for p in partitions:
            rooms.setdefault(group.leaders[topic][p] if racked else None, []).append(p)
        shares = {name: [] for name in subscribers}
        for room, those in rooms.items():
            here = [name for name in subscribers if room and rack[name] == room] or subscribers
            for name, given in inner(topic, those, here).items():
                shares[name] += given
        return shares

    return rule


def bounded(epsilon_cap, virtual_nodes):
    """Consistent hashing with a cap, partition by partition, round by round."""

    def place(keys, subscribers):
        points = {big(f"{name}-{j}"): name for name in subscribers for j in range(virtual_nodes)}
        cap = epsilon_cap(len(keys), len(subscribers))
        owner, waiting = {}, sorted(keys, key=big)
        load = dict.fromkeys(subscribers, 0)
        while waiting:
            open_ = {point: name for point, name in points.items() if load[name] < cap}
            refused = []
            for key in waiting:
                name = on_ring(open_, big(key))
                if load[name] < cap:
                    owner[key] = name
                    load[name] += 1
                else:
                    refused.append(key)
            waiting = refused
        return owner

    def big(key):
        return int.from_bytes(hashlib.md5(key.encode()).digest()[:8], "big")

    return place
