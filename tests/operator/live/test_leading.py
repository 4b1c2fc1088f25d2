"""A plan of a live group reads what members sent as the leader will: goals, weights, capacities, tables."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import kafka_assignors
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.strategies import STRATEGIES, strategy
from kafka_assignors.core.wire.protocol import decode_subscription
from kafka_assignors.operator.cli import plan as work
from kafka_assignors.operator.live.group import Change, LiveGroup, LiveMember, LiveTopics
from kafka_assignors.operator.live.leading import led
from tests.core.group.test_options import CHOICES, TOO_LARGE
from tests.support.assignors import hostile
from tests.support.cli import valid
from tests.support.kafka_python.joins import cluster, join, plain

_PUBLIC: list[Any] = [getattr(kafka_assignors, name) for name in kafka_assignors.__all__]
CLASSES = {each.name: each for each in _PUBLIC if getattr(each, "name", None) in STRATEGIES}
_MOST_ROUNDS = 8
STATE = {"state": {"t": [9.0] * 6}}
OWNERS = dict[str, dict[str, list[int]]]


class Simulated:
    """A group of our assignors without a broker: joins, assignments, and the coordinator's view of it.

    Args:
        counts: Topic -> partition count.
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        self.members: dict[str, Any] = {}
        self.static: set[str] = set()
        self.sent: dict[str, bytes] = {}
        self.owned: OWNERS = {}
        self.generation = 0
        self.rests = True

    def rebalance(self, leader: str) -> OWNERS:
        """Rebalances until a second one would change nothing."""
        topics = {name: [[1]] * count for name, count in self.counts.items()}
        for _ in range(_MOST_ROUNDS):
            self.generation += 1
            self.sent = {name: bytes(each.metadata(set(topics)).encode()) for name, each in self.members.items()}
            joined = [join(m, sent, m if m in self.static else None) for m, sent in self.sent.items()]
            answer = self.members[leader].assign(cluster(topics), joined)
            given_up = False
            for name, each in self.members.items():
                before = set(each._owned or ()) if each._still_held(topics) else set()
                each.on_assignment(answer[name], self.generation)
                given_up |= not before <= set(each._owned or ())
            self.owned = plain(answer)
            if not given_up:
                break
        self.rests = not given_up
        return self.owned

    def live(self, leader: str, protocol: str) -> LiveGroup:
        """The group as its coordinator describes it."""
        members = []
        for name, data in self.sent.items():
            sent = decode_subscription(data)
            owned = tuple(TopicPartition(t, p) for t, ids in sorted(self.owned[name].items()) for p in sorted(ids))
            members.append(
                LiveMember(name, name, "h", frozenset(sent.topics), owned, name if name in self.static else None,
                           sent.rack, sent=sent)
            )  # fmt: skip
        return LiveGroup("g", "Stable", "classic", protocol, tuple(members), self.generation, leader, tuple(self.sent))


WEIGHTS = st.fixed_dictionaries({"t": st.lists(st.integers(0, 40), min_size=6, max_size=6)})
OF_MEMBERS = {"weighted": ("weights", "capacity", "priority", "max_work"), "lag": ("lag", "capacity")}


def test_every_assignor_is_here() -> None:
    assert set(CLASSES) == set(STRATEGIES)


