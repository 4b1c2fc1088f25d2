"""Scenario files: what a user writes is what is played, and what can't be is refused with its place, at once."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kafka_assignors.errors import ConfigError
from kafka_assignors.frame import USAGE
from kafka_assignors.integration.commands.cli import app
from kafka_assignors.integration.scenario import SCENARIOS
from kafka_assignors.integration.scenario.actions import ACTIONS
from kafka_assignors.integration.scenario.file import problems, read_scenario
from tests.support.places import ROOT

EVERYTHING: dict[str, Any] = {
    "about": "Each action once.",
    "topics": {"orders": 6, "audit": 3},
    "assignors": ["cooperative-sticky"],
    "rate_per_s": 50,
    "gap_ms": 20000,
    "session_timeout_ms": 6000,
    "consumer": {"metadata_max_age_ms": 1000},
    "nodes": 3,
    "lossy": ["orders"],
    "steps": [
        {
            "name": "they join",
            "actions": [
                {"join": "m1"},
                {"join": "m2", "static": True, "assignors": ["range", "sticky"], "topics": ["orders"]},
                {"join": "m3", "pattern": "orders|new-.*", "consumer": {"max_poll_records": 7}},
                {"join": "twin", "instance": "m2"},
                {"wait_end": "m2"},
            ],
        },
        {
            "name": "stand still",
            "actions": [
                {"pause": "m1"},
                {"resume": "m1"},
                {"stall": "m1"},
                {"resume": "m1"},
                {"pause_at_work": "m1"},
                {"resume": "m1"},
                {"overwork": "m1"},
            ],
        },
        {"name": "in assign", "actions": [{"stall_assign": "m1"}, {"wait_stalled": "m1"}, {"kill": "m1"}]},
        {
            "name": "topics",
            "actions": [
                {"create_topic": "new-a", "partitions": 2},
                {"add_partitions": "orders", "partitions": 9},
                {"delete_topic": "audit"},
                {"subscribe": "m3", "topics": ["orders", "new-a"]},
                {"subscribe": "m3", "pattern": ".*"},
            ],
        },
        {
            "name": "nodes",
            "actions": [
                {"kill_node": "coordinator"},
                {"restore_nodes": True},
                {"stop_node": 1},
                {"restore_nodes": True},
                {"pause_node": 3},
                {"restore_nodes": True},
                {"restart_nodes": True},
                {"unclean_election": "orders", "partition": 8},
                {"restore_nodes": True},
            ],
        },
        {
            "name": "network",
            "actions": [
                {"cut": "m3"},
                {"heal": "m3"},
                {"delay": "m3", "ms": 100, "api": "Heartbeat", "times": 1},
                {"drop": "m3", "api": "SyncGroup"},
                {"reset": "twin", "times": 2, "every_ms": 500},
            ],
        },
        {"name": "one leaves", "actions": [{"leave": "m3", "hand_over_s": 5, "grace_s": 20}]},
    ],
}


def written(folder: Path, row: Any) -> Path:
    path = folder / "mine.json"
    path.write_text(row if isinstance(row, str) else json.dumps(row), "utf-8")
    return path


def changed(place: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """`EVERYTHING` with another value at a place; None takes it away."""
    row: Any = json.loads(json.dumps(EVERYTHING))
    at = row
    for key in place[:-1]:
        at = at[key]
    if value is None:
        del at[place[-1]]
    else:
        at[place[-1]] = value
    return dict(row)


def test_every_action_can_be_written(tmp_path: Path) -> None:
    scenario = read_scenario(written(tmp_path, EVERYTHING))

    assert scenario.name == "mine"
    used = {type(action) for step in scenario.steps for action in step.actions}
    assert used == set(ACTIONS.values())
    join = scenario.steps[0].actions[1]
    assert join == ACTIONS["join"]("m2", assignors=("range", "sticky"), topics=("orders",), static=True)


def action(step: int, at: int, value: Any) -> dict[str, Any]:
    return changed(("steps", step, "actions", at), value)


REFUSED: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", r"not a scenario file: Expecting"),
    "no object": ([], r"takes an object, not \[\]"),
    "no steps": (changed(("steps",), None), r"steps: is missing"),
    "unknown field": (changed(("sesion_timeout_ms",), 1), r"no field 'sesion_timeout_ms'; known: name, about, steps"),
    "unknown field of a step": (changed(("steps", 1, "actoins"), []), r"steps\[1\]: no field 'actoins'; known"),
    "a step without a name": (changed(("steps", 1, "name"), None), r"steps\[1\]\.name: is missing"),
    "a step that is no object": (changed(("steps", 1), "wait"), r"steps\[1\]: takes an object, not 'wait'"),
    "an action that is no object": (action(1, 0, "wait"), r"steps\[1\]\.actions\[0\]: takes an object, not 'wait'"),
    "unknown action": (
        action(1, 0, {"explode": "m1"}), r"steps\[1\]\.actions\[0\]: is not an action \(explode\); known: join"),
    "two actions at once": (action(1, 0, {"kill": "m1", "pause": "m1"}), r"actions\[0\]: has kill and pause together"),
    "unknown field of an action": (action(1, 0, {"pause": "m1", "for": 3}), r"pause: no field 'for'; known: member"),
    "a field is missing": (action(3, 0, {"create_topic": "x"}), r"create_topic: partitions: is missing"),
    "a field of another type": (
        action(3, 0, {"create_topic": "x", "partitions": "2"}), r"partitions: takes int, not '2'"),
    "a number for true": (action(0, 1, {"join": "m2", "static": 1}), r"join: static: takes bool, not 1"),
    "true for a number": (changed(("nodes",), True), r"nodes: takes int, not True"),
    "a text for a list": (changed(("assignors",), "range"), r"assignors: takes a list, not 'range'"),
    "a list of numbers": (changed(("assignors",), [1]), r"assignors\[0\]: takes str, not 1"),
    "a member without a name": (action(1, 0, {"pause": None}), r"pause: member: takes str, not None"),
    "unknown member": (
        action(1, 0, {"pause": "m9"}), r"'stand still', actions\[0\] pause: no running member 'm9'"),
    "a member that ended": (action(1, 0, {"pause": "m2"}), r"no running member 'm2' at that point; running: m1, m3"),
    "a member twice": (action(0, 1, {"join": "m1"}), r"member 'm1' is already running"),
    "unknown client": (
        action(0, 0, {"join": "m1", "client": "perl"}), r"client 'perl' is unknown; known: kafka-python"),
    "an assignor that the broker doesn't have": (
        action(0, 0, {"join": "m1", "client": "java-consumer", "assignors": ["sticky"]}),
        r"client 'java-consumer' takes one assignor of the broker, uniform or range, not sticky"),
    "unknown assignor": (changed(("assignors",), ["rang"]), r"assignors: unknown assignor 'rang'"),
    "a member's unknown assignor": (action(0, 0, {"join": "m1", "assignors": ["x"]}), r"join: assignors: .*'x'"),
    "unknown topic": (
        action(0, 0, {"join": "m1", "topics": ["ordres"]}), r"no topic 'ordres' at that point; topics: audit, orders"),
    "a bad pattern": (action(0, 2, {"join": "m3", "pattern": "("}), r"pattern '\(' is not a regular expression"),
    "topics and a pattern": (
        action(3, 3, {"subscribe": "m3", "pattern": "a", "topics": ["orders"]}), r"exclude each other"),
    "a subscription to nothing": (action(3, 3, {"subscribe": "m3"}), r"subscribe: needs topics or a pattern"),
    "fewer partitions": (
        action(3, 1, {"add_partitions": "orders", "partitions": 6}), r"can't have 6 partitions; more than 6"),
    "a topic twice": (action(3, 0, {"create_topic": "orders", "partitions": 9}), r"topic 'orders' already exists"),
    "a topic that is gone": (action(3, 3, {"delete_topic": "audit"}), r"delete_topic: no topic 'audit' at that point"),
    "a member that doesn't stand still": (action(1, 0, {"resume": "m1"}), r"'m1' is neither paused nor stalled"),
    "a paused member works": (action(1, 1, {"overwork": "m1"}), r"overwork: member 'm1' is already paused or stalled"),
    "waits for what wasn't told": (action(2, 0, {"pause": "m1"}), r"put {'stall_assign': 'm1'} first"),
    "a paused member leaves": (action(1, 1, {"leave": "m1"}), r"'m1' is paused or stalled and can't leave"),
    "a time that is none": (
        action(6, 0, {"leave": "m3", "hand_over_s": -1}), r"leave: hand_over_s: -1 is no time; seconds from 0"),
    "a grace that is none": (
        action(6, 0, {"leave": "m3", "grace_s": 0}), r"leave: grace_s: 0 is no time; seconds above 0, or leave it out"),
    "a hand-over that outlasts the grace": (
        action(6, 0, {"leave": "m3", "hand_over_s": 5, "grace_s": 5}),
        r"leave: hand_over_s: 5 must be below grace_s, 5, after which it is killed"),
    "a client that hands nothing over": (
        {**EVERYTHING, "steps": [
            {"name": "two", "actions": [{"join": "m1"}, {"join": "m2", "client": "java", "assignors": ["sticky"]}]},
            {"name": "one", "actions": [{"leave": "m2", "hand_over_s": 5}]},
        ]}, r"client 'java' can't hand its partitions over; these can: kafka-python, bridge"),
    "a member that transforms hands nothing over": (
        {**EVERYTHING, "output": "done", "steps": [
            {"name": "two", "actions": [{"join": "m1"}, {"join": "m2"}]},
            {"name": "one", "actions": [{"leave": "m2", "hand_over_s": 5}]},
        ]}, r"a member that fills an output topic can't hand its partitions over"),
    "unknown node": (action(4, 0, {"kill_node": 4}), r"no node 4; a node is one of 1, 2, 3, or 'coordinator'"),
    "a node by another word": (action(4, 0, {"kill_node": "leader"}), r"no node 'leader'"),
    "two nodes of three": (action(4, 1, {"kill_node": 2}), r"a node is already down"),
    "nodes without a cluster": (changed(("nodes",), 1), r"kill_node: needs a cluster; set nodes to 3"),
    "an action about nothing": (action(4, 6, {"restart_nodes": 2}), r"restart_nodes takes true, not 2"),
    "an unknown lossy topic": (changed(("lossy",), ["ordres"]), r"lossy: no topic 'ordres'; topics: audit, orders"),
    "an unclean election of a safe topic": (
        action(4, 7, {"unclean_election": "audit"}),
        r"topic 'audit' may not lose acknowledged records; lossy topics: orders"),
    "an unclean election of a partition that isn't there": (
        action(4, 7, {"unclean_election": "orders", "partition": 9}), r"topic 'orders' has no partition 9"),
    "an unclean election with a node away": (
        action(4, 6, {"kill_node": 1}), r"unclean_election: a node is down; put restore_nodes first"),
    "an unclean election leaves a node away": (
        action(4, 8, {"kill_node": 1}), r"actions\[8\] kill_node: a node is already down"),
    "an unclean election of more nodes": (changed(("nodes",), 4), r"unclean_election: needs three nodes"),
    "no records to see it by": (changed(("rate_per_s",), 0), r"stall: needs records to have an effect"),
    "an impossible time": (changed(("session_timeout_ms",), 20), r"session_timeout_ms: 20 is below 500"),
    "a negative time": (changed(("gap_ms",), -1), r"gap_ms: -1 is below 1"),
    "a negative delay": (action(5, 2, {"delay": "m3", "ms": -5}), r"actions\[2\]: delay: .*ms"),
    "unknown API": (action(5, 3, {"drop": "m3", "api": "SyncGruop"}), r"actions\[3\]: drop: .*SyncGruop"),
    "a network fault of nobody": (action(5, 0, {"cut": "m9"}), r"no running member 'm9' at that point"),
    "healed without a fault": (action(5, 1, {"heal": "twin"}), r"'twin' has no network fault"),
    "outputs among the inputs": (changed(("output",), "orders"), r"output: 'orders' is also an input topic"),
    "a client without transactions": (
        {**changed(("steps", 0, "actions", 0), {"join": "m1", "client": "bridge"}), "output": "done"},
        r"client 'bridge' cannot fill an output topic; these can: kafka-python",
    ),
    "no partitions": (changed(("topics", "orders"), 0), r"'orders' can't have 0 partitions"),
    "nobody left": (
        changed(("steps", 6, "actions"), [{"leave": "m3"}, {"leave": "twin"}]), r"'one leaves': leaves no member"),
}  # fmt: skip


@pytest.mark.parametrize(("row", "said"), REFUSED.values(), ids=REFUSED)
def test_what_can_not_be_is_refused_with_its_place(tmp_path: Path, row: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=r"mine\.json: .*" + said):
        read_scenario(written(tmp_path, row))


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    row = changed(("steps", 1, "actions"), [{"pause": 7, "for": 3}, {"explode": "m1"}])

    with pytest.raises(ConfigError) as refused:
        read_scenario(written(tmp_path, {**row, "nodes": "3"}))

    first = "steps[1].actions[0]: pause: member: takes str, not 7; no field 'for'; known: member"
    assert first in str(refused.value)
    assert "steps[1].actions[1]: is not an action (explode)" in str(refused.value)
    assert "nodes: takes int, not '3'" in str(refused.value)


def test_the_example_of_the_page_can_be_played(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "scenarios.md").read_text("utf-8")
    example = re.search(r"^## Your own scenario\n.*?```json\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    assert example is not None

    scenario = read_scenario(written(tmp_path, example[1]))

    assert [step.name for step in scenario.steps] == ["two join", "orders grows", "a node dies", "it is back"]


def test_the_command_refuses_before_anything_starts(tmp_path: Path) -> None:
    path = written(tmp_path, action(1, 0, {"explode": "m1"}))

    done = CliRunner().invoke(app, ["run", str(path), "--out", str(tmp_path / "out")])

    assert done.exit_code == USAGE
    assert "actions[0]: is not an action (explode)" in done.output
    assert not (tmp_path / "out").exists()


def test_a_cluster_of_ones_own_is_needed(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["run", "nodes", "--bootstrap", "127.0.0.1:1", "--out", str(tmp_path / "out")])

    assert done.exit_code == USAGE
    said = " ".join(done.output.split())
    assert "scenario 'nodes' needs 3 nodes of its own; remove --bootstrap and --backend external" in said


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_named_scenarios_can_be_played(name: str) -> None:
    assert list(problems(SCENARIOS[name])) == []
    assert list(problems(replace(SCENARIOS[name], steps=()))) == ["steps: none given"]
