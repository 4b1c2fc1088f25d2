"""Small regular groups without NumPy: the same assignment, bit by bit, as `Strategy.assign_bytes` gives.

In a group of a few hundred partitions, NumPy spends its time in calls, not in loops, and importing it takes longer than
the whole rebalance. So the usual small group takes the same steps over lists. `assigned` declines every other group:
the strategies decide alone what irregular claims, racks, options and unequal subscriptions mean.
`tests/core/test_small.py` compares both on drawn groups.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from zlib import crc32

from .group.dealing import dealt
from .group.order import lasting_order, static_order, utf16
from .group.values import NO_GENERATION, Partitions
from .wire import userdata
from .wire.protocol import VERSION, Subscription, encode_partitions

Joined = tuple[str, str | None, Subscription]
Dealt = list[list[tuple[int, int, bytes]]]
"""Per member: topics, ascending; the number of partitions, and their ascending ids, encoded."""

_HEAD = struct.Struct(">hi").pack
PARTITIONS = 4_096
"""Most partitions of a group under range and roundrobin."""
STICKY_PARTITIONS = 600
"""Most partitions of a group under the sticky names: with more, arrays are faster."""


def assigned(name: str, members: Sequence[Joined], partitions: Mapping[str, int]) -> dict[str, bytes] | None:
    """The assignment of a small regular group under one of `userdata.JAVAS`: every member's, encoded.

    None if the group is large, or if any of this holds: a member has a rack, sends options or unreadable data, or is
    Sarama's under ``sticky``; a topic is missing or empty; two members claim one partition, or a claim names a
    partition that does not exist or is not subscribed to; under the sticky names, subscriptions differ.

    The leader's options must be the defaults. Cost: O(M log M + P); under the sticky names also a hash per partition
    and member that may exchange it.
    """
    subscriptions = [subscription for _, _, subscription in members]
    sticky = name not in ("range", "roundrobin")
    most = STICKY_PARTITIONS if sticky else PARTITIONS
    if subscriptions and sum(partitions.get(topic, 0) for topic in subscriptions[0].topics) > most:
        return None
    if any(subscription.rack or subscription.unread for subscription in subscriptions):
        return None
    if name == "sticky" and any(subscription.version <= userdata.ECHOING for subscription in subscriptions):
        return None
    distinct = dict.fromkeys(subscription.topics for subscription in subscriptions)
    topics = sorted(set().union(*distinct), key=utf16)
    counts = [partitions.get(topic, 0) for topic in topics]
    if not counts or min(counts) <= 0 or sum(counts) > most:
        return None
    if sticky:
        names, order = lasting_order([(member_id, instance_id) for member_id, instance_id, _ in members])
        number = {topic: t for t, topic in enumerate(topics)}
        if len({frozenset(topic_tuple) for topic_tuple in distinct}) > 1:
            return None
        holder = _holders(name, [subscriptions[m] for m in order], number, counts)
        if holder is None:
            return None
        owner = _Optimum(topics, counts, [names[m] for m in order], holder).owners()
        if name == "cooperative-sticky":
            owner = [new if old in (new, -1) else -1 for new, old in zip(owner, holder, strict=True)]
        dealt = _by_member(owner, counts, len(order))
    else:
        order = static_order([(member_id, instance_id) for member_id, instance_id, _ in members])
        reads = {topic_tuple: frozenset(topic_tuple) for topic_tuple in distinct}
        readers = [reads[subscriptions[m].topics] for m in order]
        deal = _ranges if name == "range" else _turns
        dealt = deal(topics, counts, readers)
    heads = [encode_partitions({topic: ()})[4:-4] for topic in topics]
    written = {}
    for m, runs in zip(order, dealt, strict=True):
        parts = [_HEAD(VERSION, len(runs))]
        for t, count, ids in runs:
            parts += heads[t], count.to_bytes(4, "big"), ids
        written[members[m][0]] = b"".join([*parts, b"\xff\xff\xff\xff"])
    return {member_id: written[member_id] for member_id, _, _ in members} if len(written) == len(members) else None


def _ranges(topics: Sequence[str], counts: Sequence[int], readers: Sequence[frozenset[str]]) -> Dealt:
    """`stateless.range` without racks. `readers`: the members' topics, in order."""
    dealt: Dealt = [[] for _ in readers]
    ids = struct.pack(f">{max(counts)}i", *range(max(counts)))
    for t, taking in enumerate(_takers(topics, readers)):
        share, longer = divmod(counts[t], len(taking))
        start = 0
        for i, m in enumerate(taking):
            end = start + share + (i < longer)
            if end > start:
                dealt[m].append((t, end - start, ids[4 * start : 4 * end]))
            start = end
    return dealt


