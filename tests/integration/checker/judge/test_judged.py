"""What a verdict says of each law: how often it was judged, how often it couldn't be, and why."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_assignors.core.wire.protocol import Subscription, decode_subscription, encode_subscription
from kafka_assignors.history.events import Event
from kafka_assignors.integration.checker import check, laws, planned, transitions
from tests.support.damage import shifted
from tests.support.damage.laws import forgetful
from tests.support.histories import reconciled
from tests.support.histories import stories as told
from tests.support.histories.faults import aged
from tests.support.histories.story import SESSION_MS, Story, churn
from tests.support.histories.transactions import at_work
from tests.support.histories.truncation import finishing, unclean
from tests.support.histories.zombies import hit

from . import test_exactly_once


def rows(events: list[Event], *kinds: str) -> int:
    """Topic-partitions that events of these kinds list."""
    return sum(len(e.data.get("partitions", e.data.get("offsets", ()))) for e in events if e.kind in kinds)


@pytest.mark.parametrize("protocol", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_each_law_is_judged_as_often_as_there_is_something_that_it_judges(protocol: str) -> None:
    """Counted by the events alone: three join, one joins, one leaves, one is killed."""
    story = churn(protocol)
    seven = sum(story.topics.values())
    count = Counter(e.kind for e in story.events)
    rests = [e for e in story.events if e.kind == "step" and e.data["name"] == "stable"]
    committed = [e for e in story.events if e.kind == "generation_committed"]
    members = {e.data["generation"]: e.data["members"] for e in committed}
    at_rest = sum(len(members[rest.data["generation"]]) for rest in rests)
    claims = [
        decode_subscription(bytes.fromhex(m["subscription"])).owned for rows_ in members.values() for m in rows_
    ]  # fmt: skip
    later_adoptions = count["generation"] - count["start"]
    ends = ("assigned_end", "revoke_end", "lost_end")
    callbacks = sum(count[kind] for kind in ends) + count["revoke_begin"] + count["lost_begin"]

    expected = {
        "O2": len(committed),
        "O3": len(rests),
        "O4": rows(story.events, "assigned_begin") - seven,
        "G1": len(committed) - 1,
        "G2": count["generation"],
        "G3": len(committed),
        "G4": count["generation"] + at_rest,
        "R2": sum(map(len, claims)) if protocol == "cooperative-sticky" else 0,
        "R4": len(rests) - 1 if "sticky" in protocol else 0,
        "R5": len(rests) - 1,
        "R6": count["generation"],
        "R7": rows(story.events, "revoke_end", "lost_begin"),
        "R8": at_rest + count["assigned_begin"] + later_adoptions + callbacks + count["stop"],
        "P1": at_rest,
        "E1": count["exit"],
        "E2": count["start"] + count["exit"] + count["fault_end"] + sum(len(rest.data["topics"]) for rest in rests),
        "C1": rows(story.events, "consume"),
        "C3": count["ack"],
        "C5": count["offset_committed"] + rows(story.events, "commit_begin", "commit_ok"),
        "C7": count["offset_committed"] + count["commit_ok"],
        "C6": 0,
        "X1": 0,
        "X2": 0,
        "X3": 0,
        "S1": 0,
        "S2": 0,
        "T1": 2,
        "T2": 0,
        "T3": 0,
        "A1": len(committed),
        "K1": count["ack"],
        "K2": count["ack"] - seven,  # one key for each topic-partition
    }
    verdict = check(story.history)

    assert {law: verdict.checked[law] for law in expected} == expected
    assert verdict.skipped == {}
    assert set(verdict.checked) == set(laws.LAWS)
    assert verdict.laws == ", ".join(f"{law} ×{n}" for law, n in verdict.checked.items() if n)


def changed_events(story: Story, change: Callable[[Event], Event | None]) -> Story:
    story.events = [left for event in story.events if (left := change(event)) is not None]
    return story


def silent_member() -> Story:
    """b is somebody else's: it writes no history."""
    story = told.two().records(14).consume()
    return told.without(story, lambda e: not (e.src == "member" and e.member == "b"))


def bridged_member() -> Story:
    """b's id is told by the coordinator log."""
    story = told.two().round()
    return changed_events(story, lambda e: replace(e, client="java") if e.src == "member" and e.member == "b" else e)


def unnumbered() -> Story:
    def change(event: Event) -> Event:
        return replace(event, data={**event.data, "value_id": "by-hand"}) if event.kind == "ack" else event

    return changed_events(told.two().records(1), change)


