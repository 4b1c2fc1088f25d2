"""Many plays, some at a time on one broker: each has a folder of its own, and a line of JSON as it ends."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from kafka_assignors.integration.broker import Broker, start_broker

P, R = TypeVar("P"), TypeVar("R")


def outcomes(
    asked: Iterable[P], play: Callable[[P, Broker, Path], R], failed: Callable[[P, str], R], broker: Broker,
    folder: Path, at_once: int = 3, until: float | None = None,
) -> Iterator[R]:  # fmt: skip
    """What comes of each play, as they end.

    Args:
        play: Plays one in a folder, and judges it.
        failed: What comes of one whose play raised this error.
        until: None begins later (`time.monotonic`).
    """

    def one(number: int, what: P) -> R | None:
        if until is not None and time.monotonic() > until:
            return None
        own = folder / f"p{number}"
        own.mkdir(parents=True)
        try:
            return play(what, broker, own)
        except Exception as error:
            traceback.print_exc()
            return failed(what, repr(error))

    with ThreadPoolExecutor(at_once) as pool:
        for done in as_completed([pool.submit(one, number, what) for number, what in enumerate(asked)]):
            if (outcome := done.result()) is not None:
                yield outcome


def arguments(about: str | None, clients: Iterable[str]) -> argparse.ArgumentParser:
    """The options of a command that plays."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seeds", default="0..19", help="FIRST..LAST")
    parser.add_argument("--clients", default=",".join(clients))
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--for-s", type=float, help="begin no play later than after so many seconds")
    parser.add_argument("--keep", type=Path, help="folder for histories; by default a temporary one")
    return parser


def seeds(asked: argparse.Namespace) -> range:
    """The seeds of the option."""
    first, last = map(int, asked.seeds.split(".."))
    return range(first, last + 1)


def print_outcomes(
    asked: argparse.Namespace, chosen: Iterable[P], play: Callable[[P, Broker, Path], Any],
    failed: Callable[[P, str], Any],
) -> None:  # fmt: skip
    """Play what was chosen, as the options say, and print a line for each play."""
    until = None if asked.for_s is None else time.monotonic() + asked.for_s
    with tempfile.TemporaryDirectory() as temporary, start_broker() as broker:
        folder = asked.keep or Path(temporary)
        for outcome in outcomes(chosen, play, failed, broker, folder, asked.at_once, until):
            print(json.dumps(asdict(outcome)), flush=True)
