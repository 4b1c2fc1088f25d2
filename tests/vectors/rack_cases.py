"""Draws the inputs of ``partitioners/builtin_kip1123.jsonl``: ``python -m tests.vectors.rack_cases --out PATH``.

Each line is a case of `records.uniform` with ``rack``, the rack of the producer, and ``racks``, broker id -> rack. The
loads come after each change of the cluster, as Java's accumulator tells them before each round of its sender, and name
the rack of each partition's leader. Kafka's own classes then answer (KIP-1123, Kafka 4.4.0).
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

from .kafka_classes import KafkaClasses
from .records import uniform

VERSION = "4.4.0"
BATCH = 1000


def cases(count: int, seed: int) -> list[dict[str, Any]]:
    """Inputs without answers; the same for the same seed."""
    source = random.Random(seed)
    return [_case(source, number) for number in range(count)]


def _case(source: random.Random, number: int) -> dict[str, Any]:
    racks = {str(broker): source.choice(["a", "a", "b", "c", None]) for broker in range(4)}
    partitions = source.choice([1, 2, 3, 5, 12])
    away = source.choice([0.0, 0.0, 0.3])

    def leaders() -> list[int]:
        return [-1 if source.random() < away else source.randrange(4) for _ in range(partitions)]

    now = leaders()
    case: dict[str, Any] = {
        "name": f"rack-{number:03}",
        "sticky_batch_size": BATCH,
        "rack": source.choice(["a", "a", "a", "b", "nowhere"]),
        "racks": racks,
        "cluster": now,
        "draws": [source.randrange(2**31) for _ in range(80)],
        "ops": [],
    }
    ops = case["ops"]
    for _ in range(source.randint(4, 24)):
        kind = source.random()
        if kind < 0.2:
            now = leaders()
            ops.append({"cluster": now})
        if kind < 0.6:
            ops.append(_load(source, now, racks))
        ops.append({"append": source.choice([10, 400, 999, BATCH, 2 * BATCH]), "switch": source.random() < 0.7})
    return case


def _load(source: random.Random, leaders: list[int], racks: dict[str, str | None]) -> dict[str, Any]:
    """What ``RecordAccumulator.ready`` tells: the partitions that may be chosen come first, ``length`` counts them."""
    among = [p for p, leader in enumerate(leaders) if leader != -1]
    if not among:
        return {"no_load": True}
    usable = [p for p in among if source.random() < 0.8] or among[:1]
    rest = [p for p in among if p not in usable]
    longest = source.choice([0, 1, 3, 3, 20])
    ids = usable + rest
    return {
        "load": {
            "queue_sizes": [source.randint(0, longest) for _ in ids],
            "partition_ids": ids,
            "racks": [racks[str(leaders[p])] for p in ids],
            "length": len(usable),
        }
    }


def _used(row: dict[str, Any]) -> dict[str, Any]:
    """Without the draws that nobody needed."""
    return {**row, "draws": row["draws"][: row["trace"][-1][-1]]}


def main() -> None:
    """Write the cases with the answers of Kafka's classes."""
    parser = argparse.ArgumentParser(prog="python -m tests.vectors.rack_cases", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1123)
    options = parser.parse_args()
    with KafkaClasses(VERSION) as kafka:
        answer = uniform(kafka)
        rows = [_used({**case, **answer(case)}) for case in cases(options.count, options.seed)]
    options.out.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows), encoding="utf-8")
    print(f"{options.out}: {len(rows)} lines")


if __name__ == "__main__":
    main()