def _turns(topics: Sequence[str], counts: Sequence[int], readers: Sequence[frozenset[str]]) -> Dealt:
    """`stateless.roundrobin`. `readers`: the members' topics, in order."""
    dealt: Dealt = [[] for _ in readers]
    turn = 0
    for t, taking in enumerate(_takers(topics, readers)):
        count, takers = counts[t], len(taking)
        start = next((i for i, m in enumerate(taking) if m >= turn), 0)
        for i in range(min(count, takers)):
            ids = range(i, count, takers)
            dealt[taking[(start + i) % takers]].append((t, len(ids), struct.pack(f">{len(ids)}i", *ids)))
        turn = taking[(start + count - 1) % takers] + 1
    return dealt


def _takers(topics: Sequence[str], readers: Sequence[frozenset[str]]) -> Iterable[Sequence[int]]:
    if len({id(subscription) for subscription in readers}) == 1:
        return [range(len(readers))] * len(topics)
    return [[m for m, subscription in enumerate(readers) if topic in subscription] for topic in topics]


def _holders(
    name: str, subscriptions: Sequence[Subscription], number: Mapping[str, int], counts: Sequence[int]
) -> list[int] | None:
    """The owner of each position, -1 if it has none; None if a claim is not regular, or if options were sent."""
    first = [0]
    for count in counts:
        first.append(first[-1] + count)
    holder = [-1] * first[-1]
    for m, subscription in enumerate(subscriptions):
        data = subscription.user_data
        if userdata.options(name, data):
            return None
        if name == "cooperative-sticky":
            claim = userdata.Claim(subscription.owned)
            if subscription.generation <= NO_GENERATION:
                claim = claim._replace(garbage=userdata.decode_cooperative(data).garbage)
        else:
            claim = userdata.decode_sticky(data)
        if claim.garbage:
            return None
        owned = Partitions.of(claim.owned)
        ids = iter(owned.ids.tolist())
        for topic, count in zip(owned.topics, owned.counts, strict=True):
            t = number.get(topic, -1)
            if t < 0:
                return None
            for partition in islice(ids, count):
                if not 0 <= partition < counts[t] or holder[first[t] + partition] >= 0:
                    return None
                holder[first[t] + partition] = m
    return holder


def _by_member(owner: Sequence[int], counts: Sequence[int], members: int) -> Dealt:
    dealt: Dealt = [[] for _ in range(members)]
    ids = [partition.to_bytes(4, "big") for partition in range(max(counts))]
    begin = 0
    for t, count in enumerate(counts):
        got: dict[int, list[bytes]] = {}
        for m, partition in zip(owner[begin : begin + count], ids, strict=False):
            if m in got:
                got[m].append(partition)
            elif m >= 0:
                got[m] = [partition]
        for m, encoded_ids in got.items():
            dealt[m].append((t, len(encoded_ids), b"".join(encoded_ids)))
        begin += count
    return dealt


_64 = (1 << 64) - 1


def _mixed(x: int) -> int:
    """Spread every bit over all bits: `rendezvous._mixed` of one int."""
    x = x + 0x9E3779B97F4A7C15 & _64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _64
    return x ^ x >> 31


def _number(mixed: int) -> float:
    """Map to a float from 0 to 1: `rendezvous._number` of one int."""
    return (mixed >> 11) * 2.0**-53


def _hash(name: str) -> int:
    return crc32(name.encode("utf-8", "surrogatepass"))


