"""Both services on a real broker. The fixtures come from kafka_assignors.pytest_plugin."""

import threading
import time
from collections import Counter

from billing import ASSIGNORS, Billing
from shop import Shop

from kafka_assignors.producers import partition_for_key

CUSTOMERS = ("alice", "bob", "carol", "dave", "eve")
DEADLINE_S = 60


def wait_until(holds, what):
    """Poll a condition; fail with its name at the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Running:
    """A Billing in a thread, with the totals that it billed."""

    def __init__(self, broker, topic):
        self.totals = Counter()
        self.service = Billing(broker.bootstrap, topic, f"billing-{topic}", self.bill)
        self.thread = threading.Thread(target=self.service.run)
        self.thread.start()

    def bill(self, customer, cents):
        """Add up."""
        self.totals[customer] += cents

    def stop(self):
        """Stop, and wait until it has left the group."""
        self.service.stop()
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()


def test_orders_of_a_customer_lie_where_java_puts_them(kafka_broker, kafka_topic):
    """The partition that the broker acknowledged."""
    shop = Shop(kafka_broker.bootstrap, kafka_topic(partitions=6))
    try:
        placed = {customer: shop.order(customer, 100) for customer in CUSTOMERS}
    finally:
        shop.close()

    assert placed == {customer: partition_for_key(customer.encode(), 6) for customer in CUSTOMERS}


def test_an_order_is_billed_once_also_when_an_instance_stops(kafka_broker, kafka_topic):
    """Two instances; one stops between two rounds of orders, and the other takes its partitions."""
    topic = kafka_topic(partitions=6)
    first, second = Running(kafka_broker, topic), Running(kafka_broker, topic)
    shop = Shop(kafka_broker.bootstrap, topic)

    def billed():
        return first.totals + second.totals

    try:
        for customer in CUSTOMERS:
            shop.order(customer, 100)
        wait_until(lambda: billed() == dict.fromkeys(CUSTOMERS, 100), "the first round was not billed once")
        second.stop()
        for customer in CUSTOMERS:
            shop.order(customer, 25)
        wait_until(lambda: billed() == dict.fromkeys(CUSTOMERS, 125), "the second round was not billed once")
    finally:
        shop.close()
        first.stop()
        second.stop()


def test_the_assignors_of_billing_survive_a_crash(kafka_group, kafka_topic):
    """Every law holds, and no partition is without an owner for longer than a session and a rebalance may take."""
    topic, group = kafka_topic(partitions=6), kafka_group()
    names = [assignor.name for assignor in ASSIGNORS]
    for member in ("m1", "m2", "m3"):
        group.start(member, [topic], names)
    group.wait_stable()
    group.step("an instance crashes", gap_ms=10_000)
    group.kill("m2")
    group.wait_stable()
