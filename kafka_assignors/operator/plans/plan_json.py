"""Plans as JSON, including their input, to be kept, sent and replayed.

``format``, ``version``  ``"kafka-assignors plan"``, 1
``strategy``, ``options``  name and JSON values
``input``  ``members`` (``id``, ``instance``, ``rack``, ``subscription`` = index in ``subscriptions``, ``owned`` = runs
           of [topic, partition ids] as claimed, ``generation``), ``subscriptions``, ``partitions``, ``racks``,
           ``leaders``, ``generations``
``assignment``, ``target``  member id -> topic -> partition ids; ``target`` is null if it equals the assignment
``goals``, ``facts``, ``prices``  as in `Plan`
``cells``  topic -> member id -> price, as in `Certificate`; missing unless spread comes first
``load``  as in `Plan.load`; null or absent for strategies that count partitions
``loads``, ``moves``, ``withheld``  for readers of the JSON; `read` derives them from the other fields

Moves are [topic, partition, old, new, kind, why].
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.group import Group, Member, Partitions, TopicPartition
from ...core.group.facts import Fact
from ...core.group.order import utf16
from ...core.weighted.report import Load
from ...errors import ConfigError
from .certificate import Certificate, Price
from .values import Decision, Goal, Move, objective_of

FORMAT = "kafka-assignors plan"
VERSION = 1


def write(plan: Decision, moves: Sequence[Move], withheld: Mapping[TopicPartition, tuple[str, ...]]) -> str:
    """A decision as one line of JSON, with its moves and withheld partitions. Cost: O(partitions + claims)."""
    group = plan.group
    number: dict[frozenset[str], int] = {}
    for member in group.members:
        number.setdefault(member.topics, len(number))
    value = {
        "format": FORMAT,
        "version": VERSION,
        "strategy": plan.strategy,
        "options": plan.options,
        "input": {
            "members": [_member(member, number[member.topics]) for member in group.members],
            "subscriptions": [sorted(topics, key=utf16) for topics in number],
            "partitions": group.partitions,
            "racks": {
                topic: [sorted(replica_racks, key=utf16) for replica_racks in racks]
                for topic, racks in group.racks.items()
            },
            "leaders": group.leaders,
            "generations": plan.generations,
        },
        "assignment": plan.assignment,
        "target": None if plan.target == plan.assignment else plan.target,
        "goals": [[goal.name, goal.value, goal.least, goal.reached] for goal in plan.goals],
        "facts": [[fact.kind, fact.subject, fact.text] for fact in plan.facts],
        "prices": plan.certificate and plan.certificate.prices,
        **({"cells": plan.certificate.cells} if plan.certificate and plan.certificate.cells else {}),
        "load": plan.load and plan.load.to_json(),
        "loads": plan.loads,
        "moves": [[*move.partition, move.old, move.new, move.kind, move.why] for move in moves],
        "withheld": [[*partition, holders] for partition, holders in withheld.items()],
    }
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _member(member: Member, subscription: int) -> dict[str, Any]:
    owned = member.owned
    runs = [ids.tolist() for ids in np.split(np.asarray(owned.ids), np.cumsum(owned.counts, dtype=np.int64)[:-1])]
    return {
        "id": member.member_id,
        "instance": member.instance_id,
        "rack": member.rack,
        "subscription": subscription,
        "owned": [list(run) for run in zip(owned.topics, runs, strict=False)],
        "generation": member.generation,
    }


def read(text: str | bytes) -> Decision:
    """The decision that `write` wrote.

    Raises:
        ConfigError: The text is not JSON, not a plan, or a plan of an unknown version.
        UnknownName: This installation does not have its strategy.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the text is not a plan: {error}") from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ConfigError(f"the text is not a plan: 'format' is not {FORMAT!r}")
    if value.get("version") != VERSION:
        raise ConfigError(f"the plan has version {value.get('version')!r}; known: {VERSION}")
    try:
        return _decision(value)
    except ConfigError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ConfigError(f"the plan is damaged: {type(error).__name__}: {error}") from error


def _decision(value: Mapping[str, Any]) -> Decision:
    given = value["input"]
    subscriptions = [frozenset(topics) for topics in given["subscriptions"]]
    members = [
        Member(
            member["id"], subscriptions[member["subscription"]], member["instance"], member["rack"],
            _owned(member["owned"]), member["generation"],
        )
        for member in given["members"]
    ]  # fmt: skip
    objective = objective_of(value["strategy"], value["options"])  # raises for an unknown strategy or option
    certificate = None
    if value["prices"] is not None:
        cells = {topic: _prices(prices) for topic, prices in value.get("cells", {}).items()}
        certificate = Certificate(objective, _prices(value["prices"]), cells)
    return Decision(
        Group(members, given["partitions"], given["racks"], given["leaders"]),
        value["strategy"],
        value["options"],
        given["generations"],
        value["assignment"],
        value["assignment"] if value["target"] is None else value["target"],
        tuple(Fact(*fact) for fact in value["facts"]),
        tuple(Goal(*goal) for goal in value["goals"]),
        certificate,
        None if value.get("load") is None else Load.from_json(value["load"]),
    )


def _prices(value: Mapping[str, Any]) -> dict[str, Price]:
    return {member: (first, second, third) for member, (first, second, third) in value.items()}


def _owned(runs: list[Any]) -> Partitions:
    ids = [np.array(ids, np.int64) for _, ids in runs]
    return Partitions(
        [topic for topic, _ in runs], [len(array) for array in ids], np.concatenate([[], *ids]).astype(np.int64)
    )
