"""Plans of a live classic group: what its leader will assign, from what the members sent as they joined. Pure.

The leader reads its members' user data: options, weights, capacities, claims. A plan of the elected assignor goes the
same way: each member's last subscription, with what the member owns now, through `Strategy.agreed` and `decode`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...core.group import NO_GENERATION, Group
from ...core.group.facts import ordered
from ...core.group.options import tell
from ...core.reading import decode, decoded
from ...core.strategies import ByWork, strategy
from ...core.strategy import Decoded, Joined, Strategy
from ...core.wire import weighted as carried
from ...core.wire.protocol import Subscription
from ...output import many
from ..plans import Plan
from ..plans.plan import planned
from .group import Change, LiveGroup, LiveMember, LiveTopics, as_group

_LONG = 60
"""Characters of an option's value."""


@dataclass(frozen=True)
class Led:
    """What a leader will assign with.

    Args:
        strategy: The assignor, with the options in effect.
        decoded: The group as the leader will read it; its member ids are the coordinator's, and new members have names.
        notes: What was read, what is assumed of new members, and what isn't known; sentences with member ids.
        like: The member whose options and figures new members are planned with; None if what it sent isn't known.
    """

    strategy: Strategy
    decoded: Decoded
    notes: tuple[str, ...] = ()
    like: str | None = None

    @cached_property
    def plan(self) -> Plan:
        """The plan."""
        return planned(self.decoded, self.strategy)


def led(
    live: LiveGroup,
    topics: LiveTopics,
    change: Change | None = None,
    name: str = "",
    options: Mapping[str, Any] | None = None,
) -> Led:
    """What a classic group's next leader will assign with, after `change`.

    `live` is at rest, read with `LiveCluster.group(…, sent=True)`. `name` is an assignor; "": the elected one. What
    members send is known of the elected one alone: under another one, they are planned with its defaults. `options`
    hold in place of those that members sent.

    Raises:
        UnknownName, ConfigError: There is no such assignor or option; or the change does not fit the group.
        ClusterError: The group is in a rebalance.
    """
    change = change or Change()
    name = name or live.protocol
    given = strategy(name, **_by_ids(live, options or {}))
    group = as_group(live, topics, change, ids=True)
    if name != live.protocol:
        return Led(given, decoded(given, group), (*_of_others(live, given), *_of_ids(live, group, change, given)))
    joined = _joined(live, group, given)
    if joined is None:
        unknown = "Not known: what members sent as they joined. Planned with the assignor's defaults."
        return Led(given, decoded(given, group), (unknown, *_of_ids(live, group, change, given)))
    own, unknown = _leaders(live, group, given)
    agreed, facts = own.agreed(joined, group.partitions)
    agreed = agreed.with_options(**{**agreed.options, **given.options})
    needs = agreed.needs() if any(sent.rack for _, _, sent in joined) else ()
    racks, leaders = (group.racks if "racks" in needs else None), (group.leaders if "leaders" in needs else None)
    read = decode(name, joined, group.partitions, racks, leaders)
    if not agreed.uses_claims:
        read = replace(read, group=_holding(read.group, group))
    notes = [*_of_sent(live, agreed, given), *_of_new(live, group, agreed)]
    if unknown and any(fact.kind == "options-differ" for fact in facts):
        notes.append(unknown)
    notes += [*_of_figures(live, agreed), *_of_leaders(agreed), *_of_ids(live, group, change, agreed)]
    if given.options:  # they hold whatever members sent
        facts = tuple(fact for fact in facts if fact.kind != "options-differ")
    read = replace(read, facts=ordered((*read.facts, *facts)))
    return Led(agreed, read, tuple(notes), _like(live, given).member_id)


def _holding(read: Group, group: Group) -> Group:
    """The group as read, with what members hold, though they tell no leader: the plan counts its moves."""
    owned_partitions = {member.member_id: member.owned for member in group.members}
    members = [replace(member, owned=owned_partitions[member.member_id]) for member in read.members]
    return Group(members, read.partitions, read.racks, read.leaders)


