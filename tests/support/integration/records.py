"""Records that were read twice."""

from __future__ import annotations

from kafka_assignors.integration.history import History


def read_twice(history: History) -> set[tuple[str, int]]:
    """Topic-partitions of which an offset was consumed more than once."""
    seen: set[tuple[str, int, int]] = set()
    partitions = set()
    for event in (e for e in history.events if e.kind == "consume"):
        for run in event.data["offsets"]:
            for offset in range(run["first"], run["last"] + 1):
                place = run["topic"], run["partition"], offset
                if place in seen:
                    partitions.add(place[:2])
                seen.add(place)
    return partitions
