"""The stateless assignors for kafka-python: MetaQ's and RocketMQ's, a fixed table, consistent hashing.

They ignore the partitions that members held before. So the same members get the same partitions after any sequence of
rebalances, leaders and full restarts, as long as members keep their identity. The identity of a static member is its
instance id (``group_instance_id``). A dynamic member has only its member id, which changes with every start.

>>> consumer_options = {"partition_assignment_strategy": [ConsistentHashAssignor.factory(epsilon=0.1)]}

All are eager. All members of a group should have the same options; `core.group.options` resolves differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.stateless import consistent, rocketmq
from .adapter import Assignor, WithoutOptions


class MetaqDefaultAssignor(WithoutOptions):
    """``metaq-default``: see `kafka_assignors.core.stateless.metaq.default`."""

    name = "metaq-default"


class MetaqConsistentHashAssignor(Assignor):
    """``metaq-consistent-hash``: see `kafka_assignors.core.stateless.metaq.consistent_hash` for `broker_id`.

    Raises:
        ConfigError: `rack` is not a string, or `broker_id` is not a non-negative int.
    """

    name = "metaq-consistent-hash"

    def __init__(self, *, rack: str | None = None, broker_id: int = 0) -> None:
        super().__init__(rack=rack, broker_id=broker_id)


class AverageAssignor(WithoutOptions):
    """``average``: see `kafka_assignors.core.stateless.rocketmq.average`."""

    name = "average"


class AverageByCircleAssignor(WithoutOptions):
    """``average-by-circle``: see `kafka_assignors.core.stateless.rocketmq.average_by_circle`."""

    name = "average-by-circle"


class RocketmqConsistentHashAssignor(Assignor):
    """``rocketmq-consistent-hash``: see `kafka_assignors.core.stateless.rocketmq.consistent_hash` for the options.

    Raises:
        ConfigError: `rack` or `broker_name` is not a string, or `virtual_nodes` is not from 1 to 1,000.
    """

    name = "rocketmq-consistent-hash"

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

    Each member should have a rack. One without gets no partition of a rack that has members, and a warning names it.

    Raises:
        ConfigError: `rack` is not a string, or `inner` is not a RocketMQ strategy.
    """

    name = "machine-room-nearby"

    def __init__(self, *, rack: str | None = None, inner: str = "average") -> None:
        super().__init__(rack=rack, inner=inner)


class ConfigAssignor(Assignor):
    """``config``: partitions from a table; see `kafka_assignors.core.stateless.fixed.assign`.

    >>> ConfigAssignor(table={"billing-1": {"orders": [0, 1]}, "billing-2": {"orders": [2]}}).name
    'config'

    Args:
        rack: See `Assignor`.
        table: Instance id -> topic -> partition ids; each partition once. A member without an instance id is named by
            its member id, which is unknown before it joins.
        uncovered: The strategy for partitions that the table lacks or gives to an absent member: the name of a strategy
            that ignores claims, for example ``"roundrobin"`` or ``"average"``. With ``"error"``, the leader's ``poll``
            raises `AssignmentError` until the table covers the group, and no member consumes until then. Differences
            between group and table are logged.

    Raises:
        ConfigError: `rack` is not a string, `table` is invalid or has a partition twice, or `uncovered` is unknown.
    """

    name = "config"

    def __init__(
        self,
        *,
        rack: str | None = None,
        table: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
        uncovered: str = "roundrobin",
    ) -> None:
        super().__init__(rack=rack, table=table, uncovered=uncovered)


class ConsistentHashAssignor(Assignor):
    """``consistent-hash``: no load above 1 + `epsilon` times the mean; see `core.stateless.consistent.assign`.

    Raises:
        ConfigError: `rack` is not a string, or an option is invalid.
    """

    name = "consistent-hash"

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
    MetaqDefaultAssignor, MetaqConsistentHashAssignor, AverageAssignor, AverageByCircleAssignor,
    RocketmqConsistentHashAssignor, MachineRoomNearbyAssignor, ConfigAssignor, ConsistentHashAssignor,
)  # fmt: skip
