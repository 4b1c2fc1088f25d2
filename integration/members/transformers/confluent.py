"""librdkafka's transforming member. Takes the path of its configuration.

It also prints ``records_taken`` before a batch's outputs are made, ``transaction_ending`` before it is committed, and
``rewound`` after it was aborted.

Since a node that restarts is missing from the metadata for a while, librdkafka 2.16.1 can wait for a coordinator that
it has forgotten (librdkafka#5511), and ``send_offsets_to_transaction`` doesn't return at its time limit (#5456). Our
member then goes on with a new producer, whose ``init_transactions`` aborts the open transaction and fences the old one.
So it does after a commit or an abort that was slow or ran out of time: a late copy could end the next transaction
(librdkafka#5423).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from itertools import count
from typing import Any

from ...errors import HarnessError
from ...history.author import AUTHOR
from ..clients.confluent import consume, main, settings
from ..clients.json_lines import say, text
from ..config import MemberConfig
from . import TRANSACTION_TIMEOUT_MS, WORK_MS, author

TIMEOUT_S = 15.0
RETRY_S = 0.1
OVERDUE_S = 5.0
"""How long after its time limit a call is given up."""


class CallOverdue(HarnessError):
    """A call of librdkafka's hasn't returned although its time limit has passed."""


def transactional(call: Callable[..., Any], *given: Any, timeout_s: float | None = None) -> None:
    """Make a transactional call, and repeat it while librdkafka calls its error ``retriable``, for `timeout_s` (15).

    Each error after which it is made again is reported.

    Raises:
        CallOverdue: It goes on 5 s after `timeout_s`. It is left in a thread of its own, which keeps the producer.
        KafkaException: The transaction must be aborted, or the producer is of no use any more, or time is up.
    """
    from confluent_kafka import KafkaException

    timeout_s = TIMEOUT_S if timeout_s is None else timeout_s
    outcome: Future[None] = Future()
    deadline = time.monotonic() + timeout_s

    def work() -> None:
        try:
            while True:
                try:
                    call(*given, max(0.0, deadline - time.monotonic()))
                    break
                except KafkaException as error:
                    if not error.args[0].retriable() or time.monotonic() > deadline:
                        raise
                    _survived(error)
            outcome.set_result(None)
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        outcome.result(timeout_s + OVERDUE_S)
    except NotDone:
        raise CallOverdue(
            f"{call.__name__} hasn't returned {OVERDUE_S:g} s after its limit of {timeout_s:g} s"
        ) from None


def _survived(error: Any) -> None:
    """Report an error after which the member goes on."""
    kafka_error = error.args[0]
    say("error", error=kafka_error.name(), message=kafka_error.str())


def _passes(error: Any) -> bool:
    """Whether a coordinator's error passes: it moves, loads or doesn't answer, or a transaction's end is on its way."""
    from confluent_kafka import KafkaError

    return error.args[0].code() in (
        KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._WAIT_COORD, KafkaError._ALL_BROKERS_DOWN,
        KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.UNSTABLE_OFFSET_COMMIT,
    )  # fmt: skip


