"""Two confluent consumers on a real broker, their partitions chosen by our assignors through the bridge."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import confluent_kafka
import pytest
from kafka import KafkaAdminClient
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as TheirCooperativeAssignor
from kafka.errors import CommitFailedError, RequestTimedOutError

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor
from kafka_assignors.confluent import BridgedConsumer
from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.broker import Broker
from tests.support.kafka_python.polling import DEADLINE_S
from tests.support.kafka_python.sent import sent
from tests.support.waiting import until

pytestmark = pytest.mark.broker
PARTITIONS = 6
EACH = 5


class Consuming(threading.Thread):
    """Polls a bridged consumer and keeps what it got and what it was told, until it is stopped."""

    def __init__(self, make: Callable[[], BridgedConsumer], topic: str) -> None:
        super().__init__(daemon=True)
        self.seen: Counter[tuple[int, int]] = Counter()
        self.told: list[tuple[str, list[int]]] = []
        self.done, self.go, self.still = threading.Event(), threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.bridge = make()
        self.bridge.subscribe([topic], *(self._tell(kind) for kind in ("assigned", "revoked", "lost")))
        self.go.set()
        self.start()

    def _tell(self, kind: str) -> Callable[..., None]:
        return lambda _consumer, partitions: self.told.append((kind, [each.partition for each in partitions]))

    def run(self) -> None:
        try:
            with self.bridge:
                while not self.done.is_set():
                    if not self.go.is_set():
                        self.still.set()
                    self.go.wait(DEADLINE_S)  # a caller that is busy
                    message = self.bridge.poll(0.3)
                    if message is not None:
                        assert message.error() is None, message.error()
                        self.seen[message.partition(), message.offset()] += 1
        except Exception as error:
            self.error = error

    @property
    def owned(self) -> set[int]:
        return {each.partition for each in self.bridge.assignment()}

    def halt(self) -> None:
        """Stand still from now on."""
        self.go.clear()
        assert self.still.wait(DEADLINE_S), "its poll goes on"

    def stop(self) -> None:
        self.done.set()
        self.go.set()
        self.join(DEADLINE_S)
        if self.error is not None:
            raise self.error


class Setting:
    """A topic and a group; what was sent, and consumers that end with the test."""

    def __init__(self, broker: Broker, admin: KafkaAdminClient, topic: str) -> None:
        self.broker, self.admin, self.topic, self.group = broker, admin, topic, f"bridge-{topic}"
        self.members: list[Consuming] = []
        self.sent = 0

    def config(self, **settings: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.broker.bootstrap, "group.id": self.group, "auto.offset.reset": "earliest",
            "session.timeout.ms": 2000, "heartbeat.interval.ms": 300, "auto.commit.interval.ms": 3_600_000, **settings,
        }  # fmt: skip

    def start(self, assignor: Any, **settings: Any) -> Consuming:
        member = Consuming(lambda: BridgedConsumer(self.config(**settings), [assignor]), self.topic)
        self.members.append(member)
        return member

    def send(self, wait: bool = True) -> None:
        """A few records more on each partition, and wait until they are consumed."""
        records = [{"value": b"x", "partition": n % PARTITIONS} for n in range(PARTITIONS * EACH)]
        sent(self.broker.bootstrap, self.topic, records)
        self.sent += EACH
        if wait:
            until(lambda: len(self.seen()) >= self.sent * PARTITIONS, "every record is consumed")

    def seen(self) -> Counter[tuple[int, int]]:
        return sum((Counter(dict(member.seen)) for member in self.members), Counter())

    def shared(self, *members: Consuming) -> None:
        """Wait until these members have all partitions, each as many."""

        def balanced() -> bool:
            owned = [member.owned for member in members]
            each = PARTITIONS // len(members)
            return all(len(o) == each for o in owned) and set().union(*owned) == set(range(PARTITIONS))

        until(balanced, f"{len(members)} members share")

    def committed(self) -> dict[int, int]:
        offsets = self.admin.list_group_offsets(self.group)
        offsets = offsets.get(self.group, offsets)
        return {tp.partition: each.offset for tp, each in offsets.items()}


@pytest.fixture
def setting(kafka_broker: Broker, kafka_admin: KafkaAdminClient, kafka_topic: Callable[..., str]) -> Iterator[Setting]:
    made = Setting(kafka_broker, kafka_admin, kafka_topic(partitions=PARTITIONS))
    yield made
    for member in made.members:
        member.stop()


# long: of an eager group, which gives up everything
@pytest.mark.parametrize("assignor", [CooperativeStickyAssignor, pytest.param(RangeAssignor, marks=pytest.mark.long)])
def test_one_joins_one_leaves_and_each_record_is_consumed_once(setting: Setting, assignor: Any) -> None:
    """Nothing is committed by time here: what moves was committed when it was given up."""
    a = setting.start(assignor)
    setting.shared(a)
    setting.send()
    kept = a.owned

    b = setting.start(assignor)
    setting.shared(a, b)
    if assignor is CooperativeStickyAssignor:
        revoked = [p for kind, partitions in a.told if kind == "revoked" for p in partitions]
        assert sorted(revoked) == sorted(kept - a.owned)  # and no more was taken from it
    setting.send()
    assert {p for p, offset in b.seen if offset >= EACH} == b.owned

    b.stop()
    setting.shared(a)
    setting.send()

    assert set(setting.seen().values()) == {1}
    assert len(setting.seen()) == 3 * EACH * PARTITIONS
    a.stop()
    assert setting.committed() == dict.fromkeys(range(PARTITIONS), 3 * EACH)
    assert a.told[-1][0] == "revoked"  # at the end, too


def test_a_member_that_is_thrown_out_is_told_what_it_lost_and_comes_back(setting: Setting) -> None:
    a = setting.start(CooperativeStickyAssignor, **{"max.poll.interval.ms": 3000})
    b = setting.start(CooperativeStickyAssignor, **{"max.poll.interval.ms": 3000})
    setting.shared(a, b)
    setting.send()
    had = sorted(a.owned)

    a.halt()  # busy for too long
    setting.shared(b)
    a.go.set()
    setting.shared(a, b)

    assert [partitions for kind, partitions in a.told if kind == "lost"] == [had]
    setting.send()
    # What it had processed was not committed when it was thrown out, so that part is read twice, and that alone.
    assert {p for (p, _), count in setting.seen().items() if count > 1} <= set(had)
    assert set(setting.seen().values()) <= {1, 2}


def test_a_leader_that_is_thrown_out_as_it_assigns_is_told_what_it_lost(setting: Setting) -> None:
    """With kafka-python's own assignor, which doesn't guard its consumer: the bridge does."""
    gate, assigns = threading.Event(), threading.Event()

    class Slow(TheirCooperativeAssignor):  # type: ignore[misc]
        def assign(self, cluster: Any, members: Any) -> Any:
            if len(members) > 1 and not gate.is_set():
                assigns.set()
                gate.wait(DEADLINE_S)  # its heartbeats stop, and its session ends
            return super().assign(cluster, members)

    a = setting.start(Slow())
    setting.shared(a)
    setting.send()
    b = setting.start(TheirCooperativeAssignor)
    assert assigns.wait(DEADLINE_S)
    setting.shared(b)
    setting.send(wait=False)
    gate.set()
    until(lambda: ("lost", list(range(PARTITIONS))) in a.told, "it is told that it lost all")
    setting.shared(a, b)
    setting.send()

    a.stop()
    b.stop()
    assert setting.committed() == dict.fromkeys(range(PARTITIONS), setting.sent)


def test_commits_by_hand_go_through_the_group(setting: Setting) -> None:
    """The data plane's own commit is refused by the broker, as it is no member."""
    setting.sent = 0
    with BridgedConsumer(setting.config(**{"enable.auto.commit": False}), [RangeAssignor]) as bridge:
        with pytest.raises(RuntimeError, match="call subscribe"):
            bridge.poll(0)
        with pytest.raises(ConfigError, match="topics must be a list of names, or a list of patterns"):
            bridge.subscribe(["orders", "^audit.*"])
        bridge.subscribe([setting.topic])
        until(lambda: bridge.poll(0.1) is None and len(bridge.assignment()) == PARTITIONS, "it has all")
        sent(setting.broker.bootstrap, setting.topic, [{"value": b"x", "partition": 2}] * EACH)
        messages: list[Any] = []
        until(lambda: messages.extend(bridge.consume(EACH, 0.5)) or len(messages) == EACH, "all are consumed")

        bridge.commit(messages[2])
        assert setting.committed()[2] == 3
        done = bridge.commit(messages[3], asynchronous=False)
        assert [(each.topic, each.partition, each.offset) for each in done or ()] == [(setting.topic, 2, 4)]
        assert bridge.commit(messages[4], asynchronous=True) is None
        until(lambda: not bridge.poll(0.1) and setting.committed()[2] == 5, "it is committed in the background")
        with pytest.raises(CommitFailedError, match="elsewhere-0: not owned any more"):
            bridge.commit(offsets=[confluent_kafka.TopicPartition("elsewhere", 0, 7)])
        bridge.commit(offsets=[confluent_kafka.TopicPartition(setting.topic, 4, 0)])
        assert setting.committed()[4] == 0
        with pytest.raises(confluent_kafka.KafkaException, match="UNKNOWN_MEMBER_ID"):
            bridge.consumer.commit(message=messages[4], asynchronous=False)
        with pytest.raises(ConfigError, match="not both"):
            bridge.commit(messages[0], offsets=[])
        assert bridge.memberid()
    assert setting.committed()[2] == 5  # nothing by itself
    bridge.close()
    with pytest.raises(RuntimeError, match="closed"):
        bridge.poll(0)