def unforetold() -> Story:
    """A record of which nothing is known but where it was acknowledged."""

    def change(event: Event) -> Event:
        left = {name: value for name, value in event.data.items() if name != "predicted"}
        return replace(event, data=left) if event.kind == "ack" else event

    return changed_events(told.two().records(1), change)


def in_racks() -> Story:
    """Each member says where it is."""

    def racked(row: dict[str, object]) -> dict[str, object]:
        said = decode_subscription(bytes.fromhex(str(row["subscription"])))
        with_rack = Subscription(said.topics, said.user_data, said.owned, said.generation, rack="r")
        return {**row, "subscription": encode_subscription(with_rack).hex()}

    def change(event: Event) -> Event:
        if event.kind != "generation_committed":
            return event
        return replace(event, data={**event.data, "members": [racked(row) for row in event.data["members"]]})

    return changed_events(Story("sticky").start("a", "b").round().start("c").round(), change)


def another_assignor() -> Story:
    story = told.two("range").start("c")
    story.protocol = "roundrobin"
    return story.round()


def blind_leader() -> Story:
    """The leader of the second generation saw no topic."""
    story = told.two().start("c").round()
    return story.change("assign_begin", lambda data: data.update(topics={}))


def uncalled_for() -> Story:
    """d is in one generation, and nobody knows why."""
    story = told.two().start("c")
    story.held["d"] = set()
    story.round(stable=False)
    del story.held["d"]
    return story.round()


def came_as_a_topic_grew() -> Story:
    story = aged().start("c")
    story.tell("admin_change", change="add_partitions", target="t", topics={"t": 5})
    return story.wait(200).round()


def grew_unaged() -> Story:
    """Nobody tells how old its metadata may be."""
    story = told.two()
    story.tell("admin_change", change="add_partitions", target="t", topics={"t": 5})
    story.topics = {**story.topics, "t": 5}
    return story.wait(200).round()


def static() -> Story:
    return Story().start("a", "b", static=True).round()


def back_before_it_was_missed() -> Story:
    story = told.two()
    rest = story.events[-1]
    for edge in ("begin", "end"):
        story.tell(f"fault_{edge}", member="b", fault="pause", target="b")
    story.tell("step", **rest.data)
    return story


def hurried_restart() -> Story:
    """b is restarted when nobody has seen the group at rest."""
    return Story().start("a", "b", static=True).round(stable=False).restart("b")


def restart_as_one_joins() -> Story:
    story = static()
    story.tell("fault_begin", member="b", fault="kill", target="b")
    story.tell("exit", member="b", code=-9, signal="SIGKILL")
    return story.start("c").take_over("b")


OF_KINDS: dict[str, Callable[[Story], object]] = {
    "start": lambda story: story.start("c"),
    "stop": lambda story: story.tell("stop", "member", "a"),
    "exit": lambda story: story.tell("exit", member="a", code=0),
    "fault_begin": lambda story: story.tell("fault_begin", member="a", fault="pause", target="a"),
    "fault_end": lambda story: story.tell("fault_end", member="a", fault="pause", target="a"),
    "admin_change": lambda story: story.tell("admin_change", change="create_topic", target="w", topics={"w": 1}),
}
"""Each kind of event that may make a group rebalance."""


@pytest.mark.parametrize("kind", [None, *OF_KINDS])
def test_a_static_restart_is_judged_only_if_nothing_else_happened(kind: str | None) -> None:
    story = static()
    story.tell("fault_begin", member="b", fault="kill", target="b")
    story.tell("exit", member="b", code=-9, signal="SIGKILL")
    if kind is not None:
        OF_KINDS[kind](story)

    verdict = check(story.take_over("b").history)

    assert verdict.checked["S1"] == (kind is None)
    assert verdict.skipped.get("S1", {}) == ({} if kind is None else {"another trigger overlaps": 1})


