"""A real broker: a child JVM, a server within one, a container, or one that already runs. All are a `Broker`.

>>> with start_broker() as broker:                                          # doctest: +SKIP
...     KafkaConsumer(bootstrap_servers=broker.bootstrap)
"""

from __future__ import annotations

from .broker import Broker
from .settings import KAFKA_VERSION
from .start import BACKENDS, start_broker

__all__ = ["BACKENDS", "KAFKA_VERSION", "Broker", "start_broker"]
