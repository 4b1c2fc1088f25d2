"""Strategies by name, a class per family: `Stateless`, `Optimal` (the sticky ones), `CoPartitioned`, `ByWork`.

A new strategy is a new line in `STRATEGIES`; a new family is a subclass of `Strategy`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import ConfigError, UnknownName
from . import copartitioned
from .broker_side import BROKER_SIDE, PROTOCOL
from .declaration import MemberOptions, Options
from .group import NO_GENERATION, Group, Partitions, TopicPartition
from .group import facts as facts_
from .group import options as options_
from .group.assignment import Assignment
from .group.claims import Claims, resolve
from .group.facts import Fact
from .group.indexed import UNASSIGNED, Indexed, Ints
from .group.invariants import violations
from .group.order import utf16
from .java import sticky as java_sticky
from .stateless import consistent, fixed, metaq, rocketmq, roundrobin
from .stateless import range as range_
from .sticky import cooperative, sticky
from .sticky import objective as objective_
from .sticky.objective import Objective
from .strategy import Decoded, Joined, Self, Strategy
from .weighted import options as by_work
from .weighted import placing
from .weighted.engine import Solution
from .weighted.model import Model
from .wire import balance, bulk, compact, merge, userdata
from .wire import weighted as carried
from .wire.protocol import AssignedPartitions, Subscription, encode_assignment, with_user_data


class Stateless(Strategy):
    """A strategy that depends on the members of the group, but not on their claims.

    `owners` is a function: the group as integers, and each option of `declared` by its name -> int[P], the number of
    each position's owner.
    """

    def __init__(
        self,
        name: str,
        owners: Callable[..., Ints],
        declared: type[Options] = MemberOptions,
        *,
        needs: Collection[str] = (),
        hashes_ids: bool = False,
    ) -> None:
        self._owners, self._needs, self._hashes_ids = owners, needs, hashes_ids
        self.declared = declared
        super().__init__(name)

    @property
    def hashes_ids(self) -> bool:
        return self._hashes_ids

    def owners(self, indexed: Indexed, claims: Claims | None = None) -> Ints:
        return self._owners(indexed, **vars(self.given))

    def needs(self) -> Collection[str]:
        return self._needs


class MachineRoomNearby(Stateless):
    """Partitions at members on their leader's rack (`rocketmq.machine_room_nearby`)."""

    given: rocketmq.RoomOptions

    @property
    def hashes_ids(self) -> bool:
        return self.given.inner == "rocketmq-consistent-hash"

    def facts(self, group: Group) -> Iterable[Fact]:
        return rocketmq.without_room(group)


class Config(Strategy):
    """Partitions from a table (`fixed.assign`); what it does not cover is placed by one of `fallbacks`, by name."""

    def __init__(self, name: str, fallbacks: Mapping[str, Strategy]) -> None:
        self._fallbacks = fallbacks
        super().__init__(name)

    declared = fixed.ConfigOptions
    given: fixed.ConfigOptions

    def configure(self) -> None:
        uncovered = self.given.uncovered
        self._fallback = None if uncovered == "error" else self._fallbacks[uncovered].place
        self._hashes_ids = uncovered != "error" and self._fallbacks[uncovered].hashes_ids

    @property
    def hashes_ids(self) -> bool:
        return bool(self.given.table) or self._hashes_ids  # a table names a dynamic member by its id

    def needs(self) -> Collection[str]:
        return "racks", "leaders"

    def facts(self, group: Group) -> Iterable[Fact]:
        return fixed.deviations(group, self.given.table)

    def owners(self, indexed: Indexed, claims: Claims | None = None) -> Ints:
        return fixed.owners(indexed, self.given.table, self._fallback)


