"""Facts about a group, logged when they are news."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from .core.group.facts import Fact

log = logging.getLogger("kafka_assignors")


class News:
    """Logs each fact once, as a warning of the logger ``kafka_assignors``; again when it comes back after a break."""

    def __init__(self) -> None:
        self._told: frozenset[Fact] = frozenset()

    def tell(self, name: str, facts: Iterable[Fact]) -> None:
        """Tell what the assignor of that name found in one assignment.

        Args:
            name: Of the assignor.
            facts: What it found.
        """
        now = frozenset(facts)
        for fact in sorted(now - self._told, key=lambda fact: (fact.kind, fact.subject)):
            log.warning("%s: %s", name, fact)
        self._told = now