class _Optimum:
    """The steps of `sticky.owners` for equal subscriptions without racks: there is one class, so loads are even.

    Args:
        topics: In Java's string order.
        counts: Their partition counts, none 0.
        names: The members' lasting names, in order.
        holder: The owner of each position, -1 if it has none.
    """

    def __init__(self, topics: Sequence[str], counts: Sequence[int], names: Sequence[str], holder: list[int]) -> None:
        self.counts, self.members = counts, len(names)
        self.owner = holder.copy()
        self.topic = [t for t, count in enumerate(counts) for _ in range(count)]
        self._first = [0]
        for count in counts:
            self._first.append(self._first[-1] + count)
        self._topic_keys = [_mixed(_hash(topic)) for topic in topics]
        seen = Counter[str]()
        self._member_keys = []
        for name in names:
            self._member_keys.append(_mixed(_hash(name) + (seen[name] << 32) & _64))
            seen[name] += 1

    def _key(self, position: int) -> int:
        t = self.topic[position]
        return _mixed(self._topic_keys[t] + position - self._first[t] & _64)

    def _gain(self, run: Sequence[int], names: Sequence[int], mine: int) -> dict[int, float]:
        """`spread._gain` of positions of one topic; `_mixed` is written out, because this is the hottest loop."""
        gain = {}
        t = self.topic[run[0]]
        base = self._topic_keys[t] - self._first[t] + 0x9E3779B97F4A7C15
        for position in run:
            x = base + position & _64
            x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _64
            x = (x ^ x >> 27) * 0x94D049BB133111EB & _64
            key = x ^ x >> 31
            mixed = []
            for name in (mine, *names):
                x = (key ^ name) + 0x9E3779B97F4A7C15 & _64
                x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _64
                x = (x ^ x >> 27) * 0x94D049BB133111EB & _64
                mixed.append((x ^ x >> 31) >> 11)
            own = mixed[0]
            best = mixed[1] if len(mixed) == 2 else max(mixed[1:])
            gain[position] = best * 2.0**-53 - own * 2.0**-53
        return gain

    def _affinity(self, key: int, member: int) -> float:
        return _number(_mixed(key ^ self._member_keys[member]))

    def owners(self) -> list[int]:
        have = [0] * self.members
        for m in self.owner:
            if m >= 0:
                have[m] += 1
        low, extras = divmod(len(self.owner), self.members)
        more = sorted(range(self.members), key=lambda m: have[m] <= low)[:extras]  # as `flow._first`
        load = [low] * self.members
        for m in more:
            load[m] += 1
        takers = [m for m in range(self.members) if load[m] > have[m]]
        if any(map(int.__gt__, have, load)):
            self._give_up(have, load, takers)
        loose = [position for position, m in enumerate(self.owner) if m < 0]
        if not loose:
            return self.owner
        runs: dict[int, list[int]] = {}
        for position in loose:
            runs.setdefault(self.topic[position], []).append(position)
        units = [load[m] - have[m] for m in takers]
        whole = all(len(run) == self.counts[t] for t, run in runs.items())
        if whole and len(takers) > 1 and max(units) - min(units) <= 1:
            self._deal_topics(runs, takers, units)
        else:
            self._deal(runs, takers, units)
        for run in runs.values():
            self._exchange(run)
        return self.owner

    def _give_up(self, have: Sequence[int], load: Sequence[int], takers: Sequence[int]) -> None:
        """Free the partitions that members give up (`spread._give_up`)."""
        givers: dict[int, dict[int, list[int]]] = {m: {} for m in range(self.members) if have[m] > load[m]}
        several = len(self.counts) > 1
        # Partitions of each topic that the receivers have or are about to get.
        taking = {*takers, -1}
        theirs = [0] * len(self.counts)
        for position, m in enumerate(self.owner):
            t = self.topic[position]
            if m in givers:
                if t in givers[m]:
                    givers[m][t].append(position)
                else:
                    givers[m][t] = [position]
            elif m in taking:
                theirs[t] += 1
        names = [self._member_keys[taker] for taker in takers]
        freed: list[int] = []
        for m, runs in givers.items():
            leaving = have[m] - load[m]
            if several and leaving == 1:  # the usual case: only the widest topics can give
                widest = max(len(takers) * (len(run) - 1) - theirs[t] for t, run in runs.items())
                runs = {t: r for t, r in runs.items() if len(takers) * (len(r) - 1) - theirs[t] == widest}
            wide = []
            for t, run in runs.items():
                gain = self._gain(run, names, self._member_keys[m])
                run.sort(key=gain.__getitem__)
                for before, position in enumerate(run):
                    after = len(run) - before - 1
                    wide.append(((before * len(takers) - after + gain[position] / 4) - theirs[t], position, t))
            if several:
                wide.sort(key=lambda entry: -entry[0])
            for _, position, t in wide[:leaving] if several else wide[-leaving:]:
                freed.append(position)
                theirs[t] += 1
        for position in freed:
            self.owner[position] = -1

    def _deal(self, runs: Mapping[int, Sequence[int]], takers: Sequence[int], room: list[int]) -> None:
        """Deal the loose partitions to members with room (`spread._deal`)."""
        turn = 0
        for t, run in runs.items():
            having = Counter(self.owner[self._first[t] : self._first[t + 1]])
            receivers = dealt(len(run), [having[m] for m in takers], room, turn)
            turn = receivers[-1] + 1
            for position, i in zip(run, receivers, strict=True):
                self.owner[position] = takers[i]

    def _deal_topics(self, runs: Mapping[int, Sequence[int]], takers: Sequence[int], units: Sequence[int]) -> None:
        """Deal topics that no member has (`spread._deal`)."""
        if len(runs) == 1:
            (run,) = runs.values()
            laps = sorted((lap, m) for m, count in zip(takers, units, strict=True) for lap in range(count))
            for position, (_, m) in zip(run, laps, strict=True):
                self.owner[position] = m
            return
        share, more = zip(*(divmod(len(run), len(takers)) for run in runs.values()), strict=True)
        keys = [self._key(run[0]) for run in runs.values()]
        liking = [[self._affinity(key, m) for m in takers] for key in keys]
        asked = _shares(liking, more, [count - sum(share) for count in units])
        for t, run in enumerate(runs.values()):
            owners = [m for i, m in enumerate(takers) for _ in range(share[t] + (i in asked[t]))]
            for position, m in zip(run, owners, strict=True):
                self.owner[position] = m

    def _exchange(self, run: Sequence[int]) -> None:
        """Exchange within a run: each position proposes to the members, the best first (`rendezvous.matched`)."""
        room = Counter(self.owner[position] for position in run)
        if len(room) < 2:
            return
        likes: dict[int, list[tuple[int, int]]] = {}  # position -> rising (dislike, member)
        for position in run:
            key = self._key(position)
            # To 44 bits, as there.
            likes[position] = sorted((int((1 - self._affinity(key, m)) * 2.0**44 - 1), m) for m in sorted(room))
            likes[position].reverse()
        kept: dict[int, list[tuple[int, int]]] = {m: [] for m in room}  # rising (dislike, position)
        asking = list(run)
        while asking:
            position = asking.pop()
            dislike, m = likes[position].pop()
            kept[m].append((dislike, position))
            if len(kept[m]) > room[m]:
                kept[m].sort()
                asking.append(kept[m].pop()[1])
        for m, mine in kept.items():
            for _, position in mine:
                self.owner[position] = m


