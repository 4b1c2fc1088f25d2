"""Silent members: told by what was seen between the looks, and by nothing else."""

from __future__ import annotations

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.operator.live.silence import SILENT_S, Position, Silence, Silent

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_member_that_commits_nothing_while_its_lag_grows_is_told() -> None:
    silence = Silence()
    assert silence.look({"m": {A: Position(5, 5), B: Position(None, 0)}}, 100.0) == {}
    assert silence.look({"m": {A: Position(5, 9), B: Position(None, 0)}}, 99.0 + SILENT_S) == {}, "too early"
    told = silence.look({"m": {A: Position(5, 9), B: Position(None, 3)}}, 100.0 + SILENT_S)
    assert told == {"m": Silent("m", SILENT_S, 7)}


def test_a_commit_or_another_assignment_begins_anew() -> None:
    silence = Silence()
    silence.look({"m": {A: Position(5, 5), B: Position(0, 0)}}, 0.0)
    assert silence.look({"m": {A: Position(5, 9), B: Position(1, 9)}}, SILENT_S) == {}
    assert silence.look({"m": {A: Position(5, 99)}}, 2 * SILENT_S) == {}, "B went to another member"
    assert silence.look({}, 3 * SILENT_S) == {}
    assert silence.look({"m": {A: Position(5, 199)}}, 4 * SILENT_S) == {}, "it was away"
    assert silence.look({"m": {A: Position(5, 200)}}, 5 * SILENT_S)["m"].lag_growth == 1


def test_a_member_without_new_records_is_not_told() -> None:
    silence = Silence()
    for look in range(5):
        assert silence.look({"m": {A: Position(5, 9)}, "idle": {}}, look * SILENT_S) == {}


def test_lag_is_unknown_before_the_first_commit() -> None:
    assert (Position(None, 3).lag, Position(1, 3).lag, Position(4, 3).lag) == (None, 2, 0)
