"""The vote: which assignor a group uses, and why. Each member offers a list; the broker counts votes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.group.order import hash_order
from ..errors import ElectionError, UnknownName

COOPERATIVE = "cooperative-sticky"
CLIENTS: Mapping[str, frozenset[str] | None] = {
    "java": None,
    "librdkafka": frozenset({"range", "roundrobin", COOPERATIVE}),
    "kafka-python": None,
    "aiokafka": None,
    "franz-go": None,
    "sarama": None,
    "kafka-assignors": None,
}
"""Types of members, and the assignor names each can offer; None if unrestricted. "kafka-python" and "aiokafka" mean
these clients with assignors of their own, "kafka-assignors" means any client with ours."""
_REFUSE_BOTH = ("librdkafka", "kafka-python")
_STICKY_APART = {
    "kafka-python": "writes user data that Java and aiokafka can't read, and can't read theirs",
    "aiokafka": "sends no generation, so its old claims count as much as new ones",
}


@dataclass(frozen=True)
class Election:
    """The outcome of an election.

    Args:
        candidates: Assignors that every member offers, in the order that breaks ties.
        votes: candidate -> number of votes; 0 for candidates without a vote.
        voted: member id -> the candidate it voted for: the first in its own list.
        tied: Candidates with as many votes as the winner, including the winner; empty if there is no tie.
        warnings: Unsafe or unfinished combinations of these lists, one line each.
    """

    winner: str
    candidates: tuple[str, ...]
    votes: Mapping[str, int]
    voted: Mapping[str, str]
    tied: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def explanation(self) -> str:
        """One line: the winner, the votes, and how a tie was broken."""
        if len(self.candidates) == 1:
            return f"{self.winner} wins: only this assignor is offered by all {len(self.voted)} members"
        counts = " : ".join(
            f"{name} {count}" for name, count in sorted(self.votes.items(), key=lambda item: (-item[1], item[0]))
        )
        if not self.tied:
            return f"{self.winner} wins by votes, {counts}"
        return f"{self.winner} wins a tie, {counts}; the broker chooses the first in hash order, {', '.join(self.tied)}"


def elect(members: Mapping[str, Sequence[str]], clients: Mapping[str, str] | None = None) -> Election:
    """Elect an assignor as the broker does.

    Candidates are the assignors that every member offers. Each member votes for the first candidate in its own list,
    and the most votes win. A tie goes to the name that comes first in the broker's hash map, whatever the lists say.
    Names that share a bucket there (none of Java's do, "optimal" and "consistent-hash" do) are in the order of the
    members' hash map. With other member ids than the real ones, or after members have left, their order may differ.

    Args:
        members: member id -> the assignor names it offers, in order of preference; in the order they joined.
        clients: member id -> its type in `CLIENTS`, if known; enables warnings that names alone do not give.

    Raises:
        ElectionError: The group is empty, a member offers nothing, or no assignor is offered by all
            (INCONSISTENT_GROUP_PROTOCOL); the message says which member lacks what.
        UnknownName: A client type is not in `CLIENTS`.

    Cost: O(total names offered). Deterministic.
    Source: ``ClassicGroup.selectProtocol`` of apache/kafka 4.3.0; ties follow the iteration order of its HashMap.

    >>> elect({"c1": ["range", "roundrobin"], "c2": ["roundrobin", "range"]}).explanation
    'range wins a tie, range 1 : roundrobin 1; the broker chooses the first in hash order, range, roundrobin'
    """
    if not members:
        raise ElectionError("the group has no members; a vote needs at least one")
    for member_id, offered in members.items():
        if isinstance(offered, str) or not offered:
            raise ElectionError(
                f"member {member_id!r} offers {offered!r}; expected a list of at least one assignor name"
            )
    offers = {member_id: dict.fromkeys(offered) for member_id, offered in members.items()}
    common = set.intersection(*(set(offered) for offered in offers.values()))
    if not common:
        raise ElectionError(_no_common(offers))

    voted = {member_id: next(name for name in offered if name in common) for member_id, offered in offers.items()}
    candidates = tuple(hash_order(sorted(common)))
    votes = {name: sum(vote == name for vote in voted.values()) for name in candidates}
    most = max(votes.values())
    # The broker counts votes in the order of its members' hash map; names in one bucket keep that order.
    counted = [voted[member_id] for member_id in hash_order(offers)]
    tied = tuple(name for name in hash_order(counted) if votes[name] == most)
    warnings = (*_unfinished(offers), *_between_clients(offers, tied[0], clients or {}))
    return Election(tied[0], candidates, votes, voted, tied if len(tied) > 1 else (), warnings)


def _unfinished(offers: Mapping[str, Mapping[str, None]]) -> Iterator[str]:
    """Report the progress of a change from eager to cooperative assignors, which takes two rolling bounces."""
    both = [m for m, offered in offers.items() if COOPERATIVE in offered and len(offered) > 1]
    alone = [m for m, offered in offers.items() if [*offered] == [COOPERATIVE]]
    without = [m for m, offered in offers.items() if COOPERATIVE not in offered]
    if both and without:
        yield (
            f"rolling bounce 1 to {COOPERATIVE} is incomplete: {_some(without)} without it. Until it is complete, a "
            "member that offers it alone is rejected (INCONSISTENT_GROUP_PROTOCOL)"
        )
    elif both and alone:
        yield (
            f"rolling bounce 2 to {COOPERATIVE} is incomplete: {_some(both)} still EAGER because of other names in the "
            "list, and stops for each rebalance"
        )
    elif both:
        yield (
            f"all members offer {COOPERATIVE} with other names, so all stay EAGER: restart each once more, with "
            f"{COOPERATIVE} alone"
        )


def _between_clients(
    offers: Mapping[str, Mapping[str, None]], winner: str, clients: Mapping[str, str]
) -> Iterator[str]:
    for member_id, offered in offers.items():
        client = clients.get(member_id)
        if client is None:
            continue
        if client not in CLIENTS:
            raise UnknownName("client", client, CLIENTS)
        can = CLIENTS[client]
        if can is not None and (missing := [name for name in offered if name not in can]):
            yield f"member {member_id!r}: {client} has no assignor {', '.join(missing)}, and accepts no others"
        elif client in _REFUSE_BOTH and COOPERATIVE in offered and len(offered) > 1:
            yield (
                f"member {member_id!r}: {client} rejects {COOPERATIVE} beside an eager assignor, so it can't take part "
                "in a rolling change; stop its members first, or move them to kafka-assignors"
            )
    if len({*clients.values()}) > 1 or len(clients) < len(offers):
        for client in sorted({*clients.values()}):
            if winner == "sticky" and client in _STICKY_APART:
                yield f"'sticky' wins, but {client}'s assignor {_STICKY_APART[client]}: partitions move needlessly"
    if winner == COOPERATIVE and "kafka-python" in clients.values():
        yield (
            f"{COOPERATIVE!r} wins, but kafka-python's assignor claims its last assignment even after it was fenced: "
            "partitions may stay unassigned, or get two owners if it leads"
        )


def _some(members: Sequence[str]) -> str:
    shown = ", ".join(map(repr, members[:3]))
    if len(members) > 3:
        shown += f" and {len(members) - 3} more"
    return f"{shown} {'is' if len(members) == 1 else 'are'}"


def _no_common(offers: Mapping[str, Mapping[str, None]]) -> str:
    """Name the most common assignor, and the members that lack it."""
    offered_by = {
        name: [m for m, offered in offers.items() if name in offered] for offered in offers.values() for name in offered
    }
    best = max(sorted(offered_by), key=lambda name: len(offered_by[name]))
    lacking = [f"{member!r} (offers {', '.join(offered)})" for member, offered in offers.items() if best not in offered]
    bounces = ""
    if COOPERATIVE in offered_by and any([*offered] == [COOPERATIVE] for offered in offers.values()):
        bounces = (
            f". A change to {COOPERATIVE} takes two rolling bounces: first add it to every member's list, then remove "
            "the old name"
        )
    return (
        f"INCONSISTENT_GROUP_PROTOCOL: no assignor is offered by all {len(offers)} members; {best!r} comes closest; "
        f"members without it: {', '.join(lacking)}. Add it to their partition_assignment_strategy{bounces}"
    )
