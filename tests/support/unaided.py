"""Placements of every strategy and plans, as JSON: ``python -m tests.support.unaided``, where SciPy may be hidden."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import numpy as np

from kafka_assignors import Group, Member, plan
from kafka_assignors.core.sticky import maxflow
from kafka_assignors.core.strategies import STRATEGIES, strategy

SMALL_GROUP = Group(
    [
        Member("a", {"t"}, owned=[("t", p) for p in range(6)], generation=1),
        Member("b", {"t"}, owned=[("t", 6), ("t", 7)], generation=1),
        Member("c", {"t"}),
    ],
    {"t": 8},
)
WORKS = {("t", p): w for p, w in enumerate([9.0, 8.0, 7.0, 4.0, 3.0, 2.0, 2.0, 1.0])}


def sparse() -> Group:
    """Members that read 1 to 4 of many topics of unequal size: loads must differ, and flows are large."""
    rng = np.random.default_rng(7)
    topics = {f"t{i:03d}": int(count) for i, count in enumerate(rng.integers(1, 60, 350))}
    reads = [{*rng.choice([*topics], rng.integers(1, 5), replace=False).tolist()} for _ in range(650)]
    reads[0] |= {*topics}
    return Group([Member(f"m{i:03d}", topics_of) for i, topics_of in enumerate(reads)], topics)


def digest(assignment: Any) -> str:
    """A digest of an assignment."""
    return hashlib.sha256(json.dumps(assignment, sort_keys=True).encode()).hexdigest()


def placements() -> dict[str, Any]:
    """Digests by strategy, of the small and the sparse group; and the edges of the largest flow."""
    edges, real = [0], maxflow.sent

    def counted(tail: Any, *rest: Any) -> Any:
        edges.append(len(tail))
        return real(tail, *rest)

    maxflow.sent = counted
    try:
        large = sparse()
        digests = {name: [digest(strategy(name).place(group)) for group in (SMALL_GROUP, large)] for name in STRATEGIES}
    finally:
        maxflow.sent = real
    return {"digests": digests, "edges": max(edges)}


def main() -> None:
    """Print the placements, a plan by work and what its check says, and whether SciPy was loaded."""
    made = plan(SMALL_GROUP, "weighted", weights=WORKS)
    counted = plan(sparse(), "cooperative-sticky")
    by_work = {"text": str(made), "breaches": [str(breach) for breach in made.violations()]}
    by_count = {"optimal": counted.optimal, "breaches": [str(breach) for breach in counted.violations()]}
    loaded = sys.modules.get("scipy") is not None
    print(json.dumps({**placements(), "scipy": loaded, "by work": by_work, "by count": by_count}))


if __name__ == "__main__":
    main()
