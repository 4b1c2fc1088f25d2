"""A group whose next join waits for a frozen member."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.members.group import MemberGroup
from tests.support.kafka_python.sent import sent
from tests.support.waiting import until

HOLDS_MS = 120_000
"""How long the frozen member holds a join up: far longer than `AT_ONCE_S`."""
AT_ONCE_S = 10
"""Limit for a close on a busy machine, which waited for 20 to 32 s when it waited for the join."""


class HeldUp:
    """A group in which a member runs that `freeze` stops by SIGSTOP.

    Args:
        topic: Its topic, of four partitions.
        members: The member's harness.
    """

    def __init__(self, broker: Broker, admin: KafkaAdminClient, topic: str, members: MemberGroup) -> None:
        self.bootstrap, self.topic, self.group = broker.bootstrap, topic, members.group
        self._admin, self._members = admin, members

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of a kafka-python consumer of the group."""
        return {
            "bootstrap_servers": self.bootstrap, "group_id": self.group, "session_timeout_ms": HOLDS_MS // 2,
            "heartbeat_interval_ms": 200, "auto_offset_reset": "earliest", "auto_commit_interval_ms": HOLDS_MS,
        }  # fmt: skip

    def freeze(self) -> None:
        """Stop the member: each join that begins from now on waits for it."""
        self._members.pause("frozen")

    def stall_assign(self) -> None:
        """Make the member, which leads, stall in its next assign."""
        self._members.stall_assign("frozen")

    def assigns(self) -> bool:
        """Whether all have joined, and wait for the member's assign."""
        return self._state() == "CompletingRebalance"

    def send(self, records: int = 1) -> None:
        """Send records to each partition."""
        sent(self.bootstrap, self.topic, [{"value": b"x", "partition": n % 4} for n in range(4 * records)])

    def waits(self) -> bool:
        """Whether the group waits for members that have yet to join."""
        return self._state() == "PreparingRebalance"

    def _state(self) -> str:
        return str(self._admin.describe_groups([self.group])[self.group]["group_state"])

    def client_ids(self) -> list[str]:
        """The client ids of the group's members, as its coordinator has them."""
        members = self._admin.describe_groups([self.group])[self.group]["members"]
        return sorted(member["client_id"] for member in members)

    def committed(self) -> dict[int, int]:
        """Partition -> committed offset."""
        offsets = self._admin.list_group_offsets(self.group)
        return {tp.partition: commit.offset for tp, commit in offsets.get(self.group, offsets).items()}


@contextmanager
def held_up(broker: Broker, admin: KafkaAdminClient, topic: str, assignor: str, folder: Path) -> Iterator[HeldUp]:
    """A group with one member, of one of our assignors; it is killed at the end."""
    timeouts = {"session_timeout_ms": HOLDS_MS // 2, "heartbeat_interval_ms": 200}
    with MemberGroup(broker.bootstrap, f"held-up-{topic}", folder, "run", **timeouts) as members:
        members.start("frozen", [topic], [assignor])
        members.wait_stable()
        yield HeldUp(broker, admin, topic, members)
        members.kill("frozen")


def in_join(consumer: Any) -> bool:
    """Whether a kafka-python consumer has sent a JoinGroup under a member id, and has no answer."""
    coordinator = consumer._coordinator
    task = coordinator._join_task
    return bool(task is not None and not task.is_done and coordinator.group_metadata().member_id)


@contextmanager
def interrupted_when(condition: Callable[[], bool]) -> Iterator[None]:
    """Ctrl-C for the main thread, once something is true."""

    def interrupt() -> None:
        until(condition, "the moment to interrupt")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    assert threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    waiting = threading.Thread(target=interrupt, daemon=True)
    waiting.start()
    try:
        yield
    finally:
        waiting.join()
        signal.signal(signal.SIGINT, before)