def test_callbacks_choose_where_to_start_and_commit_by_hand(setting: Setting) -> None:
    def start_late(_consumer: BridgedConsumer, partitions: list[Any]) -> None:
        for each in partitions:
            each.offset = EACH - 1

    def commit(consumer: BridgedConsumer, _partitions: list[Any]) -> None:
        consumer.commit()

    by_hand = {"enable.auto.commit": False}
    other: list[Consuming] = []
    seen: Counter[tuple[int, int]] = Counter()
    with BridgedConsumer(setting.config(**by_hand), [CooperativeStickyAssignor]) as bridge:
        setting.send(wait=False)
        bridge.subscribe([f"^{setting.topic}$"], on_assign=start_late, on_revoke=commit)

        def read() -> None:
            if (message := bridge.poll(0.2)) is not None:
                seen[message.partition(), message.offset()] += 1

        until(lambda: read() or len(seen) == PARTITIONS, "the last record of each partition is read")
        other.append(setting.start(CooperativeStickyAssignor, **by_hand))
        until(lambda: read() or len(bridge.assignment()) == PARTITIONS // 2, "a second member has its share")
        given_up = set(range(PARTITIONS)) - {each.partition for each in bridge.assignment()}
        assert {p for p, offset in setting.committed().items() if offset == EACH} >= given_up
    assert set(seen) == {(p, EACH - 1) for p in range(PARTITIONS)}
    setting.shared(other[0])
    assert setting.committed() == dict.fromkeys(range(PARTITIONS), EACH)
    assert not other[0].seen  # nothing was left to read


def test_no_assignor_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"assignors must be a list such as \[CooperativeStickyAssignor\]"):
        BridgedConsumer({"group.id": "g"}, [])


