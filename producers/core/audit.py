"""Find the hash that placed a topic's keys, the records that lie elsewhere, and the effect of growth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ..errors import ConfigError
from .keys.keyed import check_count, preset_named

FAMILIES: Mapping[str, str] = {
    "java": "Java, kafka-python, aiokafka, franz-go, KafkaJS",
    "librdkafka": "librdkafka, confluent-kafka",
    "sarama": "Sarama",
    "sarama-reference": "Sarama's NewReferenceHashPartitioner",
    "franz-go-sarama": "franz-go's SaramaHasher",
    "kafkajs-legacy": "KafkaJS 1",
    "consistent": "no other client: jump hash",
}
"""One preset per distinct placement -> the clients that place so."""

NAMED_FROM = 0.75
"""The agreement that identifies a hash. By chance one key in n agrees; two forms of FNV-1a share up to 3/4 (n = 4)."""

_PROBES = [b"probe-%d" % i for i in range(64)]
"""Two hashes that place all of these alike on n partitions do so for every key, but for a chance below 1e-11."""

PlacedKey = tuple[int, bytes]
"""(partition, key) as found in the topic."""


class Stray(NamedTuple):
    """A key with records where the topic's hash doesn't place it."""

    partition: int
    key: bytes
    records: int  # that lie there
    expected: int  # the partition that the topic's hash gives
    presets: tuple[str, ...]  # those that place the key where it lies


class Audit(NamedTuple):
    """The result of an audit; `strays` are the first keys with records that `preset` would have placed elsewhere."""

    partitions: int
    keys: int  # distinct
    agreement: dict[str, float]  # preset -> share of a key's records on the partition that it gives, mean of all keys
    preset: str | None  # the one hash that explains them; None if none or several do
    alike: tuple[str, ...]  # other presets, which place every key as `preset` does on so many partitions
    strays: list[Stray]
    stray_count: int  # distinct (partition, key)
    stray_records: int
    elsewhere: dict[str, int]  # preset -> number of all strays that lie where it places them


def audit(placements: Iterable[PlacedKey], n: int, *, strays: int = 100) -> Audit:
    """Identify the hash that placed a topic's keys, and the records that lie elsewhere.

    Args:
        placements: (partition, key) of each record with a key. A key with many records has one vote, divided by where
            they lie.
        n: Number of the topic's partitions when they were written.
        strays: Maximum number of strays to list.

    Raises:
        ConfigError: `n` is not a positive int, or `placements` is empty.

    Cost: O(bytes of keys), about 20 µs per key.

    >>> audit([(4, b"kafka"), (9, b"")], 12).preset
    'java'
    >>> audit([(4, b"kafka"), (4, b"a"), (8, b"b"), (5, b"d"), (3, b"c")], 12).strays
    [Stray(partition=3, key=b'c', records=1, expected=10, presets=('librdkafka',))]
    """
    check_count(n)
    of_places = Counter(placements)
    if not of_places:
        raise ConfigError("found no records with a key, so the hash can't be identified")
    agrees = {name: _agreement(name, n) for name in FAMILIES}
    of_keys: Counter[bytes] = Counter()
    for (_, key), count in of_places.items():
        of_keys[key] += count
    shares = {place: count / of_keys[place[1]] for place, count in of_places.items()}
    agreement = {
        name: min(1.0, math.fsum(share for place, share in shares.items() if agree(*place)) / len(of_keys))
        for name, agree in agrees.items()
    }
    best = max(agreement.values())
    first, *others = (name for name, share in agreement.items() if share == best)
    named = best >= NAMED_FROM and n > 1 and all(_alike(first, other, n) for other in others)
    preset = first if named else None
    astray = [] if preset is None else [place for place in of_places if not agrees[preset](*place)]
    places = {place: tuple(name for name, agree in agrees.items() if agree(*place)) for place in astray}
    listed = [
        Stray(*place, of_places[place], preset_named(first).place(place[1], n), places[place])
        for place in astray[:strays]
    ]
    counts = Counter(name for presets in places.values() for name in presets)
    elsewhere = dict(sorted(counts.items(), key=lambda pair: -pair[1]))
    records = sum(of_places[place] for place in astray)
    alike = tuple(others) if named else ()
    return Audit(n, len(of_keys), agreement, preset, alike, listed, len(astray), records, elsewhere)


def _agreement(name: str, n: int) -> Callable[[int, bytes], bool]:
    """(partition, key) -> whether a preset puts the key on that partition."""
    preset = preset_named(name)

    def agrees(partition: int, key: bytes) -> bool:
        # a client for which an empty key is none puts it anywhere
        return preset.place(key, n) == partition or (preset.empty_is_null and not key)

    return agrees


def _alike(name: str, other: str, n: int) -> bool:
    """Whether two presets place every key alike on so many partitions, as FNV-1a's do if n is a power of two."""
    one, two = preset_named(name).place, preset_named(other).place
    return all(one(key, n) == two(key, n) for key in _PROBES)


def growth(keys: Sequence[bytes], n: int, m: int) -> Mapping[str, float]:
    """The share of keys that would lie on another partition after a topic has grown.

    Args:
        keys: The topic's keys, or similar ones.
        n: Current number of partitions.
        m: Future number of partitions.

    Returns:
        preset -> share from 0 to 1. A hash taken modulo moves half of the keys from 6 to 12 partitions and 6 of 7 from
        6 to 7; ``"consistent"`` moves (m - n) / m. With ``KeyHashPartitioner(modulus=n)`` none move.

    Raises:
        ConfigError: `n` or `m` is not a positive int, or there are no keys.
    """
    check_count(n, "n (current partitions)")
    check_count(m, "m (partitions after the change)")
    if not keys:
        raise ConfigError("growth needs at least one key")
    shares = {}
    for name in FAMILIES:
        place = preset_named(name).place
        shares[name] = sum(place(key, n) != place(key, m) for key in keys) / len(keys)
    return shares
