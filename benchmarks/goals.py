"""The goals of the measurements, and how results stand to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Goal:
    """What a row should reach. One of the three is set.

    Args:
        benchmark: Its benchmark.
        rows: Regular expression of the rows' whole names.
        ratio: The least ratio, peer / ours.
        value: The greatest value, in the row's unit.
        above_peer: The most by which ours may be above the peer, in the row's unit.
    """

    benchmark: str
    rows: str
    ratio: float | None = None
    value: float | None = None
    above_peer: float | None = None

    def text(self, unit: str) -> str:
        """For the table."""
        if self.ratio is not None:
            return f">= {self.ratio:,.3g}x" if self.ratio < 1000 else f">= {self.ratio:,.0f}x"
        return f"<= {self.value:g} {unit}" if self.value is not None else f"<= the peer's + {self.above_peer:g} {unit}"

    def hit(self, row: Mapping[str, Any]) -> bool | None:
        """Whether a row of a results file reaches it; None: it has no number to tell."""
        value, peer, ratio = row["value"], row["peer_value"], row["ratio"]
        if self.ratio is not None:
            # Zero of a peer that is zero too: a stop that neither has.
            return ratio >= self.ratio if ratio is not None else True if value == 0 and peer is not None else None
        if self.value is not None:
            return None if value is None else bool(value <= self.value)
        return None if value is None or peer is None else bool(value - peer <= (self.above_peer or 0.0))


GOALS = (
    Goal("start", r"restart/[^/]+", ratio=1 / 1.05),
    Goal("start", r"idle/.*", above_peer=25),
    Goal("scaling", r"scaling/rebalances", ratio=5),
    Goal("assignors", r"S\d-join/(range|roundrobin)(/wire)?", ratio=1),
    Goal("assignors", r"S1-join/(cooperative-)?sticky(/wire)?", ratio=1),
    Goal("assignors", r"S[23]-join/(cooperative-)?sticky(/wire)?", ratio=10),
    Goal("assignors", r"W1-join", ratio=500),
    Goal("assignors", r"W1-join/wire/franz-go-sticky", ratio=0.3),
    Goal("assignors", r"W2-join/wire/franz-go-sticky", ratio=3),
    Goal("assignors", r"W2-join/wire/java-sticky", ratio=20),
    Goal("assignors", r"W3-join", ratio=1500),
    Goal("assignors", r"W5-join", ratio=1500),
    Goal("assignors", r"W5-join/wire/franz-go-sticky", ratio=1.2),
    Goal("assignors", r"W7-join/wire/franz-go-sticky", value=150),
    Goal("stops", r"[^/]+/(join|leave)/(kafka-python|java)/cooperative-sticky", ratio=20),
    Goal("pipeline", r"what-if", ratio=50),
    Goal("report_run", r"report-run", value=15),
    Goal("report_run", r"report-run/calls-before-first-job", value=672),
    Goal("broker", r"warm-start-1", value=1.2),
    Goal("broker", r"warm-start-3", value=2.2),
    Goal("send", r"kafka-python", ratio=1.3),
    Goal("send", r"(confluent-kafka|aiokafka)/[^/]+", ratio=0.97),
    Goal("loop", r"loop/throughput", ratio=1.5),
    Goal("loop", r"loop/evenness", value=1.15),
    Goal("causes", r"causes/exporter/cpu", value=2),
    Goal("causes", r"causes/watch/cpu", value=5),
)


def goal_of(benchmark: str, row: str) -> Goal | None:
    """The goal of a row."""
    return next((goal for goal in GOALS if goal.benchmark == benchmark and re.fullmatch(goal.rows, row)), None)
