"""Among equal assignments the choice is ours: no solver decides, and all versions of NumPy and SciPy give the same."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import scipy.optimize

from kafka_assignors.core.strategies import strategy

from .every_option import middle, small

GROUPS, DIGEST = 60, "961434fbf8430e936b14329b82480dcee3ac88e3e7c45f6f56415b8e605ddc4b"
"""Digest of the assignments of so many groups. It changes with the rule, and not with a version of a library."""


def placements(seed: int) -> list[Any]:
    """What a leader assigns under both names."""
    case = middle(seed // 6) if seed % 6 == 5 else small(seed)
    lag = {name: value for name, value in case.options.items() if name in ("weights", "capacity", "epsilon", "eager")}
    return [strategy(name, **options).place(case.group) for name, options in (("weighted", case.options), ("lag", lag))]


@pytest.mark.slow
def test_no_solver_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: Any, **__: Any) -> None:
        raise AssertionError("a solver was asked")

    for name in ("milp", "linprog", "linear_sum_assignment"):
        monkeypatch.setattr(scipy.optimize, name, asked)
    for seed in range(0, GROUPS, 3):
        assert all(placements(seed))


@pytest.mark.slow
@pytest.mark.release("no solver is asked above")
def test_the_same_assignments_with_every_version() -> None:
    found = json.dumps([placements(seed) for seed in range(GROUPS)], sort_keys=True)

    assert hashlib.sha256(found.encode()).hexdigest() == DIGEST
