"""A producer service: one order per line of standard input. ``echo 'alice 1250' | python shop.py localhost:9092``."""

from __future__ import annotations

import sys

from kafka import KafkaProducer

from kafka_assignors.producers import DefaultPartitioner


class Shop:
    """Places orders; all orders of a customer lie in one partition, the one where Java's producer puts that key.

    Args:
        bootstrap: ``host:port`` of a broker.
        topic: Where orders go.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, partitioner=DefaultPartitioner())

    def order(self, customer: str, cents: int) -> int:
        """Send an order and wait until the broker has it; returns its partition."""
        sent = self._producer.send(self._topic, key=customer.encode(), value=str(cents).encode())
        return int(sent.get(timeout=10).partition)

    def close(self) -> None:
        """Send what is left."""
        self._producer.close()


def main(bootstrap: str) -> None:
    """Orders from standard input: customer and cents."""
    shop = Shop(bootstrap, "orders")
    try:
        for line in sys.stdin:
            customer, cents = line.split()
            shop.order(customer, int(cents))
    finally:
        shop.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
