"""``python -m kafka_assignors.producers``: where keys lie, the hash that placed them, the effect of more partitions."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any

from kafka_assignors.connection import (
    Connection,
    Right,
    needing,
    partition_count,
    read_connection,
    require_access,
)
from kafka_assignors.errors import KafkaAssignorsError
from kafka_assignors.output import note

from .core.audit import Audit, PlacedKey, audit, growth
from .core.keys.defaults import DEFAULTS, placed_by_default
from .errors import ConfigError, NoPartitions, ProducersError

try:
    import typer
except ModuleNotFoundError:
    sys.exit("error: python -m kafka_assignors.producers needs typer: pip install 'kafka-assignors[cli]'")

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)

Bootstrap = Annotated[str | None, typer.Option("--bootstrap", help="host:port of a broker (default: localhost:9092)")]
Config = Annotated[Path | None, typer.Option("--config", help="Kafka's client.properties: how to reach the broker")]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME", help="a section of --config, or of ~/.config/kafka-assignors/profiles.properties"
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-X", metavar="KEY=VALUE", help="a setting that overrides --config; give secrets as KEY='${env:NAME}'"
    ),
]
Records = Annotated[
    int, typer.Option("--records", min=1, help="number of records to read per partition, from its beginning")
]
Json = Annotated[bool, typer.Option("--json", help="one JSON object instead of text")]
TIMEOUT_S = 30
BOOTSTRAP_TIMEOUT_S = 10


@app.command("audit")
def audit_command(
    topic: Annotated[str, typer.Argument(help="the topic to read")],
    bootstrap: Bootstrap = None,
    config: Config = None,
    profile: Profile = None,
    settings: Settings = None,
    records: Records = 10_000,
    strays: Annotated[int, typer.Option("--strays", min=0, help="number of misplaced records to list")] = 10,
    as_json: Json = False,
) -> None:
    """Name the hash a topic's keys were placed with, and list the records that lie elsewhere.

    The exit code is 0 when one hash explains all, 1 when there are strays or no hash does.
    """
    with _ErrorsInOneLine():
        n, found = _read(topic, _connection(bootstrap, config, profile, settings), records)
        result = audit(found, n, strays=strays)
    typer.echo(json.dumps(_as_json(topic, result)) if as_json else _text(topic, result))
    raise typer.Exit(0 if result.preset is not None and not result.stray_count else 1)


@app.command("growth")
# Options of the command line, not parameters that code passes.
def growth_command(
    then: Annotated[int, typer.Option("--to", help="number of partitions after the change")],
    topic: Annotated[
        str | None, typer.Argument(help="the topic whose keys are read (default: 20,000 generated keys)")
    ] = None,
    now: Annotated[int | None, typer.Option("--from", help="number of partitions now (default: the topic's)")] = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
    profile: Profile = None,
    settings: Settings = None,
    records: Records = 10_000,
    as_json: Json = False,
) -> None:
    """Tell the share of keys that another number of partitions would move, for each preset."""
    with _ErrorsInOneLine():
        if topic is not None:
            count, keys = _keys(topic, _connection(bootstrap, config, profile, settings), records)
            now = count if now is None else now
        elif now is None:
            raise ConfigError("the number of partitions now is missing; name a TOPIC to read it, or give --from N")
        else:
            keys = [b"user-%d" % i for i in range(20_000)]
        shares = growth(keys, now, then)
    if as_json:
        typer.echo(json.dumps({"from": now, "to": then, "topic": topic, "keys": len(keys), "moved": dict(shares)}))
        return
    for name, share in shares.items():
        typer.echo(f"{name:<18} {share:6.1%} of {len(keys)} keys move from {now} to {then} partitions")


@app.command("place")
def place_command(  # options of the command line
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
    bootstrap: Bootstrap = None,
    config: Config = None,
    profile: Profile = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Tell where each client's default partitioner places a key, and for which keys the clients disagree."""
    with _ErrorsInOneLine():
        wanted = [_key(text, as_hex, as_base64) for text in keys]
        n = partitions or _count(topic, _connection(bootstrap, config, profile, settings))
        placed = {key: placed_by_default(key, n) for key in wanted}
    typer.echo(json.dumps(_places_as_json(topic, n, placed)) if as_json else _places(topic, n, placed))


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
    heads = [each.clients[0] for each in DEFAULTS]
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
    for each in DEFAULTS:
        also = f"; also {', '.join(each.clients[1:])}" if each.clients[1:] else ""
        lines.append(f"{each.clients[0]}: {each.rule}{also}")
    return "\n".join(lines)


def _shown(key: bytes) -> str:
    """A key as text if it can be printed, else as Python's bytes."""
    text = key.decode("utf-8", "replace")
    return text if text and text.isprintable() and text.encode() == key else repr(key)


