"""What Java's VerifiableConsumer has told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kafka_assignors.integration.members.coordinator_log import Joined
from kafka_assignors.integration.members.verifiable_process import EventTranslator


class Known:
    """What a coordinator log knows of one client: (ms, generation, whether the client is in it).

    Args:
        owns: It says that it owns something as it joins, whatever its assignor is called.
    """

    def __init__(self, *generations: tuple[int, int, bool], owns: bool = False) -> None:
        self._generations, self._owns = generations, owns

    def joined(self, client_id: str, at_ms: int) -> Joined | None:
        past = [row for row in self._generations if row[0] <= at_ms]
        mine = [row for row in past if row[2]]
        return Joined(mine[-1][1], "of-a-team", f"{client_id}-id", past[-1] != mine[-1], self._owns) if mine else None

    def mono_ns(self, ts_ns: int) -> int:
        return ts_ns - 7


def told(lines: Sequence[str], *known: tuple[int, int, bool], cooperative: bool = False) -> list[tuple[str, Any]]:
    telling = EventTranslator("j1", Known(*known, owns=cooperative))
    return [event for line in lines for event in telling.events(json.loads(line))]
