"""Members with different options: what travels, and which options hold under any leader."""

from __future__ import annotations

import json
import logging
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors import CompactStickyAssignor, CooperativeStickyAssignor, StickyAssignor
from kafka_assignors.core.group import TopicPartition, options
from kafka_assignors.core.reading import decode, replay
from kafka_assignors.core.strategies import STRATEGIES, Strategy, strategy
from kafka_assignors.core.wire import compact, userdata
from kafka_assignors.core.wire import weighted as carried
from kafka_assignors.core.wire.protocol import Subscription, decode_subscription, encode_subscription
from tests.support.kafka_python.joins import cluster, join

STICKY: list[dict[str, Any]] = [
    {},
    {"rack_costs": "leader"},
    {"rack_costs": "none"},
    {"goals": ["balance", "moves", "racks"]},
    {"goals": ["spread", "balance", "racks", "moves"]},
    {"parity": "java"},
    {"rack_costs": {"r1": {"r2": 3}}, "goals": ["balance", "moves", "racks"]},
]
CHOICES: dict[str, list[dict[str, Any]]] = {
    "sticky": STICKY,
    "cooperative-sticky": STICKY,
    "compact-sticky": STICKY,
    "copartitioned": [{}, {"topics": [["t", "u"]]}, {"rack_costs": "leader"}, {"goals": ["balance", "racks", "moves"]}],
    "cooperative-copartitioned": [{}, {"topics": [["t", "u"]]}, {"rack_costs": "leader"}],
    "consistent-hash": [{}, {"epsilon": None}, {"epsilon": 0.5, "hash": "sha1"}, {"virtual_nodes": 7}],
    "rocketmq-consistent-hash": [{}, {"virtual_nodes": 3}, {"broker_name": "é"}],
    "metaq-consistent-hash": [{}, {"broker_id": 4}],
    "machine-room-nearby": [{}, {"inner": "average-by-circle"}],
    "weighted": [{}, {"epsilon": 0.2}, {"move_budget": 2}, {"hysteresis": True}],
    "lag": [{}, {"epsilon": 0.2}, {"parity": "grantneale"}],
    "config": [{}, {"uncovered": "average"}, {"table": {"i0": {"t": [1, 2]}}}],
}
TOO_LARGE = {"rack_costs": {f"rack-{i}": {f"rack-{j}": abs(i - j) for j in range(12)} for i in range(12)}}
RACKS = {"t": [["r1"], ["r2"], ["r1"], ["r2"], ["r3"], ["r1"]]}
LEADERS = {"t": ["r1", "r2", "r1", "r2", "r3", None]}


def sent(made: Strategy, m: int, *owned: int) -> bytes:
    """The subscription of the m-th member of a group, made with these options."""
    held = [TopicPartition("t", p) for p in owned]
    data, _ = made.user_data(held or None, 4 if held else -1)
    cooperative = made.name.startswith("cooperative-")
    told = Subscription(("t",), data, held if cooperative else (), 4 if held else -1, f"r{m % 3 + 1}")
    return encode_subscription(told)


def heard(*members: Strategy) -> list[tuple[str, str | None, Subscription]]:
    return [(f"m{i}", None, Subscription(("t",), each.user_data(None, -1)[0])) for i, each in enumerate(members)]


def test_every_strategy_with_options_is_here() -> None:
    assert {name for name, each in STRATEGIES.items() if each.defaults()} == {*CHOICES}


# ------------------------------------------------------------------------------------------------- one rule


@pytest.mark.slow
@given(data=st.data(), name=st.sampled_from(sorted(CHOICES)))
def test_what_more_than_half_have_holds_under_any_leader_and_otherwise_the_leaders_own(
    data: st.DataObject, name: str
) -> None:
    """All members' options are drawn; each member in turn is the leader."""
    drawn = data.draw(st.lists(st.sampled_from(CHOICES[name]), min_size=1, max_size=5))
    owners = data.draw(st.lists(st.integers(0, len(drawn) - 1), min_size=6, max_size=6))
    made = [strategy(name, **each) for each in drawn]
    members = [
        (f"m{m}", f"i{m}", sent(each, m, *(p for p, owner in enumerate(owners) if owner == m)))
        for m, each in enumerate(made)
    ]
    # Under Java's names, default options are not told from those of another client.
    agreed = [each for each in drawn if 2 * drawn.count(each) > len(drawn) and (each or name not in userdata.JAVAS)]
    joined = [(m, i, decode_subscription(each)) for m, i, each in members]
    group = decode(name, joined, {"t": 6}, RACKS, LEADERS)
    revoked = {"eager": sorted({f"m{m}" for m in owners})} if name in ("weighted", "lag") else {}

    for each in drawn:
        holds = {**(agreed[0] if agreed else each), **revoked}
        assert replay(name, members, {"t": 6}, RACKS, LEADERS, **each) == strategy(name, **holds).assign(group)[0]
    if all(each == drawn[0] for each in drawn):
        assert made[0].agreed(heard(*made), {"t": 6}) == (made[0], ())


