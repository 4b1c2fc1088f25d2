"""A damaged history is never called true, unless a model that shares nothing with the laws finds it sound as well."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, example, given, note, settings
from hypothesis import strategies as st

from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from tests.support.damage.damages import Damage, Plan, damaged, damages, plans, played
from tests.support.damage.model import unsound
from tests.support.examples import examples

PER_STORY = 4
"""Damages of each drawn history, judged one by one."""


DRAWN = settings(
    deadline=None,
    print_blob=True,  # what draws a failure again
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # explaining takes longer than all the rest
)


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(plan=plans())
@settings(DRAWN, max_examples=examples(100))
def test_drawn_histories_are_sound_to_both(plan: Plan) -> None:
    story = played(plan)

    verdict = check(story.history)

    assert (verdict.value, verdict.violations, verdict.unknown) == (True, (), ())
    assert unsound(event.to_json() for event in story.events) == []


def never_true(plan: Plan, tries: list[list[Damage]]) -> None:
    events = played(plan).events
    for how in tries:
        left = damaged(events, how)
        verdict = check(History(left))
        if verdict.value is True and (found := unsound(event.to_json() for event in left)):
            note(f"judged true, and yet: {found[0]}")
            raise AssertionError(f"{how} is judged true, and yet: {found[0]}")


TRIES = st.lists(st.lists(damages(), min_size=1, max_size=2), min_size=PER_STORY, max_size=PER_STORY)


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(plan=plans(), tries=TRIES)
# The leader that wrote a generation isn't among its members.
@example(
    plan=Plan("range", True, (2, 4), (("grow", 0), ("restart", 0))),
    tries=[[Damage("drop", 1546, 0, 1), Damage("double", 105, 0, 1)]],
)
@settings(DRAWN, max_examples=examples(250))
def test_a_thousand_damaged_histories_are_never_true(plan: Plan, tries: list[list[Damage]]) -> None:
    never_true(plan, tries)


@pytest.mark.long
@pytest.mark.timeout(7200)
@given(plan=plans(), tries=TRIES)
@settings(DRAWN, max_examples=5000)
def test_twenty_thousand_damaged_histories_are_never_true(plan: Plan, tries: list[list[Damage]]) -> None:
    never_true(plan, tries)
