"""The vote: which assignor a group uses, and why. Each member offers a list, the broker counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .core.order import hash_order
from .errors import ElectionError


@dataclass(frozen=True)
class Election:
    """An election's outcome.

    Args:
        winner: The elected assignor.
        candidates: Assignors that every member offers, in the order that decides ties.
        votes: candidate -> members that voted for it; candidates without a vote have 0.
        voted: member id -> the candidate it voted for: the first of its own list.
        tied: Candidates with as many votes as the winner, the winner among them; empty when there was no tie.
    """

    winner: str
    candidates: tuple[str, ...]
    votes: Mapping[str, int]
    voted: Mapping[str, str]
    tied: tuple[str, ...]

    @property
    def explanation(self) -> str:
        """One line: who won, by how many votes, and what decided a tie."""
        if len(self.candidates) == 1:
            return f"{self.winner} wins: it is the only assignor that all {len(self.voted)} members offer"
        counts = " : ".join(
            f"{name} {count}" for name, count in sorted(self.votes.items(), key=lambda item: (-item[1], item[0]))
        )
        if not self.tied:
            return f"{self.winner} wins by votes, {counts}"
        return f"{self.winner} wins a tie, {counts}; the broker takes the first in hash order, {', '.join(self.tied)}"


def elect(members: Mapping[str, Sequence[str]]) -> Election:
    """Elect as the broker does.

    Candidates are the assignors that every member offers. Each member votes for the first candidate of its own list;
    the most votes win; a tie goes to the name that comes first in the broker's hash map, whatever the lists say.

    Args:
        members: member id -> the assignor names it offers, in its order of preference.

    Returns:
        The outcome, with all that led to it.

    Raises:
        ElectionError: The group is empty, a member offers nothing, or no assignor is offered by all
            (INCONSISTENT_GROUP_PROTOCOL); the message says which member lacks what.

    Cost: O(names offered in all). Deterministic.
    Source: ``ClassicGroup.selectProtocol`` of apache/kafka 4.3.0; the tie is the iteration order of its HashMap.

    >>> elect({"c1": ["range", "roundrobin"], "c2": ["roundrobin", "range"]}).explanation
    'range wins a tie, range 1 : roundrobin 1; the broker takes the first in hash order, range, roundrobin'
    """
    if not members:
        raise ElectionError("the group has no members; nobody votes")
    for member_id, offered in members.items():
        if isinstance(offered, str) or not offered:
            raise ElectionError(
                f"member {member_id!r} offers {offered!r}; it needs a list of at least one assignor name"
            )
    offers = {member_id: dict.fromkeys(offered) for member_id, offered in members.items()}
    common = set.intersection(*(set(offered) for offered in offers.values()))
    if not common:
        raise ElectionError(_no_common(offers))

    voted = {member_id: next(name for name in offered if name in common) for member_id, offered in offers.items()}
    candidates = tuple(hash_order(sorted(common)))
    votes = {name: sum(vote == name for vote in voted.values()) for name in candidates}
    most = max(votes.values())
    tied = tuple(name for name in hash_order(sorted({*voted.values()})) if votes[name] == most)
    return Election(tied[0], candidates, votes, voted, tied if len(tied) > 1 else ())


def _no_common(offers: Mapping[str, Mapping[str, None]]) -> str:
    """Name the assignor that comes closest, and who lacks it."""
    having = {
        name: [m for m, offered in offers.items() if name in offered] for offered in offers.values() for name in offered
    }
    best = max(sorted(having), key=lambda name: len(having[name]))
    lacking = [f"{member!r} (offers {', '.join(offered)})" for member, offered in offers.items() if best not in offered]
    return (
        f"INCONSISTENT_GROUP_PROTOCOL: no assignor is offered by all {len(offers)} members; {best!r} comes closest, "
        f"but it lacks in {', '.join(lacking)}. Add it to those members' partition_assignment_strategy"
    )
