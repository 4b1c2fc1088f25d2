"""Find the hash that placed a topic's keys, the records that lie elsewhere, and the effect of growth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..errors import ConfigError
from .keys.keyed import Index, check_count, preset_named

FAMILIES = ("java", "librdkafka", "sarama", "sarama-reference", "consistent")
"""One preset per distinct placement."""

NAMED_FROM = 0.75
"""Minimum agreement that identifies a hash. By chance one key in n agrees; the two of Sarama share up to 2/3."""

PlacedKey = tuple[int, bytes]
"""(partition, key) as found in the topic."""


class Audit(NamedTuple):
    """The result of an audit.

    `strays` are the first (partition, key) pairs that `preset` would have placed elsewhere.
    """

    partitions: int
    keys: int  # distinct (partition, key)
    agreement: dict[str, float]  # preset -> share of keys on the partition that it gives
    preset: str | None  # the one hash that explains them; None if none or several do
    strays: list[PlacedKey]
    stray_count: int


def audit(found: Iterable[PlacedKey], n: int, *, strays: int = 100) -> Audit:
    """Identify the hash that placed a topic's keys, and the records that lie elsewhere.

    Args:
        found: (partition, key) of records with a key. Duplicates count once, so that a key with many records has one
            vote.
        n: Number of the topic's partitions when they were written.
        strays: Maximum number of strays to list.

    Raises:
        ConfigError: `n` is not a positive int, or `found` is empty.

    Cost: O(bytes of keys), about 10 µs per key.

    >>> audit([(4, b"kafka"), (9, b"")], 12).preset
    'java'
    """
    check_count(n)
    votes = list(dict.fromkeys(found))
    if not votes:
        raise ConfigError("found no records with a key, so the hash can't be identified")
    places: dict[str, Index] = {name: preset_named(name).place for name in FAMILIES}
    agreement = {
        name: sum(place(key, n) == partition for partition, key in votes) / len(votes) for name, place in places.items()
    }
    best = max(agreement.values())
    winners = [name for name, share in agreement.items() if share == best]
    preset = winners[0] if best >= NAMED_FROM and len(winners) == 1 else None
    astray = [] if preset is None else [vote for vote in votes if places[preset](vote[1], n) != vote[0]]
    return Audit(n, len(votes), agreement, preset, astray[:strays], len(astray))


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
