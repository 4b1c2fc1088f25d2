"""What members tell: user data, sources that fail, and an answer that depends on the bytes alone."""

from __future__ import annotations

import logging
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from kafka_assignors import WeightedAssignor
from kafka_assignors.clients import weights
from kafka_assignors.clients.weights import Weights
from kafka_assignors.core.group import Partitions
from kafka_assignors.core.group import options as options_
from kafka_assignors.core.reading import decode as decode_group
from kafka_assignors.core.reading import replay
from kafka_assignors.core.strategies import strategy
from kafka_assignors.core.wire import balance, compact
from kafka_assignors.core.wire.choice import chosen
from kafka_assignors.core.wire.protocol import (
    AssignedPartitions,
    Subscription,
    encode_assignment,
    encode_subscription,
    with_user_data,
)
from kafka_assignors.core.wire.weighted import Moving, Own, decode, encode, encode_within
from kafka_assignors.errors import ConfigError


def sent(**options: Any) -> bytes:
    return bytes(WeightedAssignor(**options).metadata(["t"]).encode())


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=200), st.floats(0.01, 100))
def test_weights_come_back_within_their_step(weights: list[float], capacity: float) -> None:
    ids = np.arange(len(weights))
    told = decode(encode(compact.encode(), Own(capacity, 2, 300), {"t": (ids, np.array(weights))}), {"t": len(weights)})

    assert told.compact_data.garbage == ""
    assert told.own == Own(capacity, 2, 300 % 256)
    floor = max(weights) * 2 ** (-253 / 16)
    assert np.allclose(np.maximum(told.weights["t"][1], floor), np.maximum(weights, floor), rtol=0.0222)


@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=50))
def test_what_was_decoded_is_encoded_as_the_same(weights: list[float]) -> None:
    """Also without the heaviest, which another member may have now."""
    counts = {"t": len(weights)}
    ids, values = decode(encode(b"", Own(), {"t": (np.arange(len(weights)), np.array(weights))}), counts).weights["t"]
    rest = np.arange(len(ids)) != values.argmax()
    again = decode(encode(b"", Own(), {"t": (ids[rest], values[rest])}), counts).weights["t"]
    assert again[1].tolist() == values[rest].tolist()


@given(st.binary(max_size=200))
def test_any_bytes_are_read(data: bytes) -> None:
    decode(data, {"t": 3})


@given(st.integers(0, 60), st.integers(0, 255))
def test_damaged_and_newer_bytes_say_nothing(at: int, byte: int) -> None:
    data = bytearray(encode(compact.encode([("t", 0)], 3), Own(2.0), {"t": (np.arange(3), np.array([1.0, 2, 3]))}))
    if at >= len(data) or data[at] == byte:
        return
    data[at] = byte
    told = decode(bytes(data), {"t": 3})
    assert told.compact_data.garbage
    assert (told.own, dict(told.weights)) == (Own(), {})


def test_a_byte_for_each_partition_in_contiguous_ranges() -> None:
    weights = np.random.default_rng(1).lognormal(0, 1, 10_000)
    owned = [("t", p) for p in range(10_000)]
    data, why = encode_within(owned, 3, None, None, weights=chosen({"t": weights}, owned, "m"))
    assert why == ""
    assert len(data) <= len(owned)


@pytest.mark.slow
def test_beyond_the_record_limit_weights_and_then_claims_are_left_out() -> None:
    weights = np.random.default_rng(1).lognormal(0, 1, 1_300_000)
    data, why = encode_within([], 3, None, None, weights={"t": (np.arange(len(weights)), weights)})
    assert "this member sends none" in why
    assert len(data) < 1_000


def test_the_leader_decides_by_what_members_tell() -> None:
    """Its own weights count as another member's; a standby gets nothing."""
    weights = {("t", p): w for p, w in enumerate([9, 1, 1, 1, 1, 1])}
    members = [("a", None, sent(weights=weights)), ("b", None, sent()), ("c", None, sent(capacity=0))]
    answer = replay("weighted", members, {"t": 6})
    assert sorted(map(len, (topics.get("t", []) for topics in answer.values()))) == [0, 1, 5]
    assert answer["c"] == {}
    assert answer == replay("weighted", members[::-1], {"t": 6})
    assert answer == replay("weighted", members, {"t": 6}, weights={"t": [1.0] * 6}, capacity=0, protocol="eager")


