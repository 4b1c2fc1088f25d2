"""A user's suite, run by pytest in a folder of its own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.support.programs import python


def pytest_in(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A pytest run of its own, with the folder's tests in the order of their files."""
    return python("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", *options, within_s=240, cwd=folder)


def report_of(test: str, shown: str) -> str:
    (report,) = re.findall(rf"^_+ {test} _+$(.*?)^[_=]{{3,}} ", shown, re.MULTILINE | re.DOTALL)
    return str(report)
