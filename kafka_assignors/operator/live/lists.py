"""The assignor lists of a live group: the known lists, the winner, and how to change them safely. Pure.

No broker returns a member's whole list: DescribeGroups and the coordinator's log have only the elected assignor. Every
member certainly offers the elected one. The user may add known lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...core.strategies import STRATEGIES, strategy
from ...errors import ConfigError
from ..election import COOPERATIVE, Election, elect
from .group import LiveGroup


@dataclass(frozen=True)
class Vote:
    """The result of an election.

    Args:
        elected: The assignor elected now; None if the group is empty.
        lists: Member's name -> its list from the user; None: only the elected one is known.
        election: The next election, if every list is known and it has a winner.
        allowed: Whether the new member may join: True, False, or None if that depends on unknown lists. None too if
            none was asked about.
        why: One sentence for `allowed`, or for the missing election.
        bounces: Steps to change to the assignor asked for, in order; empty if none was asked for.
    """

    elected: str | None
    lists: Mapping[str, tuple[str, ...] | None]
    election: Election | None
    allowed: bool | None
    why: str
    bounces: tuple[str, ...]


def vote(
    live: LiveGroup,
    adding: Sequence[str] = (),
    offers: Mapping[str, Sequence[str]] | None = None,
    to: str | None = None,
) -> Vote:
    """The next election of a group.

    Args:
        live: The group.
        adding: The list of a member that would join; empty: none.
        offers: Client id, instance id or member name -> its list, from the user; ``*`` for all others.
        to: The assignor to change to; None: no change.

    Raises:
        ConfigError: A given list lacks the elected assignor, which every member offers, or names no member.
    """
    elected = live.protocol or None
    lists = _lists(live, elected, offers or {})
    full_lists = {name: offered for name, offered in lists.items() if offered is not None}
    whole = len(full_lists) == len(lists)
    election: Election | None = None
    allowed: bool | None = None
    why = "" if whole else "no broker tells the members' lists beyond the elected assignor; tell them by --offer"
    if adding:
        allowed, why = _joins(elected, lists, adding)
    voters = {**full_lists, **({"(new)": tuple(adding)} if adding else {})}
    if whole and voters and allowed is not False:
        election = elect(voters)
    bounces = tuple(_bounces(elected, to, lists)) if to is not None else ()
    return Vote(elected, lists, election, allowed, why, bounces)


def _lists(
    live: LiveGroup, elected: str | None, offers: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...] | None]:
    called = live.names
    unused = set(offers) - {"*"}
    lists: dict[str, tuple[str, ...] | None] = {}
    for member in live.members:
        name = called[member.member_id]
        keys = (member.member_id, name, member.instance_id, member.client_id)
        key = next((key for key in keys if key is not None and key in offers), "*" if "*" in offers else None)
        unused -= {key for key in keys if key is not None}
        offered = None if key is None else tuple(offers[key])
        if offered is not None and elected is not None and elected not in offered:
            raise ConfigError(
                f"--offer {key}={','.join(offered)}: every member offers {elected}, which the group elected; add it"
            )
        lists[name] = offered
    if unused:
        raise ConfigError(
            f"--offer {min(unused)}: group {live.group!r} has no such member; its members: "
            f"{', '.join(sorted(called.values())[:8])}"
        )
    return lists


def _joins(
    elected: str | None, lists: Mapping[str, tuple[str, ...] | None], adding: Sequence[str]
) -> tuple[bool | None, str]:
    offered = ",".join(adding)
    if elected is None:
        return True, "the group is empty: a member with any list may join"
    if elected in adding:
        return True, f"a member that offers {offered} may join: every member offers {elected} too"
    full_lists = [set(names) for names in lists.values() if names is not None]
    common = set(adding).intersection(*full_lists) if full_lists else set(adding)
    if not common:
        lacking = [name for name, names in lists.items() if names is not None and not set(adding) & set(names)]
        who = f"{lacking[0]} offers none of these" if lacking else "no one of these is offered by all members"
        return False, f"a member that offers {offered} is refused (INCONSISTENT_GROUP_PROTOCOL): {who}"
    if len(full_lists) == len(lists):
        return True, f"a member that offers {offered} may join: every member offers {min(common)}"
    return None, (
        f"a member that offers {offered} is refused (INCONSISTENT_GROUP_PROTOCOL) unless every member offers one of "
        f"these beside {elected}, which no broker tells; add {elected} to its list, or tell the lists by --offer"
    )


def _bounces(elected: str | None, to: str, lists: Mapping[str, tuple[str, ...] | None]) -> Iterator[str]:
    """The rolling bounces from the elected assignor to another one, each safe at every moment."""
    cooperative = strategy(to).withholds if to in STRATEGIES else to == COOPERATIVE
    members = ", ".join(lists) if len(lists) <= 6 else f"all {len(lists)} members"
    if elected is None:
        yield f"the group is empty: start its members with {to}"
        return
    if elected == to:
        yield f"{to} is elected already; take other names out of the lists, one member after another"
        return
    yield f"bounce 1: restart {members}, one after another, with the list {to},{elected}"
    if cooperative:
        yield (
            f"until every member has it, {elected} stays elected and all stay EAGER: a member that offers {to} alone "
            "would be refused now"
        )
    else:
        yield f"{to} wins once every member offers it and most list it first; until then {elected} stays elected"
    yield f"check: kafka-assignors vote GROUP --offer '*={to},{elected}' shows who wins"
    yield f"bounce 2: restart them, one after another, with {to} alone" + (
        "; then they rebalance cooperatively" if cooperative else ""
    )
    yield f"way back: until bounce 2 begins, put {elected} first again; later, the same two bounces the other way round"
