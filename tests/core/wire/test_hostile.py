"""No user data and no options, whatever their types, ranges and sizes, raise in a leader or cost it much.

Every registered assignor is here, so a new one is too. Hostile members come in crowds: a leader that takes a crowd
within the bounds of one member takes each of them.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from kafka_assignors.core.reading import decode
from kafka_assignors.core.strategies import STRATEGIES, strategy
from kafka_assignors.core.strategy import Strategy
from kafka_assignors.core.wire import bulk
from kafka_assignors.core.wire.protocol import encode_subscription
from tests.support.assignors import hostile

CROWD = 25
SECONDS, BYTES = 1.0, 100_000_000
"""Of CPU and of memory, for one member."""
NAMES = sorted(STRATEGIES)


def lead(made: Strategy, sent: list[bytes]) -> None:
    """What a leader does with what members sent; every partition of a subscribed topic is somebody's, or withheld."""
    heard = [(f"m{m}" if m < 3 else f"evil{m}", None, each) for m, each in enumerate(bulk.subscriptions(sent))]
    agreed, _ = made.agreed(heard, hostile.TOPICS)
    read = decode(made.name, heard, hostile.TOPICS, _RACKS, _LEADERS)
    answer, _ = agreed.assign_bytes(read)
    agreed.echoing(answer, heard, 4)
    assert answer.keys() == {m for m, _, _ in heard}


_RACKS = {"orders": [["r1"], ["r0", "r1"]] * 3, "pay": [["r0"]] * 3}
_LEADERS = {"orders": ["r1", "r0"] * 3, "pay": ["r0", None, "r0"]}


def dear(made: Strategy, sent: list[bytes]) -> str:
    """How a leader exceeds the bounds, "" if it does not."""
    began, before = time.process_time(), _resident("VmRSS")
    _CLEAR.write_text("5")  # the high-water mark is what is resident now
    lead(made, sent)
    took, more = time.process_time() - began, _resident("VmHWM") - before
    return f"{took:.1f} s" if took > SECONDS else f"{more / 1e6:.0f} MB" if more > BYTES else ""


_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def _resident(name: str) -> int:
    """Bytes of memory of this process; tracing them takes longer than a leader does."""
    return 1024 * int(_STATUS.read_text().partition(f"{name}:")[2].split(maxsplit=1)[0])


def hostile_user_data(name: str, count: int, seed: int) -> Iterator[tuple[list[bytes], str]]:
    """Crowds of hostile members beside honest ones that exceed the bounds of one member, one by one; and how."""
    made, sent = strategy(name), hostile.honest(name)
    for crowd in range(-(-count // CROWD)):
        random = Random(f"{name} {seed} {crowd}")
        evil = [
            encode_subscription(
                hostile.subscription(random, hostile.user_data(random, made)), random.choice([1, 2, 3, 3])
            )
            for _ in range(min(CROWD, count - crowd * CROWD))
        ]
        if dear(made, [*sent, *evil]):
            yield from (([each], how) for each in evil if (how := dear(made, [*sent, each])))


def hostile_options(name: str, count: int, seed: int) -> Iterator[tuple[bytes, str]]:
    """Options that most members send, so that they are in effect if they are sound; those that exceed the bounds."""
    made = strategy(name)
    if not made.defaults():
        return
    honest = hostile.honest(name)
    seen = set[bytes]()
    for n in range(count):
        random = Random(f"options {name} {seed} {n}")
        told = hostile.options(random, made)
        try:
            sound = told not in seen and made.as_told(told) is not None
        except ValueError:
            sound = False
        if not sound or len(seen) >= _MOST_SOUND:
            continue
        seen.add(told)
        evil = encode_subscription(hostile.subscription(random, hostile.user_data(random, made, told)))
        if how := dear(made, [*honest, *[evil] * 4]):
            yield told, how


_MOST_SOUND = 1000
"""Options that hold in a group take an assignment each; those that are refused hold in none."""


def fuzzed(name: str, count: int, seed: int) -> None:
    """A leader of an assignor with so many user data and options: nothing raises or warns, and nothing is dear."""
    logging.disable(logging.WARNING)
    strategy(name).load()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert list(hostile_user_data(name, count, seed)) == []
            assert list(hostile_options(name, count, seed)) == []
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_user_data_stop_a_leader(name: str) -> None:
    fuzzed(name, 200, 26)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", NAMES)
def test_no_user_data_of_a_hundred_thousand_stop_a_leader(name: str) -> None:
    fuzzed(name, 100_000, 1)
