"""R3 to R5, T1 to T3: one transition between two stable states: moves, rounds, needless revokes, and time. Pure."""

from __future__ import annotations

from contextlib import suppress

from kafka_assignors.core.declaration import is_ours, options_of
from kafka_assignors.core.group.assignment import moves
from kafka_assignors.core.wire.userdata import decode_sticky
from kafka_assignors.errors import WireError
from kafka_assignors.history.events import Event, is_of
from kafka_assignors.history.events.bodies import (
    AdminBody,
    AdminChangeBody,
    AdminChangedBody,
    CommitFailBody,
    ExitBody,
    FaultBody,
)

from ...names import COOPERATIVE
from ..ledger import Generation, GroupRecord
from ..planned import ASSIGNMENT_INTERVAL_MS, LATE_MS, WORKING
from ..transitions import Transition, needed_moves, subscribe_alike
from .findings import BEAT_MS, MS, SHOWN, Findings, all_named, named

EAGER_ROUNDS, COOPERATIVE_ROUNDS = 1, 2
"""Generations per trigger: a cooperative move is revoked in one generation and assigned in the next."""
REGEX_REFRESH_MS = 10_000
"""Kafka's ``REGEX_BATCH_REFRESH_MIN_INTERVAL_MS``: how long a broker waits before it resolves patterns again."""
_OF_TOPICS = ("create_topic", "add_partitions", "delete_topic")
EARLY_MS = 500
"""Tolerance before the session's end: a busy member's last heartbeat may be late. After it, it is `LATE_MS`."""
_INTERRUPTED = "a proxy disturbed single requests of a member, so the time of its next join is unknown"
NOTICED_MS = 1000
"""Time beyond the metadata's age in which a group with heartbeats of `BEAT_MS` may join and assign again."""


def needless_revokes(transition: Transition, findings: Findings) -> None:
    """R3: under a cooperative assignor, no partition is revoked that its member has before and after one trigger.

    Members that also offer an eager assignor, as during a rolling change, revoke everything (KIP-429).
    """
    if transition.protocol not in transition.record.cooperative_protocols or _unclear("R3", transition, findings):
        return
    if transition.before is None or transition.rest is None or transition.trigger is None:
        return
    if transition.due_requests + bool(transition.triggers) > 1:
        findings.not_judged("R3", "several triggers overlap")
        return
    after = transition.after.owners
    names = {transition.after.identities[m]: name for m, name in transition.after.names.items()}
    kept = {tp: names[owner] for tp, owner in transition.before.owners.items() if after.get(tp) == owner}
    findings.judged("R3", len(kept))
    for span in transition.record.ended(transition.rest.mono_ns + 1, transition.end.mono_ns):
        if span.interval.end_kind != "revoked" or kept.get(span.tp) != span.interval.member:
            continue
        if transition.record.cooperative(span.owner[1:]):
            message = (
                f"{named(span.tp)} was revoked from {span.interval.member} and assigned to it again, for one trigger"
            )
            findings.broken("R3", message, span.start, span.end, transition.trigger, transition.after.event)


