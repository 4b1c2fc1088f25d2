"""Findings: one sentence per fault in the data, a row of `schema.FINDINGS` each, built on the driver."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as sf

from kafka_assignors.history.departures import UNPROVEN
from kafka_assignors.producers import partition_for_key
from kafka_assignors.producers.core.audit import FAMILIES

from . import schema
from .load.keys import placed_by, sample
from .load.timestamps import impossible

CAP = 100
"""Maximum findings listed per kind."""

OTHER_RULE = 0.2
"""Share of misplaced keyed records above which the producers do not use the reference rule at all."""

EXPLAINED, CHANCE = 0.9, 0.01
"""Another rule explains misplaced keys if it places this share of them where they lie, and chance hardly would."""

CLOCK_S = 1.0
"""Deviation of a wall clock from the monotonic one that counts as a jump."""

_Found = Mapping[str, Any]
"""A row that a query found: Spark's Row in a job. The sentence about it is made without Spark."""


def row(run: str, kind: str, text: str, **fields: Any) -> tuple[Any, ...]:
    """One row of `schema.FINDINGS`; fields not given are null."""
    values = {**fields, "run": run, "kind": kind, "text": text}
    return tuple(values.get(name) for name in schema.FINDINGS.names)


def judged(summary: Mapping[str, Any]) -> list[str]:
    """The checks behind "no finding": one sentence per check that the sources permit, from the result of `summary`."""
    checks = []
    if summary["topics"]:
        checks.append(
            "No key exceeds the limit on its share of its topic's records or bytes, and no key is on two partitions."
        )
        if any(topic["judged_records"] for topic in summary["topics"]):
            checks.append("All keys are on the partition of the reference rule.")
        else:
            checks.append("No key was compared with a reference rule.")
        if numbered := sum(topic["numbered_records"] for topic in summary["topics"]):
            checks.append(f"The {numbered:,} numbered records are in their sender's order.")
        checks.append("No record has a timestamp in the future.")
    sources = {group["source"] for group in summary["groups"]}
    if "callback" in sources:
        checks.append(
            "The members' callbacks show one owner per topic-partition at any time; no process was killed or ended "
            "without closing its consumer; no wall clock jumped."
        )
    if "coordlog" in sources:
        checks.append(
            "The coordinator's log shows no topic-partition with two members in a generation. Each departed member "
            "had left, so no session can have timed out. This log does not show members between two generations."
        )
    return checks


def printable(key: bytes | None) -> str:
    """A key for people: its text if it is valid text, else hex; cut at 40 characters.

    >>> printable(b"customer-7"), printable(bytes([0, 255]))
    ("'customer-7'", '0x00ff')
    """
    data = bytes(key or b"")
    try:
        text = data.decode()
        shown = repr(text) if text.isprintable() else f"0x{data.hex()}"
    except UnicodeDecodeError:
        shown = f"0x{data.hex()}"
    return shown if len(shown) <= 40 else shown[:39] + "…"


def hot_keys(hot: DataFrame, partitions: Mapping[str, int], limit: float) -> Iterator[tuple[Any, ...]]:
    """Keys of `schema.HOT_KEYS` with more than `limit` (0..1) of their topic's records or bytes. Cost: a small job."""
    over = (sf.col("share") > limit) | (sf.col("byte_share") > limit)
    keys = hot.where(over).orderBy("run", "topic", sf.desc("records"), "key_hash")
    for key in keys.collect():
        yield row(
            key["run"], "hot-key", _hot(key, partitions[key["topic"]], limit),
            topic=key["topic"], partition=key["partition"], key_sample=key["key_sample"], records=key["records"],
        )  # fmt: skip


def _hot(key: _Found, partitions: int, limit: float) -> str:
    shares = {"records": key["share"], "bytes": key["byte_share"]}
    large_shares = {what: share for what, share in shares.items() if share > limit}
    worst = max(large_shares, key=large_shares.__getitem__)
    bound = large_shares[worst] * partitions
    return (
        f"key {printable(key['key_sample'])} has "
        + " and ".join(f"{share:.1%} of the {what}" for what, share in large_shares.items())
        + f" of {key['topic']}"
        + (f" ({key['share']:.1%} of its records)" if "records" not in large_shares else "")
        + (f": its partition has at least {bound:.1f} x the mean {worst} under any rule" if bound > 1 else "")
    )


