"""Base class of all strategies: a name, options, and an assignment that depends only on the group."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..errors import ConfigError
from .declaration import MemberOptions, Of, Options, plain, unknown
from .group import NO_GENERATION, Group, TopicPartition
from .group import facts as facts_
from .group import options as options_
from .group.assignment import Assignment, holding
from .group.claims import Claims, resolve
from .group.facts import Fact
from .group.indexed import Indexed, Ints
from .wire import bulk, compact, userdata
from .wire.protocol import Subscription

Joined = tuple[str, str | None, Subscription]
"""A member as it joined: member id, instance id or None, subscription."""

Self = TypeVar("Self", bound="Strategy")


@dataclass(frozen=True)
class Decoded:
    """A group, decoded from its members' subscriptions.

    Args:
        facts: Dropped claims and other irregularities.
        claims: The resolved claims; None for a strategy that ignores claims.
        generations: member id -> generation in its subscription, which may differ from that of its claims.
    """

    group: Group
    facts: tuple[Fact, ...]
    claims: Claims | None = None
    generations: Mapping[str, int] = field(default_factory=dict)


class Strategy:
    """One strategy; a subclass is a family of strategies. Strategies with equal names and options are equal.

    A family defines `owners`. If it has options, it names the class that declares them, and defines `configure` if
    anything is computed from them. It defines `needs` and `facts` if the defaults do not apply. A family with claims
    defines how they are written (`user_data`, `claiming`) and read (`claims_of`). It defines `agreed` if members send
    more than options and claims.

    Attributes:
        name: Its protocol name, as members offer it in JoinGroup.
        declared: The class that declares its options.
        given: The values of all options.
        options: The options chosen, all JSON values; see `with_options`.
        uses_claims: Whether its assignment depends on what members claim to hold.
        withholds: Whether a partition that leaves a member that still holds it stays unassigned for one rebalance.
    """

    declared: type[Options] = MemberOptions
    given: Options
    uses_claims = False
    withholds = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.options: Mapping[str, Any] = {}
        self.given = self.declared()
        self.configure()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Strategy):
            return NotImplemented
        return (type(self), self.name, self.options) == (type(other), other.name, other.options)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"{type(self).__name__}({self.name!r}{options})"

    def configure(self) -> None:
        """Compute what follows from `given`."""

    def load(self) -> None:
        """Import the modules that take long to import; call it before the first join."""

    def defaults(self) -> Mapping[str, Any]:
        """All options that a plan takes, with their defaults."""
        return {name: option.in_plans[1] for name, option in self.declared.of_plans().items()}

    @property
    def individual(self) -> Collection[str]:
        """Names of options that each member sets for itself, and of those of plans alone.

        There is no vote on them, and a replay reads them from the bytes.
        """
        declared = self.declared.declared.items()
        return {name for own, option in declared if option.of is not Of.GROUP for name in (own, option.called)}

    @property
    def unsent(self) -> Mapping[str, Any]:
        """Option -> a value with which a leader raises. Members don't send it, and it is refused from them."""
        return {name: option.unsent for name, option in self.declared.of_group().items() if option.unsent is not None}

    def with_options(self: Self, /, **options: Any) -> Self:
        """This strategy with these options, others at their defaults; ConfigError for an unknown or invalid one."""
        defaults = self.defaults()
        for option in options:
            if option not in defaults:
                raise unknown(f"assignor {self.name!r}", option, defaults)
        made = copy.copy(self)
        made.given = self.declared(**options)
        made.options = {name: self.declared.declared[name].json(value) for name, value in options.items()}
        made.configure()
        return made

    def told_options(self) -> Mapping[str, Any]:
        """The options that members send to each other: those with other values than the defaults."""
        group, unsent = self.declared.of_group(), self.unsent
        return {
            name: value
            for name, value in self.options.items()
            if name in group and value != plain(group[name].default) and not (name in unsent and value == unsent[name])
        }

    def as_told(self: Self, option_bytes: bytes) -> Self | None:
        """This strategy with options that a member sent, validated as those of a constructor; None for a digest.

        Raises:
            ValueError: The bytes, of any origin, are no options of this strategy, or options that no member sets for
                others. A `ConfigError` is one.
        """
        chosen = options_.read(option_bytes)
        if chosen is None:
            return None
        for option, value in chosen.items():
            if option in self.individual:
                raise ConfigError(f"each member sets {option} for itself, and no member for others")
            if option in self.unsent and value == self.unsent[option]:
                raise ConfigError(f"{option}={value!r} would stop the leader of other members")
        return self.with_options(**chosen)

    @property
    def hashes_ids(self) -> bool:
        """Whether the assignment depends on the ids of dynamic members beyond their order."""
        return False

    def needs(self) -> Collection[str]:
        """Which of a group's ``racks`` and ``leaders`` the assignment depends on; only these are looked up."""
        return ()

    def facts(self, group: Group) -> Iterable[Fact]:
        """Irregularities of a group under this strategy."""
        return ()

    def user_data(
        self,
        owned: Sequence[TopicPartition] | None,
        generation: int,
        rack: str | None = None,
        instance_id: str | None = None,
    ) -> tuple[bytes | None, str]:
        """The user data that a member sends, and why they claim nothing although it owns partitions; "" otherwise.

        `owned` is its last assignment, None before the first one.
        """
        if self.name in userdata.JAVAS:
            return userdata.of_java(self.name, owned, generation, options_.tell(self.told_options())), ""
        kept = owned if self.uses_claims else None
        since = NO_GENERATION if kept is None else generation
        return compact.encode_within(kept or (), since, rack, instance_id, options_.tell(self.told_options()))

    def compact_data(self, user_data: bytes | None) -> compact.CompactData:
        """The fields of our user data besides claims: generation, rack, instance id; empty for other user data."""
        return compact.CompactData() if self.name in userdata.JAVAS else compact.decode(user_data, {})

    def told_by(self, user_data: bytes | None) -> bytes:
        """The options in a member's user data, as `options.tell` returned them; b"" if there are none. Never raises."""
        return (
            userdata.options(self.name, user_data) if self.name in userdata.JAVAS else compact.options(user_data or b"")
        )

    def claiming(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """The user data that claim a member's assignment; None if user data have no claims."""
        return None

    def claims_of(self, subscriptions: Sequence[Subscription], counts: Mapping[str, int]) -> Sequence[userdata.Claim]:
        """The partitions that members claim to hold; `counts` has the topics that they subscribe to."""
        raise NotImplementedError

    def rejoining(
        self,
        sent: Sequence[Subscription],
        owned: Sequence[Sequence[TopicPartition]],
        generation: int,
        partitions: Mapping[str, int],
    ) -> list[Subscription]:
        """What members will send when they join again, as far as their last subscriptions tell.

        Each claims what it owns then, where its user data and its version have room for claims. Its options and figures
        are those that it sent last, read within `partitions`. What a leader can't read stays as it is.
        """
        return [
            subscription if subscription.unread else self._again(subscription, tps, generation)
            for subscription, tps in zip(sent, owned, strict=True)
        ]

    def _again(self, sent: Subscription, owned: Sequence[TopicPartition], generation: int) -> Subscription:
        return sent._replace(generation=generation) if sent.version > 1 else sent

    def agreed(self: Self, members: Iterable[Joined], partitions: Mapping[str, int]) -> tuple[Self, tuple[Fact, ...]]:
        """This strategy with the options in effect in a group, and facts about them. Nothing that members send raises.

        The options that more than half of the members send are in effect, under any leader; otherwise the leader's own
        are. A member that sends none has the defaults; under Java's names it may be another client, and counts for no
        options. A digest (`options.MOST`) counts for the options of a leader that sends it, too.
        """
        members = list(members)
        if not self.defaults():
            return self, ()
        told_by = [self.told_by(subscription.user_data) for _, _, subscription in members]
        if not any(told_by):  # the usual group
            return self, ()
        senders: dict[bytes, list[str]] = {}
        for option_bytes, (member_id, _, _) in zip(told_by, members, strict=True):
            senders.setdefault(option_bytes, []).append(member_id)
        mine = options_.tell(self.told_options())
        silent = senders.pop(b"", [])
        made: dict[bytes, Self | None] = {}
        facts = []
        for option_bytes, by in list(senders.items()):
            try:
                made[option_bytes] = self if option_bytes == mine else self.as_told(option_bytes)
            except ValueError as error:  # a ConfigError is one
                del senders[option_bytes]
                text = f"options of member {by[0]!r} can't be read: {error}; ignored"
                facts.append(Fact("options-unread", by[0], text))
        if silent and (mine == b"" or self.name not in userdata.JAVAS):
            senders[b""] = silent
            made[b""] = self if mine == b"" else self.with_options()
        most = next((option_bytes for option_bytes, by in senders.items() if 2 * len(by) > len(members)), None)
        elected = (None if most is None else made[most]) or self  # a digest of options that the leader lacks names none
        if len(senders) > 1 or (senders and mine not in senders):
            facts.append(options_.differ(senders, most, elected.told_options()))
        return elected, facts_.ordered(facts)

    def owners(self, indexed: Indexed, claims: Claims | None) -> Ints:
        """The assignment: int[P], the number of each position's owner; `UNASSIGNED` if it has none.

        If `uses_claims`, `claims` are the group's resolved claims.
        """
        raise NotImplementedError

    def place(self, group: Group) -> Assignment:
        """The assignment of a group: member id -> topic -> ascending partition ids; every member has an entry."""
        indexed, claims = self._indexed(group, None)
        return indexed.assignment(self.owners(indexed, claims))

    def assign(self, decoded: Decoded) -> tuple[Assignment, tuple[Fact, ...]]:
        """The assignment of a decoded group, and facts about it."""
        indexed, claims = self._indexed(decoded.group, decoded.claims)
        return indexed.assignment(self.owners(indexed, claims)), facts_.ordered(self.facts(decoded.group))

    def assign_bytes(self, decoded: Decoded) -> tuple[Mapping[str, bytes | memoryview], tuple[Fact, ...]]:
        """`assign` with each member's part encoded as an assignment; many times faster in a large group."""
        indexed, claims = self._indexed(decoded.group, decoded.claims)
        return bulk.assignments(indexed, self.owners(indexed, claims)), facts_.ordered(self.facts(decoded.group))

    def echoing(
        self, assignments: Mapping[str, bytes | memoryview], members: Iterable[Joined], generation: int
    ) -> Mapping[str, bytes | memoryview]:
        """The assignments of `assign_bytes` with what other clients' members must send back as claims."""
        return assignments

    def settles_as(self, decoded: Decoded, assignment: Assignment) -> Assignment:
        """The assignment after the last rebalance: the given one, of `assign`, if one rebalance is enough.

        If it withholds partitions, members hold their parts of it and have revoked the rest, and the result is the
        assignment of the next rebalance.
        """
        if not self.withholds:
            return assignment
        generations = (member.generation for member in decoded.group.members)
        generation = 1 + max([NO_GENERATION, *generations, *decoded.generations.values()])
        members = holding(decoded.group.members, assignment, generation)
        group = Group(members, decoded.group.partitions, decoded.group.racks, decoded.group.leaders)
        return self.assign(Decoded(group, (), resolve(group), dict.fromkeys(decoded.generations, generation)))[0]

    def _indexed(self, group: Group, claims: Claims | None) -> tuple[Indexed, Claims | None]:
        if not self.uses_claims:
            return Indexed(group), None
        claims = claims or resolve(group)
        return claims.indexed, claims
