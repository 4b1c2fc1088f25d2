"""A consumer that is closed while a frozen member holds its join up: `guard` lets it go at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka import AsyncConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, OffsetAndMetadata
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor
from kafka_assignors.integration.broker import Broker
from tests.support.kafka_python.held_up import AT_ONCE_S, HeldUp, held_up, in_join, interrupted_when
from tests.support.waiting import finished, until

pytestmark = pytest.mark.broker
Group = Callable[[str], HeldUp]


@pytest.fixture
def group(
    kafka_broker: Broker, kafka_admin: KafkaAdminClient, kafka_topic: Callable[..., str], tmp_path: Path
) -> Iterator[Group]:
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(
            held_up(kafka_broker, kafka_admin, kafka_topic(partitions=4), name, tmp_path)
        )


def consumer(group: HeldUp, assignor: Any, name: str, **settings: Any) -> Any:
    strategy = {"partition_assignment_strategy": [assignor], "client_id": name}
    return KafkaConsumer(group.topic, **group.settings, **strategy, **settings)


def poll_until(consumer: Any, condition: Callable[[], bool], what: str) -> None:
    """Poll with pauses until something is true."""

    def polled() -> bool:
        consumer.poll(timeout_ms=100)
        return condition()

    until(polled, what)


@pytest.mark.parametrize(
    ("name", "assignor"),
    # long: of an eager group, which waits in the same join
    [pytest.param("range", RangeAssignor, marks=pytest.mark.long), ("cooperative-sticky", CooperativeStickyAssignor)],
)
def test_a_member_leaves_a_join_that_another_one_holds_up(group: Group, name: str, assignor: Any) -> None:
    """Both a newcomer and one that has partitions; the latter commits where it stands."""
    held = group(name)
    mine, newcomer = consumer(held, assignor, "mine"), consumer(held, assignor, "newcomer")
    poll_until(mine, lambda: len(mine.assignment()) == 2, "mine has its share")
    held.send(3)
    poll_until(mine, lambda: all(mine.position(tp) == 3 for tp in mine.assignment()), "mine reads")
    held.freeze()
    poll_until(newcomer, lambda: in_join(newcomer), "the newcomer joins")
    poll_until(mine, lambda: in_join(mine), "mine joins again, and has committed")
    for tp in mine.assignment():
        mine.seek(tp, 2)
    positions = {tp.partition: 2 for tp in mine.assignment()}
    assert len(positions) == 2

    finished(newcomer.close, AT_ONCE_S)
    finished(mine.close, AT_ONCE_S)

    assert held.client_ids() == ["frozen"]
    assert held.waits(), "so nothing but the close has ended the join"
    assert positions.items() <= held.committed().items()


class Committing(AsyncConsumerRebalanceListener):
    """Commits what is revoked, by `commit_async`, and keeps what came of it."""

    def __init__(self) -> None:
        self.consumer: Any = None
        self.outcomes: list[str] = []

    async def on_partitions_assigned(self, assigned: Any) -> None: ...

    async def on_partitions_revoked(self, revoked: Any) -> None:
        try:
            await self.consumer.commit_async({tp: OffsetAndMetadata(2, "", -1) for tp in revoked})
        except KafkaError as error:
            self.outcomes.append(type(error).__name__)
        else:
            self.outcomes.append("committed")


@pytest.mark.parametrize(("where", "outcome"), [("join", "committed"), ("sync", "RebalanceInProgressError")])
def test_a_commit_in_the_last_callback_does_not_wait_for_the_join(group: Group, where: str, outcome: str) -> None:
    """Between join and sync, the broker accepts no commit: another member may get the partitions."""
    held, listener = group("cooperative-sticky"), Committing()
    mine = consumer(held, CooperativeStickyAssignor, "mine", enable_auto_commit=False)
    mine.subscribe([held.topic], listener=listener)
    listener.consumer = mine
    poll_until(mine, lambda: len(mine.assignment()) == 2, "mine has its share")
    kept = {tp.partition: 2 for tp in mine.assignment()}
    (held.freeze if where == "join" else held.stall_assign)()
    newcomer = consumer(held, CooperativeStickyAssignor, "newcomer")
    poll_until(newcomer, lambda: in_join(newcomer), "the newcomer joins")
    poll_until(mine, lambda: in_join(mine) and (where == "join" or held.assigns()), "mine joins again")
    later = mine.commit_async({tp: OffsetAndMetadata(1, "", -1) for tp in mine.assignment()})

    finished(mine.close, AT_ONCE_S)

    assert listener.outcomes == [outcome]
    assert held.client_ids() == ["frozen", "newcomer"]
    assert (kept.items() <= held.committed().items()) == (where == "join")
    assert later.is_done, "a commit that was held for the end of the join is sent or refused"
    assert later.succeeded() == (where == "join")
    newcomer.close()


def test_ctrl_c_ends_a_poll_that_waits_for_a_join_and_the_close_after_it(group: Group) -> None:
    held = group("cooperative-sticky")
    held.freeze()
    mine = consumer(held, CooperativeStickyAssignor, "mine")

    with pytest.raises(KeyboardInterrupt), interrupted_when(lambda: in_join(mine)):
        mine.poll(timeout_ms=60_000)
    finished(mine.close, AT_ONCE_S)

    assert held.client_ids() == ["frozen"]
    assert held.waits()


@pytest.mark.source("kafka-python 3.0.12 kafka/coordinator/base.py maybe_leave_group_async")
def test_without_the_guard_it_stays_in_the_group(group: Group) -> None:
    """The defect that the guard repairs: the broker reads nothing more from a connection until the join is over."""
    held = group("range")
    theirs = consumer(held, RangePartitionAssignor, "theirs")
    held.freeze()
    poll_until(theirs, lambda: in_join(theirs), "it joins")

    theirs.close(timeout_ms=1000)

    assert held.client_ids() == ["frozen", "theirs"]
