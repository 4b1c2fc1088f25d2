"""Plans by work against what docs/load.md promises, with every option: see `definitions`, which shares no code."""

from __future__ import annotations

import pytest

from tests.support.examples import examples

from .definitions import differences
from .every_option import middle, small

CHUNK, SHORT, LONG = 25, examples(200), 3_000
MANY = 500


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SHORT, CHUNK))
def test_small_groups_are_what_trying_every_assignment_finds(first: int) -> None:
    for seed in range(first, min(first + CHUNK, SHORT)):
        assert differences(small(seed)) == [], seed


@pytest.mark.long
@pytest.mark.parametrize("first", range(SHORT, LONG, CHUNK))
def test_many_more_small_groups_are(first: int) -> None:
    for seed in range(first, first + CHUNK):
        assert differences(small(seed)) == [], seed


@pytest.mark.parametrize("seed", range(examples(6)))
def test_middle_groups_are_what_an_integer_program_finds(seed: int) -> None:
    """Up to 200 partitions and 20 members: bounds that hold, moves or their cost within 5 % of the program's."""
    assert differences(middle(seed)) == []


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(examples(6), MANY))
def test_many_more_middle_groups_are(seed: int) -> None:
    assert differences(middle(seed)) == []
