"""Histories of processes that get SIGKILL at any moment: whole but for a last line, and never behind what they did."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.recording import RunFile
from kafka_assignors.integration.records import Sender
from tests.support.integration.fixtures import MakeGroup, MakeTopic
from tests.support.integration.members import DEADLINE_S
from tests.support.places import ROOT
from tests.support.waiting import until

WRITERS = 24
SEED = 20
MILESTONES = ("start", "generation", "assigned_begin", "assigned_end", "consume", "commit_begin", "commit_ok")
"""After each of these a member is killed."""

# Each writer tells of an effect when it has told of it in its history: what it has done must be in its file.
PROGRAM = f"""
import os, sys
from pathlib import Path
from kafka_assignors.history.writer import EventWriter
folder = Path(sys.argv[1])
ROW = dict(topic="t", partition=0, last=0, count=1, bytes=0)
for i in range({WRITERS}):
    if not (pid := os.fork()):
        effects = os.open(folder / f"{{i}}.effects", os.O_WRONLY | os.O_CREAT)
        with EventWriter(folder / f"{{i}}.jsonl", "run", "member", group="g", member=str(i)) as writer:
            while True:
                row = {{**ROW, "first": writer._seq, "last": writer._seq}}
                event = writer.write("consume", offsets=[row] * (writer._seq % 400))
                os.pwrite(effects, b"%12d" % event.seq, 0)
    print(pid, flush=True)
"""


@pytest.mark.slow
def test_what_a_killed_writer_leaves_is_whole_but_for_its_last_line(tmp_path: Path) -> None:
    """Two dozen that write as fast as they can are killed one after the other, each at a random moment."""
    rng = random.Random(SEED)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as run:
        assert run.stdout is not None
        pids = [int(run.stdout.readline()) for _ in range(WRITERS)]
        try:
            for i, pid in enumerate(pids):
                effects = tmp_path / f"{i}.effects"
                until(
                    lambda effects=effects: effects.exists() and effects.stat().st_size > 0,
                    f"{effects} is written",
                    DEADLINE_S,
                )
                threading.Event().wait(rng.uniform(0, 0.02))
                os.kill(pid, signal.SIGKILL)
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    with RunFile(tmp_path / "harness.jsonl", "run", "harness", group="g") as harness:
        for i in range(WRITERS):
            harness.write("exit", member=str(i), incarnation=0, code=-9)

    history = History.load(tmp_path)

    assert history.problems == ()
    lengths = [sum(event.member == str(i) for event in history.events) - 1 for i in range(WRITERS)]
    for i, lines in enumerate(lengths):
        assert int((tmp_path / f"{i}.effects").read_text()) < lines, "an effect that isn't in the history"
    assert len(set(lengths)) > WRITERS // 4, "the moments were all alike"


@pytest.mark.long  # long: the test above kills the writer at any moment, live/test_lives.py a member
@pytest.mark.broker
def test_members_that_are_killed_at_any_moment_of_their_lives(
    kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """While they start, join, take over, consume or commit; one stays, and the verdict is true."""
    rng, topic = random.Random(SEED), kafka_topic(partitions=6)
    group = unjudged_group(session_timeout_ms=1000, heartbeat_interval_ms=200)
    with Sender(kafka_broker.bootstrap, tmp_path, "run", [topic], "default", 200):
        group.start("m0", [topic], ["cooperative-sticky"])
        group.wait_stable()
        for i, milestone in enumerate(MILESTONES):
            name = f"k{i}"
            group.start(name, [topic], ["cooperative-sticky"])
            file = tmp_path / f"{group.group}.{name}.0.jsonl"
            said = f'"kind":"{milestone}"'
            until(
                lambda file=file, said=said: file.exists() and said in file.read_text("utf-8"),
                f"{name}: {milestone}",
                DEADLINE_S,
            )
            threading.Event().wait(rng.uniform(0, 0.05))
            group.kill(name)
        group.wait_stable(timeout_s=DEADLINE_S)
    group.drain()
    group.close()

    history = History.load(tmp_path)
    assert history.problems == ()
    begun = {
        (row["topic"], row["partition"], row["offset"])
        for event in history.events
        if event.kind == "commit_begin"
        for row in event.data["offsets"]
    }
    committed = {
        (e.data["topic"], e.data["partition"], e.data["offset"]) for e in history.events if e.kind == "offset_committed"
    }
    assert committed <= begun, "the coordinator has a commit that its member didn't write down first"
    assert committed
    verdict = check(history)
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
