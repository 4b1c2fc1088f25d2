"""The commands about keys: where they lie, the hash that placed them, the effect of more partitions."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from kafka_assignors.connection import Connection, partition_count
from kafka_assignors.errors import ConfigError
from kafka_assignors.frame import NO, YES, Common, command
from kafka_assignors.output import many, printable_lines

from .core.audit import FAMILIES, Audit, audit, growth
from .core.keys.defaults import DEFAULTS, placed_by_default
from .errors import NoPartitions
from .topic_sample import BOOTSTRAP_TIMEOUT_S, Sample, read_sample

app = typer.Typer(add_completion=False, help=__doc__)

Records = Annotated[
    int, typer.Option("--records", min=1, help="number of offsets to read per partition, from its beginning")
]


@app.command("audit", epilog="Example: kafka-assignors keys audit orders -b localhost:9092")
@command
def audit_command(
    common: Common,
    topic: Annotated[str, typer.Argument(help="the topic to read")],
    records: Records = 10_000,
    strays: Annotated[int, typer.Option("--strays", min=0, help="number of misplaced records to list")] = 10,
) -> int:
    """Name the hash a topic's keys were placed with, and list the records that lie elsewhere.

    It reads the first records of each partition, and says which share of the topic that is.

    The exit code is 0 when one hash explains all, 1 when there are strays or no hash does.
    """
    sample = read_sample(common.connection, topic, records)
    with common.busy("comparing the keys with each hash"):
        result = audit(sample.placed_keys.elements(), sample.partitions, strays=strays)
    if common.as_json:
        common.print_json(_as_json(topic, result, sample))
    else:
        typer.echo(printable_lines(_text(topic, result, sample, records)))
    return YES if result.preset is not None and not result.stray_count else NO


@app.command("growth", epilog="Example: kafka-assignors keys growth --from 6 --to 12")
@command
def growth_command(  # options of the command line
    common: Common,
    then: Annotated[int, typer.Option("--to", help="number of partitions after the change")],
    topic: Annotated[
        str | None, typer.Argument(help="the topic whose keys are read (default: 20,000 generated keys)")
    ] = None,
    now: Annotated[int | None, typer.Option("--from", help="number of partitions now (default: the topic's)")] = None,
    records: Records = 10_000,
) -> int:
    """Tell the share of keys that another number of partitions would move, for each preset."""
    if topic is not None:
        sample = read_sample(common.connection, topic, records)
        keys = list(dict.fromkeys(key for _, key in sample.placed_keys))
        now = sample.partitions if now is None else now
        if sample.read < sample.offsets:
            common.note(_sampled(topic, sample, records))
    elif now is None:
        raise ConfigError("the number of partitions now is missing; name a TOPIC to read it, or give --from N")
    else:
        keys = [b"user-%d" % i for i in range(20_000)]
    with common.busy("placing the keys"):
        shares = growth(keys, now, then)
    if common.as_json:
        common.print_json({"from": now, "to": then, "topic": topic, "keys": len(keys), "moved": dict(shares)})
        return YES
    for name, share in shares.items():
        typer.echo(f"{name:<18} {share:6.1%} of {len(keys)} keys move from {now} to {then} partitions")
    return YES


@app.command("place", epilog="Example: kafka-assignors keys place orders user-1 user-2 --partitions 6")
@command
def place_command(  # options of the command line
    common: Common,
    topic: Annotated[str, typer.Argument(help="the topic")],
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="keys as text, in UTF-8")],
    as_hex: Annotated[bool, typer.Option("--hex", help="the keys are given in hexadecimal")] = False,
    as_base64: Annotated[bool, typer.Option("--base64", help="the keys are given in base64")] = False,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", metavar="N", min=1, show_default=False,
            help="the topic's number of partitions; no broker is asked",
        ),
    ] = None,
) -> int:  # fmt: skip
    """Tell where each client's default partitioner places a key, and for which keys the clients disagree."""
    wanted = [_key(text, as_hex, as_base64) for text in keys]
    n = partitions or _count(topic, common.connection)
    placed = {key: placed_by_default(key, n) for key in wanted}
    if common.as_json:
        common.print_json(_places_as_json(topic, n, placed))
    else:
        typer.echo(_places(topic, n, placed))
    return YES


_Places = dict[bytes, Mapping[str, "int | None"]]
"""key -> client -> partition; None: any."""


def _key(text: str, as_hex: bool, as_base64: bool) -> bytes:
    if as_hex and as_base64:
        raise ConfigError("--hex and --base64 are two forms of a key; remove one")
    try:
        if as_hex:
            return bytes.fromhex(text)
        if as_base64:
            return base64.b64decode(text, validate=True)
    except ValueError as problem:
        form = "--hex, as 6f2d31" if as_hex else "--base64, as by0x"
        raise ConfigError(f"key {text!r} is not in the form of {form} ({problem})") from problem
    return text.encode("utf-8", "surrogateescape")


