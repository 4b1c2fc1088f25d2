"""A transactional producer of librdkafka's is replaced after a commit that may have been sent twice.

`tests/integration/live/test_late_end_txn.py` has the late commit itself, on a broker.
"""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_assignors.confluent import TransactionalProducer
from kafka_assignors.errors import ConfigError

CONFIG = {"bootstrap.servers": "b:1", "transactional.id": "billing", "socket.timeout.ms": 4000}
TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", False, True))
ABORTABLE = KafkaException(KafkaError(KafkaError._INCONSISTENT, "aborted", False, False, True))


class Made:
    """Makes producers whose next calls take `lasts_s` seconds, and raise `raises` in their order; counts them."""

    def __init__(self) -> None:
        self.now, self.lasts_s = 0.0, 0.0
        self.raises: list[KafkaException | None] = []
        self.calls: list[tuple[int, str]] = []
        self.count = 0

    def __call__(self, config: dict[str, Any]) -> Any:
        assert config == CONFIG
        self.count += 1
        made, number = self, self.count

        class Numbered:
            def __getattr__(self, name: str) -> Any:
                def call(*_: Any) -> None:
                    made.calls.append((number, name))
                    if name.endswith(("commit_transaction", "abort_transaction")):
                        made.now += made.lasts_s
                        if made.raises and (error := made.raises.pop(0)) is not None:
                            raise error

                return call

        return Numbered()


@pytest.fixture
def made() -> Made:
    return Made()


@pytest.fixture
def producer(made: Made) -> TransactionalProducer:
    return TransactionalProducer(CONFIG, made, clock=lambda: made.now)


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
@pytest.mark.parametrize(("lasts_s", "count"), [(3.9, 1), (4, 2)])
def test_an_end_that_took_as_long_as_the_socket_s_timeout_takes_a_new_producer(
    producer: TransactionalProducer, made: Made, end: str, lasts_s: float, count: int
) -> None:
    made.lasts_s = lasts_s
    producer.begin_transaction()
    getattr(producer, end)()
    producer.begin_transaction()

    assert made.count == count
    assert made.calls[-1] == (count, "begin_transaction")
    assert [name for _, name in made.calls].count("init_transactions") == count


def test_the_time_of_all_tries_counts(producer: TransactionalProducer, made: Made) -> None:
    """librdkafka wants the same call again after a time limit of the caller's."""
    made.lasts_s, made.raises = 1.5, [TIMED_OUT, TIMED_OUT, None]
    for _ in range(2):
        with pytest.raises(KafkaException):
            producer.commit_transaction(1.5)
    assert made.count == 1
    producer.commit_transaction(1.5)
    assert made.count == 2


def test_the_time_of_a_transaction_that_failed_does_not_count(producer: TransactionalProducer, made: Made) -> None:
    made.lasts_s, made.raises = 3, [ABORTABLE]
    with pytest.raises(KafkaException):
        producer.commit_transaction()
    producer.abort_transaction()
    assert made.count == 1


def test_the_default_limit_is_librdkafka_s(made: Made) -> None:
    producer = TransactionalProducer({**CONFIG, "socket.timeout.ms": 60_000}, lambda _: made(CONFIG))
    assert producer._given_up_s == TransactionalProducer({"transactional.id": "b"}, lambda _: made(CONFIG))._given_up_s


def test_a_producer_without_transactions_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'transactional.id' is missing"):
        TransactionalProducer({"bootstrap.servers": "b:1"})
