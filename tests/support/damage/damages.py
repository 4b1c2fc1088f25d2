"""Sound histories, drawn, and damages to them: one or several events, or a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from hypothesis import strategies as st

from kafka_assignors.history.events import Event
from tests.support.histories.story import MS, SESSION_MS, Story

PROTOCOLS = ("range", "roundrobin", "sticky", "cooperative-sticky")
TURNS = ("join", "stop", "kill", "pause", "stall", "restart", "records", "consume", "read", "grow", "wait")


class Plan(NamedTuple):
    """What shall happen: a sound run by the rules.

    Args:
        turns: What, and a number that says to whom.
    """

    protocol: str
    static: bool
    topics: tuple[int, ...]
    turns: tuple[tuple[str, int], ...]


class Damage(NamedTuple):
    """One thing that is done to a history.

    Args:
        how: A name in `DAMAGES`.
        at, other: Say which events, as fractions of all.
        by_ms: How far in time.
    """

    how: str
    at: int
    other: int
    by_ms: int


def plans() -> st.SearchStrategy[Plan]:
    """Sound runs; the shortest is two members at rest."""
    turn = st.tuples(st.sampled_from(TURNS), st.integers(0, 5))
    return st.builds(
        Plan,
        st.sampled_from(PROTOCOLS),
        st.booleans(),
        st.lists(st.integers(1, 4), min_size=1, max_size=2).map(tuple),
        st.lists(turn, max_size=7).map(tuple),
    )


def damages() -> st.SearchStrategy[Damage]:
    """One damage, small where a small one shows the same."""
    far = st.sampled_from([1, 2, 5, 20, 99, 101, 150, 500, 1000, 4000, 9000, 60_000]).flatmap(
        lambda ms: st.sampled_from([ms, -ms])
    )
    return st.builds(Damage, st.sampled_from(sorted(DAMAGES)), st.integers(0, 9999), st.integers(0, 9999), far)


def played(plan: Plan) -> Story:
    """The history of a plan."""
    story = Story(plan.protocol, {f"t{i}": n for i, n in enumerate(plan.topics)})
    story.start("m0", "m1", static=plan.static).round().records(7)
    for number, (turn, which) in enumerate(plan.turns):
        _TURNS[turn](story, which, number)
    if sum(story._offsets.values()):
        story.consume()
    return story.drain().read_back()


def _join(story: Story, _: int, number: int) -> None:
    story.start(f"n{number}", static=bool(story._instances)).round()


def _leave(how: str) -> Callable[[Story, int, int], None]:
    def leave(story: Story, which: int, _: int) -> None:
        names = sorted(story.held)
        if len(names) < 2:
            return
        if how == "stop":
            story.stop(names[which % len(names)])
            if story._instances:  # a static member doesn't leave: its session has to end
                story.wait(SESSION_MS)
        else:
            story.kill(names[which % len(names)])
        story.round()

    return leave


def _away(fault: str) -> Callable[[Story, int, int], None]:
    def away(story: Story, which: int, _: int) -> None:
        names = sorted(story.held)
        if len(names) < 2 or story._instances:
            return
        name = names[which % len(names)]
        story.pause(name, fault, 3000 if fault == "stall" else SESSION_MS).round(stable=which % 2 == 0)
        story.resume(name, fault=fault, notice_ms=10 + 100 * which).round()

    return away


def _restart(story: Story, which: int, _: int) -> None:
    names = sorted(story.held)
    if story._instances:
        story.restart(names[which % len(names)])


def _grow(story: Story, which: int, _: int) -> None:
    topic = sorted(story.topics)[which % len(story.topics)]
    story.topics = {**story.topics, topic: story.topics[topic] + 1}
    story.tell("admin_change", change="add_partitions", target=topic, topics={topic: story.topics[topic]})
    story.wait(200).round()


_TURNS: dict[str, Callable[[Story, int, int], object]] = {
    "join": _join,
    "stop": _leave("stop"),
    "kill": _leave("kill"),
    "pause": _away("pause"),
    "stall": _away("stall"),
    "restart": _restart,
    "records": lambda story, which, _: story.records(5 + which),
    "consume": lambda story, which, _: story.consume(),
    "read": lambda story, which, _: story.consume(commit=False),
    "grow": _grow,
    "wait": lambda story, which, _: story.wait(1000 * which),
}


def damaged(events: Sequence[Event], how: Sequence[Damage]) -> list[Event]:
    """The events with all the damages, one after the other."""
    damaged_events = list(events)
    for damage in how:
        if damaged_events:
            DAMAGES[damage.how](damaged_events, damage)
    return damaged_events


def _retimed(event: Event, by_ms: int) -> Event:
    at = max(1, event.mono_ns + by_ms * MS)
    return replace(event, mono_ns=at, ts_ns=at)


def _drop(events: list[Event], damage: Damage) -> None:
    del events[damage.at % len(events)]


def _drop_some(events: list[Event], damage: Damage) -> None:
    at = damage.at % len(events)
    del events[at : at + 1 + damage.other % 4]


def _double(events: list[Event], damage: Damage) -> None:
    at = damage.at % len(events)
    events.insert(at + 1, _retimed(events[at], abs(damage.by_ms)))


def _retime(events: list[Event], damage: Damage) -> None:
    at = damage.at % len(events)
    events[at] = _retimed(events[at], damage.by_ms)


def _move(events: list[Event], damage: Damage) -> None:
    """To the time of another."""
    at, to = damage.at % len(events), damage.other % len(events)
    by = (events[to].mono_ns - events[at].mono_ns) // MS
    events[at] = _retimed(events[at], by)


def _swap(events: list[Event], damage: Damage) -> None:
    """Two events of one kind tell each other's."""
    at = damage.at % len(events)
    alike = [i for i, e in enumerate(events) if e.kind == events[at].kind]
    other = alike[damage.other % len(alike)]
    one, two = events[at], events[other]
    events[at], events[other] = replace(one, data=two.data), replace(two, data=one.data)


def _rename(events: list[Event], damage: Damage) -> None:
    """A member's event becomes another's."""
    mine = [i for i, e in enumerate(events) if e.src == "member"]
    others = sorted({(e.member or "", e.member_id or "", e.incarnation) for e in events if e.src == "member"})
    if mine:
        at = mine[damage.at % len(mine)]
        name, id_, incarnation = others[damage.other % len(others)]
        events[at] = replace(events[at], member=name, member_id=id_, incarnation=incarnation)


def _less(events: list[Event], damage: Damage) -> None:
    """One row of a list is missing."""
    fields = ("partitions", "offsets", "members")
    listing = [i for i, e in enumerate(events) if any(e.data.get(f) for f in fields)]
    if listing:
        at = listing[damage.at % len(listing)]
        data = events[at].data
        name = next(f for f in fields if data.get(f))
        rows = list(data[name])
        del rows[damage.other % len(rows)]
        events[at] = replace(events[at], data={**data, name: rows})


DAMAGES: dict[str, Callable[[list[Event], Damage], None]] = {
    "drop": _drop,
    "drop some": _drop_some,
    "double": _double,
    "retime": _retime,
    "move": _move,
    "swap": _swap,
    "rename": _rename,
    "less": _less,
}
