"""Topics by id: Java's hash code and order of a ``Uuid``, and the orders in which the broker's maps list them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence

from ...errors import ConfigError
from ..group.order import buckets_for, by_bucket, hash_code

_HALF = 1 << 64


class TopicIds:
    """The ids of a group's topics.

    Args:
        printed: topic -> its id as Kafka prints it, 22 characters of URL-safe base64.

    Raises:
        ConfigError: A text is not an id, or two topics have the same.
    """

    def __init__(self, printed: Mapping[str, str]) -> None:
        self._halves = {topic: _halves(topic, text) for topic, text in printed.items()}
        if len(set(self._halves.values())) < len(self._halves):
            raise ConfigError("topic_ids: two topics have the same id; each topic has its own")

    def rank(self, topic: str) -> tuple[int, int]:
        """Sort key of ``Uuid.compareTo``, which compares two signed 64-bit halves."""
        most, least = self._halves[topic]
        return _signed(most), _signed(least)

    def in_set(self, topics: Sequence[str]) -> list[str]:
        """The order of ``new HashSet(ids)``, whose `topics` are listed in their ``Set`` of names."""
        names = sorted(topics)
        names = [names[i] for i in by_bucket([hash_code(name) for name in names], buckets_for(len(names)))]
        return self._ordered(names, buckets_for(len(names)))

    def in_map(self, topics: Iterable[str]) -> list[str]:
        """The order of a ``HashMap`` by topic id, filled in the given order."""
        return self._ordered(list(topics), 16)

    def _ordered(self, topics: list[str], buckets: int) -> list[str]:
        codes = [_code(*self._halves[topic]) for topic in topics]
        return [topics[i] for i in by_bucket(codes, buckets)]


def _code(most: int, least: int) -> int:
    both = most ^ least
    return (both >> 32) ^ (both & 0xFFFFFFFF)


def _signed(half: int) -> int:
    return half - _HALF if half >= _HALF >> 1 else half


def _halves(topic: str, printed: str) -> tuple[int, int]:
    try:
        data = base64.urlsafe_b64decode(f"{printed}==")
    except (binascii.Error, ValueError, TypeError):
        data = b""
    if len(data) != 16:
        raise ConfigError(
            f"topic_ids[{topic!r}] must be a topic id as Kafka prints it, 22 characters of base64, not {printed!r}"
        )
    return int.from_bytes(data[:8], "big"), int.from_bytes(data[8:], "big")
