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


_OF_MODULES: dict[str, Any] = {
    "kafka.coordinator.consumer": ("kafka_python", True, "wrap_coordinator"),
    "kafka.consumer.group": ("kafka_python", False, "wrap_consumer"),
    "kafka.producer.kafka": ("kafka_python", True, "wrap_producer"),
    "kafka_assignors.clients.kafka_python.private.requests": ("kafka_python", False, "wrap_guard"),
    "confluent_kafka.cimpl": ("confluent", True, "wrap_consumer", "wrap_producer"),
    "aiokafka.consumer.group_coordinator": ("aiokafka", True, "wrap_coordinator"),
    "aiokafka.consumer.fetcher": ("aiokafka", False, "wrap_fetcher"),
    "aiokafka.consumer.consumer": ("aiokafka", False, "wrap_consumer"),
    "aiokafka.producer.producer": ("aiokafka", True, "wrap_producer"),
}
"""Module of a client's -> ours, whether its functions get file and group too, and the functions that wrap it."""


def _wrappers(file: File, group: str) -> dict[str, Any]:
    """Module of a client's -> what wraps it. A process imports the code for the clients that it uses."""

    def wrapper(ours: str, placed: bool, *functions: str) -> Any:
        def wrap(module: Any) -> None:
            from importlib import import_module

            for function in functions:
                getattr(import_module(f".{ours}", __name__), function)(*(file, group) * placed, module)

        return wrap

    return {name: wrapper(*how) for name, how in _OF_MODULES.items()}
