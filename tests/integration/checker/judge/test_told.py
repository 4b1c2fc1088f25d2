"""A witness in words: when, by whom, what, and where it stands in its file."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_assignors.history.events import Event, partitions_json
from kafka_assignors.integration.checker.laws import told
from tests.support.histories.story import MS
from tests.support.histories.whole import whole

AT = 3_723_004 * MS  # 01:02:03.004
SIX = [("t", p) for p in range(6)]
OFFSETS = [{"topic": "t", "partition": p, "offset": p + 5} for p in range(6)]
RUNS = [{"topic": "t", "partition": p, "first": p, "last": p + 2, "count": 3, "bytes": 3} for p in range(6)]
TOPICS = {"t": 4, "s": 2}

WORDS: dict[str, tuple[str, dict[str, Any], str]] = {
    "start": ("member", {"assignors": ["range", "sticky"]}, "b (event 7): starts, offering range, sticky"),
    "stop": ("member", {}, "b (event 7): has left"),
    "exit": ("harness", {"code": 1}, "the harness (event 7): b ended with exit code 1"),
    "generation": (
        "member", {"generation": 3, "partitions": partitions_json(SIX[:2])},
        "b (event 7): adopted generation 3 with t-0, t-1"),
    "assigned_begin": (
        "member", {"generation": 3, "partitions": partitions_json(SIX)},
        "b (event 7): was assigned t-0, t-1, t-2, t-3, t-4 and 1 more in generation 3"),
    "assigned_end": ("member", {"partitions": partitions_json(SIX[:1])}, "b (event 7): has taken over t-0"),
    "revoke_begin": ("member", {"partitions": []}, "b (event 7): is revoking nothing"),
    "revoke_end": ("member", {"partitions": partitions_json(SIX[:1])}, "b (event 7): has revoked t-0"),
    "lost_begin": ("member", {"partitions": partitions_json(SIX[:1])}, "b (event 7): is losing t-0"),
    "lost_end": ("member", {"partitions": partitions_json(SIX[:1])}, "b (event 7): has lost t-0"),
    "assign_begin": (
        "member", {"generation": 3, "topics": TOPICS},
        "b (event 7): assigns generation 3 as leader and sees partitions: s 2, t 4"),
    "consume": ("member", {"offsets": RUNS[:2]}, "b (event 7): consumed t-0 from 0 to 2, t-1 from 1 to 3"),
    "commit_begin": (
        "member", {"offsets": OFFSETS},
        "b (event 7): commits t-0 at 5, t-1 at 6, t-2 at 7, t-3 at 8, t-4 at 9, and 1 more"),
    "commit_ok": ("member", {"offsets": OFFSETS[:1]}, "b (event 7): has committed t-0 at 5"),
    "commit_fail": (
        "member", {"offsets": OFFSETS[:1], "error": "fenced"}, "b (event 7): could not commit t-0 at 5: fenced"),
    "rebalance_request": (
        "member", {"why": "1.75 of the bound"}, "b (event 7): requests a rebalance: 1.75 of the bound"),
    "sent": ("member", {"offsets": OFFSETS[:1]}, "b (event 7): was sent records up to t-0 at 5"),
    "rewound": ("member", {"offsets": OFFSETS[:1]}, "b (event 7): goes back to t-0 at 5"),
    "offset_committed": ("coordlog", OFFSETS[1], "the coordinator log (event 7): t-1 was committed at 6"),
    "generation_committed": (
        "coordlog",
        {"generation": 3, "protocol": "range", "members": [
            {"client_id": name, "assigned": partitions_json([tp])} for name, tp in zip("fedcba", SIX, strict=True)]},
        "the coordinator log (event 7): generation 3 (range): a got t-5; b got t-4; c got t-3; d got t-2; e got t-1; "
        "and 1 more"),
    "topics": ("harness", {"topics": TOPICS}, "the harness (event 7): partitions: s 2, t 4"),
    "not_stable": (
        "harness", {"waited_s": 2.5, "due": ["one", "two"]},
        "the harness (event 7): the group was not stable after 2.5 s; due: one; two"),
    "truncated": (
        "harness", {"offsets": [{"topic": "t", "partition": p, "offset": p, "end": 9} for p in range(6)]},
        "the harness (event 7): the log end went back: t-0 from 9 to 0, t-1 from 9 to 1, t-2 from 9 to 2, t-3 from 9 "
        "to 3, t-4 from 9 to 4, and 1 more"),
    "fault_begin": ("proxy", {"fault": "assign_stall", "target": "b"}, "proxy (event 7): assign stall of b begins"),
    "fault_end": ("harness", {"fault": "kill", "target": "b"}, "the harness (event 7): kill of b is over"),
    "admin_change": (
        "harness", {"change": "add_partitions", "target": "t", "topics": TOPICS},
        "the harness (event 7): add_partitions t: partitions: s 2, t 4"),
    "ack": (
        "producer", {**OFFSETS[0], "value_id": "p-1"}, "the producer (event 7): acknowledged p-1 t-0 at 5"),
    "nack": ("producer", {"topic": "t", "error": "x"}, "the producer (event 7): refused t"),
    "read_back": ("harness", {**OFFSETS[0], "value_id": "p-1"}, "the harness (event 7): read back p-1 t-0 at 5"),
}  # fmt: skip


def event(kind: str, src: str, data: dict[str, Any]) -> Event:
    member = None if src in ("coordlog", "producer") else "b"
    return Event(kind, "run", src, 7, AT, 1, "g", member, 0, 1, data=data if kind == "closing" else whole(kind, data))


@pytest.mark.parametrize("kind", WORDS)
def test_an_event_is_told_in_words(kind: str) -> None:
    src, data, words = WORDS[kind]

    assert told.description(event(kind, src, data)) == f"01:02:03.004 {words}"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            {"name": "stable", "generation": 3, "topics": TOPICS},
            "the group was stable in generation 3; partitions: s 2, t 4",
        ),
        ({"name": "drained"}, "all records were consumed"),
        ({"name": "read_back"}, "all records were read back"),
        ({"name": "b joins"}, "the step 'b joins' begins"),
    ],
)
def test_a_step_is_told_by_its_name(data: dict[str, Any], words: str) -> None:
    assert told.description(event("step", "harness", data)) == f"01:02:03.004 the harness (event 7): {words}"


def test_what_has_no_words_is_told_as_it_is_up_to_a_length() -> None:
    assert (
        told.description(event("closing", "harness", {"é": 1}))
        == '01:02:03.004 the harness (event 7): closing {"é": 1}'
    )
    long = told.description(event("closing", "harness", {"x": "y" * 300}))
    assert long.endswith("y…")
    assert len(long.partition("closing ")[2]) == 201
    exact = told.description(event("closing", "harness", {"x": "y" * 191}))
    assert len(exact.partition("closing ")[2]) == 200


def test_every_kind_that_has_words_is_here() -> None:
    assert set(told._WORDS) - {"step"} <= set(WORDS)
