"""Histories that take a judge to the edge of a rule: what is judged there, what is said of it, and what isn't."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import Subscription, decode_subscription, encode_subscription
from kafka_assignors.history.events import Event
from tests.support.damage import shifted
from tests.support.damage.laws import bounced, swapped
from tests.support.histories import stories as told
from tests.support.histories.requests import rested
from tests.support.histories.story import MS, POLL_MS, SESSION_MS, Story
from tests.support.histories.truncation import LOST, before, read_back, truncate

SIGSEGV, STANDSTILL_MS = -11, 30_000


def at_ns(story: Story, event: Event, mono_ns: int) -> Story:
    """Move one event to a moment."""
    index = next(i for i, candidate in enumerate(story.events) if candidate is event)
    story.events[index] = replace(event, mono_ns=mono_ns, ts_ns=event.ts_ns + mono_ns - event.mono_ns)
    return story


def last(story: Story, kind: str, member: str | None = None) -> Event:
    return next(e for e in reversed(story.events) if e.kind == kind and member in (None, e.member))


def nobody_left() -> Story:
    return told.later(told.died(told.died(told.two(), "a"), "b"))


def at_rest_with_the_dead() -> Story:
    return rested(told.died(told.two(), "b"))


def died_unseen() -> Story:
    """b dies by itself, and nobody misses it."""
    story = told.two()
    story.tell("exit", member="b", code=SIGSEGV, signal="SIGSEGV")
    return told.later(story)


def ended(how: str) -> Story:
    """b ends, and then tells that it gives up what it had."""
    story = told.two()
    had = [{"topic": t, "partition": p} for t, p in sorted(story.held["b"])]
    if how == "stop":
        story.tell("stop", "member", "b")
    elif how == "exit":
        story.tell("exit", member="b", code=SIGSEGV, signal="SIGSEGV")
    else:
        story.tell("fault_begin", member="b", fault="kill", target="b")
    story.tell("revoke_begin", "member", "b", generation=1, partitions=had)
    return story


def exited(code: int, *, stops: bool) -> Story:
    """The harness doesn't say whether it asked b to end."""
    story = told.two()
    story._callback("b", "revoke", story.held.pop("b"))
    if stops:
        story.tell("stop", "member", "b")
    story.tell("exit", member="b", code=code)
    return story.round()


def dead_in_one_more() -> Story:
    """b is killed; a joins again, and b, whose session isn't over, is in that generation as well."""
    story = told.died(told.two(), "b")
    story._callback("a", "revoke", story.held["a"])
    story.held["a"] = set()
    story.generation += 1
    assigned = story._commit(["a", "b"])
    story._adopt("a", assigned["a"])
    story._assigned("a", assigned["a"])
    story.held["a"], story._claims["a"] = assigned["a"], (assigned["a"], story.generation)
    del story.held["b"]
    return story.wait(SESSION_MS).round()


def missed_late(how: str) -> Story:
    story = told.two()
    if how == "stop":
        story.stop("b")
    else:
        told.died(story, "b")
        del story.held["b"]
    return story.wait(9000).round()


def silent_in_an_outage() -> Story:
    """b writes no history; a broker is away for a moment, and a generation comes of it."""
    story = told.two()
    for edge in ("begin", "end"):
        story.tell(f"fault_{edge}", fault="broker_restart", target="node 1")
    return told.without(story.round(), lambda e: not (e.src == "member" and e.member == "b"))


