"""The broker's clock and the members' may be 100 ms apart: what is sound stays true, whichever is ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_assignors.history.events import Event
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.checker.slack import SLACK_MS
from kafka_assignors.integration.history import History
from tests.integration.checker.judge.test_damaged import DRAWN
from tests.support.damage.damages import Plan, plans, played
from tests.support.examples import examples
from tests.support.histories import edges, migrated, reconciled, requests, stories, transactions
from tests.support.histories.story import MS

SOUND: dict[str, Callable[[], Sequence[Event]]] = {
    "paused twice": lambda: stories.paused_again().events,
    "a static member is restarted": lambda: edges.another_is_restarted().events,
    "a KIP-848 group": lambda: reconciled.churn().events,
    "a group that changes its protocol": lambda: migrated.migration().events,
    "a late request": lambda: requests.late().events,
    "a transforming group": lambda: transactions.at_work().events,
}


def apart(events: Sequence[Event], by_ms: float) -> History:
    """The history if the broker's clock is so much ahead of the members'."""
    by_ns = round(by_ms * MS)
    return History(
        replace(event, mono_ns=event.mono_ns + by_ns, ts_ns=event.ts_ns + by_ns) if event.src == "coordlog" else event
        for event in events
    )


@pytest.mark.slow
@pytest.mark.parametrize("by_ms", [-SLACK_MS, -10, -5, 5, 10, SLACK_MS])
@pytest.mark.parametrize("build", SOUND.values(), ids=SOUND)
def test_a_sound_history_stays_true(build: Callable[[], Sequence[Event]], by_ms: int) -> None:
    verdict = check(apart(build(), by_ms))

    assert (verdict.value, verdict.violations, verdict.unknown) == (True, (), ())


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(plan=plans(), by_ms=st.integers(-SLACK_MS, SLACK_MS))
@settings(DRAWN, max_examples=examples(200))
def test_every_drawn_sound_history_stays_true(plan: Plan, by_ms: int) -> None:
    verdict = check(apart(played(plan).events, by_ms))

    assert (verdict.value, verdict.violations, verdict.unknown) == (True, (), ())
