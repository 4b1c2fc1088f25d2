"""What a sound group does, told a second time: slow, by brute force over the list of events, and on its own.

It shares nothing with the laws, the ledger or the timeline: it reads the JSON of events and counts. Whether a damage is
neutral is for it to say, so whatever it finds the checker must find as well, in its own words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

Row = dict[str, Any]
Place = tuple[str, int]

SLACK = 100_000_000  # ns; what one hears from the broker has whole milliseconds, and may be told a little late
NOTICE = 5_000_000_000  # ns; within which who was away must hear what it lost
SETTLED = 5_000_000_000  # ns; a generation that nothing disturbs is complete by then
LEFT_ALONE = 30_000_000_000  # ns; beside the session
CALLBACKS = ("revoke_end", "lost_begin", "assigned_begin")


def unsound(lines: Iterable[str]) -> list[str]:
    """Everything that no sound group does, of events as JSON lines; empty: it may have happened just like that."""
    rows = sorted((json.loads(line) for line in lines), key=lambda r: (r["mono_ns"], r["src"], r["seq"]))
    complaints: list[str] = []
    for part in (
        _generations, _adoptions, _callbacks, _rests, _two_owners, _consumption, _drained, _commits, _read_back, _ends,
        _left_alone,
    ):  # fmt: skip
        complaints += part(rows)
    return complaints


def process(row: Row) -> tuple[str, int]:
    return row.get("member", ""), row.get("incarnation", 0)


def places(rows: Iterable[Row]) -> set[Place]:
    return {(row["topic"], row["partition"]) for row in rows}


def committed(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["kind"] == "generation_committed" and row["members"]]


def in_it(rows: list[Row], who: tuple[str, int], generation: Row) -> bool:
    """Whether a process is in a generation: by an id that it told, or one that nobody told, under its name."""
    processes = {row["member_id"]: process(row) for row in rows if row["kind"] == "generation" and "member_id" in row}
    for member in generation["members"]:
        if processes.get(member["member_id"]) == who:
            return True
        if member["member_id"] not in processes and member["client_id"] == who[0]:
            later = [r for r in rows if r["kind"] == "start" and r["member"] == who[0] and r["incarnation"] > who[1]]
            if not any(r["mono_ns"] <= generation["mono_ns"] for r in later):
                return True
    return False


def _generations(rows: list[Row]) -> Iterator[str]:
    before: Row | None = None
    for row in sorted(committed(rows), key=lambda r: r["seq"]):
        given = [place for member in row["members"] for place in places(member["assigned"])]
        if len(given) != len(set(given)):
            yield f"generation {row['generation']} gives something twice"
        if before is not None and row["generation"] < before["generation"]:
            yield "generations fall"
        if before is not None and row["generation"] == before["generation"]:
            ids = [{m["member_id"] for m in r["members"]} for r in (before, row)]
            what = [sorted(sorted(places(m["assigned"])) for m in r["members"]) for r in (before, row)]
            if ids[0] == ids[1] or what[0] != what[1]:
                yield "a generation was written twice, and no static member came back to what it had"
        before = row


def _adoptions(rows: list[Row]) -> Iterator[str]:
    last: dict[tuple[str, int], int] = {}
    for row in (r for r in rows if r["kind"] == "generation"):
        number = row["generation"]
        if number < last.get(process(row), -1):
            yield f"{row['member']} goes back to generation {number}"
        last[process(row)] = number
        generations = [g for g in committed(rows) if g["generation"] == number]
        mine = [m for g in generations for m in g["members"] if m["member_id"] == row.get("member_id")]
        if not generations or row["mono_ns"] < min(g["mono_ns"] for g in generations) - SLACK:
            yield f"{row['member']} adopts generation {number} before there is one"
        elif not mine or places(mine[-1]["assigned"]) != places(row["partitions"]):
            yield f"{row['member']} adopts in generation {number} what the coordinator didn't give it"
        if row.get("instance_id") is None and any(
            g["generation"] > number and g["mono_ns"] < row["mono_ns"] - SLACK
            for g in committed(rows)
            if row.get("member_id") in [m["member_id"] for m in g["members"]]
        ):
            yield f"{row['member']} has joined a later generation, and adopts {number}"


def _callbacks(rows: list[Row]) -> Iterator[str]:
    for who in {process(row) for row in rows}:
        mine = [r for r in rows if process(r) == who and r["kind"].partition("_")[2] in ("begin", "end")]
        mine = [r for r in mine if r["kind"].partition("_")[0] in ("assigned", "revoke", "lost")]
        for begin, end in zip(mine[::2], mine[1::2], strict=False):
            kinds = [row["kind"].partition("_") for row in (begin, end)]
            alike = kinds[0][0] == kinds[1][0] and places(begin["partitions"]) == places(end["partitions"])
            if (kinds[0][2], kinds[1][2]) != ("begin", "end") or not alike:
                yield f"{who[0]}: {begin['kind']} is followed by {end['kind']}"
    for at, row in enumerate(rows):
        if row["kind"] in ("revoke_begin", "lost_begin"):
            # What a begin gives up, its end does; so what it has is told by the begins before.
            begins = [{**r, "kind": "revoke_end"} if r["kind"] == "revoke_begin" else r for r in rows[:at]]
            if not places(row["partitions"]) <= _held([r for r in begins if r["kind"] != "exit"], process(row), at):
                yield f"{row['member']} gives up what it doesn't have"
        if row["kind"] != "assigned_begin":
            continue
        mine_before = [r for r in rows[:at] if r["kind"] == "generation" and process(r) == process(row)]
        if not mine_before or mine_before[-1]["generation"] != row["generation"]:
            yield f"{row['member']} is assigned something in a generation that it hasn't adopted"
        mine = [
            m
            for g in committed(rows)
            if g["generation"] == row["generation"]
            for m in g["members"]
            if m["member_id"] == row.get("member_id")
        ]
        if mine and not places(row["partitions"]) <= places(mine[-1]["assigned"]):
            yield f"{row['member']} is assigned what generation {row['generation']} didn't give it"


def _held(rows: list[Row], who: tuple[str, int], at: int) -> set[Place]:
    """What a process owned at a place in the list."""
    owned_places: set[Place] = set()
    for row in rows[:at]:
        if process(row) != who:
            continue
        if row["kind"] == "assigned_begin":
            owned_places |= places(row["partitions"])
        elif row["kind"] in ("revoke_end", "lost_begin"):
            owned_places -= places(row["partitions"])
        elif row["kind"] in ("stop", "exit") or (row["kind"] == "fault_begin" and row["fault"] == "kill"):
            owned_places = set()
    return owned_places


def _rests(rows: list[Row]) -> Iterator[str]:
    processes = {row["member_id"]: process(row) for row in rows if row["kind"] == "generation" and "member_id" in row}
    for at, row in enumerate(rows):
        if row["kind"] != "step" or row["name"] != "stable":
            continue
        generations = [g for g in committed(rows) if g["generation"] == row["generation"]]
        now = [g for g in generations if g["mono_ns"] <= row["mono_ns"]] or generations[:1]
        if not now:
            yield f"the group rests in generation {row['generation']}, which was never committed"
            continue
        given = {m["member_id"]: places(m["assigned"]) for m in now[-1]["members"]}
        there = {(topic, p) for topic, count in row.get("topics", {}).items() for p in range(count)}
        if set().union(*given.values()) != there:
            yield f"the group rests while generation {row['generation']} covers less, or more, than there is"
        for member in now[-1]["members"]:
            mine = [r for r in rows[:at] if r["kind"] == "generation" and r.get("member_id") == member["member_id"]]
            started = any(r["kind"] == "start" and r["member"] == member["client_id"] for r in rows)
            if started and (not mine or mine[-1]["generation"] != row["generation"]):
                yield f"the group rests in a generation that {member['client_id']} hasn't adopted"
        for member_id, mine in given.items():
            if member_id in processes and _held(rows, processes[member_id], at) != mine:
                yield f"the group rests while {processes[member_id][0]} holds something else than it was given"


def _owned(rows: list[Row]) -> list[tuple[Place, tuple[str, int], int, int]]:
    """place, owner, from, to."""
    intervals = []
    last = rows[-1]["mono_ns"] if rows else 0
    for start in (r for r in rows if r["kind"] == "assigned_begin"):
        for place in places(start["partitions"]):
            who, end, before = process(start), last, False
            for row in rows:
                if process(row) != who:
                    continue
                mine = place in places(row.get("partitions", ()))
                gone = row["kind"] in ("stop", "exit") or (row["kind"] == "fault_begin" and row["fault"] == "kill")
                gone = gone or (mine and row["kind"] in ("revoke_end", "lost_begin"))
                if row is start:
                    before = True
                elif before and gone:
                    end = row["mono_ns"]
                    break
            intervals.append((place, who, start["mono_ns"], end))
    return intervals


def _two_owners(rows: list[Row]) -> Iterator[str]:
    owned = _owned(rows)
    for place, who, begin, end in owned:
        for other_place, other, other_begin, other_end in owned:
            if place != other_place or who == other or not begin <= other_begin < min(end, other_end):
                continue
            if begin == other_begin and who > other:
                continue
            until = min(end, other_end)
            if not _away(rows, who, begin, other_begin, until):
                yield f"{place} is {who[0]}'s and {other[0]}'s for {(until - other_begin) / 1e6:.1f} ms"


def _away(rows: list[Row], who: tuple[str, int], since: int, begin: int, end: int) -> bool:
    """Whether a process was evicted, or fenced, and couldn't know it, all this time."""
    heard = [r["mono_ns"] for r in rows if process(r) == who and r["kind"] in CALLBACKS]
    out = [g for g in committed(rows) if since <= g["mono_ns"] <= begin and not in_it(rows, who, g)]
    if not out:
        return False
    evicted = out[0]["mono_ns"]
    if any(evicted < ns < end for ns in heard):
        return False
    mine = [r for r in rows if r["kind"] in ("fault_begin", "fault_end") and process(r) == who and r["fault"] != "kill"]
    begun = [r["mono_ns"] for r in mine if r["kind"] == "fault_begin" and r["mono_ns"] <= evicted]
    over = [r["mono_ns"] for r in mine if r["kind"] == "fault_end" and min(begun, default=0) <= r["mono_ns"] <= end]
    if begun and (len(over) < len(begun) or end <= max(over) + NOTICE):
        return True
    exits = [r for r in rows if r["kind"] == "exit" and process(r) == who and r["code"]]
    last_event_ns = max((r["mono_ns"] for r in rows if r["src"] == "member" and process(r) == who), default=0)
    if exits and last_event_ns < evicted and end <= exits[0]["mono_ns"]:
        return True
    starts = [r for r in rows if r["kind"] == "start" and process(r) == who and "instance_id" in r]
    beat = starts[0]["config"].get("heartbeat_interval_ms", 0) if starts else 0
    return bool(starts) and end <= evicted + 2 * beat * 1_000_000 + 1_000_000_000