class _Batches:
    """Records that were polled, until their transaction is over."""

    def __init__(self, config: MemberConfig, consumer: Any) -> None:
        self._config, self._consumer, self._producer = config, consumer, _producer(config)
        self._work_s = config.consumer.get(WORK_MS, 0) / 1000
        self._numbers = count(1)
        self._records: list[Any] = []
        self._membership: Any = None

    def add(self, record: Any) -> None:
        if not self._records:
            self._membership = self._consumer.consumer_group_metadata()
        self._records.append(record)
        key, value = text(record.key()), text(record.value())
        place = {"topic": record.topic(), "partition": record.partition(), "offset": record.offset()}
        say("record_data", key=key, value=value, **place)

    def finish(self) -> None:
        """Transform polled records and commit outputs and offsets together. Aborted records are read again."""
        from confluent_kafka import KafkaException, TopicPartition

        if not self._records:
            return
        number, records = next(self._numbers), self._records
        self._records = []
        ends = {(record.topic(), record.partition()): record.offset() + 1 for record in records}
        due = [TopicPartition(*place, offset) for place, offset in sorted(ends.items())]
        rows = [{"topic": tp.topic, "partition": tp.partition, "offset": tp.offset} for tp in due]
        say("records_taken")
        self._producer.begin_transaction()
        fields = {"offsets": rows, "transaction": number}
        headers = [(AUTHOR, author(self._config, number))]
        ending = False
        try:
            for record in records:
                self._producer.produce(self._config.output, record.value(), record.key(), headers=headers)
            time.sleep(self._work_s)
            say("transaction_ending", **fields)
            transactional(self._producer.send_offsets_to_transaction, due, self._membership)
            ending = True
            transactional(self._producer.commit_transaction)
        except (KafkaException, CallOverdue) as error:
            say("offsets_committed", **fields, success=False, error=str(error))
            self._abort(error, ending)
            self._rewind(due)
        else:
            say("offsets_committed", **fields, success=True)

    def _abort(self, error: Exception, ending: bool) -> None:
        """End a transaction that failed. `ending`: its commit was asked for, and may have been made."""
        from confluent_kafka import KafkaException

        if isinstance(error, KafkaException) and not (ending and error.args[0].retriable()):
            if not (error.args[0].txn_requires_abort() or error.args[0].retriable()):
                raise error
            try:
                transactional(self._producer.abort_transaction)
                return
            except KafkaException as again:
                if not again.args[0].retriable():
                    raise
                _survived(again)
            except CallOverdue:
                pass
        self._producer = _producer(self._config)

    def _rewind(self, taken: Iterable[Any]) -> None:
        from confluent_kafka import TopicPartition

        assignment = {(tp.topic, tp.partition) for tp in self._consumer.assignment()}
        mine = [TopicPartition(tp.topic, tp.partition) for tp in taken if (tp.topic, tp.partition) in assignment]
        rows = []
        for tp in self._committed(mine):
            tp.offset = max(tp.offset, 0)  # without a commit, restart at the beginning like `auto.offset.reset`
            self._consumer.seek(tp)
            rows.append({"topic": tp.topic, "partition": tp.partition, "offset": tp.offset})
        say("rewound", offsets=rows)

    def _committed(self, partitions: Sequence[Any]) -> Sequence[Any]:
        """The committed offsets, asked for as long as a transaction may be open while a coordinator is away."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + TRANSACTION_TIMEOUT_MS / 1000
        while True:
            try:
                offsets: Sequence[Any] = self._consumer.committed(partitions, TIMEOUT_S)
                # An offset with an error is none: to begin at 0 would make all outputs again.
                if (refused := next((tp.error for tp in offsets if tp.error is not None), None)) is None:
                    return offsets
                raise KafkaException(refused)
            except KafkaException as error:
                if not _passes(error) or time.monotonic() > deadline:
                    raise
                _survived(error)
                time.sleep(RETRY_S)


def run(config: MemberConfig, stop: threading.Event) -> None:
    """Transform until told to stop, then leave the group.

    Raises:
        KafkaException, CallOverdue: The client couldn't recover from it.
    """
    from confluent_kafka import Consumer

    own = settings(config)
    own.pop(WORK_MS.replace("_", "."), None)
    consumer = Consumer(own)
    consume(consumer, config.topics, _Batches(config, consumer), stop)


def _producer(config: MemberConfig) -> Any:
    """A producer whose predecessor, if any, is fenced and its open transaction aborted."""
    from confluent_kafka import Producer

    from kafka_assignors.confluent import TransactionalProducer

    class Waiting(Producer):
        def init_transactions(self, timeout: float) -> None:
            transactional(super().init_transactions, timeout_s=timeout)

    return TransactionalProducer(
        {
            **config.connection().librdkafka(),
            "client.id": config.member,
            "transactional.id": config.transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        },
        Waiting,
        init_timeout_s=TIMEOUT_S,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], run))
