"""Renames a scenario's topics. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kafka_assignors.core.declaration import is_ours, options_of
from kafka_assignors.errors import ConfigError

from .actions import Action, AddPartitions, CreateTopic, DeleteTopic, Join, Subscribe, UncleanElection
from .catalogue import Scenario


def prefixed(scenario: Scenario, prefix: str) -> Scenario:
    """Put `prefix` before every topic that the scenario makes, subscribes to, matches or fills.

    Raises:
        ConfigError: An assignor's options name a topic, which would not exist under that name.
    """
    if not prefix:
        return scenario
    _check_options(scenario)
    steps = (
        replace(step, actions=tuple(_renamed(action, prefix) for action in step.actions)) for step in scenario.steps
    )
    topics = {prefix + topic: count for topic, count in scenario.topics.items()}
    output = None if scenario.output is None else prefix + scenario.output
    lossy = tuple(prefix + topic for topic in scenario.lossy)
    return replace(scenario, steps=tuple(steps), topics=topics, output=output, lossy=lossy)


def _renamed(action: Action, prefix: str) -> Action:
    if isinstance(action, Join | Subscribe):
        topics = tuple(prefix + topic for topic in action.topics)
        pattern = None if action.pattern is None else f"{re.escape(prefix)}(?:{action.pattern})"
        return replace(action, topics=topics, pattern=pattern)
    if isinstance(action, CreateTopic | AddPartitions | DeleteTopic | UncleanElection):
        return replace(action, topic=prefix + action.topic)
    return action


def _check_options(scenario: Scenario) -> None:
    joins = [action for step in scenario.steps for action in step.actions if isinstance(action, Join)]
    for name in {*scenario.assignors, *(name for join in joins for name in join.assignors)}:
        named = set(_names_in(options_of(name)[1])) & set(scenario.topics) if is_ours(name) else set()
        if named:
            raise ConfigError(
                f"the options of assignor {name!r} name the topic {min(named)!r}, which has a name of its own on a "
                "broker that isn't the run's: remove --bootstrap"
            )


def _names_in(options: Any) -> Iterable[str]:
    if isinstance(options, str):
        yield options
    elif isinstance(options, Mapping):
        for name, value in options.items():
            yield from (name, *_names_in(value))
    elif isinstance(options, Iterable):
        for value in options:
            yield from _names_in(value)
