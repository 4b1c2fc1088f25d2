"""A consumer's life on a kafka-python in which one private name is another; `test_renamed` reads what it prints.

Each name is renamed in a copy of kafka-python's source, everywhere, so that kafka-python works as before and only who
uses the name from outside misses it. Each copy lives in a process of its own, forked once what is slow is imported.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np  # noqa: F401 (slow to import, and the same for all)
import scipy.optimize
import scipy.sparse  # noqa: F401

DEADLINE_S = 60
NEW = "another_name_of_{}"
AT_ONCE = 4

COORDINATOR = ("coordinator/base.py", "coordinator/consumer.py")
SOME: dict[str, tuple[tuple[str, ...], str]] = {
    # name -> in which files, and there only where this matches: what else has the name is public, or something else's
    "_cluster": (COORDINATOR, r"(?<=self\.){0}\b"),
    "_partitions": (("cluster.py",), r"(?<=self\.){0}\b"),
    "assigned_partitions": ((*COORDINATOR, "consumer/*.py"), r"(?<=\.|\s){0}(?=\()"),
    "close": (("net/compat.py", "consumer/group.py"), r"(?<=_client\.){0}(?=\()|{0}(?=\(self, node_id)"),
    "config": (COORDINATOR, r"(?<=self\.){0}\b"),
    "group_metadata": (
        ("coordinator/base.py", "consumer/group.py"),
        r"(?<=_coordinator\.){0}\b|{0}(?=\(self\):\n.*member's)",
    ),
    "heartbeat": (COORDINATOR, r"(?<=self\.){0}\b"),
    "rejoining": (COORDINATOR, r"(?<=self\.){0}\b"),
    "send": (("**/*.py",), r"(?<=_manager\.){0}\b|(?<=def ){0}(?=\(self, request, node_id)"),
    "state": (COORDINATOR, r"(?<=self\.){0}\b"),
    "wait_for": (("**/*.py",), r"(?<=_manager\.){0}\b|(?<=_net\.){0}\b|(?<=def ){0}(?=\(self, future)"),
}


def rename(kafka: Path, name: str) -> int:
    """Give a name of kafka-python another one; how often it stood there."""
    globs, pattern = SOME.get(name, (("**/*.py",), r"\b{0}\b"))
    changed = 0
    for path in sorted({path for glob_pattern in globs for path in kafka.glob(glob_pattern)}):
        text, here = re.subn(pattern.format(name), NEW.format(name), path.read_text("utf-8"), flags=re.MULTILINE)
        if here:
            path.write_text(text, "utf-8")
        changed += here
    return changed


class Heard(logging.Handler):
    """What is logged: our warnings, and whatever misses a name. kafka-python's races miss other attributes."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.missed = f"has no attribute {name!r}"
        self.warnings: list[str] = []
        self.attribute_errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage() + ("".join(traceback.format_exception(*record.exc_info)) if record.exc_info else "")
        if record.name == "kafka_assignors" and record.levelno >= logging.WARNING:
            self.warnings.append(text)
        if self.missed in text:
            self.attribute_errors.append(text)


def until(condition: Callable[[], bool], turn: Callable[[], Any]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the consumer got no assignment")
        turn()


def life(bootstrap: str, topics: list[str], group: str, poll_ms: int) -> dict[str, Any]:
    """Make a consumer, join, join again with what it holds, commit, be refused a second one, and close."""
    import kafka

    from kafka_assignors import CooperativeStickyAssignor, guard
    from kafka_assignors.errors import ConfigError

    def make(assignor: Any) -> Any:
        return kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, client_rack="r1", partition_assignment_strategy=[assignor]
        )

    def outcome(call: Callable[[], Any]) -> str:
        try:
            call()
        except ConfigError:
            return "ConfigError"
        return "fine"

    assignor = CooperativeStickyAssignor()
    consumer = make(assignor)
    seen = assignor._attached() is not None
    if not seen:
        assignor.attach(consumer)
    for wanted in (topics[:1], topics):
        consumer.subscribe(wanted)
        until(lambda: {topic for topic, _ in consumer.assignment()} == {*wanted}, lambda: consumer.poll(poll_ms))  # noqa: B023
    consumer.commit()
    refused = outcome(lambda: make(assignor).close(autocommit=False))
    outcomes = {"attach": outcome(lambda: assignor.attach(consumer)), "guard": outcome(lambda: guard(consumer))}
    consumer.poll(200)
    consumer.close()
    return {"seen": seen, "refused": refused, **outcomes}


def run(arguments: tuple[str, str, str, list[str]]) -> dict[str, Any]:
    """One renamed name; "" for none."""
    folder, name, bootstrap, topics = arguments
    heard = Heard(name)
    logging.getLogger().addHandler(heard)
    copy = Path(folder) / (name or "none")
    shutil.copytree(source(), copy / "kafka", ignore=shutil.ignore_patterns("benchmarks", "cli"))
    sys.path.insert(0, str(copy))
    report: dict[str, Any] = {"places": rename(copy / "kafka", name) if name else 0, "error": ""}
    try:
        # Without `request_rejoin`, a join that outlasts a poll is lost for good.
        poll_ms = 5000 if name == "request_rejoin" else 200
        report |= life(bootstrap, topics, f"renamed-{name}-{os.getpid()}", poll_ms)
        assert sys.modules["kafka"].__file__.startswith(str(copy))  # type: ignore[union-attr]
    except BaseException:
        report["error"] = traceback.format_exc()
    return {**report, "warnings": heard.warnings, "attribute_errors": heard.attribute_errors}


def source() -> Path:
    spec = importlib.util.find_spec("kafka")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


if __name__ == "__main__":
    folder, bootstrap, names, topics = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
    with get_context("fork").Pool(AT_ONCE, maxtasksperchild=1) as pool:
        results = pool.map(run, [(folder, name, bootstrap, topics) for name in names], chunksize=1)
    print(json.dumps(dict(zip(names, results, strict=True))))
