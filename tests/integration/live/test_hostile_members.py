"""A member whose assignor sends hostile bytes, beside honest ones: the group rebalances, whoever joins or leaves.

The worst that were found: each ended the `poll` of an honest leader again and again, so that the group rebalanced no
more for as long as the member stayed.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kafka import KafkaConsumer

from kafka_assignors import ConfigAssignor, WeightedAssignor
from kafka_assignors.core.wire import compact
from kafka_assignors.core.wire import weighted as carried
from kafka_assignors.history.coordinator_log import assigned
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.members.group import MemberGroup
from tests.core.wire.test_bombs import OWN, RUN, varint, weighed, weights

CLAIMS = compact.encode((), -1)


class Bytes:
    """A subscription of any bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def encode(self, *_: Any, **__: Any) -> bytes:
        return self._data


def telling(text: bytes) -> bytes:
    """User data of weighted with these options."""
    return carried.encode(compact.encode((), -1, option_bytes=text), carried.Own(), {})


def caps(topic: str, capacity: float, max_work: float) -> bytes:
    """User data of weighted of a member with this capacity and hard cap, a high priority, and weights."""
    own = carried.Own(capacity, 0, 0, 128, max_work)
    return carried.encode(CLAIMS, own, {topic: (np.arange(4), np.array([4e-9, 5e-8, 1e-10, 1e-6]))})


def bomb(topic: str) -> bytes:
    """Weights of two million partitions, in 2 kB."""
    return weighed(OWN + weights(json.dumps([topic]).encode(), RUN + varint((1 << 21) - 1), b"\xff" * (1 << 21)))


EVIL: dict[str, tuple[type[Any], Callable[[str], bytes]]] = {
    "a capacity that no option may have": (WeightedAssignor, lambda topic: caps(topic, 1e-7, 1.0)),
    "a hard cap that no multiple raises": (WeightedAssignor, lambda topic: caps(topic, 1e6, 1e-300)),
    "options of other types": (WeightedAssignor, lambda _: telling(b'{"eager":[[]],"resting":1}')),
    "an option with which a leader raises": (
        ConfigAssignor, lambda _: compact.encode((), -1, option_bytes=b'{"table":{},"uncovered":"error"}'),
    ),
    "weights of two million partitions": (WeightedAssignor, bomb),
    "bytes that are no subscription": (WeightedAssignor, lambda _: b"\0\3\0\0\0\1\0\1\xff"),
}  # fmt: skip


@contextmanager
def hostile(bootstrap: str, group: str, topic: str, kind: type[Any], data: bytes, *, whole: bool) -> Iterator[None]:
    """A real consumer that polls, and whose assignor sends these bytes."""

    class Evil(kind):  # type: ignore[misc]
        def _user_data(self) -> bytes:
            return data

        def metadata(self, topics: Any) -> Any:
            return Bytes(data) if whole else super().metadata(topics)

    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, client_id="evil", partition_assignment_strategy=[Evil],
        enable_auto_commit=False,
    )  # fmt: skip
    over = threading.Event()

    def poll() -> None:
        while not over.is_set():
            consumer.poll(timeout_ms=100)
        consumer.close(autocommit=False)

    polling = threading.Thread(target=poll, daemon=True)
    polling.start()
    try:
        yield
    finally:
        over.set()
        polling.join(30)


LIVE = ("weights of two million partitions",)
# long: more groups; core/wire/test_bombs.py and core/group/test_options.py prove the leader against each of them


@pytest.mark.broker
@pytest.mark.parametrize(
    "evil", [each if each in LIVE else pytest.param(each, marks=pytest.mark.long) for each in EVIL]
)
def test_a_hostile_member_stops_no_rebalance(
    evil: str, kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, name = kafka_topic(partitions=4), f"g-{uuid.uuid4().hex[:8]}"
    kind, data = EVIL[evil]
    with MemberGroup(kafka_broker.bootstrap, name, tmp_path, "run", session_timeout_ms=10_000) as group:
        group.start("m1", [topic], [kind.name])
        group.wait_stable(timeout_s=60)
        with hostile(kafka_broker.bootstrap, name, topic, kind, data(topic), whole="no subscription" in evil):
            group.wait_stable(["m1", "evil"], timeout_s=60)
            group.start("m2", [topic], [kind.name])
            group.wait_stable(["m1", "m2", "evil"], timeout_s=60)
            group.stop("m2")
            stable = group.wait_stable(["m1", "evil"], timeout_s=60)
        last = group._log.generation

    assert stable.leader == "m1"
    assert last is not None
    assert sum(len(assigned(member)) for member in last.members) == 4
