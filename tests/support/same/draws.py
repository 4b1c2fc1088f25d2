"""Draws sequences of calls by a seed, and plays them in a process with the recorder or without it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from kafka_assignors.integration.recorder import kafka_assignors_recorder as recorder
from tests.support.places import ROOT

from .subject import END, NOBODY

CLIENTS = ("kafka_python", "confluent", "aiokafka")
"""The modules here that have a client's calls."""
RECORDER = Path(recorder.__file__).parents[1]
_VALID, _ONLINE, _INVALID = 3, 5, 2
"""How often a call of each table is drawn, one against the other."""
_IN_TURN = 3
"""Calls of each draw that follow one after the other over the seeds, so that none is left out."""
_TIMEOUT_S = 280
_BEGINS = {"kafka_python": ("subscribe",), "confluent": ("subscribe",), "aiokafka": ("start", "subscribe")}


def draw(client: str, seed: int, topic: str, *, online: bool) -> dict[str, Any]:
    """Settings and calls of a seed.

    Args:
        client: Of `CLIENTS`.
        seed: Equal seeds give equal draws.
        topic: What its topics' names begin with.
        online: Also calls that need a broker.
    """
    chance, module = random.Random(f"{client} {seed}"), import_module(f"{__package__}.{client}")
    settings = {name: chance.choice(values) for name, values in module.SETTINGS.items()}
    tables = {_VALID: module.VALID, _INVALID: module.INVALID, **({_ONLINE: module.ONLINE} if online else {})}
    calls = list(_BEGINS[client]) if online and chance.random() < 0.8 else []
    for _ in range(chance.randint(8, 16)):
        (weight,) = chance.choices(list(tables), weights=list(tables))
        calls.append(chance.choice(sorted(tables[weight])))
    names = sorted(name for table in tables.values() for name in table)
    for turn in range(_IN_TURN * seed, _IN_TURN * (seed + 1)):
        calls.insert(chance.randint(0, len(calls)), names[turn % len(names)])
    return {"seed": seed, "topic": topic, "settings": settings, "calls": calls}


def outcomes(
    client: str, draws: Sequence[Mapping[str, Any]], group: str, bootstrap: str = NOBODY, record: Path | None = None,
    begins: str | None = None,
) -> list[Any]:  # fmt: skip
    """What each call returned or raised: seed, name, outcome, callbacks.

    Args:
        client: Of `CLIENTS`.
        draws: The sequences, played one after the other in one process.
        group: What the names of the groups that are recorded begin with.
        bootstrap: Address of the broker.
        record: What the names of the recorder's files begin with; None: there is no recorder.
        begins: A folder with the ``sitecustomize`` of the process, in place of the recorder's.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    place = str(RECORDER) if record is not None else begins
    if place is not None:
        environment["PYTHONPATH"] = os.pathsep.join((place, str(ROOT)))
    rows: list[Any] = []
    left = list(draws)
    for turn in count():
        if not left:
            break
        own = f"{group}-{turn}"  # one that died is in its group until its session ends
        if record is not None:
            environment |= {recorder.FILE: f"{record}-{turn}", recorder.GROUP: own}
        asked = json.dumps({"bootstrap": bootstrap, "group": own, "draws": left})
        done = subprocess.run(
            [sys.executable, "-m", f"{__package__}.{client}"], env=environment, cwd=ROOT, input=asked,
            capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
        rows += map(json.loads, done.stdout.splitlines())
        assert done.returncode <= 0, done.stderr[-2000:]
        ended = {row[0] for row in rows if row[1] == END}
        left = [one for one in left if one["seed"] not in ended]
        if done.returncode:  # librdkafka aborts its process where an assertion of it does not hold
            rows.append([left.pop(0)["seed"], END, "died", done.returncode])
        assert done.returncode or not left
    return rows
