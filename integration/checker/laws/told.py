"""Describes witness events in the words of a message, with the first few of many names. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, TypeVar

from kafka_assignors.history.events import Event, bodies, is_of

from .findings import SHOWN, all_named, named

B = TypeVar("B", bound=bodies.Body)

_MOST = 200
"""Maximum length, in characters, of an event without words of its own."""


def description(event: Event) -> str:
    """One line with the event's time, source, number in its file, and content."""
    who = event.member if event.src == "member" and event.member else _SOURCES.get(event.src, event.src)
    words = _WORDS.get(event.kind, _as_json)
    return f"{time_of(event)} {who} (event {event.seq}): {words(event)}"


def time_of(event: Event) -> str:
    """Its time of day (UTC), to the millisecond."""
    return _time_of(event.ts_ns / 1e6)


_SOURCES = {"coordlog": "the coordinator log", "harness": "the harness", "producer": "the producer"}


def _as_json(event: Event) -> str:
    text = json.dumps(event.data, ensure_ascii=False)
    return f"{event.kind} {text if len(text) <= _MOST else text[:_MOST] + '…'}"


def _partitions(event: Event[bodies.PartitionsBody]) -> str:
    return all_named(event.body.partitions)


def _committed(event: Event[bodies.GenerationCommittedBody]) -> str:
    body = event.body
    members = [
        f"{row.client_id} got {all_named(row.assigned)}" for row in sorted(body.members, key=lambda row: row.client_id)
    ]
    return f"generation {body.generation} ({body.protocol or ''}): {_first(members, '; ')}"


def _step(event: Event[bodies.StepBody]) -> str:
    name = event.body.name
    if name == "stable":
        return f"the group was stable in generation {event.body.generation}; {_counts(event.body.topics)}"
    return {"drained": "all records were consumed", "read_back": "all records were read back"}.get(
        name, f"the step {name!r} begins"
    )


def _not_stable(event: Event[bodies.NotStableBody]) -> str:
    return f"the group was not stable after {event.body.waited_s:g} s; due: {_first(event.body.due, '; ')}"


def _truncated(event: Event[bodies.TruncatedBody]) -> str:
    fell = _first([f"{named(row.tp)} from {row.end} to {row.offset}" for row in event.body.offsets])
    return f"the log end went back: {fell}"


def _counts(topics: Mapping[str, int] | None) -> str:
    return "partitions: " + _first([f"{topic} {count}" for topic, count in sorted((topics or {}).items())])


def _first(items: Sequence[str], between: str = ", ") -> str:
    more = f"{between}and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return between.join(items[:SHOWN]) + more


def _runs(event: Event[bodies.ConsumeBody]) -> str:
    return f"consumed {_first([f'{named(row.tp)} from {row.first} to {row.last}' for row in event.body.offsets])}"


def _commit(what: str) -> Callable[[Event[bodies.CommitBody]], str]:
    def words(event: Event[bodies.CommitBody]) -> str:
        error = "" if event.body.error is None else f": {event.body.error}"
        return f"{what} {_offsets(event.body.offsets)}{error}"

    return words


def _offsets(offsets: Sequence[bodies.TopicOffset]) -> str:
    return _first([f"{named(row.tp)} at {row.offset}" for row in offsets])


def _record(what: str) -> Callable[[Event[bodies.AckBody | bodies.ReadBackBody]], str]:
    def words(event: Event[bodies.AckBody | bodies.ReadBackBody]) -> str:
        place = f"{named(event.body.tp)} at {event.body.offset}"
        appended_ms = event.body.appended_ms if is_of(event, bodies.ReadBackBody) else None
        since = "" if appended_ms is None else f", which the broker appended at {_time_of(appended_ms)}"
        return f"{what} {event.body.value_id or ''} {place}{since}".replace("  ", " ")

    return words


def _time_of(ms: float) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%H:%M:%S.%f")[:-3]
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"


def _fault(what: str) -> Callable[[Event[bodies.FaultBody]], str]:
    return lambda event: f"{event.body.fault.replace('_', ' ')} of {event.body.target} {what}"


def _of(body: type[B], words: Callable[[Event[B]], str]) -> tuple[str, Callable[[Any], str]]:
    (kind,) = bodies.kinds_of(body)
    return kind, words


_WORDS: Mapping[str, Callable[[Any], str]] = dict(
    (
        _of(bodies.StartBody, lambda e: f"starts, offering {', '.join(e.body.assignors)}"),
        _of(bodies.StopBody, lambda _: "has left"),
        _of(bodies.ExitBody, lambda e: f"{e.member} ended with exit code {e.body.code}"),
        _of(bodies.GenerationBody, lambda e: f"adopted generation {e.body.generation} with {_partitions(e)}"),
        _of(bodies.AssignedBeginBody, lambda e: f"was assigned {_partitions(e)} in generation {e.body.generation}"),
        _of(bodies.AssignedEndBody, lambda e: f"has taken over {_partitions(e)}"),
        _of(bodies.RevokeBeginBody, lambda e: f"is revoking {_partitions(e)}"),
        _of(bodies.RevokeEndBody, lambda e: f"has revoked {_partitions(e)}"),
        _of(bodies.LostBeginBody, lambda e: f"is losing {_partitions(e)}"),
        _of(bodies.LostEndBody, lambda e: f"has lost {_partitions(e)}"),
        _of(
            bodies.AssignBeginBody,
            lambda e: f"assigns generation {e.body.generation} as leader and sees {_counts(e.body.topics)}",
        ),
        _of(bodies.ConsumeBody, _runs),
        _of(bodies.CommitBeginBody, _commit("commits")),
        _of(bodies.CommitOkBody, _commit("has committed")),
        _of(bodies.CommitFailBody, _commit("could not commit")),
        _of(bodies.SentBody, lambda e: f"was sent records up to {_offsets(e.body.offsets)}"),
        _of(bodies.RewoundBody, lambda e: f"goes back to {_offsets(e.body.offsets)}"),
        _of(bodies.RebalanceRequestBody, lambda e: f"requests a rebalance: {e.body.why}"),
        _of(bodies.OffsetCommittedBody, lambda e: f"{named(e.body.tp)} was committed at {e.body.offset}"),
        _of(bodies.GenerationCommittedBody, _committed),
        _of(bodies.TopicsBody, lambda e: _counts(e.body.topics)),
        _of(bodies.StepBody, _step),
        _of(bodies.NotStableBody, _not_stable),
        _of(bodies.TruncatedBody, _truncated),
        _of(bodies.FaultBeginBody, _fault("begins")),
        _of(bodies.FaultEndBody, _fault("is over")),
        _of(bodies.AdminChangeBody, lambda e: f"{e.body.change} {e.body.target or ''}: {_counts(e.body.topics)}"),
        _of(bodies.AckBody, _record("acknowledged")),
        _of(bodies.NackBody, lambda e: f"refused {e.body.value_id} {e.body.topic}".replace("  ", " ")),
        _of(bodies.ReadBackBody, _record("read back")),
    )
)