class Optimal(Strategy):
    """The optimal assignment with the fewest moves (`sticky.assign`)."""

    uses_claims = True
    bearable: Collection[str] = ()
    """Laws that Java's assignor may break: its assignment is used anyway, and a fact reports the violation."""

    declared: type[Options] = objective_.StickyOptions
    given: objective_.StickyOptions | copartitioned.CoPartitionedOptions

    @property
    def objective(self) -> Objective:
        """The goals and the costs of racks."""
        return self.given.objective

    @property
    def _java(self) -> bool:
        return isinstance(self.given, objective_.StickyOptions) and self.given.parity == "java"

    @property
    def hashes_ids(self) -> bool:
        return self._java  # Java's maps list members by the hashes of their ids

    def needs(self) -> Collection[str]:
        return {"leader": ("leaders",), "none": ()}.get(str(self.objective.rack_costs), ("racks",))

    def owners(self, indexed: Indexed, claims: Claims | None) -> Ints:
        return sticky.owners(claims or resolve(indexed.group), self.objective)

    def assign(self, decoded: Decoded) -> tuple[Assignment, tuple[Fact, ...]]:
        return self._as_java(decoded) if self._java else super().assign(decoded)

    def assign_bytes(self, decoded: Decoded) -> tuple[Mapping[str, bytes | memoryview], tuple[Fact, ...]]:
        if not self._java:
            return super().assign_bytes(decoded)
        assignment, facts = self._as_java(decoded)
        return {m: _encoded(given) for m, given in assignment.items()}, facts

    def _as_java(self, decoded: Decoded) -> tuple[Assignment, tuple[Fact, ...]]:
        """The assignment of Java's assignor of this name, even if it is not optimal, and facts.

        If Java's algorithm throws, does not terminate, or assigns nonexistent or unsubscribed partitions: the optimal
        assignment and the reason. If cooperative Java assigns a partition that an older claimant may still hold, or
        withholds one that no member holds, its assignment stays, and a fact reports the violation.
        """
        cooperative_ = "hand-over" in self.bearable
        try:
            assignment = java_sticky.assign(decoded.group, cooperative=cooperative_, sent=decoded.generations)
        except java_sticky.NoAnswer as error:
            why = str(error)
        else:
            broken = violations(decoded.group, assignment, cooperative=cooperative_)
            fatal = [violation for violation in broken if violation.law not in self.bearable]
            if not fatal:
                facts = facts_.ordered(Fact("as-java", self.name, f"as Java: {breach.text}") for breach in broken)
                return assignment, facts
            why = f"Java's assignment is invalid ({fatal[0]})"
        assignment, _ = super().assign(decoded)
        return assignment, (Fact("no-parity", self.name, f"{why}; the optimal assignment is used instead"),)