def fewest_moves(transition: Transition, findings: Findings) -> None:
    """R4: our sticky assignors move no more partitions than balance needs.

    Judged for one trigger, if all members have the same subscription and none has a rack (racks precede moves).
    """
    if transition.after.by_broker and transition.trigger is not None:
        findings.not_judged("R4", "the broker's assignor decides, which does not promise the fewest moves")
        return
    if transition.protocol not in ("sticky", "compact-sticky", COOPERATIVE) or _unclear("R4", transition, findings):
        return
    if transition.before is None or transition.trigger is None:
        return
    if not transition.record.led_by_ours(transition.after):
        ran = transition.record.strategy_of_leader(transition.after)
        findings.not_judged("R4", f"the leader ran {ran}, which does not minimise moves")
        return
    if any(_spread_first(transition.record.strategy_of(m, transition.protocol)) for m in transition.after.assigned):
        findings.not_judged("R4", "a member's goals put spread before moves")
        return
    if not _alike(transition.before, transition.after, findings):
        findings.not_judged("R4", "members' subscriptions differ, or members have racks, which outweigh moves")
        return
    if _forgot(transition.before, transition, findings):
        findings.not_judged("R4", "a member of another client joined again without a claim to partitions that it held")
        return
    moved = moves(transition.before.owners, transition.after.owners)
    needed = needed_moves(transition.before, transition.after)
    findings.judged("R4")
    if len(moved) > needed:
        message = (
            f"{len(moved)} partitions changed owners between generation {transition.before.number} and "
            f"{transition.after.number}, {needed} moves are enough: {all_named(sorted(moved))}"
        )
        findings.broken("R4", message, transition.before.event, transition.trigger, transition.after.event)


def _spread_first(name: str) -> bool:
    return is_ours(name) and "spread" in options_of(name)[1].get("goals", ())


def few_rounds(transition: Transition, findings: Findings) -> None:
    """R5: one trigger takes one generation, two under a cooperative assignor, none if only brokers were away briefly.

    Briefly means less than the shortest session of the group's members; a new coordinator starts each session again.

    Not every generation is a round. A member may rejoin after a revoke before another has learned its assignment, and
    that one then joins again with its old state: a generation that some member never adopted does not count. Neither
    does one that a member with a new subscription joined with its old one (a leader that rejoins for new topics). Each
    member may cause one extra generation per round; more of them, adopted or not, are a storm.

    A rebalance that a member requested after its rest (`Transition.due_requests`) is one more trigger.
    """
    if _unclear("R5", transition, findings) or transition.trigger is None:
        return
    if transition.protocol is None:
        findings.not_judged("R5", "the assignor changed")
        return
    if _interrupts(transition.trigger):
        findings.not_judged("R5", _INTERRUPTED)
        return
    # Under KIP-848 a move takes one target, which its members reach one after the other.
    by_broker = all(generation.by_broker for generation in transition.generations)
    cooperative = transition.protocol in transition.record.cooperative_protocols and not by_broker
    rounds_each = COOPERATIVE_ROUNDS if cooperative else EAGER_ROUNDS
    limit = rounds_each * transition.due_requests
    if transition.triggers and not _back_soon(transition):
        limit += rounds_each
    findings.judged("R5")
    adopted = transition.record.adopted
    telling = transition.record.processes
    rounds = [
        g
        for g in transition.generations
        if _heard(transition.trigger, g) and all((m, g.number) in adopted for m in g.assigned if m in telling)
    ]
    if len(rounds) > limit:
        message = (
            f"{_causes(transition)} took {len(rounds)} generations, {limit} are enough: "
            f"{', '.join(str(g.number) for g in rounds)}"
        )
        refused = [
            event
            for event in transition.record.events.of(CommitFailBody)
            if transition.trigger.mono_ns <= event.mono_ns <= rounds[-1].event.mono_ns
        ]
        if refused:  # aiokafka's member joins again then
            names = ", ".join(sorted({event.member or "" for event in refused}))
            message += f"; meanwhile a commit of {names} was refused"
        findings.broken("R5", message, transition.trigger, *(g.event for g in rounds), *refused[:SHOWN])
    most = max(1, limit) * (1 + len(transition.after.assigned))
    if len(transition.generations) > most:
        message = (
            f"{_causes(transition)} made {len(transition.generations)} generations, most of them not adopted "
            f"by all members; the limit for {len(transition.after.assigned)} members is {most}"
        )
        findings.broken("R5", message, transition.trigger, transition.generations[0].event, transition.after.event)


