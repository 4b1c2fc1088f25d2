"""One secured broker for all tests of this folder, with a topic of records."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from kafka_assignors.connection import Connection
from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.broker.secured import Certificates, Secured
from kafka_assignors.integration.topics import create_topics

_COUNTER = itertools.count()


@pytest.fixture(scope="session")
def secured_broker() -> Iterator[Broker]:
    with start_broker(certificates=Certificates()) as started:
        yield started


@pytest.fixture(scope="session")
def secured(secured_broker: Broker) -> Secured:
    assert secured_broker.secured is not None
    return secured_broker.secured


@pytest.fixture(scope="session")
def orders(secured_broker: Broker) -> str:
    """A topic with records of 50 keys on 4 partitions, as Java places them."""
    from kafka import KafkaProducer

    create_topics(secured_broker.bootstrap, {"orders": 4})
    producer = KafkaProducer(bootstrap_servers=secured_broker.bootstrap)
    for i in range(200):
        producer.send("orders", key=b"user-%d" % (i % 50), value=b"x")
    producer.flush()
    producer.close()
    return "orders"


@pytest.fixture(scope="session")
def stranger(secured: Secured) -> Connection:
    """A user who may do nothing."""
    return secured.user("stranger")


@pytest.fixture
def user(secured: Secured) -> Callable[..., Connection]:
    """Make a new user with these rights."""
    return lambda *rights: secured.user(f"user-{next(_COUNTER)}", rights)