class Interrupted(BaseException):
    """As KeyboardInterrupt, which pytest would take for its own."""


@pytest.fixture
def interrupt_after() -> Iterator[Callable[[float], None]]:
    """Interrupt what runs once, after so many seconds; 0 calls it off."""
    armed = False

    def interrupt(*_: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise Interrupted

    def arm(seconds: float) -> None:
        nonlocal armed
        armed = seconds > 0
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, interrupt)
    yield arm
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_interrupts_at_any_moment_lose_nothing_and_commit_nothing_unseen(
    setting: Setting, interrupt_after: Callable[[float], None]
) -> None:
    """A signal that falls into `consume` leaves the caller with nothing; what was on its way then comes again."""
    rng = random.Random(12)
    seen: dict[int, set[int]] = {each: set() for each in range(PARTITIONS)}
    interrupted, enough = 0, 6
    bridge = BridgedConsumer(setting.config(**{"auto.commit.interval.ms": 20}), [CooperativeStickyAssignor])
    bridge.subscribe([setting.topic])
    until(lambda: not bridge.consume(1, 0.1) and len(bridge.assignment()) == PARTITIONS, "it has all")
    for _ in range(8):
        setting.send(wait=False)
    deadline = time.monotonic() + DEADLINE_S
    while interrupted < enough or any(len(each) < setting.sent for each in seen.values()):
        if all(len(each) == setting.sent for each in seen.values()):
            setting.send(wait=False)  # a busy machine was interrupted between two calls, not within one
        assert time.monotonic() < deadline, f"messages are lost: {seen}"
        batch: list[Any] = []
        try:
            interrupt_after(rng.choice([0.0003, 0.001, 0.003, 0.01, 0.05]))
            batch = bridge.consume(rng.choice([1, 2, 7, 50]), 0.2)
            interrupt_after(0)
        except Interrupted:
            interrupted += 1
        committed = setting.committed() if rng.random() < 0.1 else {}
        assert all(set(range(offset)) <= seen[each] for each, offset in committed.items())
        for message in batch:
            seen[message.partition()].add(message.offset())
    bridge.close()

    assert setting.committed() == dict.fromkeys(range(PARTITIONS), setting.sent)