class Sticky(Optimal):
    """``sticky``: eager members revoke all partitions before they join, so they claim them in user data (KIP-54)."""

    def claiming(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return userdata.encode_sticky(owned, generation) if owned else None

    def claims_of(self, subscriptions: Sequence[Subscription], counts: Mapping[str, int]) -> Sequence[userdata.Claim]:
        return bulk.decode_all_sticky([subscription.user_data for subscription in subscriptions], counts)

    def _again(self, sent: Subscription, owned: Sequence[TopicPartition], generation: int) -> Subscription:
        if userdata.decode_sticky(sent.user_data).garbage:
            return sent
        option_bytes = self.told_by(sent.user_data)
        data = userdata.encode_sticky(owned, generation, option_bytes) if owned or option_bytes else None
        return super()._again(sent, owned, generation)._replace(user_data=data)

    def echoing(
        self, assignments: Mapping[str, bytes | memoryview], members: Iterable[Joined], generation: int
    ) -> Mapping[str, bytes | memoryview]:
        echo = {member_id for member_id, _, sent in members if sent.version <= userdata.ECHOING}
        if not echo:
            return assignments
        return {
            m: userdata.echoed(assignment, generation) if m in echo else assignment
            for m, assignment in assignments.items()
        }


class CooperativeSticky(Optimal):
    """``cooperative-sticky``: the optimal assignment in two rebalances; see `cooperative.assign`."""

    declared = objective_.CooperativeStickyOptions
    withholds = True
    bearable = ("hand-over", "covered")

    def claims_of(self, subscriptions: Sequence[Subscription], counts: Mapping[str, int]) -> Sequence[userdata.Claim]:
        claims = []
        for subscription in subscriptions:
            # KIP-792 put the generation into the subscription (version 2); before, it was in user data.
            if subscription.generation > NO_GENERATION:
                claims.append(userdata.Claim(subscription.owned, subscription.generation))
            else:
                claim = userdata.decode_cooperative(subscription.user_data)
                claims.append(userdata.Claim(subscription.owned, claim.generation, claim.garbage))
        return claims

    def _again(self, sent: Subscription, owned: Sequence[TopicPartition], generation: int) -> Subscription:
        subscription = super()._again(sent, owned, generation)._replace(owned=owned if sent.version else ())
        if sent.version > 1 or userdata.decode_cooperative(sent.user_data).garbage:
            return subscription
        return subscription._replace(user_data=userdata.encode_cooperative(generation, self.told_by(sent.user_data)))

    def owners(self, indexed: Indexed, claims: Claims | None) -> Ints:
        return cooperative.owners(claims or resolve(indexed.group), self.objective)


class CompactSticky(Optimal):
    """``compact-sticky``: `Sticky` with user data a tenth as large; see `wire.compact`."""

    def claiming(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return compact.encode(owned, generation) if owned else None

    def claims_of(self, subscriptions: Sequence[Subscription], counts: Mapping[str, int]) -> Sequence[userdata.Claim]:
        claims = [compact.decode(subscription.user_data, counts) for subscription in subscriptions]
        return [userdata.Claim(claim.owned, claim.generation, claim.garbage) for claim in claims]

    def _again(self, sent: Subscription, owned: Sequence[TopicPartition], generation: int) -> Subscription:
        claim = compact.decode(sent.user_data, {})
        if claim.garbage:
            return sent
        option_bytes = self.told_by(sent.user_data)
        data = compact.encode(_whole(owned), generation, claim.rack, claim.instance_id, option_bytes)
        return super()._again(sent, owned, generation)._replace(user_data=data)


class CoPartitioned(CompactSticky):
    """Equal partition numbers of co-partitioned topics at one member; see `copartitioned.assign`."""

    declared = copartitioned.CoPartitionedOptions
    given: copartitioned.CoPartitionedOptions

    def facts(self, group: Group) -> Iterable[Fact]:
        return copartitioned.facts(group, self.given.topics)

    def bundled(self, claims: Claims) -> copartitioned.Bundles:
        """The bundles of a group; the goals are theirs."""
        return copartitioned.bundled(claims, self.given.topics, self.objective)

    def owners(self, indexed: Indexed, claims: Claims | None) -> Ints:
        return copartitioned.owners(
            claims or resolve(indexed.group), topics=self.given.topics, objective=self.objective
        )


class CooperativeCoPartitioned(CoPartitioned):
    """``cooperative-copartitioned``: `CoPartitioned` in two rebalances.

    A bundle that moves is withheld as a whole if one member holds all of it. Of a bundle that another assignor left at
    several members, a member keeps what it holds and should have.
    """

    declared = copartitioned.CooperativeCoPartitionedOptions
    withholds = True

    def user_data(
        self,
        owned: Sequence[TopicPartition] | None,
        generation: int,
        rack: str | None = None,
        instance_id: str | None = None,
    ) -> tuple[bytes | None, str]:
        return super().user_data(None, NO_GENERATION, rack, instance_id)  # the subscription claims what it owns

    def claiming(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return None

    def claims_of(self, subscriptions: Sequence[Subscription], counts: Mapping[str, int]) -> Sequence[userdata.Claim]:
        return [userdata.Claim(subscription.owned, subscription.generation) for subscription in subscriptions]

    def _again(self, sent: Subscription, owned: Sequence[TopicPartition], generation: int) -> Subscription:
        return sent._replace(owned=owned, generation=generation)

    def owners(self, indexed: Indexed, claims: Claims | None) -> Ints:
        claims = claims or resolve(indexed.group)
        return cooperative.withheld(claims, super().owners(indexed, claims))


class ByWork(Strategy):
    """What the strategies by work share; see `weighted.placing.assign`. Each member is cooperative or eager.

    In a live group, members send weights, capacities and the protocol in user data: see `wire.weighted`.
    """

    declared: type[Options] = by_work.ByWorkOptions
    given: by_work.ByWorkOptions
    placing: placing.Placing
    uses_claims = True
    withholds = True

    def configure(self) -> None:
        self.placing = placing.placing_of(self.given)

    def needs(self) -> Collection[str]:
        return ("racks",)

    def load(self) -> None:
        placing.load()

    def facts(self, group: Group) -> Iterable[Fact]:
        return placing.facts(group, self.placing)

    def user_data(
        self,
        owned: Sequence[TopicPartition] | None,
        generation: int,
        rack: str | None = None,
        instance_id: str | None = None,
    ) -> tuple[bytes | None, str]:
        since = NO_GENERATION if owned is None else generation
        return carried.encode_within(owned or (), since, rack, instance_id, options_.tell(self.told_options()))

    def compact_data(self, user_data: bytes | None) -> compact.CompactData:
        return carried.claims(user_data, {})

    def told_by(self, user_data: bytes | None) -> bytes:
        return carried.options(user_data or b"")

    def claiming(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return carried.encode_within(owned, generation, None, None)[0] if owned else None

    def claims_of(self, subscriptions: Sequence[Subscription], counts: Mapping[str, int]) -> Sequence[userdata.Claim]:
        claims = []
        for subscription in subscriptions:
            claim = carried.claims(subscription.user_data, counts)
            if subscription.owned:  # claims of a cooperative member; an eager one claims only in user data
                generation = max(subscription.generation, claim.generation)
                claims.append(userdata.Claim(subscription.owned, generation, claim.garbage))
            else:
                claims.append(userdata.Claim(claim.owned, claim.generation, claim.garbage))
        return claims

    def rejoining(
        self,
        sent: Sequence[Subscription],
        owned: Sequence[Sequence[TopicPartition]],
        generation: int,
        partitions: Mapping[str, int],
    ) -> list[Subscription]:
        """A member that owned nothing counts as eager if others revoked everything and no subscription has claims."""
        eager = any(map(_revoked, sent)) and not any(subscription.owned for subscription in sent)
        subscriptions = []
        for subscription, tps in zip(sent, owned, strict=True):
            user_data = carried.decode(subscription.user_data, partitions)
            if subscription.unread:
                subscriptions.append(subscription)
                continue
            revokes = _revoked(subscription) or (eager and not subscription.owned)
            again = super()._again(subscription, tps, generation)._replace(owned=() if revokes else tps)
            if not (user_data.garbage or user_data.compact_data.garbage):
                rack, instance_id, options = (
                    user_data.compact_data.rack,
                    user_data.compact_data.instance_id,
                    self.told_by(subscription.user_data),
                )
                claims = compact.encode(_whole(tps) if revokes else (), generation, rack, instance_id, options)
                again = again._replace(
                    user_data=carried.encode(claims, user_data.own, user_data.weights, user_data.moving)
                )
            subscriptions.append(again)
        return subscriptions

    def agreed(self: Self, members: Iterable[Joined], partitions: Mapping[str, int]) -> tuple[Self, tuple[Fact, ...]]:
        """Adds the figures that members send (`merge.inputs`), validated as the options that they become."""
        members = list(members)
        winner, differing = super().agreed(members, partitions)
        topics = {id(sent.topics): sent.topics for _, _, sent in members}
        counts = {t: partitions[t] for t in set[str]().union(*topics.values()) if t in partitions}
        defaults, heard, facts = self.defaults(), [], list(differing)
        for member_id, _, sent in members:
            user_data = carried.decode(sent.user_data, counts)
            why = user_data.garbage
            own = {name: {member_id: value} for name, value in user_data.own.options().items() if name in defaults}
            try:
                if own:
                    self.with_options(**own)
            except ConfigError as error:
                why = str(error)
            if why:
                text = f"figures of member {member_id!r} can't be read: {why}; ignored"
                facts.append(Fact("options-unread", member_id, text))
                user_data = carried.ByWorkData(user_data.compact_data)
            heard.append((member_id, sent, user_data))
        figures = {name: value for name, value in merge.inputs(heard, counts).items() if name in defaults}
        return winner.with_options(**{**winner.options, **figures}) if figures else winner, facts_.ordered(facts)

    def settles_as(self, decoded: Decoded, assignment: Assignment) -> Assignment:
        """If nothing is withheld, no rebalance follows that could use a budget again."""
        topics = {topic for member in decoded.group.members for topic in member.topics}
        every = sum(count for topic, count in decoded.group.partitions.items() if topic in topics)
        given = sum(len(ids) for topics_ in assignment.values() for ids in topics_.values())
        return assignment if given == every else super().settles_as(decoded, assignment)

    def owners(self, indexed: Indexed, claims: Claims | None) -> Ints:
        claims = claims or resolve(indexed.group)
        return self._solved(claims)[1].now

    def _solved(self, claims: Claims) -> tuple[Model, Solution]:
        return placing.solved(claims, self.placing)

    def assign_bytes(self, decoded: Decoded) -> tuple[Mapping[str, bytes | memoryview], tuple[Fact, ...]]:
        """If any weight is known, each member is told how the group stands (`balance`)."""
        claims = decoded.claims or resolve(decoded.group)
        model, solution = self._solved(claims)
        owner = solution.now
        written: Mapping[str, bytes | memoryview] = bulk.assignments(claims.indexed, owner)
        measured, every = model.coverage
        if measured:
            bound, greatest = solution.bound * model.ratio_unit, solution.greatest * model.ratio_unit
            withheld = int((owner != solution.owner).sum())
            moved = int(((owner != UNASSIGNED) & (claims.holder != UNASSIGNED) & (owner != claims.holder)).sum())
            standing = balance.Balance(bound, greatest, measured, every, withheld, moved)
            # Above `MOST` no weights are told, and reading the assignment by names would take a tenth of the time.
            small = every <= balance.MOST
            given = claims.indexed.assignment(owner) if small else {m.member_id: {} for m in claims.indexed.members}
            user_data = balance.encode_for_members(standing, model.weights() if small else {}, given)
            written = {member: with_user_data(data, user_data[member]) for member, data in written.items()}
        return written, facts_.ordered(placing.facts_of(model))


class Weighted(ByWork):
    """``weighted``: placement by work, throughput or any other weight."""

    declared = by_work.WeightedOptions
    given: by_work.WeightedOptions


class Lag(ByWork):
    """``lag``: placement by lags; ``parity="grantneale"`` places by `weighted.placing.by_lag`."""

    declared = by_work.LagOptions
    given: by_work.LagOptions

    def _solved(self, claims: Claims) -> tuple[Model, Solution]:
        model, solution = super()._solved(claims)
        if self.given.parity is None:
            return model, solution
        owner = placing.by_lag(claims, self.placing)
        return model, replace(solution, owner=owner, now=placing.handed_over(claims, owner, self.placing))


def _revoked(sent: Subscription) -> bool:
    """Whether a member by work revoked everything before it joined: it claims in user data alone."""
    claimed = carried.claims(sent.user_data, {}).owned
    return not sent.owned and isinstance(claimed, Partitions) and claimed.strange > 0


def _whole(owned: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Without partitions that no topic can have, which another client's leader may have assigned."""
    return [tp for tp in owned if tp.partition >= 0]


def _encoded(given: Mapping[str, Sequence[int]]) -> bytes:
    in_order = sorted(given.items(), key=lambda topic: utf16(topic[0]))
    return encode_assignment(AssignedPartitions(dict(in_order)))


def _by_name(*strategies: Strategy) -> dict[str, Strategy]:
    return {strategy.name: strategy for strategy in strategies}


_STATELESS = _by_name(
    Stateless("range", range_.owners, needs=("racks",)),
    Stateless("roundrobin", roundrobin.owners),
    Stateless("metaq-default", metaq.default_owners),
    Stateless("metaq-consistent-hash", metaq.consistent_hash_owners, metaq.MetaqOptions, hashes_ids=True),
    Stateless("average", rocketmq.average_owners),
    Stateless("average-by-circle", rocketmq.average_by_circle_owners),
    Stateless("rocketmq-consistent-hash", rocketmq.consistent_hash_owners, rocketmq.RingOptions, hashes_ids=True),
    MachineRoomNearby(
        "machine-room-nearby", rocketmq.machine_room_nearby_owners, rocketmq.RoomOptions, needs=("racks", "leaders")
    ),
    Stateless("consistent-hash", consistent.owners, consistent.ConsistentHashOptions, hashes_ids=True),
)

STRATEGIES: Mapping[str, Strategy] = _by_name(
    _STATELESS["range"],
    _STATELESS["roundrobin"],
    Sticky("sticky"),
    CooperativeSticky("cooperative-sticky"),
    CompactSticky("compact-sticky"),
    *_STATELESS.values(),
    Config("config", fallbacks={name: _STATELESS[name] for name in fixed.FALLBACKS}),
    Weighted("weighted"),
    CoPartitioned("copartitioned"),
    CooperativeCoPartitioned("cooperative-copartitioned"),
    Lag("lag"),
)
"""Protocol name -> strategy, with its default options."""


def strategy(name: str, **options: Any) -> Strategy:
    """The strategy of a protocol name, with options.

    ``protocol="consumer"`` takes the broker's assignor of that name (KIP-848), see `broker_side`;
    ``protocol="classic"`` is the default.

    Raises:
        UnknownName: No strategy has that name; the message lists the known ones.
        ConfigError: The strategy has no such option, or the option's value is invalid.
    """
    if options.get("protocol") == PROTOCOL:
        if name not in BROKER_SIDE:
            raise UnknownName("assignor of the broker", name, BROKER_SIDE)
        return BROKER_SIDE[name].with_options(**options)
    protocol = options.pop("protocol", "classic")
    if protocol != "classic":
        raise ConfigError(f"protocol must be 'classic' or {PROTOCOL!r}, not {protocol!r}")
    if name not in STRATEGIES:
        if name in BROKER_SIDE:
            raise ConfigError(f"{name!r} is an assignor of the broker; give it with protocol={PROTOCOL!r}")
        if isinstance(own_name := getattr(name, "name", None), str) and own_name in STRATEGIES:
            raise ConfigError(f"give the assignor by its name, {own_name!r}, not as {name!r}")
        raise UnknownName("assignor", name, STRATEGIES)
    return STRATEGIES[name].with_options(**options) if options else STRATEGIES[name]
