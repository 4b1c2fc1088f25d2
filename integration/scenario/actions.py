"""What may happen in a step of a scenario, as values. Nothing here runs; `runner` makes it happen.

In a scenario file an action is an object with its name and what it is about, and its other fields: ``{"kill": "m1"}``,
``{"join": "m4", "static": true}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..proxy.rules import Cut, Delay, Drop, NetworkFault, Reset

__all__ = [
    "ACTIONS", "COORDINATOR", "NEED_RECORDS", "OF_NODES", "Action", "AddPartitions", "CreateTopic", "Cut", "Delay",
    "DeleteTopic", "Drop", "Heal", "Join", "Kill", "KillNode", "Leave", "NetworkFault", "Overwork", "Pause",
    "PauseAtWork", "PauseNode", "Reset", "RestartNodes", "RestoreNodes", "Resume", "Stall", "StallAssign", "StopNode",
    "Subscribe", "UncleanElection", "WaitEnd", "WaitStalled", "brings",
]  # fmt: skip

COORDINATOR = "coordinator"
"""Instead of a node's number: the one that coordinates the group at that moment."""


@dataclass(frozen=True)
class Join:
    """A member starts.

    Args:
        member: Its name in the run.
        assignors: Its ordered list of assignors; empty: the scenario's.
        topics: Its subscription; empty: all topics of the scenario, unless there is a pattern.
        static: It has an instance id (its name), so that it may restart without a rebalance.
        client: Which client it runs; see `MemberGroup.start`.
        pattern: It subscribes to the topics whose names match this regular expression.
        instance: Its instance id, where that isn't its name: two members of one id fence each other.
        consumer: Settings for its client, as `MemberGroup.start` takes them; they win over the scenario's.
    """

    member: str
    assignors: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    static: bool = False
    client: str = "kafka-python"
    pattern: str | None = None
    instance: str | None = None
    consumer: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Leave:
    """A member closes its consumer and leaves the group."""

    member: str


@dataclass(frozen=True)
class Kill:
    """A member's process gets SIGKILL; the coordinator notices when its session ends."""

    member: str


@dataclass(frozen=True)
class Pause:
    """A member's process gets SIGSTOP; the coordinator evicts it when its session ends."""

    member: str


@dataclass(frozen=True)
class PauseAtWork:
    """As `Pause`, while the member works on what it has consumed and hasn't begun to commit it: a zombie in waiting."""

    member: str


@dataclass(frozen=True)
class Overwork:
    """A member works longer than its poll interval on what it has consumed, its heartbeats go on: it is out meanwhile.

    Its ``app_work_ms`` must be longer than its ``max_poll_interval_ms``; the play goes on when its commit was answered.
    """

    member: str


@dataclass(frozen=True)
class Stall:
    """A member stops polling, its heartbeats go on; it is out when its ``max_poll_interval_ms`` is over."""

    member: str


@dataclass(frozen=True)
class Resume:
    """A paused or stalled member goes on."""

    member: str


@dataclass(frozen=True)
class StallAssign:
    """A member will stand still the next time it assigns as leader."""

    member: str


@dataclass(frozen=True)
class WaitStalled:
    """The run goes on when that member stands still in its assign; it is out when its session ends."""

    member: str


@dataclass(frozen=True)
class WaitEnd:
    """The run goes on when that member has ended by itself, as one that was fenced must."""

    member: str


@dataclass(frozen=True)
class Subscribe:
    """A member changes its subscription in place: to these topics, or to a pattern."""

    member: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None


@dataclass(frozen=True)
class CreateTopic:
    """A topic is made."""

    topic: str
    partitions: int


@dataclass(frozen=True)
class AddPartitions:
    """A topic grows to so many partitions."""

    topic: str
    partitions: int


@dataclass(frozen=True)
class DeleteTopic:
    """A topic is deleted."""

    topic: str


@dataclass(frozen=True)
class Heal:
    """The network faults of a member end; its name is as they have it."""

    member: str


@dataclass(frozen=True)
class KillNode:
    """A node's JVM gets SIGKILL, and stays dead until `RestoreNodes`."""

    node: int | str


@dataclass(frozen=True)
class StopNode:
    """A node ends in order: it hands its leaders over first. It stays away until `RestoreNodes`."""

    node: int | str


@dataclass(frozen=True)
class PauseNode:
    """A node stands still (SIGSTOP), its connections stay open, until `RestoreNodes`."""

    node: int | str


@dataclass(frozen=True)
class RestoreNodes:
    """Every node that was killed, stopped or paused comes back, and all replicas are in sync again."""


@dataclass(frozen=True)
class RestartNodes:
    """Each node in turn is stopped and started; the next one when all replicas are in sync again."""


@dataclass(frozen=True)
class UncleanElection:
    """A replica that misses acknowledged records becomes the leader of a lossy topic's partition: they are lost.

    Its follower is stopped while records go on, the leader is killed, the follower comes back and is elected; the old
    leader stays away until `RestoreNodes`.
    """

    topic: str
    partition: int = 0


Action = (
    Join | Leave | Kill | Pause | PauseAtWork | Overwork | Stall | Resume | StallAssign | WaitStalled | WaitEnd
    | Subscribe | CreateTopic | AddPartitions | DeleteTopic | KillNode | StopNode | PauseNode | RestoreNodes
    | RestartNodes | UncleanElection | Heal | Cut | Delay | Drop | Reset
)  # fmt: skip
ACTIONS: Mapping[str, type[Any]] = {
    "join": Join, "leave": Leave, "kill": Kill, "pause": Pause, "pause_at_work": PauseAtWork,
    "overwork": Overwork, "stall": Stall, "resume": Resume, "stall_assign": StallAssign, "wait_stalled": WaitStalled,
    "wait_end": WaitEnd,
    "subscribe": Subscribe, "create_topic": CreateTopic, "add_partitions": AddPartitions, "delete_topic": DeleteTopic,
    "kill_node": KillNode, "stop_node": StopNode, "pause_node": PauseNode, "restore_nodes": RestoreNodes,
    "restart_nodes": RestartNodes, "unclean_election": UncleanElection, "heal": Heal, "cut": Cut, "delay": Delay,
    "drop": Drop, "reset": Reset,
}  # fmt: skip
"""Name in a scenario file -> action."""
OF_NODES = (KillNode, StopNode, PauseNode, RestoreNodes, RestartNodes, UncleanElection)
"""What happens to brokers, and needs a cluster of them."""
NEED_RECORDS = (*OF_NODES, PauseAtWork, Overwork, Stall, Subscribe, WaitEnd)
"""What is only seen between two polls, or by commits."""
_BACK = (Join, Resume, Heal)
_OUT = (Leave, Kill, Pause, PauseAtWork, Stall, WaitStalled, WaitEnd)


def brings(action: Action) -> bool | None:
    """Whether an action brings its member into the group (True), takes it out (False), or neither (None)."""
    if isinstance(action, _BACK):
        return True
    # A cut that ends by itself may or may not outlast a session.
    if isinstance(action, _OUT) or (isinstance(action, Cut) and not action.ends):
        return False
    return None