@pytest.mark.parametrize("how", ["with", "finally"])
def test_a_message_whose_processing_raised_is_not_committed(setting: Setting, how: str) -> None:
    setting.send(wait=False)
    read: list[tuple[int, int]] = []

    def process(bridge: BridgedConsumer) -> None:
        while True:
            if (message := bridge.poll(0.5)) is not None:
                read.append((message.partition(), message.offset()))
                if len(read) == 7:
                    raise ZeroDivisionError

    def run_with() -> None:
        with BridgedConsumer(setting.config(), [CooperativeStickyAssignor]) as bridge:
            bridge.subscribe([setting.topic])
            process(bridge)

    def run_finally() -> None:
        bridge = BridgedConsumer(setting.config(), [CooperativeStickyAssignor])
        try:
            bridge.subscribe([setting.topic])
            process(bridge)
        finally:
            bridge.close()

    with pytest.raises(ZeroDivisionError):
        run_with() if how == "with" else run_finally()

    done = Counter(partition for partition, _ in read[:-1])
    assert setting.committed() == dict(done)


@pytest.mark.parametrize(
    ("assignor", "auto"),
    [
        (CooperativeStickyAssignor, "true"),
        (RangeAssignor, "false"),
        # long: each assignor and each way to commit is above
        pytest.param(CooperativeStickyAssignor, "false", marks=pytest.mark.long),
        pytest.param(RangeAssignor, "true", marks=pytest.mark.long),
    ],
)
def test_a_leave_commits_what_was_processed(setting: Setting, assignor: Any, auto: str) -> None:
    """Alone in its group it has nobody to hand over to, and an eager member cannot."""
    setting.send(wait=False)
    bridge = BridgedConsumer(setting.config(**{"enable.auto.commit": auto}), [assignor])
    bridge.subscribe([setting.topic])
    seen: Counter[int] = Counter()
    until(lambda: seen.update(each.partition() for each in bridge.consume(3, 0.5)) or seen.total() > 2, "messages")
    for messages in bridge.leave(timeout_s=20, num_messages=2):
        assert 0 < len(messages) <= 2
        seen.update(each.partition() for each in messages)
    assert setting.committed() == dict(seen)
    assert list(bridge.leave()) == [], "it has left"
    with pytest.raises(RuntimeError, match="the consumer is closed"):
        bridge.poll(0)


