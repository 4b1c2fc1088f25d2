"""Messages of a bridged member: taken, returned, finished, committed. Pure: no client, no clock, no thread.

A message passes through these states; each step is one method of `Delivery`:

=========  ===========================================================================================================
taken      the data plane has handed it to the bridge; the caller has not seen it
returned   the caller has it, and may be processing it
finished   the caller has asked for more, has committed, or has closed normally: it may be committed
asked      its offset is to be committed
sent       a commit of its offset is in flight
committed  the coordinator has accepted that commit
=========  ===========================================================================================================

The guarantee is at least once: an offset is committed only if the caller has finished every message below it that this
member took. Unfinished messages of a lost partition are forgotten, so the next owner reads them again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ...core.group import TopicPartition


class Delivery:
    """The messages and offsets of one member. Messages have the interface of confluent-kafka's.

    Attributes:
        messages: Taken and unfinished messages, in order; the data plane appends to it.
        returned: Number of `messages`, from the first, that the caller has. Set in the last statement before the
            return, because an earlier interrupt means that the caller never got them.
        finished: Partition -> the offset after the last finished message.
    """

    def __init__(self) -> None:
        self.owned: set[TopicPartition] = set()
        self.messages: list[Any] = []
        self.returned = 0
        self.finished: dict[TopicPartition, int] = {}
        self._asked: dict[TopicPartition, int] = {}
        self._sent: dict[TopicPartition, int] | None = None
        self._committed: dict[TopicPartition, int] = {}

    def gain(self, partitions: Iterable[TopicPartition]) -> None:
        """Add owned partitions."""
        self.owned.update(partitions)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Remove owned partitions, and forget their messages and offsets."""
        self.owned.difference_update(partitions)
        self.returned = sum(map(self._stays, self.messages[: self.returned]))
        self.messages[:] = filter(self._stays, self.messages)
        for offsets in (self.finished, self._asked, self._committed, self._sent or {}):
            for tp in partitions:
                offsets.pop(tp, None)

    def finish(self) -> None:
        """Mark the returned messages as finished."""
        done = self.messages[: self.returned]
        self.finished.update(_ends(done))
        # An interrupt between these two statements returns messages again. The other order would skip them.
        self.returned = 0
        del self.messages[: len(done)]

    def abandon(self) -> None:
        """Mark the returned messages as taken again, because the caller failed while processing them."""
        self.returned = 0

    def dropped(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Partition -> the offset to read again: an interrupted data plane drops the message that it hands out.

        `positions` has the offset after the last message handed out, if any. Correct for one message: one `poll`.
        """
        reached = self.finished | _ends(self.messages)
        return {tp: offset - 1 for tp, offset in positions.items() if offset > 0 and reached.get(tp) != offset}

    def ask(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Request a commit of offsets of owned partitions; earlier requests for other partitions remain."""
        self._asked.update({tp: offset for tp, offset in offsets.items() if tp in self.owned})

    def due(self, partitions: Collection[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Partition -> the offset to commit: requested, and not committed yet.

        With `partitions`: only of these, even while a commit is in flight. None: of all, or nothing while one is.
        """
        if partitions is None and self._sent is not None:
            return {}
        return {
            tp: offset
            for tp, offset in self._asked.items()
            if (partitions is None or tp in partitions) and self._committed.get(tp) != offset
        }

    def send(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Record that a commit is in flight."""
        self._sent = dict(offsets)

    def answered(self, accepted: bool) -> None:
        """Record the coordinator's answer to the commit in flight. Rejected offsets are due again."""
        sent, self._sent = self._sent, None
        if accepted and sent is not None:
            self._committed.update(sent)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Record a commit requested by the caller. The messages below its offsets are finished."""
        mine = {tp: offset for tp, offset in offsets.items() if tp in self.owned}
        busy = [message for message in self.messages[: self.returned] if not _below(message, mine)]
        rest = busy + self.messages[self.returned :]
        self.returned = len(busy)
        self.messages[:] = rest
        for offset_map in (self.finished, self._asked, self._committed):
            offset_map.update(mine)
        for tp in mine:
            (self._sent or {}).pop(tp, None)  # the coordinator processed that one earlier

    def _stays(self, message: Any) -> bool:
        return message.error() is not None or partition_of(message) in self.owned


def partition_of(message: Any) -> TopicPartition:
    """The partition of a message."""
    return TopicPartition(message.topic(), message.partition())


def _below(message: Any, offsets: Mapping[TopicPartition, int]) -> bool:
    return message.error() is None and message.offset() < offsets.get(partition_of(message), 0)


def _ends(messages: Iterable[Any]) -> dict[TopicPartition, int]:
    """Partition -> the offset after the last of these messages, ignoring errors."""
    return {partition_of(message): message.offset() + 1 for message in messages if message.error() is None}
