"""A partitioner that places by key if it has a key placement, and otherwise by each topic's own rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.keys.murmur2 import as_bytes
from ...core.rule import Rule
from ...core.topic import TopicView
from .counters import Counters
from .metadata import KeyPlacement, TopicCache
from .partitioner import CheckedPartitioner, OnChoice
from .record import RECORD_OVERHEAD_BYTES, Record
from .topic_rule import TopicRule


class RulePartitioner(CheckedPartitioner):
    """Records with a key by `_keys`, if a subclass defines it; all others by the rule that each topic owns.

    A subclass with its own `choose` is asked for every record, as with `CheckedPartitioner`, and may delegate records
    to ``super().choose``.
    """

    _empty_is_null = False
    """Whether an empty key counts as no key."""
    _null_is_empty = False
    """Whether a record without a key is placed like an empty key."""

    def __init__(
        self, make_rule: Callable[[], Rule], *, on_choice: OnChoice | None = None, counters: Counters | None = None
    ) -> None:
        cls = type(self)
        self._make_rule = make_rule
        self._by_choose = (
            cls.choose is not RulePartitioner.choose or cls.choose_again is not CheckedPartitioner.choose_again
        )
        super().__init__(on_choice=on_choice, counters=counters)
        self._cached = self._topics.cached

    def _new_cache(self) -> TopicCache:
        return TopicCache(self._make_rule, self._keys, leaders=self.needs_leaders, by_choose=self._by_choose)

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int:
        """The partition of one record: kafka-python's interface."""
        # Inlined, because each call is a tenth of the total. Rules and key placements are our own and need no
        # validation.
        try:
            cached = self._cached[topic]
            current = cached.source is cluster._partitions[topic]
        except (KeyError, AttributeError):  # the first record of a topic, or another type of cluster
            current = False
        if not current:
            cached = self._topics.read(topic, cluster)
        place = cached.place
        if place is not None and (serialized_key or not (serialized_key is None or self._empty_is_null)):
            try:
                memo = cached.memo
                chosen = None if memo is None else memo.get(serialized_key)
                if chosen is None:
                    chosen = place(serialized_key, cached.n)
            except (TypeError, ValueError):  # not bytes; a writable memoryview is not hashable
                chosen = place(as_bytes(serialized_key), cached.n)
        elif place is not None and serialized_key is None and self._null_is_empty:
            chosen = place(b"", cached.n)
        elif cached.rule is None:  # a subclass overrides `choose`
            return super().partition(topic, key, serialized_key, value, serialized_value, cluster)
        else:
            if not cached.all_led:
                cached = self._topics.with_leaders(topic, cluster)
            size = RECORD_OVERHEAD_BYTES + len(serialized_key or b"") + len(serialized_value or b"")
            previous = self._previous(topic, size) if self._again and serialized_key is None else None
            if previous is not None:
                chosen = cached.owned.choose_again(cached.view, size, previous)
            elif cached.lock is None:
                chosen = cached.rule.choose(cached.view, size)
            else:
                with cached.lock:
                    chosen = cached.rule.choose(cached.view, size)
            leader_ids = cached.leader_ids
            if (
                leader_ids is not None
                and cached.source[chosen].leader_id != leader_ids[chosen]
                and cached.lost_leader(chosen)
            ):
                chosen = cached.owned.choose(self._topics.read(topic, cluster).view, size)
        if self._observed:
            self._note(topic, serialized_key, serialized_value, chosen)
        return chosen

    def choose(self, view: TopicView, record: Record) -> object:
        """The default for a subclass with its own `choose`: by key, else by rule."""
        placed_by = self._last.placed_by = self._placement(view, record)
        if isinstance(placed_by, KeyPlacement):
            key = b"" if record.serialized_key is None else as_bytes(record.serialized_key)
            return placed_by.place(key, placed_by.n)
        return placed_by.choose(view, record.size)

    def _placement(self, view: TopicView, record: Record) -> KeyPlacement | TopicRule:
        key = record.serialized_key
        keyless = not self._null_is_empty if key is None else self._empty_is_null and not len(key)
        keys = None if keyless else self._keys(view)
        rule: TopicRule = self._topics.rule(view.topic)
        return rule if keys is None else keys

    def _placed_by(self, record: Record) -> object:
        if self._by_choose:
            return super()._placed_by(record)
        return self._placement(self._cached[record.topic].view, record)

    def _keys(self, view: TopicView) -> KeyPlacement | None:
        """The placement of one topic's keys, for subclasses that have one."""
        del view
        return None