def misplaced(keys: DataFrame, reference: str | None, partitions: Mapping[str, int]) -> Iterator[tuple[Any, ...]]:
    """Keys whose records the reference rule puts on another partition; one row for the topic if most are.

    If another client's rule explains where they lie, it is named. `keys` are those of `keys.distinct`; their `home` is
    by `reference`.

    Cost: three jobs over the keys; without misplaced keys two.
    """
    wrong = sf.col("home") != sf.col("partition")
    shares = (
        keys.where("home is not null")
        .groupBy("run", "topic")
        .agg(
            sf.sum("records").alias("keyed"), sf.sum(sf.when(wrong, sf.col("records")).otherwise(0)).alias("elsewhere")
        )
    )
    topics = shares.where("elsewhere > 0").orderBy("run", "topic").collect()
    others = _explained(keys.where(wrong), partitions) if topics else {}
    single = []
    for topic in topics:
        name = topic["topic"]
        if topic["elsewhere"] <= OTHER_RULE * topic["keyed"]:
            single.append(name)
            continue
        yield row(
            topic["run"], "misplaced", _other_rule(topic, reference, others.get(name)),
            topic=name, records=topic["elsewhere"],
        )  # fmt: skip
    yield from _listed(
        keys.where(wrong & sf.col("topic").isin(single)),
        "misplaced",
        [sf.desc("records"), "topic", "partition", "first_offset"],
        lambda key: _astray(key, reference, others.get(key["topic"]), partitions[key["topic"]]),
    )


def _other_rule(topic: _Found, reference: str | None, other: _Other | None) -> str:
    sentence = f"{topic['elsewhere']} of {topic['keyed']} keyed records of {topic['topic']} are not on the partition of"
    why = other.sentence if other else "do its producers use another rule (--reference), or did the topic grow?"
    return f"{sentence} {reference}: {why}"


def _astray(key: _Found, reference: str | None, other: _Other | None, partitions: int) -> str:
    name = key["topic"]
    sentence = (
        f"{_count(key['records'], 'record')} of key {printable(key['key'])} at {name}-{key['partition']}: "
        f"{reference} puts the key at {name}-{key['home']}"
    )
    if other is None or partition_for_key(bytes(key["key"]), partitions, other.preset) != key["partition"]:
        return sentence
    return f"{sentence}, {other.preset} here"


class _Other(NamedTuple):
    """The rule that explains where a topic's misplaced keys lie."""

    preset: str
    records: int
    of_records: int

    @property
    def sentence(self) -> str:
        which = "they" if self.records == self.of_records else f"{self.records / self.of_records:.1%} of them"
        name = FAMILIES[self.preset].rpartition(": ")[2].partition(",")[0]
        return (
            f"{which} are where {name} puts them. If all producers are of that kind, compare with --reference "
            f"{self.preset}; a mix of both splits keys"
        )


def _explained(misplaced_keys: DataFrame, partitions: Mapping[str, int]) -> dict[str, _Other]:
    """Topic -> the rule that places its misplaced keys where they lie; topics without one are left out."""
    prior = list(FAMILIES)  # of rules that place alike on so many partitions, the first is named
    rows = placed_by(misplaced_keys, partitions, prior).collect()
    best = {row["topic"]: row for row in sorted(rows, key=lambda row: (row["keys"], -prior.index(row["preset"])))}
    return {
        topic: _Other(rule["preset"], rule["records"], rule["of_records"])
        for topic, rule in best.items()
        if rule["keys"] >= EXPLAINED * rule["of_keys"]
        and by_chance(rule["keys"], rule["of_keys"], partitions[topic]) < CHANCE
    }


