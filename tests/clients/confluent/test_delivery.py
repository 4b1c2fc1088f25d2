"""What a bridged member commits, judged against an application that remembers what it finished."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_assignors.clients.confluent.delivery import Delivery
from kafka_assignors.core.group import TopicPartition
from tests.support.examples import examples

PARTITIONS = [TopicPartition("orders", each) for each in range(3)]


@dataclass(frozen=True)
class Message:
    """As confluent-kafka's, as far as it is looked at."""

    place: TopicPartition
    at: int
    wrong: bool = False

    def topic(self) -> str:
        return self.place.topic

    def partition(self) -> int:
        return self.place.partition

    def offset(self) -> int:
        return self.at

    def error(self) -> object | None:
        return "broken" if self.wrong else None


class Bridge(RuleBasedStateMachine):
    """One member beside others: the coordinator's offsets, the data plane's positions, and what applications finished.

    Who finishes a message here or elsewhere notes it in `finished`, which no step of the bridge's may read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.delivery = Delivery()
        self.committed = dict.fromkeys(PARTITIONS, 0)  # at the coordinator
        self.position: dict[TopicPartition, int] = {}  # of the data plane, where it is assigned
        self.finished: dict[TopicPartition, set[int]] = {each: set() for each in PARTITIONS}
        self.in_hand: list[Message] = []  # returned to this member's application
        self.handed_out: set[TopicPartition] = set()  # where the data plane has a position to tell
        self.flying: dict[TopicPartition, int] | None = None  # a commit that isn't answered
        self.refusable: set[TopicPartition] = set()  # of that, what must be tried again if it is refused

    def commit(self, offsets: dict[TopicPartition, int]) -> None:
        for each, offset in offsets.items():
            missing = set(range(offset)) - self.finished[each]
            assert not missing, f"{each} is committed up to {offset}, and nobody finished {sorted(missing)}"
            self.committed[each] = offset

    def application_finishes(self, messages: Iterable[Message]) -> None:
        for each in messages:
            if not each.wrong:
                self.finished[each.place].add(each.at)

    @initialize()
    def join(self) -> None:
        self.gain(PARTITIONS[:2])

    @rule(which=st.sets(st.sampled_from(PARTITIONS), min_size=1))
    def rebalance(self, which: set[TopicPartition]) -> None:
        self.gain(which)

    def gain(self, which: Iterable[TopicPartition]) -> None:
        added = set(which) - self.delivery.owned
        self.delivery.gain(added)
        self.position.update({each: self.committed[each] for each in added})

    @rule(which=st.sets(st.sampled_from(PARTITIONS), min_size=1), elsewhere=st.integers(0, 3))
    def lose(self, which: set[TopicPartition], elsewhere: int) -> None:
        """Thrown out: nothing is committed, and the next owner goes on from what was."""
        gone = which & self.delivery.owned
        self._forget(gone)
        for each in gone:
            begin = self.committed[each]
            self.finished[each].update(range(begin, begin + elsewhere))
            self.committed[each] = begin + elsewhere

    @rule(which=st.sets(st.sampled_from(PARTITIONS), min_size=1))
    def give_up(self, which: set[TopicPartition]) -> None:
        """Between two batches, as the client rebalances while the caller waits; what is done is committed first."""
        self.next_call()
        gone = which & self.delivery.owned
        self.delivery.ask(self.delivery.finished)
        self.commit(self.delivery.due(gone))
        self._forget(gone)

    def _forget(self, gone: set[TopicPartition]) -> None:
        self.delivery.lose(gone)
        for each in gone:
            del self.position[each]
            self.refusable.discard(each)
        self.handed_out -= gone

    @precondition(lambda self: self.position)
    @rule(which=st.integers(0, 2), number=st.integers(1, 4), wrong=st.booleans())
    def take(self, which: int, number: int, wrong: bool) -> None:
        place = sorted(self.position)[which % len(self.position)]
        for _ in range(number):
            self.delivery.messages.append(Message(place, self.position[place]))
            self.position[place] += 1
        self.handed_out.add(place)
        if wrong:
            self.delivery.messages.append(Message(TopicPartition(None, -1), -1, wrong=True))  # type: ignore[arg-type]

    @precondition(lambda self: self.position)
    @rule(which=st.integers(0, 2), number=st.integers(1, 4), answer=st.sampled_from([None, True, False]))
    def work(self, which: int, number: int, answer: bool | None) -> None:
        """What members do most of the time."""
        self.take(which, number, wrong=False)
        self.next_call(len(self.delivery.messages))
        self.next_call(0)
        if self.flying is None:
            self.commit_in_background()
        if self.flying is not None and answer is not None:
            self.answer(answer)

    @precondition(lambda self: self.position)
    @rule(which=st.integers(0, 2))
    def an_interrupt_drops_a_message(self, which: int) -> None:
        """The data plane has gone past it; the bridge goes back to what it knows."""
        place = sorted(self.position)[which % len(self.position)]
        told = {each: self.position[each] for each in self.handed_out | {place}}
        told[place] += 1
        assert self.delivery.dropped(told) == {place: self.position[place]}

    @rule(most=st.integers(0, 5))
    def next_call(self, most: int = 0) -> None:
        """The caller asks for more, so it is done with what it has; an interrupt may leave it with nothing."""
        self.application_finishes(self.in_hand)
        self.delivery.finish()
        self.in_hand = list(self.delivery.messages[:most])
        self.delivery.returned = len(self.in_hand)

    @rule(done=st.integers(0, 5))
    def processing_fails(self, done: int) -> None:
        """The application finishes a part, fails, and what it had comes again if it goes on."""
        self.application_finishes(self.in_hand[:done])
        self.in_hand = []
        self.delivery.abandon()

    @precondition(lambda self: self.flying is None)
    @rule()
    def commit_in_background(self) -> None:
        self.delivery.ask(self.delivery.finished)
        if due := self.delivery.due():
            self.delivery.send(due)
            self.flying, self.refusable = due, set(due)

    @precondition(lambda self: self.flying is not None)
    @rule(accepted=st.booleans())
    def answer(self, accepted: bool) -> None:
        assert self.flying is not None
        sent, self.flying = self.flying, None
        if accepted and all(sent[each] >= self.committed[each] for each in sent):  # else its generation is over
            self.commit(sent)
            self.delivery.answered(accepted=True)
        else:
            self.delivery.answered(accepted=False)
            assert self.delivery.due().keys() >= self.refusable, "what was refused is tried again"

    @rule(number=st.integers(0, 4))
    def commit_a_message(self, number: int) -> None:
        """The caller commits by hand what it has finished, in the middle of a batch."""
        done, self.in_hand = self.in_hand[: number + 1], self.in_hand[number + 1 :]
        self.application_finishes(done)
        if done and not done[-1].wrong and done[-1].place in self.delivery.owned:
            wanted = {done[-1].place: done[-1].at + 1}
            self.commit(wanted)
            self.delivery.committed(wanted)
            self.refusable -= wanted.keys()

    @invariant()
    def nothing_is_left_out(self) -> None:
        """What it knows of each partition is one run of offsets: finished, then returned, then taken, no gap."""
        for place in self.delivery.owned:
            offsets = [each.at for each in self.delivery.messages if each.place == place]
            if offsets:
                begin = self.delivery.finished.get(place, offsets[0])
                assert offsets == list(range(begin, begin + len(offsets)))
            if place in self.delivery.finished:
                assert set(range(self.delivery.finished[place])) <= self.finished[place]

    @invariant()
    def it_knows_nothing_of_what_it_does_not_own(self) -> None:
        owned = self.delivery.owned
        assert self.delivery.finished.keys() <= owned
        assert self.delivery.due().keys() <= owned
        assert all(each.wrong or each.place in owned for each in self.delivery.messages)
        assert 0 <= self.delivery.returned <= len(self.delivery.messages)


Bridge.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestNothingUnfinishedIsCommitted = Bridge.TestCase
