"""Golden vectors of Java's partitioners, and the views they speak of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_assignors.producers.core.topic import PartitionLeader, TopicView
from tests.support.places import VECTORS

FOLDER = VECTORS / "partitioners"


def load(name: str) -> list[dict[str, Any]]:
    """The lines of one file; an empty or missing file is an error, not an empty test."""
    rows = [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines() if line]
    assert rows, f"{name} has no vectors"
    return rows


def view(leaders: Sequence[int], topic: str = "t", racks: Mapping[str, str | None] | None = None) -> TopicView:
    """Leader id per partition (-1: none), and the rack of each broker id -> the topic."""
    leader_ids = {p: leader for p, leader in enumerate(leaders) if leader != -1}
    of = (
        None
        if racks is None
        else {p: PartitionLeader(b, "localhost", racks.get(str(b))) for p, b in leader_ids.items()}
    )
    return TopicView(topic, range(len(leaders)), leader_ids, of)


class Draws:
    """A random source that gives recorded numbers and counts them."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = list(numbers)
        self.used = 0

    def __call__(self) -> int:
        self.used += 1
        return self._numbers[self.used - 1]


def repeat(*numbers: int) -> Callable[[], int]:
    """A random source that gives these numbers over and over."""
    state = {"next": 0}

    def draw() -> int:
        state["next"] += 1
        return numbers[(state["next"] - 1) % len(numbers)]

    return draw
