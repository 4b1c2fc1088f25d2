"""A consumer service: sums up what each customer ordered. ``python billing.py localhost:9092``; SIGTERM stops it."""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable

from kafka import KafkaConsumer

from kafka_assignors import CooperativeStickyAssignor

ASSIGNORS = [CooperativeStickyAssignor]
"""What every instance lists. A test plays the same list in a group whose members crash."""


class Billing:
    """One instance; several share the topic's partitions.

    Args:
        bootstrap: ``host:port`` of a broker.
        topic: Orders: the key is the customer, the value the amount in cents.
        group: Instances of one group share the work.
        bill: Called with customer and amount before the order is committed. A crash in between bills that order again,
            so it must be safe to call twice.
    """

    def __init__(self, bootstrap: str, topic: str, group: str, bill: Callable[[str, int], None]) -> None:
        self._bill, self._stop = bill, threading.Event()
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            partition_assignment_strategy=ASSIGNORS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    def run(self) -> None:
        """Work until `stop` is called, then leave the group."""
        try:
            while not self._stop.is_set():
                records = self._consumer.poll(timeout_ms=200)
                for record in (record for batch in records.values() for record in batch):
                    self._bill(record.key.decode(), int(record.value))
                if records:
                    self._consumer.commit()
        finally:
            self._consumer.close()

    def stop(self) -> None:
        """End `run` after the batch that it works on; from any thread or signal handler."""
        self._stop.set()


def main(bootstrap: str) -> None:
    """Print the totals at the end."""
    totals: Counter[str] = Counter()

    def add(customer: str, cents: int) -> None:
        totals[customer] += cents

    service = Billing(bootstrap, "orders", "billing", add)
    signal.signal(signal.SIGTERM, lambda *_: service.stop())
    signal.signal(signal.SIGINT, lambda *_: service.stop())
    service.run()
    print(*(f"{customer}: {cents / 100:.2f}" for customer, cents in sorted(totals.items())), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
