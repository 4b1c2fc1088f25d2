"""`make release-check` says what it doesn't know: a service that can't be reached is neither a pass nor a failure."""

from __future__ import annotations

import importlib.util
import json
from types import ModuleType

import pytest

from tests.support.places import ROOT


@pytest.fixture
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release_check", ROOT / ".ci" / "release_check.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def answer(*rows: dict[str, object]) -> str:
    return json.dumps({"dependencies": rows})


SKIPPED = {"name": "numpy", "skip_reason": "Dependency not found and could not be audited: numpy (2.4.6)"}
CLEAN = {"name": "scipy", "version": "1.17.1", "vulns": []}
DEFECTIVE = {"name": "scipy", "version": "1.17.1", "vulns": [{"id": "PYSEC-1"}]}


@pytest.mark.parametrize(
    ("out", "err", "failed", "unknown"),
    [
        (answer(CLEAN), "", [], []),
        (answer(DEFECTIVE), "", ["pip-audit: scipy has PYSEC-1"], []),
        (answer(CLEAN, SKIPPED), "", [], ["1 of 2"]),
        (answer(DEFECTIVE, SKIPPED), "", ["pip-audit: scipy has PYSEC-1"], ["1 of 2"]),
        (answer(), "", [], ["1 of 1"]),
        ("", "ConnectionError: refused", [], ["ConnectionError: refused"]),
        ("{}", "", [], ["no answer"]),
    ],
)
def test_what_pip_audit_says(
    check: ModuleType, capsys: pytest.CaptureFixture[str], out: str, err: str, failed: list[str], unknown: list[str]
) -> None:
    check.audited(out, err, max(1, out.count('"name"')))

    assert check.failed == failed
    assert len(check.unknown) == len(unknown)
    assert all(part in line for part, line in zip(unknown, check.unknown, strict=True))
    capsys.readouterr()
    assert check.told() == bool(failed)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"release-check: {len(failed)} failed, {len(unknown)} unknown")
    assert ("NOT a whole check" in last) == bool(unknown)
