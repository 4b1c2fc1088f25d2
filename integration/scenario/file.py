"""Scenarios written by users as JSON files. A file is checked whole before anything starts; each error names its place.

.. code-block:: json

    {"about": "One of two members is killed.",
     "topics": {"orders": 6},
     "assignors": ["cooperative-sticky"],
     "steps": [
       {"name": "two join", "actions": [{"join": "m1"}, {"join": "m2"}]},
       {"name": "m2 is killed", "actions": [{"kill": "m2"}]}]}

The fields are those of `scenario.Scenario`. The actions and their fields are those of `actions.ACTIONS`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import cattrs

from kafka_assignors.errors import ConfigError, KafkaAssignorsError

from ..checker.laws import LAWS
from ..members.config import BROKER_ASSIGNED, BROKER_ASSIGNORS, CLIENTS, KAFKA_PYTHON, LEAVING, TRANSFORMING
from ..registry import assignor_named
from . import actions as do
from .catalogue import Scenario

LEAST_SESSION_MS = 500
"""``group.min.session.timeout.ms`` of the harness's brokers."""
_SHOWN = 10


def read_scenario(path: Path) -> Scenario:
    """Read the scenario of a file. Its name defaults to the file's.

    Raises:
        ConfigError: The file can't be read, isn't JSON, or isn't a valid scenario; the message names each place and
            what is allowed there.
    """
    try:
        row = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a scenario file: {error}") from error
    if not isinstance(row, dict):
        raise ConfigError(f"{path}: takes an object, not {row!r}")
    try:
        scenario = _CONVERTER.structure({"name": path.stem, "about": "", **row}, Scenario)
        mistakes = list(problems(scenario))
    except cattrs.BaseValidationError as error:
        mistakes = _all_of(error)
    if mistakes:
        more = [f"and {len(mistakes) - _SHOWN} more"] if len(mistakes) > _SHOWN else []
        raise ConfigError(f"{path}: " + "; ".join([*mistakes[:_SHOWN], *more]))
    return scenario


def problems(scenario: Scenario) -> Iterator[str]:
    """Yield everything that can't happen in a scenario as written, each with its place. Nothing is started."""
    if not scenario.topics:
        yield "topics: none given; give at least one, such as {'orders': 6}"
    for topic, count in scenario.topics.items():
        if count < 1:
            yield f"topics: {topic!r} can't have {count} partitions; at least 1"
    if scenario.output in scenario.topics:
        yield f"output: {scenario.output!r} is also an input topic; give it another name"
    for name, least in (("rate_per_s", 0), ("gap_ms", 1), ("session_timeout_ms", LEAST_SESSION_MS),
                        ("heartbeat_interval_ms", 1), ("nodes", 1), ("output_partitions", 1)):  # fmt: skip
        if getattr(scenario, name) < least:
            yield f"{name}: {getattr(scenario, name)} is below {least}"
    if scenario.heartbeat_interval_ms >= scenario.session_timeout_ms:
        yield (
            f"heartbeat_interval_ms: {scenario.heartbeat_interval_ms} must be below session_timeout_ms, which is "
            f"{scenario.session_timeout_ms}"
        )
    for topic in scenario.lossy:
        if topic not in scenario.topics:
            yield f"lossy: no topic {topic!r}; topics: {', '.join(sorted(scenario.topics))}"
    joins = [action for step in scenario.steps for action in step.actions if isinstance(action, do.Join)]
    if not joins or any(join.client == KAFKA_PYTHON and not join.assignors for join in joins):
        yield from _unknown_assignors("assignors", scenario.assignors)
    yield from (
        f"require: unknown law {law!r}; known: {', '.join(LAWS)}" for law in scenario.require if law not in LAWS
    )
    if not scenario.steps:
        yield "steps: none given"
    stage = _State(scenario, dict(scenario.topics))
    members: frozenset[str] = frozenset()
    for number, step in enumerate(scenario.steps):
        for at, action in enumerate(step.actions):
            place = f"steps[{number}] {step.name!r}, actions[{at}] {_name_of(action)}"
            yield from (f"{place}: {problem}" for problem in stage.problems(action))
        if not step.actions:
            yield f"steps[{number}] {step.name!r}: no actions"
        members = step.members_after(members)
        if not members:
            yield f"steps[{number}] {step.name!r}: leaves no member in the group, which then never becomes stable"


