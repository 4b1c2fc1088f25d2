"""Log facts about a group when they are new."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from .core.group.facts import Fact

log = logging.getLogger("kafka_assignors")


class News:
    """Logs each fact once, as a warning of the logger ``kafka_assignors``; again if it returns after a break."""

    def __init__(self) -> None:
        self._told: frozenset[Fact] = frozenset()

    def tell(self, name: str, facts: Iterable[Fact]) -> None:
        """Log the facts of one assignment.

        Args:
            name: The assignor's name.
            facts: Its facts.
        """
        now = frozenset(facts)
        for fact in sorted(now - self._told, key=lambda fact: (fact.kind, fact.subject)):
            log.warning("%s: %s", name, fact)
        self._told = now
