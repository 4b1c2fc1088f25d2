"""A transactional producer of librdkafka's that is replaced where a late copy of its commit could end the next one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer

from ...errors import ConfigError

_SOCKET_TIMEOUT_MS = 60_000
"""librdkafka's default of ``socket.timeout.ms``: after it, a request is sent again."""
_FOREVER = -1.0


class TransactionalProducer:
    """A confluent-kafka ``Producer`` for transactions. All of its methods are here, too; `producer` is the one in use.

    librdkafka sends EndTxn again if its answer doesn't come in ``socket.timeout.ms``, and the first copy may reach the
    broker when the next transaction has begun: it would end that one (`docs/transactions.md`). So a producer whose
    commit or abort took as long is replaced by a new one of the same ``transactional.id``, whose ``init_transactions``
    makes the broker refuse the late copy. The caller keeps this object, and sees a longer commit.

    Args:
        config: As for ``Producer``, with ``transactional.id``.
        make: Makes a producer of `config`.
        init_timeout_s: Time limit of ``init_transactions`` in seconds, for the first producer and each new one.

    Raises:
        ConfigError: `config` has no ``transactional.id``.
        KafkaException: ``init_transactions`` failed.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        make: Callable[[dict[str, Any]], Any] = Producer,
        *,
        init_timeout_s: float = 60,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not config.get("transactional.id"):
            raise ConfigError("'transactional.id' is missing: a producer without one has no transactions")
        self._config, self._make, self._init_timeout_s, self._clock = dict(config), make, init_timeout_s, clock
        self._given_up_s = float(config.get("socket.timeout.ms", _SOCKET_TIMEOUT_MS)) / 1000
        self._ending: float | None = None  # when this transaction's end was first asked for
        self.producer: Any = self._new()

    def __getattr__(self, name: str) -> Any:
        if name == "producer":  # there is none yet
            raise AttributeError(name)
        return getattr(self.producer, name)

    def __len__(self) -> int:
        return len(self.producer)

    def commit_transaction(self, timeout: float = _FOREVER) -> None:
        """Commit as ``Producer.commit_transaction``; a producer that was too slow is replaced before this returns.

        Raises:
            KafkaException: As from ``Producer``; a retriable one asks for the same call again. Or a new producer could
                not be made: the transaction is committed, and `renew` tries again.
        """
        self._end(self.producer.commit_transaction, timeout)

    def abort_transaction(self, timeout: float = _FOREVER) -> None:
        """Abort as ``Producer.abort_transaction``, otherwise as `commit_transaction`."""
        self._end(self.producer.abort_transaction, timeout)

    def renew(self) -> None:
        """Replace the producer. A transaction that is open is aborted; one whose end was asked for has that end.

        Raises:
            KafkaException: ``init_transactions`` failed.
        """
        # The old one is dropped, not closed: it would wait for the answers that it has not got.
        self.producer = self._new()
        self._ending = None

    def _end(self, call: Callable[[float], None], timeout: float) -> None:
        now = self._clock()
        self._ending = begun = now if self._ending is None else self._ending
        try:
            call(timeout)
        except KafkaException as error:
            if not error.args[0].retriable():  # else the end of the transaction is still under way
                self._ending = None
            raise
        if self._clock() - begun >= self._given_up_s:
            self.renew()
        self._ending = None

    def _new(self) -> Any:
        producer = self._make(dict(self._config))
        producer.init_transactions(self._init_timeout_s)
        return producer
