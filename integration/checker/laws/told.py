"""Describes a witness event in words. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event

from .findings import SHOWN, all_named

_MOST = 200
"""Maximum length, in characters, of an event without words of its own."""


def description(event: Event) -> str:
    """One line with the event's time, source, number in its file, and content."""
    who = event.member if event.src == "member" and event.member else _SOURCES.get(event.src, event.src)
    words = _WORDS.get(event.kind, _as_json)
    return f"{time_of(event)} {who} (event {event.seq}): {words(event)}"


def time_of(event: Event) -> str:
    """Its time of day (UTC), to the millisecond."""
    return datetime.fromtimestamp(event.ts_ns / 1e9, timezone.utc).strftime("%H:%M:%S.%f")[:-3]


_SOURCES = {"coordlog": "the coordinator log", "harness": "the harness", "producer": "the producer"}


def _as_json(event: Event) -> str:
    text = json.dumps(event.data, ensure_ascii=False)
    return f"{event.kind} {text if len(text) <= _MOST else text[:_MOST] + '…'}"


def _partitions(event: Event) -> str:
    return all_named([TopicPartition(row["topic"], row["partition"]) for row in event.data["partitions"]])


def _committed(event: Event) -> str:
    members = [
        f"{row['client_id']} got "
        + all_named([TopicPartition(place["topic"], place["partition"]) for place in row["assigned"]])
        for row in sorted(event.data["members"], key=lambda row: str(row["client_id"]))
    ]
    return f"generation {event.data['generation']} ({event.data.get('protocol', '')}): {_first(members, '; ')}"


def _step(event: Event) -> str:
    name = event.data["name"]
    if name == "stable":
        return f"the group was stable in generation {event.data['generation']}; {_counts(event)}"
    return {"drained": "all records were consumed", "read_back": "all records were read back"}.get(
        name, f"the step {name!r} begins"
    )


def _not_stable(event: Event) -> str:
    return f"the group was not stable after {event.data['waited_s']:g} s; due: {_first(event.data['due'], '; ')}"


def _truncated(event: Event) -> str:
    rows = event.data["offsets"]
    fell = _first([f"{row['topic']}-{row['partition']} from {row['end']} to {row['offset']}" for row in rows])
    return f"the log end went back: {fell}"


def _counts(event: Event) -> str:
    counts: Mapping[str, int] = event.data.get("topics", {})
    return "partitions: " + _first([f"{topic} {count}" for topic, count in sorted(counts.items())])


def _first(items: Sequence[str], between: str = ", ") -> str:
    more = f"{between}and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return between.join(items[:SHOWN]) + more


def _runs(event: Event) -> str:
    runs = [f"{row['topic']}-{row['partition']} from {row['first']} to {row['last']}" for row in event.data["offsets"]]
    return f"consumed {_first(runs)}"


def _offsets(what: str) -> Callable[[Event], str]:
    def words(event: Event) -> str:
        rows = [f"{row['topic']}-{row['partition']} at {row['offset']}" for row in event.data["offsets"]]
        error = f": {event.data['error']}" if "error" in event.data else ""
        return f"{what} {_first(rows)}{error}"

    return words


def _record(what: str) -> Callable[[Event], str]:
    def words(event: Event) -> str:
        row = event.data
        place = f"{row['topic']}-{row['partition']} at {row['offset']}" if "offset" in row else str(row.get("topic"))
        return f"{what} {row.get('value_id', '')} {place}".replace("  ", " ")

    return words


def _fault(what: str) -> Callable[[Event], str]:
    return lambda event: f"{str(event.data['fault']).replace('_', ' ')} of {event.data['target']} {what}"


_WORDS: Mapping[str, Callable[[Event], str]] = {
    "start": lambda e: f"starts, offering {', '.join(e.data['assignors'])}",
    "stop": lambda _: "has left",
    "exit": lambda e: f"{e.member} ended with exit code {e.data['code']}",
    "generation": lambda e: f"adopted generation {e.data['generation']} with {_partitions(e)}",
    "assigned_begin": lambda e: f"was assigned {_partitions(e)} in generation {e.data['generation']}",
    "assigned_end": lambda e: f"has taken over {_partitions(e)}",
    "revoke_begin": lambda e: f"is revoking {_partitions(e)}",
    "revoke_end": lambda e: f"has revoked {_partitions(e)}",
    "lost_begin": lambda e: f"is losing {_partitions(e)}",
    "lost_end": lambda e: f"has lost {_partitions(e)}",
    "assign_begin": lambda e: f"assigns generation {e.data['generation']} as leader and sees {_counts(e)}",
    "consume": _runs,
    "commit_begin": _offsets("commits"),
    "commit_ok": _offsets("has committed"),
    "commit_fail": _offsets("could not commit"),
    "rewound": _offsets("goes back to"),
    "rebalance_request": lambda e: f"requests a rebalance: {e.data['why']}",
    "offset_committed": lambda e: f"{e.data['topic']}-{e.data['partition']} was committed at {e.data['offset']}",
    "generation_committed": _committed,
    "topics": _counts,
    "step": _step,
    "not_stable": _not_stable,
    "truncated": _truncated,
    "fault_begin": _fault("begins"),
    "fault_end": _fault("is over"),
    "admin_change": lambda e: f"{e.data['change']} {e.data.get('target', '')}: {_counts(e)}",
    "ack": _record("acknowledged"),
    "nack": _record("refused"),
    "read_back": _record("read back"),
}