def _count(topic: str, connection: Connection) -> int:
    try:
        n = partition_count(connection, topic, BOOTSTRAP_TIMEOUT_S)
    except OSError as problem:
        raise NoPartitions(
            f"--bootstrap {str(connection)!r}: no broker answered ({problem}); name one that runs, or give "
            "--partitions N"
        ) from problem
    if n == 0:
        raise NoPartitions(f"topic {topic!r} is not in the cluster's metadata; is the name right?")
    return n


def _places_as_json(topic: str, n: int, placed: _Places) -> dict[str, Any]:
    keys = [
        {
            "key_base64": base64.b64encode(key).decode(),
            "partition": dict(places),
            "elsewhere": [client for client, partition in places.items() if partition != places["Java"]],
        }
        for key, places in placed.items()
    ]
    return {"topic": topic, "partitions": n, "keys": keys}


def _places(topic: str, n: int, placed: _Places) -> str:
    """A row per key, a column per rule; a partition other than Java's has a star."""
    heads = [default.clients[0] for default in DEFAULTS]
    names = {key: _shown(key) for key in placed}
    wide = max(3, *map(len, names.values()))
    lines = [f"{topic}: {n} partition{'' if n == 1 else 's'}"]
    lines.append(f"{'key':<{wide}}" + "".join(f"  {head:>10} " for head in heads).rstrip())
    for key, places in placed.items():
        cells = []
        for head in heads:
            text = f"{'any' if places[head] is None else places[head]:>10}"
            if places[head] == places["Java"]:
                cells.append(f"  {text} ")
            else:
                cells.append("  " + typer.style(f"{text}*", fg="yellow", bold=True))
        lines.append((f"{names[key]:<{wide}}" + "".join(cells)).rstrip())
    lines += ["", "* not where Java places it; any: the client ignores this key by default"]
    for default in DEFAULTS:
        also = f"; also {', '.join(default.clients[1:])}" if default.clients[1:] else ""
        lines.append(f"{default.clients[0]}: {default.rule}{also}")
    return "\n".join(lines)


def _shown(key: bytes) -> str:
    """A key as text if it can be printed, else as Python's bytes."""
    text = key.decode("utf-8", "replace")
    return text if text and text.isprintable() and text.encode() == key else repr(key)


def _as_json(topic: str, report: Audit, sample: Sample) -> dict[str, Any]:
    # Keys are bytes of any kind, so they are given in base64.
    misplaced = [
        {
            "partition": stray.partition, "key_base64": base64.b64encode(stray.key).decode(),
            "records": stray.records, "expected_partition": stray.expected, "presets": list(stray.presets),
        }
        for stray in report.strays
    ]  # fmt: skip
    return {
        "topic": topic, "partitions": report.partitions, "offsets": sample.offsets, "offsets_read": sample.read,
        "keys": report.keys, "agreement": report.agreement, "preset": report.preset, "alike": list(report.alike),
        "misplaced_count": report.stray_count, "misplaced_records": report.stray_records,
        "misplaced_where": report.elsewhere, "misplaced": misplaced,
    }  # fmt: skip


def _sampled(topic: str, sample: Sample, most: int) -> str:
    """What was read, in words."""
    count = len({key for _, key in sample.placed_keys})
    at = f"{topic}: {count} keys on {sample.partitions} partition{'' if sample.partitions == 1 else 's'}"
    if sample.read == sample.offsets:
        return f"{at}, in all {sample.offsets} offsets"
    share = sample.read / sample.offsets
    return (
        f"{at}, in {sample.read} of {sample.offsets} offsets ({share:.1%}), the first {most} of each partition; "
        "--records N reads more"
    )


def _misplaced(report: Audit) -> str:
    if not report.stray_count:
        return "0 misplaced"
    return f"{many(report.stray_count, 'key')} misplaced, with {many(report.stray_records, 'record')}"


def _text(topic: str, report: Audit, sample: Sample, most: int) -> str:
    lines = [_sampled(topic, sample, most)]
    lines += [
        f"  {name:<18} {share:6.1%} of their records are where this preset places them"
        for name, share in report.agreement.items()
    ]
    if report.preset is None and report.partitions == 1:
        lines.append("every hash places all keys on the one partition")
    elif report.preset is None:
        lines.append(
            "no single hash explains the placement: several clients, explicit partitions, a grown topic, or too few "
            "keys"
        )
    else:
        names = " or ".join(f"{name} ({FAMILIES[name]})" for name in (report.preset, *report.alike))
        also = f", which place alike on {report.partitions} partitions" if report.alike else ""
        lines.append(f"placed by {names}{also}; {_misplaced(report)}")
    if report.elsewhere:
        # A stray lies on one of the other partitions, and another hash gives each of all n alike.
        name, count = next(iter(report.elsewhere.items()))
        lines.append(
            f"{count} of the {report.stray_count} are where {name} ({FAMILIES[name]}) places them; by "
            f"chance {report.stray_count / report.partitions:.1f} would be"
        )
    for stray in report.strays:
        where = f"where {', '.join(stray.presets)} places it" if stray.presets else "where no preset places it"
        lines.append(
            f"  misplaced: partition {stray.partition}, key {stray.key!r}, {many(stray.records, 'record')}: "
            f"{where}; {report.preset} places it on {stray.expected}"
        )
    return "\n".join(lines)