def _by_ids(live: LiveGroup, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with member ids in place of members' names; a table of ``config`` names static members as it is."""
    ids = {called: member_id for member_id, called in live.names.items()}
    dynamic = {live.names[m.member_id]: m.member_id for m in live.members if m.instance_id is None}
    tables = {"capacity": ids, "priority": ids, "max_work": ids, "table": dynamic}
    return {
        name: {tables[name].get(key, key): entry for key, entry in value.items()}
        if name in tables and isinstance(value, Mapping)
        else value
        for name, value in options.items()
    }


def _joined(live: LiveGroup, group: Group, given: Strategy) -> list[Joined] | None:
    """The members of the next rebalance with what they will send; None if what they sent isn't known."""
    by_id = {member.member_id: member for member in live.members}
    stay = [by_id[member.member_id] for member in group.members if member.member_id in by_id]
    sent = [member.sent for member in stay if member.sent is not None]
    if len(sent) < len(stay):
        return None
    generation = NO_GENERATION if live.generation is None else live.generation
    again = given.rejoining(sent, [member.assigned for member in stay], generation, group.partitions)
    members: list[Joined] = [
        (m.member_id, m.instance_id, subscription) for m, subscription in zip(stay, again, strict=True)
    ]
    new = [member for member in group.members if member.member_id not in by_id]
    if new:
        like = _like(live, given).sent
        assert like is not None  # the members have it
        (fresh,) = given.rejoining([like._replace(owned=())], [()], NO_GENERATION, group.partitions)
        topics = tuple(sorted(new[0].topics))
        members += [(m.member_id, m.instance_id, fresh._replace(topics=topics, rack=None)) for m in new]
    return members


def _like(live: LiveGroup, given: Strategy) -> LiveMember:
    """The member that new members are like: with the usual subscription, and among these the usual user data."""
    usual = live.usual
    alike = [member for member in live.members if usual is not None and member.asked == usual.asked]
    payloads = [_payload(member.sent, given) for member in alike]
    often = Counter(payloads)
    # Of equals, one without figures of its own.
    usual_payload = max(payloads, key=lambda payload: (often[payload], not payload[1]))
    return alike[payloads.index(usual_payload)]


def _payload(sent: Subscription | None, given: Strategy) -> tuple[bytes, tuple[tuple[str, float], ...]]:
    """The options and figures of itself that a member sent."""
    if sent is None:
        return b"", ()
    own = carried.decode(sent.user_data, {}).own.options() if isinstance(given, ByWork) else {}
    return given.told_by(sent.user_data), tuple(own.items())


def _leaders(live: LiveGroup, group: Group, given: Strategy) -> tuple[Strategy, str]:
    """The assignor with the leader's own options, and why they aren't known."""
    plain = strategy(given.name)
    if live.leader is None:
        return plain, "Not known: who leads, whose own options apply where no options are those of more than half."
    if live.leader not in {member.member_id for member in group.members}:
        return plain, (
            f"Not known: who will lead after {live.leader}, and so whose options apply where no options are those of "
            "more than half."
        )
    sent = next(member.sent for member in live.members if member.member_id == live.leader)
    option_bytes = given.told_by(sent.user_data) if sent is not None else b""
    if not option_bytes:
        return plain, ""
    if option_bytes == tell(given.told_options()):
        return given, ""
    try:
        made = plain.as_told(option_bytes)
    except ValueError:
        return plain, ""  # a member told it so; a fact says why
    if made is not None:
        return made, ""
    return plain, f"Not known: the leader's options; it sends a digest: give them by -A {given.name}:OPTION=VALUE."


def _of_sent(live: LiveGroup, agreed: Strategy, given: Strategy) -> Iterator[str]:
    """The options and figures that members sent."""
    settings = _options(agreed, given)
    if isinstance(agreed, ByWork):
        settings += _figures(live, agreed, given)
    if settings:
        yield f"Read from what members sent: {'; '.join(settings)}."
    if given.options:
        yield f"As given, whatever members sent: {', '.join(given.options)}."


def _options(agreed: Strategy, given: Strategy) -> list[str]:
    return [
        f"{name}={_shortened(repr(value))}"
        for name, value in agreed.options.items()
        if name not in given.options and name not in agreed.individual
    ]


def _figures(live: LiveGroup, agreed: Strategy, override: Strategy) -> list[str]:
    sent = {name: value for name, value in agreed.options.items() if name not in override.options}
    figures = []
    if "weights" in sent:
        topics = sent["weights"].values()
        count = sum(
            weight is not None
            for given in topics
            for weight in (given.values() if isinstance(given, Mapping) else given)
        )
        figures.append(f"weights of {many(count, 'partition')}")
    for name in ("capacity", "priority", "max_work"):
        of = {member_id: value for member_id, value in sent.get(name, {}).items() if member_id in live.names}
        if of:
            figures.append(f"{name} {_shortened(', '.join(f'{m}: {value:g}' for m, value in of.items()))}")
    figures += [name for name in ("state", "resting") if name in sent]
    return figures


def _of_new(live: LiveGroup, group: Group, agreed: Strategy) -> Iterator[str]:
    """What new members are planned with."""
    new = [member for member in group.members if member.member_id not in live.names]
    if not new:
        return
    like = _like(live, agreed)
    _, own = _payload(like.sent, agreed)
    words = [f"the options of {like.member_id}"]
    if new[0].instance_id is not None:
        words.append("as static members")
    if isinstance(agreed, ByWork):
        figures = {"capacity": 1.0, **dict(own)}
        words += [", ".join(f"{name} {value:g}" for name, value in figures.items()), "no weights of their own"]
    if any(member.rack for member in live.members):
        words.append("no rack")
    yield f"New members are planned with {'; '.join(words)}."


def _of_figures(live: LiveGroup, agreed: Strategy) -> Iterator[str]:
    if not isinstance(agreed, ByWork):
        return
    measured = "weights" in agreed.options
    if measured:
        yield "Weights are those of the members' last joins; members that measure send newer ones."
    sent = [member.sent for member in live.members if member.sent is not None]
    claim = any(
        subscription.owned or carried.claims(subscription.user_data, {}).generation > NO_GENERATION
        for subscription in sent
    )
    if not claim:
        yield "Not known before their second join: whether members are cooperative; planned as if they were."


def _of_leaders(agreed: Strategy) -> Iterator[str]:
    """What a leader decides by what isn't sent."""
    for option, value in agreed.unsent.items():
        if agreed.options.get(option) != value:
            yield f"Not known: whether the leader has {option}={value!r}, which isn't sent."
    if agreed.name in ("sticky", "cooperative-sticky") and not agreed.options:
        yield (
            f"Planned as our leader assigns; Java's assigns by -A {agreed.name}:parity=java, and no member tells its "
            "client."
        )


def _of_others(live: LiveGroup, given: Strategy) -> Iterator[str]:
    """What isn't known of members that send another assignor's user data."""
    if isinstance(given, ByWork):
        yield (
            f"Not known: the weights and capacities that members would send under {given.name}; they send what "
            f"{live.protocol or 'no assignor'} needs."
        )


def _of_ids(live: LiveGroup, group: Group, change: Change, made: Strategy) -> Iterator[str]:
    """What depends on the ids of new members."""
    new = [member for member in group.members if member.member_id not in live.names]
    if not new or (new[0].instance_id is not None and not change.add):
        return
    shared = Counter(member.client_id for member in live.members)
    if made.hashes_ids:
        yield (
            "Not known: what new members get, because this assignor hashes the ids that the coordinator draws for "
            "them; a static member's (group.instance.id) is known."
        )
    elif change.add:
        yield "Not known: the client or instance ids of new members, which decide between equals; --add NAME tells one."
    elif any(shared[name] for name in change.joining):
        yield "Not known: the order of members with one client id, which random ids decide."


def _shortened(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"