@pytest.mark.parametrize(
    ("members", "holds"),
    [
        (["none", "leader", "leader"], "leader"),
        (["none", "none", "leader"], "none"),
        (["none", "leader"], "own"),
        (["none", "leader", "other"], "own"),
        ([None, None, None, "none"], "silent"),
        ([None, "none", "none"], "none"),
        ([None, None], None),
    ],
)
@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky", "compact-sticky"])
def test_the_options_that_more_than_half_tell_hold(name: str, members: list[str | None], holds: str | None) -> None:
    """Who tells nothing has the defaults; under Java's names it may be another client, and no leader follows it."""
    choices: dict[str | None, dict[str, Any]] = {n: {"rack_costs": n} for n in ("none", "leader")}
    choices |= {None: {}, "other": {"goals": ["balance", "moves", "racks"]}}
    made = [strategy(name, **choices[each]) for each in members]

    for leader, own in zip(made, members, strict=True):
        expected = {"own": own, "silent": own if name in userdata.JAVAS else None}.get(str(holds), holds)
        assert leader.agreed(heard(*made), {"t": 6})[0].options == choices[expected]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("weighted", {"capacity": {"evil": 1e6, "a": 1e-6, "b": 1e-6}}),
        ("weighted", {"priority": {"evil": 1}}),
        ("weighted", {"max_work": {"a": 1e-9, "b": 1e-9}}),
        ("weighted", {"weights": {"t": [1, 0, 0, 0, 0, 0]}}),
        ("weighted", {"resting": [["t", 0]]}),
        ("lag", {"capacity": {"evil": 1e6}}),
        ("config", {"table": {"evil": {"t": [0, 1, 2, 3, 4, 5]}}}),
        ("config", {"uncovered": "error"}),
        ("consistent-hash", {"epsilon": None, "virtual_nodes": 1}),
        ("copartitioned", {"topics": [["t", "u"]]}),
        ("compact-sticky", {"rack_costs": {"r3": {}, "r1": {"r1": 9}}, "goals": ["balance", "racks", "moves"]}),
    ],
)
def test_one_member_decides_for_no_others(name: str, told: dict[str, Any]) -> None:
    """Its vote is one of three, and what a member sets for itself is not voted on."""
    evil = encode_subscription(Subscription(("t",), carrying(name, options.tell(told)), (), -1, "r3"))
    plain = [("a", None, sent(strategy(name), 0)), ("b", None, sent(strategy(name), 1))]

    alone = replay(name, [*plain, ("evil", None, sent(strategy(name), 2))], {"t": 6}, RACKS, LEADERS)

    assert replay(name, [*plain, ("evil", None, evil)], {"t": 6}, RACKS, LEADERS) == alone


def carrying(name: str, told: bytes) -> bytes:
    """User data of a strategy with any bytes for options."""
    if name == "sticky":
        return userdata.encode_sticky((), 1, told)
    if name == "cooperative-sticky":
        return userdata.encode_cooperative(1, told)
    claims = compact.encode((), -1, option_bytes=told)
    return carried.encode(claims, carried.Own(), {}) if name in ("weighted", "lag") else claims


@pytest.mark.parametrize(
    "told",
    [
        {"uncovered": []},
        {"uncovered": {}},
        {"uncovered": "error"},
        {"uncovered": "error", "table": {}},
        {"eager": [[]]},
        {"eager": True},
        {"resting": 1},
        {"resting": "t"},
        {"epsilon": 10**400},
        {"since_s": 10**400},
        {"capacity": {"a": 10**400}},
        {"capacity": 3},
        {"max_work": {"a": 10**400}},
        {"rack_costs": {"a": {"b": 10**400}}},
        {"rack_costs": []},
        {"goals": [[], {}, 1, None]},
        {"parity": []},
        {"topics": [[[]]]},
        {"table": {"a": {"t": [10**400]}}},
        {"hash": []},
        {"inner": {}},
        {"protocol": []},
    ],
)
@pytest.mark.parametrize("name", sorted(CHOICES))
def test_options_that_all_other_members_send_stop_no_leader(name: str, told: dict[str, Any]) -> None:
    members = [(m, None, Subscription(("t",), carrying(name, json.dumps(told).encode()))) for m in "abc"]

    made, facts = strategy(name).agreed(members, {"t": 6})
    answer, _ = made.assign(decode(name, members, {"t": 6}))

    assert sorted(p for topics in answer.values() for p in topics["t"]) == list(range(6))
    assert facts