def _shares(liking: Sequence[Sequence[float]], more: Sequence[int], room: Sequence[int]) -> list[set[int]]:
    """`rendezvous.shares` over lists: per topic, the members that have one more of it.

    Args:
        liking: Affinity of each topic with each member.
        more: How many members have one more of each topic.
        room: Of how many topics each member has one more.
    """
    members = range(len(room))
    open_ = [sorted(members, key=lambda m: -row[m]) for row in liking]
    while True:
        asked = [set(row[:count]) for row, count in zip(open_, more, strict=True)]
        asking = {m: [t for t, takers in enumerate(asked) if m in takers] for m in members}
        crowded = [m for m in members if len(asking[m]) > room[m]]
        if not crowded:
            break
        for m in crowded:
            for t in sorted(asking[m], key=lambda t: -liking[t][m])[room[m] :]:
                open_[t].remove(m)
    for t, takers in enumerate(asked):
        while len(takers) < more[t]:
            # Any member with room has one of t already; swap as there.
            m = next(m for m in members if sum(m in other for other in asked) < room[m])
            swaps = [
                (liking[o][m] + liking[t][full] - liking[o][full], -o, -full)
                for o, other in enumerate(asked)
                if m not in other
                for full in sorted(other - takers)
            ]
            _, o, full = max(swaps)
            asked[-o].remove(-full)
            asked[-o].add(m)
            takers.add(-full)
    return asked