@pytest.mark.parametrize("how", ["break", "raise"])
def test_a_leave_that_ends_early_commits_without_its_last_batch(setting: Setting, how: str) -> None:
    """Another member that stands still holds the group up, so that the loop goes on."""
    bridge = BridgedConsumer(setting.config(**{"session.timeout.ms": 20_000}), [CooperativeStickyAssignor])
    bridge.subscribe([setting.topic])
    other = setting.start(CooperativeStickyAssignor, **{"session.timeout.ms": 20_000})
    until(lambda: bridge.poll(0.1) is None and len(bridge.assignment()) == len(other.owned) == PARTITIONS // 2, "both")
    other.halt()
    setting.send(wait=False)
    seen: Counter[int] = Counter()

    def run() -> None:
        for turn, messages in enumerate(bridge.leave(timeout_s=60, num_messages=3)):
            if turn == 2:
                with pytest.raises(ConfigError, match="is leaving already"):
                    bridge.leave()
                if how == "break":
                    break
                raise ZeroDivisionError
            seen.update(each.partition() for each in messages)

    begun = time.monotonic()
    with pytest.raises(ZeroDivisionError) if how == "raise" else nullcontext():
        run()
    assert time.monotonic() - begun < 20, "it does not wait for the other one"
    assert {p: offset for p, offset in setting.committed().items() if offset} == dict(seen)


@pytest.mark.long  # long: waits for max.poll.interval.ms; the other side, a member that is busy for too long, is above
def test_a_trickle_keeps_its_member_in_the_group(setting: Setting) -> None:
    """One call of `consume` outlasts max.poll.interval.ms, with a few messages and not enough of them."""
    short = {"max.poll.interval.ms": 2000, "session.timeout.ms": 1000}
    told: list[str] = []
    with BridgedConsumer(setting.config(**short), [CooperativeStickyAssignor]) as bridge:
        bridge.subscribe([setting.topic], on_lost=lambda *_: told.append("lost"))
        until(lambda: not bridge.consume(1, 0.1) and len(bridge.assignment()) == PARTITIONS, "it has all")
        member = bridge.memberid()
        setting.send(wait=False)
        messages = bridge.consume(EACH * PARTITIONS + 1, 5)
        assert len(messages) == EACH * PARTITIONS
        bridge.consume(1, 0.5)
        assert bridge.memberid() == member
        assert not told
    assert setting.committed() == dict.fromkeys(range(PARTITIONS), EACH)


def test_a_commit_that_failed_is_tried_again(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with BridgedConsumer(setting.config(**{"auto.commit.interval.ms": 100}), [CooperativeStickyAssignor]) as bridge:
        commit = bridge._control.commit_async

        def refuse(offsets: Any, callback: Any = None) -> Any:
            monkeypatch.setattr(bridge._control, "commit_async", commit)
            callback(offsets, RequestTimedOutError("the coordinator is slow"))

        monkeypatch.setattr(bridge._control, "commit_async", refuse)
        bridge.subscribe([setting.topic])
        setting.send(wait=False)
        read: list[Any] = []
        until(lambda: read.extend(bridge.consume(10, 0.2)) or len(read) == EACH * PARTITIONS, "all are consumed")
        everything = dict.fromkeys(range(PARTITIONS), EACH)
        until(lambda: not bridge.consume(1, 0.2) and setting.committed() == everything, "what was refused is committed")
    assert "not committed yet; the next attempt is in" in caplog.text