def test_uncovered_error_is_each_leaders_own() -> None:
    """Who has it raises as a leader, and tells others the table alone."""
    table = {"a": {"t": [0]}}
    strict, lenient = strategy("config", table=table, uncovered="error"), strategy("config", table=table)

    assert strict.user_data(None, -1) == lenient.user_data(None, -1)
    assert lenient.agreed(heard(strict, strict, lenient), {"t": 6}) == (lenient, ())
    assert strict.agreed(heard(strict, lenient, lenient), {"t": 6}) == (strict, ())


def test_options_that_are_written_out_and_at_their_defaults_are_none() -> None:
    written = strategy("sticky", rack_costs="replica", goals=("balance", "racks", "moves"), parity=None)

    assert written.user_data(None, -1) == (None, "")
    assert strategy("cooperative-sticky", rack_costs="replica").user_data((), 7) == (struct.pack(">i", 7), "")


# ------------------------------------------------------------------------------------------------- what travels


@given(
    owned=st.sets(st.tuples(st.sampled_from(["t", "orders", "a" * 200]), st.integers(0, 99))),
    generation=st.integers(-1, 2**31 - 1),
    given_=st.sampled_from(STICKY),
    name=st.sampled_from(["sticky", "cooperative-sticky", "compact-sticky"]),
)
def test_options_come_back_beside_unchanged_claims(
    owned: set[tuple[str, int]], generation: int, given_: dict[str, Any], name: str
) -> None:
    held = tuple(TopicPartition(*each) for each in sorted(owned))
    plain, _ = strategy(name).user_data(held, generation)
    data, why = strategy(name, **given_).user_data(held, generation)
    subscribed = [
        ("m", None, Subscription(("t", "orders", "a" * 200), each, held, generation)) for each in (plain, data)
    ]
    counts = dict.fromkeys(("t", "orders", "a" * 200), 100)

    told = strategy(name).told_by(data)

    assert why == ""
    assert (options.read(told) if told else {}) == given_
    assert (data == plain) == (not given_)
    first, second = (decode(name, [each], counts) for each in subscribed)
    assert first.group == second.group
    assert first.facts == second.facts
    if name == "sticky":
        assert userdata.decode_sticky(data) == userdata.decode_sticky(plain)


@pytest.mark.source("IBM/sarama sticky_assignor_user_data.go decode, encoder_decoder.go decode: the length must match")
def test_sticky_user_data_with_options_are_an_array_and_a_generation_to_the_last_byte() -> None:
    data, _ = strategy("sticky", rack_costs="none").user_data((TopicPartition("t", 3),), 9)
    assert data is not None

    assert userdata._read(data, 0, has_generation=True)[1] == len(data)
    (topics,) = struct.unpack_from(">i", data)
    assert topics == 2
    assert data[4:].startswith(struct.pack(">h", 29) + b'options:{"rack_costs":"none"}' + bytes(4))


@pytest.mark.source("librdkafka rdkafka_sticky_assignor.c: under cooperative-sticky it sends sticky's user data")
def test_librdkafkas_claims_under_cooperative_sticky_are_no_options() -> None:
    assert userdata.options("cooperative-sticky", userdata.encode_sticky([("orders", p) for p in range(9)], 2)) == b""


def test_large_options_are_told_by_their_digest_and_each_leaders_own_hold() -> None:
    large, other, default = strategy("sticky", **TOO_LARGE), strategy("sticky", rack_costs="none"), strategy("sticky")
    data, _ = large.user_data(None, -1)

    assert options.read(userdata.options("sticky", data)) is None
    assert len(userdata.options("sticky", data)) == 23
    assert large.agreed(heard(large, large), {"t": 6}) == (large, ())
    assert large.agreed(heard(large, large, default), {"t": 6}) == (
        large,
        (),
    )  # who tells nothing may be another client
    made, (fact,) = default.agreed(heard(large, large, default), {"t": 6})
    assert made is default
    assert "sha256:" in fact.text
    assert "the leader's own options apply, because more than half of the members send only a digest" in fact.text
    for leader in (large, other):  # a digest counts for those who have the options
        assert leader.agreed(heard(large, large, other), {"t": 6})[0] == leader


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (b"\xff", "can't decode"),
        (b"[" * 512, "nested too deeply|Expecting value"),
        (b"7", "not a JSON object"),
        (b'{"epsilon":NaN}', "NaN is not a number"),
        (b'{"epsilon":"much"}', "epsilon must be a number"),
        (b'{"self":1}', "has no option 'self'"),
        (b'{"of a newer version":1}', "has no option 'of a newer version'"),
        (b'{"broker_name":"' + b"x" * 512 + b'"}', "530 bytes; the limit is 512"),
    ],
)
def test_options_that_cant_be_read_dont_count_and_are_told(told: bytes, why: str) -> None:
    made = strategy("consistent-hash", hash="sha1")
    strange = ("strange", None, Subscription(("t",), compact.encode((), -1, None, None, told)))

    for leader in (made, strategy("consistent-hash")):
        agreed, facts = leader.agreed([*heard(made, made), strange], {"t": 6})
        assert agreed.options == {"hash": "sha1"}
        (text,) = [fact.text for fact in facts if fact.kind == "options-unread"]
        assert text.startswith("options of member 'strange' can't be read: ")
        assert any(each in text for each in why.split("|"))