def test_a_topic_goes_to_the_highest_priority_and_to_the_others_without_it() -> None:
    members = [("a", None, sent(priority=1)), ("b", None, sent(priority=1)), ("c", None, sent())]

    assert {m: len(topics.get("t", ())) for m, topics in replay("weighted", members, {"t": 6}).items()} == {
        "a": 3, "b": 3, "c": 0,
    }  # fmt: skip
    assert len(replay("weighted", members[2:], {"t": 6})["c"]["t"]) == 6


def test_no_member_has_more_than_its_cap() -> None:
    weights = {("t", p): 1.0 for p in range(9)}
    members = [("a", None, sent(weights=weights, max_work=2.0)), ("b", None, sent()), ("c", None, sent())]

    counts = {m: len(topics["t"]) for m, topics in replay("weighted", members, {"t": 9}).items()}

    assert counts["a"] == 2
    assert sum(counts.values()) == 9
    assert replay("weighted", members, {"t": 9}) == replay("weighted", members[::-1], {"t": 9})


def test_priority_and_cap_travel_and_members_without_them_send_what_they_always_sent() -> None:
    own = Own(2.0, 1, 3, priority=-7, max_work=40.0)
    data = encode(compact.encode([("t", 0)], 3), own, {"t": (np.arange(2), np.array([1.0, 2]))})

    assert decode(data, {"t": 2}).own == own
    assert (data[0], encode(b"", Own(2.0), {})[0]) == (2, 1)
    for version in (0, 1, 3):  # read as another version, they say nothing
        told = decode(bytes([version]) + data[1:], {"t": 2})
        assert told.compact_data.garbage
        assert told.own == Own()


def test_state_and_resting_partitions_travel_and_members_without_them_send_what_they_always_sent() -> None:
    state = {"t": (np.array([0, 2]), np.array([1.0, 4.0]))}
    weights = {"t": (np.arange(3), np.ones(3))}
    data = encode(compact.encode([("t", 0)], 3), Own(2.0, priority=4), weights, Moving(state, [("t", 2)]))

    told = decode(data, {"t": 3})
    assert (told.compact_data.garbage, told.own, data[0]) == ("", Own(2.0, priority=4), 3)
    assert [tuple(each) for each in told.moving.resting] == [("t", 2)]
    assert [each.tolist() for each in told.moving.state["t"]] == [[0, 2], [1.0, 4.0]]
    assert told.weights["t"][1].tolist() == [1.0, 1.0, 1.0]
    assert encode(b"", Own(), weights, Moving()) == encode(b"", Own(), weights)
    for version in (0, 1, 2, 4):  # read as another version, they say nothing
        other = decode(bytes([version]) + data[1:], {"t": 3})
        assert other.compact_data.garbage
        assert not other.moving.resting


def joined(member_id: str, owned: list[int], moving: Moving, weights: list[float]) -> tuple[str, None, bytes]:
    """A cooperative member with hysteresis in generation 3 of a topic of six partitions."""
    claims = [("t", p) for p in owned]
    told = options_.tell({"hysteresis": True})
    known = {"t": (np.arange(6), np.array(weights))}
    data, _ = encode_within([], 3, None, None, told, Own(), known, moving)
    return member_id, None, encode_subscription(Subscription(("t",), data, Partitions.of(claims), 3))


@pytest.mark.parametrize("rests", [False, True])
def test_a_partition_that_moved_of_late_stays_and_others_move(rests: bool) -> None:
    """One of three equal partitions must leave; the one that would if it did not rest."""
    weights = [4.0, 4.0, 4.0, 1.0, 1.0, 1.0]
    first = replay(
        "weighted", [joined("a", [0, 1, 2], Moving(), weights), joined("b", [3, 4, 5], Moving(), weights)], {"t": 6}
    )
    (gone,) = {0, 1, 2} - set(first["a"]["t"])
    moving = Moving(resting=[("t", gone)] if rests else ())
    again = replay(
        "weighted", [joined("a", [0, 1, 2], moving, weights), joined("b", [3, 4, 5], Moving(), weights)], {"t": 6}
    )
    assert len(again["a"]["t"]) == 2
    assert (gone in again["a"]["t"]) == rests


