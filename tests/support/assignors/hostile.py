"""What a hostile member may send: user data and options of any type, range and size, in every format, by seed.

A checksum is no obstacle: what is drawn is packed as the format packs it, and some of it is damaged afterwards.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.strategies import ByWork, CooperativeSticky, Sticky, strategy
from kafka_assignors.core.strategy import Strategy
from kafka_assignors.core.wire import userdata
from kafka_assignors.core.wire import weighted as carried
from kafka_assignors.core.wire.protocol import Subscription, encode_subscription

TOPICS: Mapping[str, int] = {"orders": 6, "pay": 3, "empty": 0}
MEMBERS = ("m0", "m1", "m2", "evil")
_FLOATS = (
    0.0, -0.0, 1.0, 1e-7, 1e-6, 1e6, 1e7, 5e-324, 1e-300, 1e300, 1.7976931348623157e308, -1.0, float("inf"),
    float("-inf"), float("nan"),
)  # fmt: skip
_INTS = (0, 1, -1, 2, 7, 127, 128, 255, 256, 10**6, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63))
_NAMES = ("orders", "pay", "empty", "absent", "", "m0", "evil", "r1", "é", "\x1b[31m", "x" * 300, "\ud800")


def _value(random: Random, depth: int = 0) -> Any:
    """Any JSON value; options take most of these types somewhere."""
    kind = random.random()
    if kind < 0.2:
        return random.choice(_INTS)
    if kind < 0.3:
        return random.choice([10**400, -(10**400), random.randint(-5, 5)])
    if kind < 0.45:
        return random.choice([*(f for f in _FLOATS if abs(f) < 1e999), random.random() * 10 ** random.randint(-9, 9)])
    if kind < 0.6:
        return random.choice(_NAMES)
    if kind < 0.7 or depth > 3:
        return random.choice([None, True, False])
    if kind < 0.85:
        return [_value(random, depth + 1) for _ in range(random.choice([0, 1, 1, 2, 3]))]
    return {random.choice(_NAMES): _value(random, depth + 1) for _ in range(random.choice([0, 1, 1, 2]))}


_SOUND: Mapping[str, Sequence[Any]] = {
    "parity": ["java", "grantneale", None],
    "rack_costs": ["replica", "leader", "none", {"r1": {"r2": 3}}, {"r1": {"r1": 0, "r2": 10**12}}],
    "goals": [["spread", "balance", "racks", "moves"], ["balance", "moves", "racks"], ["balance", "racks", "moves"]],
    "topics": [[["orders", "pay"]], [["orders", "absent"]], []],
    "epsilon": [None, 0, 0.05, 1e-9, 1e300, 5e-324],
    "virtual_nodes": [1, 1000],
    "hash": ["md5", "sha1", "sha256", "blake2b"],
    "broker_name": ["", "b", "é" * 100],
    "broker_id": [0, -1, 2**31],
    "inner": ["average", "average-by-circle", "rocketmq-consistent-hash"],
    "table": [{}, {"evil": {"orders": [0, 1, 2, 3, 4, 5]}}, {"m0": {"orders": [2**40, 0], "absent": [1]}}],
    "uncovered": ["roundrobin", "range", "machine-room-nearby", "consistent-hash"],
    "move_budget": [0, 1, 10**9],
    "hysteresis": [True, False],
}
"""Values that an option may have, or nearly."""


def options(random: Random, made: Strategy) -> bytes:
    """The text of a member's options: sound ones, nearly sound ones, and anything."""
    names = [*made.defaults()]
    if random.random() < 0.05 or not names:
        return random.choice(
            [b"[]", b"{", b"null", b"\xff", b"sha256:0", b"[" * 600, b"7" * 600, b'{"epsilon":NaN}', b""]
        )
    chosen = {}
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        name = random.choice(names) if random.random() < 0.9 else random.choice([*_SOUND, "protocol", "self", "eager"])
        sound = random.random() < 0.6 and name in _SOUND
        chosen[name] = random.choice(_SOUND[name]) if sound else _value(random)
    return json.dumps(chosen).encode()


