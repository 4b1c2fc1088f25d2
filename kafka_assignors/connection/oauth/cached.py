"""Tokens of one source: got once for all clients of the process, renewed before they expire."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable

from ...errors import KafkaAssignorsError
from .endpoint import request_token
from .function import call, load
from .grant import Grant
from .token import Token

log = logging.getLogger("kafka_assignors")

_RENEWED_AT = 0.8
"""The part of a token's lifetime after which it is renewed, as in librdkafka and Java."""
_RETRY_S = 10.0


class CachedTokens:
    """Keep the token that `get` returns until shortly before it expires. Thread-safe.

    Args:
        get: Gets a new token.
        source: Who gives it, for the log.
        clock: Seconds since the epoch.
    """

    def __init__(self, get: Callable[[], Token], source: str, clock: Callable[[], float] = time.time) -> None:
        self._get, self._source, self._clock = get, source, clock
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._renew_at = 0.0

    def token(self) -> Token:
        """A token that hasn't expired.

        If a new one can't be got, the old one serves until it expires, with a warning in the log.

        Raises:
            AccessRefused, ClusterError, ConfigError: There is none, and none can be got.
        """
        with self._lock:
            now = self._clock()
            if self._token is None or now >= self._renew_at:
                self._renew(now)
            assert self._token is not None
            return self._token

    @property
    def subject(self) -> str | None:
        """Whom the last token stands for; None before the first, or if it doesn't say."""
        return None if self._token is None else self._token.subject

    def _renew(self, now: float) -> None:
        try:
            token = self._get()
        except KafkaAssignorsError as error:
            if self._token is None or now >= self._token.expires_at:
                raise
            left = self._token.expires_at - now
            log.warning(
                "the token of %s is not renewed, the old one is valid for %.0f s: %s", self._source, left, error
            )
            self._renew_at = min(now + _RETRY_S, self._token.expires_at)
            return
        self._token, self._renew_at = token, now + _RENEWED_AT * (token.expires_at - now)


@functools.cache
def tokens(grant: Grant) -> CachedTokens:
    """The tokens of a grant, one object for all clients of a process; ConfigError if its function can't be imported."""
    if grant.function is None:
        return CachedTokens(lambda: request_token(grant), str(grant))
    function = load(grant.function)
    return CachedTokens(lambda: call(function, grant), str(grant))
