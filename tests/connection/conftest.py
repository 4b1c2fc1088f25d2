"""One secured broker for all tests of this folder, with a topic of records."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from kafka_assignors.connection import Connection
from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.broker.secured import Certificates, Secured
from kafka_assignors.integration.topics import create_topics
from tests.support.kafka_python.sent import sent

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
    create_topics(secured_broker.bootstrap, {"orders": 4})
    sent(secured_broker.bootstrap, "orders", [{"key": b"user-%d" % (n % 50), "value": b"x"} for n in range(200)])
    return "orders"


@pytest.fixture(scope="session")
def stranger(secured: Secured) -> Connection:
    """A user who may do nothing."""
    return secured.user("stranger")


@pytest.fixture
def user(secured: Secured) -> Callable[..., Connection]:
    """Make a new user with these rights."""
    return lambda *rights: secured.user(f"user-{next(_COUNTER)}", rights)
