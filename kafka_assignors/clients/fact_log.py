"""A log of facts about a group: each fact once."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..output import printable

if TYPE_CHECKING:  # a member imports this file before it joins
    from ..core.group.facts import Fact

log = logging.getLogger("kafka_assignors")


class FactLog:
    """Logs each fact once, as a warning of the logger ``kafka_assignors``; again if an assignment lacked it since."""

    def __init__(self) -> None:
        self._logged: frozenset[Fact] = frozenset()

    def warn(self, name: str, facts: Iterable[Fact]) -> None:
        """Log the facts of one assignment that the previous one did not have; `name` is the assignor's."""
        now = frozenset(facts)
        for fact in sorted(now - self._logged, key=lambda fact: (fact.kind, fact.subject)):
            log.warning("%s: %s", name, printable(str(fact)))
        self._logged = now
