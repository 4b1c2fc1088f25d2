"""What happened between two stable states of a group: triggers, and the generations that followed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from kafka_assignors.core.declaration import options_of
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.weighted.hysteresis import GROUP_S
from kafka_assignors.history.events import Event
from kafka_assignors.history.events.bodies import GenerationBody, RebalanceRequestBody, StepBody

from .ledger import Generation, GroupRecord
from .slack import surely_before

TRIGGERS = ("start", "stop", "exit", "fault_begin", "fault_end", "admin_change")
"""Kinds of the events after which a group may rebalance."""


@dataclass(frozen=True)
class Transition:
    """A group between one ``stable`` step and the next.

    `requests` are the members' for a rebalance (``rebalance_request``) after `before` was committed and before `after`
    was, by clocks that may be `SLACK_MS` apart. A request that no generation follows is in none, or in the next
    transition that has one.
    """

    record: GroupRecord
    before: Generation | None  # of the first stable state; None at the start
    rest: Event[StepBody] | None  # the step that records that state
    after: Generation  # of the second stable state
    end: Event[StepBody]  # the step that records that one
    generations: tuple[Generation, ...]  # committed after `before`, up to and including `after`
    triggers: tuple[Event, ...]  # events that may have caused them
    requests: tuple[Event[RebalanceRequestBody], ...]

    @cached_property
    def trigger(self) -> Event | None:
        """The trigger `alone`, provided that all leaders saw the current topics.

        A leader that did not (a cold start) must assign again, which is one more trigger. If a leader does not report
        the topics that it saw, we infer them from the partitions that it assigned or left to their claimants.
        """
        return self.alone if all(self._seen_whole(g) for g in self.generations) else None

    @cached_property
    def alone(self) -> Event | None:
        """The only trigger; None if there was none or several, or if membership changed without a scenario action.

        The ``fault_begin`` (kill), ``stop`` and ``exit`` of one process count as one trigger. Members' requests are
        the trigger if there is no other; it is then the first of them. A generation whose members are neither those
        before nor those after shows that membership changed otherwise, for example by a missed session.
        """
        if self.before is None:
            return None
        if not self.triggers and self.requests:
            return self.requests[0] if self.asked else None
        of_processes = {(e.member, e.incarnation) for e in self.triggers if e.kind != "admin_change"}
        if len(of_processes) + sum(e.kind == "admin_change" for e in self.triggers) != 1 or not self.asked:
            return None
        return self.triggers[0]

    @cached_property
    def unclear(self) -> str | None:
        """Why no single trigger explains the change; None if one does, or if there is nothing to judge."""
        if self.before is None or not (self.triggers or self.generations) or self.trigger is not None:
            return None
        if not self.triggers and not self.requests:
            return "no trigger explains the generations"
        if not self.asked:
            return "membership changed without a scenario action"
        if self.alone is None:
            return "several triggers overlap"
        return "a leader's metadata were outdated, or the history does not have them"

    @cached_property
    def asked(self) -> bool:
        """Whether every generation has the members of one of the two stable states."""
        rests = [frozenset(g.identities.values()) for g in (self.before, self.after) if g is not None]
        return all(frozenset(g.identities.values()) in rests for g in self.generations)

    @cached_property
    def due_requests(self) -> int:
        """Number of requests that may each take the generations of a trigger.

        A member may request one rebalance per generation that it adopted, after the rest that its assignor promises
        (``rest_s``). Other requests allow no generations, so a storm of them has too many.
        """
        adoptions: set[tuple[str | None, int, int]] = set()
        for request in self.requests:
            process = request.member, request.incarnation
            adopted = [
                e
                for e in self.record.events.of(GenerationBody)
                if (e.member, e.incarnation) == process and e.mono_ns < request.mono_ns
            ]
            if adopted and request.mono_ns - adopted[-1].mono_ns >= self._rest_s(request) * 1e9:
                adoptions.add((*process, adopted[-1].body.generation))
        return len(adoptions)

    def _rest_s(self, request: Event) -> float:
        """The rest that a member's assignor was made with; the default if the history does not have it."""
        name = self.record.strategy_of(request.member_id or "", self.after.protocol)
        return float(options_of(name)[1].get("rest_s", GROUP_S))

    @cached_property
    def protocol(self) -> str | None:
        """The assignor of `before` and of all its generations; None if it changed."""
        names = {g.protocol for g in (self.before, *self.generations) if g is not None}
        return names.pop() if len(names) == 1 else None

    def _seen_whole(self, generation: Generation) -> bool:
        if generation.by_broker:  # the broker knows its topics
            return True
        topics = self.end.body.topics
        if topics is None:
            return False
        view = self.record.views.get((generation.leader, generation.number))
        if view is not None:
            return dict(view.body.topics) == dict(topics)
        if self.record.start_of(generation.leader) is None:
            return False
        assigned = set(generation.owners)
        claimed = {tp for member in generation.body.members for tp in member.owned}
        whole = {TopicPartition(topic, p) for topic, count in topics.items() for p in range(count)}
        return whole <= assigned | claimed and {tp.topic for tp in assigned} == set(topics)


