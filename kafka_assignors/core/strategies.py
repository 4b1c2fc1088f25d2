"""Strategies by name, and the one way from what members sent to what the leader answers.

The adapters and `replay` share `read` and `Strategy.assign`, so an offline replay of the bytes a group exchanged gives
exactly what our leader answered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

from ..errors import ConfigError, UnknownName
from .group import NO_GENERATION, Group, Member, Partitions, TopicPartition
from .group import facts as facts_
from .group import options as options_
from .group.assignment import Assignment
from .group.claims import Claims, resolve
from .group.facts import Fact
from .group.indexed import Indexed, Ints
from .group.invariants import violations
from .group.order import utf16
from .java import sticky as javasticky
from .stateless import consistent, fixed, metaq, rocketmq, roundrobin
from .stateless import range as range_
from .sticky import cooperative, flow, sticky
from .sticky.objective import ORDERS, Matrix, Objective
from .weighted import model as weighted_model
from .weighted import placing as weighted
from .wire import bulk, compact, limits, userdata
from .wire import weighted as carried
from .wire.protocol import AssignedPartitions, Subscription, encode_assignment

Racks = Mapping[str, Sequence[Collection[str]]]
Leaders = Mapping[str, Sequence[str | None]]


def _no_settings() -> Mapping[str, Any]:
    return {}


def _plainly(name: str, value: Any) -> Any:  # noqa: ARG001
    return _plain(value)


def _nothing(group: Group, **settings: Any) -> Iterable[Fact]:  # noqa: ARG001
    return ()


@dataclass(frozen=True)
class Strategy:
    """One assignor.

    Args:
        name: Its protocol name, as members offer it in JoinGroup.
        assign: The decision: group, with `claim` the group's resolved claims, and what `settings` returned by name.
        claim: What the members' subscriptions claim, given topic -> partition count of the topics that they subscribe
            to; None when the strategy does not care.
        load: Imports what the decision needs and takes long to import; to be called before the first join.
        settings: Takes the options that the strategy knows as keyword arguments, each with a default; raises
            `ConfigError` for a wrong value; returns what they mean as further arguments of `assign`.
        options: The options chosen, all JSON values; see `having`.
        owners: The decision as an array, for the answer in bytes: takes the claims, or without `claim` the group's
            `Indexed`, and what `settings` returned. None: there is no such form.
        tell: What is odd about a group in the eyes of this strategy: group, and what `settings` returned.
        rounds: How many rebalances it takes.
        places: Which of a group's ``racks`` and ``leaders`` decide anything, given what `settings` returned.
        inputs: The options that aren't chosen but told, each member's part by itself, from what members sent.
        told: The names of these options, and of arguments of an assignor that decide what its member tells.
        plain: An option's name and value -> the value as JSON has it.
    """

    name: str
    assign: Callable[..., Assignment]
    claim: Callable[[Sequence[Subscription], Mapping[str, int]], Sequence[userdata.Claim]] | None = None
    load: Callable[[], None] = lambda: None
    settings: Callable[..., Mapping[str, Any]] = _no_settings
    options: Mapping[str, Any] = field(default_factory=dict)
    owners: Callable[..., Ints] | None = None
    tell: Callable[..., Iterable[Fact]] = _nothing
    rounds: int = 1
    places: Callable[..., Collection[str]] = lambda **_: ()
    inputs: Callable[[Sequence[tuple[str, str | None, Subscription]]], Mapping[str, Any]] | None = None
    told: Collection[str] = ()
    plain: Callable[[str, Any], Any] = _plainly

    def sees(self) -> Collection[str]:
        """Which of a group's ``racks`` and ``leaders`` its decision depends on; others need not be looked up."""
        return self.places(**self.settings(**self.options))

    def having(self, /, **options: Any) -> Strategy:
        """This strategy with options.

        Raises:
            ConfigError: It has no such option, or not with that value.
        """
        known = signature(self.settings).parameters
        for option in options:
            if option not in known:
                has = f"it has {', '.join(known)}" if known else "it has none"
                raise ConfigError(f"assignor {self.name!r} has no option {option!r}; {has}")
        self.settings(**options)
        return replace(self, options={name: self.plain(name, value) for name, value in options.items()})

    def unlike_default(self) -> Mapping[str, Any]:
        """The options that are not at their defaults."""
        known = signature(self.settings).parameters
        return {
            name: value
            for name, value in self.options.items()
            if name not in self.told and value != _plain(known[name].default)
        }

    def user_data(
        self,
        owned: Sequence[TopicPartition] | None,
        generation: int,
        rack: str | None = None,
        instance_id: str | None = None,
    ) -> tuple[bytes | None, str]:
        """What a member with this strategy sends beside its subscription.

        Args:
            owned: What it was assigned last; None if it never was.
            generation: Generation that gave it.
            rack: Its rack.
            instance_id: Its ``group.instance.id``.

        Returns:
            The user data, and why they claim nothing although it owns something; "" otherwise.
        """
        told = options_.tell(self.unlike_default())
        if self.name == "sticky":
            return None if owned is None and not told else userdata.encode_sticky(owned or (), generation, told), ""
        if self.name == "cooperative-sticky":
            return userdata.encode_cooperative(generation, told), ""
        if self.name in compact.JAVAS:
            return None, ""
        kept = owned if self.claim else None
        since = NO_GENERATION if kept is None else generation
        if self.inputs:
            return carried.encode_within(kept or (), since, rack, instance_id, told)
        return compact.encode_within(kept or (), since, rack, instance_id, told)

    def said(self, user_data: bytes | None) -> compact.Carried:
        """What a member's user data tell beside claims, where they are ours: generation, rack, instance id."""
        if self.name in compact.JAVAS:
            return compact.Carried()
        return carried.decode(user_data, {}).said if self.inputs else compact.decode(user_data, {})

    def agreed(self, members: Iterable[tuple[str, str | None, Subscription]]) -> tuple[Strategy, tuple[Fact, ...]]:
        """This strategy with the options that hold in a group, and what is told about them; the same for any leader.

        The options that most members tell, among equally many those of the smallest text. Members that tell none don't
        vote; where nobody tells any, or digests alone (`options.MOST`), the leader's own hold.
        """
        if not signature(self.settings).parameters:
            return self, ()
        members = list(members)
        winner, facts = self._voted(members)
        if self.inputs and (inputs := self.inputs(members)):
            winner = winner.having(**{**winner.options, **inputs})
        return winner, facts

    def _voted(self, members: Sequence[tuple[str, str | None, Subscription]]) -> tuple[Strategy, tuple[Fact, ...]]:
        held: dict[bytes, list[str]] = {}
        for member_id, _, subscription in members:
            held.setdefault(userdata.options(self.name, subscription.user_data), []).append(member_id)
        silent = held.pop(b"", [])
        votes: dict[bytes, Strategy] = {}
        facts = []
        for told, by in list(held.items()):
            try:
                if (chosen := options_.read(told)) is not None:
                    votes[told] = STRATEGIES[self.name].having(**chosen)
            except ValueError as error:  # a ConfigError is one
                del held[told]
                text = f"options of member {by[0]!r} can't be read: {error}; they don't count"
                facts.append(Fact("options-unread", by[0], text))
        mine = options_.tell(self.unlike_default())
        winner = min(votes, key=lambda told: (-len(held[told]), told), default=mine)
        if silent and held and (mine == b"" or self.name not in compact.JAVAS):
            held[b""] = silent  # under Java's names they may be other clients, which have no options
        if len(held) > 1 or (held and mine not in held):
            facts.append(options_.differ(held, votes.get(winner, self).unlike_default(), voted=bool(votes)))
        return votes.get(winner, self), facts_.ordered(facts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied by its name and options: what decides may be no importable function."""
        return _again, (self.name, dict(self.options))

    def answer(self, reading: Reading) -> tuple[Assignment, tuple[Fact, ...]]:
        """The decision on what members sent, and what is to be told about it."""
        if self.options.get("parity") == "java":
            return self.java_answer(reading)
        return self._decided(reading), self._facts(reading)

    def answer_bytes(self, reading: Reading) -> tuple[Mapping[str, bytes | memoryview], tuple[Fact, ...]]:
        """`answer`, each member's part as the bytes of its assignment; in a large group many times cheaper."""
        if self.owners is None or self.options.get("parity") == "java":
            assignment, facts = self.answer(reading)
            return {m: _written(given) for m, given in assignment.items()}, facts
        chosen = self.settings(**self.options)
        if reading.claims is not None:
            return bulk.assignments(reading.claims.indexed, self.owners(reading.claims, **chosen)), self._facts(reading)
        indexed = Indexed(reading.group)
        return bulk.assignments(indexed, self.owners(indexed, **chosen)), self._facts(reading)

    def _decided(self, reading: Reading) -> Assignment:
        chosen = self.settings(**self.options)
        return (
            self.assign(reading.group, reading.claims, **chosen) if self.claim else self.assign(reading.group, **chosen)
        )

    def _facts(self, reading: Reading) -> tuple[Fact, ...]:
        return facts_.ordered(self.tell(reading.group, **self.settings(**self.options)))

    def java_answer(self, reading: Reading) -> tuple[Assignment, tuple[Fact, ...]]:
        """What Java's assignor of this name answers, also where that is not the best.

        Returns:
            The assignment and facts. Our own `answer` and the reason, where Java throws, comes to no end or assigns
            what does not exist or is not subscribed to. What cooperative Java gives away while an older claimant may
            still hold it, or withholds although nobody holds it, stays so and is told.
        """
        if not self.claim:
            return self._decided(reading), ()  # range and roundrobin are Java's anyway
        cooperative = self.name == "cooperative-sticky"
        bearable = ("hand-over", "covered") if cooperative else ()
        try:
            assignment = javasticky.assign(reading.group, cooperative=cooperative, sent=reading.sent)
        except javasticky.NoAnswer as error:
            why = str(error)
        else:
            broken = violations(reading.group, assignment, cooperative=cooperative)
            fatal = [violation for violation in broken if violation.law not in bearable]
            if not fatal:
                told = facts_.ordered(Fact("as-java", self.name, f"as Java: {each.text}") for each in broken)
                return assignment, told
            why = f"Java's answer is unsound ({fatal[0]})"
        return self._decided(reading), (Fact("no-parity", self.name, f"{why}; the optimal assignment is used instead"),)


def _plain(value: Any) -> Any:
    """A JSON value of its own: a caller's dict or list may change later, and a tuple would come back as a list."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _written(given: Mapping[str, Sequence[int]]) -> bytes:
    in_order = sorted(given.items(), key=lambda topic: utf16(topic[0]))
    return encode_assignment(AssignedPartitions(dict(in_order)))


@dataclass(frozen=True)
class Reading:
    """The members' subscriptions as a group, and what was dropped on the way.

    Args:
        group: The group.
        facts: What was dropped, and what is odd.
        claims: The claims resolved, if the strategy has any.
        sent: member id -> generation in its subscription, which need not be that of its claims.
    """

    group: Group
    facts: tuple[Fact, ...]
    claims: Claims | None = None
    sent: Mapping[str, int] = field(default_factory=dict)


def _sticky_claim(subscriptions: Sequence[Subscription], counts: Mapping[str, int]) -> Sequence[userdata.Claim]:
    # Eager members revoke everything before they join: only user data tells what they held (KIP-54).
    return userdata.decode_all_sticky([subscription.user_data for subscription in subscriptions], counts)


def _cooperative_claim(subscriptions: Sequence[Subscription], _counts: Mapping[str, int]) -> Sequence[userdata.Claim]:
    claims = []
    for subscription in subscriptions:
        # KIP-792 put the generation into the subscription (version 2); before, it was in user data.
        if subscription.generation > NO_GENERATION:
            claims.append(userdata.Claim(subscription.owned, subscription.generation))
        else:
            told = userdata.decode_cooperative(subscription.user_data)
            claims.append(userdata.Claim(subscription.owned, told.generation, told.garbage))
    return claims


def _compact_claim(subscriptions: Sequence[Subscription], counts: Mapping[str, int]) -> Sequence[userdata.Claim]:
    said = [compact.decode(subscription.user_data, counts) for subscription in subscriptions]
    return [userdata.Claim(each.owned, each.generation, each.garbage) for each in said]


def _weighted_claim(subscriptions: Sequence[Subscription], counts: Mapping[str, int]) -> Sequence[userdata.Claim]:
    claims = []
    for subscription in subscriptions:
        said = carried.decode(subscription.user_data, counts).said
        if subscription.owned:  # a cooperative member's; an eager one has user data alone
            generation = max(subscription.generation, said.generation)
            claims.append(userdata.Claim(subscription.owned, generation, said.garbage))
        else:
            claims.append(userdata.Claim(said.owned, said.generation, said.garbage))
    return claims


def _weighted_plain(name: str, value: Any) -> Any:
    if name == "weights":
        return weighted_model.checked(value)
    return sorted(value) if name == "eager" and not isinstance(value, bool) else _plain(value)


def _sticky_settings(
    parity: str | None = None, racks: str | Matrix = "replica", order: Sequence[str] = ORDERS[0]
) -> Mapping[str, Any]:
    if parity not in (None, "java"):
        raise ConfigError(f"parity must be 'java' or None, not {parity!r}")
    objective = Objective(racks, order)
    if parity and objective != Objective():
        raise ConfigError(f"parity='java' has Java's own goals; racks={racks!r}, order={order!r} need parity=None")
    return {"objective": objective}


def _sticky_places(objective: Objective) -> Collection[str]:
    return {"leader": ("leaders",), "none": ()}.get(str(objective.racks), ("racks",))


def _both(**_: Any) -> Collection[str]:
    return "racks", "leaders"


def _config_settings(table: fixed.Table | None = None, uncovered: str = "roundrobin") -> Mapping[str, Any]:
    able = [name for name, each in STRATEGIES.items() if each.claim is None and each.assign is not fixed.assign]
    if uncovered != "error" and uncovered not in able:
        raise ConfigError(f"uncovered must be 'error' or one of {', '.join(able)}, not {uncovered!r}")
    fallback = None if uncovered == "error" else STRATEGIES[uncovered].assign
    return {"table": fixed.check({} if table is None else table), "fallback": fallback}


STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("range", range_.assign, owners=range_.owners, places=lambda **_: ("racks",)),
        Strategy("roundrobin", roundrobin.assign, owners=roundrobin.owners),
        Strategy(
            "sticky",
            sticky.assign,
            _sticky_claim,
            flow.load,
            _sticky_settings,
            owners=sticky.owners,
            places=_sticky_places,
        ),
        Strategy(
            "cooperative-sticky",
            cooperative.assign,
            _cooperative_claim,
            flow.load,
            _sticky_settings,
            owners=cooperative.owners,
            rounds=2,
            places=_sticky_places,
        ),
        Strategy(
            "compact-sticky",
            sticky.assign,
            _compact_claim,
            flow.load,
            _sticky_settings,
            owners=sticky.owners,
            places=_sticky_places,
        ),
        Strategy("metaq-default", metaq.default, owners=metaq.default_owners),
        Strategy(
            "metaq-consistent-hash",
            metaq.consistent_hash,
            settings=metaq.settings,
            owners=metaq.consistent_hash_owners,
        ),
        Strategy("average", rocketmq.average, owners=rocketmq.average_owners),
        Strategy("average-by-circle", rocketmq.average_by_circle, owners=rocketmq.average_by_circle_owners),
        Strategy(
            "rocketmq-consistent-hash",
            rocketmq.consistent_hash,
            settings=rocketmq.consistent_hash_settings,
            owners=rocketmq.consistent_hash_owners,
        ),
        Strategy(
            "machine-room-nearby",
            rocketmq.machine_room_nearby,
            settings=rocketmq.machine_room_nearby_settings,
            owners=rocketmq.machine_room_nearby_owners,
            tell=rocketmq.without_room,
            places=_both,
        ),
        Strategy("config", fixed.assign, settings=_config_settings, tell=fixed.deviations, places=_both),
        Strategy("consistent-hash", consistent.assign, settings=consistent.settings, owners=consistent.owners),
        Strategy(
            "weighted",
            weighted.assign,
            _weighted_claim,
            weighted.load,
            weighted.settings,
            owners=weighted.owners,
            tell=weighted.tell,
            rounds=2,
            inputs=carried.inputs,
            told=("weights", "weights_file", "capacity", "eager", "protocol"),
            plain=_weighted_plain,
        ),
    )
}


def claiming(name: str, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
    """The user data by which a member that was assigned `owned` claims them under that name; None where none does."""
    if name == "sticky" and owned:
        return userdata.encode_sticky(owned, generation)
    if name == "weighted" and owned:
        return carried.encode_within(owned, generation, None, None)[0]
    return compact.encode(owned, generation) if name == "compact-sticky" and owned else None


def _again(name: str, options: Mapping[str, Any]) -> Strategy:
    return strategy(name, **options)


def strategy(name: str, **options: Any) -> Strategy:
    """The strategy of a protocol name, with options.

    Raises:
        UnknownName: No strategy has that name; the message lists the known ones.
        ConfigError: It has no such option, or not with that value.
    """
    if name not in STRATEGIES:
        raise UnknownName("assignor", name, STRATEGIES)
    return STRATEGIES[name].having(**options) if options else STRATEGIES[name]


def read(
    protocol: str,
    members: Iterable[tuple[str, str | None, Subscription]],
    partitions: Mapping[str, int],
    racks: Racks | None = None,
    leaders: Leaders | None = None,
) -> Reading:
    """Turn what members sent into a `Group` for the strategy of that name.

    Args:
        protocol: Name of the elected assignor.
        members: (member id, instance id or None, subscription), in any order.
        partitions: topic -> partition count, as the leader sees the cluster.
        racks: topic -> per partition its replicas' racks; see `Group`.
        leaders: topic -> per partition its leader's rack; see `Group`.

    Returns:
        The group and the facts, in a fixed order. User data that cannot be read claims nothing.

    Raises:
        UnknownName: No strategy has the name.
    """
    claim = strategy(protocol).claim
    heard = list(members)
    subscriptions = [subscription for _, _, subscription in heard]
    # Equal ones share one object, most groups have one; and `bulk` makes equal tuples the same, which saves comparing.
    tuples = {id(subscription.topics): subscription.topics for subscription in subscriptions}
    different: dict[tuple[str, ...], frozenset[str]] = {}
    for topics_ in tuples.values():
        if topics_ not in different:
            different[topics_] = frozenset(topics_)
    sets = {key: different[topics_] for key, topics_ in tuples.items()}
    known = frozenset[str]().union(*different.values())
    counts = {topic: partitions.get(topic, limits.UNKNOWN_PARTITIONS) for topic in known} if claim else {}
    said = claim(subscriptions, counts) if claim else [userdata.Claim()] * len(heard)
    claimed = [_limited(each, counts) for each in said]
    joined = [
        Member(member_id, sets[id(subscription.topics)], instance_id, subscription.rack, owned, generation)
        for (member_id, instance_id, subscription), (owned, generation, _) in zip(heard, claimed, strict=True)
    ]
    facts = [
        Fact("garbage-user-data", member_id, f"member {member_id!r}: {garbage}; ignored")
        for (member_id, _, _), (_, _, garbage) in zip(heard, claimed, strict=True)
        if garbage
    ]
    facts += [Fact("unread", m, f"member {m!r} {each.unread}") for m, _, each in heard if each.unread]
    group = Group(joined, partitions, racks, leaders)
    sent = {member_id: subscription.generation for member_id, _, subscription in heard}
    return reading(protocol, group, facts, sent)


def _limited(claim: userdata.Claim, counts: Mapping[str, int]) -> userdata.Claim:
    """A claim without topics that nobody subscribes to; nothing where it is beyond the limit."""
    owned = claim.owned
    if not len(owned):
        return claim
    owned = Partitions.of(owned).among(counts)
    if len(owned) > limits.PARTITIONS:
        text = f"claims of {len(owned):,} partitions; {limits.PARTITIONS:,} are read at most"
        return userdata.Claim(garbage=text)
    return claim if owned is claim.owned else claim._replace(owned=owned)


def reading(protocol: str, group: Group, facts: Iterable[Fact] = (), sent: Mapping[str, int] | None = None) -> Reading:
    """A group as the strategy of that name reads it.

    Args:
        protocol: The strategy's name.
        group: The group.
        facts: What is known about it beside.
        sent: As in `Reading`.
    """
    claims = resolve(group) if strategy(protocol).claim else None
    told = [*facts, *facts_.of_topics(group), *(facts_.of_claims(claims) if claims else ())]
    return Reading(group, facts_.ordered(told), claims, sent or {})


def replay(
    protocol: str,
    members: Iterable[tuple[str, str | None, bytes]],
    partitions: Mapping[str, int],
    racks: Racks | None = None,
    leaders: Leaders | None = None,
    /,
    **options: Any,
) -> Assignment:
    """What our leader answers to these bytes.

    Args:
        protocol: Name of the elected assignor.
        members: (member id, instance id or None, ConsumerProtocolSubscription bytes), in any order.
        partitions: topic -> partition count, as the leader saw the cluster.
        racks: topic -> per partition its replicas' racks, as the leader saw them.
        leaders: topic -> per partition its leader's rack, as the leader saw it.
        options: The options its assignor was made with, as far as members tell none; those of a name above too, as
            ``racks``. What each member tells by itself, as `Strategy.told`, is read from the bytes.

    Returns:
        member id -> topic -> ascending partition ids; every member has an entry.

    Raises:
        UnknownName: No strategy has the name.
        ConfigError: It has no such option, or not with that value.
        WireError: A subscription that is none.
    """
    sent = list(members)
    read_ = bulk.subscriptions([data for _, _, data in sent])
    decoded = [(member_id, instance_id, each) for (member_id, instance_id, _), each in zip(sent, read_, strict=True)]
    told = STRATEGIES[protocol].told if protocol in STRATEGIES else ()
    options = {name: value for name, value in options.items() if name not in told}
    made, _ = strategy(protocol, **options).agreed(decoded)
    assignment, _ = made.answer(read(protocol, decoded, partitions, racks, leaders))
    return assignment