def by_chance(agreeing: int, of: int, n: int) -> float:
    """Bound on the probability that one of all rules places so many of `of` keys on their partitions by chance.

    >>> by_chance(1, 1, 6) > 1, by_chance(5, 5, 6) < 0.001, by_chance(10**6, 10**6, 6)
    (True, True, 0.0)
    """
    if n < 2:
        return 1.0
    logarithm = (
        math.lgamma(of + 1) - math.lgamma(agreeing + 1) - math.lgamma(of - agreeing + 1) - agreeing * math.log(n)
    )
    return len(FAMILIES) * math.exp(min(0.0, logarithm))


def split_keys(keys: DataFrame) -> Iterator[tuple[Any, ...]]:
    """Keys of `keys.distinct` on more than one partition, which loses their order. Cost: one job over the keys."""
    rows = (
        keys.where("low != high")
        .groupBy("run", "topic", "key")
        .agg(sf.sum("records").alias("records"), sf.array_sort(sf.collect_set("partition")).alias("partitions"))
    )
    yield from _listed(rows, "split-key", [sf.desc("records"), "topic", "key"], _split)


def _split(key: _Found) -> str:
    return (
        f"{_count(key['records'], 'record')} of key {printable(key['key'])} of {key['topic']} are on "
        f"{len(key['partitions'])} partitions ({', '.join(map(str, key['partitions'][:8]))}): "
        "their order is not guaranteed"
    )


def disordered(disorder: DataFrame) -> Iterator[tuple[Any, ...]]:
    """Records out of their sender's order, from the result of `keys.disorder`. Cost: one job over it."""
    yield from _listed(
        disorder.withColumns({"first_offset": sf.col("offset"), "last_offset": sf.col("offset"), "records": sf.lit(1)}),
        "order",
        ["topic", "partition", "offset"],
        lambda record: (
            f"record {record['value_id']} of key {printable(record['key'])} at "
            f"{record['topic']}-{record['partition']}, offset {record['offset']}, "
            "comes after a record that was sent later"
        ),
    )


def ownership(timeline: DataFrame) -> Iterator[tuple[Any, ...]]:
    """Double owners, killed members, and members that may have crashed, from `schema.GROUP_TIMELINE`.

    Cost: three small jobs.
    """
    yield from _listed(
        timeline.where("overlap_prev_ms > 0"), "overlap", ["group", "start_ns", "topic", "partition"], _overlap
    )
    ended = (
        timeline.where("end_kind in ('killed', 'exit')")
        .groupBy("run", "group", "member", "incarnation", "end_kind")
        .agg(sf.count("*").alias("held"), sf.max("end_ns").alias("end_ns"))
    )
    yield from _listed(ended, "killed", ["group", "end_ns", "member"], _ended)
    after = Window.partitionBy("run", "group", "topic", "partition").orderBy("start_ns", "member", "incarnation")
    gone = (
        timeline.withColumns(
            {
                "next": sf.lead("member").over(after),
                "at_least_ms": sf.lead("gap_at_least_ms").over(after),
                "at_most_ms": sf.lead("gap_at_most_ms").over(after),
            }
        )
        .where(sf.col("end_kind") == UNPROVEN)
        .groupBy("run", "group", "member", "generation_end")
        .agg(
            sf.count("*").alias("held"),
            sf.count("next").alias("taken"),
            sf.max("at_least_ms").alias("at_least_ms"),
            sf.when(sf.count("at_most_ms") == sf.count("*"), sf.max("at_most_ms")).alias("at_most_ms"),
            sf.min("end_ns").alias("end_ns"),
        )
    )
    yield from _listed(gone, "departure", ["group", "end_ns", "member"], _departure)


def _overlap(interval: _Found) -> str:
    return (
        f"{interval['topic']}-{interval['partition']} had two owners for {interval['overlap_prev_ms']:.1f} ms: "
        f"{interval['member']} got it in generation {interval['generation_start']} while another member still held it"
    )


def _ended(member: _Found) -> str:
    how = " was killed" if member["end_kind"] == "killed" else "'s process ended without closing its consumer"
    return f"{member['member']}{how} while it held {_count(member['held'], 'topic-partition')}"