def away_for_half_a_millisecond() -> Story:
    """Nobody tells its session."""
    story = told.two()
    for edge in ("begin", "end"):
        story.tell(f"fault_{edge}", fault="broker_restart", target="node 1")
    shifted.untold(story, "session_timeout_ms")
    return at_ns(story, story.events[-1], story.events[-2].mono_ns + MS // 2).round()


def unread_of_both() -> Story:
    """Of a topic that went away, whose subscribers rest without it."""
    story = Story("range", {"t": 2, "u": 1}).start("a", "b").round()
    story.tell("admin_change", change="delete_topic", target="u", topics={"u": 0})
    subscribed = story.topics
    story.topics = {"t": 2}
    story.round(stable=False)
    story.topics = {**subscribed, "u": 0}
    return rested(story)


def told_twice(client_id: str) -> Story:
    """Both members get t-0; the coordinator has this client id for b, which tells nothing."""

    def alter(data: dict[str, Any]) -> None:
        one, other = data["members"]
        both = [*other["assigned"], one["assigned"][0]]
        data["members"] = [one, {**other, "client_id": client_id, "assigned": both}]

    story = told.without(told.two(), lambda e: not (e.src == "member" and e.member == "b"))
    return story.change("generation_committed", alter)


def placed_by_rule() -> Story:
    """The rule demands another partition than the one of the first record."""
    story = told.two().records(7)
    acks = [e for e in story.events if e.kind == "ack"]
    for ack in acks:
        ack.data["expected"] = ack.data["partition"] + (ack is acks[0])
    return story.read_back()


def missing_from_the_second_read_back() -> Story:
    """A record that was sent after the first."""
    story = told.two().records(7).read_back().records(1)
    for ack in [e for e in story.events if e.kind == "ack"][:-1]:
        names = ("topic", "partition", "offset", "value_id", "partitioner")
        story.tell("read_back", **{name: ack.data[name] for name in names})
    story.tell("step", name="read_back", offsets=story._ends())
    return story


def committed_at_once() -> Story:
    """The first commit tells of the first poll alone, as in a run that has lost nothing."""
    story = Story("range", {"t": 1}).start("a").round().records(1).consume().wait(1000)
    story.records(4).consume()
    return read_back(truncate(story, begin=3).records(3).drain())


def sent_as_the_end_fell() -> Story:
    """The first record to the new leader is stamped with the very moment; nobody reads it."""
    story = truncate(before())
    fell = last(story, "truncated")
    story.records(2)
    sent = next(e for e in story.events if e.kind == "ack" and e.mono_ns > fell.mono_ns)
    at_ns(story, sent, fell.mono_ns)
    story._position["a", LOST] = story._offsets["t", 0]
    return read_back(story.drain())


def claimed_wrongly_and_rightly() -> Story:
    """a says that it owns t-9, which nobody has, and what it does own; a part of that is given away."""
    story = Story(told.COOPERATIVE).start("a", "b").round().start("c").round()

    def claim(data: dict[str, Any]) -> None:
        row, *rest = data["members"]
        subscription = decode_subscription(bytes.fromhex(row["subscription"]))
        owned = (TopicPartition("a", 9), *subscription.owned)
        row = {
            **row,
            "subscription": encode_subscription(
                Subscription(subscription.topics, None, owned, subscription.generation)
            ).hex(),
        }
        data["members"] = [row, *rest]

    return story.change("generation_committed", claim).change("generation_committed", swapped)


def restarted_as(kind: str) -> Story:
    """c starts at the very moment at which b, that was restarted, is back; or at which the group was seen at rest."""
    story = Story("range").start("a", "b", static=True).round()
    rest = last(story, "step")
    story.restart("b")
    back = last(story, "generation", "b")
    story.start("c", static=True)
    return at_ns(story, story.events[-1], {"back": back, "rest": rest}[kind].mono_ns)


def back_at_once() -> Story:
    """b is back at the very moment at which it was killed."""
    story = Story("range").start("a", "b", static=True).round().restart("b")
    return at_ns(story, last(story, "generation", "b"), last(story, "fault_begin").mono_ns)


def given_back(after_ns: int) -> Story:
    """a gives up, so long after the rest, what it gets back."""
    story = bounced()
    rest = next(e for e in story.events if e.kind == "step")
    return at_ns(story, [e for e in story.events if e.kind == "revoke_end" and e.member == "a"][-1],
                 rest.mono_ns + after_ns)  # fmt: skip


def unseen_by_the_leader(*, all_given: bool) -> Story:
    """c joins; its leader doesn't tell what it saw. Two partitions are nobody's, as a says that it owns them."""
    story = told.two().start("c").round()
    story.drop("assign_begin")

    def alter(data: dict[str, Any]) -> None:
        row, *rest = data["members"]
        claimed, left = row["assigned"][:1], row["assigned"][1:]
        row = told.regiven(row, {(r["topic"], r["partition"]) for r in left})  # type: ignore[misc]
        data["members"] = [{**row, "owned": claimed if all_given else []}, *rest]

    return story.change("generation_committed", alter)


def without_a_topic() -> Story:
    """The leader doesn't tell what it saw; nothing of u is assigned, as one says that it owns it."""
    story = Story("range", {"t": 2, "u": 1}).start("a", "b").round().start("c").round().drop("assign_begin")

    def alter(data: dict[str, Any]) -> None:
        rows = []
        for row in data["members"]:
            of_t = {(r["topic"], r["partition"]) for r in row["assigned"] if r["topic"] == "t"}
            of_u = [r for r in row["assigned"] if r["topic"] == "u"]
            rows.append({**told.regiven(row, of_t), "owned": of_u})  # type: ignore[arg-type]
        data["members"] = rows

    return story.change("generation_committed", alter)


def gave_up_as_another_got_it() -> Story:
    """b consumes 5 ms after it gave up what a got at that very moment."""
    story = Story("range", {"t": 1}).start("b").round().records(1).start("a").round()
    got = last(story, "assigned_begin", "a")
    at_ns(story, last(story, "revoke_end", "b"), got.mono_ns)
    row = {"topic": "t", "partition": 0, "first": 0, "last": 0, "count": 1, "bytes": 1}
    return at_ns(story, story.tell("consume", "member", "b", offsets=[row]), got.mono_ns + 5 * MS)


def consumed_late_and_unowned() -> Story:
    """What a poll returned last, and then of a partition that it never had."""
    story = shifted.consumed_late(50)
    row = {"topic": "t", "partition": 7, "first": 0, "last": 0, "count": 1, "bytes": 1}
    story.tell("consume", "member", "a", offsets=[row])
    return story


def stalled_before() -> Story:
    """b stands still for a moment; later a dies, and for longer than its session nobody takes over."""
    story = told.two()
    for edge in ("begin", "end"):
        story.tell(f"fault_{edge}", member="b", fault="stall", target="b")
    return told.later(told.died(story, "a"), SESSION_MS + STANDSTILL_MS + POLL_MS / 2)


def never_told_to_the_end(kind: str) -> Story:
    """b was never told of what it got, for ten minutes; then it ends."""
    story = Story("range").start("a", "b").round(stable=False)
    story.drop("assigned_begin", member="b").drop("assigned_end", member="b").wait(told.TEN_MINUTES_MS)
    if kind == "stop":
        story.tell("stop", "member", "b")
    story.tell("exit", member="b", code=0)
    return story


def another_is_restarted() -> Story:
    """a's instance id is taken as it runs; later b is restarted."""
    story = Story("range").start("a", "b", static=True).round().take_over("a")
    return rested(story).restart("b")


def away(how: str) -> Story:
    """A static member is away for a moment, and still tells of something."""
    story = Story("range").start("a", "b", static=True).round()
    had = [{"topic": t, "partition": p} for t, p in sorted(story.held["b"])]
    if how == "stop":
        story.tell("stop", "member", "b")
    else:
        story.tell("fault_begin", member="b", fault="kill", target="b")
        story.tell("revoke_begin", "member", "b", generation=1, partitions=had)
    story.tell("exit", member="b", code=0 if how == "stop" else -9)
    return story.wait(100).take_over("b")


def given_to_nobody(left_out: int) -> Story:
    """A foreign leader leaves out so many of seven partitions."""

    def alter(data: dict[str, Any]) -> None:
        places = [
            (row["client_id"], (tp["topic"], tp["partition"])) for row in data["members"] for tp in row["assigned"]
        ]
        kept = places[left_out:]
        data["members"] = [
            told.regiven(row, {tp for name, tp in kept if name == row["client_id"]})  # type: ignore[misc]
            for row in data["members"]
        ]

    return told.foreign(told.two()).change("generation_committed", alter)


def not_there_as_the_end_fell() -> Story:
    """The first record to the new leader is stamped with the very moment, and isn't read back."""
    story = sent_as_the_end_fell()
    fell = last(story, "truncated")
    sent = next(e for e in story.events if e.kind == "ack" and e.mono_ns == fell.mono_ns)
    return story.drop("read_back", value_id=sent.data["value_id"])


def taken_by_its_own_word() -> Story:
    """The coordinator log has nothing of the process that took b's instance id; that one adopted its generation."""
    return shifted.fenced(5000).drop("generation_committed")


def of_a_silent_leader() -> Story:
    return told.without(told.two().start("c").round(), lambda e: not (e.src == "member" and e.member == "a"))


def at_rest_with_the_dead_and_the_untold() -> Story:
    """a has died, and b was never told of what it got."""
    story = Story("range").start("a", "b").round(stable=False)
    story.drop("assigned_begin", member="b").drop("assigned_end", member="b")
    return rested(told.died(story, "a"))


def lost_as_another_restarts() -> Story:
    """a is told that it lost what it has while b is restarted."""
    story = Story("range").start("a", "b", static=True).round().restart("b")
    had = [{"topic": t, "partition": p} for t, p in sorted(story.held["a"])]
    killed = last(story, "fault_begin")
    return at_ns(story, story.tell("lost_begin", "member", "a", generation=1, partitions=had), killed.mono_ns + MS)


def without_a_key() -> Story:
    """The first two of its records have none."""
    story = told.two().records(14)
    for nth in (0, 1):
        story.change("ack", lambda data: data.pop("key_hash"), nth=nth)
    return story


def of_an_unknown_topic_first() -> Story:
    """Members first subscribe to a topic of which nothing is known, later they don't, and t-0 is given to nobody."""
    story = told.foreign(told.Dropping("range").start("a", "b").round())
    story.change("generation_committed", of_w)
    return told.foreign(story.round())


def of_w(data: dict[str, Any]) -> None:
    row, *rest = data["members"]
    subscription = decode_subscription(bytes.fromhex(row["subscription"]))
    data["members"] = [
        {**row, "subscription": encode_subscription(subscription._replace(topics=(*subscription.topics, "w"))).hex()},
        *rest,
    ]


EDGES: Mapping[str, Callable[[], Story]] = {
    "two generations, then nothing for ten minutes": lambda: told.later(told.two().round()),
    "both members die, and nobody is left": nobody_left,
    "a member dies by itself, and nobody misses it": died_unseen,
    "a group at rest with a dead member": at_rest_with_the_dead,
    "a member has left, and tells of a revoke": lambda: ended("stop"),
    "a member has died, and tells of a revoke": lambda: ended("exit"),
    "a member was killed, and tells of a revoke": lambda: ended("kill"),
    "an end with code 1 after a stop": lambda: exited(1, stops=True),
    "an end with code 0 without a stop": lambda: exited(0, stops=False),
    "a dead member is in one more generation": dead_in_one_more,
    "a dead member is missed late": lambda: missed_late("kill"),
    "one that left is missed late": lambda: missed_late("stop"),
    "an outage in a group of which one tells nothing": silent_in_an_outage,
    "an outage of half a millisecond": away_for_half_a_millisecond,
    "a topic of no partitions": unread_of_both,
    "given to two": lambda: told_twice("b"),
    "given to two of one client id": lambda: told_twice("a"),
    "a rule that demands another partition": placed_by_rule,
    "missing from the second read-back": missing_from_the_second_read_back,
    "committed at once, and lost later": committed_at_once,
    "sent as the end fell": sent_as_the_end_fell,
    "claimed wrongly, and rightly": claimed_wrongly_and_rightly,
    "one starts as another is back": lambda: restarted_as("back"),
    "one starts as the group is at rest": lambda: restarted_as("rest"),
    "back at once": back_at_once,
    "given up as the group rests": lambda: given_back(0),
    "given up after the group rests": lambda: given_back(1),
    "a leader doesn't tell what it saw, and all is claimed": lambda: unseen_by_the_leader(all_given=True),
    "a leader doesn't tell what it saw, and left something out": lambda: unseen_by_the_leader(all_given=False),
    "a leader doesn't tell what it saw, and left a topic out": without_a_topic,
    "gave something up as another got it, and consumed": gave_up_as_another_got_it,
    "consumed late, and what it doesn't own": consumed_late_and_unowned,
    "a member died, after another had stood still": stalled_before,
    "a paused member is never missed": lambda: told.later(
        told.two().pause("b", for_ms=1), SESSION_MS + STANDSTILL_MS + POLL_MS / 2),
    "never told, until it left": lambda: never_told_to_the_end("stop"),
    "never told, until it ended": lambda: never_told_to_the_end("exit"),
    "at rest with one that has left": lambda: rested(told.two().stop("b")),
    "another is restarted after one was replaced": another_is_restarted,
    "a static member stops, and is back": lambda: away("stop"),
    "a static member is killed amid a revoke, and is back": lambda: away("kill"),
    "five partitions are left out": lambda: given_to_nobody(5),
    "six partitions are left out": lambda: given_to_nobody(6),
    "not there, sent as the end fell": not_there_as_the_end_fell,
    "fenced by the newer one's own word": taken_by_its_own_word,
    "the leader tells nothing": of_a_silent_leader,
    "a group at rest with a dead member, and one that was told nothing": at_rest_with_the_dead_and_the_untold,
    "a member loses something as another restarts": lost_as_another_restarts,
    "records without a key": without_a_key,
    "subscribed to an unknown topic before": of_an_unknown_topic_first,
    "assigned in generation 0": lambda: told.two().change(
        "assigned_begin", lambda data: data.update(generation=0), member="b"),
}  # fmt: skip
