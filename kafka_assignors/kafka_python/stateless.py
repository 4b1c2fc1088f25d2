"""The assignors for kafka-python that place without history: MetaQ's and RocketMQ's, a fixed table, consistent hashing.

What members held before plays no part, so the same members get the same partitions after any sequence of rebalances,
leaders and full restarts, as long as they keep their identity. That is the instance id (``group_instance_id``) of a
static member; a dynamic one has its member id alone, which the coordinator makes anew for each start.

>>> consumer_options = {"partition_assignment_strategy": [ConsistentHashAssignor.factory(epsilon=0.1)]}

All are eager. All members of a group should have the same options; what holds where they differ is a rule of
`core.options`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.stateless import consistent, rocketmq
from ..core.strategies import strategy
from .adapter import Assignor


class MetaqDefaultAssignor(Assignor):
    """``metaq-default``: see `kafka_assignors.core.stateless.metaq.default`."""

    name = "metaq-default"
    _strategy = strategy("metaq-default")

    def __init__(self, *, rack: str | None = None) -> None:
        super().__init__(rack=rack)


class MetaqConsistentHashAssignor(Assignor):
    """``metaq-consistent-hash``: see `kafka_assignors.core.stateless.metaq.consistent_hash` for `broker_id`.

    Raises:
        ConfigError: `rack` is no string, or `broker_id` no int from 0.
    """

    name = "metaq-consistent-hash"
    _strategy = strategy("metaq-consistent-hash")

    def __init__(self, *, rack: str | None = None, broker_id: int = 0) -> None:
        super().__init__(rack=rack, broker_id=broker_id)


class AverageAssignor(Assignor):
    """``average``: see `kafka_assignors.core.stateless.rocketmq.average`."""

    name = "average"
    _strategy = strategy("average")

    def __init__(self, *, rack: str | None = None) -> None:
        super().__init__(rack=rack)


class AverageByCircleAssignor(Assignor):
    """``average-by-circle``: see `kafka_assignors.core.stateless.rocketmq.average_by_circle`."""

    name = "average-by-circle"
    _strategy = strategy("average-by-circle")

    def __init__(self, *, rack: str | None = None) -> None:
        super().__init__(rack=rack)


class RocketmqConsistentHashAssignor(Assignor):
    """``rocketmq-consistent-hash``: see `kafka_assignors.core.stateless.rocketmq.consistent_hash` for the options.

    Raises:
        ConfigError: `rack` is no string, `virtual_nodes` not from 1 to 1,000, or `broker_name` no string.
    """

    name = "rocketmq-consistent-hash"
    _strategy = strategy("rocketmq-consistent-hash")

    def __init__(
        self,
        *,
        rack: str | None = None,
        virtual_nodes: int = rocketmq.VIRTUAL_NODES,
        broker_name: str = rocketmq.BROKER_NAME,
    ) -> None:
        super().__init__(rack=rack, virtual_nodes=virtual_nodes, broker_name=broker_name)


class MachineRoomNearbyAssignor(Assignor):
    """``machine-room-nearby``: see `kafka_assignors.core.stateless.rocketmq.machine_room_nearby` for `inner`.

    Each member should have a rack. One that has none is warned of, and gets no partition of a rack that has members.

    Raises:
        ConfigError: `rack` is no string, or `inner` no strategy of RocketMQ's.
    """

    name = "machine-room-nearby"
    _strategy = strategy("machine-room-nearby")

    def __init__(self, *, rack: str | None = None, inner: str = "average") -> None:
        super().__init__(rack=rack, inner=inner)


class ConfigAssignor(Assignor):
    """``config``: partitions as a table says; see `kafka_assignors.core.stateless.fixed.assign`.

    >>> ConfigAssignor(table={"billing-1": {"orders": [0, 1]}, "billing-2": {"orders": [2]}}).name
    'config'

    Args:
        rack: See `Assignor`.
        table: Instance id -> topic -> partition ids; each partition once. Members without an instance id are named by
            their member id, which nobody knows before they join.
        uncovered: Who gets partitions that the table does not have, or has for a member that is not there: the name of
            a strategy that looks at no claims, such as ``"roundrobin"`` or ``"average"``. With ``"error"`` the leader
            raises `AssignmentError` from its ``poll`` instead, until the table and the group agree: nobody consumes
            before that, so it is for groups that must not run otherwise. Where group and table differ is logged.

    Raises:
        ConfigError: `rack` is no string, `table` no such table or with a partition twice, or `uncovered` no such name.
    """

    name = "config"
    _strategy = strategy("config")

    def __init__(
        self,
        *,
        rack: str | None = None,
        table: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
        uncovered: str = "roundrobin",
    ) -> None:
        super().__init__(rack=rack, table=table, uncovered=uncovered)


class ConsistentHashAssignor(Assignor):
    """``consistent-hash``: no member above 1 + `epsilon` times the mean; see `core.stateless.consistent.assign`.

    Raises:
        ConfigError: `rack` is no string, or an option is not as described there.
    """

    name = "consistent-hash"
    _strategy = strategy("consistent-hash")

    def __init__(
        self,
        *,
        rack: str | None = None,
        epsilon: float | None = consistent.EPSILON,
        virtual_nodes: int = consistent.VIRTUAL_NODES,
        hash: str = "md5",
    ) -> None:
        super().__init__(rack=rack, epsilon=epsilon, virtual_nodes=virtual_nodes, hash=hash)


CLASSES: tuple[type[Assignor], ...] = (
    MetaqDefaultAssignor,
    MetaqConsistentHashAssignor,
    AverageAssignor,
    AverageByCircleAssignor,
    RocketmqConsistentHashAssignor,
    MachineRoomNearbyAssignor,
    ConfigAssignor,
    ConsistentHashAssignor,
)
