"""The two runs of `make test`, and what only `make test-release` has: small suites under the real conftest."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.programs import python

pytestmark = pytest.mark.release("`make test` is these two runs, and collects every mark")
ONE = ("--numprocesses", "1")
FILES = {
    "pytest.ini": "[pytest]\nmarkers =\n    broker: needs one\n    release: further\n",
    "test_pure.py": "open('read', 'a').write('pure ')\ndef test_pure(): pass\n",
    "test_mixed.py": """
import pytest
open("read", "a").write("mixed ")
def test_without(): pass
@pytest.mark.broker
def test_with(): pass
""",
}


def ran(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    for name, text in FILES.items():
        (folder / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return python("-m", "pytest", "-p", "tests.conftest", *arguments, cwd=folder, env=environment)


def test_the_second_run_reads_no_file_whose_tests_need_no_broker(tmp_path: Path) -> None:
    files, result = tmp_path / "files", tmp_path / "result.xml"
    first = ran(tmp_path, "-m", "not broker", f"--junitxml={result}", *ONE, PURE_FILES=str(files))
    assert first.stdout.splitlines()[-1].strip("= ").startswith("2 passed")
    assert files.read_text() == f"{tmp_path / 'test_pure.py'}\n"

    second = ran(tmp_path, "-m", "broker", *ONE, PURE_FILES=str(files), PURE_TESTS=str(result))
    assert "2 tests, 0 failures, 0 errors, 0 skipped" in second.stdout
    assert second.stdout.splitlines()[-1].strip("= ").startswith("1 passed")
    assert sorted((tmp_path / "read").read_text().split()) == ["mixed", "mixed", "pure"]


def test_what_only_a_release_has_says_what_the_usual_run_has_instead(tmp_path: Path) -> None:
    (tmp_path / "test_further.py").write_text("import pytest\n@pytest.mark.release\ndef test_further(): pass\n")
    done = ran(tmp_path)
    assert done.returncode == 4
    assert "test_further.py::test_further: release(reason) names what `make test` has instead" in done.stderr