class _ErrorsInOneLine:
    """Prints our errors and the client's as one line; the exit code is 2."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        known: tuple[type[BaseException], ...] = (ProducersError, KafkaAssignorsError)
        if (client := sys.modules.get("kafka.errors")) is not None:  # else the error is not the client's
            known += (client.KafkaError,)
        if isinstance(error, known):
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(2) from error
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "kafka":
            typer.echo(
                "error: reading a topic needs kafka-python: pip install 'kafka-assignors[kafka-python]'", err=True
            )
            raise typer.Exit(2) from error


def _keys(topic: str, connection: Connection, records: int) -> tuple[int, list[bytes]]:
    """The topic's number of partitions, and the distinct keys of its first records."""
    count, found = _read(topic, connection, records)
    return count, list(dict.fromkeys(key for _, key in found))


def _read(topic: str, connection: Connection, records: int) -> tuple[int, list[PlacedKey]]:
    """The topic's number of partitions, and (partition, key) of its first records with a key."""
    from kafka import TopicPartition

    with needing(connection, Right("Read", "Topic", topic)), closing(_consumer(connection)) as consumer:
        # List all topics: asking for one by name creates it if the broker auto-creates topics.
        if topic not in consumer.topics() or not (ids := consumer.partitions_for_topic(topic)):
            _require_visible(connection, topic)
            raise NoPartitions(f"topic {topic!r} is not in the cluster's metadata; is the name right?")
        partitions = [TopicPartition(topic, p) for p in sorted(ids)]
        begin, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        until = {tp: min(end[tp], begin[tp] + records) for tp in partitions}
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        return len(ids), list(_records(consumer, until))


def _connection(
    bootstrap: str | None, config: Path | None, profile: str | None, settings: list[str] | None
) -> Connection:
    if bootstrap is None and config is None and profile is None and not settings:
        bootstrap = "localhost:9092"
    connection = read_connection(bootstrap, config, settings or (), profile=profile)
    if connection.ignored:
        note(f"{', '.join(connection.ignored)}: not a connection setting; ignored")
    return connection


def _consumer(connection: Connection) -> Any:
    from kafka import KafkaConsumer
    from kafka.errors import KafkaTimeoutError

    require_access(connection)
    try:
        return KafkaConsumer(
            **connection.kafka_python(), bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_S * 1000, enable_auto_commit=False,
            group_id=None, metrics_enabled=False,
        )  # fmt: skip
    except (KafkaTimeoutError, ValueError) as problem:
        raise ConfigError(
            f"--bootstrap {str(connection)!r}: no broker answered within {BOOTSTRAP_TIMEOUT_S} s; is one running "
            f"there, and is this host:port? ({problem})"
        ) from problem


def _require_visible(connection: Connection, topic: str) -> None:
    """Raise if the topic exists but is hidden: a consumer reports it as absent, the admin client as unauthorized."""
    from kafka import KafkaAdminClient
    from kafka.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError

    with closing(KafkaAdminClient(**connection.kafka_python())) as admin, suppress(UnknownTopicOrPartitionError):
        if admin.describe_topics([topic])[0]["error_code"] == TopicAuthorizationFailedError.errno:
            raise TopicAuthorizationFailedError(topic)


def _records(consumer: Any, until: dict[Any, int]) -> Iterator[PlacedKey]:
    deadline = time.monotonic() + TIMEOUT_S
    while any(consumer.position(tp) < last for tp, last in until.items()):
        batches = consumer.poll(timeout_ms=500)
        if batches:
            deadline = time.monotonic() + TIMEOUT_S
        elif time.monotonic() > deadline:
            raise NoPartitions(f"no record arrived for {TIMEOUT_S} s; are all partitions' leaders up?")
        for tp, batch in batches.items():
            for record in batch:
                if record.key is not None and record.offset < until[tp]:
                    yield tp.partition, record.key


def _as_json(topic: str, found: Audit) -> dict[str, Any]:
    # Keys are bytes of any kind, so they are given in base64.
    misplaced = [{"partition": p, "key_base64": base64.b64encode(key).decode()} for p, key in found.strays]
    return {
        "topic": topic, "partitions": found.partitions, "keys": found.keys, "agreement": found.agreement,
        "preset": found.preset, "misplaced_count": found.stray_count, "misplaced": misplaced,
    }  # fmt: skip


def _text(topic: str, found: Audit) -> str:
    lines = [f"{topic}: {found.keys} keys on {found.partitions} partitions"]
    lines += [f"  {name:<18} {share:6.1%} are where this preset places them" for name, share in found.agreement.items()]
    if found.preset is None:
        lines.append(
            "no single hash explains the placement: several clients, explicit partitions, a grown topic, or too few "
            "keys"
        )
    else:
        lines.append(f"placed by {found.preset}; {found.stray_count} misplaced")
    lines += [f"  misplaced: partition {partition}, key {key!r}" for partition, key in found.strays]
    return "\n".join(lines)


if __name__ == "__main__":
    app(prog_name="python -m kafka_assignors.producers")
