"""Hot keys: keys above their share of records, split over several partitions."""

from __future__ import annotations

from ...errors import ConfigError

_WINDOW = 10_000  # records after which old counts are halved; larger if needed to tell shares apart
_SAMPLE = 10  # records of a key exactly at its share: fewer are not significant


class HotKeys:
    """Detects the hot keys of one topic, and splits each over two or more partitions.

    Args:
        share: A key is hot while it has more than this share (0 to 1) of the recent records.
        ways: Number of partitions that a hot key is split over.

    **The records of a hot key lose their order**, because they are on several partitions. Other keys are not split.

    Not thread-safe: the caller holds a lock.

    Cost: O(1) per record on average; at most 2 / share keys are counted.
    Source: Misra and Gries 1982 (frequent items), Azar et al. 1994 (the less loaded of several choices).
    """

    __slots__ = ("_counts", "_enough", "_limit", "_placed", "_seen", "_window", "share", "ways")

    def __init__(self, share: float, ways: int = 2) -> None:
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < 1:
            raise ConfigError(f"hot_share must be a number between 0 and 1, not {share!r}")
        if type(ways) is not int or ways < 2:
            raise ConfigError(f"hot_ways must be an int of at least 2, not {ways!r}")
        self.share, self.ways = share, ways
        self._limit = int(2 / share) + 1
        self._enough = _SAMPLE / share
        self._window = max(_WINDOW, 2 * self._enough)  # so that half of it is enough
        self._counts: dict[bytes, float] = {}
        self._seen = 0.0
        self._placed: dict[int, float] = {}  # place -> recent records of hot keys

    def place(self, key: bytes, home: int, n: int) -> int:
        """The place of a key's next record, 0..n-1: `home`, which its hash gives.

        For a hot key, the place with the fewest hot records among the `ways` places from `home` on.
        """
        self._count(key)
        if not self._is_hot(key):
            return home
        places = [(home + i) % n for i in range(min(self.ways, n))]
        chosen = min(places, key=lambda place: self._placed.get(place, 0))
        self._placed[chosen] = self._placed.get(chosen, 0) + 1
        return chosen

    def take_back(self, key: bytes, place: int) -> None:
        """Undo a record placed on `place`, because the client rejected it."""
        if self._is_hot(key):
            self._placed[place] = max(self._placed.get(place, 0) - 1, 0)
        self._seen = max(self._seen - 1, 0)
        count = self._counts.get(key)
        if count is None:  # it was a new key, which decremented all counts
            self._counts = {k: c + 1 for k, c in self._counts.items()}
        elif count > 1:
            self._counts[key] = count - 1
        else:
            del self._counts[key]

    def _is_hot(self, key: bytes) -> bool:
        return self._seen >= self._enough and self._counts.get(key, 0) > self.share * self._seen

    def _count(self, key: bytes) -> None:
        self._seen += 1
        if key in self._counts or len(self._counts) < self._limit:
            self._counts[key] = self._counts.get(key, 0) + 1
        else:  # Misra-Gries: a new key decrements all counts
            self._counts = {k: c - 1 for k, c in self._counts.items() if c > 1}
        if self._seen >= self._window:
            self._seen /= 2
            self._counts = {k: c / 2 for k, c in self._counts.items()}
            self._placed = {place: count / 2 for place, count in self._placed.items()}