def test_the_partition_with_the_least_state_moves() -> None:
    weights = [4.0, 4.0, 4.0, 1.0, 1.0, 1.0]
    for light in range(3):
        cost = np.array([9.0, 9.0, 9.0])
        cost[light] = 1.0
        members = [
            joined("a", [0, 1, 2], Moving({"t": (np.arange(3), cost)}), weights),
            joined("b", [3, 4, 5], Moving({"t": (np.arange(3, 6), np.full(3, 9.0))}), weights),
        ]
        for order in (members, members[::-1]):
            assert {0, 1, 2} - set(replay("weighted", order, {"t": 6})["a"]["t"]) == {light}


def test_a_member_sends_the_state_of_its_own_partitions() -> None:
    """Given for all; costs matter only where a partition has an owner."""
    assignor = WeightedAssignor(state={"t": [5.0, 6.0, 7.0]}, protocol="eager")
    assignor.on_assignment(assignment([1]), 3)
    told = decode(assignor.metadata(["t"]).user_data, {"t": 3})
    assert [each.tolist() for each in told.moving.state["t"]] == [[1], [pytest.approx(6.0, rel=0.0222)]]


def test_state_that_fails_is_warned_of_and_moves_count(caplog: pytest.LogCaptureFixture) -> None:
    assignor = WeightedAssignor(state=lambda: 1 / 0)
    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        first, second = (bytes(assignor.metadata(["t"]).encode()) for _ in range(2))
    assert first == second == sent()
    assert [record.getMessage() for record in caplog.records if "sends no state" in record.getMessage()][1:] == []
    assert "the callable for state failed: ZeroDivisionError" in caplog.text


def assignment(partitions: list[int], withheld: int = 0, moved: int = 0) -> ConsumerProtocolAssignment:
    told = balance.encode(balance.Balance(1.0, 1.0, 3, 3, withheld, moved))
    data = encode_assignment(AssignedPartitions({"t": partitions}))
    return ConsumerProtocolAssignment.decode(bytes(with_user_data(data, told)))


@pytest.mark.parametrize("rest_s", [600.0, 0.0])
def test_what_moved_to_a_member_rests_and_what_nobody_owned_does_not(rest_s: float) -> None:
    def resting() -> list[tuple[str, int]]:
        told = decode(assignor.metadata(["t"]).user_data, {"t": 9}).moving.resting
        return [tuple(each) for each in told]

    assignor = WeightedAssignor(hysteresis=True, partition_rest_s=rest_s, protocol="eager")
    assignor.on_assignment(assignment([0, 1]), 1)
    assert resting() == [], "they had no owner before"
    assignor.on_assignment(assignment([0], withheld=2), 2)
    assert resting() == []
    assignor.on_assignment(assignment([0, 5]), 3)
    assert resting() == ([("t", 5)] if rest_s else []), "the hand-over of generation 2"
    assignor.on_assignment(assignment([0, 5, 6]), 4)
    assert resting() == ([("t", 5)] if rest_s else []), "6 had no owner"
    assignor.on_assignment(assignment([5, 7], moved=1), 5)
    assert resting() == ([("t", 5), ("t", 7)] if rest_s else []), "7 left an eager member"
    assignor.on_assignment(assignment([0, 7]), 6)
    assert resting() == ([("t", 7)] if rest_s else []), "5 is another's now"


def test_without_the_hysteresis_no_rest_is_told() -> None:
    assignor = WeightedAssignor(protocol="eager")
    assignor.on_assignment(assignment([0], moved=1), 1)
    assert not decode(assignor.metadata(["t"]).user_data, {"t": 9}).moving.resting


