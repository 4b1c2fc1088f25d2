"""``python -m tests.kafkatest.inside FOLDER``, in namespaces of its own: a bridge, nodes, and ducktape on them.

`__main__` starts it as the first process of a process namespace, with a network and mounts of its own. Each node is a
further set of namespaces, in which sshd is the first process. When this program ends, in whatever way, the kernel ends
every process in it, and bridge, links and mounts go with their namespaces.

Source: apache/kafka ``tests/README.md`` and ``tests/docker/Dockerfile`` (what a node is expected to have).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BRIDGE = "kafkatest"
_NODE = """\
set -e
read -r go
ip link set lo up
ip address add "$2/24" dev eth0
ip link set eth0 up
hostname "$1"
mount -t tmpfs none /run
mkdir /run/sshd
mount -t tmpfs none /mnt
mount -t tmpfs none /opt
mkdir /opt/kafka-dev
mount --bind "$3/kafka" /opt/kafka-dev
exec "$4" -D -e -f "$3/sshd_config"
"""
READY_S = 20


def address(number: int) -> str:
    """The address of a node; 0 is the bridge."""
    return f"10.99.0.{1 if number == 0 else 10 + number}"


def name_of(number: int) -> str:
    """The host name of a node."""
    return f"node{number:02}"


def run(*command: str) -> None:
    """Run a command; an error has what it said.

    Raises:
        RuntimeError: It failed.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def wait_until(condition: Any, what: str) -> None:
    """Wait `READY_S` seconds at most.

    Raises:
        TimeoutError: In vain.
    """
    deadline = time.monotonic() + READY_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} after {READY_S} s")
        time.sleep(0.02)


def start_node(number: int, folder: Path, sshd: str) -> None:
    """Start a node and link it to the bridge; it listens soon."""
    name = name_of(number)
    with (folder / f"{name}.log").open("wb") as log:
        node = subprocess.Popen(
            ["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", _NODE, "sh", name, address(number), str(folder), sshd],
            stdin=subprocess.PIPE, stdout=log, stderr=log,
        )  # fmt: skip
    own, its = (Path(f"/proc/{process}/ns/net") for process in ("self", node.pid))
    wait_until(lambda: own.readlink() != its.readlink(), f"network namespace of {name}")
    run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(node.pid))
    run("ip", "link", "set", name, "master", BRIDGE, "up")
    assert node.stdin is not None
    node.stdin.write(b"go\n")
    node.stdin.close()


def answers(number: int) -> bool:
    """Whether a node's sshd listens."""
    try:
        with socket.create_connection((address(number), 22), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def cluster(nodes: int, folder: Path) -> dict[str, Any]:
    """What ducktape wants to know about the nodes."""
    return {
        "nodes": [
            {
                "externally_routable_ip": address(number),
                "ssh_config": {
                    "host": name_of(number), "hostname": name_of(number), "port": 22, "user": "root",
                    "identityfile": str(folder / "key"), "password": None,
                },
            }
            for number in range(1, nodes + 1)
        ]
    }  # fmt: skip


def main(folder: Path) -> int:
    """Start the nodes of ``plan.json`` and run ducktape; returns its exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan = json.loads((folder / "plan.json").read_text())
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "address", "add", f"{address(0)}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    numbers = range(1, plan["nodes"] + 1)
    hosts = [f"{address(number)} {name_of(number)}" for number in numbers]
    (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *hosts, ""]))
    run("mount", "--bind", str(folder / "hosts"), "/etc/hosts")
    for number in numbers:
        start_node(number, folder, plan["sshd"])
    for number in numbers:
        wait_until(lambda n=number: answers(n), f"sshd on node {number}; see {folder}/{name_of(number)}.log")
    (folder / "cluster.json").write_text(json.dumps(cluster(plan["nodes"], folder)))
    done = subprocess.run(plan["command"], cwd=folder, env={**os.environ, **plan["environment"]}, check=False)
    return done.returncode


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1])))
    except KeyboardInterrupt:
        sys.exit(130)
    except (RuntimeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