def _consumption(rows: list[Row]) -> Iterator[str]:
    owned = _owned(rows)
    acked = {(r["topic"], r["partition"], r["offset"]) for r in rows if r["kind"] == "ack"}
    at: dict[tuple[tuple[str, int], Place, int], int] = {}
    for row in (r for r in rows if r["kind"] == "consume"):
        for run in row["offsets"]:
            place, who, now = (run["topic"], run["partition"]), process(row), row["mono_ns"]
            mine = [o for o in owned if o[0] == place and o[1] == who and o[2] <= now]
            last = max(mine, key=lambda o: o[2], default=None)
            if last is None or now > last[3] + SLACK:
                yield f"{row['member']} consumes {place}, which it doesn't own"
                continue
            reached = at.get((who, place, last[2]))
            if reached is not None:
                if run["first"] <= reached:
                    yield f"{row['member']} goes back in {place}"
                if any((*place, offset) in acked for offset in range(reached + 1, run["first"])):
                    yield f"{row['member']} leaves something out of {place}"
            else:
                commits = [r for r in rows if r["kind"] == "offset_committed" and (r["topic"], r["partition"]) == place]
                before = [r["offset"] for r in commits if r["mono_ns"] < last[2] - SLACK]
                near = [r["offset"] for r in commits if last[2] - SLACK <= r["mono_ns"] <= now + SLACK]
                if before and run["first"] not in (before[-1], *near):
                    yield f"{row['member']} begins {place} elsewhere than at what was committed"
            at[who, place, last[2]] = run["last"]


