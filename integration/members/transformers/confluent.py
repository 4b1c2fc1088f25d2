"""librdkafka's transforming member. Takes the path of its configuration, as `members.clients.confluent` does.

It also prints ``records_taken`` before a batch's outputs are made, ``transaction_ending`` before it is committed, and
``rewound`` after it was aborted.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from itertools import count
from typing import Any

from ...history.author import AUTHOR
from ..clients.confluent import consume, main, settings
from ..clients.json_lines import say, text
from ..config import MemberConfig
from . import TRANSACTION_TIMEOUT_MS, WORK_MS, author

_TIMEOUT_S = 15.0


class _Batches:
    """Records that were polled, until their transaction is over."""

    def __init__(self, config: MemberConfig, consumer: Any, producer: Any) -> None:
        self._config, self._consumer, self._producer = config, consumer, producer
        self._work_s = config.consumer.get(WORK_MS, 0) / 1000
        self._numbers = count(1)
        self._records: list[Any] = []
        self._membership: Any = None

    def add(self, record: Any) -> None:
        """Report a record."""
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
        ends = {(each.topic(), each.partition()): each.offset() + 1 for each in records}
        due = [TopicPartition(*place, offset) for place, offset in sorted(ends.items())]
        rows = [{"topic": tp.topic, "partition": tp.partition, "offset": tp.offset} for tp in due]
        say("records_taken")
        self._producer.begin_transaction()
        for each in records:
            headers = [(AUTHOR, author(self._config, number))]
            self._producer.produce(self._config.output, each.value(), each.key(), headers=headers)
        time.sleep(self._work_s)
        say("transaction_ending", offsets=rows, transaction=number)
        told = {"offsets": rows, "transaction": number}
        try:
            self._producer.send_offsets_to_transaction(due, self._membership, _TIMEOUT_S)
            self._producer.commit_transaction(_TIMEOUT_S)
        except KafkaException as error:
            say("offsets_committed", **told, success=False, error=str(error))
            if not error.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(_TIMEOUT_S)
            self._rewind(due)
        else:
            say("offsets_committed", **told, success=True)

    def _rewind(self, taken: Iterable[Any]) -> None:
        from confluent_kafka import TopicPartition

        held = {(tp.topic, tp.partition) for tp in self._consumer.assignment()}
        mine = [TopicPartition(tp.topic, tp.partition) for tp in taken if (tp.topic, tp.partition) in held]
        rows = []
        for tp in self._consumer.committed(mine, _TIMEOUT_S):
            tp.offset = max(tp.offset, 0)  # without a commit, restart at the beginning like `auto.offset.reset`
            self._consumer.seek(tp)
            rows.append({"topic": tp.topic, "partition": tp.partition, "offset": tp.offset})
        say("rewound", offsets=rows)


def run(config: MemberConfig, stop: threading.Event) -> None:
    """Transform until told to stop, then leave the group.

    Raises:
        KafkaException: The client couldn't recover from it.
    """
    from confluent_kafka import Consumer, Producer

    own = settings(config)
    own.pop(WORK_MS.replace("_", "."), None)
    consumer = Consumer(own)
    producer = Producer(
        {
            **config.connection().librdkafka(),
            "client.id": config.member,
            "transactional.id": config.transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        }
    )
    producer.init_transactions(_TIMEOUT_S)
    consume(consumer, config.topics, _Batches(config, consumer, producer), stop)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], run))
