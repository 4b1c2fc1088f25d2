"""A consumer that leaves (`kafka_assignors.leave`): what it yields, commits and refuses, whatever happens meanwhile.

`tests/integration/live/test_leave.py` shows that the others take over at once, and judges whole groups.
"""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as TheirAssignor
from kafka.errors import KafkaError

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor, guard, leave
from kafka_assignors.clients.kafka_python import private
from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.topics import create_topics
from tests.support.kafka_python.sent import sent
from tests.support.waiting import finished, until

RECORDS = 40
"""In each of the two partitions."""
SESSION_MS, HEARTBEAT_MS = 6000, 300
END_S = 15
"""Far above what the end of a leave takes (4 requests of 1 s at most), far below the rebalance timeout of 300 s."""

pytestmark = pytest.mark.broker


class Told(ConsumerRebalanceListener):
    """Callbacks, in order; the one that `fails` raises."""

    def __init__(self, fails: str = "") -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self._fails = fails

    def _tell(self, name: str, partitions: Any) -> None:
        self.calls.append((name, sorted(p for _, p in partitions)))
        if name == self._fails:
            raise ValueError(f"{name} fails")

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._tell("assigned", assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._tell("revoked", revoked)

    def on_partitions_lost(self, lost: Any) -> None:
        self._tell("lost", lost)


class Life:
    """A topic of two partitions with records, a group, and its consumers."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, f"leaving-{uuid.uuid4().hex[:8]}"
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        self._made: list[Any] = []

    def send(self, count: int = RECORDS) -> None:
        records = [{"value": b"%d" % (n // 2), "partition": n % 2} for n in range(2 * count)]
        sent(self.bootstrap, self.topic, records)

    def consumer(self, assignor: Any = CooperativeStickyAssignor, **settings: Any) -> Any:
        config = {
            "group_id": self.group, "session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS,
            "auto_offset_reset": "earliest", "enable_auto_commit": False, "max_poll_records": 10, **settings,
        }  # fmt: skip
        made = KafkaConsumer(bootstrap_servers=self.bootstrap, partition_assignment_strategy=[assignor], **config)
        self._made.append(made)
        return made

    def member(self, listener: Told | None = None, **settings: Any) -> Any:
        """A consumer that has both partitions and has consumed nothing."""
        made = self.consumer(**settings)
        made.subscribe([self.topic], listener=listener)
        # kafka-python alone may never join by polls that are shorter than its join takes.
        until(
            lambda: made.poll(timeout_ms=10_000, max_records=1) or len(made.assignment()) == 2, "it has both partitions"
        )
        for tp in made.assignment():
            made.seek(tp, 0)
        return made

    def hold_up(self, consumer: Any) -> TopicPartition:
        """Let another member in that then stands still: it does not join again, and the next rebalance waits for it.

        Returns:
            The partition that the consumer keeps, to be read from its beginning.
        """
        other = self.consumer(client_id="other")
        other.subscribe([self.topic])
        stands = threading.Event()

        def poll() -> None:
            while not stands.is_set():
                other.poll(timeout_ms=50, max_records=1)

        polling = threading.Thread(target=poll, daemon=True)
        polling.start()

        def rests() -> bool:
            consumer.poll(timeout_ms=50, max_records=1)
            both = (consumer, other)
            joining = any(private.membership.must_join(private.consumer.coordinator_of(each)) for each in both)
            return not joining and [len(each.assignment()) for each in both] == [1, 1]

        until(rests, "each has a partition")
        stands.set()
        polling.join()
        (mine,) = consumer.assignment()
        consumer.seek(mine, 0)
        return mine  # type: ignore[no-any-return]

    def committed(self) -> dict[int, int]:
        """Partition -> committed offset."""
        found = self._admin.list_group_offsets({self.group: None})[self.group]
        return {tp.partition: offset.offset for tp, offset in found.items() if offset.offset >= 0}

    def members(self) -> int:
        return len(self._admin.describe_groups([self.group])[self.group]["members"])

    def close(self) -> None:
        for made in self._made:
            with suppress(Exception):
                made.close(autocommit=False, timeout_ms=1000)
        self._admin.close()


@pytest.fixture
def life(kafka_broker: Broker, kafka_topic: Callable[..., str]) -> Iterator[Life]:
    made = Life(kafka_broker.bootstrap, kafka_topic(partitions=2))
    made.send()
    yield made
    made.close()


def offsets(records: Any, into: dict[int, list[int]]) -> dict[int, list[int]]:
    for tp, each in records.items():
        into.setdefault(tp.partition, []).extend(record.offset for record in each)
    return into


@pytest.mark.parametrize(
    ("assignor", "auto"),
    [
        (CooperativeStickyAssignor, True),
        (TheirAssignor, False),
        # long: each assignor and each way to commit is above
        pytest.param(CooperativeStickyAssignor, False, marks=pytest.mark.long),
        pytest.param(TheirAssignor, True, marks=pytest.mark.long),
    ],
)
def test_the_last_member_reads_to_its_end_and_commits_all_that_it_processed(
    life: Life, assignor: Any, auto: bool
) -> None:
    told = Told()
    consumer = life.member(told, assignor=assignor, enable_auto_commit=auto, auto_commit_interval_ms=1)
    seen: dict[int, list[int]] = {}

    def run() -> None:
        for records in leave(consumer, timeout_s=20):
            offsets(records, seen)

    finished(run, END_S)

    assert private.consumer.is_closed(consumer)
    assert life.members() == 0
    assert life.committed() == {0: 0, 1: 0} | {p: each[-1] + 1 for p, each in seen.items()}
    assert all(each == list(range(len(each))) for each in seen.values())
    assert told.calls[-1] == ("revoked", [0, 1])
    assert [name for name, _ in told.calls].count("revoked") == 1
    assert list(leave(consumer)) == [], "it has left"


@pytest.mark.timeout(120)
def test_it_reads_and_commits_while_another_member_keeps_the_group_waiting(life: Life) -> None:
    """The other one does not poll: nobody can join. At the time limit the member leaves as `close` does."""
    told = Told()
    consumer = life.member(told)
    mine = life.hold_up(consumer)
    begun = time.monotonic()
    seen: dict[int, list[int]] = {}
    for records in leave(consumer, timeout_s=3):
        offsets(records, seen)
        joins = private.membership.joins(private.consumer.coordinator_of(consumer))
        consumer.commit()
        if joins:
            assert life.committed()[mine.partition] == seen[mine.partition][-1] + 1, "while the join waits"
        answer = consumer.commit_async()
        until(lambda: answer.is_done, "it is answered")  # noqa: B023
        assert answer.succeeded()
    took_s = time.monotonic() - begun

    assert 3 <= took_s < 3 + END_S
    assert seen == {mine.partition: list(range(RECORDS))}, "it has read everything in that time"
    assert life.committed()[mine.partition] == RECORDS
    assert told.calls[-1] == ("revoked", [mine.partition])
    assert life.members() == 1


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("how", "auto"),
    [
        ("break", True),
        ("raise", False),
        # long: each end and each way to commit is above
        pytest.param("break", False, marks=pytest.mark.long),
        pytest.param("raise", True, marks=pytest.mark.long),
    ],
)
def test_a_loop_that_ends_early_commits_without_its_last_batch(life: Life, how: str, auto: bool) -> None:
    """The other member holds the group up, so that the loop goes on; a commit of the caller's is not taken back."""
    consumer = life.member(enable_auto_commit=auto, auto_commit_interval_ms=1)
    mine = life.hold_up(consumer)
    before = 0

    def run() -> None:
        nonlocal before
        for turn, records in enumerate(leave(consumer, timeout_s=20)):
            if turn == 2:
                before = records[mine][0].offset
                if how == "break":
                    break
                raise LookupError
        assert how == "break"

    if how == "break":
        finished(run, END_S)
    else:
        with pytest.raises(LookupError):
            finished(run, END_S)

    assert before > 0
    assert life.committed()[mine.partition] == before
    assert private.consumer.is_closed(consumer)
    assert life.members() == 1


@pytest.mark.timeout(120)
def test_a_commit_of_the_caller_is_not_taken_back(life: Life) -> None:
    consumer = life.member()
    mine = life.hold_up(consumer)
    loop = leave(consumer, timeout_s=20)
    for records in loop:
        consumer.commit()
        end = records[mine][-1].offset + 1
        break
    loop.close()  # type: ignore[attr-defined]
    assert life.committed()[mine.partition] == end


def test_what_the_caller_committed_is_not_committed_again(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for the member's last request."""
    sent: list[dict[Any, Any]] = []
    commit = private.requests.commit_beside

    async def recorded(coordinator: Any, offsets: Any, timeout_s: float) -> None:
        sent.append(dict(offsets))
        await commit(coordinator, offsets, timeout_s)

    monkeypatch.setattr(private.requests, "commit_beside", recorded)
    consumer = life.member()
    mine = life.hold_up(consumer)
    for _ in leave(consumer, timeout_s=2):
        consumer.commit()

    assert sent[-1][mine].offset == life.committed()[mine.partition] == RECORDS
    assert all(one != other for one, other in pairwise(sent))


def test_without_commits(life: Life) -> None:
    consumer = life.member()
    seen = offsets({tp: r for records in leave(consumer, commit=False) for tp, r in records.items()}, {})
    assert life.committed() == {}
    assert set(seen) <= {0, 1}
    assert life.members() == 0


def test_an_eager_member_commits_and_leaves(life: Life) -> None:
    told = Told()
    consumer = life.member(told, assignor=RangeAssignor)
    polled: dict[int, list[int]] = {}
    until(lambda: len(offsets(consumer.poll(timeout_ms=100), polled)) == 2, "records of both")

    assert list(leave(consumer)) == []

    assert life.committed() == {p: each[-1] + 1 for p, each in polled.items()}
    assert told.calls[-1] == ("revoked", [0, 1])
    assert life.members() == 0


def test_a_static_member_leaves_for_good(life: Life) -> None:
    consumer = life.member(group_instance_id="one")
    assert life.members() == 1
    finished(lambda: list(leave(consumer)), END_S)
    assert life.members() == 0


@pytest.mark.parametrize("what", ["unsubscribed", "manual", "no group", "never polled"])
def test_a_consumer_that_has_nothing_to_hand_over_is_closed(life: Life, what: str) -> None:
    consumer = life.consumer(group_id=None if what == "no group" else life.group)
    if what in ("manual", "no group"):
        consumer.assign([TopicPartition(life.topic, 0)])
        until(lambda: consumer.poll(timeout_ms=100), "records")
    elif what == "never polled":
        consumer.subscribe([life.topic])
    assert finished(lambda: list(leave(consumer)), END_S) == []
    assert private.consumer.is_closed(consumer)
    assert list(leave(consumer)) == []


def test_an_error_of_a_callback_comes_after_the_end(life: Life) -> None:
    told = Told(fails="revoked")
    consumer = life.member(told)

    def run() -> None:
        for _ in leave(consumer):
            pass

    with pytest.raises(KafkaError, match="User rebalance callback throws an error"):
        finished(run, END_S)
    assert private.consumer.is_closed(consumer)
    assert life.members() == 0


def test_nonsense_is_refused(life: Life) -> None:
    consumer = life.member()
    with pytest.raises(ConfigError, match=r"timeout_s must be seconds from 0, not -1"):
        leave(consumer, -1)
    with pytest.raises(ConfigError, match=r"timeout_s must be seconds from 0, not '5'"):
        leave(consumer, "5")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="object has no coordinator"):
        leave(object())
    assert not private.consumer.is_closed(consumer)
    assert life.members() == 1


@pytest.mark.timeout(120)
def test_a_second_leave_is_refused_and_the_first_goes_on(life: Life) -> None:
    consumer = life.member()
    life.hold_up(consumer)
    second = leave(consumer, timeout_s=1)
    loop = leave(consumer, timeout_s=20)
    next(loop)
    for again in (lambda: leave(consumer), lambda: next(second)):
        with pytest.raises(ConfigError, match="is leaving already"):
            again()
    assert next(loop)
    loop.close()  # type: ignore[attr-defined]
    assert private.consumer.is_closed(consumer)


def test_a_leave_during_a_poll_is_refused(life: Life) -> None:
    """Of another thread, and of a signal handler of its own thread; the poll goes on."""
    consumer = life.member()
    polled = threading.Thread(target=lambda: consumer.poll(timeout_ms=3000, max_records=1), daemon=True)
    for tp in consumer.assignment():
        consumer.seek(tp, RECORDS)
    polled.start()
    until(lambda: private.consumer.polls(consumer), "it polls")
    with pytest.raises(ConfigError, match=r"a thread is in this consumer's poll\(\)"):
        leave(consumer)
    polled.join()

    refused: list[str] = []

    def handle(*_: object) -> None:
        with pytest.raises(ConfigError) as error:
            leave(consumer)
        refused.append(str(error.value))

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        assert consumer.poll(timeout_ms=1000) == {}
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(refused) == 1
    assert "A signal handler only sets a flag" in refused[0]


@pytest.mark.timeout(120)
def test_no_other_thread_polls_meanwhile(life: Life) -> None:
    consumer = life.member()
    life.hold_up(consumer)
    loop = leave(consumer, timeout_s=20)
    next(loop)
    with pytest.raises(ConfigError, match="leaves its group in another thread"):
        finished(lambda: consumer.poll(timeout_ms=10), END_S)
    loop.close()  # type: ignore[attr-defined]


@pytest.mark.timeout(120)
def test_what_a_loop_over_the_consumer_has_not_handed_out_is_read(life: Life) -> None:
    """kafka-python's iterator takes a batch at a time, and its loop may end within one."""
    consumer = life.member()
    life.hold_up(consumer)
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == 3:
            break
    for records in leave(consumer, timeout_s=20):
        for each in records.values():
            seen += [record.offset for record in each]
        if len(seen) >= RECORDS:
            break
    assert seen == list(range(RECORDS))


class Interrupt(BaseException):
    """As KeyboardInterrupt, which pytest would take for the user's."""


class Interrupting:
    """A deserializer that is interrupted once: the first partition's records are taken, and two of the second's."""

    left = RECORDS + 2

    def deserialize(self, _topic: str, _headers: Any, value: bytes) -> bytes:
        self.left -= 1
        if self.left == 0:
            raise Interrupt
        return value


@pytest.mark.parametrize("guarded", [False, True], ids=["kafka-python", "guarded"])
def test_an_interrupted_poll_loses_no_records(life: Life, guarded: bool) -> None:
    consumer = life.member(assignor=TheirAssignor, max_poll_records=3 * RECORDS)
    if guarded:
        guard(consumer)
    for tp in consumer.assignment():
        consumer.seek(tp, 0)
    consumer._fetcher.config["value_deserializer"] = Interrupting()
    seen: dict[int, list[int]] = {}

    def polls() -> bool:
        offsets(consumer.poll(timeout_ms=100), seen)
        return False

    with pytest.raises(Interrupt):
        until(polls, "the interrupt")
    if not guarded:
        assert consumer.position(TopicPartition(life.topic, 0)) + consumer.position(TopicPartition(life.topic, 1)) > 0
        return  # kafka-python goes on beyond them, and a commit would cover them
    until(lambda: polls() or sum(map(len, seen.values())) >= 2 * RECORDS, "all records")
    assert seen == {0: list(range(RECORDS)), 1: list(range(RECORDS))}


@pytest.mark.long  # long: waits for a broker that is away; the tests above have the ends of a leave
@pytest.mark.timeout(180)
def test_a_broker_that_is_away_ends_it_in_time() -> None:
    """Killed in the middle: what was committed before stays, and the loop ends at its limit."""
    with start_broker() as broker:
        create_topics(broker.bootstrap, {"t": 2})
        life = Life(broker.bootstrap, "t")
        life.send()
        consumer = life.member()
        mine = life.hold_up(consumer)
        begun = time.monotonic()
        seen: dict[int, list[int]] = {}
        for turn, records in enumerate(leave(consumer, timeout_s=5)):
            offsets(records, seen)
            if turn == 1:
                broker.kill()
        assert time.monotonic() - begun < 5 + END_S
        assert seen[mine.partition][:2]
        assert private.consumer.is_closed(consumer)
        broker.restart()
        life.close()
