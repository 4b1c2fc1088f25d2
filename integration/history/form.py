"""The form of an event that a JSON Schema can't say: counts that fit their ranges, and lists that name nothing twice.

A damaged list or count may explain everything that a law reads from it, so it is a problem and not a violation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kafka_assignors.core.declaration import is_ours, options_of
from kafka_assignors.errors import ConfigError

MOST_PARTITIONS = 1 << 20
"""Partitions that one event may count: the laws look at each of them. A KRaft cluster has at most a few million."""

_MOST_S = 1e9


def fault_in(row: Mapping[str, Any]) -> str | None:
    """The first fault in the form of an event that fits the schema; None if there is none.

    >>> run = {"topic": "t", "partition": 0, "first": 3, "last": 5, "count": 2, "bytes": 9}
    >>> fault_in({"kind": "consume", "offsets": [run]})
    'offsets: t-0 from 3 to 5 are not 2 records'
    """
    check = _CHECKS.get(row["kind"])
    return None if check is None else next(check(row), None)


def _runs(row: Mapping[str, Any]) -> Iterator[str]:
    """A run is contiguous: its writer ends it where compaction or a marker of a transaction leaves a gap."""
    for run in row["offsets"]:
        if run["count"] < 1 or run["last"] - run["first"] + 1 != run["count"]:
            yield f"offsets: {_named(run)} from {run['first']} to {run['last']} are not {run['count']} records"


def _once(field: str) -> Callable[[Mapping[str, Any]], Iterator[str]]:
    return lambda row: _twice(field, map(_named, row[field]))


def _behind(field: str) -> Callable[[Mapping[str, Any]], Iterator[str]]:
    def check(row: Mapping[str, Any]) -> Iterator[str]:
        yield from _twice(field, map(_named, row[field]))
        for place in row[field]:
            if place["end"] < place["offset"]:
                yield f"{field}: {_named(place)} ends at {place['end']}, before {place['offset']}"

    return check


def _step(row: Mapping[str, Any]) -> Iterator[str]:
    yield from _twice("offsets", map(_named, row.get("offsets", ())))
    yield from _counts(row)


def _counts(row: Mapping[str, Any]) -> Iterator[str]:
    if (count := sum(row.get("topics", {}).values())) > MOST_PARTITIONS:
        yield f"topics: {count:,} partitions; an event has at most {MOST_PARTITIONS:,}"


def _leads(row: Mapping[str, Any]) -> Iterator[str]:
    yield from _twice("members", row["members"])
    yield from _counts(row)
    for field in ("racks", "leaders"):
        for topic, places in row.get(field, {}).items():
            if len(places) != row["topics"].get(topic):
                yield f"{field}: {len(places)} of {topic!r}, which has {row['topics'].get(topic)} partitions"


def _committed(row: Mapping[str, Any]) -> Iterator[str]:
    members: Sequence[Mapping[str, Any]] = row["members"]
    yield from _twice("members", (member["member_id"] for member in members))
    for member in members:
        yield from _twice(f"assigned of {member['member_id']!r}", map(_named, member["assigned"]))
        for field in ("subscription", "assignment"):
            if len(member[field]) % 2:
                yield f"{field} of {member['member_id']!r}: an odd number of digits"


def _starts(row: Mapping[str, Any]) -> Iterator[str]:
    for name in row["config"].get("assignors", ()):
        if not is_ours(name):
            continue
        try:
            _, options = options_of(name)
        except (ConfigError, RecursionError):
            yield f"config.assignors: the options of {name:.40} are no JSON"
            continue
        rest_s, goals = options.get("rest_s", 1), options.get("goals", [])
        if isinstance(rest_s, bool) or not isinstance(rest_s, (int, float)) or not abs(rest_s) <= _MOST_S:
            yield f"config.assignors: rest_s of {name:.40} is no number of seconds"
        if not isinstance(goals, list):
            yield f"config.assignors: goals of {name:.40} are no list"


_CHECKS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "start": _starts,
    **dict.fromkeys(("consume", "finished"), _runs),
    **{f"{what}_{edge}": _once("partitions") for what in ("assigned", "revoke", "lost") for edge in ("begin", "end")},
    "generation": _once("partitions"),
    "rewound": _once("offsets"),
    "assign_begin": _leads,
    "generation_committed": _committed,
    "step": _step,
    **dict.fromkeys(("topics", "admin_change", "admin_changed", "not_stable"), _counts),
    "not_drained": _behind("left"),
    "truncated": _behind("offsets"),
}
"""Kind -> what its form demands. What others wrote may name a partition twice: `owned` is what a client claimed, and
the offsets of a commit may be an application's own list."""


def _named(place: Mapping[str, Any]) -> str:
    return f"{place['topic']}-{place['partition']}"


def _twice(field: str, things: Iterable[Hashable]) -> Iterator[str]:
    all_things = set()
    for thing in things:
        if thing in all_things:
            yield f"{field}: {thing} is there twice"
        all_things.add(thing)