@pytest.mark.slow
@given(data=st.data(), name=st.sampled_from(sorted(STRATEGIES)))
def test_what_a_plan_of_what_members_sent_says_is_what_the_leader_does(data: st.DataObject, name: str) -> None:
    """Members with drawn options, weights and capacities; then one joins, one leaves or a topic grows."""
    group = Simulated({"t": 6, "u": 3})
    # a budget may take more than two rebalances
    choices = [each for each in CHOICES.get(name, [{}]) if "move_budget" not in each]
    common, weights = data.draw(st.sampled_from(choices)), data.draw(WEIGHTS)
    for m in range(data.draw(st.integers(2, 4))):
        options = data.draw(st.sampled_from([common, common, *choices]))
        own: dict[str, Any] = {}
        if name in OF_MEMBERS and data.draw(st.booleans()):
            own[OF_MEMBERS[name][0]] = weights
            own["capacity"] = data.draw(st.sampled_from([0.5, 1.0, 2.0]))
            if name == "weighted":
                own |= data.draw(st.sampled_from([{}, {"priority": 1}, {"max_work": 50.0}, STATE]))
        group.members[f"m{m}"] = CLASSES[name](**options, **own)
    if data.draw(st.booleans()):
        group.static = set(group.members)
    leader = data.draw(st.sampled_from(sorted(group.members)))
    group.rebalance(leader)
    if data.draw(st.booleans()):
        group.members["m9"] = CLASSES[name](**common)
        group.rebalance(leader)

    live, topics = group.live(leader, name), LiveTopics(group.counts)
    change = data.draw(st.sampled_from(["again", "join", "leave", "growth"]))
    if change == "join":
        planned = led(live, topics, Change(joining=("n",)))
        assert planned.like is not None
        group.members["n"] = copy.copy(group.members[planned.like])
    elif change == "leave":
        gone = data.draw(st.sampled_from(sorted(set(group.members) - {leader})))
        planned = led(live, topics, Change(remove=(gone,)))
        del group.members[gone]
    elif change == "growth":
        planned = led(live, topics, Change(partitions={"t": 8}))
        group.counts["t"] = 8
    else:
        planned = led(live, topics)
    did = group.rebalance(leader)
    assume(group.rests)

    assert {m: {t: list(p) for t, p in given.items()} for m, given in planned.plan.target.items()} == did
    assert planned.plan.replay() == planned.plan


def made(name: str, *options: dict[str, Any], leader: str | None = "m0", rounds: int = 2) -> LiveGroup:
    """A group after so many rebalances, a member for each of these options."""
    group = Simulated({"t": 6})
    group.members = {f"m{m}": CLASSES[name](**each) for m, each in enumerate(options)}
    for _ in range(rounds):
        group.rebalance("m0")
    return replace(group.live("m0", name), leader=leader)


TOPICS = LiveTopics({"t": 6})
NEW = Change(joining=("n",))


def test_what_members_sent_is_told() -> None:
    weights = {"t": [9, 1, 1, 1, 1, 1]}
    live = made("weighted", {"weights": weights, "capacity": 2.0}, {"weights": weights}, {"epsilon": 0.2})
    told = led(live, TOPICS, NEW)

    assert told.notes[0] == "Read from what members sent: weights of 6 partitions; capacity m0: 2."
    assert told.notes[1].startswith("New members are planned with the options of m1; capacity 1; no weights of their")
    assert led(live, TOPICS, NEW).plan.load is not None
    assert not [fact for fact in told.plan.facts if fact.kind == "weights-none"]
    other = led(live, TOPICS, name="lag")
    assert "Not known: the weights and capacities that members would send under lag" in other.notes[0]


def test_options_that_are_given_hold_in_place_of_those_sent() -> None:
    goals = ["balance", "moves", "racks"]
    live = made("sticky", {"goals": goals}, {"goals": goals}, {})
    assert led(live, TOPICS).strategy.options == {"goals": goals}
    assert led(live, TOPICS).notes[0] == "Read from what members sent: goals=['balance', 'moves', 'racks']."
    given = led(live, TOPICS, options={"goals": ["spread", "balance", "racks", "moves"]})
    assert given.strategy.options == {"goals": ["spread", "balance", "racks", "moves"]}
    assert given.notes[0] == "As given, whatever members sent: goals."
    capacity = led(made("weighted", {}, {}), TOPICS, options={"capacity": {"m1": 2}})
    assert capacity.strategy.options["capacity"] == {"m1": 2}


def test_whose_options_apply_without_a_majority_is_told_if_the_leader_is_not_known() -> None:
    live = made("sticky", {"rack_costs": "none"}, {"rack_costs": "leader"}, {})
    assert led(live, TOPICS).strategy.options == {"rack_costs": "none"}
    assert not [note for note in led(live, TOPICS).notes if "lead" in note]
    assert any("Not known: who leads" in note for note in led(replace(live, leader=None), TOPICS).notes)
    gone = led(live, TOPICS, Change(remove=("m0",)))
    assert any("Not known: who will lead after m0" in note for note in gone.notes)


