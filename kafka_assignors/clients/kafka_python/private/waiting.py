"""A consumer's wait for records: a rebalance ends it, and an interrupt loses nothing."""

from __future__ import annotations

import functools
import math
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.future import Future

from .consumer import backoff_s
from .names import AWAIT_FOR, WAITS, missing

SKIP_EVERY_S = 0.5
"""A consumer that must join again skips its wait for records at most this often: no storm of vain joins."""


class Wait:
    """A consumer's wait for records in ``poll``, which a rebalance ends.

    kafka-python 3.0.12 waits for the response to a fetch, up to ``fetch_max_wait_ms`` (500 ms) if no records come, even
    if a heartbeat has told that the group rebalances, or if it must join again itself after it has revoked partitions.
    With no partitions, as a new member, it sleeps for ``retry_backoff_ms``. The group waits for it meanwhile. Java's
    consumer wakes up.
    """

    _OF_FETCHER = (*WAITS[:2], "fetch_records")

    def __init__(self) -> None:
        self._net: Any = None
        self._coordinator: Any = None
        self._wakeup: Any = None
        self._await_for: Any = None
        self._skipped_s = -math.inf

    def watch(self, coordinator: Any, fetcher: Any) -> None:
        """Take hold of the wait of a consumer, once; does nothing without its fetcher or a private name."""
        if self._net is not None or fetcher is None:
            return
        if missing(coordinator, "need_rejoin") or any(missing(fetcher, name) for name in self._OF_FETCHER):
            return
        self._coordinator, self._net = weakref.proxy(coordinator), fetcher._net
        self._await_for = attrgetter(AWAIT_FOR)(fetcher)
        fetcher._net = self
        fetcher.fetch_records = self._fetching(fetcher.fetch_records)

    def end(self) -> None:
        """End it; call it on kafka-python's own thread."""
        if self._wakeup is not None and not self._wakeup.is_done:
            self._wakeup.success(None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._net, name)

    def run(self, what: Any, *args: Any, **settings: Any) -> Any:
        """Run the fetcher's work on kafka-python's thread; in 3.0, that includes its wait for records."""
        if getattr(what, "__name__", "") == "wait_for":
            return self._net.run(self._wait, *args)
        return self._net.run(what, *args, **settings)

    def wait_for(self, fetched: Any, timeout_ms: float | None, raise_error: bool = True) -> None:
        """The fetcher's wait for records in 3.1."""
        try:
            self._net.run(self._wait, fetched, timeout_ms, timeout_ms=timeout_ms)
        except Exception:
            if raise_error:
                raise

    def _fetching(self, fetch: Callable[..., Any]) -> Callable[..., Any]:
        """Wait here if there is nothing to fetch, where the consumer would sleep."""

        @functools.wraps(fetch)
        def fetch_records(*args: Any, timeout_ms: float | None = None, **kwargs: Any) -> tuple[Any, bool]:
            records, idle = fetch(*args, timeout_ms=timeout_ms, **kwargs)
            if records or not idle or not timeout_ms or timeout_ms <= 0:
                return records, idle
            with suppress(KafkaTimeoutError, KafkaConnectionError):  # the latter if the consumer is closed meanwhile
                self._net.run(self._wait, Future(), min(timeout_ms, 1000 * backoff_s(self._coordinator)))
            return records, False

        return fetch_records

    async def _wait(self, fetched: Any, timeout_ms: float | None) -> None:
        self._wakeup = Future()
        fetched.add_both(lambda _: self.end())
        if self._coordinator.need_rejoin() and time.monotonic() >= self._skipped_s + SKIP_EVERY_S:
            self._skipped_s = time.monotonic()
            self.end()
        await self._await_for(self._wakeup, timeout_ms)


class Interrupted:
    """Records that an interrupted ``poll`` has taken and not returned: the next ``poll`` takes them again.

    kafka-python 3.0.12 moves a partition's position when it takes records, so a signal handler that raises (Ctrl-C) in
    ``poll`` loses them: the next commit, also that of ``close``, is beyond them.
    """

    _OF_FETCHER = ("fetch_records", "_append", "_subscriptions.assignment")

    def __init__(self) -> None:
        self._before: dict[Any, Any] = {}  # topic-partition -> its position before this poll

    def watch(self, fetcher: Any) -> None:
        """Take hold of a fetcher; does nothing without it, or without a private name."""
        if fetcher is None or any(missing(fetcher, name) for name in self._OF_FETCHER):
            return
        fetch, append, subscriptions = fetcher.fetch_records, fetcher._append, fetcher._subscriptions

        @functools.wraps(append)
        def taking(drained: Any, part: Any, *args: Any) -> Any:
            state = subscriptions.assignment.get(part.topic_partition) if part else None
            if state is not None and state.position is not None:
                self._before.setdefault(part.topic_partition, state.position)
            return append(drained, part, *args)

        @functools.wraps(fetch)
        def fetching(*args: Any, **kwargs: Any) -> Any:
            self._before.clear()
            try:
                return fetch(*args, **kwargs)
            except Exception:
                raise  # kafka-python keeps what it has taken
            except BaseException:
                for tp, position in self._before.items():
                    if (state := subscriptions.assignment.get(tp)) is not None:
                        state.seek(position)
                raise

        fetcher._append, fetcher.fetch_records = taking, fetching
