"""What Java's VerifiableConsumer has told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.integration.members.coordinator_log import Joined
from kafka_assignors.integration.members.verifiable_process import EventTranslator


class Known:
    """What a coordinator log knows of one client: (ms, generation, whether the client is in it).

    Args:
        owns: It says that it owns something as it joins, whatever its assignor is called.
        epochs: (ms, epoch) of the client while its group was a KIP-848 group.
    """

    def __init__(
        self, *generations: tuple[int, int, bool], owns: bool = False, epochs: Sequence[tuple[int, int]] = ()
    ) -> None:
        self._generations, self._owns, self._epochs = generations, owns, epochs

    def joined(self, client_id: str, at_ms: int) -> Joined | None:
        past = [row for row in self._generations if row[0] <= at_ms]
        mine = [row for row in past if row[2]]
        return Joined(mine[-1][1], "of-a-team", f"{client_id}-id", past[-1] != mine[-1], self._owns) if mine else None

    def reconciled(self, client_id: str, at_ms: int, owned_partitions: frozenset[TopicPartition]) -> Joined | None:
        past = [epoch for ms, epoch in self._epochs if ms <= at_ms]
        return Joined(past[-1], "", f"{client_id}-id", False, True) if past else None

    def mono_ns(self, ts_ns: int) -> int:
        return ts_ns - 7


def told(
    lines: Sequence[str],
    *generations: tuple[int, int, bool],
    cooperative: bool = False,
    epochs: Sequence[tuple[int, int]] = (),
) -> list[tuple[str, Any]]:
    telling = EventTranslator("j1", Known(*generations, owns=cooperative, epochs=epochs))
    return [event for line in lines for event in telling.events(json.loads(line))]