def noticed_in_time(transition: Transition, findings: Findings) -> None:
    """T1: a dead member is removed when its session ends and not before; a leaving member within two heartbeats.

    T2: a member that stops polling is removed when its poll interval ends and not before.

    Time runs to the end of the next join, on the coordinator's clock: the leader's time for assigning doesn't count.
    """
    dying = [e for e in transition.triggers if e.kind in ("fault_begin", "stop") and e.member is not None]
    if not dying:
        return
    fault = dying[0].body
    stalls = isinstance(fault, FaultBody) and fault.fault == "stall"
    law, bound = ("T2", "max_poll_interval_ms") if stalls else ("T1", "session_timeout_ms")
    trigger = transition.trigger
    if _unclear(law, transition, findings) or trigger is None or transition.before is None or trigger not in dying:
        return
    if _interrupts(trigger):
        findings.not_judged(law, _INTERRUPTED)
        return
    start = transition.record.starts.get((trigger.member, trigger.incarnation))
    session = heartbeat = None
    if start is not None:
        config = start.body.config
        session = config.max_poll_interval_ms if stalls else config.session_timeout_ms
        heartbeat = config.heartbeat_interval_ms
    if trigger.member not in transition.before.names.values():
        return
    if session is None or heartbeat is None:
        findings.not_judged(law, f"the history does not have a member's {bound} and heartbeat interval")
        return
    without = next((g for g in transition.generations if trigger.member not in g.names.values()), None)
    if without is None:
        findings.not_judged(law, "it returned, or the group was stable, before its absence could be noticed")
        return
    stops = trigger.kind == "stop" and start is not None and start.instance_id is None
    after_ms = (without.completed_ns - trigger.mono_ns) / MS
    silent = _silent_since(transition.record, trigger, without)
    silent_ms = (without.completed_ns - silent.mono_ns) / MS
    latest = 2 * heartbeat + LATE_MS if stops else session + heartbeat + LATE_MS
    earliest = None if trigger.kind == "stop" else session - heartbeat - EARLY_MS
    if earliest is not None and after_ms < earliest and _was_hit(transition.record, trigger, session):
        findings.not_judged(law, "an earlier fault of the member ended less than a session before")
        return
    if earliest is not None and after_ms < earliest and _was_leaving(transition.record, trigger):
        findings.not_judged(law, "the member had been told to end before its fault, and may have left")
        return
    if silent_ms > latest:  # the others join once they poll again
        due_ns = silent.mono_ns + (0 if stops else session * MS)
        if silent_ms - transition.record.busy.perhaps_ms(due_ns, without.completed_ns) <= latest:
            findings.not_judged(law, WORKING)
            return
    findings.judged(law)
    bounds = f"at most {latest} ms" if earliest is None else f"{earliest} to {latest} ms"
    if silent_ms > latest:
        message = (
            f"the group removed {trigger.member} {silent_ms:.0f} ms after its {_trigger_name(silent)}, not {bounds}"
        )
        findings.broken(law, message, silent, without.event)
    elif earliest is not None and after_ms < earliest:
        message = (
            f"the group removed {trigger.member} {after_ms:.0f} ms after its {_trigger_name(trigger)}, not {bounds}"
        )
        findings.broken(law, message, trigger, without.event)


def _was_leaving(record: GroupRecord, trigger: Event) -> bool:
    """Whether the harness had told a process to end before something else happened to it."""
    return any(
        (end.member, end.incarnation) == (trigger.member, trigger.incarnation)
        and end.body.asked_ns is not None
        and end.body.asked_ns <= trigger.mono_ns
        for end in record.events.of(ExitBody)
    )


