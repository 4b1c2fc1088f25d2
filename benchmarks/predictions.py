"""`plan` of live groups against what the groups then did: 200 changes, with our leaders and Java's."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.topics import create_topics
from tests.support.live.predicting import Predicted

from .result import Result

LEADERS = (
    ("kafka-python", "range"), ("kafka-python", "roundrobin"), ("kafka-python", "sticky"),
    ("kafka-python", "cooperative-sticky"), ("java", "range"), ("java", "roundrobin"), ("java", "sticky:parity=java"),
    ("java", "cooperative-sticky:parity=java"),
)  # fmt: skip
EACH, QUICK_EACH = 25, 2
_SESSION_MS = 20_000


def run(quick: bool) -> Iterator[Result]:
    """``predictions/CLIENT/ASSIGNOR``: changes after which the owners were not the planned ones.

    The leader is a real client; the other members are light ones. Java's leaders read one topic, ours two.
    """
    count = QUICK_EACH if quick else EACH
    with start_broker("jvm", settings={"broker.session.timeout.ms": "60000"}) as broker:
        for seed, (client, assignor) in enumerate(LEADERS):
            yield _one(broker.bootstrap, client, assignor, count, seed)


def _one(bootstrap: str, client: str, assignor: str, count: int, seed: int) -> Result:
    run = uuid4().hex[:8]
    topics = {f"{name}-{run}": 5 for name in ("a" if client == "java" else "ab")}
    create_topics(bootstrap, topics)
    with tempfile.TemporaryDirectory() as folder:
        group = MemberGroup(bootstrap, f"p-{run}", Path(folder), run, session_timeout_ms=_SESSION_MS)
        with group, Predicted(bootstrap, group, client, assignor, topics, seed) as predicted:
            made = list(predicted.predictions(count))
    wrong = [asdict(prediction) for prediction in made if not prediction.true]
    changes = Counter(prediction.change for prediction in made)
    note = f"of {len(made)}: {', '.join(f'{n} {change}' for change, n in sorted(changes.items()))}"
    raw = {
        "changes": [[prediction.change, *prediction.options, prediction.true] for prediction in made],
        "wrong": wrong,
    }
    return Result(f"predictions/{client}/{assignor}", len(wrong), "wrong", note=note, raw=raw, none=True)
