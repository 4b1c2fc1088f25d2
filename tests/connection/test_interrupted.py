"""A run whose terminal is closed: what its user has no right to remove is named."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_assignors.connection import Connection
from kafka_assignors.integration.broker.secured import Secured
from tests.support.connection.least import PLAYED
from tests.support.places import ROOT


@pytest.mark.broker
# long: handled as SIGHUP is, which comes twice
@pytest.mark.parametrize("how", [signal.SIGHUP, pytest.param(signal.SIGQUIT, marks=pytest.mark.long)])
def test_what_a_run_cannot_remove_is_named(how: signal.Signals, secured: Secured, tmp_path: Path) -> None:
    """The shell and the system may both tell of a closed terminal: the second signal doesn't cut the removal short."""
    kept = [right for right in PLAYED if (right.operation, right.kind) != ("Delete", "Topic")]
    assert len(kept) < len(PLAYED)
    user: Connection = secured.user(f"hung-up-{how}", kept)
    with user.file() as config:
        command = [sys.executable, "-u", "-m", "kafka_assignors.integration", "run", "churn", "--confirm"]
        with subprocess.Popen(
            [*command, "--config", str(config), "--out", str(tmp_path / "out")], cwd=ROOT, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as run:  # fmt: skip
            assert run.stdout is not None
            try:
                before = next((line for line in run.stdout if "stable in" in line), None)
                assert before is not None, "the group was never stable"
                run.send_signal(how)
                if how == signal.SIGHUP:
                    run.send_signal(how)
                rest = run.communicate(timeout=90)[0]
            finally:
                run.kill()
    assert run.returncode == 130, rest
    told = re.search(rf"not removed from {user.bootstrap}, remove it yourself \((.+)\): (.+)\n", rest)
    assert told, rest
    assert "lacks the permission Delete on Topic" in told[1]
    names = told[2].split(", ")
    assert all(re.fullmatch(r"topic kafka-assignors-[0-9a-f]{12}-\w+", name) for name in names), names
    assert len(names) > 1
