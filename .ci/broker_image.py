"""Build an image for the `docker` backend if no registry is reachable.

Run in a checkout by ``.venv/bin/python .ci/broker_image.py``.

The image has Debian's base system and Java from apt's configured mirror (``debootstrap``), and the pinned Kafka
jars in ``/opt/kafka/libs``, as in the official image. It starts like the official one: ``KAFKA_A_B=c`` in
the environment is the property ``a.b=c``, so ``docker-compose.yml`` works with either. Needs root, debootstrap and a
Docker engine; takes about a minute. An existing image of the same parts is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from kafka_assignors.errors import KafkaAssignorsError, MachineError
from kafka_assignors.integration.broker import KAFKA_VERSION
from kafka_assignors.integration.broker.nodes.docker import docker_problem
from kafka_assignors.integration.errors import DockerUnavailable
from kafka_assignors.jvm import kafka_jars

DEFAULT_NAME = "kafka-assignors-broker"
_PACKAGES = "default-jre-headless,ca-certificates"
_LABEL = "kafka-assignors.content"
_ENTRYPOINT = "/opt/kafka/docker/run"
# files that a broker does not read
_LEFT_OUT = ("./var/cache/apt", "./var/lib/apt/lists", "./usr/share/doc", "./usr/share/man", "./usr/share/locale")

# The official image's rule for names: ___ is a dash, __ an underscore, _ a dot.
_RUN = r"""#!/bin/sh
set -e
properties=/tmp/server.properties
awk 'BEGIN {
    for (name in ENVIRON) {
        if (name !~ /^KAFKA_/ || name ~ /^KAFKA_(VERSION|(.*_)?OPTS|(TOOLS_)?LOG4J_.*|JMX_.*)$/) continue
        key = tolower(substr(name, 7))
        gsub(/___/, "-", key); gsub(/__/, "\001", key); gsub(/_/, ".", key); gsub(/\001/, "_", key)
        value = ENVIRON[name]
        gsub(/\\/, "\\\\", value)
        print key "=" value
    }
}' > "$properties"
set -- ${KAFKA_HEAP_OPTS:--Xmx512m} ${KAFKA_JVM_PERFORMANCE_OPTS:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC} $KAFKA_OPTS
set -- "$@" -cp '/opt/kafka/libs/*'
data=$(sed -n 's/^log\.dirs=//p' "$properties")
if [ ! -f "${data%%,*}/meta.properties" ]; then
    java "$@" kafka.tools.StorageTool format -t "${CLUSTER_ID:?name the cluster by CLUSTER_ID}" -c "$properties"
fi
exec java "$@" kafka.Kafka "$properties"
"""


def build(name: str, version: str = KAFKA_VERSION) -> str:
    """Build the image ``name:version`` and return that name.

    Raises:
        MachineError: Not root, no debootstrap, no mirror, or a failed step; the message names it.
        DockerUnavailable: No engine answers.
    """
    tag = f"{name}:{version}"
    if problem := docker_problem():
        raise DockerUnavailable(f"{problem}; start an engine to build {tag}")
    jars = kafka_jars(version)
    parts = [_PACKAGES, *(jar.name for jar in jars), _RUN]
    content = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    if _label(tag) == content:
        print(f"{tag} already exists", file=sys.stderr)
        return tag
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise MachineError(
            f"building {tag} needs root and debootstrap (apt-get install debootstrap); "
            "if a registry is reachable, use the official image instead"
        )
    release, mirror = _mirror()
    root = Path(tempfile.mkdtemp(prefix="kafka-image-"))
    try:
        _step(
            f"Debian {release} with Java",
            ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", release, str(root), mirror],
        )
        libs = root / "opt" / "kafka" / "libs"
        libs.mkdir(parents=True)
        for jar in jars:
            shutil.copy(jar, libs)
        entrypoint = root / _ENTRYPOINT.lstrip("/")
        entrypoint.parent.mkdir()
        entrypoint.write_text(_RUN)
        entrypoint.chmod(0o755)
        left_out = " ".join(f"--exclude={path}/*" for path in _LEFT_OUT)
        change = f"--change 'LABEL {_LABEL}={content}' --change 'ENTRYPOINT [\"{_ENTRYPOINT}\"]'"
        _step(
            f"image {tag}",
            ["sh", "-c", f'set -e; tar -C "$0" {left_out} -c . | docker import {change} - "$1"', str(root), tag],
        )
    finally:
        _remove(root)
    return tag


def _mirror() -> tuple[str, str]:
    """(release, URI) of apt's mirror for this system."""
    release = ""
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            release = line.partition("=")[2].strip('"')
    targets = ["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(targets, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        found, _, uri = line.partition(" ")
        if release and found == release:
            return release, uri
    raise MachineError(
        f"apt has no mirror for the release {release!r} of /etc/os-release; is this Debian, and is there a source "
        f"for it under /etc/apt? {done.stderr.strip()}"
    )


def _step(what: str, command: Sequence[str]) -> None:
    print(f"{what} …", file=sys.stderr, flush=True)
    began = time.monotonic()
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise MachineError(f"{what}: {command[0]} ended with {done.returncode}:\n{tail}")
    print(f"{what}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _label(tag: str) -> str | None:
    import docker

    client = docker.from_env()
    try:
        return str(client.images.get(tag).labels.get(_LABEL))
    except docker.errors.ImageNotFound:
        return None
    finally:
        client.close()


def _remove(root: Path) -> None:
    # an interrupted debootstrap may leave /proc and /sys mounted inside: never delete through a mount
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((m for m in mounts if m.startswith(f"{root}/")), reverse=True):
        subprocess.run(["umount", mount], stdin=subprocess.DEVNULL, check=True)
    shutil.rmtree(root)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line: build, and print the image's name. Exit code 0, or 3 after an error."""
    parser = argparse.ArgumentParser(prog=".ci/broker_image.py", description="Build a broker image.")
    parser.add_argument("name", nargs="?", default=DEFAULT_NAME, help="without the version (default: %(default)s)")
    parser.add_argument("--kafka", default=KAFKA_VERSION, metavar="VERSION", help="default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        print(build(options.name, options.kafka))
    except KafkaAssignorsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
