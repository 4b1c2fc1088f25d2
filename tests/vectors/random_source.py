"""Recorded draws for Java classes that draw from ``ThreadLocalRandom``, without a change to these classes.

A draw is ``mix32(seed)`` of the 64-bit seed in the calling thread, after the seed has been advanced by a constant.
mix32 is a bijection of 64 bits of which the upper half is returned, so a seed for any draw can be computed. For more
draws in one call, the free lower half is searched until each later draw has the recorded remainder.
Source: java.util.concurrent.ThreadLocalRandom, JDK 21.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from kafka_assignors.integration.broker.java import LiveJava

_64 = 2**64
_FIRST, _SECOND = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53  # of mix32


class RandomSource:
    """Sets the random seed of the Java thread that executes this thread's calls.

    Args:
        java: A JVM; only one Python thread may call it.
    """

    def __init__(self, java: LiveJava) -> None:
        lang = java.classes.java.lang
        kind = lang.Class.forName("sun.misc.Unsafe")
        field = kind.getDeclaredField("theUnsafe")
        field.setAccessible(True)
        self._unsafe: Any = field.get(None)
        self._thread = lang.Thread.currentThread()
        self._seed = self._unsafe.objectFieldOffset(
            lang.Class.forName("java.lang.Thread").getDeclaredField("threadLocalRandomSeed")
        )
        random = java.classes.java.util.concurrent.ThreadLocalRandom.current()
        before = self._get()
        random.nextInt()
        self._step = (self._get() - before) % _64
        self._draws: Sequence[int] = ()
        self.used = 0

    def begin(self, draws: Sequence[int]) -> None:
        """The draws of a new case."""
        self._draws, self.used = draws, 0

    def during(self, call: Callable[[], Any], draws: int = 1, modulus: int = 1) -> Any:
        """Call Java with the next draws in its random source, and count those that it used.

        Args:
            call: One call.
            draws: How many draws are prepared. The first is the recorded number, later ones have its remainder.
            modulus: What Java divides draws by.
        """
        upcoming = self._draws[self.used : self.used + max(draws, 1)]
        start = self._seed_for(upcoming, modulus) if upcoming else self._get() % _64
        self._unsafe.putLong(self._thread, self._seed, _signed(start))
        answer = call()
        now, steps = self._get() % _64, 0
        while (start + steps * self._step) % _64 != now:
            steps += 1
            if steps > 10_000:
                raise RuntimeError("Java drew more than 10,000 numbers in one call, or in another thread")
        self.used += steps
        return answer

    def _get(self) -> int:
        return int(self._unsafe.getLong(self._thread, self._seed))

    def _seed_for(self, draws: Sequence[int], modulus: int) -> int:
        first, *later = draws
        for low in itertools.count():
            seed = _unmix(first << 32 | low)
            after = ((seed + n * self._step) % _64 for n in range(1, len(draws)))
            if all((_mix32(s) - d) % modulus == 0 for s, d in zip(after, later, strict=True)):
                return (seed - self._step) % _64
        raise AssertionError("unreachable")


def _mix32(seed: int) -> int:
    """As ThreadLocalRandom.mix32, and Utils.toPositive of it."""
    z = (seed ^ seed >> 33) * _FIRST % _64
    return ((z ^ z >> 33) * _SECOND % _64 >> 32) & 0x7FFFFFFF


def _unmix(mixed: int) -> int:
    """The seed whose mix has these 64 bits."""
    z = mixed * pow(_SECOND, -1, _64) % _64
    z = (z ^ z >> 33) * pow(_FIRST, -1, _64) % _64
    return z ^ z >> 33


def _signed(number: int) -> int:
    return number - _64 if number >= _64 // 2 else number
