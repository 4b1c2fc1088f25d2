"""No file gets a secret that a pipe can carry, and what a killed command leaves is removed by its watchdog."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from kafka_assignors.connection import Connection, read_connection
from kafka_assignors.connection import settings as connection_settings
from kafka_assignors.integration.broker.secured import Secured
from tests.connection.test_commands import kept_by
from tests.support.places import ROOT
from tests.support.programs import running
from tests.support.waiting import until

GROUP = """
import signal, sys
from pathlib import Path
from kafka_assignors.connection import read_connection
from kafka_assignors.integration.members.group import MemberGroup
connection = read_connection(config=Path("/dev/stdin"))
with MemberGroup(connection, "secrets", Path(sys.argv[1]), "run", session_timeout_ms=10_000) as group:
    for client in sys.argv[2:]:
        group.start(client, ["orders"], ["range"], client=client)
    group.wait_stable(timeout_s=90)
    print("stable", flush=True)
    signal.pause()
"""
CLIENTS = ("kafka-python", "java", "verifiable", "confluent", "aiokafka", "bridge")


@pytest.mark.broker
@pytest.mark.jvm
@pytest.mark.usefixtures("orders")
def test_a_group_on_a_secured_cluster_writes_no_secret_to_disk(secured: Secured, tmp_path: Path) -> None:
    """One member of each client, all in one group; neither while it runs, nor after a SIGKILL of the harness."""
    for folder in ("temporary", "run"):
        (tmp_path / folder).mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", GROUP, str(tmp_path / "run"), *CLIENTS], cwd=ROOT, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as harness:  # fmt: skip
        assert harness.stdin is not None
        assert harness.stdout is not None
        try:
            harness.stdin.write(secured.admin.properties())
            harness.stdin.close()
            assert harness.stdout.readline() == "stable\n"
            assert {path.name.split(".")[1] for path in (tmp_path / "run").glob("*.0.jsonl")} == {*CLIENTS}
            during = kept_by(tmp_path)
        finally:
            harness.kill()
    assert not any(secret in during + kept_by(tmp_path) for secret in secured.admin.secrets)


@pytest.mark.broker
@pytest.mark.parametrize(
    "how",
    [
        # long: after SIGKILL the watchdog removes it, as the broker's folder in broker/test_ends.py; by the others the
        # process does, as after the Ctrl-C in test_commands.py
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in (signal.SIGKILL, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM)
        )
    ],
)
def test_the_file_of_up_goes_with_it(how: signal.Signals, tmp_path: Path) -> None:
    """It is for the user's other clients, who have to open it."""
    command = [sys.executable, "-u", "-m", "kafka_assignors.integration", "up", "--secure"]
    with running(*command, TMPDIR=str(tmp_path)) as (started, lines):
        told = lines.readline()
        config = Path(told.partition("--config ")[2].split()[0])
        assert config.is_relative_to(tmp_path)
        assert config.stat().st_mode & 0o077 == config.parent.stat().st_mode & 0o077 == 0
        assert read_connection(config=config).password
        others = [path for path in tmp_path.rglob("*.properties") if path.stat().st_mode & 0o077]
        started.send_signal(how)
        assert started.wait(60) == (-how if how == signal.SIGKILL else 130)
    until(lambda: not [*tmp_path.iterdir()], "nothing of it is left", 10)
    assert [path.name for path in others if "server" in path.name] == []


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no files in memory")
def test_a_clients_key_is_loaded_without_a_file_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("client")
    chain = "".join(blob.bytes().decode() for blob in issued.cert_chain_pems)
    told = Connection("h:1", "SSL", certificate=chain, key=issued.private_key_pem.bytes().decode())
    monkeypatch.setattr(connection_settings, "tempfile", None)

    told.ssl_context()  # raises if the key is not of the certificate, or if it needs a file
