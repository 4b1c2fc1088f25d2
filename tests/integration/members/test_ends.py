"""A harness that ends in the middle, by Ctrl-C or SIGKILL: nobody whom it started lives 5 s later."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from kafka_assignors.integration.broker import Broker
from tests.support.integration.members import GONE_S, gone
from tests.support.programs import owner

SUITE = """
import time


def test_is_cut_short(kafka_group, kafka_topic):
    topic, group = kafka_topic(partitions=3), kafka_group()
    group.start("ours", [topic], ["cooperative-sticky"])
    group.start("java", [topic], ["cooperative-sticky"], client="java")
    group.start("confluent", [topic], ["cooperative-sticky"], client="confluent")
    group.wait_stable()
    group.pause("ours")
    print("ready", flush=True)
    while True:  # signal.pause() would miss a signal that comes just before it waits
        time.sleep(0.05)
"""


@pytest.mark.broker
# long: the gentler end; test_cli.py interrupts a demo and looks for its members
@pytest.mark.parametrize("how", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL])
def test_a_run_that_is_cut_short_leaves_nobody(how: signal.Signals, kafka_broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["kafka_assignors.pytest_plugin"]')
    (tmp_path / "test_cut.py").write_text(SUITE)
    options = ["-s", "--kafka-backend=external", f"--kafka-bootstrap={kafka_broker.bootstrap}"]
    options.append(f"--basetemp={tmp_path / 'base'}")  # else it removes what earlier runs of pytest left, for seconds
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as run:  # fmt: skip
        assert run.stdout is not None
        try:
            assert any(line.endswith("ready\n") for line in run.stdout), "it never came to its middle"
            started = psutil.Process(run.pid).children(recursive=True)
            names = " ".join(" ".join(process.cmdline()) for process in started)
            assert all(f"members.clients.{client}" in names for client in ("kafka_python", "confluent"))
            assert "VerifiableConsumer" in names

            os.killpg(run.pid, how)

            left = psutil.wait_procs(started, timeout=GONE_S)[1]
            assert [process for process in left if not gone(process.pid)] == []
        finally:
            run.kill()


@pytest.mark.long  # long: the test above cuts a run short by SIGKILL; test_member.py kills the harness of a member
@pytest.mark.broker
def test_members_that_wait_for_others_do_not_outlive_their_harness(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Two are in JoinGroup, which the coordinator answers when the third, that stands still, has lost its session."""
    program = f"""
        import json, os, signal, time
        from pathlib import Path
        from kafka_assignors.integration.members.group import MemberGroup
        folder, topic = Path({str(tmp_path)!r}), {kafka_topic(partitions=3)!r}
        with MemberGroup({kafka_broker.bootstrap!r}, "waiting", folder, "run", session_timeout_ms=30000) as group:
            for name in ("m1", "m2"):
                group.start(name, [topic], ["range"])
            group.wait_stable()
            with (folder / "waiting.m2.0.jsonl").open() as told:
                os.kill(json.loads(told.readline())["pid"], signal.SIGSTOP)
            group.start("m3", [topic], ["range"])
            while "revoke_end" not in (folder / "waiting.m1.0.jsonl").read_text():
                time.sleep(0.05)
            print("waiting", flush=True)
            signal.pause()
    """
    with owner(program) as (pid, words):
        assert words == ["waiting"]
        members = psutil.Process(pid).children(recursive=True)
        assert [member.status() for member in members].count(psutil.STATUS_STOPPED) == 1
    left = psutil.wait_procs(members, timeout=GONE_S)[1]
    try:
        assert [member for member in left if not gone(member.pid)] == []
    finally:
        for member in left:
            member.kill()
