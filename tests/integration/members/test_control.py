"""Commands to a member: bad ones are told, and the next ones count."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import time
from kafka_assignors.integration.members.control import Control

control = Control()
control.listen()
while not control.stalls:
    time.sleep(0.01)
print("stalls", control.subscription(), flush=True)
time.sleep(60)
"""
BAD = (b"dance\n", b"subscribe {\n", b'subscribe {"topics": 7}\n', b"subscribe []\n", b"\xff\n", b"\n")


def test_a_bad_command_is_told_and_the_next_ones_count() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=pipe, stdout=pipe, stderr=pipe) as member:
        assert member.stdin is not None
        assert member.stdout is not None
        member.stdin.write(b"".join(BAD) + b"stall\n")
        member.stdin.flush()
        assert member.stdout.readline() == b"stalls None\n"

        member.kill()
        _, told = member.communicate(timeout=30)

    lines = told.decode().splitlines()
    assert len(lines) == len(BAD)
    assert all(line.startswith("not a command: ") for line in lines)
    assert "'dance' is not one of stall, stall-assign, go, subscribe" in lines[0]
    assert 'subscribe takes {"topics": […]} or {"pattern": "…"}' in lines[2]
