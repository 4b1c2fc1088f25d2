"""Records what the Kafka consumer of a service does, and its producer's transactions, without a change to the service.

A process records if its environment variable `FILE` names a file. The events are those of
`kafka_assignors.history.events`, one JSON object per line, with the number of the consumer in its process (`consumer`).
They are written before the service goes on; records that are handed out quickly one by one are written together. The
harness adds them to the history.

The service's interpreter may lack kafka-assignors, and may be older, so this package uses the standard library of
Python 3.8 alone. It wraps methods of a client's classes as they are imported. A wrapper returns what the method returns
and raises what it raises. If the recorder itself fails, it says so once in its file and stops, and the service goes on.
"""

from __future__ import annotations

import os
import sys

from .imports import Wrapping
from .record import File

TYPE_CHECKING = False  # as in `record`
if TYPE_CHECKING:
    from typing import Any

FILE = "KAFKA_ASSIGNORS_RECORD"
GROUP = "KAFKA_ASSIGNORS_RECORD_GROUP"
LOG = "KAFKA_ASSIGNORS_RECORD_LOG"
"""Variable with the file that the process prints to; each event tells its length then."""


def install() -> None:
    """Record this process's consumers in the group that the environment names."""
    prefix, group = os.environ.get(FILE), os.environ.get(GROUP)
    if prefix and group:
        wrappers = _wrappers(File(prefix, os.environ.get(LOG)), group)
        sys.meta_path.insert(0, Wrapping(wrappers))
        for name, wrap in wrappers.items():
            if name in sys.modules:  # a .pth file has imported it
                wrap(sys.modules[name])


def _wrappers(file: File, group: str) -> dict[str, Any]:
    """Module of a client's -> what wraps it. A process imports the code for the clients that it uses."""

    def kafka_python(module: Any) -> None:
        from .kafka_python import wrap_coordinator

        wrap_coordinator(file, group, module)

    def kafka_python_consumer(module: Any) -> None:
        from .kafka_python import wrap_consumer

        wrap_consumer(module)

    def guard(module: Any) -> None:
        from .kafka_python import wrap_guard

        wrap_guard(module)

    def kafka_python_producer(module: Any) -> None:
        from .kafka_python import wrap_producer

        wrap_producer(file, group, module)

    def confluent(module: Any) -> None:
        from .confluent import wrap_consumer, wrap_producer

        wrap_consumer(file, group, module)
        wrap_producer(file, group, module)

    def aiokafka(module: Any) -> None:
        from .aiokafka import wrap_coordinator

        wrap_coordinator(file, group, module)

    def aiokafka_fetcher(module: Any) -> None:
        from .aiokafka import wrap_fetcher

        wrap_fetcher(module)

    def aiokafka_consumer(module: Any) -> None:
        from .aiokafka import wrap_consumer

        wrap_consumer(module)

    def aiokafka_producer(module: Any) -> None:
        from .aiokafka import wrap_producer

        wrap_producer(file, group, module)

    return {
        "kafka.coordinator.consumer": kafka_python,
        "kafka.consumer.group": kafka_python_consumer,
        "kafka.producer.kafka": kafka_python_producer,
        "kafka_assignors.clients.kafka_python.private.requests": guard,
        "confluent_kafka.cimpl": confluent,
        "aiokafka.consumer.group_coordinator": aiokafka,
        "aiokafka.consumer.fetcher": aiokafka_fetcher,
        "aiokafka.consumer.consumer": aiokafka_consumer,
        "aiokafka.producer.producer": aiokafka_producer,
    }