@dataclass
class _State:
    """The state of topics, members and nodes after the actions so far."""

    scenario: Scenario
    topics: dict[str, int]
    running: dict[str, str] = field(default_factory=dict)  # member -> its client
    still: set[str] = field(default_factory=set)  # paused or stalled
    armed: set[str] = field(default_factory=set)  # will stall in their assign
    hit: set[str] = field(default_factory=set)  # names of members with network faults, as in the faults
    away: set[int | str] = field(default_factory=set)  # nodes that were taken down

    def problems(self, action: do.Action) -> Iterator[str]:
        """Yield an action's problems in the current state, then apply the action."""
        if isinstance(action, do.NEED_RECORDS) and self.scenario.rate_per_s <= 0:
            yield "needs records to have an effect; set rate_per_s above 0"
        if isinstance(action, do.Join):
            yield from self._join(action)
        elif isinstance(action, do.NetworkFault):
            if not any(action.of(member) for member in self.running):
                yield f"no running member {action.member!r} at that point; running: {self._running}"
            self.hit.add(action.member)
        elif isinstance(action, do.Heal):
            if action.member not in self.hit:
                yield f"{action.member!r} has no network fault; members with one: {', '.join(sorted(self.hit))}"
        elif isinstance(action, do.CreateTopic | do.AddPartitions | do.DeleteTopic):
            yield from self._topic(action)
        elif isinstance(action, do.OF_NODES):
            yield from self._node(action)
        else:
            yield from self._member(action)

    @property
    def _running(self) -> str:
        return ", ".join(sorted(self.running)) or "none"

    def _join(self, action: do.Join) -> Iterator[str]:
        if action.member in self.running:
            yield f"member {action.member!r} is already running"
        if action.client not in CLIENTS:
            yield f"client {action.client!r} is unknown; known: {', '.join(CLIENTS)}"
        elif self.scenario.output is not None and action.client not in TRANSFORMING:
            yield f"client {action.client!r} cannot fill an output topic; these can: {', '.join(TRANSFORMING)}"
        if action.client == KAFKA_PYTHON:
            yield from _unknown_assignors("assignors", action.assignors)
        asked = action.assignors or self.scenario.assignors
        if action.client in BROKER_ASSIGNED and (len(asked) != 1 or asked[0] not in BROKER_ASSIGNORS):
            yield (
                f"client {action.client!r} takes one assignor of the broker, {' or '.join(BROKER_ASSIGNORS)}, not "
                f"{', '.join(asked) or 'none'}; name it in this join, or for the scenario"
            )
        yield from self._subscription(action.topics, action.pattern, needed=False)
        self.running[action.member] = action.client

    def _subscription(self, topics: tuple[str, ...], pattern: str | None, needed: bool) -> Iterator[str]:
        if topics and pattern is not None:
            yield "topics and pattern exclude each other"
        if needed and not topics and pattern is None:
            yield "needs topics or a pattern"
        for topic in topics:
            if topic not in self.topics:
                yield f"no topic {topic!r} at that point; topics: {', '.join(sorted(self.topics))}"
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                yield f"pattern {pattern!r} is not a regular expression: {error}"

    def _member(self, action: Any) -> Iterator[str]:
        name = action.member
        if name not in self.running:
            yield f"no running member {name!r} at that point; running: {self._running}"
            return
        if isinstance(action, do.Resume):
            if name not in self.still:
                yield f"member {name!r} is neither paused nor stalled"
            self.still.discard(name)
        elif isinstance(action, do.Pause | do.PauseAtWork | do.Stall | do.Overwork):
            if name in self.still:
                yield f"member {name!r} is already paused or stalled"
            elif not isinstance(action, do.Overwork):
                self.still.add(name)
        elif isinstance(action, do.StallAssign):
            self.armed.add(name)
        elif isinstance(action, do.WaitStalled):
            if name not in self.armed:
                yield f"member {name!r} is not stalled: put {{'stall_assign': {name!r}}} first"
            self.armed.discard(name)
            self.still.add(name)
        elif isinstance(action, do.Subscribe):
            yield from self._subscription(action.topics, action.pattern, needed=True)
        else:
            if isinstance(action, do.Leave):
                if name in self.still:
                    yield f"member {name!r} is paused or stalled and can't leave; resume or kill it"
                yield from self._hand_over(action)
            self.running.pop(name)
            self.still.discard(name)

    def _hand_over(self, action: do.Leave) -> Iterator[str]:
        client = self.running[action.member]
        if not 0 <= action.hand_over_s < math.inf:
            yield f"hand_over_s: {action.hand_over_s} is no time; seconds from 0"
        elif action.hand_over_s and client not in LEAVING:
            yield f"client {client!r} can't hand its partitions over; these can: {', '.join(LEAVING)}"
        elif action.hand_over_s and self.scenario.output is not None:
            yield "a member that fills an output topic can't hand its partitions over"
        if action.grace_s is not None and not 0 < action.grace_s < math.inf:
            yield f"grace_s: {action.grace_s} is no time; seconds above 0, or leave it out"
        elif action.grace_s is not None and action.hand_over_s >= action.grace_s:
            yield f"hand_over_s: {action.hand_over_s} must be below grace_s, {action.grace_s}, after which it is killed"

    def _topic(self, action: do.CreateTopic | do.AddPartitions | do.DeleteTopic) -> Iterator[str]:
        now = self.topics.get(action.topic)
        if isinstance(action, do.CreateTopic) and now is not None:
            yield f"topic {action.topic!r} already exists"
        elif not isinstance(action, do.CreateTopic) and now is None:
            yield f"no topic {action.topic!r} at that point; topics: {', '.join(sorted(self.topics))}"
        if isinstance(action, do.DeleteTopic):
            self.topics.pop(action.topic, None)
            return
        if action.partitions <= (now or 0):
            yield f"topic {action.topic!r} can't have {action.partitions} partitions; more than {now or 0}"
        self.topics[action.topic] = action.partitions

    def _node(self, action: Any) -> Iterator[str]:
        if self.scenario.nodes < 2:
            yield "needs a cluster; set nodes to 3"
        if isinstance(action, do.RestoreNodes):
            self.away.clear()
        elif isinstance(action, do.RestartNodes):
            if self.away:
                yield "a node is down; put restore_nodes first"
        elif isinstance(action, do.UncleanElection):
            yield from self._unclean(action)
        else:
            valid = range(1, self.scenario.nodes + 1)
            if action.node != do.COORDINATOR and action.node not in valid:
                yield f"no node {action.node!r}; a node is one of {', '.join(map(str, valid))}, or {do.COORDINATOR!r}"
            if self.away:
                yield "a node is already down, and a majority needs two of three; put restore_nodes first"
            self.away.add(action.node)

    def _unclean(self, action: do.UncleanElection) -> Iterator[str]:
        if action.topic not in self.scenario.lossy:
            lossy = ", ".join(self.scenario.lossy) or "none"
            yield f"topic {action.topic!r} may not lose acknowledged records; lossy topics: {lossy}"
        elif not 0 <= action.partition < self.topics.get(action.topic, 0):
            yield f"topic {action.topic!r} has no partition {action.partition} at that point"
        if self.scenario.nodes != 3:
            yield "needs three nodes: the leader, a follower that is behind, and a third for the majority"
        if self.away:
            yield "a node is down; put restore_nodes first"
        self.away.add("the leader")