def topics_noticed(transition: Transition, findings: Findings) -> None:
    """T3: a created, grown or deleted topic is reflected within the maximum metadata age plus a second.

    Time runs from the brokers' answer to the change (``admin_changed``) to the end of the generation's join: neither
    the time in which the brokers make the change nor that in which the leader assigns counts. Judged if every member
    reports its maximum metadata age. Members learn at a heartbeat that they must join, so two more delays are allowed:
    the part of the slowest heartbeat interval above `BEAT_MS`; and, with a pattern, one heartbeat, because a member
    joins for a topic that the leader must still request, and the leader then joins again. Under KIP-848 the broker
    resolves the patterns, at a member's heartbeat, `REGEX_REFRESH_MS` after the last time: a new topic that no member
    started with by name may take that much longer.
    """
    changes = [e.body for e in transition.triggers if isinstance(e.body, AdminChangeBody)]
    trigger = transition.alone
    if not any(body.change in _OF_TOPICS for body in changes) or transition.before is None:
        return
    if trigger is None or not is_of(trigger, AdminChangeBody):
        findings.not_judged("T3", transition.unclear or "several triggers overlap")
        return
    starts = [transition.record.start_of(m) for m in transition.after.assigned]
    configs = [s.body.config for s in starts if s is not None]
    ages = [config.metadata_max_age_ms for config in configs if config.metadata_max_age_ms is not None]
    if len(ages) < len(starts):
        findings.not_judged("T3", "the history does not have a member's metadata_max_age_ms")
        return
    findings.judged("T3")
    if transition.after.by_broker:
        ages = [ASSIGNMENT_INTERVAL_MS]  # the broker, not a member, learns of the topic, and waits before it assigns
    beat = max(config.heartbeat_interval_ms or 0 for config in configs)
    again = beat if any(config.pattern is not None for config in configs) else 0
    by_name = {topic for s in starts if s is not None for topic in s.body.topics}
    resolves = again and transition.after.by_broker and trigger.body.change == "create_topic"
    soonest = max(ages) + NOTICED_MS + max(0, beat - BEAT_MS) + again
    topics = trigger.body.topics or {}
    made_ns = _made_ns(transition.record, trigger)
    try:
        wanted = {topic for m in transition.after.assigned for topic in transition.after.topics_of(m)}
    except WireError as error:
        findings.unknown.append(f"T3: a subscription of generation {transition.after.number} can't be read: {error}")
        return
    for topic, count in ((t, n) for t, n in topics.items() if t in wanted or not n):
        latest = soonest + (REGEX_REFRESH_MS if resolves and topic not in by_name else 0)
        seen = next((g for g in transition.generations if sum(tp.topic == topic for tp in g.owners) == count), None)
        after_ms = None if seen is None else (seen.completed_ns - made_ns) / MS
        if after_ms is None or after_ms > latest:
            message = (
                f"{topic} had {count} partitions after its {_trigger_name(trigger)}, and the group assigned them "
                + ("never" if after_ms is None else f"{after_ms:.0f} ms later")
                + f", not within {latest} ms"
            )
            findings.broken("T3", message, trigger, None if seen is None else seen.event)


def _made_ns(record: GroupRecord, change: Event[AdminBody]) -> int:
    """When the brokers had made a change of topics; without their answer, when it was requested."""
    answers = (e.mono_ns for e in record.events.of(AdminChangedBody) if e.body.target == change.body.target)
    return next((at_ns for at_ns in sorted(answers) if at_ns >= change.mono_ns), change.mono_ns)


def _unclear(law: str, transition: Transition, findings: Findings) -> bool:
    """Whether no single trigger explains the change; if so, the law is counted as skipped."""
    if transition.unclear is not None:
        findings.not_judged(law, transition.unclear)
    return transition.unclear is not None


def _alike(before: Generation, after: Generation, findings: Findings) -> bool:
    try:
        return subscribe_alike(before, after)
    except WireError as error:
        findings.unknown.append(f"R4: a subscription can't be read: {error}")
        return False


def _forgot(before: Generation, transition: Transition, findings: Findings) -> bool:
    """Whether a member of another client lacked claims to its partitions, so that our leader could not know them."""
    for generation in transition.generations:
        for member_id, partitions in before.assigned.items():
            strategy = transition.record.strategy_of(member_id, generation.protocol)
            if member_id not in generation.assigned or is_ours(strategy):
                continue
            try:
                subscription = generation.subscription_of(member_id)
            except WireError as error:
                findings.unknown.append(f"R4: a subscription can't be read: {error}")
                continue
            if partitions - {*subscription.owned, *decode_sticky(subscription.user_data).owned}:
                return True
        before = generation
    return False


