"""Log facts about a group when they are new."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from .core.group.facts import Fact

log = logging.getLogger("kafka_assignors")


class FactLog:
    """Logs each fact once, as a warning of the logger ``kafka_assignors``; again if it returns after a break."""

    def __init__(self) -> None:
        self._logged: frozenset[Fact] = frozenset()

    def warn(self, name: str, facts: Iterable[Fact]) -> None:
        """Log the facts of one assignment.

        Args:
            name: The assignor's name.
            facts: Its facts.
        """
        now = frozenset(facts)
        for fact in sorted(now - self._logged, key=lambda fact: (fact.kind, fact.subject)):
            log.warning("%s: %s", name, fact)
        self._logged = now
