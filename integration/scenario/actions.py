"""The actions in a scenario's steps, as values. Nothing here runs; `runner` performs them.

In a scenario file an action is an object: its name with its first field's value, then its other fields. Examples:
``{"kill": "m1"}``, ``{"join": "m4", "static": true}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from ..proxy.rules import Cut, Delay, Drop, NetworkFault, Reset

__all__ = [
    "ACTIONS", "COORDINATOR", "NEED_RECORDS", "OF_NODES", "Action", "AddPartitions", "CreateTopic", "Cut", "Delay",
    "DeleteTopic", "Drop", "Heal", "Join", "Kill", "KillNode", "Leave", "NetworkFault", "Overwork", "Pause",
    "PauseAtWork", "PauseNode", "Reset", "RestartNodes", "RestoreNodes", "Resume", "Stall", "StallAssign", "StopNode",
    "Subscribe", "UncleanElection", "WaitEnd", "WaitStalled", "brings",
]  # fmt: skip

COORDINATOR = "coordinator"
"""Used in place of a node's number: the node that coordinates the group at that moment."""


@dataclass(frozen=True)
class OfMember:
    """An action of or on one running member."""

    member: str


@dataclass(frozen=True)
class OfNode:
    """An action on one node: its number, or `COORDINATOR`."""

    node: int | str


@dataclass(frozen=True)
class Join:
    """A member starts."""

    member: str
    assignors: tuple[str, ...] = ()  # its ordered list of assignors; empty: the scenario's
    topics: tuple[str, ...] = ()  # its subscription; empty: all topics of the scenario, unless there is a pattern
    static: bool = False  # it has an instance id (its name), so it may restart without a rebalance
    client: str = "kafka-python"
    pattern: str | None = None  # regular expression: it subscribes to the topics whose names match
    instance: str | None = None  # its instance id, if not its name; two members with the same id fence each other
    consumer: Mapping[str, Any] = field(default_factory=dict)  # by kafka-python's names; they override the scenario's


@dataclass(frozen=True)
class Leave(OfMember):
    """A member hands its partitions over (`kafka_assignors.leave`), for at most `hand_over_s` s, and then leaves.

    With `grace_s` it is killed if it still runs so many seconds after it was asked. Members whose leaves stand one
    after the other in a step, with the same numbers, are then asked at the same time, as by an orchestrator.
    """

    hand_over_s: float = 0
    grace_s: float | None = None


class Kill(OfMember):
    """A member's process gets SIGKILL. The coordinator notices when the session ends."""


class Pause(OfMember):
    """A member's process gets SIGSTOP. The coordinator evicts it when the session ends."""


class PauseAtWork(OfMember):
    """Pause a member while it works on consumed records, before it begins to commit them: it may become a zombie."""


class Overwork(OfMember):
    """A member works on records for longer than its poll interval. Heartbeats continue, but it leaves the group.

    Its ``app_work_ms`` must exceed its ``max_poll_interval_ms``. The run continues when its commit has been answered.
    """


class Stall(OfMember):
    """A member stops polling while its heartbeats continue. It is out of the group after ``max_poll_interval_ms``."""


class Resume(OfMember):
    """A paused or stalled member continues."""


class StallAssign(OfMember):
    """A member will stall the next time it assigns as leader."""


class WaitStalled(OfMember):
    """Wait until the member stalls in its assign. It is out of the group when its session ends."""


class WaitEnd(OfMember):
    """Wait until the member has ended on its own, as a fenced member must."""


@dataclass(frozen=True)
class Subscribe(OfMember):
    """A member changes its subscription in place: to these topics, or to a pattern."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None


@dataclass(frozen=True)
class CreateTopic:
    """A topic is created."""

    topic: str
    partitions: int


@dataclass(frozen=True)
class AddPartitions:
    """A topic grows to this number of partitions."""

    topic: str
    partitions: int


@dataclass(frozen=True)
class DeleteTopic:
    """A topic is deleted."""

    topic: str


class Heal(OfMember):
    """The network faults of a member end. `member` is the name that these faults have."""


class KillNode(OfNode):
    """A node's JVM gets SIGKILL and stays dead until `RestoreNodes`."""


class StopNode(OfNode):
    """A node is stopped in order: it first hands over what it leads. It stays away until `RestoreNodes`."""


class PauseNode(OfNode):
    """A node is frozen (SIGSTOP) until `RestoreNodes`; its connections stay open."""


@dataclass(frozen=True)
class RestoreNodes:
    """Every killed, stopped or paused node comes back, and all replicas get in sync again."""


@dataclass(frozen=True)
class RestartNodes:
    """Each node in turn is stopped and started. The next one follows when all replicas are in sync again."""


@dataclass(frozen=True)
class UncleanElection:
    """A replica that misses acknowledged records becomes the leader of a lossy topic's partition: the records are lost.

    The follower is stopped while records are sent, the leader is killed, then the follower comes back and is elected.
    The old leader stays away until `RestoreNodes`.
    """

    topic: str
    partition: int = 0


Action = (
    Join | Leave | Kill | Pause | PauseAtWork | Overwork | Stall | Resume | StallAssign | WaitStalled | WaitEnd
    | Subscribe | CreateTopic | AddPartitions | DeleteTopic | KillNode | StopNode | PauseNode | RestoreNodes
    | RestartNodes | UncleanElection | Heal | Cut | Delay | Drop | Reset
)  # fmt: skip
ACTIONS: Mapping[str, type[Any]] = {
    re.sub("(?<!^)(?=[A-Z])", "_", action_class.__name__).lower(): action_class for action_class in get_args(Action)
}
"""Name in a scenario file -> action: ``pause_at_work`` is `PauseAtWork`."""
OF_NODES = (KillNode, StopNode, PauseNode, RestoreNodes, RestartNodes, UncleanElection)
"""Actions on brokers. They need a cluster."""
NEED_RECORDS = (*OF_NODES, PauseAtWork, Overwork, Stall, Subscribe, WaitEnd)
"""Actions whose effect shows only between two polls, or by commits."""
_BACK = (Join, Resume, Heal)
_OUT = (Leave, Kill, Pause, PauseAtWork, Stall, WaitStalled, WaitEnd)


def brings(action: Action) -> bool | None:
    """Whether an action brings its member into the group (True), takes it out (False), or does neither (None)."""
    if isinstance(action, _BACK):
        return True
    # A cut with an end may or may not outlast a session.
    if isinstance(action, _OUT) or (isinstance(action, Cut) and not action.ends):
        return False
    return None
