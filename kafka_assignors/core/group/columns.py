"""The claims of many members as columns: one array per field instead of one object per partition."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .indexed import Ints
from .values import Partitions


class Columns:
    """The claims of many members, as consecutive runs of partitions of one topic.

    Args:
        names: Distinct topic names.
        topic: int[R], each run's topic as an index into `names`.
        count: int[R], each run's length.
        ids: int[], the partition ids of all runs.
        runs: int[N + 1], the index of each member's first run, then R.
        strange: int[N], number of runs per member that were left out because of unknown topics.
    """

    __slots__ = ("bounds", "count", "ids", "names", "runs", "sizes", "strange", "topic")

    def __init__(
        self,
        names: Sequence[str],
        topic: Ints,
        count: Ints,
        ids: NDArray[np.integer],
        runs: Ints,
        strange: Ints | None = None,
    ) -> None:
        self.names, self.topic, self.count, self.ids, self.runs = names, topic, count, ids, runs
        self.strange: list[int] = [0] * (len(runs) - 1) if strange is None else strange.tolist()
        self.bounds = np.concatenate([[0], np.cumsum(count)])[runs]  # int[N + 1], where each member's ids begin
        self.sizes: list[int] = np.diff(self.bounds).tolist()  # number of ids per member


class Claimed(Partitions):
    """The claims of one member of `Columns`. The fields of `Partitions` are built on first access."""

    __slots__ = ("columns", "row")

    def __init__(self, columns: Columns, row: int) -> None:
        self.columns, self.row = columns, row
        self.strange, self.beyond = columns.strange[row], 0

    def among(self, topics: Container[str]) -> Partitions:  # noqa: ARG002 (others were never read)
        """Return self."""
        return self

    def __len__(self) -> int:
        return self.columns.sizes[self.row]

    def __getattr__(self, name: str) -> Any:
        if name not in Partitions.__slots__:
            raise AttributeError(name)
        columns = self.columns
        runs = slice(*columns.runs[self.row : self.row + 2].tolist())
        self.topics = [columns.names[t] for t in columns.topic[runs].tolist()]
        self.counts = columns.count[runs].tolist()
        self.ids = columns.ids[slice(*columns.bounds[self.row : self.row + 2].tolist())]
        return getattr(self, name)
