"""Docker's tests where there is no Docker: told so that nobody overlooks it, and an error where Docker is required."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.programs import python

pytestmark = pytest.mark.slow
SUITE = """
import pytest

def test_plain(): pass

@pytest.mark.docker
def test_needs_an_engine(): pass
"""


def run_without_an_engine(tmp_path: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a suite of two tests under the real conftest, with an address where no engine is."""
    (tmp_path / "test_two.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = docker: needs an engine\n")
    environment = {k: v for k, v in os.environ.items() if k != "REQUIRE_DOCKER"}
    environment |= {"DOCKER_HOST": f"unix://{tmp_path}/docker.sock", "PYTHONPATH": str(ROOT), **variables}
    return python("-m", "pytest", "-p", "tests.conftest", *arguments, cwd=tmp_path, env=environment)


@pytest.mark.slow
def test_without_an_engine_the_summary_shouts(tmp_path):
    done = run_without_an_engine(tmp_path)

    assert done.returncode == 0
    assert "!! NOT RUN: docker !!" in done.stdout
    assert "  test_two.py::test_needs_an_engine" in done.stdout
    assert f"1 tests of the docker backend did not run: no Docker engine answers at unix://{tmp_path}" in done.stdout
    assert done.stdout.splitlines()[-1].strip("= ").startswith("1 passed, 1 skipped"), "the closing line comes last"


# long: one more run of pytest within a run; the first test has the summary, plugin/test_require.py the error
@pytest.mark.long
def test_where_docker_is_required_its_absence_is_an_error(tmp_path):
    done = run_without_an_engine(tmp_path, REQUIRE_DOCKER="1")

    assert done.returncode == 1
    assert "REQUIRE_DOCKER=1, but no Docker engine answers" in done.stdout
    assert "NOT RUN" not in done.stdout
    assert re.search(r"1 passed,.* 1 error", done.stdout.splitlines()[-1])


@pytest.mark.long  # long: one more run of pytest within a run
def test_deselected_tests_are_no_reason_to_shout(tmp_path):
    done = run_without_an_engine(tmp_path, "-m", "not docker", REQUIRE_DOCKER="1")

    assert done.returncode == 0
    assert "NOT RUN" not in done.stdout


@pytest.mark.long  # long: runs of pytest within a run; plugin/test_pytest_plugin.py has such options, too
@pytest.mark.parametrize(
    "options", [["--kafka-backend=external"], ["--kafka-bootstrap=127.0.0.1:9092"], ["--kafka-backend=podman"]]
)
def test_options_that_do_not_go_together_stop_the_run(tmp_path, options):
    done = run_without_an_engine(tmp_path, *options)

    assert done.returncode == 4
    assert "--kafka-backend" in done.stderr
    assert "passed" not in done.stdout