SEVERAL = "several triggers overlap"
SKIPPED: dict[str, tuple[dict[str, int], Callable[[], Story | reconciled.Reconciled]]] = {
    "the history does not have the assignors of a foreign member": ({"G3": 1}, silent_member),
    "a member of the group writes no events, so its positions are unknown": ({"C5": 7}, silent_member),
    "the leader ran kafka-python:range, which we cannot replay": ({"A1": 1}, lambda: told.foreign(told.two())),
    "no step limits the time without an owner (gap_ms), and no trigger explains the generations": (
        {"O4": 7}, lambda: told.two().round()),
    "its client does not tell its member id, or has no callback for losses": ({"R7": 3}, bridged_member),
    "its producer did not number its records": ({"K2": 1}, unnumbered),
    "the group was never drained": ({"C3": 1}, told.two),
    "its brokers lost the record": ({"C3": 5}, unclean),
    "its brokers lost records, so an offset may refer to two records": ({"C6": 3}, lambda: finishing(lost=True)),
    "its output was not read back with read_committed after the group was drained": (
        {"X1": 1}, lambda: at_work().read_committed().drain()),
    "its output was not read back with read_committed": ({"X2": 1}, lambda: at_work().drain().read_back()),
    "its brokers did not date its outputs": ({"X3": 1}, lambda: test_exactly_once.service(None)),
    "neither predicted nor read back": ({"K1": 1}, unforetold),
    "the leader ran kafka-python:sticky, which does not minimise moves": (
        {"R4": 1}, lambda: told.foreign(Story("sticky").start("a", "b").round().start("c").round(),
                                        "kafka-python:sticky")),
    "a member of another client joined again without a claim to partitions that it held": (
        {"R4": 1}, lambda: forgetful("franz-go:sticky")),
    "members' subscriptions differ, or members have racks, which outweigh moves": ({"R4": 1}, in_racks),
    "a member's goals put spread before moves": (
        {"R4": 1}, lambda: told.foreign(Story("sticky").start("a", "b").round().start("c").round(),
                                        'sticky{"goals": ["spread", "balance", "racks", "moves"]}')),
    "the assignor changed": ({"R5": 1}, another_assignor),
    "a proxy disturbed single requests of a member, so the time of its next join is unknown": (
        {"R5": 2, "T1": 1}, lambda: hit("drop")),
    "the history does not have a member's session_timeout_ms and heartbeat interval": (
        {"T1": 1}, lambda: shifted.untold(shifted.killed(SESSION_MS), "session_timeout_ms")),
    "an earlier fault of the member ended less than a session before": (
        {"T1": 1}, lambda: shifted.killed_after_a_fault(SESSION_MS)),
    "the member had been told to end before its fault, and may have left": (
        {"T1": 1}, lambda: shifted.killed_as_it_left(100, 50)),
    "it returned, or the group was stable, before its absence could be noticed": ({"T1": 1}, back_before_it_was_missed),
    "the history does not have a member's metadata_max_age_ms": ({"T3": 1}, grew_unaged),
    "its process ended without closing its consumer, just after the client had committed by itself": (
        {"C3": 1, "C5": 1}, lambda: told.cut_off(read=False)),
    planned.WORKING: ({"T1": 1}, told.missed_while_working),
    SEVERAL: ({"R4": 1, "R5": 1, "T3": 1}, came_as_a_topic_grew),
    "no trigger explains the generations": ({"R5": 1}, lambda: told.two().round()),
    "membership changed without a scenario action": ({"R5": 1}, uncalled_for),
    "a leader's metadata were outdated, or the history does not have them": ({"R5": 1}, blind_leader),
    "the group was not stable before": ({"S1": 1}, hurried_restart),
    "it did not return within its session, or the history does not have the session timeout": (
        {"S1": 1}, lambda: shifted.untold(static().restart("b"), "session_timeout_ms")),
    "another trigger overlaps": ({"S1": 1}, restart_as_one_joins),
    "the history does not have the fenced member's heartbeat interval": (
        {"S2": 1}, lambda: shifted.untold(static().take_over("b"), "heartbeat_interval_ms")),
    "the broker assigns, and members do not vote": ({"G3": 4}, reconciled.churn),
    "the broker assigns, and the log does not have what it computed from": ({"A1": 4}, reconciled.churn),
    "the broker's assignor decides, which does not promise the fewest moves": ({"R4": 3}, reconciled.churn),
    "its client reports losses as revocations; the log tells them apart": (
        {"R7": 4}, lambda: reconciled.churn("java-consumer")),
}  # fmt: skip
"""Reason -> laws that couldn't be judged, how often, in a history that has it."""


@pytest.mark.parametrize("reason", SKIPPED)
def test_what_could_not_be_judged_is_told_with_its_reason(reason: str) -> None:
    expected, build = SKIPPED[reason]

    skipped = check(build().history).skipped

    assert {law: why[reason] for law, why in skipped.items() if reason in why} == expected


def reasons() -> Iterator[str]:
    """Every reason that the laws give, as a pattern."""
    folder = Path(laws.__file__).parent
    for file in (*sorted(folder.glob("*.py")), Path(transitions.__file__)):
        tree = ast.parse(file.read_text())
        names = {
            target.id: node.value for node in tree.body if isinstance(node, ast.Assign)
            for target in node.targets if isinstance(target, ast.Name)
        }  # fmt: skip
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "not_judged":
                why = node.args[1]
                if isinstance(why, ast.Name) and why.id in vars(planned):
                    yield re.escape(vars(planned)[why.id])
                else:
                    yield from pattern(names[why.id] if isinstance(why, ast.Name) else why)
            if isinstance(node, ast.FunctionDef) and node.name == "unclear":
                for part in (each for each in ast.walk(node) if isinstance(each, ast.Return) and each.value):
                    assert part.value is not None
                    yield from pattern(part.value)


