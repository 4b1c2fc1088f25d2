"""Whatever value a field of an event has, the schema refuses it or the laws judge it; none of them raises."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_assignors.history.events import Event, lines
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.history.form import fault_in
from kafka_assignors.integration.history.schema import fault_of
from kafka_assignors.integration.report.report import Report, render_html, told_groups, verdict_lines
from tests.integration.history.test_hostile_files import varied
from tests.support.histories import migrated, reconciled, transactions, truncation
from tests.support.histories.requests import answered
from tests.support.histories.story import churn, given_up

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 10**40, "", "x", "\x1b\n::error::", "²"),
    *([], {}, [None], [[]], [{}], {"x": None}, ["t", "t"], "00", ...),
)
"""What a field may be in a file that was damaged, or written to do harm; ...: gone."""


def events_of_all_kinds() -> list[tuple[list[Event], int]]:
    """A story's events and the place of one of them, for every kind, step and record of the coordinator."""
    stories = (given_up(), truncation.unclean(), reconciled.churn(), answered(2, "a", "b"), churn("cooperative-sticky"))
    places: dict[tuple[str, object], tuple[list[Event], int]] = {}
    for story in (*stories, varied(), migrated.migration(), transactions.at_work()):
        for at, event in enumerate(story.events):
            places.setdefault((event.kind, event.data.get("record", event.data.get("name"))), (story.events, at))
    return list(places.values())


def damages() -> list[tuple[list[Event], int, tuple[Any, ...], Any]]:
    """Every field of every kind of event, at any depth, with every value."""
    return [
        (events, at, path, value)
        for events, at in events_of_all_kinds()
        for path in fields_of(json.loads(events[at].to_json()))
        for value in VALUES
    ]


def fields_of(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    places = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for name, inner in places:
        yield (*before, name)
        yield from fields_of(inner, (*before, name))


def judged_or_refused(events: list[Event], at: int, path: tuple[Any, ...], value: Any) -> str:
    """Whether a law gets to see an event with this value; nothing may raise."""
    row = node = json.loads(events[at].to_json())
    for name in path[:-1]:
        node = node[name]
    if value is ...:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    try:
        row = lines.decoded(json.dumps(row).encode())
        if fault_of(row) or fault_in(row):
            return "refused"
        event = Event.from_row(row)
    except ValueError:
        return "refused"
    history = History([*events[:at], event, *events[at + 1 :]])
    verdict = check(history)
    assert verdict_lines(verdict)
    assert render_html(Report("judged", "", verdict.value, (), groups=told_groups(history, verdict)))
    return "judged"


@pytest.mark.slow
def test_no_value_of_any_field_makes_a_law_fail() -> None:
    """The schema refuses it, or the laws judge it."""
    results = Counter(judged_or_refused(*damage) for damage in random.Random(36).sample(damages(), 400))

    assert min(results["judged"], results["refused"]) > 20


@pytest.mark.long  # 12,000 values take minutes; the test before takes some of them
def test_no_value_of_any_field_makes_a_law_fail_of_all() -> None:
    assert Counter(judged_or_refused(*damage) for damage in damages())["judged"] > 1000