def _drained(rows: list[Row]) -> Iterator[str]:
    ends: dict[Place, int] = {}
    for row in rows:
        if row["kind"] == "step" and row["name"] == "drained":
            ends |= {(r["topic"], r["partition"]): r["offset"] for r in row["offsets"]}
    seen = {
        (run["topic"], run["partition"], offset)
        for row in rows
        if row["kind"] == "consume"
        for run in row["offsets"]
        for offset in range(run["first"], run["last"] + 1)
    }
    for row in (r for r in rows if r["kind"] == "ack"):
        place = row["topic"], row["partition"]
        if row["offset"] < ends.get(place, 0) and (*place, row["offset"]) not in seen:
            yield f"{row['topic']}-{row['partition']} {row['offset']} was never consumed"


def _commits(rows: list[Row]) -> Iterator[str]:
    last: dict[Place, int] = {}
    for row in sorted((r for r in rows if r["kind"] == "offset_committed"), key=lambda r: r["seq"]):
        place = row["topic"], row["partition"]
        if row["offset"] < last.get(place, 0):
            yield f"commits of {place} fall"
        last[place] = row["offset"]
        read = [
            run["last"] + 1
            for r in rows
            if r["kind"] == "consume" and r["mono_ns"] <= row["mono_ns"] + SLACK
            for run in r["offsets"]
            if (run["topic"], run["partition"]) == place
        ]
        if row["offset"] > max(read, default=0):
            yield f"more of {place} is committed than was consumed"