@given(name=st.sampled_from(sorted(CHOICES)), data=st.binary(max_size=80), version=st.sampled_from([b"", b"\1", b"\2"]))
def test_any_user_data_are_survived(name: str, data: bytes, version: bytes) -> None:
    made = strategy(name)
    for each in (
        data,
        version + data,
        userdata.encode_sticky((), 1, data),
        userdata.encode_cooperative(1, data),
        compact.encode((), 1, option_bytes=data),
    ):
        agreed, _ = made.agreed([("m", None, Subscription(("t",), each))], {"t": 6})
        assert agreed.name == name


OPTIONS = [*"ab", "rack_costs", "goals", "parity", "table", "epsilon", "hash", "inner"]


@given(text=st.dictionaries(st.sampled_from(OPTIONS),
    st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
                 lambda each: st.lists(each, max_size=2) | st.dictionaries(st.text(max_size=2), each, max_size=2))),
    name=st.sampled_from(sorted(CHOICES)))  # fmt: skip
def test_any_options_of_another_member_are_survived(text: dict[str, Any], name: str) -> None:
    told = json.dumps(text).encode()
    members = [("m", None, Subscription(("t",), carrying(name, told)))]

    made, _ = strategy(name).agreed(members, {"t": 3})

    made.assign(decode(name, [("m", "i", Subscription(("t",)))], {"t": 3}))


def test_user_data_of_version_1_are_read_as_before_and_those_of_a_newer_one_say_nothing() -> None:
    plain = compact.encode([("t", 0)], 1)

    assert plain[0] == 1
    assert compact.encode([("t", 0)], 1, option_bytes=b"{}")[0] == 2
    assert compact.options(plain) == compact.options(b"") == compact.options(b"\3" + plain[1:]) == b""


# ------------------------------------------------------------------------------------------------- what is told


def test_what_differs_is_told_once_with_who_has_it(caplog: pytest.LogCaptureFixture) -> None:
    own = {"rack_costs": "none", "goals": ("balance", "moves", "racks")}
    leader, same, other = CooperativeStickyAssignor(**own), CooperativeStickyAssignor(**own), CooperativeStickyAssignor(
        rack_costs="leader", goals=("balance", "moves", "racks")
    )  # fmt: skip
    joined = [join(m, each.metadata({"t"}).encode()) for m, each in zip("abc", (leader, same, other), strict=True)]
    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        for _ in range(3):
            leader.assign(cluster({"t": [[1]]}), joined)

    assert [record.getMessage() for record in caplog.records if record.name == "kafka_assignors"] == [
        "cooperative-sticky: members have different options: rack_costs='leader' ('c'), rack_costs='none' ('a', 'b'); "
        "rack_costs='none' applies under any leader, because more than half of the members have these. Give all "
        "members the same options"
    ]


def test_members_that_tell_nothing_may_be_other_clients_under_javas_names_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for cls, silent in ((StickyAssignor, []), (CompactStickyAssignor, ["rack_costs by default ('java')"])):
        leader = cls(rack_costs="none")
        joined = [join("a", leader.metadata({"t"}).encode()), join("java", cls().metadata({"t"}).encode())]
        caplog.clear()
        with caplog.at_level(logging.WARNING, "kafka_assignors"):
            leader.assign(cluster({"t": [[1]]}), joined)
        assert [part for part in silent if part not in caplog.text] == []
        assert bool(caplog.records) == bool(silent)


def test_a_leader_without_options_takes_those_of_others_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    leader, other = StickyAssignor(), StickyAssignor(parity="java")
    joined = [join(m, each.metadata({"t"}).encode()) for m, each in zip("abc", (leader, other, other), strict=True)]
    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        leader.assign(cluster({"t": [[1]]}), joined[:2])
        leader.assign(cluster({"t": [[1]]}), joined)

    assert (
        "parity by default ('a'), parity='java' ('b'); the leader's own options apply (parity by default)"
        in caplog.text
    )
    assert "parity by default ('a'), parity='java' ('b', 'c'); parity='java' applies under any leader" in caplog.text