def pattern(why: ast.expr) -> Iterator[str]:
    if isinstance(why, ast.Constant) and isinstance(why.value, str):
        yield re.escape(why.value)
    elif isinstance(why, ast.JoinedStr):
        yield "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else ".+" for p in why.values)


def test_every_reason_has_a_history() -> None:
    found = list(reasons())

    assert len(found) >= len(SKIPPED)
    assert [each for each in found if not any(re.fullmatch(each, reason) for reason in SKIPPED)] == []


IDLE = "the history has no event that it judges"
OF_NOTHING = {
    "O1": "no partition changed its owner",
    "R1": "no partition was revoked and assigned to another member",
    "R6": "no member had to give up a partition and stay",
    "C3": "the group was never drained, or no record was sent",
    "C4": "no partition changed its owner with records consumed and not committed",
    "C6": "members do not report finished records",
    "C7": "members do not report their commits",
    **dict.fromkeys(("X1", "X2"), "no member transforms"),
    "X3": "no service has an output topic",
    "S1": "no static member returned",
    "S2": "no static member's instance id was taken",
    "T1": "no member left, was killed or paused in a stable group",
    "T2": "no member stopped polling",
    "T3": "no topic changed",
    "K2": "no key was sent twice",
    "K3": "no record was sent",
    **dict.fromkeys(("O4", "G1", "R2", "R3", "R4", "R5", "R7", "E1", "C1", "C2", "C5", "K1"), IDLE),
    "G3": "the broker assigns, and members do not vote",
    "A1": "the broker assigns, and the log does not have what it computed from",
}


def test_a_kip_848_group_in_which_nothing_happens_says_so_law_by_law() -> None:
    story = reconciled.Reconciled(2).join("a").reconcile().rest()
    ends = [{"topic": "t", "partition": number, "offset": 0} for number in range(2)]
    story.tell("step", name="drained", offsets=ends)

    verdict = check(story.history)

    assert {law: [*whys] for law, whys in verdict.skipped.items()} == {law: [why] for law, why in OF_NOTHING.items()}
    assert {law for law, times in verdict.checked.items() if times} == set(laws.LAWS) - set(OF_NOTHING)


def test_partitions_of_members_that_write_no_history_are_nobodys_to_judge() -> None:
    """A group of somebody else's members alone: its generations are judged, not what they hold."""
    story = told.two()
    story.events = [e for e in story.events if e.src != "member"]

    verdict = check(told.later(story).history)

    assert (verdict.value, verdict.checked["P1"]) == (True, 0)
    assert verdict.checked["O3"] == 1


def restarted_then_joined() -> Story:
    """b's restart writes the first generation again; then c joins."""
    return static().restart("b").start("c").round()


def led_by_another_first() -> Story:
    """The first leader runs somebody else's assignor; it leaves."""
    story = told.two()
    story.change("start", lambda data: data["config"].update(assignors=["kafka-python:range"]), member="a")
    for event in story.events:
        if event.kind == "start" and event.member == "b":
            event.data["config"] = {**event.data["config"], "assignors": ["range"]}
    return story.stop("a").round()


def hurried_then_in_order() -> Story:
    """A restart that nobody can judge, and one that can be."""
    return rested(hurried_restart()).restart("b")


def rested(story: Story) -> Story:
    story.tell("step", name="stable", generation=story.generation, topics=story.topics, adopted_ns=story.adopted_ns)
    return story


def silent_then_gone() -> Story:
    story = told.two()
    del story.held["b"]
    return told.without(story.round(), lambda e: not (e.src == "member" and e.member == "b"))


def unread_then_read() -> Story:
    """What the first leader saw is missing."""
    return told.two().start("c").round().drop("assign_begin", nth=0)


@pytest.mark.parametrize(
    ("law", "times", "build"),
    [
        ("A1", 2, restarted_then_joined),
        ("A1", 1, led_by_another_first),
        ("A1", 1, unread_then_read),
        ("S1", 1, hurried_then_in_order),
        ("G3", 1, silent_then_gone),
        ("R7", 4, bridged_member),
    ],
)
def test_what_cannot_be_judged_hides_nothing_that_comes_later(law: str, times: int, build: Callable[[], Story]) -> None:
    assert check(build().history).checked[law] == times