def _read_back(rows: list[Row]) -> Iterator[str]:
    records: dict[tuple[str, int, int], Row] = {}
    for row in rows:
        if row["kind"] == "read_back":
            records[row["topic"], row["partition"], row["offset"]] = row
        if row["kind"] == "step" and row["name"] == "read_back":
            ends = {(r["topic"], r["partition"]): r["offset"] for r in row["offsets"]}
            for ack in (r for r in rows if r["kind"] == "ack"):
                place = ack["topic"], ack["partition"]
                there = records.get((*place, ack["offset"]))
                if ack["offset"] < ends.get(place, 0) and (there is None or there["value_id"] != ack["value_id"]):
                    yield f"{place} {ack['offset']} isn't where it was acknowledged"
            records = {}
    for ack in (r for r in rows if r["kind"] == "ack"):
        if ack.get("predicted", ack["partition"]) != ack["partition"]:
            yield "a record lies elsewhere than it was sent"


def _ends(rows: list[Row]) -> Iterator[str]:
    for row in (r for r in rows if r["src"] == "member"):
        starts = [r["mono_ns"] for r in rows if r["kind"] == "start" and process(r) == process(row)]
        exits = [r["mono_ns"] for r in rows if r["kind"] == "exit" and process(r) == process(row)]
        if any(r["kind"] == "stop" and process(r) == process(row) and r["mono_ns"] < row["mono_ns"] for r in rows):
            yield f"{row['member']} tells something after its stop"
        if starts and row["mono_ns"] < max(starts) - SLACK:
            yield f"{row['member']} tells something before its start"
        if exits and row["mono_ns"] > min(exits) + SLACK:
            yield f"{row['member']} tells something after its end"
    for row in (r for r in rows if r["kind"] == "exit" and r["code"]):
        events = [r for r in rows if process(r) == process(row)]
        asked = any(r["kind"] == "stop" or (r["kind"] == "fault_begin" and r["fault"] == "kill") for r in events)
        instance = next((r["instance_id"] for r in events if r["kind"] == "start" and "instance_id" in r), None)
        taken = any(r["kind"] == "start" and r.get("instance_id") == instance and r not in events for r in rows)
        if not asked and not row.get("asked") and not (instance and taken):
            yield f"{row['member']} ends by itself"


def _left_alone(rows: list[Row]) -> Iterator[str]:
    """Somebody died, and for half a minute beside the session nobody has what it had."""
    sessions = [r["config"].get("session_timeout_ms", 45_000) for r in rows if r["kind"] == "start"]
    bound = max(sessions, default=45_000) * 1_000_000 + LEFT_ALONE
    triggers = [r for r in rows if r["kind"] in ("start", "stop", "exit", "fault_begin", "fault_end", "admin_change")]
    generations = committed(rows)
    for at, row in enumerate(triggers):
        end = triggers[at + 1]["mono_ns"] if at + 1 < len(triggers) else rows[-1]["mono_ns"]
        past_generations = [g for g in generations if g["mono_ns"] <= end]
        if end - row["mono_ns"] <= bound or not past_generations:
            continue
        for place in {place for m in past_generations[-1]["members"] for place in places(m["assigned"])}:
            owners = [(b, e) for p, who, b, e in _owned(rows) if p == place]
            free = row["mono_ns"]
            for begin, until in sorted(owners):
                if begin - free > bound:
                    break
                free = max(free, until)
            if end - free > bound:
                yield f"nobody owns {place} for {(end - free) / 1e6:.0f} ms"