def _unknown_assignors(place: str, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        try:
            assignor_named(name)
        except KafkaAssignorsError as error:
            yield f"{place}: {error}"


_CONVERTER = cattrs.Converter(forbid_extra_keys=True)
_PLAIN = (int, float, str, bool)
_LIST: Any = list


def _plain(given: Any, wanted: Any) -> Any:
    kinds = _kinds(wanted)
    # JSON does not distinguish 5 from 5.0; Python counts True as a number.
    fitting = (*kinds, int) if float in kinds else kinds
    if isinstance(given, bool) != (bool in kinds) or not isinstance(given, fitting):
        names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
        raise TypeError(f"takes {names}, not {given!r}")
    return given


def _tuple(given: Any, wanted: Any) -> tuple[Any, ...]:
    if not isinstance(given, list):
        raise TypeError(f"takes a list, not {given!r}")
    return tuple(_CONVERTER.structure(given, _LIST[get_args(wanted)[0]]))


def _action(given: Any, _: Any) -> Any:
    """``{NAME: VALUE OF THE FIRST FIELD, …}``; true where the action has no field."""
    if not isinstance(given, dict):
        raise TypeError(f"takes an object, not {given!r}")
    names = [name for name in given if name in do.ACTIONS]
    if len(names) != 1:
        mistake = (
            f"has {' and '.join(names)} together" if names else f"is not an action ({', '.join(given) or 'empty'})"
        )
        raise ValueError(f"{mistake}; known: {', '.join(do.ACTIONS)}")
    (name,) = names
    cls, first = do.ACTIONS[name], {}
    if own := fields(cls):
        if own[0].name in given:
            raise ValueError(f"{own[0].name!r} is the value of {name!r} itself")
        first = {own[0].name: given[name]}
    elif given[name] is not True:
        raise ValueError(f"{name} takes true, not {given[name]!r}")
    try:
        return _CONVERTER.structure({**first, **{n: value for n, value in given.items() if n != name}}, cls)
    except cattrs.BaseValidationError as error:
        raise ValueError(f"{name}: {'; '.join(_all_of(error))}") from error


def _kinds(wanted: Any) -> tuple[Any, ...]:
    return get_args(wanted) if isinstance(wanted, UnionType) else (wanted,)


def _is_tuple(wanted: Any) -> bool:
    return get_origin(wanted) is tuple


for _kind in _PLAIN:
    _CONVERTER.register_structure_hook(_kind, _plain)
_CONVERTER.register_structure_hook_func(lambda wanted: {*_kinds(wanted)} <= {*_PLAIN, type(None)}, _plain)
_CONVERTER.register_structure_hook_func(_is_tuple, _tuple)
_CONVERTER.register_structure_hook_func(lambda wanted: wanted == do.Action, _action)


def _all_of(error: cattrs.BaseValidationError) -> list[str]:
    """Every mistake that cattrs found, with its place."""
    mistakes = [message.rpartition(" @ $") for message in cattrs.transform_error(error, format_exception=_message)]
    return [f"{place.removeprefix('.')}: {mistake}" if place else mistake for mistake, _, place in mistakes]


def _message(error: BaseException, _: type[Any] | None) -> str:
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        names = ", ".join(attribute.name for attribute in fields(error.cl))
        return f"no field {', '.join(map(repr, sorted(error.extra_fields)))}; known: {names}"
    if isinstance(error, KeyError):
        return "is missing"
    if isinstance(error, AttributeError):  # no keys or items
        return f"takes an object, not {error.obj!r}"
    return str(error)


def _name_of(action: do.Action) -> str:
    return next(name for name, cls in do.ACTIONS.items() if cls is type(action))
