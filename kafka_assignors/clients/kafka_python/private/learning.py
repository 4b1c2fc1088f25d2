"""The metadata of topics: a leader that waits for those of the whole group, and partitions as the cluster has them."""

from __future__ import annotations

import struct
import time
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from kafka.errors import BrokerResponseError, KafkaError, StaleMetadata
from kafka.protocol.consumer import JoinGroupRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from ....core.group.facts import Fact
from ....core.wire.protocol import EMPTY, MALFORMED, all_topics, completed, read_subscription
from ...fact_log import FactLog
from .names import AWAIT_FOR, LEARN, get, missing, warn_once, without


def learn_before_leading(coordinator: Any) -> None:
    """Make an elected leader wait for the metadata of all topics of the group before its assignor is called.

    kafka-python 3.0.12 requests the metadata of topics that only other members read, but does not wait for them. All
    members that hold partitions of these topics would lose them for a generation. Java's leader waits
    (``ConsumerCoordinator.onLeaderElected``, ``ensureFreshMetadata``), and so do the leaders of librdkafka, franz-go
    and aiokafka. A consumer that lacks one of the private names (`LEARN`) is not changed.
    """
    if not any(missing(coordinator, path) for path in LEARN) and not isinstance(coordinator._manager, _Learning):
        coordinator._manager = _Learning(coordinator)


class _Learning:
    """A coordinator's connection manager; it delays a leader's JoinGroup response until its metadata are complete."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator, self._manager = weakref.proxy(coordinator), coordinator._manager
        self._fact_log = FactLog()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        sent = self._manager.send(request, *args, **kwargs)
        return self._joined(sent) if isinstance(request, JoinGroupRequest) else sent

    async def _joined(self, sent: Any) -> Any:
        answer = await sent
        if not answer.error_code and answer.leader == answer.member_id:
            subscriptions = completed([bytes(member.metadata) for member in answer.members])
            facts = []
            for m, why in _undecodable(subscriptions):  # kafka-python would fail on it, and so the whole group
                member_id, subscriptions[m] = answer.members[m].member_id, EMPTY
                facts.append(Fact("unread", member_id, f"member {member_id!r} {why}"))
            self._fact_log.warn(str(answer.protocol_name), facts)
            for member, subscription in zip(answer.members, subscriptions, strict=True):
                member.metadata = subscription
            await learn(self._coordinator, all_topics(subscriptions))
        return answer


def _undecodable(data: Sequence[bytes]) -> Iterator[tuple[int, str]]:
    """The members, by number, whose subscriptions kafka-python can't decode, and why."""
    if len(data) > _FEW:
        from ....core.wire import bulk  # see `preload`

        read = bulk.subscriptions(data)
    else:
        read = [read_subscription(metadata) for metadata in data]
    for m, subscription in enumerate(read):
        if subscription.version == MALFORMED and not _decodes(data[m]):
            yield m, subscription.unread


_FEW = 32
"""Up to this many members, decoding one by one is as fast as together, and needs no NumPy."""


def _decodes(data: bytes) -> bool:
    """Whether kafka-python gets a sound subscription from these bytes; it accepts more bytes than other clients."""
    try:
        decoded = ConsumerProtocolSubscription.decode(data)
        owned = decoded.owned_partitions or ()
        names = [*decoded.topics, *(run.topic for run in owned)]
        return all(isinstance(name, str) for name in names) and all(run.partitions is not None for run in owned)
    except (ValueError, TypeError, IndexError, struct.error):
        return False


ANSWERS = 2
"""Number of metadata responses without a topic that prove its absence. The first response may belong to a request that
did not name the topic."""


async def learn(coordinator: Any, topics: Collection[str]) -> None:
    """Wait until the consumer has metadata of all topics, or until `ANSWERS` responses came without them.

    Raises `StaleMetadata` if no broker answers within half a session timeout; kafka-python joins again.
    """
    cluster, await_for = coordinator._cluster, attrgetter(AWAIT_FOR)(coordinator)
    coordinator._subscription.group_subscribe(topics)
    cluster.set_topics(coordinator._subscription.group_subscription())
    deadline = time.monotonic() + coordinator.config["session_timeout_ms"] / 2000
    answers = 0
    while answers < ANSWERS and len(partitions(cluster, topics)) < len(topics):
        left_ms = 1000 * (deadline - time.monotonic())
        if left_ms <= 0:
            raise StaleMetadata(
                f"the group's leader got no metadata of {', '.join(sorted(topics)[:3])} within half a session timeout"
            )
        try:
            await await_for(cluster.request_update(), left_ms)
        except BrokerResponseError:
            pass  # this is a response: the only requested topic is unavailable
        except KafkaError:
            continue  # no response: a broker disconnected, and kafka-python retries with another; or time is up
        answers += 1


def partitions(cluster: Any, topics: Iterable[str]) -> dict[str, Mapping[int, Any]]:
    """Topic -> partition id -> its metadata (``leader_id``, ``replica_nodes``), for the topics that the cluster has.

    If the private name is missing, the metadata are None. The public methods take a call per partition and broker,
    which is too slow for a join in a large cluster.
    """
    metadata: Mapping[str, Mapping[int, Any]] | None = get(cluster, "_partitions", None)
    if metadata is not None:
        return {topic: metadata[topic] for topic in topics if topic in metadata}
    ids = {topic: cluster.partitions_for_topic(topic) for topic in topics}
    return {topic: dict.fromkeys(topic_ids) for topic, topic_ids in ids.items() if topic_ids is not None}


def replica_nodes(partition: Any) -> tuple[int, ...]:
    """Node ids of a partition's replicas, from its metadata; () if unknown."""
    try:
        return () if partition is None else tuple(partition.replica_nodes)
    except AttributeError:
        warn_once(without("replica_nodes", "racks of replicas are unknown: members in a rack get any partition"))
        return ()


def leader_node(partition: Any) -> int | None:
    """Node id of a partition's leader, from its metadata; None if unknown."""
    try:
        return None if partition is None else int(partition.leader_id)
    except AttributeError:
        warn_once(without("leader_id", "racks of leaders are unknown: members in a rack get any partition"))
        return None
