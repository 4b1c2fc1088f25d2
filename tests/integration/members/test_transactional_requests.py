"""kafka-python 3.0.12 forgets a transactional request whose coordinator refuses the connection.

Its caller, ``send_offsets_to_transaction`` or ``commit_transaction``, waits for the answer without a time limit. Our
transforming member keeps the request.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager

from kafka_assignors.integration.members.transformers.kafka_python import keep_requests

pytestmark = pytest.mark.source("apache/kafka Sender.maybeFindCoordinatorAndRetry")


class Unreachable:
    """A client of a cluster whose nodes all refuse the connection."""

    def __init__(self) -> None:
        self.cluster = SimpleNamespace()

    def await_ready(self, node: str, timeout_ms: int) -> bool:
        raise KafkaConnectionError(f"{node}: ECONNREFUSED")


def asked(coordinator: str | None, *, kept: bool = False) -> tuple[list[str], bool]:
    """Ask for a producer id, and let the sender work once: what waits to be sent then, and whether it was answered."""
    manager = TransactionManager("orders")
    manager._transaction_coordinator = coordinator
    answer: Any = manager.initialize_transactions()
    accumulator, client = SimpleNamespace(has_incomplete=False), Unreachable()
    if kept:
        keep_requests(client)
    Sender(client, None, accumulator, transaction_manager=manager)._maybe_send_pending_request()
    return sorted(type(request).__name__ for *_, request in manager._pending_requests), answer.is_done


def test_a_request_waits_while_its_coordinator_is_looked_up() -> None:
    assert asked(None) == (["FindCoordinatorHandler", "InitProducerIdHandler"], False)


def test_a_request_is_lost_when_its_coordinator_refuses_the_connection() -> None:
    """When this fails, kafka-python is mended, and our member need do nothing about it."""
    assert asked("coordinator-1") == (["FindCoordinatorHandler"], False)


def test_our_member_keeps_a_request_when_its_coordinator_refuses_the_connection() -> None:
    assert asked("coordinator-1", kept=True) == asked(None)