@pytest.mark.parametrize(
    ("own", "why"),
    [
        (Own(priority=1, max_work=0.0), "max_work of 'b' must be a number above 0 in the unit of the weights, not 0.0"),
        (
            Own(priority=1, max_work=-1.0),
            "max_work of 'b' must be a number above 0 in the unit of the weights, not -1.0",
        ),
        (
            Own(priority=1, max_work=math.nan),
            "max_work of 'b' must be a number above 0 in the unit of the weights, not nan",
        ),
        (Own(1e-7), "capacity of 'b' must be 0 (standby) or a number from 1e-6 to 1e6, not 1e-07"),
        (Own(2e6), "capacity of 'b' must be 0 (standby) or a number from 1e-6 to 1e6, not 2000000.0"),
        (Own(-1.0), "capacity of 'b' must be 0 (standby) or a number from 1e-6 to 1e6, not -1.0"),
        (Own(math.nan), "capacity of 'b' must be 0 (standby) or a number from 1e-6 to 1e6, not nan"),
        (Own(priority=-(1 << 31) - 1), "priority of 'b' must be an integer of at most 2**31, not -2147483649"),
    ],
)
def test_figures_that_no_member_may_send_are_ignored_and_told(own: Own, why: str) -> None:
    """They pass the validation of the assignor's own arguments, or count for nothing."""
    weights = {"t": (np.arange(4), np.array([9.0, 1.0, 1.0, 1.0]))}
    data = encode(compact.encode([("t", 3)], 4), own, weights)
    members = [("a", None, Subscription(("t",), encode(b"", Own(2.0), {}))), ("b", None, Subscription(("t",), data))]

    for name in ("weighted", "lag"):
        made, facts = strategy(name).agreed(members, {"t": 4})
        if name == "lag" and own.priority:  # its members have none, nor a cap
            continue
        assert made.options == {"capacity": {"a": 2.0}, "eager": ["b"]}
        assert [str(fact) for fact in facts] == [f"figures of member 'b' can't be read: {why}; ignored"]
        assert len(decode_group(name, members, {"t": 4}).group.members[1].owned) == 1


def test_members_by_lag_ignore_a_priority_that_they_cannot_have() -> None:
    assert len(replay("lag", [("a", None, sent(priority=1)), ("b", None, sent())], {"t": 4})["b"]["t"]) == 2


@pytest.mark.parametrize(
    "options",
    [{"weights": {("t", 0): value}} for value in (math.nan, -1, math.inf, "1", True)]
    + [{"weights": [1]}, {"weights": {"t": 3}}, {"epsilon": 0}, {"epsilon": math.nan}, {"move_budget": -1}]
    + [{"priority": 1.5}, {"priority": True}, {"priority": 1 << 32}, {"max_work": 0}, {"max_work": math.nan}]
    + [{"capacity": -1}, {"capacity": math.nan}, {"hysteresis": 1}, {"weights": {}, "weights_file": "x"}]
    + [{"state": {("t", 0): -1}}, {"partition_rest_s": -1}, {"partition_rest_s": math.nan}],
)
def test_a_wrong_argument_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        WeightedAssignor.factory(**options)


def test_a_source_that_fails_is_warned_of_once_and_partitions_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "torn").write_text('{"format": 1, "wei')
    now_ms = time.time_ns() // 1_000_000
    for name, written_ms, expires_ms in (("expired", 0, 1), ("future", now_ms + 10**8, now_ms + 10**9)):
        whole = Weights(1, "records_per_s", written_ms, expires_ms, {"t": (9.0, 1.0, 1.0)})
        (tmp_path / name).write_text(whole.to_json())
    sources: list[dict[str, Any]] = [
        {"weights": lambda: 1 / 0},
        {"weights": lambda: {("t", 0): math.nan}},
        {"weights_file": tmp_path / "missing"},
        *({"weights_file": tmp_path / name} for name in ("torn", "expired", "future")),
    ]
    for options in sources:
        assignor = WeightedAssignor(**options)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "kafka_assignors"):
            first, second = (bytes(assignor.metadata(["t"]).encode()) for _ in range(2))
        assert [record.getMessage() for record in caplog.records if "sends no weights" in record.getMessage()][1:] == []
        assert "sends no weights" in caplog.text
        assert first == second
        answer = replay("weighted", [("a", None, first), ("b", None, sent())], {"t": 6})
        assert sorted(len(topics["t"]) for topics in answer.values()) == [3, 3]


@pytest.mark.parametrize("written_s", [-1, 3600])
def test_a_file_that_stays_untimely_is_told_once_while_time_passes(
    written_s: int, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = [10**12]
    monkeypatch.setattr(weights.time, "time_ns", lambda: now_ms[0] * 1_000_000)
    path = tmp_path / "weights.json"
    path.write_text(Weights(1, "records_per_s", now_ms[0] + 1000 * written_s, now_ms[0], {"t": (1.0,)}).to_json())
    assignor = WeightedAssignor(weights_file=path)
    for _ in range(3):
        now_ms[0] += 2000
        assignor.metadata(["t"])
    (said,) = (record.getMessage() for record in caplog.records)
    assert ("expired 2 s ago" if written_s < 0 else "was written 3598 s in the future") in said