def test_a_digest_of_options_is_told_and_the_options_may_be_given() -> None:
    live = made("sticky", TOO_LARGE, TOO_LARGE)
    assert any("sends a digest: give them by -A sticky:OPTION=VALUE" in note for note in led(live, TOPICS).notes)
    given = led(live, TOPICS, options=TOO_LARGE)
    assert not any("digest" in note for note in given.notes)
    assert given.strategy.options == TOO_LARGE


def test_what_no_member_sends_is_not_known() -> None:
    config = led(made("config", {"table": {"m0": {"t": [0]}}}, {}), TOPICS)
    assert "Not known: whether the leader has uncovered='error', which isn't sent." in config.notes
    sticky = led(made("sticky", {}, {}), TOPICS)
    assert any("Java's assigns by -A sticky:parity=java" in note for note in sticky.notes)
    first = led(made("weighted", {}, {}, rounds=1), TOPICS)
    assert any("whether members are cooperative" in note for note in first.notes)
    ring = led(made("consistent-hash", {}, {}), TOPICS, NEW)
    assert any("hashes the ids that the coordinator draws" in note for note in ring.notes)
    unnamed = led(made("range", {}, {}), TOPICS, Change(add=1))
    assert any("--add NAME tells one" in note for note in unnamed.notes)
    live = made("weighted", {}, {})
    silent = replace(live, members=tuple(replace(member, sent=None) for member in live.members))
    assert led(silent, TOPICS).notes[0].startswith("Not known: what members sent")


def test_user_data_that_a_leader_cannot_read_claim_nothing_in_the_plan_either() -> None:
    """A member with garbage for user data keeps nothing, as its leader reads no claim."""
    live = made("compact-sticky", {}, {})
    broken = replace(live.members[0], sent=live.members[0].sent._replace(user_data=b"\x01garbage"))  # type: ignore[union-attr]
    told = led(replace(live, members=(broken, *live.members[1:])), TOPICS)

    assert [fact.kind for fact in told.plan.facts] == ["garbage-user-data"]
    assert {move.kind for move in told.plan.moves} == {"unowned"}
    assert told.plan.replay() == told.plan


def test_members_that_revoke_everything_stop_altogether() -> None:
    for protocol, stops in (("eager", "all 2 members"), ("auto", "only what moves")):
        live = made("weighted", {"protocol": protocol}, {"protocol": protocol})
        assert work._cost(led(live, TOPICS, NEW).plan).stops.startswith(stops[:3])


def test_the_text_and_the_json_have_the_notes_by_the_members_names() -> None:
    live = made("weighted", {"weights": {"t": [9, 1, 1, 1, 1, 1]}, "capacity": 2.0}, {})
    called = replace(live, members=tuple(replace(each, client_id=f"web-{each.member_id}") for each in live.members))
    told = led(called, TOPICS)
    answer = work.Answer(called, Change(), {"weighted": told.plan}, TOPICS, notes={"weighted": told.notes})

    assert "capacity web-m0: 2" in "\n".join(work.lines(answer))
    written = valid("plan", json.loads(json.dumps(work.as_json(answer))))
    assert written["plans"][0]["notes"] == list(told.notes)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_hostile_members_stop_no_plan(name: str) -> None:
    """What a leader survives, a plan of its group survives, and its text."""
    owned = [TopicPartition(t, p) for t, n in hostile.TOPICS.items() for p in range(n)]
    for seed in range(12):
        random = Random(f"{name} {seed}")
        sent = [decode_subscription(each) for each in hostile.honest(name)]
        sent += [hostile.subscription(random, hostile.user_data(random, strategy(name))) for _ in range(5)]
        members = [
            LiveMember(f"m{m}", f"m{m}", "h", frozenset(each.topics), tuple(owned[m :: len(sent)]), sent=each)
            for m, each in enumerate(sent)
        ]
        live = LiveGroup("g", "Stable", "classic", name, tuple(members), 4, random.choice(["m0", "m7", None]))
        told = led(live, LiveTopics(hostile.TOPICS), NEW)
        assert set(told.plan.target) == {*(f"m{m}" for m in range(8)), "n"}
        assert list(work.lines(work.Answer(live, NEW, {name: told.plan}, LiveTopics(hostile.TOPICS))))
