"""Real histories with what ``docs/histories`` lacks: transforming members, a paused one.

``python -m tests.support.histories.recorded NAME...`` plays each by ``kafka-assignors test`` on a broker of its own,
and keeps it as ``tests/vectors/histories/NAME.tar.xz`` if its verdict is true. What a history shows does not depend on
when it was recorded; its times and ids do.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from kafka_assignors.integration.broker import KAFKA_VERSION
from kafka_assignors.integration.history.manifest import NAME as MANIFEST
from tests.matrix.kept import keep
from tests.support.places import ROOT

FOLDER = ROOT / "tests" / "vectors" / "histories"
PLAYED: Mapping[str, tuple[str, ...]] = {"exactly-once": ("exactly-once",), "pause": ("pause",)}
"""Kept history -> the scenario and its options."""


def record(name: str) -> int:
    """Play one, and keep its history; returns the exit code of the command."""
    with TemporaryDirectory() as folder:
        out = Path(folder, "run")
        code = subprocess.run(
            [sys.executable, "-m", "kafka_assignors", "test", *PLAYED[name], "--out", str(out)], check=False
        ).returncode
        if code == 0:
            (manifest,) = out.rglob(MANIFEST)
            keep(manifest.parent, KAFKA_VERSION, FOLDER / f"{name}.tar.xz")
    return code


def main(names: Sequence[str]) -> int:
    return max(record(name) for name in names or PLAYED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
