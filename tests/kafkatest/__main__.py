"""Run Kafka's own system tests of consumers (kafkatest's consumer_test) with our verifiable member.

The nodes are network, process and mount namespaces of this machine, joined by a bridge that is in a namespace, too. All
of it goes when the program ends. Needs root on Linux, sshd, and a checkout of apache/kafka that KAFKA_SOURCE names.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from kafka_assignors.errors import ConfigError, KafkaAssignorsError, MachineError
from kafka_assignors.jvm import java
from tests.kafkatest.selection import Case, collected, outcomes, selected
from tests.kafkatest.source import TESTS, KafkaSource, ducktape, lay_out

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "sshd": "openssh-server", "ssh-keygen": "openssh-client", "ip": "iproute2", "pgrep": "procps", "ps": "procps",
    "unshare": "util-linux", "setpriv": "util-linux", "bash": "bash",
}  # fmt: skip
HIDDEN = ("/mnt", "/opt", "/run")
"""Folders of which each node has its own."""
_SSHD = """\
Port 22
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
StrictModes no
PermitRootLogin prohibit-password
PidFile none
UsePAM no
UseDNS no
MaxStartups 100
MaxSessions 100
LogLevel ERROR
Subsystem sftp internal-sftp
SetEnv HOME={folder}/home PATH={folder}/tools:{path} JAVA_HOME={java_home} KAFKA_JVM_PERFORMANCE_OPTS="{flags}"
"""
_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""Small JVMs; no files of performance data: all nodes share /tmp, and their process ids are alike."""
_JPS = r"""ps -eo pid=,args= | awk '$2 ~ /(^|\/)java$/ {
    name = "Unknown"
    for (i = 3; i <= NF; i++) {
        if ($i == "-cp" || $i == "-classpath") { i++; continue }
        if ($i !~ /^-/) { name = $i; break }
    }
    sub(/.*\./, "", name); print $1, name }'
"""
TOOLS = {
    "sudo": 'exec "$@"\n',
    # the real ones read the performance data of the machine's JVMs
    "jps": _JPS,
    "jcmd": _JPS.replace('sub(/.*\\./, "", name); ', ""),
}
"""What the tests call on a node, and a machine may lack."""


def named_source() -> KafkaSource:
    """The checkout that KAFKA_SOURCE names.

    Raises:
        ConfigError: It names none.
    """
    if not (named := os.environ.get("KAFKA_SOURCE")):
        raise ConfigError(
            "KAFKA_SOURCE is not set; it names a checkout of apache/kafka, whose tests/kafkatest is not published as a "
            "package. Get one by `git clone --depth 1 --branch 4.3.0 URL-OF-APACHE-KAFKA FOLDER`, "
            "then `make kafkatest KAFKA_SOURCE=FOLDER`"
        )
    return KafkaSource(Path(named).expanduser().resolve())


def check_machine() -> None:
    """Raises MachineError if the nodes can't run here."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise MachineError("the nodes are Linux namespaces with an sshd each, which only root can make; run it as root")
    missing = sorted(program for program in PACKAGES if shutil.which(program) is None)
    if missing:
        packages = " ".join(sorted({PACKAGES[program] for program in missing}))
        raise MachineError(f"missing: {', '.join(missing)}; on Debian or Ubuntu: apt-get install {packages}")
    for path in (ROOT, Path(sys.executable).resolve(), Path(sys.prefix).resolve(), java().executable):
        for hidden in HIDDEN:
            if path.is_relative_to(hidden):
                raise MachineError(f"{path}: each node has a {hidden} of its own and would not see it; move it")


def prepare(folder: Path, source: KafkaSource, version: str | None) -> str:
    """Fill the working folder: keys, sshd's settings, tools, a Kafka. Returns Kafka's version."""
    version = lay_out(source, version, folder / "kafka")
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "kafkatest", "-f", str(folder / "key")], check=True
    )
    # The shell of each remote command reads a .bashrc: root's may be slow, or hold a lock (pyenv) as the nodes end.
    (folder / "home").mkdir()
    (folder / "tools").mkdir()
    for name, text in TOOLS.items():
        tool = folder / "tools" / name
        tool.write_text(f"#!/bin/sh\n{text}")
        tool.chmod(0o755)
    executable = java().executable
    settings = {
        "path": f"{executable.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "java_home": executable.parent.parent,
        "flags": _FLAGS,
    }
    (folder / "sshd_config").write_text(_SSHD.format(folder=folder, **settings))
    return version


def ducktape_globals(client: str) -> str:
    """What kafkatest is told about the consumer to test: nothing for Java's."""
    if client == "java":
        return "{}"
    command = f"{sys.executable} -m kafka_assignors.integration.verifiable_member"
    ours = {
        "class": "kafkatest.services.verifiable_client.VerifiableClientApp",
        "exec_cmd": command,
        "pids": f"pgrep -f '^{command}'",  # not the shells that started it
    }
    return json.dumps({"VerifiableConsumer": ours})


