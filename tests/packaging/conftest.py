"""The distribution, built as a release is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.programs import ran


@pytest.fixture(scope="package")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout the way a release is."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)]  # sdist, and the wheel from it
    done = ran(*command, within_s=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.whl")
    return path