def _back_soon(transition: Transition) -> bool:
    """Whether only brokers were hit, and each returned within the shortest session."""
    faults = [e for e in transition.triggers if is_of(e, FaultBody) and e.body.fault.startswith("broker_")]
    if len(faults) < len(transition.triggers):
        return False
    begun: dict[str, int] = {}
    longest = 0
    for event in faults:
        if event.kind == "fault_begin":
            begun[event.body.target] = event.mono_ns
        else:
            longest = max(longest, event.mono_ns - begun.pop(event.body.target, 0))
    sessions = [
        start.body.config.session_timeout_ms or 0
        for start in (transition.record.start_of(m) for m in transition.after.assigned)
        if start is not None
    ]
    return not begun and len(sessions) == len(transition.after.assigned) and longest < min(sessions) * MS


def _heard(trigger: Event, generation: Generation) -> bool:
    """Whether a generation may follow from the trigger: a member with a new subscription must have joined with it."""
    wanted = trigger.body.subscription if isinstance(trigger.body, AdminChangeBody) else None
    if wanted is None or wanted.topics is None:
        return True
    with suppress(WireError):  # unreadable bytes excuse nothing
        joined = (generation.topics_of(m) for m, name in generation.names.items() if name == trigger.member)
        return all(subscription == frozenset(wanted.topics) for subscription in joined)
    return True


def _silent_since(record: GroupRecord, trigger: Event, without: Generation) -> Event:
    """The event after which the process was silent until its removal: its ``stop``, or a fault.

    When a fault ends, its session may start anew.
    """
    if not is_of(trigger, FaultBody):
        return trigger
    process = trigger.member, trigger.incarnation
    first_fault, open_, last = trigger, {trigger.body.fault}, trigger
    for event in sorted(record.events.of(FaultBody), key=lambda e: e.mono_ns):
        if (event.member, event.incarnation) != process:
            continue
        if not trigger.mono_ns < event.mono_ns < without.event.mono_ns or "kill" in open_:
            continue
        if event.kind == "fault_end":
            open_.discard(event.body.fault)
            continue
        if not open_:
            last = event
        open_.add(event.body.fault)
    return last if open_ else first_fault


def _was_hit(record: GroupRecord, trigger: Event, session_ms: int) -> bool:
    """Whether an earlier fault of the process may have cost it heartbeats of the session that ran at the trigger."""
    since_ns = trigger.mono_ns - session_ms * MS
    process = trigger.member, trigger.incarnation
    ends = (e for e in record.events["fault_end"] if (e.member, e.incarnation) == process)
    return any(since_ns <= end.mono_ns <= trigger.mono_ns for end in ends)


def _interrupts(trigger: Event) -> bool:
    """Whether a proxy hit single requests of a member: the group does not determine when that one joins again.

    A member that is cut off completely is removed and returns, like a paused one.
    """
    return trigger.src == "proxy" and isinstance(trigger.body, FaultBody) and trigger.body.fault != "cut"


def _causes(transition: Transition) -> str:
    """The trigger and the requests of a transition, in words."""
    requests, early = len(transition.requests), len(transition.requests) - transition.due_requests
    causes = [f"one {_trigger_name(transition.triggers[0])}"] if transition.triggers else []
    if requests:
        causes.append("one rebalance request" if requests == 1 else f"{requests} rebalance requests")
    return " and ".join(causes) + (f" ({early} too early or repeated)" if early else "")


def _trigger_name(trigger: Event) -> str:
    body = trigger.body
    name = body.fault if isinstance(body, FaultBody) else body.change if isinstance(body, AdminBody) else trigger.kind
    return name.replace("_", " ")