def collect(python: Path, folder: Path) -> list[Case]:
    """All cases of consumer_test."""
    done = subprocess.run(
        [str(python), "-m", "ducktape", "--collect-only", str(folder / "source" / TESTS / "client/consumer_test.py")],
        cwd=folder, env=os.environ | environment(folder), capture_output=True, text=True, check=False,
    )  # fmt: skip
    cases = collected(done.stdout + done.stderr)
    if not cases:
        raise MachineError(f"ducktape found no tests: {(done.stdout + done.stderr)[-1000:]}")
    return cases


def environment(folder: Path) -> dict[str, str]:
    """Of ducktape: it imports kafkatest from the checkout, and leaves nothing there."""
    return {"PYTHONPATH": str(folder / "source/tests"), "PYTHONDONTWRITEBYTECODE": "1"}


def go_inside(folder: Path) -> int:
    """Run `inside` in its namespaces; they end with it, and with this process."""
    command = [
        "setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child",
        "--mount-proc", sys.executable, "-m", "tests.kafkatest.inside", str(folder),
    ]  # fmt: skip
    inside = subprocess.Popen(command, cwd=ROOT)

    def end(*_: object) -> None:
        inside.kill()
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    try:
        return inside.wait()
    except KeyboardInterrupt:
        inside.kill()  # everything below got the interrupt, too; ducktape would first wait for the running test
        print("interrupted; the nodes end", file=sys.stderr)
        return 128 + signal.SIGINT


def main() -> int:
    """Run the tests; exit code 1 if one fails, 2 for wrong input, 3 if this machine lacks something."""
    parser = argparse.ArgumentParser(prog="make kafkatest", description=__doc__)
    add = parser.add_argument
    add("--client", choices=["ours", "java"], default="ours", help="whose consumer is tested (default: ours)")
    add("--only", default="", metavar="REGEX", help="tests whose name(arguments) has it (default: all)")
    add("--protocol", choices=["classic", "consumer"], default="classic", help="consumer (KIP-848): Java's only")
    add("--kafka", metavar="VERSION", help="of the jars (default: the pinned one of the source's minor version)")
    add("--nodes", type=int, default=10, help="the largest test needs 10")
    add("--list", action="store_true", help="print the names of the tests and end")
    given = parser.parse_args()
    try:
        if given.client == "ours" and given.protocol == "consumer":
            raise ConfigError("--protocol consumer: our members speak the classic protocol only; add --client java")
        source = named_source()
        check_machine()
        folder = ROOT / "build/kafkatest" / time.strftime(f"%Y%m%d-%H%M%S-{given.client}")
        folder.mkdir(parents=True)
        (folder / "source").symlink_to(source.folder)  # ducktape's report wants the tests below its working directory
        python = ducktape(source, ROOT / "build/kafkatest/venv")
        cases = selected(collect(python, folder), given.protocol, given.only)
        if not cases:
            raise ConfigError(f"--only {given.only}: no test of {source.folder / TESTS}/client/consumer_test.py has it")
        if given.list:
            print("\n".join(case.name for case in cases))
            shutil.rmtree(folder)
            return 0
        version = prepare(folder, source, given.kafka)
    except MachineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except KafkaAssignorsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{len(cases)} tests of {source.version} on Kafka {version} with {given.client}; in {folder}", flush=True)
    command = [
        str(python), "-m", "ducktape", "--cluster", "ducktape.cluster.json.JsonCluster", "--cluster-file",
        str(folder / "cluster.json"), "--results-root", str(folder / "results"), "--globals",
        ducktape_globals(given.client), *(case.symbol for case in cases),
    ]  # fmt: skip
    plan = {"nodes": given.nodes, "sshd": shutil.which("sshd"), "command": command, "environment": environment(folder)}
    (folder / "plan.json").write_text(json.dumps(plan))
    code = go_inside(folder)
    for report in sorted((folder / "results").glob("*/report.json")):
        if not report.parent.is_symlink():
            print("\n".join(outcomes(report)))
    return code if code > 128 else int(code != 0)


if __name__ == "__main__":
    sys.exit(main())
