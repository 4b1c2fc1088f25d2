"""What the form of an event demands beyond its schema: each demand of each kind, and the sound rows at its edge."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_assignors.integration.history.form import MOST_PARTITIONS, fault_in

T0, T1, U0 = ({"topic": topic, "partition": number} for topic, number in (("t", 0), ("t", 1), ("u", 0)))
MEMBER = {"member_id": "a", "assigned": [T0, T1], "subscription": "0011", "assignment": ""}


def run(first: int, last: int, count: int) -> dict[str, Any]:
    return {**T0, "first": first, "last": last, "count": count}


def at(offset: int, **more: int) -> dict[str, Any]:
    return {**T0, "offset": offset, **more}


def started(*assignors: str) -> dict[str, Any]:
    return {"kind": "start", "config": {"assignors": list(assignors)}}


OF_RUNS = ("consume", "finished")
OF_PARTITIONS = (
    *("assigned_begin", "assigned_end", "revoke_begin", "revoke_end", "lost_begin", "lost_end"),
    "generation",
)
OF_COUNTS = ("topics", "admin_change", "admin_changed", "not_stable", "step")
BEHIND = (("not_drained", "left"), ("truncated", "offsets"))
LEADS = {"kind": "assign_begin", "members": ["a", "b"], "topics": {"t": 2, "u": 1}}

FAULTY: tuple[tuple[dict[str, Any], str], ...] = (
    *(({"kind": kind, "offsets": [run(3, 5, 3), run(6, 9, 3)]}, "offsets: t-0 from 6 to 9 are not 3 records")
      for kind in OF_RUNS),
    ({"kind": "consume", "offsets": [run(3, 5, 4)]}, "offsets: t-0 from 3 to 5 are not 4 records"),
    ({"kind": "consume", "offsets": [run(1, 0, 0)]}, "offsets: t-0 from 1 to 0 are not 0 records"),
    *(({"kind": kind, "partitions": [T0, T1, T0]}, "partitions: t-0 is there twice") for kind in OF_PARTITIONS),
    ({"kind": "rewound", "offsets": [at(1), at(2)]}, "offsets: t-0 is there twice"),
    ({"kind": "step", "offsets": [at(1), at(2)]}, "offsets: t-0 is there twice"),
    *(({"kind": kind, field: [at(2, end=1)]}, f"{field}: t-0 ends at 1, before 2") for kind, field in BEHIND),
    *(({"kind": kind, field: [at(2, end=2), at(3, end=4)]}, f"{field}: t-0 is there twice") for kind, field in BEHIND),
    *(({"kind": kind, "topics": {"t": MOST_PARTITIONS, "u": 1}},
       "topics: 1,048,577 partitions; an event has at most 1,048,576") for kind in OF_COUNTS),
    (LEADS | {"topics": {"t": MOST_PARTITIONS + 1}}, "topics: 1,048,577 partitions; an event has at most 1,048,576"),
    (LEADS | {"members": ["a", "b", "a"]}, "members: a is there twice"),
    (LEADS | {"racks": {"t": [[], []], "u": []}}, "racks: 0 of 'u', which has 1 partitions"),
    (LEADS | {"leaders": {"t": [1]}}, "leaders: 1 of 't', which has 2 partitions"),
    (LEADS | {"leaders": {"v": []}}, "leaders: 0 of 'v', which has None partitions"),
    ({"kind": "generation_committed", "members": [MEMBER, MEMBER]}, "members: a is there twice"),
    *(({"kind": "generation_committed", "members": [MEMBER, MEMBER | {"member_id": "b"} | more]}, fault)
      for more, fault in (
        ({"assigned": [T0, U0, T0]}, "assigned of 'b': t-0 is there twice"),
        ({"subscription": "001"}, "subscription of 'b': an odd number of digits"),
        ({"assignment": "0"}, "assignment of 'b': an odd number of digits"),
    )),
    (started("range", "com.example.Assignor", 'sticky{"x"'), 'config.assignors: the options of sticky{"x" are no JSON'),
    *((started(name := f'weighted{{"rest_s":{value}}}'), f"config.assignors: rest_s of {name} is no number of seconds")
      for value in ("true", '"1"', "null", "1000000001", "-1000000001", "1e400")),
    (started('sticky{"goals":{}}'), 'config.assignors: goals of sticky{"goals":{}} are no list'),
)  # fmt: skip
"""Rows that fit the schema as far as their form is asked for, and the first fault in each."""

SOUND: tuple[dict[str, Any], ...] = (
    *({"kind": kind, "offsets": [run(3, 5, 3), run(6, 6, 1), run(6, 6, 1)]} for kind in OF_RUNS),
    *({"kind": kind, "partitions": [T0, T1, U0]} for kind in OF_PARTITIONS),
    {"kind": "rewound", "offsets": [at(1), {**at(1), "partition": 1}]},
    {"kind": "step", "offsets": [at(1), {**at(1), "topic": "u"}]},
    *({"kind": kind, field: [at(2, end=2), {**at(2, end=3), "topic": "u"}]} for kind, field in BEHIND),
    *({"kind": kind, "topics": {"t": MOST_PARTITIONS - 1, "u": 1}} for kind in OF_COUNTS),
    *({"kind": kind} for kind in OF_COUNTS),
    LEADS | {"racks": {"t": [[], []], "u": [[]]}, "leaders": {"t": [1, 2]}},
    {"kind": "generation_committed", "members": [MEMBER, MEMBER | {"member_id": "b", "assigned": [T0]}]},
    {"kind": "start", "config": {}},
    started("range", "com.example.Assignor", 'weighted{"rest_s":1000000000}', 'weighted{"rest_s":-1000000000}'),
    started('weighted{"rest_s":0.5}', 'sticky{"goals":["racks"]}', "sticky{}"),
    {"kind": "owned", "partitions": [T0, T0]},
)  # fmt: skip


@pytest.mark.parametrize(("row", "fault"), FAULTY, ids=[f"{row['kind']}: {fault[:40]}" for row, fault in FAULTY])
def test_a_row_that_contradicts_itself_has_a_fault(row: dict[str, Any], fault: str) -> None:
    assert fault_in(row) == fault


@pytest.mark.parametrize("row", SOUND, ids=lambda row: row["kind"])
def test_a_row_at_the_edge_of_what_is_demanded_has_none(row: dict[str, Any]) -> None:
    assert fault_in(row) is None
