"""The bridge for confluent-kafka, under the name that applications import (`clients.confluent`)."""

from __future__ import annotations

from .clients.confluent import BridgedConsumer, TransactionalProducer

__all__ = ["BridgedConsumer", "TransactionalProducer"]
