"""Faults of single nodes while a group runs: they are killed, stopped, paused, restarted."""

from __future__ import annotations

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ConfigError

from ..broker.cluster import Cluster
from ..broker.node import Node
from ..errors import NotStable
from ..members.group import MemberGroup
from ..records import Sender
from .actions import COORDINATOR

MISSED = 10
"""Minimum number of acknowledged records that the follower misses before it is elected."""


class Outages:
    """Faults of a cluster's nodes. The group's history records each before it acts, and again when the node is back.

    `COORDINATOR` means the coordinator of the group `members`. `kill`, `stop` and `pause` raise ConfigError if the node
    doesn't exist or is away already, and NotStable if the group has no coordinator.
    """

    def __init__(self, cluster: Cluster, members: MemberGroup) -> None:
        self._cluster, self._members = cluster, members
        self._away: dict[int, str] = {}  # node id -> fault

    def kill(self, which: int | str) -> Node:
        """Send SIGKILL to a node's JVM, return the node. Others miss it after ``broker.session.timeout.ms``, 3 s."""
        node = self._begin("broker_kill", which)
        node.kill()
        return node

    def stop(self, which: int | str) -> Node:
        """Send SIGTERM, on which a node hands its leaders over; return it. BrokerNotReady if it doesn't end in time."""
        node = self._begin("broker_stop", which)
        node.stop()
        return node

    def pause(self, which: int | str) -> Node:
        """Send SIGSTOP and return the node. The others miss it after 3 s."""
        node = self._begin("broker_pause", which)
        node.pause()
        return node

    def restore(self, timeout_s: float = 60) -> None:
        """Bring back all nodes that are away, and wait until all replicas are in sync.

        Raises:
            BrokerNotReady: A node doesn't come up.
            NotStable: Replicas aren't in sync by the deadline.
        """
        self._cluster.restore()
        for node_id in tuple(self._away):
            self._end(node_id)
        self._members.topics.wait_in_sync(timeout_s)

    def restart_all(self, timeout_s: float = 60) -> None:
        """Stop and start each node in turn. The next one follows when all replicas are in sync.

        Raises:
            ConfigError: A node is away already.
            BrokerNotReady, NotStable: A node doesn't end, come up, or get in sync, by the deadline.
        """
        for node in self._cluster.nodes:
            self._begin("broker_restart", node.node_id)
            node.restart()
            self._end(node.node_id)
            self._members.topics.wait_in_sync(timeout_s)

    def elect_unclean(self, tp: TopicPartition, sender: Sender, timeout_s: float = 60) -> None:
        """Make a partition lose acknowledged records: its follower misses some and becomes its leader.

        The follower is stopped while records are sent, and their owner consumes and commits them. Sending pauses while
        the follower stops, and from the leader's kill until the follower leads and the history says what was lost
        (``truncated``). The old leader stays away until `restore`.

        Args:
            tp: A partition of a topic that may lose records (`topics.LOSSY`), in sync.
            sender: Sends to `tp` with ``acks=1``; pauses whenever a partition of the topic changes its leader.
            timeout_s: Limit for each step.

        Raises:
            ConfigError: The partition doesn't have exactly one follower, or a node is away already.
            BrokerNotReady: A node doesn't end, or doesn't come up.
            NotStable: Records aren't sent or committed by the deadline, or the follower isn't elected or has all.
        """
        leader, follower = self._members.topics.leader_and_follower(tp)
        begins = self._members.topics.ends(tp.topic)[tp]
        # With `acks=1` a node also loses records when it hands its leaders over: it still acknowledges those that come
        # after the controller chose the next leader. Nothing may be lost before the election.
        with sender.quiet():
            # An end offset grows only once all replicas in sync have the records, those of the other partitions too.
            self._members.topics.wait_ends(tp.topic, sender.ends(tp.topic), timeout_s)
            self.stop(follower)
        self._members.topics.wait_ends(tp.topic, {tp: begins + MISSED}, timeout_s)
        with sender.quiet():
            before = self._members.topics.ends(tp.topic)
            self._members.wait_committed(before, timeout_s)
            self.kill(leader)
            self._cluster.node(follower).restart()
            self._end(follower)
            self._members.topics.tell_truncated(tp, follower, before, timeout_s)
        # New records must replace the lost offsets, or old commits would look like consumed records.
        self._members.topics.wait_ends(tp.topic, {tp: before[tp] + 1}, timeout_s)

    def _begin(self, fault: str, which: int | str) -> Node:
        if which == COORDINATOR:
            coordinator = self._members.topics.coordinator()
            if coordinator is None:
                raise NotStable(f"no node coordinates group {self._members.group!r} now")
            node = self._cluster.node(coordinator)
        elif isinstance(which, int):
            node = self._cluster.node(which)
        else:
            raise ConfigError(f"a node is its number or {COORDINATOR!r}, not {which!r}")
        if node.node_id in self._away:
            raise ConfigError(
                f"node {node.node_id} is already down ({self._away[node.node_id]}); restore the nodes first"
            )
        coordinates = self._members.topics.coordinator() == node.node_id
        self._away[node.node_id] = fault
        self._members.write("fault_begin", fault=fault, target=f"node {node.node_id}", coordinator=coordinates)
        return node

    def _end(self, node_id: int) -> None:
        self._members.write("fault_end", fault=self._away.pop(node_id), target=f"node {node_id}")
