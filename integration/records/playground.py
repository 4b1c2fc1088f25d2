"""A topic with records, and a group that reads them: something to look at on a broker to play with."""

from __future__ import annotations

import random
import threading
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from kafka_assignors import CooperativeStickyAssignor
from kafka_assignors.connection import Connection
from kafka_assignors.producers import DefaultPartitioner

from ..errors import HarnessError

TOPIC, PARTITIONS, GROUP, MEMBERS = "orders", 12, "billing", ("m1", "m2")
PER_S, CUSTOMERS = 20, 200
_READY_S = 60.0
_POLL_MS = 200


class Playground:
    """A producer with skewed keys, and two members of a group, on a broker where the topic exists.

    The members have our `CooperativeStickyAssignor` and their clients' default heartbeats and timeouts, and begin at
    the first record. The first of 200 keys has a sixth of the records, the second half as many as the first, the third
    a third (Zipf).
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ends = threading.Event()
        self._ready = {name: threading.Event() for name in MEMBERS}
        self._failure: KafkaError | None = None
        self._threads = [
            threading.Thread(target=self._run, args=work, daemon=True)
            for work in ((self._send, "producer"), *((self._read, name) for name in MEMBERS))
        ]

    def __enter__(self) -> Playground:
        """Start, and wait until each member has partitions. HarnessError after a minute, or if its client failed."""
        try:
            for thread in self._threads:
                thread.start()
            for name, ready in self._ready.items():
                if not ready.wait(_READY_S):
                    raise HarnessError(f"member {name} of group {GROUP} has no partitions after {_READY_S:g} s")
            self.check()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def check(self) -> None:
        """Raise the error that ended a client, as HarnessError."""
        if self._failure is not None:
            raise HarnessError(f"group {GROUP} ended: {type(self._failure).__name__}: {self._failure}")

    def _end(self) -> None:
        self._ends.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(_READY_S)

    def _run(self, work: Any, name: str) -> None:
        try:
            work(name)
        except KafkaError as error:
            self._failure = self._failure or error
            for ready in self._ready.values():
                ready.set()

    def _send(self, name: str) -> None:
        draws = random.Random(TOPIC)
        keys = [b"customer-%d" % n for n in range(1, CUSTOMERS + 1)]
        share = [1 / n for n in range(1, CUSTOMERS + 1)]
        number = 0
        with closing(
            KafkaProducer(**self._connection.kafka_python(), client_id=name, partitioner=DefaultPartitioner())
        ) as producer:
            while not self._ends.wait(1 / PER_S):
                producer.send(TOPIC, key=draws.choices(keys, share)[0], value=b'{"order": %d}' % number)
                number += 1

    def _read(self, name: str) -> None:
        config = {"client_id": name, "group_id": GROUP, "auto_offset_reset": "earliest"}
        with closing(
            KafkaConsumer(
                TOPIC,
                **self._connection.kafka_python(),
                **config,
                partition_assignment_strategy=[CooperativeStickyAssignor],
            )
        ) as consumer:
            while not self._ends.is_set():
                consumer.poll(timeout_ms=_POLL_MS)
                if consumer.assignment():
                    self._ready[name].set()