def transitions(record: GroupRecord) -> Iterator[Transition]:
    """Yield a group's transitions in order, ignoring stable states whose generation the coordinator log lacks.

    A transition's generations exclude one that was written again because a static member returned.
    """
    first_writings = {g.number: g for g in reversed(record.generations)}
    committed = [g for g in record.generations if first_writings[g.number] is g]
    index = {g.number: i for i, g in enumerate(committed)}
    triggers = sorted((e for kind in TRIGGERS for e in record.events[kind]), key=lambda e: e.mono_ns)
    requests = record.events.of(RebalanceRequestBody)
    rest: Event[StepBody] | None = None
    before: Generation | None = None
    for step in record.rests:
        if (number := step.body.generation) is None or number not in index:
            continue
        after = record.by_number[number]
        first = 0 if before is None else index[before.number] + 1
        since = 0 if rest is None else rest.mono_ns
        answered = 0 if before is None else first_writings[before.number].event.mono_ns
        until = first_writings[after.number].event.mono_ns
        yield Transition(
            record, before, rest, after, step,
            tuple(committed[first : index[after.number] + 1]),
            tuple(e for e in triggers if since < e.mono_ns <= step.mono_ns),
            tuple(e for e in requests if answered < e.mono_ns and not surely_before(until, e.mono_ns)),
        )  # fmt: skip
        rest, before = step, after


def needed_moves(before: Generation, after: Generation) -> int:
    """The fewest moves from one generation after which the members of another are balanced, if they subscribe alike."""
    counts = Counter(owner for tp, owner in before.owners.items() if tp in after.owners)  # topics may have changed
    staying = [o for o in before.identities.values() if o in set(after.identities.values())]
    return counts.total() - most_kept([counts[o] for o in staying], len(after.assigned), len(after.owners))


def subscribe_alike(before: Generation, after: Generation) -> bool:
    """Whether each generation's members have one subscription, and no rack. Raises `WireError` if one can't be read."""
    for generation in (before, after):
        seen = {
            (frozenset(subscription.topics), subscription.rack)
            for subscription in map(generation.subscription_of, generation.assigned)
        }
        if len(seen) != 1 or next(iter(seen))[1] is not None:
            return False
    return True


def most_kept(counts: Collection[int], members: int, partitions: int) -> int:
    """The most of `partitions` that keep their owner if spread evenly over `members`; `counts`: of those that stay.

    >>> most_kept([4, 4], 3, 8)  # quotas 3, 3, 2
    6
    """
    quota, extra = divmod(partitions, members)
    return sum(min(count, quota) for count in counts) + min(extra, sum(count > quota for count in counts))
