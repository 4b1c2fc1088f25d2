"""Spread first: a leader's assignment that shares each topic evenly, against sticky assignors that count partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kafka_assignors.core.sticky import GOALS

from .assign_call import Call
from .assignors import PEERS, Said, measured, milliseconds
from .result import Result

WORKLOADS = ("W1", "W3", "W4", "W5", "W6")


def run(quick: bool) -> Iterator[Result]:
    """``W1-join/spread`` …: from members' bytes to assignments' bytes, ours with spread first."""
    limit_s, budget_s = (3.0, 0.3) if quick else (30.0, 2.0)
    for name in ("W1", "W5") if quick else WORKLOADS:
        plain = Call(name, "sticky", "ours", wire=True, limit_s=limit_s, budget_s=budget_s)
        calls = {
            "spread first": replace(plain, options={"goals": GOALS[2]}),
            "ours by default": plain,
            **{client: replace(plain, client=client) for client in ("kafka-python", *(() if quick else ("java",)))},
        }
        measures = {who: measured(call)[0] for who, call in calls.items()}
        for who in calls:
            if who != "spread first":
                yield _result(f"{name}-join/spread/{who.replace(' ', '-')}", who, measures)


def _result(row: str, who: str, measures: dict[str, Said]) -> Result:
    ours, peer = measures["spread first"], measures[who]
    notes = [f"{name}: {measure['error']}" for name, measure in (("ours", ours), ("peer", peer)) if "error" in measure]
    for what, text in (("uneven", "topics shared unevenly"), ("moves", "moves")):
        figures = [f"{name} {measure[what]}" for name, measure in (("ours", ours), ("peer", peer)) if what in measure]
        notes.append(f"{text}: {', '.join(figures)}")
    name = PEERS.get((who, "sticky"), "our StickyAssignor, balance first")
    return Result(
        row,
        milliseconds([ours], cold=False),
        "ms CPU",
        name,
        milliseconds([peer], cold=False),
        "; ".join(notes),
        {"ours": [ours], "peer": [peer]},
    )