def _departure(gone: _Found) -> str:
    sentence = (
        f"{gone['member']} left or expired (the coordinator's log does not say which). It is not in generation "
        f"{gone['generation_end']}, and held {_count(gone['held'], 'topic-partition')}"
    )
    if not gone["taken"]:
        return f"{sentence}, which no later generation assigns"
    which = "which" if gone["taken"] == gone["held"] else f"of which {gone['taken']}"
    sentence += f", {which} had no member for at least {gone['at_least_ms']:,.0f} ms"
    if gone["at_most_ms"] is None:
        return f"{sentence}; no commit shows when one of them had a consumer again"
    return f"{sentence} and no consumer for at most {gone['at_most_ms']:,.0f} ms"


def clocks(events: DataFrame, windows: DataFrame) -> Iterator[tuple[Any, ...]]:
    """Wall clocks that jumped against the monotonic one, and records dated in the future or without a time.

    From `schema.EVENTS` and the result of `keys.windows`. Cost: two jobs.
    """
    off = sf.col("ts_ns") - sf.col("mono_ns")
    jumped = (
        # events from the coordinator's log have no monotonic clock of their own
        events.where("src <> 'coordlog'")
        .groupBy("run", "src", "group", "member", "incarnation")
        .agg(((sf.max(off) - sf.min(off)) / 1e9).alias("seconds"))
        .where(sf.col("seconds") > CLOCK_S)
    )
    yield from _listed(jumped, "clock", [sf.desc("seconds"), "src", "group", "member"], _jumped)
    odd = (
        windows.where(impossible())
        .groupBy("run", "topic", "partition")
        .agg(
            sf.sum("records").alias("records"),
            sf.min("first_offset").alias("first_offset"),
            sf.max("last_offset").alias("last_offset"),
            sf.unix_seconds(sf.max("last_ts")).alias("latest"),
            sf.unix_seconds(sf.min("first_ts")).alias("earliest"),
        )
    )
    yield from _listed(odd, "clock", ["topic", "partition"], _impossible)


def _jumped(source: _Found) -> str:
    return (
        f"the wall clock of {source['member'] or source['src']} jumped by {source['seconds']:.1f} s. Durations are "
        "correct (monotonic clock); dates, and the order of the coordinator's events, may be wrong"
    )


def _impossible(place: _Found) -> str:
    return (
        f"up to {_count(place['records'], 'record')} of {place['topic']}-{place['partition']} have impossible "
        f"timestamps, from {_date(place['earliest'])} to {_date(place['latest'])}: their windows and rates are "
        "meaningless"
    )


def _date(seconds: int) -> str:
    """A UTC time for people.

    >>> _date(0), _date(253_370_764_800)
    ('1970-01-01 00:00', 'the year 9999 or later (is it stamped in micro- or nanoseconds?)')
    """
    if seconds >= int(schema.LAST.timestamp()):
        return "the year 9999 or later (is it stamped in micro- or nanoseconds?)"
    return f"{datetime(1970, 1, 1) + timedelta(seconds=seconds):%Y-%m-%d %H:%M}"


def _listed(matches: DataFrame, kind: str, order: list[Any], say: Callable[[Row], str]) -> Iterator[tuple[Any, ...]]:
    """The first `CAP` rows as findings; one more row counts the rest."""
    columns = set(matches.columns)
    if "key" in columns:
        matches = matches.withColumn("key_sample", sample("key"))
    rows = matches.orderBy(*order).limit(CAP + 1).collect()
    for one in rows[:CAP]:
        fields = one.asDict()
        yield row(fields.pop("run"), kind, say(one), **{k: v for k, v in fields.items() if k in _FIELDS})
    if len(rows) > CAP:
        more = matches.count() - CAP
        yield row(rows[0]["run"], kind, f"and {more:,} more of this kind", more=more)


_FIELDS = frozenset(schema.FINDINGS.names) - {"run", "kind", "text"}


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
