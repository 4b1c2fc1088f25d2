"""Decode members' subscriptions to a `Group`, and replay a leader's assignment from bytes.

The adapters and `replay` share `decode` and `Strategy.assign`. So an offline replay of the bytes that a group exchanged
gives exactly our leader's assignment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .group import Group, Member, Partitions
from .group import facts as facts_
from .group.assignment import Assignment
from .group.claims import resolve
from .group.columns import Claimed
from .group.facts import Fact
from .strategies import strategy
from .strategy import Decoded, Joined, Strategy
from .wire import bulk, limits, userdata

Racks = Mapping[str, Sequence[Collection[str]]]
Leaders = Mapping[str, Sequence[str | None]]


def decode(
    name: str,
    members: Iterable[Joined],
    partitions: Mapping[str, int],
    racks: Racks | None = None,
    leaders: Leaders | None = None,
) -> Decoded:
    """Decode members' subscriptions to a `Group`, as the strategy of that name reads them.

    Partition counts and racks are as the leader sees them. Undecodable user data claim nothing. The facts are ordered.

    Raises:
        UnknownName: No strategy has the name.
    """
    elected = strategy(name)
    heard = list(members)
    subscriptions = [subscription for _, _, subscription in heard]
    # Equal subscriptions share one object, and most groups have one; `bulk` makes equal tuples identical.
    tuples = {id(subscription.topics): subscription.topics for subscription in subscriptions}
    distinct: dict[tuple[str, ...], frozenset[str]] = {}
    for topics in tuples.values():
        if topics not in distinct:
            distinct[topics] = frozenset(topics)
    sets = {key: distinct[topics] for key, topics in tuples.items()}
    topic_names = frozenset[str]().union(*distinct.values())
    counts: dict[str, int] = {}
    claims: Sequence[userdata.Claim] = [userdata.Claim()] * len(heard)
    if elected.uses_claims:
        counts = {topic: partitions.get(topic, limits.UNKNOWN_PARTITIONS) for topic in topic_names}
        claims = elected.claims_of(subscriptions, counts)
    decoded_together = {
        id(claim.owned.columns): claim.owned.columns for claim in claims if type(claim.owned) is Claimed
    }
    short = {key for key, columns in decoded_together.items() if max(columns.sizes) <= limits.PARTITIONS}
    claimed = [
        claim if type(claim.owned) is Claimed and id(claim.owned.columns) in short else _limited(claim, counts)
        for claim in claims
    ]
    joined = [
        Member(member_id, sets[id(subscription.topics)], instance_id, subscription.rack, owned, generation)
        for (member_id, instance_id, subscription), (owned, generation, _) in zip(heard, claimed, strict=True)
    ]
    facts = [
        Fact("garbage-user-data", member_id, f"member {member_id!r}: {garbage}; ignored")
        for (member_id, _, _), (_, _, garbage) in zip(heard, claimed, strict=True)
        if garbage
    ]
    facts += [
        Fact("unread", m, f"member {m!r} {subscription.unread}") for m, _, subscription in heard if subscription.unread
    ]
    group = Group(joined, partitions, racks, leaders)
    generations = {member_id: subscription.generation for member_id, _, subscription in heard}
    return decoded(name, group, facts, generations)


def _limited(claim: userdata.Claim, counts: Mapping[str, int]) -> userdata.Claim:
    """A claim without topics that no member subscribes to; empty if the claim exceeds the limit."""
    owned = claim.owned
    if not len(owned):
        return claim
    owned = Partitions.of(owned).among(counts)
    if len(owned) > limits.PARTITIONS:
        text = f"claims of {len(owned):,} partitions; {limits.PARTITIONS:,} are read at most"
        return userdata.Claim(garbage=text)
    return claim if owned is claim.owned else claim._replace(owned=owned)


def decoded(
    name: str | Strategy, group: Group, facts: Iterable[Fact] = (), generations: Mapping[str, int] | None = None
) -> Decoded:
    """A `Decoded` of a group that needs no decoding, for the strategy of that name."""
    made = strategy(name) if isinstance(name, str) else name
    claims = resolve(group) if made.uses_claims else None
    all_facts = [*facts, *facts_.of_topics(group), *(facts_.of_claims(claims) if claims else ())]
    return Decoded(group, facts_.ordered(all_facts), claims, generations or {})


def replay(
    name: str,
    members: Iterable[tuple[str, str | None, bytes]],
    partitions: Mapping[str, int],
    racks: Racks | None = None,
    leaders: Leaders | None = None,
    **options: Any,
) -> Assignment:
    """The assignment of our leader for these bytes.

    Args:
        name: Name of the elected assignor.
        members: (member id, instance id or None, ConsumerProtocolSubscription bytes), in any order.
        partitions: topic -> partition count, as the leader saw the cluster.
        racks: topic -> per partition its replicas' racks, as the leader saw them.
        leaders: topic -> per partition its leader's rack, as the leader saw it.
        options: The options of the leader's assignor; they apply unless more than half of the members have others. The
            own part of each member (`Strategy.individual`) is read from the bytes.

    Raises:
        UnknownName: No strategy has the name.
        ConfigError: The strategy has no such option, or the option's value is invalid.
    """
    sent = list(members)
    subscriptions = bulk.subscriptions([data for _, _, data in sent])
    joined = [(ids[0], ids[1], subscription) for ids, subscription in zip(sent, subscriptions, strict=True)]
    made = strategy(name)
    kept = {option: value for option, value in options.items() if option not in made.individual}
    elected, _ = made.with_options(**kept).agreed(joined, partitions)
    assignment, _ = elected.assign(decode(name, joined, partitions, racks, leaders))
    return assignment
