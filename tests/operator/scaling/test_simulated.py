"""Hours of drawn load, beside lag ÷ threshold (`benchmarks/scaling.py`); and loads at which nothing should happen."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.scaling import BEFORE_S, PACE, PARTITIONS, SECONDS, Ran, World, at_lag, drawn, ours, total


@pytest.mark.slow
@pytest.mark.release("the two below simulate this world with even loads")
def test_a_fifth_of_the_rebalances_at_the_same_lag() -> None:
    loads = [drawn(seed) for seed in range(100, 104)]

    mine = total([World(load).run(ours()) for load in loads])
    _, played = at_lag(loads, mine.lag, 6)
    theirs = total(played)

    assert theirs.lag == pytest.approx(mine.lag, rel=0.3)
    assert 5 * mine.rebalances <= theirs.rebalances
    assert mine.late < 0.1


def even(per_s: float) -> Ran:
    """An hour in which each second brings the same."""
    return World(np.full((BEFORE_S + SECONDS, PARTITIONS), per_s / PARTITIONS)).run(ours())


@pytest.mark.slow
def test_an_even_load_has_the_fewest_members_that_read_it_and_no_rebalance() -> None:
    """Four members, as at the start, read 350 of 400 a second. With three, the lag would grow by 50 a second."""
    ran = even(3.5 * PACE)

    assert (ran.rebalances, ran.late) == (0, 0)
    assert ran.member_min == 4 * SECONDS / 60


@pytest.mark.slow
def test_a_load_above_the_members_is_mended_before_the_hour() -> None:
    """Seven members' work for four: eight have the next smaller share, and nobody asks for more after that."""
    ran = even(6.2 * PACE)

    assert (ran.rebalances, ran.late) == (0, 0)
    assert ran.member_min == 8 * SECONDS / 60
