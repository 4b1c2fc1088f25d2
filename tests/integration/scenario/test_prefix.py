"""A scenario under other topic names is the same scenario."""

from __future__ import annotations

import re

import pytest

from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.scenario import SCENARIOS, Scenario, Step, scenario
from kafka_assignors.integration.scenario.actions import Join
from kafka_assignors.integration.scenario.prefix import prefixed


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_topic_has_the_prefix_and_nothing_else_changes(name: str) -> None:
    what = scenario(name)

    other = prefixed(what, "run-7.")

    assert prefixed(what, "") == what
    assert other.topics == {f"run-7.{topic}": count for topic, count in what.topics.items()}
    for before, after in zip(what.steps, other.steps, strict=True):
        for one, two in zip(before.actions, after.actions, strict=True):
            changed = {field: (a, b) for field, a in vars(one).items() if a != (b := vars(two)[field])}
            assert set(changed) <= {"topic", "topics", "pattern"}
            for field, (a, b) in changed.items():
                if field == "topic":
                    assert b == f"run-7.{a}"
                elif field == "topics":
                    assert b == tuple(f"run-7.{topic}" for topic in a)
                else:
                    assert re.match(b, "run-7.coming-a")
                    assert not re.match(b, "coming-a")
                    assert not re.match(b, "run-77coming-a")


def test_an_alternative_in_a_pattern_stays_within_the_prefix() -> None:
    what = Scenario("s", "", (Step("one", (Join("m1", pattern="growing|coming"),)),), topics={"growing": 1})

    (join,) = prefixed(what, "run-7.").steps[0].actions

    assert isinstance(join, Join)
    assert re.match(join.pattern or "", "run-7.coming")
    assert not re.match(join.pattern or "", "coming")


def test_options_that_name_a_topic_are_refused() -> None:
    table = 'config{"table": {"m1": {"orders": [0]}}}'
    what = Scenario("s", "", (Step("one", (Join("m1", (table,)),)),), topics={"orders": 1})

    with pytest.raises(ConfigError, match=r"the options of assignor 'config.* name the topic 'orders'"):
        prefixed(what, "run-7.")
