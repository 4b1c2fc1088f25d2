"""From a change of a group to the last member's adoption, with real members on a real broker."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import uuid4

from integration.broker import Broker, start_broker
from integration.play import play
from integration.scenario import CHURN, DEMO_TOPICS, Scenario

from .result import Result

_STEPS: Mapping[str, str] = dict(zip((step.name for step in CHURN), ("start", "join", "leave", "kill"), strict=True))
_TIMEOUT_S = 60


def run(quick: bool) -> Iterator[Result]:
    """``STRATEGY-start``, ``-join``, ``-leave``, ``-kill``: three members start, a fourth joins, one leaves, one dies.

    The same steps by turns with kafka-python's assignor of that name. A killed member is missed after its session
    timeout of 2 s: that is in both. What is waited for is the protocol, not the assignor, in groups this small: a ratio
    near 1 says that ours costs no extra round.
    """
    rounds, strategies = (1, ("cooperative-sticky",)) if quick else (3, ("cooperative-sticky", "range", "roundrobin"))
    with start_broker("jvm") as broker:
        for strategy in strategies:
            peer = f"kafka-python:{strategy}"
            seconds: dict[str, dict[str, list[float]]] = {name: {"ours": [], "peer": []} for name in _STEPS.values()}
            for turn in range(rounds):
                sides = (("ours", strategy), ("peer", peer))
                for who, assignor in sides if turn % 2 == 0 else reversed(sides):
                    for name, took in _play(broker, assignor).items():
                        seconds[name][who].append(took)
            for name, raw in seconds.items():
                ours, theirs = statistics.median(raw["ours"]), statistics.median(raw["peer"])
                yield Result(f"{strategy}-{name}", ours, "s", peer, theirs, raw=dict(raw))


def _play(broker: Broker, assignor: str) -> dict[str, float]:
    """Seconds to stable for each step."""
    scenario = Scenario("bench", "", CHURN, DEMO_TOPICS, (assignor,), rate_per_s=0)
    name = uuid4().hex
    with tempfile.TemporaryDirectory() as folder:
        played = play(scenario, broker, Path(folder), name, timeout_s=_TIMEOUT_S)
    return {_STEPS[row.name]: row.seconds for row in played.steps}