def _many(random: Random) -> int:
    """Mostly few, sometimes many thousands."""
    return random.choice([0, 1, 1, 2, 3, 8]) if random.random() < 0.99 else int(10 ** random.uniform(1, 4.7))


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def _numbers(random: Random, topics: int) -> bytes:
    """Runs of partitions per topic, sound or not."""
    out = bytearray()
    for _ in range(max(0, topics + random.choice([0, 0, 0, 0, 1, -1]))):
        runs = _many(random) if topics < 9 else random.choice([0, 1, 1, 2])
        out += varint(random.choice([runs, runs, runs, 2**34, runs + 1]))
        pairs = [
            varint(random.choice([0, 0, 1, 5, 2**31, 2**35])) + varint(random.choice([0, 0, 1, 9, 2**23, 2**34]))
            for _ in range(min(runs, 8))
        ]
        out += b"".join(pairs) * max(1, runs // 8)
    return bytes(out)


def _text(random: Random, first: Sequence[Any]) -> tuple[bytes, int]:
    """JSON of a list of names, or nearly; and how many topics it has."""
    many = _many(random)
    topics: list[Any] = [random.choice(_NAMES[:6]) for _ in range(min(many, 8))] * max(1, many // 8)
    if random.random() < 0.05:
        topics.append(_value(random))
    listed = [*first, *topics]
    text = json.dumps(listed if random.random() < 0.97 else _value(random)).encode()
    return text, len(topics)


def _deflated(random: Random, content: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = packer.compress(content) + packer.flush()
    return data if random.random() < 0.97 else data[: random.randrange(len(data) + 1)]


def _of_compact(random: Random, options_text: bytes) -> bytes:
    """User data of `compact`, with a right checksum."""
    text, topics = _text(random, [random.choice([None, "r1", 7]), random.choice([None, "i"])])
    size = random.choice([len(text)] * 9 + [2**31])
    content = size.to_bytes(4, "big") + text + varint(random.choice([0, 1, 4, 2**31])) + _numbers(random, topics)
    body = _deflated(random, content)
    rest = len(options_text).to_bytes(2, "big") + options_text + body if options_text else body
    return bytes([2 if options_text else 1]) + zlib.crc32(rest).to_bytes(4, "big") + rest


def _weights(random: Random, head: bytes) -> bytes:
    """Weights, or costs of state, in the form of `carried.packed`."""
    text, topics = _text(random, ())
    top = random.choice(_FLOATS)
    numbers = bytearray()
    codes = 0
    for _ in range(topics):
        runs = random.choice([0, 1, 1, 2])
        numbers += varint(runs)
        for _ in range(runs):
            length = random.choice([1, 2, 3, 6, 9, 2**20]) if random.random() < 0.02 else random.choice([1, 3, 6])
            numbers += varint(random.choice([0, 0, 1])) + varint(length - 1)
            codes += length
    size = random.choice([len(text)] * 19 + [2**31])
    drawn = (random.randbytes(min(codes, 4096)) * (codes // 4096 + 1))[:codes]  # megabytes of chance take long to pack
    rest = drawn if random.random() < 0.97 else b"\xff" * random.choice([codes + 1, 2**21])
    return _deflated(random, head + struct.pack(">d", top) + size.to_bytes(4, "big") + text + bytes(numbers) + rest)


def _of_weighted(random: Random, options_text: bytes) -> bytes:
    """User data of `carried` in all of its versions, with a right checksum."""
    version = random.choice([1, 2, 2, 3, 3])
    head = struct.pack(">dBB", random.choice(_FLOATS), random.randrange(256), random.randrange(256))
    if version > 1:
        head += struct.pack(">qd", random.choice(_INTS), random.choice(_FLOATS))
    blocks = [_of_compact(random, options_text)]
    if version > 2:
        blocks += [_of_compact(random, b""), _weights(random, b"")]
    sizes = [random.choice([len(block)] * 19 + [2**32 - 1]) for block in blocks]
    rest = b"".join(size.to_bytes(4, "big") + block for size, block in zip(sizes, blocks, strict=True))
    rest += _weights(random, head if random.random() < 0.98 else head[:3])
    return bytes([version]) + carried._checksum(version, rest) + rest


def _claimed(random: Random) -> list[TopicPartition]:
    ids = random.choice([range(3), range(6), range(0), (0, 0), (-1, 2**31 - 1, -(2**31)), range(_many(random))])
    return [TopicPartition(random.choice(_NAMES[:4]), p) for p in ids]


def _damaged(random: Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(out) + 1)
        out[at : at + random.choice([0, 1, 1, 4, 40])] = random.choice(
            [b"", b"\xff", b"\0", b"\x7f\xff\xff\xff", b"\xff" * 4, random.randbytes(3)]
        )
    return bytes(out)


def user_data(random: Random, made: Strategy, options_text: bytes | None = None) -> bytes | None:
    """User data as a member of this strategy might send, or not.

    Args:
        random: Draws.
        made: The strategy.
        options_text: Its options; None: drawn.
    """
    options_text = (options(random, made) if random.random() < 0.6 else b"") if options_text is None else options_text
    generation = random.choice([-1, 0, 3, 4, 5, 2**31 - 1, -(2**31)])
    if isinstance(made, ByWork):
        data = _of_weighted(random, options_text)
    elif isinstance(made, CooperativeSticky):
        data = userdata.encode_cooperative(generation, options_text)
    elif isinstance(made, Sticky):
        data = userdata.encode_sticky(_claimed(random), generation, options_text)
        data = random.choice([data, data, data[:-4], b"\0\1" + data])
    elif made.name in userdata.JAVAS:
        data = random.randbytes(_many(random))
    else:
        data = _of_compact(random, options_text)
    if random.random() < 0.1:
        data = _damaged(random, data)
    return random.choice(
        [data] * 30 + [None, b"", random.randbytes(_many(random)), bytes([random.randrange(256)]) + data]
    )


def subscription(random: Random, data: bytes | None) -> Subscription:
    """A sound subscription with these user data; its claims, generation and rack are drawn."""
    topics = random.choice([("orders", "pay"), ("orders", "pay", "empty"), ("orders",), ("pay", "absent"), ()])
    owned = tuple(_claimed(random)) if random.random() < 0.4 else ()
    generation = random.choice([-1, 3, 4, 5, 2**31 - 1, -5])
    return Subscription(topics, data, owned, generation, random.choice([None, None, "r1", "", "\x1b[0m"]))


def honest(name: str, count: int = 3, **of: Any) -> list[bytes]:
    """Subscriptions of members that share all partitions of the topics."""
    made = strategy(name, **of)
    sent = []
    for m in range(count):
        owned = [TopicPartition(t, p) for t, n in TOPICS.items() for p in range(m, n, count)]
        claims = made.withholds
        data, _ = made.user_data(None if claims and made.name not in userdata.JAVAS else owned, 3)
        sent.append(
            encode_subscription(Subscription(("orders", "pay"), data, tuple(owned) if claims else (), 3, f"r{m % 2}"))
        )
    return sent
