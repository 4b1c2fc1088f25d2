"""Partitioners that leave some records to another partitioner."""

from __future__ import annotations

from typing import Any

from ..core.topic import TopicView
from .interface.partitioner import CheckedPartitioner
from .interface.record import Record


class FallbackPartitioner(CheckedPartitioner):
    """Places some records by another partitioner."""

    _fallback: Any = None

    def _fall_back(self, record: Record) -> int:
        self._last.placed_by = self._fallback
        chosen: int = self._fallback.partition(*record)
        return chosen

    def _fell_back(self) -> bool:
        """Whether this thread's last record went to the fallback."""
        return self._fallback is not None and getattr(self._last, "placed_by", None) is self._fallback

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        """Pass the event to the fallback if it placed the record."""
        hook = getattr(self._fallback, "on_new_batch", None)
        if hook is not None and self._fell_back():
            hook(topic, cluster, prev_partition)
        super().on_new_batch(topic, cluster, prev_partition)

    def choose_again(self, view: TopicView, previous: int) -> bool:
        """Whether the fallback placed the record, and is asked again; other records stay."""
        del view, previous
        return self._fell_back()
