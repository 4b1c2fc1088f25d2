"""Plans of a live KIP-848 group: what its broker will assign after a change, and what it assigned. Pure.

Its ``uniform`` takes members in the order of a hash map of their ids, and ``range`` in the order of the ids; a member
that joins draws its id at random. So a forecast draws many ids, and says how often its assignment came out.
"""

from __future__ import annotations

import base64
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.broker.uniform import alike_subscribed
from ...core.broker_side import BROKER_SIDE, PROTOCOL, map_order
from ...core.group import Group
from ...core.strategies import strategy
from ...history.broker_group import TARGET_EPOCH, BrokerGroup, as_generation
from ...history.coordinator_log import BrokerAssigned
from ...history.generations import Logged
from ...history.stops import HandOver, HandOvers
from ..plans import Plan, plan
from .group import Change, LiveGroup, LiveTopics, as_group, from_broker_group

DRAWS = 64
"""How often the ids of joining members are drawn."""


@dataclass(frozen=True)
class Forecast:
    """What the broker assigns after a change.

    Args:
        plan: The plan whose assignment came out most often; its member ids are the members' names.
        cases: How often it came out.
        draws: How often ids were drawn; 1 if nobody joins, because then every id is known.
        others: The other assignments that came out, the likeliest first: member name -> topic -> partition ids.
    """

    plan: Plan
    cases: int
    draws: int
    others: tuple[Mapping[str, Mapping[str, Sequence[int]]], ...] = ()


def forecast(live: LiveGroup, topics: LiveTopics, change: Change, name: str, seed: int = 0) -> Forecast:
    """The broker's next assignment of a KIP-848 group at rest, by ``uniform`` or ``range``.

    Several members that join are assigned together, as the broker does if they join within its assignment interval.
    A member that joins within that interval of the last target (``group.consumer.assignment.interval.ms``) is in the
    coordinator's map when the next target is computed, otherwise it isn't yet; half of the draws are of each.

    The group's members are listed as they joined; `topics` are those that they subscribe to, with their ids.

    Raises:
        ConfigError: The change does not fit the group.
        UnknownName: The broker has no such assignor.

    Cost: that of `DRAWS` assignments and of one plan.
    """
    group = as_group(live, topics, change)
    ids = {called: member_id for member_id, called in live.names.items()}
    staying = {member.member_id for member in group.members} & ids.keys()
    joining = [member.member_id for member in group.members if member.member_id not in ids]
    options: dict[str, Any] = {"protocol": PROTOCOL}
    if topics.ids:
        options["topic_ids"] = {topic: topics.ids[topic] for topic in group.partitions if topic in topics.ids}
    if any(member.pattern for member in live.members):
        asked = [member.asked for member in live.members if live.names[member.member_id] in staying]
        asked += [live.usual.asked] * len(joining) if live.usual is not None else []
        options["alike"] = alike_subscribed(asked)
    draw = random.Random(seed)
    orders: dict[str, list[str]] = {}
    cases: Counter[str] = Counter()
    for i in range(DRAWS if joining else 1):
        new = joining if i % 2 == 0 else ()
        order = _order(group, {**ids, **{called: _member_id(draw) for called in joining}}, new, name)
        target = repr(sorted(strategy(name, **options, order=order).place(group).items()))
        cases[target] += 1
        orders.setdefault(target, order)
    plans = [plan(group, name, **options, order=orders[target]) for target, _ in cases.most_common()]
    return Forecast(
        plans[0], max(cases.values()), cases.total(), tuple(alternative.target for alternative in plans[1:])
    )


class Targets:
    """Turns the records of KIP-848 groups into generations: each target assignment of the broker is one.

    Args:
        topic_names: Returns topic id, as Kafka prints it -> name; asked again when records have another id. Partitions
            of topics without a known name are left out.
    """

    def __init__(self, topic_names: Callable[[], Mapping[str, str]]) -> None:
        self._ask = topic_names
        self._names: dict[str, str] = {}
        self._nameless: frozenset[str] = frozenset()
        self._groups: dict[str, BrokerGroup] = {}
        self._handed: dict[str, HandOvers] = {}

    def take(self, records: Iterable[Logged]) -> list[Logged]:
        """The next records, with a generation, numbered by the target's epoch, for each that completes a target."""
        entries = []
        for record in records:
            broker_record = record.value
            if not isinstance(broker_record, BrokerAssigned):
                entries.append(record)
                continue
            group = self._groups.setdefault(broker_record.group, BrokerGroup(broker_record.group))
            before = group.members.get(broker_record.member or "")
            group.take(broker_record)
            if broker_record.member is not None:
                handed = self._handed.setdefault(broker_record.group, HandOvers())
                handed.take(record.ts_ms, group.target_epoch, before, group.members.get(broker_record.member))
            if broker_record.record == TARGET_EPOCH and broker_record.fields is not None:
                entries.append(Logged(record.ts_ms, as_generation(group, self._names_of(group))))
        return entries

    def hand_overs(self, name: str) -> list[HandOver]:
        """A KIP-848 group's hand-overs in the records so far, in order."""
        return self._handed.get(name, HandOvers()).done

    def group(self, name: str) -> LiveGroup:
        """A KIP-848 group as the records so far left it."""
        group = self._groups.get(name) or BrokerGroup(name)
        return from_broker_group(group, self._names_of(group))

    def _names_of(self, group: BrokerGroup) -> Mapping[str, str]:
        ids = {tp.topic for m in group.members.values() for tp in (*(m.target or ()), *m.assigned, *m.revoking)}
        if ids - self._names.keys() - group.names.keys() - self._nameless:
            self._names |= self._ask()
            self._nameless = frozenset(ids - self._names.keys())
        return {**group.names, **self._names}


def _order(group: Group, ids: Mapping[str, str], new: Collection[str], name: str) -> list[str]:
    """Names of members in the broker's order, by their real ids; its map doesn't have the `new` ones yet."""
    called = {ids[member.member_id]: member.member_id for member in group.members}
    if name == "uniform":
        there = [ids[member.member_id] for member in group.members if member.member_id not in new]
        real = map_order(there, (ids[newcomer] for newcomer in new))
    else:
        members = [replace(member, member_id=ids[member.member_id]) for member in group.members]
        real = [member.member_id for member in BROKER_SIDE[name].usual(members)]
    return [called[member_id] for member_id in real]


def _member_id(draw: random.Random) -> str:
    """An id as KIP-848 members draw theirs: a UUID in URL-safe base64, which doesn't begin with a dash."""
    while (drawn := base64.urlsafe_b64encode(draw.randbytes(16)).rstrip(b"=").decode()).startswith("-"):
        pass
    return drawn
