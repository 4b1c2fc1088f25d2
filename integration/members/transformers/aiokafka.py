"""aiokafka's transforming member. Takes the path of its configuration, as `members.clients.aiokafka` does.

Its producer sends offsets under a group id alone, without member or generation (aiokafka#844), so a broker can't fence
an evicted member. Law X2 shows this.

Its consumer (0.14.0: OffsetFetch up to version 3) can't ask for stable offsets (KIP-447, version 7): the offsets of a
transaction are missing from the answer until the group's coordinator has the transaction's end. A commit returns before
that, long before if a coordinator is restarting, and a successor would begin at the older offsets. Our member keeps its
partitions until its committed offsets can be fetched.

After a commit that took as long as the client's request timeout, it goes on with a new producer: aiokafka sent the
commit again, and the first copy could end the next transaction (`docs/transactions.md`).
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from ...history.author import AUTHOR
from ..clients.aiokafka import AioMember, main, survivable
from ..clients.events import Writing, offset_rows
from ..config import MemberConfig
from ..control import Control
from . import TRANSACTION_TIMEOUT_MS, WORK_MS, author

SETTLE_S = 0.02
_REQUEST_TIMEOUT_MS = 40_000
"""aiokafka's default."""


class TransformingAioMember(AioMember):
    """An `AioMember` whose batches are transactions. Its configuration has an output topic."""

    def __init__(self, config: MemberConfig, writer: Writing, control: Control) -> None:
        given = dict(config.consumer)
        self._work_s = given.pop(WORK_MS, 0) / 1000
        super().__init__(replace(config, consumer={"isolation_level": "read_committed", **given}), writer, control)
        self._numbers = count(1)
        self._producer: Any = None
        self._given_up_s = float(config.connection().request_timeout or _REQUEST_TIMEOUT_MS) / 1000

    async def run(self) -> None:
        """Consume until SIGTERM, then leave the group. The producer starts before the member joins."""
        await self._start()
        try:
            await super().run()
        finally:
            await self._producer.stop()

    async def _start(self) -> None:
        """A new producer, whose start fences its predecessor."""
        self._producer = AIOKafkaProducer(
            **self._config.connection().aiokafka(),
            client_id=self._config.member,
            transactional_id=self._config.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        await self._producer.start()

    async def _take(self, polled: Mapping[Any, Sequence[Any]]) -> None:
        """Transform records and commit outputs and offsets together. Records of an aborted batch are read again."""
        self.consumed(polled)
        number = next(self._numbers)
        ends = {tp: records[-1].offset + 1 for tp, records in polled.items()}
        rows = offset_rows(ends)
        await self._producer.begin_transaction()
        headers = [(AUTHOR, author(self._config, number))]
        try:
            for record in (record for records in polled.values() for record in records):
                await self._producer.send(self._config.output, record.value, record.key, headers=headers)
            await asyncio.sleep(self._work_s)
            self.write("commit_begin", offsets=rows, transaction=number)
            await self._producer.send_offsets_to_transaction(ends, self._config.group)
            begun = time.monotonic()
            await self._producer.commit_transaction()
        except KafkaError as error:
            self.write("commit_fail", offsets=rows, error=f"{type(error).__name__}: {error}", transaction=number)
            await self._producer.abort_transaction()
            await self._rewind(ends)
        else:
            self.write("commit_ok", offsets=rows, transaction=number)
            if time.monotonic() - begun >= self._given_up_s:
                await self._producer.stop()
                await self._start()
            await self._settle(ends)

    async def _settle(self, ends: Mapping[Any, int]) -> None:
        """Wait until committed offsets can be fetched, at most as long as a transaction may be open."""
        deadline = time.monotonic() + TRANSACTION_TIMEOUT_MS / 1000
        for tp, end in sorted(ends.items()):
            while await self._committed(tp, deadline) < end:
                if time.monotonic() > deadline:
                    logging.warning("member %s: offset %d of %s isn't committed yet", self._config.member, end, tp)
                    return
                await asyncio.sleep(SETTLE_S)

    async def _rewind(self, taken: Mapping[Any, int]) -> None:
        starts = {}
        for tp in sorted(set(taken) & self._consumer.assignment()):
            starts[tp] = await self._committed(tp, time.monotonic() + TRANSACTION_TIMEOUT_MS / 1000)
            self._consumer.seek(tp, starts[tp])
        self.write("rewound", offsets=offset_rows(starts))

    async def _committed(self, tp: Any, deadline: float) -> int:
        """The committed offset, or 0. Asks again until the deadline while a coordinator is away."""
        while True:
            try:
                return await self._consumer.committed(tp) or 0
            except KafkaError as error:
                if not survivable(error) or time.monotonic() > deadline:
                    raise
                self.write("error", error=type(error).__name__, fatal=False, message=str(error))
                await asyncio.sleep(SETTLE_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], TransformingAioMember))
