"""kafka-python's transforming member. Takes the path of its configuration, as `members.clients.kafka_python` does."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.structs import OffsetAndMetadata

from ...history.author import AUTHOR
from ..clients.events import Writing, offset_rows
from ..clients.kafka_python import KafkaPythonMember, main
from ..config import MemberConfig
from ..control import Control
from . import TRANSACTION_TIMEOUT_MS, WORK_MS, author

RETRY_S = 0.1


def keep_requests(client: Any) -> None:
    """Keep a producer's transactional request when its coordinator refuses the connection.

    kafka-python 3.0.12 then looks the coordinator up and forgets the request (``Sender._maybe_send_pending_request``,
    where ``await_ready`` raises), and its caller waits for the answer without a time limit. If ``await_ready`` returns
    False instead, the request is sent to the coordinator that is found, as Java does.

    `client` is the private one of the producer's sender: no public setting distinguishes the two cases.
    """
    await_ready = client.await_ready

    def ready(node_id: Any, timeout_ms: int = 30_000) -> bool:
        try:
            return bool(await_ready(node_id, timeout_ms=timeout_ms))
        except KafkaConnectionError:
            return False

    client.await_ready = ready


class TransformingMember(KafkaPythonMember):
    """A `KafkaPythonMember` whose batches are transactions. Its configuration has an output topic."""

    def __init__(self, config: MemberConfig, writer: Writing, control: Control) -> None:
        given = dict(config.consumer)
        self._work_s = given.pop(WORK_MS, 0) / 1000
        super().__init__(replace(config, consumer={"isolation_level": "read_committed", **given}), writer, control)
        self._numbers = count(1)
        self._producer: Any = None

    def run(self) -> None:
        """Consume until SIGTERM, then leave the group. The producer starts before the member joins."""
        try:
            self._begin()
            super().run()
        finally:
            if self._producer is not None:
                self._producer.close(timeout=5)

    def _begin(self) -> None:
        """Start a new producer, at first and after an abort.

        kafka-python 3.0.12 keeps the offsets of a transaction whose commit was refused
        (``_pending_txn_offset_commits``) and commits them with the next one, although other members have continued from
        there.
        """
        if self._producer is not None:
            self._producer.close(timeout=5)
        self._producer = KafkaProducer(
            **self._config.connection().kafka_python(),
            client_id=self._config.member,
            transactional_id=self._config.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
        keep_requests(self._producer._sender._client)
        self._retried(self._producer.init_transactions)

    def _retried(self, call: Callable[..., Any], *given: Any) -> Any:
        """Call, and again after errors that kafka-python calls retriable, as long as a transaction may be open."""
        deadline = time.monotonic() + TRANSACTION_TIMEOUT_MS / 1000
        while True:
            try:
                return call(*given)
            except KafkaError as error:
                if not error.retriable or time.monotonic() > deadline:
                    raise
                self.write("error", error=type(error).__name__, fatal=False, message=str(error))
                time.sleep(RETRY_S)

    def take(self, polled: Mapping[Any, Sequence[Any]]) -> None:
        """Transform records and commit outputs and offsets together. Records of an aborted batch are read again."""
        membership = self._consumer.group_metadata()
        self.consumed(polled)
        number = next(self._numbers)
        offsets = {tp: OffsetAndMetadata(records[-1].offset + 1, "", -1) for tp, records in polled.items()}
        rows = offset_rows({tp: o.offset for tp, o in offsets.items()})
        self._producer.begin_transaction()
        headers = [(AUTHOR, author(self._config, number))]
        try:
            for record in (record for records in polled.values() for record in records):
                self._producer.send(self._config.output, record.value, record.key, headers)
            time.sleep(self._work_s)
            self.write("commit_begin", offsets=rows, transaction=number)
            self._producer.send_offsets_to_transaction(offsets, membership)
            self._producer.commit_transaction()
        except KafkaError as error:
            # Not fatal: the generation is over, or a coordinator is away.
            self.write("commit_fail", offsets=rows, error=f"{type(error).__name__}: {error}", transaction=number)
            self._retried(self._producer.abort_transaction)
            self._begin()
            self._rewind(offsets)
        else:
            self.write("commit_ok", offsets=rows, transaction=number)

    def _rewind(self, taken: Mapping[Any, OffsetAndMetadata]) -> None:
        ends = {}
        for tp in sorted(set(taken) & self._consumer.assignment()):
            ends[tp] = self._retried(self._consumer.committed, tp) or 0
            self._consumer.seek(tp, ends[tp])
        self.write("rewound", offsets=offset_rows(ends))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], TransformingMember))
